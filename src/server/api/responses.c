/* POST /v1/responses. */
#include "server/api/chat.h"
#include "server/api/responses_request.h"
#include "server/core/request_json.h"
#include "server/http/endpoints.h"
#include "server/http/http_call.h"

static void answer(struct ommai_http_call *call, struct ommai_chat_request *request) {
  struct ommai_api_error error;
  struct ommai_text fields;
  ommai_text_init(&fields, call->allocator);
  ommai_responses_request_write(request, &fields);
  if (fields.failed) {
    ommai_api_fail_memory(&error);
    ommai_http_call_fail(call, &error);
  } else {
    ommai_chat_answer(call, request, &ommai_responses_reply_format, &fields);
  }
  ommai_text_free(&fields);
}

void ommai_endpoint_responses(struct ommai_http_call *call) {
  struct ommai_api_error error;
  struct ommai_chat_source source;
  json_t *root = ommai_request_parse(call->body.data, call->body.size, &error);
  ommai_text_free(&call->body);
  if (root && ommai_responses_request_read(root, &source, &error)) {
    ommai_chat_job_start(call, &source, false, answer);
  } else {
    ommai_http_call_fail(call, &error);
  }
}
