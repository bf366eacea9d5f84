/* POST /sleep and /wake_up, GET /is_sleeping: vLLM's sleep mode. */
#include <string.h>

#include "base/allocator.h"
#include "server/http/connection.h"
#include "server/http/endpoints.h"
#include "server/http/http_call.h"
#include "server/state/server_state.h"

/* What vLLM wakes up one by one. Weights never sleep here, and nothing is scheduled without keys
 * and values. */
enum { TAG_WEIGHTS = 1, TAG_KV_CACHE = 2, TAG_SCHEDULING = 4, ALL_TAGS = 7 };
static const char *const tag_names[] = {"weights", "kv_cache", "scheduling"};

/* What a query asks for. */
struct wish {
  int level;
  bool waits; /* for the requests at hand; else they are ended */
  unsigned tags;
};

struct sleep_call {
  struct ommai_sleep_step step; /* first: a step is its call */
  struct ommai_http_call *call;
  unsigned tags; /* 0: none were named */
};

/* ---- queries ---- */

typedef bool take_parameter(struct wish *wish, const char *name, const char *value, struct ommai_api_error *error);

static bool take_of_sleep(struct wish *wish, const char *name, const char *value, struct ommai_api_error *error) {
  if (!strcmp(name, "level")) {
    wish->level = !strcmp(value, "1") ? 1 : !strcmp(value, "2") ? 2 : 0;
    return wish->level || ommai_api_fail(error, 400, "level", "level: expected 1 or 2, found %s", value);
  }
  if (!strcmp(name, "mode")) {
    wish->waits = !strcmp(value, "wait");
    return wish->waits || !strcmp(value, "abort") ||
           ommai_api_fail(error, 400, "mode", "mode: expected abort or wait, found %s", value);
  }
  return ommai_api_fail(error, 400, NULL, "/sleep takes level and mode, found %s", name);
}

static bool take_of_wake_up(struct wish *wish, const char *name, const char *value, struct ommai_api_error *error) {
  if (strcmp(name, "tags") != 0) return ommai_api_fail(error, 400, NULL, "/wake_up takes tags, found %s", name);
  for (int i = 0; 1 << i <= ALL_TAGS; i++) {
    if (strcmp(value, tag_names[i]) != 0) continue;
    wish->tags |= 1u << i;
    return true;
  }
  return ommai_api_fail(error, 400, "tags", "tags: expected weights, kv_cache or scheduling, found %s", value);
}

/* Parameters are plain words; escapes in them are not resolved. */
static bool read_query(const struct ommai_http_call *call, take_parameter *take, struct wish *wish,
                       struct ommai_api_error *error) {
  char text[OMMAI_QUERY_SIZE], *rest = text, *name;
  if (!call->query) return ommai_api_fail(error, 400, NULL, "The query is longer than %zu bytes.", sizeof text - 1);
  memcpy(text, call->query, strlen(call->query) + 1);
  while ((name = strsep(&rest, "&"))) {
    char *value = strchr(name, '=');
    if (!*name) continue;
    if (value) *value++ = '\0';
    if (!take(wish, name, value ? value : "", error)) return false;
  }
  return true;
}

/* ---- replies ---- */

/* null where none were named. */
static json_t *list_of(unsigned tags) {
  json_t *list = tags ? json_array() : json_null();
  for (int i = 0; 1 << i <= ALL_TAGS; i++) {
    if (tags >> i & 1) json_array_append_new(list, json_string(tag_names[i]));
  }
  return list;
}

/* As in vLLM; level 0: it was to wake up. */
static void reply(struct ommai_http_call *call, int level, bool sleeps, unsigned tags) {
  const char *status = sleeps ? "sleeping" : "awake";
  ommai_http_call_reply_json(call, level ? json_pack("{s:s, s:i}", "status", status, "level", level)
                                         : json_pack("{s:s, s:o}", "status", status, "tags", list_of(tags)));
}

static void end(struct ommai_sleep_step *step, const struct ommai_api_error *error) {
  struct sleep_call *made = (struct sleep_call *)step;
  struct ommai_http_call *call = made->call;
  if (error) {
    ommai_http_call_fail(call, error);
  } else {
    reply(call, step->level, step->level > 0, made->tags);
  }
  ommai_release(call->allocator, made, 1, sizeof *made);
  ommai_http_call_release(call);
}

/* ---- endpoints ---- */

static bool check_enabled(const struct ommai_http_call *call, struct ommai_api_error *error) {
  if (call->config->settings.enable_sleep_mode) return true;
  ommai_api_fail(error, 404, NULL, "Not Found: this server was started without --enable-sleep-mode.");
  error->type = "Not Found";
  return false;
}

static bool begin(struct ommai_http_call *call, const struct wish *wish, struct ommai_api_error *error) {
  struct sleep_call *made = ommai_allocate(call->allocator, 1, sizeof *made);
  if (!made) return ommai_api_fail_memory(error);
  made->step.level = wish->level;
  made->step.end = end;
  made->call = call;
  made->tags = wish->tags;
  ommai_http_call_retain(call);
  ommai_sleep_begin(&call->server->sleep, &made->step);
  return true;
}

static void abort_working(struct ommai_http_call *call) {
  if (ommai_http_call_is_working(call)) ommai_http_call_abort(call, "sleep", "The server goes to sleep.");
}

void ommai_endpoint_sleep(struct ommai_http_call *call) {
  struct wish wish = {.level = 1};
  struct ommai_api_error error;
  if (!check_enabled(call, &error) || !read_query(call, take_of_sleep, &wish, &error) || !begin(call, &wish, &error)) {
    ommai_http_call_fail(call, &error);
  } else if (!wish.waits) {
    ommai_http_call_for_each(call->server, abort_working);
  }
}

void ommai_endpoint_wake_up(struct ommai_http_call *call) {
  struct wish wish = {0};
  struct ommai_api_error error;
  bool good = check_enabled(call, &error) && read_query(call, take_of_wake_up, &wish, &error);
  if (good && wish.tags && !(wish.tags & TAG_KV_CACHE)) {
    reply(call, 0, atomic_load(&call->server->sleep.refuses), wish.tags);
  } else if (!good || !begin(call, &wish, &error)) {
    ommai_http_call_fail(call, &error);
  }
}

void ommai_endpoint_is_sleeping(struct ommai_http_call *call) {
  bool sleeps = atomic_load(&call->server->sleep.refuses);
  ommai_http_call_reply_json(call, json_pack("{s:b}", "is_sleeping", sleeps));
}
