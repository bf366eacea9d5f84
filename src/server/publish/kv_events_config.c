#include "server/publish/kv_events_config.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

#define FLAG "--kv-events-config"
#define FIELD "kv_events_config"
#define MAX_STEPS 1000000

static enum omma_status check_keys(const json_t *root, struct omma_error *error) {
  static const char *const known[] = {"enable_kv_cache_events", "publisher",    "endpoint",
                                      "replay_endpoint",        "buffer_steps", "hwm",
                                      "max_queue_size",         "topic",        NULL};
  const char *other = ommai_json_other_key(root, known);
  if (!other) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD, FLAG ": unknown key \"%.100s\"", other);
}

static enum omma_status read_text(const json_t *root, const char *key, char out[OMMAI_KV_EVENTS_TEXT],
                                  struct omma_error *error) {
  const char *text = NULL;
  OMMAI_TRY(ommai_json_string(root, FLAG, key, false, &text, error));
  if (!text) return OMMA_OK;
  if (strlen(text) >= OMMAI_KV_EVENTS_TEXT) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD, FLAG ": %s: expected at most %d bytes, found %zu", key,
                            OMMAI_KV_EVENTS_TEXT - 1, strlen(text));
  }
  snprintf(out, OMMAI_KV_EVENTS_TEXT, "%s", text);
  return OMMA_OK;
}

static enum omma_status read_endpoint(const json_t *root, const char *key, char out[OMMAI_KV_EVENTS_TEXT],
                                      struct omma_error *error) {
  OMMAI_TRY(read_text(root, key, out, error));
  if (!out[0] || strncmp(out, "tcp://", 6) == 0 || strncmp(out, "ipc://", 6) == 0) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD, FLAG ": %s: expected tcp://ADDRESS:PORT or ipc://PATH, found %s",
                          key, out);
}

static enum omma_status read_publisher(const json_t *root, struct ommai_kv_events_config *config, struct omma_error *error) {
  const char *publisher = NULL;
  OMMAI_TRY(ommai_json_boolean(root, FLAG, "enable_kv_cache_events", false, &config->enabled, error));
  OMMAI_TRY(ommai_json_string(root, FLAG, "publisher", false, &publisher, error));
  if (!publisher || strcmp(publisher, "zmq") == 0) return OMMA_OK;
  config->enabled = false;
  if (strcmp(publisher, "null") == 0) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD, FLAG ": publisher: expected \"zmq\" or \"null\", found \"%.100s\"",
                          publisher);
}

static enum omma_status read_all(const json_t *root, struct ommai_kv_events_config *config, struct omma_error *error) {
  OMMAI_TRY(check_keys(root, error));
  OMMAI_TRY(read_publisher(root, config, error));
  OMMAI_TRY(read_endpoint(root, "endpoint", config->endpoint, error));
  OMMAI_TRY(read_endpoint(root, "replay_endpoint", config->replay_endpoint, error));
  OMMAI_TRY(read_text(root, "topic", config->topic, error));
  OMMAI_TRY(ommai_json_integer(root, FLAG, "buffer_steps", false, 1, MAX_STEPS, &config->buffer_steps, error));
  OMMAI_TRY(ommai_json_integer(root, FLAG, "hwm", false, 1, MAX_STEPS, &config->hwm, error));
  OMMAI_TRY(ommai_json_integer(root, FLAG, "max_queue_size", false, 1, MAX_STEPS, &config->max_queue_size, error));
  if (config->endpoint[0]) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD, FLAG ": endpoint: expected tcp://ADDRESS:PORT or ipc://PATH");
}

enum omma_status ommai_kv_events_config_parse(const char *text, struct ommai_kv_events_config *config,
                                              struct omma_error *error) {
  json_t *root;
  *config = (struct ommai_kv_events_config){
      .endpoint = "tcp://*:5557", .buffer_steps = 10000, .hwm = 100000, .max_queue_size = 100000};
  OMMAI_TRY(ommai_json_load(FLAG, text, strlen(text), &root, error));
  enum omma_status status = read_all(root, config, error);
  json_decref(root);
  return status;
}

bool ommai_kv_events_config_binds(const char *endpoint) {
  return strchr(endpoint, '*') || strstr(endpoint, "::") || strncmp(endpoint, "ipc://", 6) == 0;
}
