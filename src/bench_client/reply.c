#include "bench_client/reply.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/growing.h"
#include "base/json.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

/* Texts are kept for the detailed result, for accuracy and to count their tokens; a server that
 * never stops must not fill the memory. */
#define MAX_TEXT_BYTES OMMAI_TOKENIZER_MAX_TEXT

void ommai_reply_init(struct ommai_reply *reply, bool chat, int64_t prompt_len, const struct omma_allocator *allocator) {
  *reply = (struct ommai_reply){.allocator = allocator, .chat = chat, .output_tokens = -1, .prompt_len = prompt_len};
  ommai_event_stream_init(&reply->events, allocator);
}

void ommai_reply_release(struct ommai_reply *reply) {
  ommai_release(reply->allocator, reply->itls, reply->itls_capacity, sizeof *reply->itls);
  ommai_release(reply->allocator, reply->text, reply->text_capacity, 1);
  ommai_event_stream_release(&reply->events);
}

void ommai_reply_fail(struct ommai_reply *reply, const char *format, ...) {
  char line[OMMAI_REPLY_ERROR_SIZE / 3];
  reply->success = false;
  if (reply->error[0]) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  for (char *c = line; *c; c++) {
    if ((unsigned char)*c < 0x20) *c = ' ';
  }
  size_t size = ommai_utf8_replace(line, strlen(line), reply->error, sizeof reply->error - 1);
  reply->error[size] = '\0';
}

static enum omma_status take_time(struct ommai_reply *reply, double now) {
  if (reply->token_counter) (*reply->token_counter)++;
  if (!reply->started) {
    reply->started = true;
    reply->ttft = now - reply->start_time;
  } else {
    if (!ommai_grow((void **)&reply->itls, &reply->itls_capacity, reply->n_itls, 1, sizeof *reply->itls, reply->allocator)) {
      return OMMA_ERROR_MEMORY;
    }
    reply->itls[reply->n_itls++] = now - reply->last_time;
  }
  reply->last_time = now;
  reply->latency = now - reply->start_time;
  return OMMA_OK;
}

static enum omma_status take_text(struct ommai_reply *reply, const json_t *piece) {
  size_t size = json_string_length(piece);
  if (size == 0) return OMMA_OK;
  if (size > MAX_TEXT_BYTES - reply->text_size) {
    ommai_reply_fail(reply, "the answer has more than %zu bytes", MAX_TEXT_BYTES);
    return OMMA_ERROR_LIMIT;
  }
  if (!ommai_grow((void **)&reply->text, &reply->text_capacity, reply->text_size, size, 1, reply->allocator)) {
    return OMMA_ERROR_MEMORY;
  }
  memcpy(reply->text + reply->text_size, json_string_value(piece), size);
  reply->text_size += size;
  return OMMA_OK;
}

static enum omma_status take_choice(struct ommai_reply *reply, const json_t *choice, double now) {
  const json_t *delta = json_object_get(choice, "delta");
  if (!json_is_object(reply->chat ? delta : choice)) {
    ommai_reply_fail(reply, "an event's choices[0] has no %s", reply->chat ? "delta" : "text");
    return OMMA_ERROR_FORMAT;
  }
  OMMAI_TRY(take_time(reply, now));
  return take_text(reply, reply->chat ? json_object_get(delta, "content") : json_object_get(choice, "text"));
}

/* A count that can be one; anything else counts as missing. */
static void take_count(const json_t *usage, const char *key, int64_t *count) {
  const json_t *value = json_object_get(usage, key);
  if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > INT32_MAX) return;
  *count = json_integer_value(value);
}

static void take_usage(struct ommai_reply *reply, const json_t *usage) {
  take_count(usage, "completion_tokens", &reply->output_tokens);
  take_count(usage, "prompt_tokens", &reply->prompt_len);
}

static enum omma_status take_error(struct ommai_reply *reply, const json_t *error) {
  const char *message = json_string_value(json_object_get(error, "message"));
  if (!message) message = json_is_string(error) ? json_string_value(error) : "no message";
  ommai_reply_fail(reply, "the stream reports an error: %s", message);
  return OMMA_ERROR_FORMAT;
}

static enum omma_status take_event(void *context, const char *data, size_t size) {
  struct ommai_reply *reply = context;
  if (strcmp(data, "[DONE]") == 0) return OMMA_OK;
  double now = ommai_clock_seconds();
  json_error_t wrong;
  bool no_memory;
  json_t *event = ommai_json_parse(data, size, JSON_ALLOW_NUL, &wrong, &no_memory);
  enum omma_status status = OMMA_OK;
  const json_t *choices = json_object_get(event, "choices"), *usage = json_object_get(event, "usage");
  const json_t *error = json_object_get(event, "error");
  if (no_memory) {
    status = OMMA_ERROR_MEMORY;
  } else if (!json_is_object(event)) {
    ommai_reply_fail(reply, "an event is not a JSON object: %s: %.80s", event ? "another value" : wrong.text, data);
    status = OMMA_ERROR_FORMAT;
  } else if (json_array_size(choices)) {
    status = take_choice(reply, json_array_get(choices, 0), now);
  } else if (json_object_size(usage)) {
    take_usage(reply, usage);
  } else if (error && !json_is_null(error)) {
    status = take_error(reply, error);
  }
  json_decref(event);
  return status;
}

/* Most failures have been described where they were found. */
static bool check(struct ommai_reply *reply, enum omma_status status) {
  if (status == OMMA_OK) return true;
  ommai_reply_fail(reply, "the reply cannot be read: %s", omma_status_name(status));
  return false;
}

bool ommai_reply_feed(struct ommai_reply *reply, const char *bytes, size_t size) {
  return check(reply, ommai_event_stream_feed(&reply->events, bytes, size, take_event, reply));
}

void ommai_reply_end(struct ommai_reply *reply) {
  if (!check(reply, ommai_event_stream_end(&reply->events, take_event, reply))) return;
  if (!reply->started) {
    ommai_reply_fail(reply, "the reply ended without a token: no event with choices");
  } else if (!reply->error[0]) {
    reply->success = true;
  }
}
