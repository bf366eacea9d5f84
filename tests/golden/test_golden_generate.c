/* From messages to tokens through the public interface: greedy tokens and log-probabilities of the
 * official code in f32; the numbers' contract in f32 and bf16: the same bits regardless of
 * threads, packing, chunks and the rest of the batch. */
#include <math.h>
#include <stdlib.h>

#include "support/golden.h"
#include "support/test.h"

enum { MAX_TOKENS = 64, N_TOKENS = 24, MAX_MODELS = 32, MAX_CASES = 16 };

/* What a client sees of an answer. */
struct answer {
  int32_t tokens[MAX_TOKENS];
  float logprobs[MAX_TOKENS];
  struct omma_top_logprob top[MAX_TOKENS][5];
  size_t n;
  char text[4096];
  size_t text_size;
  int64_t n_last;
  enum omma_finish finish;
};

static bool collect(void *context, const struct omma_token_event *event) {
  struct answer *answer = context;
  assert_int_equal(event->index, answer->n);
  answer->tokens[answer->n] = event->token;
  answer->logprobs[answer->n] = event->logprob;
  for (int i = 0; i < event->n_top; i++) answer->top[answer->n][i] = event->top[i];
  answer->n++;
  memcpy(answer->text + answer->text_size, event->text, event->text_size);
  answer->text_size += event->text_size;
  answer->n_last += event->last;
  return true;
}

struct setup {
  enum omma_weight_type weights;
  const char *quantization;
  int n_threads;
  int64_t prefill_chunk, patch_budget;
};

static struct omma_model *open_model(const char *name, struct setup setup) {
  char path[1024];
  struct omma_error error;
  struct omma_model *model;
  const struct omma_model_options options = {
      .weights = setup.weights, .quantization = setup.quantization, .n_threads = setup.n_threads, .max_model_len = 1024};
  golden_path(name, NULL, path, sizeof path);
  assert_ok(omma_model_open(path, &options, &model, &error), &error);
  return model;
}

static struct omma_engine *make_engine(struct omma_model *model, struct setup setup) {
  struct omma_error error;
  struct omma_engine *engine;
  const struct omma_engine_options options = {.prefill_chunk = setup.prefill_chunk, .patch_budget = setup.patch_budget};
  assert_ok(omma_engine_create(model, &options, &engine, &error), &error);
  return engine;
}

static void ask(const struct omma_model *model, struct omma_engine *engine, const struct golden_case *c, struct answer *answer,
                struct omma_result *result) {
  struct omma_error error;
  struct omma_request *request;
  const struct omma_request_options options = {.sampling = {.max_tokens = N_TOKENS, .logprobs = true, .n_top_logprobs = 5},
                                               .continue_final_message = c->continued};
  const struct omma_callbacks callbacks = {.context = answer, .on_token = collect};
  memset(answer, 0, sizeof *answer);
  assert_ok(omma_request_create(model, c->messages, c->n_messages, &options, &request, &error), &error);
  assert_ok(omma_generate(engine, request, &callbacks, result, &error), &error);
  omma_request_destroy(request);
  assert_int_equal(answer->n_last, 1);
  assert_int_equal(result->n_completion_tokens, answer->n);
  answer->finish = result->finish;
}

static void check_tokens(const struct golden_case *c, const struct answer *answer) {
  int64_t n;
  int64_t *tokens = golden_i64(c, "generate.tokens", &n), *top = golden_i64(c, "generate.top_ids", NULL);
  float *logprobs = golden_f32(c, "generate.logprobs", NULL), *top_logprobs = golden_f32(c, "generate.top_logprobs", NULL);
  for (int64_t i = 0; i < n; i++) {
    if (answer->tokens[i] != tokens[i]) {
      fail_msg("%s, %s: token %d is %d, expected %d", c->model, c->name, (int)i, answer->tokens[i], (int)tokens[i]);
    }
    if (fabsf(answer->logprobs[i] - logprobs[i]) > 1e-3f) {
      fail_msg("%s, %s: log-probability %d is %g, expected %g", c->model, c->name, (int)i, answer->logprobs[i], logprobs[i]);
    }
    assert_int_equal(answer->top[i][0].token, top[5 * i]);
    for (int j = 0; j < 5; j++) assert_true(fabsf(answer->top[i][j].logprob - top_logprobs[5 * i + j]) < 1e-3f);
  }
  assert_int_equal(answer->n, n);
  free(tokens);
  free(top);
  free(logprobs);
  free(top_logprobs);
}

static void check_text(const struct golden_case *c, const struct answer *answer) {
  const json_t *text = json_object_get(c->json, "decoded_text");
  bool stopped = strcmp(json_string_value(json_object_get(c->json, "finish_reason")), "stop") == 0;
  assert_int_equal(answer->finish, stopped ? OMMA_FINISH_STOP : OMMA_FINISH_LENGTH);
  assert_int_equal(answer->text_size, json_string_length(text));
  assert_memory_equal(answer->text, json_string_value(text), answer->text_size);
}

/* Answers of all cases under one setup. */
static size_t answer_all(const char *name, struct setup setup, struct answer *answers) {
  struct omma_model *model = open_model(name, setup);
  struct omma_engine *engine = make_engine(model, setup);
  json_t *manifest = golden_manifest(name);
  struct golden_case c;
  size_t n = 0;
  for (; golden_any_case_open(name, manifest, n, &c); n++) {
    struct omma_result result;
    assert_true(n < MAX_CASES);
    ask(model, engine, &c, &answers[n], &result);
    golden_case_close(&c);
  }
  json_decref(manifest);
  omma_engine_destroy(engine);
  omma_model_close(model);
  return n;
}

/* In f32 on two threads, which several tests compare with: computed once. */
static const struct setup exact_setup = {.weights = OMMA_WEIGHTS_F32, .n_threads = 2};

static const struct answer *exact_answers(size_t model, size_t *n) {
  static struct answer answers[MAX_MODELS][MAX_CASES];
  static size_t counts[MAX_MODELS];
  assert_true(model < MAX_MODELS);
  if (!counts[model]) counts[model] = answer_all(golden_models[model], exact_setup, answers[model]);
  *n = counts[model];
  return answers[model];
}

static void tokens_equal_the_official_ones(void **state) {
  (void)state;
  size_t n_videos = 0;
  for (size_t m = 0; golden_models[m]; m++) {
    size_t n, i = 0;
    const struct answer *answers = exact_answers(m, &n);
    json_t *manifest = golden_manifest(golden_models[m]);
    struct golden_case c;
    for (; golden_any_case_open(golden_models[m], manifest, i, &c); i++) {
      check_tokens(&c, &answers[i]);
      check_text(&c, &answers[i]);
      n_videos += c.n_videos;
      golden_case_close(&c);
    }
    assert_int_equal(n, i);
    json_decref(manifest);
  }
  assert_int_equal(n_videos, 24);
}

/* Types and methods of the language model. */
static const struct setup kinds[] = {{.weights = OMMA_WEIGHTS_F32},
                                     {.weights = OMMA_WEIGHTS_BF16},
                                     {.weights = OMMA_WEIGHTS_AUTO, .quantization = "int8"},
                                     {.weights = OMMA_WEIGHTS_AUTO, .quantization = "int4-g32"}};

static void answers_are_bit_identical(void **state) {
  (void)state;
  static struct answer reference[MAX_CASES], other[MAX_CASES];
  enum { N_VARIANTS = 3 };
  const struct setup variants[N_VARIANTS] = {
      {.n_threads = exact_setup.n_threads}, {.n_threads = 3, .prefill_chunk = 64}, {.n_threads = 1, .patch_budget = 4}};
  for (size_t m = 0; golden_models[m]; m++) {
    for (size_t k = test_small() ? m % 2 : 0; k < sizeof kinds / sizeof *kinds; k += test_small() ? 2 : 1) {
      struct setup alone = kinds[k];
      alone.n_threads = 1;
      size_t n = answer_all(golden_models[m], alone, reference);
      for (size_t v = test_small() ? (m + k / 2) % N_VARIANTS : 0; v < N_VARIANTS; v += test_small() ? N_VARIANTS : 1) {
        struct setup setup = variants[v];
        setup.weights = kinds[k].weights;
        setup.quantization = kinds[k].quantization;
        size_t n_others;
        bool exact = v == 0 && k == 0;
        const struct answer *others = exact ? exact_answers(m, &n_others) : other;
        if (!exact) n_others = answer_all(golden_models[m], setup, other);
        assert_int_equal(n_others, n);
        if (memcmp(reference, others, n * sizeof *others) != 0) {
          fail_msg("%s, kind %d: variant %d gives other bits", golden_models[m], (int)k, (int)v);
        }
      }
    }
  }
}

/* The first token's likeliest ones, which saw the same prompt: what eight and four bits leave of
 * small random models. */
static void quantised_answers_stay_near(void **state) {
  (void)state;
  static struct answer rounded[MAX_CASES];
  static const struct {
    const char *quantization;
    float max_difference;
  } methods[] = {{"int8", 0.5f}, {"int4", 2.0f}};
  for (size_t m = 0; golden_models[m]; m++) {
    size_t n;
    const struct answer *exact = exact_answers(m, &n);
    for (size_t q = test_small() ? m % 2 : 0; q < sizeof methods / sizeof *methods; q += test_small() ? 2 : 1) {
      const struct setup setup = {.weights = OMMA_WEIGHTS_F32, .quantization = methods[q].quantization, .n_threads = 2};
      float max_difference = 0;
      assert_int_equal(answer_all(golden_models[m], setup, rounded), n);
      for (size_t i = 0; i < n; i++) {
        max_difference = fmaxf(max_difference, fabsf(exact[i].top[0][0].logprob - rounded[i].top[0][0].logprob));
      }
      /* Experts next to gated delta nets: where two of them are close, rounding may send a row to
       * another. */
      float allowed = methods[q].max_difference * (strcmp(golden_models[m], "qwen3_5_moe") == 0 ? 1.5f : 1.0f);
      if (!(max_difference > 0 && max_difference <= allowed)) {
        fail_msg("%s, %s: a log-probability is off by %g", golden_models[m], methods[q].quantization, max_difference);
      }
    }
  }
}

/* ---- encode ---- */

static const char *const image_files[] = {"meadow_163x97.jpg", "tower_33x200.png", "harbour_301x211.jpg"};
enum { N_IMAGES = 3 };

static struct omma_embeddings *encode(struct omma_engine *engine, const struct omma_image *const *images, size_t n,
                                      bool together) {
  struct omma_error error;
  struct omma_embeddings *embeddings;
  assert_ok(omma_encode(engine, images, n, NULL, together, NULL, NULL, &embeddings, &error), &error);
  return embeddings;
}

static void expect_same(const struct omma_embeddings *a, size_t i, const struct omma_embeddings *b, size_t j) {
  struct omma_image_embeddings x, y;
  omma_embeddings_get(a, i, &x);
  omma_embeddings_get(b, j, &y);
  size_t bytes = (size_t)(x.n_tokens * x.width) * sizeof(float);
  assert_int_equal(x.n_tokens, y.n_tokens);
  assert_memory_equal(x.merged, y.merged, bytes);
  for (int64_t d = 0; d < x.n_deepstack; d++) assert_memory_equal(x.deepstack[d], y.deepstack[d], bytes);
}

static void images_are_bit_identical_in_any_batch(void **state) {
  (void)state;
  struct omma_image *images[N_IMAGES];
  struct omma_error error;
  char path[1024];
  for (int i = 0; i < N_IMAGES; i++) {
    golden_path("images", image_files[i], path, sizeof path);
    assert_ok(omma_image_load(path, NULL, &images[i], &error), &error);
  }
  const struct omma_image *forward[N_IMAGES] = {images[0], images[1], images[2]};
  const struct omma_image *backward[N_IMAGES] = {images[2], images[1], images[0]};
  for (size_t m = 0; golden_models[m]; m++) {
    for (int weights = OMMA_WEIGHTS_F32; weights <= OMMA_WEIGHTS_BF16; weights++) {
      if (test_small() && (weights == OMMA_WEIGHTS_F32) != (m % 2 == 0)) continue;
      struct omma_embeddings *results[2][3];
      for (int threads = 1; threads <= 2; threads++) {
        const struct setup setup = {.weights = weights, .n_threads = threads};
        struct omma_model *model = open_model(golden_models[m], setup);
        struct omma_engine *engine = make_engine(model, setup);
        results[threads - 1][0] = encode(engine, forward, N_IMAGES, true);
        results[threads - 1][1] = encode(engine, backward, N_IMAGES, true);
        results[threads - 1][2] = encode(engine, forward, N_IMAGES, false);
        omma_engine_destroy(engine);
        for (int i = 0; i < N_IMAGES; i++) {
          for (int threads_other = 1; threads_other <= threads; threads_other++) {
            expect_same(results[threads - 1][0], i, results[threads_other - 1][0], i);
            expect_same(results[threads - 1][0], i, results[threads_other - 1][1], N_IMAGES - 1 - i);
            expect_same(results[threads - 1][0], i, results[threads_other - 1][2], i);
          }
        }
        if (threads == 2) {
          for (int t = 0; t < 2; t++) {
            for (int k = 0; k < 3; k++) omma_embeddings_destroy(results[t][k]);
          }
        }
        omma_model_close(model);
      }
    }
  }
  for (int i = 0; i < N_IMAGES; i++) omma_image_destroy(images[i]);
}

/* ---- bf16 ---- */

static struct golden_error bf16_error(struct omma_engine *f32, struct omma_engine *bf16, const struct omma_image *image) {
  struct omma_embeddings *a = encode(bf16, &image, 1, true), *b = encode(f32, &image, 1, true);
  struct omma_image_embeddings x, y;
  omma_embeddings_get(a, 0, &x);
  omma_embeddings_get(b, 0, &y);
  struct golden_error error = golden_compare(x.merged, y.merged, x.n_tokens, x.width);
  for (int64_t d = 0; d < x.n_deepstack; d++) {
    struct golden_error deep = golden_compare(x.deepstack[d], y.deepstack[d], x.n_tokens, x.width);
    if (deep.whole > error.whole) error.whole = deep.whole;
    if (deep.worst_row > error.worst_row) error.worst_row = deep.worst_row;
  }
  omma_embeddings_destroy(a);
  omma_embeddings_destroy(b);
  return error;
}

static void bf16_stays_near_f32(void **state) {
  (void)state;
  struct omma_error error;
  char path[1024];
  for (size_t m = 0; golden_models[m]; m++) {
    const struct setup exact = {.weights = OMMA_WEIGHTS_F32, .n_threads = 2},
                       rounded = {.weights = OMMA_WEIGHTS_BF16, .n_threads = 2};
    struct omma_model *model = open_model(golden_models[m], exact), *model_bf16 = open_model(golden_models[m], rounded);
    struct omma_engine *engine = make_engine(model, exact), *engine_bf16 = make_engine(model_bf16, rounded);
    for (int i = 0; i < N_IMAGES; i++) {
      struct omma_image *image;
      golden_path("images", image_files[i], path, sizeof path);
      assert_ok(omma_image_load(path, NULL, &image, &error), &error);
      struct golden_error off = bf16_error(engine, engine_bf16, image);
      if (!(off.whole <= 2e-2 && off.worst_row <= 5e-2)) {
        fail_msg("%s, %s: bf16 is off by %g over the tensor and %g in the worst row", golden_models[m], image_files[i],
                 off.whole, off.worst_row);
      }
      omma_image_destroy(image);
    }
    omma_engine_destroy(engine);
    omma_engine_destroy(engine_bf16);
    omma_model_close(model);
    omma_model_close(model_bf16);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_equal_the_official_ones),
                                     cmocka_unit_test(answers_are_bit_identical), cmocka_unit_test(quantised_answers_stay_near),
                                     cmocka_unit_test(images_are_bit_identical_in_any_batch),
                                     cmocka_unit_test(bf16_stays_near_f32)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
