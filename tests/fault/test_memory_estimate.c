/* omma_estimate_memory against the process: a child opens a model, encodes an image and generates,
 * and reads its own anonymous memory from /proc/self/status all the while. What it took besides the
 * program itself stays within the estimate.
 *
 * The test runs itself as the child: test_memory_estimate --child DIRECTORY WEIGHTS THREADS
 * SEQUENCES. */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "model/model.h"
#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHADOW_MEMORY 1
#else
#define SHADOW_MEMORY 0
#endif

/* What the program takes besides the estimate: the C library's heap, thread stacks, the tokenizer
 * and config.json, the images and their embeddings. */
enum { PROGRAM_KB = 12 * 1024, MAX_SEQUENCES = 32 };

static int64_t anonymous_kb(void) {
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  long long kb = -1;
  if (!file) return -1;
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "RssAnon: %lld kB", &kb) == 1) break;
  }
  fclose(file);
  return kb;
}

static int64_t peak_kb;

static void look(void) {
  int64_t now = anonymous_kb();
  if (now > peak_kb) peak_kb = now;
}

static void look_progress(void *context, int64_t done, int64_t total) {
  (void)context;
  (void)done;
  (void)total;
  look();
}

static bool look_token(void *context, const struct omma_token_event *event) {
  (void)context;
  (void)event;
  look();
  return true;
}

static atomic_int n_open;

static void note_end(void *context, const struct omma_result *result) {
  *(bool *)context = result->finish == OMMA_FINISH_LENGTH;
  atomic_fetch_sub(&n_open, 1);
}

/* As many requests as the engine takes at once, each with its own resize of the image; all are
 * answered. */
static bool ask_at_once(const struct omma_model *model, struct omma_engine *engine, const struct omma_image *image, int n) {
  const struct omma_part parts[] = {{.image = image}, {.text = "What is this?", .text_size = 13}};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = 2};
  const struct omma_request_options asked = {
      .sampling = {.max_tokens = test_small() ? 16 : 64, .ignore_eos = true, .logprobs = true}};
  struct omma_request *requests[MAX_SEQUENCES] = {NULL};
  bool answered[MAX_SEQUENCES] = {false}, all = true;
  atomic_store(&n_open, n);
  for (int i = 0; i < n && all; i++) {
    const struct omma_callbacks callbacks = {.context = &answered[i], .on_token = look_token, .on_finish = note_end};
    all = omma_request_create(model, &message, 1, &asked, &requests[i], NULL) == OMMA_OK &&
          omma_engine_submit(engine, requests[i], &callbacks, NULL, NULL) == OMMA_OK;
  }
  while (all && atomic_load(&n_open) > 0) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  for (int i = 0; i < n && all; i++) all = answered[i];
  for (int i = 0; i < n && all; i++) omma_request_destroy(requests[i]);
  return all;
}

/* The child: exit status 0 within the estimate, 1 over it, 2 on any other trouble. */
static int run_child(const char *directory, enum omma_weight_type weights, int n_threads, int n_sequences) {
  struct omma_model *model;
  struct omma_engine *engine;
  struct omma_error error;
  struct omma_embeddings *embeddings;
  struct omma_memory_estimate estimate;
  char path[1024];
  const struct omma_model_options options = {.weights = weights == OMMA_WEIGHTS_INT8 ? OMMA_WEIGHTS_AUTO : weights,
                                             .vision_weights = weights,
                                             .quantization = weights == OMMA_WEIGHTS_INT8 ? "int4" : NULL,
                                             .n_threads = n_threads,
                                             .max_model_len = 512,
                                             .progress = look_progress};
  int64_t start = anonymous_kb();
  if (start < 0) return 77;
  if (omma_model_open(directory, &options, &model, &error) != OMMA_OK) return 2;
  struct omma_image *image;
  struct omma_image_sizes image_sizes;
  golden_path("images", "harbour_301x211.jpg", path, sizeof path);
  if (omma_image_load(path, NULL, &image, &error) != OMMA_OK) return 2;
  if (omma_model_image_sizes(model, 301, 211, NULL, &image_sizes, &error) != OMMA_OK) return 2;
  /* No more than the image needs, so that little of the estimate stays untouched. */
  const struct omma_engine_options sizes = {
      .patch_budget = image_sizes.n_patches, .prefill_chunk = 128, .max_sequences = n_sequences, .encoder_cache_bytes = -1};
  if (omma_estimate_memory(model, &sizes, image_sizes.n_patches, &estimate, &error) != OMMA_OK) return 2;
  if (omma_engine_create(model, &sizes, &engine, &error) != OMMA_OK) return 2;
  look();
  const struct omma_image *const images[] = {image};
  if (omma_encode(engine, images, 1, NULL, true, look_progress, NULL, &embeddings, &error) != OMMA_OK) return 2;
  omma_embeddings_destroy(embeddings);
  if (!ask_at_once(model, engine, image, n_sequences)) return 2;
  look();
  omma_image_destroy(image);
  omma_engine_destroy(engine);
  omma_model_close(model);
  int64_t taken = peak_kb - start, estimated = estimate.total_bytes / 1024;
  bool within = taken <= estimated + PROGRAM_KB;
  printf(
      "%s, weights %d, %d threads, %d sequences: started with %lld kB, took %lld kB at most; estimated %lld kB (weights %lld): "
      "%s\n",
      directory, weights, n_threads, n_sequences, (long long)start, (long long)taken, (long long)estimated,
      (long long)estimate.weight_bytes / 1024, within ? "within" : "over");
  return within ? 0 : 1;
}

static void expect_within(const char *directory, enum omma_weight_type weights, int n_threads, int n_sequences) {
  char weights_text[16], threads_text[16], sequences_text[16];
  if (test_emulated()) skip_because("the memory measured would be the emulator's, which starts no program of the build");
  snprintf(weights_text, sizeof weights_text, "%d", weights);
  snprintf(threads_text, sizeof threads_text, "%d", n_threads);
  snprintf(sequences_text, sizeof sequences_text, "%d", n_sequences);
  fflush(stdout);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    execl("/proc/self/exe", "test_memory_estimate", "--child", directory, weights_text, threads_text, sequences_text,
          (char *)NULL);
    _exit(2);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77 || (SHADOW_MEMORY && WEXITSTATUS(status) == 1)) skip();
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void golden_models_stay_within_their_estimate(void **state) {
  (void)state;
  char path[1024];
  for (size_t m = 0; golden_models[m]; m++) {
    golden_path(golden_models[m], NULL, path, sizeof path);
    if (!test_small() || m % 2 == 0) expect_within(path, OMMA_WEIGHTS_F32, 1, 1);
    if (!test_small() || m % 2 == 1) expect_within(path, OMMA_WEIGHTS_BF16, 2, 8);
  }
}

static void the_demo_model_stays_within_its_estimate(void **state) {
  (void)state;
  const char *directory = OMMA_TEST_DATA "/../models/demo";
  if (access(OMMA_TEST_DATA "/../models/demo/model.safetensors", R_OK) != 0) skip();
  expect_within(directory, OMMA_WEIGHTS_AUTO, 2, 8);
  expect_within(directory, OMMA_WEIGHTS_F32, 1, test_small() ? 8 : MAX_SEQUENCES);
  expect_within(directory, OMMA_WEIGHTS_INT8, 2, 1);
}

/* The estimate of a model without weights is that of the model with them, and its parts sum up. */
static void estimates_do_not_need_weights(void **state) {
  (void)state;
  for (size_t m = 0; golden_models[m]; m++) {
    const struct omma_model_options with = {.n_threads = 2, .max_model_len = 1000},
                                    without = {.n_threads = 2, .max_model_len = 1000, .config_only = true};
    struct omma_model *models[2] = {fixture_model(golden_models[m], &with), fixture_model(golden_models[m], &without)};
    struct omma_memory_estimate estimates[2];
    struct omma_error error;
    for (int64_t n_patches = 0; n_patches < 5000; n_patches += 1000) {
      for (int i = 0; i < 2; i++) assert_ok(omma_estimate_memory(models[i], NULL, n_patches, &estimates[i], &error), &error);
      assert_memory_equal(&estimates[0], &estimates[1], sizeof estimates[0]);
    }
    const struct omma_memory_estimate *estimate = &estimates[0];
    assert_int_equal(estimate->total_bytes,
                     estimate->weight_bytes + estimate->kv_cache_bytes + estimate->vision_workspace_bytes +
                         estimate->language_workspace_bytes + estimate->linear_scratch_bytes + estimate->table_bytes +
                         estimate->max_sequences * estimate->text_request_bytes +
                         estimate->max_image_sequences * (estimate->request_bytes - estimate->text_request_bytes));
    assert_int_equal(estimate->kv_cache_tokens, OMMA_DEFAULT_FULL_SEQUENCES * 1024);
    assert_int_equal(estimate->max_model_len, 1000);
    struct omma_model_info info;
    omma_model_get_info(models[1], &info);
    assert_int_equal(estimate->weight_bytes, info.weight_bytes);
    for (int i = 0; i < 2; i++) omma_model_close(models[i]);
  }
}

/* Its weights without a tower, and its keys and values in every page. */
static void a_draft_model_is_in_the_estimate(void **state) {
  (void)state;
  char path[1024];
  golden_path("qwen3_vl_heads", NULL, path, sizeof path);
  const struct omma_model_options alone = {.n_threads = 2, .max_model_len = 1000},
                                  with = {.n_threads = 2, .max_model_len = 1000, .draft_model = path};
  struct omma_model *models[3] = {fixture_model("qwen3_vl_tied", &alone), fixture_model("qwen3_vl_heads", &alone),
                                  fixture_model("qwen3_vl_tied", &with)};
  struct omma_memory_estimate estimates[3];
  struct omma_error error;
  for (int i = 0; i < 3; i++) assert_ok(omma_estimate_memory(models[i], NULL, 0, &estimates[i], &error), &error);
  assert_int_equal(estimates[2].kv_page_bytes, estimates[0].kv_page_bytes + estimates[1].kv_page_bytes);
  assert_int_equal(estimates[2].kv_cache_bytes, estimates[2].kv_cache_tokens / 64 * estimates[2].kv_page_bytes);
  assert_true(estimates[2].weight_bytes > estimates[0].weight_bytes);
  assert_true(estimates[2].weight_bytes < estimates[0].weight_bytes + estimates[1].weight_bytes);
  assert_true(estimates[2].table_bytes > estimates[0].table_bytes + estimates[1].language_workspace_bytes / 2);
  for (int i = 0; i < 3; i++) omma_model_close(models[i]);
}

/* Of every type of weights, the language model in int4 with the last, for any number of threads. */
static void the_linear_layers_scratch_is_as_estimated(void **state) {
  (void)state;
  for (size_t m = 0; golden_models[m]; m++) {
    for (int weights = OMMA_WEIGHTS_F32; weights <= OMMA_WEIGHTS_INT8; weights++) {
      if (test_small() && (size_t)weights % 2 != m % 2) continue;
      const struct omma_model_options options = {.weights = weights == OMMA_WEIGHTS_INT8 ? OMMA_WEIGHTS_AUTO : weights,
                                                 .vision_weights = weights,
                                                 .quantization = weights == OMMA_WEIGHTS_INT8 ? "int4" : NULL,
                                                 .n_threads = weights,
                                                 .max_model_len = 1024};
      char path[1024];
      struct omma_model *model;
      struct omma_memory_estimate estimate;
      struct omma_error error;
      golden_path(golden_models[m], NULL, path, sizeof path);
      assert_ok(omma_model_open(path, &options, &model, &error), &error);
      assert_ok(omma_estimate_memory(model, NULL, 0, &estimate, &error), &error);
      assert_true(estimate.linear_scratch_bytes > 0);
      assert_int_equal(estimate.linear_scratch_bytes, ommai_linear_context_scratch_bytes(model->network.linear_context));
      omma_model_close(model);
    }
  }
}

int main(int n_arguments, char **arguments) {
  if (n_arguments == 6 && strcmp(arguments[1], "--child") == 0) {
    return run_child(arguments[2], (enum omma_weight_type)atoi(arguments[3]), atoi(arguments[4]), atoi(arguments[5]));
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(golden_models_stay_within_their_estimate),
      cmocka_unit_test(the_demo_model_stays_within_its_estimate),
      cmocka_unit_test(estimates_do_not_need_weights),
      cmocka_unit_test(a_draft_model_is_in_the_estimate),
      cmocka_unit_test(the_linear_layers_scratch_is_as_estimated),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
