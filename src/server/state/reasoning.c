#include "server/state/reasoning.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "server/core/request_json.h"

/* ---- the server's marks ---- */

static const char CONFIG[] = "reasoning_config";

static bool ends_with(const char *text, const char *end) {
  size_t size = strlen(text), end_size = strlen(end);
  return size >= end_size && !memcmp(text + size - end_size, end, end_size);
}

/* A string of the object, NULL where it has none or an empty one; its last part must be the
 * parser's mark. */
static enum omma_status read_mark(const json_t *root, const char *key, const char *mark, const char **text,
                                  struct omma_error *error) {
  const json_t *value = ommai_field_get(root, key);
  *text = json_string_value(value);
  if (value && (!*text || strlen(*text) != json_string_length(value) || strlen(*text) > OMMAI_MAX_FORCED_END)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, CONFIG, "reasoning config: %s: expected a string of at most %d bytes",
                            key, OMMAI_MAX_FORCED_END);
  }
  if (!*text || !(*text)[0]) {
    *text = NULL;
    return OMMA_OK;
  }
  if (ends_with(*text, mark)) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, CONFIG,
                          "reasoning config: %s: expected a text that ends with %s, which this parser looks for", key, mark);
}

/* {"reasoning_start_str": TEXT, "reasoning_end_str": TEXT, "reasoning_parser": NAME}, each of which
 * may be missing. */
static enum omma_status read_config(const json_t *root, const char *parser, struct ommai_reasoning *reasoning,
                                    struct omma_error *error) {
  static const char *const known[] = {"reasoning_parser", "reasoning_start_str", "reasoning_end_str", NULL};
  const char *own = json_string_value(json_object_get(root, known[0])), *begin, *end;
  const char *other = ommai_json_other_key(root, known);
  if (other) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, CONFIG, "reasoning config: unknown key \"%.40s\"", other);
  if (own && own[0] && parser && strcmp(own, parser) != 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, CONFIG,
                            "reasoning config: reasoning_parser: another one than the parser given, %s", parser);
  }
  if (!parser) parser = own && own[0] ? own : NULL;
  if (!parser) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, CONFIG, "reasoning config: it needs a reasoning parser");
  }
  OMMAI_TRY(omma_reasoning_find(parser, &reasoning->marks, error));
  OMMAI_TRY(read_mark(root, known[1], reasoning->marks.begin, &begin, error));
  OMMAI_TRY(read_mark(root, known[2], reasoning->marks.end, &end, error));
  if (!end) return OMMA_OK;
  memcpy(reasoning->forced_end, end, strlen(end) + 1);
  reasoning->marks.forced_end = reasoning->forced_end;
  return OMMA_OK;
}

enum omma_status ommai_reasoning_take(const char *parser, const char *config, struct ommai_reasoning *reasoning,
                                      struct omma_error *error) {
  json_t *root;
  *reasoning = (struct ommai_reasoning){.on = false};
  if (!config) {
    if (parser) OMMAI_TRY(omma_reasoning_find(parser, &reasoning->marks, error));
    reasoning->on = parser != NULL;
    return OMMA_OK;
  }
  enum omma_status status = ommai_json_load("reasoning config", config, strlen(config), &root, error);
  if (status != OMMA_OK) {
    snprintf(error->field, sizeof error->field, "%s", CONFIG);
    return status;
  }
  status = read_config(root, parser, reasoning, error);
  json_decref(root);
  reasoning->on = status == OMMA_OK;
  return status;
}

/* ---- requests ---- */

/* -1: any number of tokens. */
static bool read_budget(const struct ommai_reasoning *reasoning, const json_t *root, int64_t *budget,
                        struct ommai_api_error *error) {
  static const char FIELD[] = "thinking_token_budget";
  const char *effort = NULL;
  *budget = -1;
  if (!ommai_field_string(root, "reasoning_effort", &effort, error) ||
      !ommai_field_integer(root, FIELD, -1, INT32_MAX, budget, error)) {
    return false;
  }
  if (*budget >= 0 && !reasoning->on) {
    return ommai_api_fail(error, 400, FIELD, "%s %" PRId64 " needs a server with --reasoning-parser.", FIELD, *budget);
  }
  if (effort && !strcmp(effort, "none") && reasoning->on && !ommai_field_get(root, FIELD)) *budget = 0;
  return true;
}

/* Other servers' switches of reasoning. Where it is not separated they ask for nothing. */
static bool refuse_switches(const json_t *root, struct ommai_api_error *error) {
  static const char *const keys[] = {"enable_thinking", "thinking"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    if (!ommai_field_get(root, keys[i])) continue;
    return ommai_api_fail(error, 400, keys[i], "%s is not supported; here it is chat_template_kwargs.enable_thinking.",
                          keys[i]);
  }
  return true;
}

bool ommai_reasoning_read(const struct ommai_reasoning *reasoning, const json_t *root, struct omma_sampling *sampling,
                          bool *shown, struct ommai_api_error *error) {
  int64_t budget;
  *shown = true;
  if (!read_budget(reasoning, root, &budget, error) || !ommai_field_boolean(root, "include_reasoning", shown, error))
    return false;
  *shown &= reasoning->on;
  if (!reasoning->on) return true;
  if (!refuse_switches(root, error)) return false;
  sampling->reasoning = &reasoning->marks;
  sampling->limits_thinking = budget >= 0;
  sampling->max_thinking_tokens = budget;
  return true;
}
