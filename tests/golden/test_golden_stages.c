/* Every stage of the network against the official code's tensors, in f32: pixels, patches, prompt
 * ids, positions, each block of the tower, merged tokens, deepstack, each decoder layer, logits;
 * for images and videos. The first stage that differs is named. */
#include <math.h>
#include <stdlib.h>

#include "image/patches.h"
#include "model/image_prepare.h"
#include "support/golden.h"
#include "support/stage_run.h"
#include "support/test.h"

static const double BOUND = 1e-4;       /* relative L2 of the worst row */
static const float PIXEL_BOUND = 2e-6f; /* the ways to normalise a pixel differ by their rounding */

static struct omma_model *open_model(const char *name, enum omma_weight_type weights) {
  char path[1024];
  struct omma_error error;
  struct omma_model *model;
  struct omma_model_options options = {.weights = weights, .n_threads = 2};
  golden_path(name, NULL, path, sizeof path);
  assert_ok(omma_model_open(path, &options, &model, &error), &error);
  return model;
}

static struct omma_request *make_request(const struct omma_model *model, const struct golden_case *c) {
  struct omma_error error;
  struct omma_request *request;
  const struct omma_request_options options = {.continue_final_message = c->continued};
  assert_ok(omma_request_create(model, c->messages, c->n_messages, &options, &request, &error), &error);
  return request;
}

/* ---- prompt ---- */

static void check_prompt(const struct omma_request *request, const struct golden_case *c) {
  int64_t n, n_positions;
  int64_t *ids = golden_i64(c, "language.input_ids", &n), *positions = golden_i64(c, "language.position_ids", &n_positions);
  int64_t *delta = golden_i64(c, "language.rope_delta", NULL);
  assert_int_equal(request->n_tokens, n);
  assert_int_equal(n_positions, 3 * n);
  for (int64_t i = 0; i < n; i++) {
    if (request->ids[i] != ids[i])
      fail_msg("%s, %s: prompt id %d is %d, expected %d", c->model, c->name, (int)i, request->ids[i], (int)ids[i]);
    for (int axis = 0; axis < 3; axis++) {
      if (request->tokens[i].position[axis] != positions[axis * n + i]) {
        fail_msg("%s, %s: position %d of token %d is %d, expected %d", c->model, c->name, axis, (int)i,
                 request->tokens[i].position[axis], (int)positions[axis * n + i]);
      }
    }
  }
  assert_int_equal(request->next_position, n + delta[0]);
  free(ids);
  free(positions);
  free(delta);
}

static void check_bytes(const struct golden_case *c, const char *image, const uint8_t *got, const struct ommai_tensor *pixels) {
  const uint8_t *expected = pixels->data;
  for (int64_t i = 0; i < pixels->n_elements; i++) {
    if (got[i] != expected[i]) {
      fail_msg("%s, %s: byte %lld of the pixels is %d, expected %d", c->model, image, (long long)i, got[i], expected[i]);
    }
  }
}

static void check_pixel_values(const struct omma_request *request, const struct golden_case *c, size_t image,
                               const struct ommai_tensor *values) {
  struct omma_error error;
  int64_t n_patches = request->images[image].sizes.n_patches, width = values->shape[1];
  assert_int_equal(values->shape[0], golden_stored_rows(c, n_patches));
  float *got = malloc((size_t)(n_patches * width) * sizeof *got), *expected = malloc((size_t)values->size_bytes);
  assert_true(ommai_tensor_to_f32(values, 0, values->n_elements, expected));
  assert_ok(omma_preprocess(request->model, c->images[image], NULL, got, (size_t)(n_patches * width), &error), &error);
  for (int64_t i = 0; i < values->n_elements; i++) {
    float value = got[golden_row(c, i / width, n_patches) * width + i % width];
    assert_true(fabsf(value - expected[i]) <= PIXEL_BOUND);
  }
  free(got);
  free(expected);
}

/* Where patch i stands in the official processor's order, in patches. */
static void official_place(const struct golden_case *c, const struct ommai_patch_spec *spec, int64_t columns, int64_t i,
                           int64_t *row, int64_t *column) {
  static const char *const raster_families[] = {"kimi_vl", "paddleocr_vl", "lighton_ocr"};
  bool raster = false;
  for (size_t f = 0; f < 3; f++) raster |= strncmp(c->model, raster_families[f], strlen(raster_families[f])) == 0;
  int64_t merge = raster ? 1 : spec->merge_size, block = i / (merge * merge);
  *row = block / (columns / merge) * merge + i % (merge * merge) / merge;
  *column = block % (columns / merge) * merge + i % merge;
}

/* omma_preprocess gives patches in that order: the first pixel of each. */
static void check_patch_order(const struct omma_request *request, const struct golden_case *c, size_t image) {
  struct omma_error error;
  const struct ommai_prepared_image *prepared = &request->images[image];
  const struct ommai_patch_spec *spec = &request->model->config.image.patches;
  int64_t n_patches = prepared->sizes.n_patches, length = ommai_patch_length(spec), columns = prepared->sizes.grid_thw[2], row,
          column;
  float *got = malloc((size_t)(n_patches * length) * sizeof *got);
  assert_ok(omma_preprocess(request->model, c->images[image], NULL, got, (size_t)(n_patches * length), &error), &error);
  for (int64_t i = 0; i < n_patches; i++) {
    official_place(c, spec, columns, i, &row, &column);
    const uint8_t *pixel = prepared->pixels + (row * spec->patch_size * columns + column) * spec->patch_size * 3;
    for (int k = 0; k < 3; k++) {
      float expected = ((float)pixel[k] - 255 * spec->mean[k]) / (255 * spec->std[k]);
      assert_true(fabsf(got[i * length + k * (length / 3)] - expected) <= PIXEL_BOUND);
    }
  }
  free(got);
}

static void check_pixels(const struct omma_request *request, const struct golden_case *c) {
  char name[256];
  for (size_t i = 0; i < c->n_images; i++) {
    const struct ommai_prepared_image *image = &request->images[i];
    const struct ommai_tensor *pixels = golden_pixels(c, i);
    assert_int_equal(pixels->shape[0], image->sizes.resized_height);
    assert_int_equal(pixels->shape[1], image->sizes.resized_width);
    check_bytes(c, c->image_names[i], image->pixels, pixels);
    snprintf(name, sizeof name, "image.%s.pixel_values", c->image_names[i]);
    const struct ommai_tensor *values = ommai_safetensors_find(c->image_tensors, name);
    if (values) check_pixel_values(request, c, i, values);
    check_patch_order(request, c, i);
  }
}

/* The fewest patch rows and columns of an image so far. */
static void find_min_grid(const struct omma_request *request, const struct golden_case *c, int64_t min_grid[2]) {
  for (size_t i = 0; c->n_videos == 0 && i < c->n_images; i++) {
    const int64_t *grid = &request->images[i].sizes.grid_thw[1];
    for (int axis = 0; axis < 2; axis++) {
      if (grid[axis] < min_grid[axis]) min_grid[axis] = grid[axis];
    }
  }
}

/* ---- videos ---- */

/* Temporal patches of frames, cut into patches, as the 8-bit values that they were. */
static void check_patches(const struct golden_case *c, const struct ommai_patch_spec *spec,
                          const struct ommai_vision_input *input) {
  struct omma_error error;
  int64_t length = ommai_patch_length(spec), temporal_patch = input->grid_rows * input->grid_columns;
  int32_t width = (int32_t)input->grid_columns * spec->patch_size, height = (int32_t)input->grid_rows * spec->patch_size;
  int64_t n_temporal_patches = (input->n_frames + spec->temporal - 1) / spec->temporal;
  float *got = malloc((size_t)(n_temporal_patches * temporal_patch * length) * sizeof *got);
  for (int64_t p = 0; p < n_temporal_patches; p++) {
    const uint8_t *frames[OMMAI_PATCH_MAX_TEMPORAL];
    for (int32_t t = 0; t < spec->temporal; t++) {
      int64_t frame = p * spec->temporal + t < input->n_frames ? p * spec->temporal + t : input->n_frames - 1;
      frames[t] = input->pixels + frame * height * width * 3;
    }
    assert_ok(ommai_patches_from_frames(spec, frames, width, height, 0, temporal_patch, got + p * temporal_patch * length,
                                        length, OMMA_F32, &error),
              &error);
  }
  const struct ommai_tensor *tensor = golden_tensor(c, "video.patches_u8");
  const uint8_t *expected = tensor->data;
  assert_int_equal(tensor->n_elements, golden_stored_rows(c, n_temporal_patches * temporal_patch) * length);
  for (int64_t i = 0; i < tensor->n_elements; i++) {
    int64_t channel = i % length / (length / 3);
    float value = got[golden_row(c, i / length, n_temporal_patches * temporal_patch) * length + i % length];
    assert_int_equal(lrintf(255 * (value * spec->std[channel] + spec->mean[channel])), expected[i]);
  }
  free(got);
}

/* Grids of a case's videos, and the patches where the case has them. */
static void check_videos(const struct omma_model *model, const struct omma_request *request, const struct golden_case *c) {
  size_t n = 0;
  for (size_t i = 0; i < c->messages[0].n_parts; i++) {
    const struct omma_part *part = &c->parts[0][i];
    const struct ommai_prepared_image *image = &request->images[n];
    n += part->image || part->video;
    if (!part->video) continue;
    char name[64];
    snprintf(name, sizeof name, "video.%d.grid_thw", (int)(part->video - c->videos));
    int64_t *grid = golden_i64(c, name, NULL);
    for (int axis = 0; axis < 3; axis++) assert_int_equal(image->sizes.grid_thw[axis], grid[axis]);
    free(grid);
    const struct ommai_vision_input input = {.pixels = image->pixels,
                                             .n_frames = image->n_frames,
                                             .grid_rows = image->sizes.grid_thw[1],
                                             .grid_columns = image->sizes.grid_thw[2]};
    if (golden_has(c, "video.patches_u8")) check_patches(c, &model->config.image.patches, &input);
  }
}

/* ---- tower ---- */

/* Joins slot `slot` of all images and compares. */
static void check_slot(const struct omma_model *model, const struct omma_request *request, const struct golden_case *c,
                       const struct ommai_vision_input *inputs, int64_t slot, const char *name) {
  int64_t n_rows;
  float *joined = stage_run_slot(model, request, inputs, slot, &n_rows);
  golden_expect(c, name, joined, n_rows, model->config.vision.out_hidden_size, BOUND);
  free(joined);
}

static float *check_tower(const struct omma_model *model, const struct omma_request *request, const struct golden_case *c,
                          struct ommai_vision_input *inputs) {
  const uint8_t *pixels[GOLDEN_MAX_IMAGES];
  struct golden_observer observer = {c, BOUND, 0};
  /* The official pixels: a family's own may be off by a unit, which is no error of its tower. */
  for (size_t i = 0; c->n_videos == 0 && i < request->n_images; i++) pixels[i] = golden_pixels(c, i)->data;
  float *values = stage_run_tower(model, request, c->n_videos ? NULL : pixels, NULL, golden_observe_vision, &observer, inputs);
  assert_int_equal(observer.n_checked, golden_count_stages(c, "vision.position_added", "vision.block"));
  if (!golden_has(c, "vision.merged")) return values;
  for (int64_t j = 0; j < model->config.vision.n_deepstack; j++) {
    char name[64];
    snprintf(name, sizeof name, "vision.deepstack.%lld", (long long)j);
    check_slot(model, request, c, inputs, 1 + j, name);
  }
  check_slot(model, request, c, inputs, 0, "vision.merged");
  return values;
}

/* ---- decoder ---- */

static void observe_layer(void *context, int64_t layer, const float *residual, int64_t n_rows, int64_t width) {
  struct golden_observer *observer = context;
  char name[64];
  snprintf(name, sizeof name, "language.layer.%lld", (long long)layer);
  if (!golden_has(observer->c, name)) return;
  golden_expect(observer->c, name, residual, n_rows, width, observer->bound);
  observer->n_checked++;
}

static void check_decoder(const struct omma_model *model, const struct omma_request *request, struct golden_case *c,
                          const struct ommai_vision_input *inputs) {
  struct golden_observer observer = {c, BOUND, 0};
  float *logits = malloc((size_t)model->config.text.vocab_size * sizeof *logits);
  stage_run_decoder(model, request, inputs, NULL, observe_layer, &observer, logits);
  assert_int_equal(observer.n_checked, golden_count_stages(c, NULL, "language.layer"));
  golden_expect(c, "language.logits", logits, 1, model->config.text.vocab_size, BOUND);
  free(logits);
}

static void all_stages_equal_the_official_ones(void **state) {
  (void)state;
  size_t n_videos = 0;
  for (size_t m = 0; golden_models[m]; m++) {
    struct omma_model *model = open_model(golden_models[m], OMMA_WEIGHTS_F32);
    json_t *manifest = golden_manifest(golden_models[m]);
    struct golden_case c;
    int64_t min_grid[2] = {INT64_MAX, INT64_MAX};
    for (size_t i = 0; golden_any_case_open(golden_models[m], manifest, i, &c); i++) {
      struct omma_request *request = make_request(model, &c);
      struct ommai_vision_input inputs[GOLDEN_MAX_IMAGES];
      check_prompt(request, &c);
      if (c.n_videos == 0) check_pixels(request, &c);
      check_videos(model, request, &c);
      find_min_grid(request, &c, min_grid);
      n_videos += c.n_videos;
      float *values = request->n_images ? check_tower(model, request, &c, inputs) : NULL;
      check_decoder(model, request, &c, inputs);
      free(values);
      omma_request_destroy(request);
      golden_case_close(&c);
    }
    /* One patch without merging; with it one merged row or column of two patches, the minimum that
     * a tower takes. */
    for (int axis = 0; axis < 2; axis++) assert_int_equal(min_grid[axis], model->config.image.patches.merge_size);
    json_decref(manifest);
    omma_model_close(model);
  }
  assert_int_equal(n_videos, 24);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_stages_equal_the_official_ones)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
