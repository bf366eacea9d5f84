/* POST /v1/messages and /v1/messages/count_tokens. */

#include "base/json_writer.h"
#include "server/api/chat.h"
#include "server/api/messages_request.h"
#include "server/core/request_json.h"
#include "server/http/endpoints.h"
#include "server/http/http_call.h"

static void answer(struct ommai_http_call *call, struct ommai_chat_request *request) {
  ommai_chat_answer(call, request, &ommai_messages_reply_format, NULL);
}

static void count(struct ommai_http_call *call, struct ommai_chat_request *request) {
  struct ommai_api_error error;
  struct ommai_text out;
  int64_t n_tokens;
  if (!ommai_chat_count_tokens(call->server, request, &n_tokens, &error)) {
    ommai_http_call_fail(call, &error);
    return;
  }
  ommai_text_init(&out, call->allocator);
  ommai_put_begin(&out, NULL, "{");
  ommai_put_integer(&out, "input_tokens", n_tokens);
  ommai_put_end(&out, "}");
  ommai_http_call_reply(call, 200, "application/json", &out);
}

static void start(struct ommai_http_call *call, bool count_only) {
  struct ommai_api_error error;
  struct ommai_chat_source source;
  json_t *root = ommai_request_parse(call->body.data, call->body.size, &error);
  ommai_text_free(&call->body);
  if (root && ommai_messages_request_read(call->config, root, count_only, &source, &error)) {
    ommai_chat_job_start(call, &source, count_only, count_only ? count : answer);
  } else {
    ommai_http_call_fail(call, &error);
  }
}

void ommai_endpoint_messages(struct ommai_http_call *call) { start(call, false); }

void ommai_endpoint_count_tokens(struct ommai_http_call *call) { start(call, true); }
