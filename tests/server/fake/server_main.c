/* The server over the fake engine, as a program: `--key value` pairs as in the table below. Prints
 * its address, serves until SIGTERM or SIGINT, and prints the engine's counters at the end.
 * `--fail-start N` lets the N-th allocation of the start fail, `--fail-later N` the N-th after
 * it. */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/allocator.h"
#include "server/server.h"

struct failing {
  struct omma_allocator interface;
  atomic_llong left; /* allocations until the one that fails; negative: none does */
};

struct settings {
  struct failing allocator;
  int64_t fail_start, fail_later;
  struct omma_server_options server;
  struct omma_engine_options engine;
  struct omma_model_options opening;
  const char *keys[8], *origins[8], *methods[8], *headers[8], *model;
  char *lists[8];
  size_t n_lists;
};

static void print_line(void *context, const char *line) {
  (void)context;
  fprintf(stderr, "log: %s\n", line);
}

static void *allocate(void *context, size_t size, size_t alignment) {
  struct failing *failing = context;
  if (atomic_load(&failing->left) >= 0 && atomic_fetch_sub(&failing->left, 1) == 0) return NULL;
  return ommai_default_allocator.allocate(NULL, size, alignment);
}

static void release(void *context, void *pointer, size_t size) {
  (void)context;
  ommai_default_allocator.release(NULL, pointer, size);
}

/* The words of ["a", "b"], at most 8. */
static size_t read_words(struct settings *s, const char *text, const char **words) {
  size_t n_words = 0;
  char *at = s->lists[s->n_lists++] = strdup(text);
  for (char *word = strtok(at, "[], \""); word && n_words < 8; word = strtok(NULL, "[], \"")) words[n_words++] = word;
  return n_words;
}

static bool set_cross_origin(struct settings *s, const char *key, const char *value) {
  struct omma_cross_origin_options *options = &s->server.cross_origin;
  if (!strcmp(key, "--allowed-origins")) return options->n_origins = read_words(s, value, s->origins), true;
  if (!strcmp(key, "--allowed-methods")) return options->n_methods = read_words(s, value, s->methods), true;
  if (!strcmp(key, "--allowed-headers")) return options->n_headers = read_words(s, value, s->headers), true;
  if (!strcmp(key, "--allow-credentials")) return options->credentials = true, true;
  return false;
}

/* Settings of the server under their own names. False for others. */
static bool set_by_table(struct settings *s, const char *key, const char *value) {
  static const struct ommai_option *const tables[] = {ommai_server_address_settings, ommai_server_request_settings,
                                                      ommai_server_media_settings,   ommai_server_limit_settings,
                                                      ommai_server_log_settings,     ommai_server_inner_settings};
  struct omma_error error;
  for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
    for (const struct ommai_option *option = tables[t]; option->name; option++) {
      if (option->type == OMMAI_OPTION_FLAG || strncmp(key, "--", 2) != 0 || strcmp(option->name, key + 2) != 0) continue;
      if (ommai_option_read(option, value, &s->server, &error) == OMMA_OK) return true;
      fprintf(stderr, "%s %s: %s\n", key, value, error.message);
    }
  }
  return false;
}

static bool set(struct settings *s, const char *key, const char *value) {
  int64_t number = strtoll(value, NULL, 10);
  if (set_cross_origin(s, key, value) || set_by_table(s, key, value)) return true;
  if (!strcmp(key, "--api-key")) return s->keys[s->server.n_api_keys++] = value, true;
  if (!strcmp(key, "--metrics-without-key")) return s->server.settings.metrics_without_key = number, true;
  if (!strcmp(key, "--no-page")) return s->server.no_page = number, true;
  if (!strcmp(key, "--enable-auto-tool-choice")) return s->server.enable_auto_tool_choice = number, true;
  if (!strcmp(key, "--trust-media-uuids")) return s->server.settings.trust_media_uuids = number, true;
  if (!strcmp(key, "--enable-sleep-mode")) return s->server.settings.enable_sleep_mode = number, true;
  if (!strcmp(key, "--images")) return s->server.settings.limit_images_per_prompt = number, true;
  if (!strcmp(key, "--videos")) return s->server.settings.limit_videos_per_prompt = number, true;
  if (!strcmp(key, "--min-pixels")) return s->server.settings.image_options.min_pixels = number, true;
  if (!strcmp(key, "--allow-private-media-addresses")) return s->server.allow_private_media_addresses = number, true;
  if (!strcmp(key, "--max-image-bytes")) return s->server.settings.image_limits.max_bytes = number, true;
  if (!strcmp(key, "--leave-ms")) return s->server.settings.leave_ns = number * 1000000, true;
  if (!strcmp(key, "--drain-ms")) return s->server.settings.drain_ns = number * 1000000, true;
  if (!strcmp(key, "--log-json")) return s->server.log_json = number, true;
  if (!strcmp(key, "--log-access")) return s->server.settings.log_access = number, true;
  if (!strcmp(key, "--log-requests")) return s->server.settings.log_requests = number, true;
  if (!strcmp(key, "--unlogged-paths")) return s->server.unlogged_paths = value, true;
  if (!strcmp(key, "--max-pixels")) return s->server.settings.image_options.max_pixels = number, true;
  if (!strcmp(key, "--model")) return s->model = value, true;
  if (!strcmp(key, "--task")) return s->opening.task = (enum omma_model_task)number, true;
  if (!strcmp(key, "--queue-limit")) return s->engine.queue_limit = number, true;
  if (!strcmp(key, "--fail-start")) return s->fail_start = number, true;
  if (!strcmp(key, "--fail-later")) return s->fail_later = number, true;
  return false;
}

static void free_settings(struct settings *s) {
  for (size_t i = 0; i < s->n_lists; i++) free(s->lists[i]);
  ommai_strings_release(&s->server.served_model_names);
  ommai_strings_release(&s->server.allowed_media_domains);
}

int main(int argc, char **argv) {
  struct settings settings = {.fail_start = -1, .fail_later = -1, .model = ""};
  struct omma_error error = {0};
  struct omma_model *model = NULL;
  struct omma_engine *engine = NULL;
  struct ommai_server *server = NULL;
  struct omma_engine_stats stats;
  sigset_t signals;
  ommai_server_options_default(&settings.server);
  settings.server.log = print_line;
  settings.server.port = 0;
  settings.server.api_keys = settings.keys;
  settings.server.cross_origin.origins = settings.origins;
  settings.server.cross_origin.methods = settings.methods;
  settings.server.cross_origin.headers = settings.headers;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!set(&settings, argv[i], argv[i + 1])) return fprintf(stderr, "unknown option %s\n", argv[i]), 2;
  }
  settings.allocator.interface = (struct omma_allocator){&settings.allocator, allocate, release};
  settings.server.allocator = &settings.allocator.interface;
  atomic_init(&settings.allocator.left, settings.fail_start);
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, NULL);
  int stop = signalfd(-1, &signals, SFD_CLOEXEC);
  if (omma_model_open(settings.model, &settings.opening, &model, &error) ||
      omma_engine_create(model, &settings.engine, &engine, &error) ||
      ommai_server_create(&settings.server, model, engine, &server, &error)) {
    fprintf(stderr, "%s\n", error.message);
    omma_engine_destroy(engine);
    free_settings(&settings);
    return 1;
  }
  atomic_store(&settings.allocator.left, settings.fail_later);
  printf("listening on http://127.0.0.1:%d\n", ommai_server_port(server));
  fflush(stdout);
  bool failed = ommai_server_run(server, stop, NULL, &error) != OMMA_OK;
  ommai_server_destroy(server);
  omma_engine_get_stats(engine, &stats);
  omma_engine_destroy(engine);
  omma_model_close(model);
  close(stop);
  free_settings(&settings);
  printf("stop=%" PRId64 " length=%" PRId64 " cancelled=%" PRId64 " error=%" PRId64 " running=%" PRId64 "\n",
         stats.n_finished[0], stats.n_finished[1], stats.n_finished[2], stats.n_finished[3], stats.n_running);
  return failed;
}
