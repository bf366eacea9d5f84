/* The tower with int8 weights: near the f32 one on every golden model, the demo model's answers,
 * and the same bits whatever the threads, the packing and the rest of the batch. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

enum { N_IMAGES = 3 };
static const char *const image_files[N_IMAGES] = {"meadow_163x97.jpg", "tower_33x200.png", "harbour_301x211.jpg"};

#define DEMO OMMA_TEST_DATA "/../models/demo"

/* The error of an engine that cannot have int8 towers at this level; empty where it can. */

/* A golden model's tower, or the demo model's where there is no name. */
static struct omma_model *open_model(const char *name, enum omma_weight_type weights, int n_threads) {
  const struct omma_model_options options = {.vision_weights = weights, .n_threads = n_threads, .max_model_len = 1024};
  struct omma_model *model;
  struct omma_error error;
  if (name) return fixture_model(name, &options);
  assert_ok(omma_model_open(DEMO, &options, &model, &error), &error);
  return model;
}

static struct omma_embeddings *encode_by(struct omma_engine *engine, const struct omma_image *const *images, size_t n,
                                         bool together) {
  struct omma_error error;
  struct omma_embeddings *embeddings;
  assert_ok(omma_encode(engine, images, n, NULL, together, NULL, NULL, &embeddings, &error), &error);
  return embeddings;
}

static struct omma_embeddings *encode(const char *model_name, enum omma_weight_type weights, int n_threads,
                                      const struct omma_image *const *images, size_t n, bool together) {
  struct omma_model *model = open_model(model_name, weights, n_threads);
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct omma_embeddings *embeddings = encode_by(engine, images, n, together);
  omma_engine_destroy(engine);
  omma_model_close(model);
  return embeddings;
}

static double cosine(const float *a, const float *b, int64_t n) {
  double ab = 0, aa = 0, bb = 0;
  for (int64_t i = 0; i < n; i++) {
    ab += (double)a[i] * b[i];
    aa += (double)a[i] * a[i];
    bb += (double)b[i] * b[i];
  }
  return ab / sqrt(aa * bb);
}

struct nearness {
  double worst_merged, worst_deepstack, sum;
  int64_t n;
};

static void add_tensor(struct nearness *nearness, double *worst, const float *a, const float *b, int64_t n_tokens,
                       int64_t width) {
  for (int64_t i = 0; i < n_tokens; i++) {
    double near = cosine(a + i * width, b + i * width, width);
    if (!(near >= *worst)) *worst = near;
    nearness->sum += near;
    nearness->n++;
  }
}

/* Cosines between the tokens of the int8 tower and of the f32 one, deepstack's too. Frees both. */
static struct nearness compare(const char *name, struct omma_embeddings *f32, struct omma_embeddings *int8, size_t n) {
  struct nearness nearness = {.worst_merged = 1, .worst_deepstack = 1};
  for (size_t i = 0; i < n; i++) {
    struct omma_image_embeddings a, b;
    omma_embeddings_get(f32, i, &a);
    omma_embeddings_get(int8, i, &b);
    add_tensor(&nearness, &nearness.worst_merged, a.merged, b.merged, a.n_tokens, a.width);
    for (int64_t d = 0; d < a.n_deepstack; d++) {
      add_tensor(&nearness, &nearness.worst_deepstack, a.deepstack[d], b.deepstack[d], a.n_tokens, a.width);
    }
  }
  omma_embeddings_destroy(f32);
  omma_embeddings_destroy(int8);
  print_message("%s: cosine %.5f in the mean, %.5f for the worst token, %.5f of deepstack\n", name,
                nearness.sum / (double)nearness.n, nearness.worst_merged, nearness.worst_deepstack);
  return nearness;
}

/* Random towers 20 to 72 wide, in which a token of small norm swells every error (bf16's too). */
static void golden_towers_stay_near_f32(void **state) {
  (void)state;
  struct omma_image *images[N_IMAGES];
  for (int i = 0; i < N_IMAGES; i++) images[i] = fixture_image(image_files[i]);
  for (size_t m = 0; golden_models[m]; m++) {
    const struct omma_image *const all[N_IMAGES] = {images[0], images[1], images[2]};
    struct nearness near = compare(golden_models[m], encode(golden_models[m], OMMA_WEIGHTS_F32, 2, all, N_IMAGES, true),
                                   encode(golden_models[m], OMMA_WEIGHTS_INT8, 2, all, N_IMAGES, true), N_IMAGES);
    if (!(near.sum / (double)near.n >= 0.998 && near.worst_merged >= 0.95 && near.worst_deepstack >= 0.95))
      fail_msg("%s is too far off", golden_models[m]);
  }
  for (int i = 0; i < N_IMAGES; i++) omma_image_destroy(images[i]);
}

static void images_are_bit_identical_in_any_batch(void **state) {
  (void)state;
  struct omma_image *images[N_IMAGES];
  for (int i = 0; i < N_IMAGES; i++) images[i] = fixture_image(image_files[i]);
  const struct omma_image *const forward[N_IMAGES] = {images[0], images[1], images[2]}, *const backward[N_IMAGES] = {
                                                                                            images[2], images[1], images[0]};
  for (size_t m = 0; golden_models[m]; m++) {
    struct omma_embeddings *alone = encode(golden_models[m], OMMA_WEIGHTS_INT8, 1, forward, N_IMAGES, false);
    for (int threads = test_small() ? 1 + (int)(m % 3) : 1; threads <= 3; threads += test_small() ? 3 : 1) {
      struct omma_embeddings *packed = encode(golden_models[m], OMMA_WEIGHTS_INT8, threads, backward, N_IMAGES, true);
      for (size_t i = 0; i < N_IMAGES; i++) {
        struct omma_image_embeddings a, b;
        omma_embeddings_get(alone, i, &a);
        omma_embeddings_get(packed, N_IMAGES - 1 - i, &b);
        size_t bytes = (size_t)(a.n_tokens * a.width) * sizeof(float);
        assert_memory_equal(a.merged, b.merged, bytes);
        for (int64_t d = 0; d < a.n_deepstack; d++) assert_memory_equal(a.deepstack[d], b.deepstack[d], bytes);
      }
      omma_embeddings_destroy(packed);
    }
    omma_embeddings_destroy(alone);
  }
  for (int i = 0; i < N_IMAGES; i++) omma_image_destroy(images[i]);
}

static struct omma_image *demo_image(const json_t *question) {
  char path[1024];
  struct omma_error error;
  struct omma_image *image;
  snprintf(path, sizeof path, DEMO "/images/%s", json_string_value(json_object_get(question, "image")));
  assert_ok(omma_image_load(path, NULL, &image, &error), &error);
  return image;
}

/* On the shipped questions: every token's cosine, and the answers. What deepstack adds to a token
 * may be small compared with what it adds to others, and then is less exact. */
static void the_demo_model_answers_as_before(void **state) {
  (void)state;
  if (access(DEMO "/model.safetensors", R_OK) != 0) skip_because("no demo model");
  json_t *questions = json_load_file(DEMO "/images/questions.json", 0, NULL), *question;
  struct omma_model *model = open_model(NULL, OMMA_WEIGHTS_INT8, 2), *exact = open_model(NULL, OMMA_WEIGHTS_F32, 2);
  struct omma_engine *engine = fixture_engine(model, NULL), *exact_engine = fixture_engine(exact, NULL);
  const struct omma_sampling sampling = {.max_tokens = 64};
  static struct fixture_answer answer;
  size_t i;
  assert_true(json_array_size(questions) > 0);
  json_array_foreach(questions, i, question) {
    struct omma_image *image = demo_image(question);
    const struct omma_image *const images[1] = {image};
    const char *expected = json_string_value(json_object_get(question, "answer"));
    struct omma_request *request =
        fixture_request(model, images, 1, json_string_value(json_object_get(question, "question")), &sampling);
    fixture_ask(engine, request, &answer);
    assert_int_equal(answer.text_size, strlen(expected));
    assert_memory_equal(answer.text, expected, answer.text_size);
    struct nearness near = compare("demo", encode_by(exact_engine, images, 1, true), encode_by(engine, images, 1, true), 1);
    assert_true(near.worst_merged >= 0.999 && near.worst_deepstack >= 0.998);
    omma_request_destroy(request);
    omma_image_destroy(image);
  }
  omma_engine_destroy(engine);
  omma_engine_destroy(exact_engine);
  omma_model_close(model);
  omma_model_close(exact);
  json_decref(questions);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(golden_towers_stay_near_f32),
                                     cmocka_unit_test(images_are_bit_identical_in_any_batch),
                                     cmocka_unit_test(the_demo_model_answers_as_before)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
