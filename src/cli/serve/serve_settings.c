#include "cli/serve/serve_settings.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/core/diagnostics.h"
#include "cli/core/json_words.h"

#define MAX_FILE_BYTES ((size_t)1 << 20)
#define MAX_KEYS ((size_t)4096)

const char *const ommai_serve_key_variables[] = {"OMMA_API_KEY", "VLLM_API_KEY", NULL};

static int no_memory(void) { return ommai_failed("serve: out of memory for the API keys"); }

/* What was given is copied and wiped first, whatever else is wrong. */
static int take_words(const struct ommai_strings *given, struct ommai_serve_keys *keys) {
  bool complete = true;
  for (size_t i = 0; i < given->count; i++) {
    const char *word = given->items[i];
    char *copy = keys->n_owned < MAX_KEYS ? ommai_duplicate(&ommai_default_allocator, word, strlen(word)) : NULL;
    explicit_bzero((char *)word, strlen(word)); /* argv may be written to */
    complete = complete && copy;
    if (copy) keys->keys.items[keys->n_owned++] = copy;
  }
  keys->keys.count = keys->n_owned;
  if (!complete) return no_memory();
  for (size_t i = 1; i < keys->n_owned; i++) {
    struct stat info;
    if (stat(keys->keys.items[i], &info) || !S_ISDIR(info.st_mode)) continue;
    return ommai_usage_error(
        "serve: --api-key: takes all words up to the next option, and word %zu is a directory: the model "
        "comes before --api-key",
        i + 1);
  }
  return OMMAI_EXIT_DONE;
}

static int take_file(const char *path, struct ommai_serve_keys *keys) {
  struct omma_error error;
  size_t before = keys->keys.count;
  if (ommai_file_read(path, MAX_FILE_BYTES, &ommai_default_allocator, &keys->file, &keys->file_size, &error) != OMMA_OK) {
    return ommai_failed("serve: --api-key-file: %s", error.message);
  }
  if (strlen(keys->file) != keys->file_size) return ommai_failed("serve: --api-key-file: %s: holds a NUL", path);
  char *rest = keys->file;
  for (char *line; (line = strsep(&rest, "\n"));) {
    line[strcspn(line, "\r")] = '\0';
    if (!*line || *line == '#') continue;
    if (keys->keys.count == MAX_KEYS) return ommai_failed("serve: --api-key-file: %s: more than %zu keys", path, MAX_KEYS);
    keys->keys.items[keys->keys.count++] = line;
  }
  if (keys->keys.count > before) return OMMAI_EXIT_DONE;
  return ommai_failed("serve: --api-key-file: %s: holds no key (one a line)", path);
}

static int take_environment(struct ommai_serve_keys *keys) {
  for (const char *const *variable = ommai_serve_key_variables; *variable; variable++) {
    const char *value = getenv(*variable);
    if (!value) continue;
    if (!*value) {
      return ommai_usage_error("serve: %s is set, but empty: give it a key, or unset it to serve without one", *variable);
    }
    keys->keys.items[keys->keys.count++] = value;
  }
  return OMMAI_EXIT_DONE;
}

int ommai_serve_keys_collect(const struct ommai_strings *given, const char *file, struct ommai_serve_keys *keys) {
  keys->keys.items = ommai_allocate(&ommai_default_allocator, MAX_KEYS, sizeof *keys->keys.items);
  if (!keys->keys.items) return no_memory();
  keys->keys.capacity = MAX_KEYS;
  int code = take_words(given, keys);
  if (code == OMMAI_EXIT_DONE && file) code = take_file(file, keys);
  if (code == OMMAI_EXIT_DONE && !file && !given->count) code = take_environment(keys);
  return code;
}

void ommai_serve_keys_release(struct ommai_serve_keys *keys) {
  for (size_t i = 0; i < keys->n_owned; i++) {
    size_t size = strlen(keys->keys.items[i]) + 1;
    explicit_bzero((char *)keys->keys.items[i], size);
    ommai_release(&ommai_default_allocator, (char *)keys->keys.items[i], size, 1);
  }
  if (keys->file) explicit_bzero(keys->file, keys->file_size);
  ommai_release(&ommai_default_allocator, keys->file, keys->file_size + 1, 1);
  ommai_release(&ommai_default_allocator, keys->keys.items, keys->keys.capacity, sizeof *keys->keys.items);
  *keys = (struct ommai_serve_keys){0};
}

/* ---- an encoder node ---- */

static const char FLAG[] = "--ec-transfer-config";

/* vLLM's, with those that mean nothing here. */
static const char *const known_keys[] = {"ec_connector",
                                         "ec_role",
                                         "engine_id",
                                         "ec_buffer_device",
                                         "ec_buffer_size",
                                         "ec_ip",
                                         "ec_port",
                                         "ec_connector_extra_config",
                                         "ec_connector_module_path",
                                         NULL};

static enum omma_status read_config(const json_t *root, struct omma_server_options *options, struct omma_error *error) {
  const char *connector = NULL, *role = NULL;
  json_t *extra = NULL;
  OMMAI_TRY(ommai_json_string(root, FLAG, "ec_connector", true, &connector, error));
  OMMAI_TRY(ommai_json_string(root, FLAG, "ec_role", true, &role, error));
  OMMAI_TRY(ommai_json_object(root, FLAG, "ec_connector_extra_config", false, &extra, error));
  if (strcmp(role, "ec_producer") != 0) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT,
                      "%s: ec_role: expected \"ec_producer\": this server encodes for others, and takes no embeddings", FLAG);
  }
  if (strcmp(connector, "ECExampleConnector") != 0) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT,
                      "%s: ec_connector: expected \"ECExampleConnector\", which are files in a directory; over HTTP embeddings "
                      "are published without this option",
                      FLAG);
  }
  OMMAI_TRY(ommai_json_string(extra, FLAG, "shared_storage_path", false, &options->encoding_directory, error));
  if (options->encoding_directory && options->encoding_directory[0]) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_ARGUMENT, "%s: ec_connector_extra_config: expected {\"shared_storage_path\": DIRECTORY}",
                    FLAG);
}

int ommai_encoder_node_read(const char *command, const struct ommai_encoder_node_values *values, struct ommai_common *common,
                            struct omma_server_options *options, json_t **config) {
  const char *text = values->ec_transfer_config;
  struct omma_error error;
  common->encoder_only = values->mm_encoder_only || text;
  options->no_page |= common->encoder_only; /* it asks questions */
  if (!text) return OMMAI_EXIT_DONE;
  if (ommai_json_option_read(FLAG, text, known_keys, config, &error) == OMMA_OK &&
      read_config(*config, options, &error) == OMMA_OK) {
    return OMMAI_EXIT_DONE;
  }
  return ommai_usage_error("%s: %s", command, error.message);
}

/* ---- open files ---- */

/* Open files besides connections: the server's own 32 for health checks and refusals; the model's
 * files, which stay mapped but not open; epoll sets, the log, stores; images that are read or
 * fetched, one for each of 64 workers. */
#define OTHER_FILES 128

int ommai_open_files_make_room(const char *command, int *max_connections) {
  struct rlimit limit;
  rlim_t needed = (rlim_t)*max_connections + OTHER_FILES;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return OMMAI_EXIT_DONE;
  limit.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= needed) return OMMAI_EXIT_DONE;
  unsigned long long found = limit.rlim_cur;
  if (found <= OTHER_FILES) {
    return ommai_failed(
        "%s: at least %d open files are needed, and the limit is %llu (ulimit -n, or LimitNOFILE= of a service)", command,
        OTHER_FILES + 1, found);
  }
  int room = (int)(found - OTHER_FILES);
  ommai_warn(
      "%s: --max-connections %d needs %llu open files, and the limit is %llu (ulimit -n, or LimitNOFILE= of a service): "
      "at most %d connections",
      command, *max_connections, (unsigned long long)needed, found, room);
  *max_connections = room;
  return OMMAI_EXIT_DONE;
}
