/* The tower over videos against the official code's tensors, in f32: patches of pairs of frames, each block, merged tokens and
 * deepstack. Prompts and answers of the video cases wait for requests with videos. */
#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "engine/encode_job.h"
#include "engine/model.h"
#include "image/patches.h"
#include "image/resize.h"
#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"
#include "vision/vision_run.h"

static const double BOUND = 1e-4; /* relative L2 of the worst row */

/* All frames of a case's only video after the resize, [n_frames, height, width, 3]. The caller frees. */
static uint8_t *resized_frames(const struct golden_case *c, int64_t *n_frames, int32_t height, int32_t width) {
  struct omma_error error;
  const json_t *files = json_object_get(json_array_get(json_object_get(c->json, "videos"), 0), "video");
  size_t bytes = (size_t)height * (size_t)width * 3, size;
  *n_frames = (int64_t)json_array_size(files);
  uint8_t *pixels = malloc((size_t)*n_frames * bytes);
  for (int64_t i = 0; i < *n_frames; i++) {
    struct omma_image *frame = fixture_picture(json_string_value(json_array_get(files, (size_t)i)));
    int32_t from_width = (int32_t)omma_image_width(frame), from_height = (int32_t)omma_image_height(frame);
    assert_ok(ommai_resize_workspace(OMMAI_RESIZE_INT16, from_width, from_height, width, height, &size, &error), &error);
    void *workspace = aligned_alloc(64, (size + 63) / 64 * 64);
    assert_ok(ommai_resize_bicubic(OMMAI_RESIZE_INT16, omma_image_pixels(frame), from_width, from_height,
                                   pixels + (size_t)i * bytes, width, height, workspace, size, NULL, &error),
              &error);
    free(workspace);
    omma_image_destroy(frame);
  }
  return pixels;
}

static void check_patches(const struct golden_case *c, const struct ommai_patch_spec *spec,
                          const struct ommai_vision_input *input) {
  struct omma_error error;
  int64_t length = ommai_patch_length(spec), plane = input->grid_rows * input->grid_columns;
  int32_t width = (int32_t)input->grid_columns * spec->patch_size, height = (int32_t)input->grid_rows * spec->patch_size;
  int64_t n_planes = (input->n_frames + spec->temporal - 1) / spec->temporal;
  float *got = malloc((size_t)(n_planes * plane * length) * sizeof *got);
  for (int64_t p = 0; p < n_planes; p++) {
    const uint8_t *frames[OMMAI_PATCH_MAX_TEMPORAL];
    for (int32_t t = 0; t < spec->temporal; t++) {
      int64_t frame = p * spec->temporal + t < input->n_frames ? p * spec->temporal + t : input->n_frames - 1;
      frames[t] = input->pixels + frame * height * width * 3;
    }
    assert_ok(
        ommai_patches_from_frames(spec, frames, width, height, 0, plane, got + p * plane * length, length, OMMA_F32, &error),
        &error);
  }
  const struct ommai_tensor *tensor = golden_tensor(c, "video.patches_u8");
  const uint8_t *expected = tensor->data;
  assert_int_equal(tensor->n_elements, golden_stored_rows(c, n_planes * plane) * length);
  for (int64_t i = 0; i < tensor->n_elements; i++) {
    int64_t channel = i % length / (length / 3);
    float value = got[golden_row(c, i / length, n_planes * plane) * length + i % length];
    assert_int_equal(lrintf(255 * (value * spec->std[channel] + spec->mean[channel])), expected[i]);
  }
  free(got);
}

/* Compares output slot `slot` of the tower. */
static void check_slot(const struct omma_model *model, const struct golden_case *c, const struct ommai_vision_input *input,
                       int64_t slot, const char *name) {
  int64_t merge = model->config.vision.merge_size, width = model->config.vision.out_hidden_size;
  int64_t n_tokens =
      ommai_vision_input_planes(&model->config.vision, input) * input->grid_rows * input->grid_columns / (merge * merge);
  golden_expect(c, name, input->output + slot * n_tokens * width, n_tokens, width, BOUND);
}

static void check_tower(const struct omma_model *model, const struct golden_case *c, struct ommai_vision_input *input) {
  struct omma_error error;
  struct ommai_vision_sizes sizes = {0};
  assert_ok(ommai_vision_sizes_add(&model->config.vision, input, &sizes, &error), &error);
  int64_t n_tokens = sizes.n_patches / (model->config.vision.merge_size * model->config.vision.merge_size);
  input->output = malloc((size_t)ommai_encode_output_size(model, n_tokens) * sizeof *input->output);
  size_t size = ommai_vision_workspace_size(&model->tower, &sizes, 1);
  void *workspace = aligned_alloc(64, (size + 63) / 64 * 64);
  struct ommai_vision_run *run;
  struct golden_tap tap = {c, BOUND, 0};
  assert_ok(
      ommai_vision_run_start(&model->tower, input, 1, &model->config.picture.patches, workspace, size, NULL, &run, &error),
      &error);
  ommai_vision_run_set_tap(run, golden_tap_vision, &tap);
  while (!ommai_vision_run_done(run)) assert_ok(ommai_vision_run_advance(run, 3, &error), &error);
  assert_int_equal(tap.n_checked, golden_count_stages(c, "vision.position_added", "vision.block"));
  for (int64_t j = 0; j < model->config.vision.n_deepstack; j++) {
    char name[64];
    snprintf(name, sizeof name, "vision.deepstack.%lld", (long long)j);
    check_slot(model, c, input, 1 + j, name);
  }
  check_slot(model, c, input, 0, "vision.merged");
  free(input->output);
  free(workspace);
}

static void towers_see_videos_as_the_official_ones(void **state) {
  (void)state;
  size_t n_checked = 0;
  for (size_t m = 0; golden_models[m]; m++) {
    json_t *manifest = golden_manifest(golden_models[m]);
    struct golden_case c;
    for (size_t i = 0; golden_video_case_open(golden_models[m], manifest, i, &c); i++) {
      if (golden_has(&c, "vision.merged")) {
        struct omma_model *model = fixture_model(golden_models[m], NULL);
        const struct ommai_patch_spec *spec = &model->config.picture.patches;
        int64_t *grid = golden_i64(&c, "video.0.grid_thw", NULL);
        struct ommai_vision_input input = {.grid_rows = grid[1], .grid_columns = grid[2]};
        uint8_t *pixels =
            resized_frames(&c, &input.n_frames, (int32_t)grid[1] * spec->patch_size, (int32_t)grid[2] * spec->patch_size);
        input.pixels = pixels;
        check_patches(&c, spec, &input);
        check_tower(model, &c, &input);
        free(pixels);
        free(grid);
        omma_model_close(model);
        n_checked++;
      }
      golden_case_close(&c);
    }
    json_decref(manifest);
  }
  assert_int_equal(n_checked, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(towers_see_videos_as_the_official_ones)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
