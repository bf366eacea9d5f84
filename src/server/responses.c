/* POST /v1/responses. */
#include "server/chat.h"
#include "server/endpoints.h"
#include "server/request_json.h"
#include "server/responses_request.h"

static void answer(struct ommai_exchange *exchange, struct ommai_chat_request *request) {
  struct ommai_api_error error;
  struct ommai_text fields;
  ommai_text_init(&fields, exchange->allocator);
  ommai_responses_request_write(request, &fields);
  if (fields.failed) {
    ommai_api_fail_memory(&error);
    ommai_exchange_fail(exchange, &error);
  } else {
    ommai_chat_answer(exchange, request, &ommai_responses_form, &fields);
  }
  ommai_text_free(&fields);
}

void ommai_endpoint_responses(struct ommai_exchange *exchange) {
  struct ommai_api_error error;
  struct ommai_chat_source source;
  json_t *root = ommai_request_parse(exchange->body.data, exchange->body.size, &error);
  ommai_text_free(&exchange->body);
  if (root && ommai_responses_request_read(root, &source, &error)) {
    ommai_chat_job_start(exchange, &source, false, answer);
  } else {
    ommai_exchange_fail(exchange, &error);
  }
}
