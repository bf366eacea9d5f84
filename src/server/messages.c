/* POST /v1/messages and /v1/messages/count_tokens. */
#include <inttypes.h>

#include "server/chat.h"
#include "server/endpoints.h"
#include "server/messages_request.h"
#include "server/request_json.h"

static void answer(struct ommai_exchange *exchange, struct ommai_chat_request *request) {
  ommai_chat_answer(exchange, request, &ommai_messages_form, NULL);
}

static void count(struct ommai_exchange *exchange, struct ommai_chat_request *request) {
  struct ommai_api_error error;
  struct ommai_text out;
  int64_t n_tokens;
  if (!ommai_chat_count_tokens(exchange->server, request, &n_tokens, &error)) {
    ommai_exchange_fail(exchange, &error);
    return;
  }
  ommai_text_init(&out, exchange->allocator);
  ommai_text_format(&out, "{\"input_tokens\":%" PRId64 "}", n_tokens);
  ommai_exchange_reply(exchange, 200, "application/json", &out);
}

static void start(struct ommai_exchange *exchange, bool count_only) {
  struct ommai_api_error error;
  struct ommai_chat_source source;
  json_t *root = ommai_request_parse(exchange->body.data, exchange->body.size, &error);
  ommai_text_free(&exchange->body);
  if (root && ommai_messages_request_read(exchange->server, root, count_only, &source, &error)) {
    ommai_chat_job_start(exchange, &source, count_only, count_only ? count : answer);
  } else {
    ommai_exchange_fail(exchange, &error);
  }
}

void ommai_endpoint_messages(struct ommai_exchange *exchange) { start(exchange, false); }

void ommai_endpoint_count_tokens(struct ommai_exchange *exchange) { start(exchange, true); }
