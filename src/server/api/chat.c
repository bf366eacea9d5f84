/* POST /v1/chat/completions, /v1/messages (and /v1/messages/count_tokens) and /v1/responses: chats,
 * which differ in their requests and in the format of their replies. */
#include "server/api/answer.h"
#include "server/api/chat_job.h"
#include "server/api/other_requests.h"
#include "server/api/reply_format.h"
#include "server/http/endpoints.h"
#include "server/http/http_call.h"
#include "server/state/server_state.h"

struct conversation {
  const struct ommai_server *server;
  const struct ommai_chat_request *request;
};

static enum omma_status make_request(const void *context, int index, const struct omma_sampling *sampling,
                                     struct omma_request **request, struct omma_error *error) {
  (void)index;
  const struct conversation *conversation = context;
  const struct ommai_chat_request *source = conversation->request;
  struct omma_request_options options = {.sampling = *sampling,
                                         .continue_final_message = source->continue_final_message,
                                         .no_generation_prompt = source->no_generation_prompt,
                                         .tools = source->tools_text,
                                         .chat_template_kwargs = source->template_text,
                                         .max_model_len = omma_engine_max_model_len(conversation->server->engine),
                                         .priority = source->fields.priority,
                                         .whole = !source->fields.stream,
                                         .cache_salt = source->fields.cache_salt,
                                         .truncation = source->fields.truncation};
  return omma_request_create(conversation->server->config.model, source->messages, source->n_messages, &options, request,
                             error);
}

static void add_images(const void *context, struct ommai_text *list) {
  const struct conversation *conversation = context;
  const struct ommai_chat_request *request = conversation->request;
  for (size_t i = 0; i < request->n_parts_used; i++) {
    const struct omma_part *part = &request->parts[i];
    struct omma_image_sizes sizes;
    if (!part->image) continue;
    int32_t width = omma_image_width(part->image), height = omma_image_height(part->image);
    if (omma_model_image_sizes(conversation->server->config.model, width, height, &part->image_options, &sizes, NULL) !=
        OMMA_OK)
      continue;
    ommai_own_add_image(list, width, height, &sizes);
  }
}

/* Begins to answer. request_fields: what the reply repeats of the request, copied; NULL:
 * nothing. */
static bool chat_answer(struct ommai_http_call *call, struct ommai_chat_request *request,
                        const struct ommai_reply_format *format, const struct ommai_text *request_fields,
                        struct ommai_api_error *error) {
  struct conversation conversation = {call->server, request};
  struct ommai_answer_source source = {.fields = &request->fields,
                                       .format = format,
                                       .tools = &request->tools,
                                       .request_fields = request_fields,
                                       .n_prompts = 1,
                                       .n_images = request->n_images + request->n_videos,
                                       .make_request = make_request,
                                       .add_images = add_images,
                                       .context = &conversation};
  return ommai_answer_begin(call, &source, error);
}

/* ---- /v1/chat/completions ---- */

static bool answer(struct ommai_http_call *call, struct ommai_chat_request *request, struct ommai_api_error *error) {
  if (call->server->config.info.encoder_only) return ommai_encode_answer(call, request, error);
  return chat_answer(call, request, &ommai_chat_reply_format, NULL, error);
}

bool ommai_endpoint_chat(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error) {
  return ommai_chat_job_start(call, &(struct ommai_chat_source){.root = root}, false, answer, error);
}

/* ---- /v1/messages ---- */

static bool answer_message(struct ommai_http_call *call, struct ommai_chat_request *request, struct ommai_api_error *error) {
  return chat_answer(call, request, &ommai_messages_reply_format, NULL, error);
}

/* The tokens of the prompt that the request makes. */
static bool count(struct ommai_http_call *call, struct ommai_chat_request *request, struct ommai_api_error *error) {
  struct omma_error cause = {0};
  int64_t n_tokens;
  struct omma_request_options options = {.continue_final_message = request->continue_final_message,
                                         .no_generation_prompt = request->no_generation_prompt,
                                         .tools = request->tools_text,
                                         .chat_template_kwargs = request->template_text};
  if (omma_count_prompt_tokens(call->config->model, request->messages, request->n_messages, &options, &n_tokens, &cause) !=
      OMMA_OK) {
    return ommai_api_fail_from(error, &cause);
  }
  ommai_http_call_reply_json(call, json_pack("{s:I}", "input_tokens", (json_int_t)n_tokens));
  return true;
}

bool ommai_endpoint_messages(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error) {
  struct ommai_chat_source source;
  return ommai_messages_request_read(call->config, root, false, &source, error) &&
         ommai_chat_job_start(call, &source, false, answer_message, error);
}

bool ommai_endpoint_count_tokens(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error) {
  struct ommai_chat_source source;
  return ommai_messages_request_read(call->config, root, true, &source, error) &&
         ommai_chat_job_start(call, &source, true, count, error);
}

/* ---- /v1/responses ---- */

static bool answer_response(struct ommai_http_call *call, struct ommai_chat_request *request, struct ommai_api_error *error) {
  struct ommai_text fields = ommai_text_of(call->allocator);
  ommai_responses_request_write(request, &fields);
  bool good =
      fields.failed ? ommai_api_fail_memory(error) : chat_answer(call, request, &ommai_responses_reply_format, &fields, error);
  ommai_text_free(&fields);
  return good;
}

bool ommai_endpoint_responses(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error) {
  struct ommai_chat_source source;
  return ommai_responses_request_read(root, &source, error) &&
         ommai_chat_job_start(call, &source, false, answer_response, error);
}
