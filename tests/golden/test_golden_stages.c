/* Every stage of the network against the official code's tensors, in f32: pixels, patches, prompt ids, positions, each block of the
 * tower, merged tokens, deepstack, each decoder layer, logits. The first stage that differs is named. */
#include <stdlib.h>

#include "base/allocator.h"
#include "engine/encode_job.h"
#include "engine/model.h"
#include "engine/request.h"
#include "language/decode.h"
#include "language/prefill.h"
#include "support/golden.h"
#include "support/test.h"

static const double BOUND = 1e-4; /* relative L2 of the worst row */

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
  assert_ok(omma_request_create(model, c->messages, c->n_messages, NULL, &request, &error), &error);
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

static void check_pixels(const struct omma_request *request, const struct golden_case *c) {
  struct golden_case pictures = *c;
  struct omma_error error;
  char path[1024], name[256];
  golden_picture_tensors_path(c->model, path, sizeof path);
  assert_ok(ommai_safetensors_open(path, &ommai_default_allocator, &pictures.tensors, &error), &error);
  for (size_t i = 0; i < c->n_pictures; i++) {
    const struct ommai_prepared_picture *picture = &request->pictures[i];
    snprintf(name, sizeof name, "image.%s.pixels_u8", c->picture_names[i]);
    const struct ommai_tensor *pixels = golden_tensor(&pictures, name);
    assert_int_equal(pixels->shape[0], picture->plan.resized_height);
    assert_int_equal(pixels->shape[1], picture->plan.resized_width);
    if (memcmp(pixels->data, picture->pixels, (size_t)pixels->size_bytes) != 0)
      fail_msg("%s, %s: pixels differ", c->model, c->picture_names[i]);
    snprintf(name, sizeof name, "image.%s.pixel_values", c->picture_names[i]);
    if (!golden_has(&pictures, name)) continue;
    const struct ommai_tensor *values = golden_tensor(&pictures, name);
    float *got = malloc((size_t)values->size_bytes);
    assert_ok(omma_preprocess(request->model, c->pictures[i], NULL, got, (size_t)values->n_elements, &error), &error);
    assert_memory_equal(got, values->data, (size_t)values->size_bytes);
    free(got);
  }
  ommai_safetensors_close(pictures.tensors);
}

/* ---- tower ---- */

struct vision_tap {
  const struct golden_case *c;
  const struct ommai_vision_config *config;
  int64_t grid_rows, grid_columns; /* of the one picture whose stages are looked at */
  double bound;
};

/* The fixtures have a tower's rows in merge-block order, the tower in window order. The caller frees. */
static float *in_block_order(const struct vision_tap *tap, const float *data, int64_t n_rows, int64_t width) {
  float *rows = malloc((size_t)(n_rows * width) * sizeof *rows);
  int64_t merge = tap->config->merge_size, across = tap->grid_columns / merge;
  for (int64_t i = 0; i < n_rows; i++) {
    struct ommai_patch_position at =
        ommai_patch_position(i, tap->grid_rows, tap->grid_columns, merge, tap->config->window_size);
    int64_t block = at.row / merge * across + at.column / merge;
    int64_t to = (block * merge + at.row % merge) * merge + at.column % merge;
    memcpy(rows + to * width, data + i * width, (size_t)width * sizeof *rows);
  }
  return rows;
}

static void tap_vision(void *context, const char *stage, int64_t index, const float *data, int64_t n_rows, int64_t width) {
  const struct vision_tap *tap = context;
  char name[64];
  if (strcmp(stage, "block") == 0) {
    snprintf(name, sizeof name, "vision.block.%lld", (long long)index);
  } else {
    snprintf(name, sizeof name, "vision.%s", stage);
  }
  if (!golden_has(tap->c, name)) return;
  float *rows = in_block_order(tap, data, n_rows, width);
  golden_expect(tap->c, name, rows, n_rows, width, tap->bound);
  free(rows);
}

/* Runs the pictures of a request as one pass; outputs as the engine lays them out. The caller frees. */
static float *run_tower(const struct omma_model *model, const struct omma_request *request, const struct golden_case *c,
                        struct ommai_vision_input *inputs) {
  struct omma_error error;
  size_t n_values = 0;
  struct ommai_vision_sizes sizes = {0};
  for (size_t i = 0; i < request->n_pictures; i++) {
    const struct omma_image_plan *plan = &request->pictures[i].plan;
    n_values += (size_t)ommai_encode_output_size(model, plan->n_tokens);
  }
  float *values = malloc(n_values * sizeof *values), *output = values;
  for (size_t i = 0; i < request->n_pictures; i++) {
    const struct omma_image_plan *plan = &request->pictures[i].plan;
    inputs[i] = (struct ommai_vision_input){request->pictures[i].pixels, 1, plan->grid_thw[1], plan->grid_thw[2], output};
    assert_ok(ommai_vision_sizes_add(&model->config.vision, &inputs[i], &sizes, &error), &error);
    output += ommai_encode_output_size(model, plan->n_tokens);
  }
  size_t size = ommai_vision_workspace_size(&model->tower, &sizes, 1);
  void *workspace = aligned_alloc(64, (size + 63) / 64 * 64);
  struct ommai_vision_run *run;
  struct vision_tap tap = {.c = c,
                           .config = &model->config.vision,
                           .grid_rows = inputs[0].grid_rows,
                           .grid_columns = inputs[0].grid_columns,
                           .bound = BOUND};
  assert_ok(ommai_vision_run_start(&model->tower, inputs, (int64_t)request->n_pictures, &model->config.picture.patches,
                                   workspace, size, NULL, &run, &error),
            &error);
  ommai_vision_run_set_tap(run, tap_vision, &tap);
  while (!ommai_vision_run_done(run)) assert_ok(ommai_vision_run_advance(run, 3, &error), &error);
  free(workspace);
  return values;
}

/* Joins slot `slot` of all pictures and compares. */
static void check_slot(const struct omma_model *model, const struct omma_request *request, const struct golden_case *c,
                       const struct ommai_vision_input *inputs, int64_t slot, const char *name) {
  int64_t width = model->config.vision.out_hidden_size, n_rows = 0;
  for (size_t i = 0; i < request->n_pictures; i++) n_rows += request->pictures[i].plan.n_tokens;
  float *joined = malloc((size_t)(n_rows * width) * sizeof *joined), *to = joined;
  for (size_t i = 0; i < request->n_pictures; i++) {
    int64_t values = request->pictures[i].plan.n_tokens * width;
    memcpy(to, inputs[i].output + slot * values, (size_t)values * sizeof *to);
    to += values;
  }
  golden_expect(c, name, joined, n_rows, width, BOUND);
  free(joined);
}

static float *check_tower(const struct omma_model *model, const struct omma_request *request, const struct golden_case *c,
                          struct ommai_vision_input *inputs) {
  float *values = run_tower(model, request, c, inputs);
  for (int64_t j = 0; j < model->config.vision.n_deepstack; j++) {
    char name[64];
    snprintf(name, sizeof name, "vision.deepstack.%lld", (long long)j);
    check_slot(model, request, c, inputs, 1 + j, name);
  }
  check_slot(model, request, c, inputs, 0, "vision.merged");
  return values;
}

/* ---- decoder ---- */

static void tap_layer(void *context, int64_t layer, const float *residual, int64_t n_rows, int64_t width) {
  const struct golden_case *c = context;
  char name[64];
  snprintf(name, sizeof name, "language.layer.%lld", (long long)layer);
  if (golden_has(c, name)) golden_expect(c, name, residual, n_rows, width, BOUND);
}

static struct ommai_prompt_row *make_rows(const struct omma_model *model, const struct omma_request *request,
                                          const struct ommai_vision_input *inputs) {
  int64_t width = model->config.text.hidden_size;
  struct ommai_prompt_row *rows = calloc(request->n_tokens, sizeof *rows);
  for (size_t i = 0; i < request->n_tokens; i++) {
    const struct ommai_request_token *token = &request->tokens[i];
    rows[i].token = token->token;
    memcpy(rows[i].position, token->position, sizeof rows[i].position);
    if (token->picture < 0) continue;
    rows[i].picture = inputs[token->picture].output + token->picture_row * width;
    rows[i].picture_stride = request->pictures[token->picture].plan.n_tokens * width;
  }
  return rows;
}

static void check_decoder(const struct omma_model *model, const struct omma_request *request, struct golden_case *c,
                          const struct ommai_vision_input *inputs) {
  struct omma_error error;
  struct ommai_kv_cache *cache;
  int64_t n = (int64_t)request->n_tokens, n_pages = n / 64 + 1;
  assert_ok(ommai_kv_cache_create(&model->config.text, model->decoder.dtype, n_pages, &ommai_default_allocator, &cache, &error),
            &error);
  int32_t *pages = malloc((size_t)n_pages * sizeof *pages);
  assert_true(ommai_kv_cache_take(cache, n_pages, pages));
  struct ommai_prompt_row *rows = make_rows(model, request, inputs);
  size_t size = ommai_prefill_workspace_size(&model->decoder, n, n, 1),
         decode_size = ommai_decode_workspace_size(&model->decoder, 1, n, 1);
  void *workspace = aligned_alloc(64, (size + 63) / 64 * 64),
       *decode_workspace = aligned_alloc(64, (decode_size + 63) / 64 * 64);
  float *logits = malloc((size_t)model->config.text.vocab_size * sizeof *logits);
  struct ommai_prefill *prefill;
  assert_ok(ommai_prefill_start(&model->decoder, cache, pages, 0, rows, n, workspace, size, NULL, &prefill, &error), &error);
  ommai_prefill_set_tap(prefill, tap_layer, c);
  while (!ommai_prefill_done(prefill)) assert_ok(ommai_prefill_advance(prefill, 5, &error), &error);
  assert_ok(ommai_decode_logits(&model->decoder, ommai_prefill_residual(prefill, n - 1), decode_workspace, decode_size, NULL,
                                logits, &error),
            &error);
  golden_expect(c, "language.logits", logits, 1, model->config.text.vocab_size, BOUND);
  free(logits);
  free(workspace);
  free(decode_workspace);
  free(rows);
  free(pages);
  ommai_kv_cache_destroy(cache);
}

static void all_stages_equal_the_official_ones(void **state) {
  (void)state;
  for (size_t m = 0; golden_models[m]; m++) {
    struct omma_model *model = open_model(golden_models[m], OMMA_WEIGHTS_F32);
    json_t *manifest = golden_manifest(golden_models[m]);
    struct golden_case c;
    for (size_t i = 0; golden_case_open(golden_models[m], manifest, i, &c); i++) {
      struct omma_request *request = make_request(model, &c);
      struct ommai_vision_input inputs[GOLDEN_MAX_PICTURES];
      check_prompt(request, &c);
      check_pixels(request, &c);
      float *values = request->n_pictures ? check_tower(model, request, &c, inputs) : NULL;
      check_decoder(model, request, &c, inputs);
      free(values);
      omma_request_destroy(request);
      golden_case_close(&c);
    }
    json_decref(manifest);
    omma_model_close(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_stages_equal_the_official_ones)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
