/* A model opened for its tower alone: the same outputs as of the whole model, bit for bit, and
 * nothing of a language model in memory. */
#include <stdlib.h>

#include "support/model_fixture.h"
#include "support/test.h"

enum { N_IMAGES = 2 };

static const struct omma_model_options tower_alone = {.weights = OMMA_WEIGHTS_F32, .n_threads = 1, .encoder_only = true};
static struct omma_image *images[N_IMAGES];

static int set_up(void **state) {
  (void)state;
  images[0] = fixture_image("meadow_163x97.jpg");
  images[1] = fixture_image("tower_33x200.png");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (int i = 0; i < N_IMAGES; i++) omma_image_destroy(images[i]);
  return 0;
}

static void take_embeddings(void *context, struct omma_embeddings *embeddings) {
  struct omma_embeddings **taken = context;
  assert_null(*taken);
  *taken = embeddings;
}

static struct omma_embeddings *encode(struct omma_engine *engine, const struct omma_request *request) {
  struct omma_embeddings *embeddings = NULL;
  const struct omma_callbacks callbacks = {.context = &embeddings, .on_embeddings = take_embeddings};
  struct omma_result result;
  struct omma_error error;
  assert_ok(omma_generate(engine, request, &callbacks, &result, &error), &error);
  assert_int_equal(result.finish, OMMA_FINISH_STOP);
  assert_int_equal(result.n_completion_tokens, 0);
  assert_non_null(embeddings);
  return embeddings;
}

static void expect_same(const struct omma_embeddings *embeddings, const struct omma_embeddings *expected, size_t index) {
  struct omma_image_embeddings a, b;
  omma_embeddings_get(embeddings, index, &a);
  omma_embeddings_get(expected, index, &b);
  assert_memory_equal(a.grid_thw, b.grid_thw, sizeof a.grid_thw);
  assert_int_equal(a.n_deepstack, b.n_deepstack);
  size_t size = (size_t)(a.n_tokens * a.width) * sizeof(float);
  assert_memory_equal(a.merged, b.merged, size);
  for (int64_t i = 0; i < a.n_deepstack; i++) assert_memory_equal(a.deepstack[i], b.deepstack[i], size);
}

static struct omma_embeddings *encode_in_whole_model(const char *name) {
  struct omma_model *model = fixture_model(name, NULL);
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct omma_embeddings *embeddings;
  struct omma_error error;
  assert_ok(
      omma_encode(engine, (const struct omma_image *const *)images, N_IMAGES, NULL, false, NULL, NULL, &embeddings, &error),
      &error);
  omma_engine_destroy(engine);
  omma_model_close(model);
  return embeddings;
}

static void outputs_are_those_of_the_whole_model(void **state) {
  (void)state;
  static const char *const names[] = {"qwen3_vl_tied", "qwen2_5_vl_tied", "kimi_vl",     "qwen3_vl_moe",
                                      "paddleocr_vl",  "glm_ocr",         "lighton_ocr", "dots_ocr"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct omma_embeddings *expected = encode_in_whole_model(names[i]);
    struct omma_model *model = fixture_model(names[i], &tower_alone);
    struct omma_engine *engine = fixture_engine(model, NULL);
    struct omma_request *request =
        fixture_request(model, (const struct omma_image *const *)images, N_IMAGES, "What is it?", NULL);
    /* out of the cache */
    struct omma_embeddings *first = encode(engine, request), *again = encode(engine, request);
    for (size_t j = 0; j < N_IMAGES; j++) {
      expect_same(first, expected, j);
      expect_same(again, expected, j);
    }
    struct omma_engine_stats stats;
    omma_engine_get_stats(engine, &stats);
    assert_int_equal(stats.images, N_IMAGES);
    omma_embeddings_destroy(first);
    omma_embeddings_destroy(again);
    omma_request_destroy(request);
    omma_engine_destroy(engine);
    omma_model_close(model);
    omma_embeddings_destroy(expected);
  }
}

static void rows_have_a_token_of_all_tensors_side_by_side(void **state) {
  (void)state;
  struct omma_embeddings *embeddings = encode_in_whole_model("qwen3_vl_tied");
  struct omma_image_embeddings image;
  omma_embeddings_get(embeddings, 0, &image);
  size_t width = (size_t)image.width, row = width * (1 + (size_t)image.n_deepstack), n = (size_t)image.n_tokens * row;
  float *values = calloc(n, sizeof *values);
  uint16_t *halves = calloc(n, sizeof *halves);
  omma_embeddings_copy_rows(embeddings, 0, OMMA_F32, values);
  omma_embeddings_copy_rows(embeddings, 0, OMMA_BF16, halves);
  assert_true(image.n_deepstack > 0);
  for (size_t token = 0; token < (size_t)image.n_tokens; token++) {
    assert_memory_equal(values + token * row, image.merged + token * width, width * sizeof *values);
    for (int64_t i = 0; i < image.n_deepstack; i++) {
      assert_memory_equal(values + token * row + (1 + (size_t)i) * width, image.deepstack[i] + token * width,
                          width * sizeof *values);
    }
  }
  for (size_t i = 0; i < n; i++) {
    uint32_t bits = (uint32_t)halves[i] << 16;
    float rounded;
    memcpy(&rounded, &bits, sizeof rounded);
    assert_true(rounded - values[i] <= (values[i] < 0 ? -values[i] : values[i]) / 256);
    assert_true(values[i] - rounded <= (values[i] < 0 ? -values[i] : values[i]) / 256);
  }
  free(values);
  free(halves);
  omma_embeddings_destroy(embeddings);
}

static void nothing_of_a_language_model_takes_memory(void **state) {
  (void)state;
  struct omma_model *whole = fixture_model("qwen3_vl_tied", NULL), *tower = fixture_model("qwen3_vl_tied", &tower_alone);
  struct omma_memory_estimate whole_estimate, estimate;
  struct omma_model_info whole_info, info;
  struct omma_error error;
  assert_ok(omma_estimate_memory(whole, NULL, 0, &whole_estimate, &error), &error);
  assert_ok(omma_estimate_memory(tower, NULL, 0, &estimate, &error), &error);
  omma_model_get_info(whole, &whole_info);
  omma_model_get_info(tower, &info);
  assert_true(info.encoder_only && !whole_info.encoder_only);
  assert_int_equal(info.n_parameters, whole_info.n_vision_parameters);
  assert_true(estimate.weight_bytes < whole_estimate.weight_bytes);
  assert_int_equal(estimate.kv_cache_bytes, 0);
  assert_int_equal(estimate.language_workspace_bytes, 0);
  assert_string_equal(info.fingerprint, whole_info.fingerprint); /* of the whole checkpoint */
  assert_int_equal(strlen(info.fingerprint), 64);
  omma_model_close(whole);
  omma_model_close(tower);
}

static void a_request_without_images_is_refused(void **state) {
  (void)state;
  struct omma_model *model = fixture_model("qwen3_vl_tied", &tower_alone);
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct omma_request *request = fixture_request(model, NULL, 0, "hello", NULL);
  struct omma_result result;
  struct omma_error error;
  assert_int_equal(omma_generate(engine, request, NULL, &result, &error), OMMA_ERROR_ARGUMENT);
  assert_string_equal(error.field, "messages");
  omma_request_destroy(request);
  /* With nobody to take them, embeddings are given back. */
  request = fixture_request(model, (const struct omma_image *const *)images, 1, "hello", NULL);
  assert_ok(omma_generate(engine, request, NULL, &result, &error), &error);
  omma_request_destroy(request);
  omma_engine_destroy(engine);
  omma_model_close(model);
}

/* ---- kinds of requests ---- */

static struct omma_request *request_of_kind(const struct omma_model *model, enum omma_request_kind kind, size_t n_images) {
  struct omma_part parts[N_IMAGES + 1] = {{.text = "What is it?", .text_size = 11}};
  for (size_t i = 0; i < n_images; i++) parts[1 + i].image = images[i];
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = 1 + n_images};
  const struct omma_request_options options = {.kind = kind, .sampling = {.max_tokens = 3}};
  struct omma_request *request;
  struct omma_error error;
  assert_ok(omma_request_create(model, &message, 1, &options, &request, &error), &error);
  return request;
}

static void a_whole_model_encodes_too(void **state) {
  (void)state;
  struct omma_embeddings *expected = encode_in_whole_model("qwen3_vl_tied");
  struct omma_model *model = fixture_model("qwen3_vl_tied", NULL);
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct omma_request *encoded = request_of_kind(model, OMMA_REQUEST_ENCODE, N_IMAGES), *copy;
  struct omma_request *answered = request_of_kind(model, OMMA_REQUEST_GENERATE, N_IMAGES);
  struct fixture_answer answer;
  struct omma_engine_stats stats;
  struct omma_error error;
  struct omma_embeddings *embeddings = encode(engine, encoded);
  for (size_t i = 0; i < N_IMAGES; i++) expect_same(embeddings, expected, i);
  omma_embeddings_destroy(embeddings);
  omma_engine_get_stats(engine, &stats);
  assert_int_equal(stats.prefix_cache_queries, 0);
  assert_int_equal(stats.kv_pages_published, 0);
  assert_int_equal(fixture_ask(engine, answered, &answer).n_completion_tokens, 3);
  /* a copy is of the same kind, and takes no pages that an answer left */
  assert_ok(omma_request_copy(encoded, NULL, &copy, &error), &error);
  embeddings = encode(engine, copy);
  for (size_t i = 0; i < N_IMAGES; i++) expect_same(embeddings, expected, i);
  omma_embeddings_destroy(embeddings);
  omma_request_destroy(copy);
  omma_request_destroy(encoded);
  omma_request_destroy(answered);
  omma_engine_destroy(engine);
  omma_model_close(model);
  omma_embeddings_destroy(expected);
}

/* With a model that has no head for them, scores are refused as the request is made. */
static void expect_refusal(const struct omma_model *model, struct omma_engine *engine, enum omma_request_kind kind) {
  const struct omma_part part = {.text = "What is it?", .text_size = 11};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1};
  const struct omma_request_options options = {.kind = kind, .sampling = {.max_tokens = 3}};
  struct omma_request *request = NULL;
  struct omma_error error;
  enum omma_status status = omma_request_create(model, &message, 1, &options, &request, &error);
  assert_string_equal(status == OMMA_OK ? "" : error.field, kind == OMMA_REQUEST_SCORE ? "model" : "");
  if (status == OMMA_OK) {
    status = omma_engine_submit(engine, request, NULL, NULL, &error);
    assert_string_equal(error.field, "kind");
  }
  assert_int_equal(status, OMMA_ERROR_UNSUPPORTED);
  omma_request_destroy(request);
}

static void kinds_that_are_not_served_are_refused(void **state) {
  (void)state;
  static const enum omma_request_kind kinds[] = {OMMA_REQUEST_SCORE, OMMA_REQUEST_EMBED, OMMA_REQUEST_GENERATE};
  struct omma_error error;
  for (int whole = 0; whole < 2; whole++) {
    struct omma_model *model = fixture_model("qwen3_vl_tied", whole ? NULL : &tower_alone);
    struct omma_engine *engine = fixture_engine(model, NULL);
    for (int i = 0; i < (whole ? 1 : 3); i++) expect_refusal(model, engine, kinds[i]);
    const struct omma_request_options unknown = {.kind = (enum omma_request_kind)5};
    struct omma_request *request = NULL;
    assert_int_equal(omma_request_create_tokens(model, &(const int32_t){3}, 1, &unknown, &request, &error),
                     OMMA_ERROR_ARGUMENT);
    assert_string_equal(error.field, "kind");
    assert_null(request);
    omma_engine_destroy(engine);
    omma_model_close(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(outputs_are_those_of_the_whole_model),
      cmocka_unit_test(rows_have_a_token_of_all_tensors_side_by_side),
      cmocka_unit_test(nothing_of_a_language_model_takes_memory),
      cmocka_unit_test(a_request_without_images_is_refused),
      cmocka_unit_test(a_whole_model_encodes_too),
      cmocka_unit_test(kinds_that_are_not_served_are_refused),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
