#include "support/model_fixture.h"

#include <jansson.h>
#include <omma/attention.h>
#include <stdlib.h>

#include "language/feed_forward.h"
#include "model/model.h"
#include "support/golden.h"
#include "support/test.h"
#include "support/toy_mixer.h"

struct omma_model *fixture_model(const char *name, const struct omma_model_options *options) {
  static const struct omma_model_options defaults = {.weights = OMMA_WEIGHTS_F32, .n_threads = 1, .max_model_len = 1024};
  char path[1024];
  struct omma_error error;
  struct omma_model *model;
  golden_path(name, NULL, path, sizeof path);
  assert_ok(omma_model_open(path, options ? options : &defaults, &model, &error), &error);
  return model;
}

struct omma_model *fixture_groups_model(enum fixture_groups groups, const struct omma_model_options *options) {
  struct omma_model *model = fixture_model(groups == FIXTURE_ALTERNATING ? "qwen2_vl_sliding" : "qwen2_5_vl_sliding", options);
  if (groups != FIXTURE_HYBRID) return model;
  model->config.text.layers[1] = (struct ommai_layer_config){&toy_mixer, &ommai_ffn_dense, 0};
  model->network.decoder.config = model->config.text;
  return model;
}

struct omma_engine *fixture_engine(struct omma_model *model, const struct omma_engine_options *options) {
  struct omma_error error;
  struct omma_engine *engine;
  assert_ok(omma_engine_create(model, options, &engine, &error), &error);
  return engine;
}

int64_t fixture_kv_bytes(const struct omma_model *model, int64_t n_pages) {
  struct omma_memory_estimate estimate;
  struct omma_error error;
  assert_ok(omma_estimate_memory(model, NULL, 0, &estimate, &error), &error);
  return n_pages * estimate.kv_page_bytes;
}

struct omma_image *fixture_image(const char *name) {
  char path[1024];
  struct omma_error error;
  struct omma_image *image;
  golden_path("images", name, path, sizeof path);
  assert_ok(omma_image_load(path, NULL, &image, &error), &error);
  return image;
}

struct omma_request *fixture_request(const struct omma_model *model, const struct omma_image *const *images, size_t n_images,
                                     const char *text, const struct omma_sampling *sampling) {
  struct omma_part parts[GOLDEN_MAX_PARTS] = {{0}};
  struct omma_error error;
  struct omma_request *request;
  struct omma_request_options options = {0};
  if (sampling) options.sampling = *sampling;
  assert_true(n_images < GOLDEN_MAX_PARTS);
  for (size_t i = 0; i < n_images; i++) parts[i].image = images[i];
  parts[n_images] = (struct omma_part){.text = text, .text_size = strlen(text)};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = n_images + 1};
  assert_ok(omma_request_create(model, &message, 1, &options, &request, &error), &error);
  return request;
}

bool fixture_collect(void *context, const struct omma_token_event *event) {
  struct fixture_answer *answer = context;
  assert_int_equal(event->index, answer->n);
  assert_true(answer->n < FIXTURE_MAX_TOKENS && answer->text_size + event->text_size <= FIXTURE_MAX_TEXT);
  answer->tokens[answer->n] = event->token;
  answer->logprobs[answer->n] = event->has_logprob ? event->logprob : 0;
  answer->n++;
  if (event->text_size) memcpy(answer->text + answer->text_size, event->text, event->text_size);
  answer->text_size += event->text_size;
  answer->n_last += event->last;
  return true;
}

struct omma_result fixture_ask(struct omma_engine *engine, const struct omma_request *request, struct fixture_answer *answer) {
  struct omma_result result;
  struct omma_error error;
  const struct omma_callbacks callbacks = {.context = answer, .on_token = fixture_collect};
  memset(answer, 0, sizeof *answer);
  assert_ok(omma_generate(engine, request, &callbacks, &result, &error), &error);
  assert_int_equal(answer->n_last, 1);
  assert_int_equal(result.n_completion_tokens, answer->n);
  return result;
}

void fixture_expect_equal(const struct fixture_answer *a, const struct fixture_answer *b) {
  assert_int_equal(a->n, b->n);
  assert_memory_equal(a->tokens, b->tokens, sizeof a->tokens);
  assert_memory_equal(a->logprobs, b->logprobs, sizeof a->logprobs);
  assert_int_equal(a->text_size, b->text_size);
  assert_memory_equal(a->text, b->text, sizeof a->text);
}

void fixture_gate_init(struct fixture_gate *gate, bool open) {
  *gate = (struct fixture_gate){.open = open};
  pthread_mutex_init(&gate->mutex, NULL);
  pthread_cond_init(&gate->changed, NULL);
}

void fixture_gate_destroy(struct fixture_gate *gate) {
  pthread_mutex_destroy(&gate->mutex);
  pthread_cond_destroy(&gate->changed);
}

void fixture_gate_pass(struct fixture_gate *gate) {
  pthread_mutex_lock(&gate->mutex);
  gate->n_arrived++;
  pthread_cond_broadcast(&gate->changed);
  while (!gate->open) pthread_cond_wait(&gate->changed, &gate->mutex);
  pthread_mutex_unlock(&gate->mutex);
}

void fixture_gate_await(struct fixture_gate *gate, int n_arrived) {
  pthread_mutex_lock(&gate->mutex);
  while (gate->n_arrived < n_arrived) pthread_cond_wait(&gate->changed, &gate->mutex);
  pthread_mutex_unlock(&gate->mutex);
}

void fixture_gate_open(struct fixture_gate *gate) {
  pthread_mutex_lock(&gate->mutex);
  gate->open = true;
  pthread_cond_broadcast(&gate->changed);
  pthread_mutex_unlock(&gate->mutex);
}

unsigned char *fixture_read(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("%s: cannot be opened", path);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  *size = (size_t)ftell(file);
  rewind(file);
  unsigned char *bytes = malloc(*size + 1);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, *size, file), *size);
  assert_int_equal(fclose(file), 0);
  return bytes;
}

void fixture_copy_file(const char *from, const char *to) {
  size_t size;
  unsigned char *bytes = fixture_read(from, &size);
  test_write_file(to, bytes, size);
  free(bytes);
}

/* Copies those of the files that the golden model has. */
static void copy_files(const char *model, const char *const *files, const char *folder) {
  for (; *files; files++) {
    char from[1024], to[TEST_PATH_SIZE];
    golden_path(model, *files, from, sizeof from);
    FILE *there = fopen(from, "rb");
    if (!there) continue;
    assert_int_equal(fclose(there), 0);
    fixture_copy_file(from, test_path(to, folder, *files));
  }
}

static const char *const config_files[] = {"config.json", "preprocessor_config.json", "generation_config.json", NULL};

void fixture_copy_config(const char *model, char folder[TEST_PATH_SIZE]) {
  test_folder_create(folder);
  copy_files(model, config_files, folder);
}

void fixture_copy_checkpoint(const char *model, char folder[TEST_PATH_SIZE]) {
  static const char *const weights[] = {"chat_template.jinja",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "model.safetensors",
                                        "model.safetensors.index.json",
                                        "model-00001-of-00003.safetensors",
                                        "model-00002-of-00003.safetensors",
                                        "model-00003-of-00003.safetensors",
                                        NULL};
  fixture_copy_config(model, folder);
  copy_files(model, weights, folder);
}

void fixture_set_key(const char *folder, const char *file, const char *key, const char *json) {
  char path[TEST_PATH_SIZE], name[256];
  json_error_t reason;
  json_t *root = json_load_file(test_path(path, folder, file), 0, &reason), *object = root;
  if (!root) fail_msg("%s: %s", path, reason.text);
  assert_true(strlen(key) < sizeof name);
  strcpy(name, key);
  char *at = name;
  for (char *dot; (dot = strchr(at, '.')); at = dot + 1) {
    *dot = '\0';
    object = json_object_get(object, at);
    if (!json_is_object(object)) fail_msg("%s: %s of %s is not an object", path, at, key);
  }
  if (json) {
    json_t *value = json_loads(json, JSON_DECODE_ANY, &reason);
    if (!value) fail_msg("%s: %s", json, reason.text);
    assert_int_equal(json_object_set_new(object, at, value), 0);
  } else {
    assert_int_equal(json_object_del(object, at), 0);
  }
  char *text = json_dumps(root, 0);
  test_write_file(path, text, strlen(text));
  free(text);
  json_decref(root);
}
