/* A tower by itself: the bits of omma_encode, from files and from tensors in memory, packed and
 * alone, and what is refused. */
#include <omma/team.h>
#include <omma/tower.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"
#include "weights/checkpoint.h"

enum { N_IMAGES = 3, N_WORKERS = 3, MAX_TENSORS = 1024 };
static const char *const names[N_IMAGES] = {"meadow_163x97.jpg", "tower_33x200.png", "tile_64x64.png"};
static struct omma_image *images[N_IMAGES];
static const struct omma_team *team;

static int set_up(void **state) {
  (void)state;
  struct omma_error error;
  for (int i = 0; i < N_IMAGES; i++) images[i] = fixture_image(names[i]);
  return omma_team_create(N_WORKERS, false, NULL, &team, &error) == OMMA_OK ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  for (int i = 0; i < N_IMAGES; i++) omma_image_destroy(images[i]);
  omma_team_destroy(team);
  return 0;
}

/* What omma_encode makes of the images, and the same images as inputs of a tower. */
struct sample {
  struct omma_embeddings *expected;
  struct omma_tower_input inputs[N_IMAGES];
  size_t n_values[N_IMAGES]; /* of the outputs */
};

static struct sample make_sample(const char *name, enum omma_weight_type weights) {
  struct sample sample = {0};
  struct omma_error error;
  const struct omma_model_options options = {.weights = weights, .n_threads = 1, .max_model_len = 1024};
  struct omma_model *model = fixture_model(name, &options);
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct omma_model_info info;
  omma_model_get_info(model, &info);
  assert_ok(
      omma_encode(engine, (const struct omma_image *const *)images, N_IMAGES, NULL, true, NULL, NULL, &sample.expected, &error),
      &error);
  for (int i = 0; i < N_IMAGES; i++) {
    struct omma_image_sizes sizes;
    assert_ok(omma_model_image_sizes(model, omma_image_width(images[i]), omma_image_height(images[i]), NULL, &sizes, &error),
              &error);
    size_t n_patch_values = (size_t)(sizes.n_patches * info.patch_dim);
    float *patches = malloc(n_patch_values * sizeof *patches);
    assert_ok(omma_preprocess(model, images[i], NULL, patches, n_patch_values, &error), &error);
    struct omma_image_embeddings expected;
    omma_embeddings_get(sample.expected, (size_t)i, &expected);
    sample.n_values[i] = (size_t)((1 + expected.n_deepstack) * expected.n_tokens * expected.width);
    sample.inputs[i] = (struct omma_tower_input){.patches = patches, .type = OMMA_F32};
    memcpy(sample.inputs[i].grid_thw, sizes.grid_thw, sizeof sizes.grid_thw);
    sample.inputs[i].output = calloc(sample.n_values[i], sizeof(float));
  }
  omma_engine_destroy(engine);
  omma_model_close(model);
  return sample;
}

static void free_sample(struct sample *sample) {
  omma_embeddings_destroy(sample->expected);
  for (int i = 0; i < N_IMAGES; i++) {
    free((void *)(uintptr_t)sample->inputs[i].patches);
    free(sample->inputs[i].output);
  }
}

static struct omma_tower *open_tower(const char *name, const struct omma_tower_options *options) {
  char path[TEST_PATH_SIZE];
  struct omma_tower *tower = NULL;
  struct omma_error error;
  golden_path(name, "", path, sizeof path);
  assert_ok(omma_tower_open(path, options, &tower, &error), &error);
  return tower;
}

static enum omma_status encode(struct omma_tower *tower, const struct omma_tower_input *inputs, size_t n,
                               const struct omma_team *on, struct omma_error *error) {
  size_t size;
  enum omma_status status = omma_tower_workspace_size(tower, inputs, n, on ? on->n_workers : 1, &size, error);
  if (status != OMMA_OK) return status;
  void *workspace = aligned_alloc(64, (size + 63) / 64 * 64);
  memset(workspace, 0xff, size); /* NaN, where something is read that was not written */
  status = omma_tower_encode(tower, inputs, n, workspace, size, on, error);
  free(workspace);
  return status;
}

static void expect_embeddings(const struct sample *sample, int i) {
  struct omma_image_embeddings expected;
  omma_embeddings_get(sample->expected, (size_t)i, &expected);
  size_t n_merged = (size_t)(expected.n_tokens * expected.width);
  const float *output = sample->inputs[i].output;
  assert_memory_equal(output, expected.merged, n_merged * sizeof *output);
  for (int64_t j = 0; j < expected.n_deepstack; j++) {
    assert_memory_equal(output + (size_t)(1 + j) * n_merged, expected.deepstack[j], n_merged * sizeof *output);
  }
  memset(sample->inputs[i].output, 0, sample->n_values[i] * sizeof *output);
}

static void expect_same_bits(struct omma_tower *tower, const struct sample *sample) {
  struct omma_error error;
  assert_ok(encode(tower, sample->inputs, N_IMAGES, team, &error), &error);
  for (int i = 0; i < N_IMAGES; i++) expect_embeddings(sample, i);
  for (int i = 0; i < N_IMAGES; i++) {
    assert_ok(encode(tower, &sample->inputs[i], 1, NULL, &error), &error);
    expect_embeddings(sample, i);
  }
}

static void every_family_gives_the_engine_s_bits(void **state) {
  (void)state;
  for (const char *const *name = golden_models; *name; name++) {
    for (enum omma_weight_type weights = OMMA_WEIGHTS_F32; weights <= OMMA_WEIGHTS_BF16; weights++) {
      struct sample sample = make_sample(*name, weights);
      const struct omma_tower_options options = {.weights = weights, .n_threads = N_WORKERS};
      struct omma_tower *tower = open_tower(*name, &options);
      expect_same_bits(tower, &sample);
      omma_tower_close(tower);
      free_sample(&sample);
    }
  }
}

/* A video whose temporal patches all show the same image has its embeddings in each. */
static void temporal_patches_of_a_video_are_images(void **state) {
  (void)state;
  enum { N_TEMPORAL = 3 };
  static const char *const models[] = {"qwen3_vl_tied", "qwen2_5_vl_tied"};
  for (int m = 0; m < 2; m++) {
    struct sample sample = make_sample(models[m], OMMA_WEIGHTS_F32);
    struct omma_tower *tower = open_tower(models[m], &(struct omma_tower_options){.weights = OMMA_WEIGHTS_F32});
    struct omma_tower_info info;
    struct omma_error error;
    omma_tower_get_info(tower, &info);
    struct omma_tower_input video = sample.inputs[0];
    size_t n_patch_values = (size_t)(video.grid_thw[1] * video.grid_thw[2] * info.patch_dim);
    size_t n_merged = sample.n_values[0] / (size_t)(1 + info.n_deepstack);
    float *patches = malloc(N_TEMPORAL * n_patch_values * sizeof *patches);
    for (int t = 0; t < N_TEMPORAL; t++) {
      memcpy(patches + t * n_patch_values, video.patches, n_patch_values * sizeof *patches);
    }
    video.patches = patches;
    video.grid_thw[0] = N_TEMPORAL;
    video.output = malloc(N_TEMPORAL * sample.n_values[0] * sizeof *video.output);
    assert_ok(encode(tower, &video, 1, NULL, &error), &error);
    assert_ok(encode(tower, sample.inputs, 1, NULL, &error), &error);
    for (int64_t slot = 0; slot <= info.n_deepstack; slot++) {
      for (int64_t t = 0; t < N_TEMPORAL; t++) {
        assert_memory_equal(video.output + (size_t)(slot * N_TEMPORAL + t) * n_merged,
                            sample.inputs[0].output + (size_t)slot * n_merged, n_merged * sizeof(float));
      }
    }
    free(patches);
    free(video.output);
    omma_tower_close(tower);
    free_sample(&sample);
  }
}

/* The checkpoint's tensors as a host would have them. */
static size_t read_tensors(const struct ommai_checkpoint *checkpoint, struct omma_tower_tensor *out) {
  size_t n = (size_t)ommai_checkpoint_count(checkpoint);
  assert_true(n <= MAX_TENSORS);
  for (size_t i = 0; i < n; i++) {
    const struct ommai_tensor *tensor = ommai_checkpoint_at(checkpoint, (int64_t)i);
    enum omma_dtype type = OMMA_F32;
    if (tensor->type == OMMAI_TENSOR_BF16) type = OMMA_BF16;
    if (tensor->type == OMMAI_TENSOR_F16) type = OMMA_F16;
    assert_true(type != OMMA_F32 || tensor->type == OMMAI_TENSOR_F32);
    out[i] = (struct omma_tower_tensor){.name = tensor->name, .type = type, .n_dims = tensor->n_dims, .data = tensor->data};
    memcpy(out[i].shape, tensor->shape, sizeof out[i].shape);
  }
  return n;
}

static void tensors_in_memory_are_as_good_as_files(void **state) {
  (void)state;
  static struct omma_tower_tensor tensors[MAX_TENSORS];
  static const char *const models[] = {"qwen3_vl_tied", "qwen2_5_vl_tied", "kimi_vl"};
  for (int m = 0; m < 3; m++) {
    struct sample sample = make_sample(models[m], OMMA_WEIGHTS_F32);
    struct ommai_checkpoint *checkpoint;
    struct omma_error error;
    char path[TEST_PATH_SIZE];
    golden_path(models[m], "", path, sizeof path);
    assert_ok(ommai_checkpoint_open(path, &ommai_default_allocator, &checkpoint, &error), &error);
    struct omma_tower_options options = {.weights = OMMA_WEIGHTS_F32, .n_threads = N_WORKERS, .tensors = tensors};
    options.n_tensors = read_tensors(checkpoint, tensors);
    struct omma_tower *tower = open_tower(models[m], &options);
    ommai_checkpoint_close(checkpoint); /* nothing of it is read any more */
    expect_same_bits(tower, &sample);
    omma_tower_close(tower);
    free_sample(&sample);
  }
}

static void bad_tensors_are_refused(void **state) {
  (void)state;
  const float values[4] = {0};
  const struct omma_tower_tensor missing = {"model.visual.patch_embed.proj.bias", OMMA_F32, 1, {4}, values};
  struct omma_tower_tensor bad[4] = {missing, missing, missing, missing};
  const enum omma_status expected[4] = {OMMA_ERROR_ARGUMENT, OMMA_ERROR_ARGUMENT, OMMA_ERROR_ARGUMENT, OMMA_ERROR_FORMAT};
  char path[TEST_PATH_SIZE];
  struct omma_tower *tower = NULL;
  struct omma_error error;
  bad[0].name = NULL;
  bad[1].n_dims = 9;
  bad[2].shape[0] = -1;
  golden_path("qwen3_vl_tied", "", path, sizeof path);
  for (int i = 0; i < 4; i++) {
    const struct omma_tower_options options = {.tensors = &bad[i], .n_tensors = 1};
    assert_int_equal(omma_tower_open(path, &options, &tower, &error), expected[i]);
    assert_null(tower);
  }
  const struct omma_tower_options none = {.tensors = bad};
  assert_int_equal(omma_tower_open(path, &none, &tower, &error), OMMA_ERROR_ARGUMENT);
  assert_int_equal(omma_tower_open("/nowhere", NULL, &tower, &error), OMMA_ERROR_IO);
  assert_int_equal(omma_tower_open(NULL, NULL, &tower, &error), OMMA_ERROR_ARGUMENT);
  const struct omma_tower_options threads = {.n_threads = -1}, weights = {.weights = 9};
  assert_int_equal(omma_tower_open(path, &threads, &tower, &error), OMMA_ERROR_ARGUMENT);
  assert_int_equal(omma_tower_open(path, &weights, &tower, &error), OMMA_ERROR_ARGUMENT);
}

static void bad_inputs_are_refused(void **state) {
  (void)state;
  const struct omma_tower_options options = {.weights = OMMA_WEIGHTS_F32, .n_threads = 2};
  struct omma_tower *tower = open_tower("qwen3_vl_tied", &options);
  struct omma_tower_info info;
  omma_tower_get_info(tower, &info);
  float *patches = calloc((size_t)(4 * info.patch_dim), sizeof *patches);
  float *output = calloc((size_t)((1 + info.n_deepstack) * info.width), sizeof *output);
  const struct omma_tower_input good = {patches, OMMA_F32, {1, 2, 2}, output};
  struct omma_tower_input bad[8] = {good, good, good, good, good, good, good, good};
  bad[0].grid_thw[0] = 0;
  bad[1].grid_thw[1] = 3;
  bad[2].grid_thw[2] = -2;
  bad[3].grid_thw[0] = INT64_MAX;
  bad[4].grid_thw[1] = bad[4].grid_thw[2] = INT64_C(1) << 40;
  bad[5].type = OMMA_F16;
  bad[6].patches = NULL;
  bad[7].output = NULL;
  struct omma_error error;
  for (int i = 0; i < 8; i++) assert_int_equal(encode(tower, &bad[i], 1, NULL, &error), OMMA_ERROR_ARGUMENT);
  const struct omma_tower_input large = {patches, OMMA_F32, {1, INT64_C(1) << 20, INT64_C(1) << 20}, output};
  assert_int_equal(encode(tower, &large, 1, NULL, &error), OMMA_ERROR_LIMIT);
  assert_int_equal(encode(tower, &good, 0, NULL, &error), OMMA_ERROR_ARGUMENT);
  /* three workers, two threads */
  assert_int_equal(encode(tower, &good, 1, team, &error), OMMA_ERROR_ARGUMENT);
  size_t size;
  assert_ok(omma_tower_workspace_size(tower, &good, 1, 1, &size, &error), &error);
  void *workspace = aligned_alloc(64, size);
  assert_int_equal(omma_tower_encode(tower, &good, 1, workspace, size - 1, NULL, &error), OMMA_ERROR_MEMORY);
  assert_ok(omma_tower_encode(tower, &good, 1, workspace, size, NULL, &error), &error);
  free(workspace);
  free(patches);
  free(output);
  omma_tower_close(tower);
}

static void a_configuration_is_enough_to_know_a_tower(void **state) {
  (void)state;
  const struct omma_tower_options options = {.weights = OMMA_WEIGHTS_F32, .config_only = true};
  char folder[TEST_PATH_SIZE];
  struct omma_tower *tower = NULL,
                    *whole = open_tower("qwen3_vl_tied", &(struct omma_tower_options){.weights = OMMA_WEIGHTS_F32});
  struct omma_tower_info info, expected;
  struct omma_error error;
  fixture_copy_config("qwen3_vl_tied", folder);
  assert_ok(omma_tower_open(folder, &options, &tower, &error), &error);
  omma_tower_get_info(tower, &info);
  omma_tower_get_info(whole, &expected);
  assert_string_equal(info.model_type, "qwen3_vl");
  assert_string_equal(info.weights, "f32");
  assert_int_equal(info.n_parameters, expected.n_parameters);
  assert_int_equal(info.patch_dim, 3 * info.temporal_patch_size * info.patch_size * info.patch_size);
  float value = 0;
  const struct omma_tower_input input = {&value, OMMA_F32, {1, 2, 2}, &value};
  assert_int_equal(encode(tower, &input, 1, NULL, &error), OMMA_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "without its weights"));
  omma_tower_close(tower);
  omma_tower_close(whole);
  omma_tower_close(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_family_gives_the_engine_s_bits),
      cmocka_unit_test(temporal_patches_of_a_video_are_images),
      cmocka_unit_test(tensors_in_memory_are_as_good_as_files),
      cmocka_unit_test(bad_tensors_are_refused),
      cmocka_unit_test(bad_inputs_are_refused),
      cmocka_unit_test(a_configuration_is_enough_to_know_a_tower),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
