/* POST /v1/chat/completions. */
#include "server/api/chat.h"

#include "server/api/answer.h"
#include "server/api/encode_answer.h"
#include "server/core/request_json.h"
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

void ommai_chat_answer(struct ommai_http_call *call, struct ommai_chat_request *request,
                       const struct ommai_reply_format *format, const struct ommai_text *request_fields) {
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
  ommai_answer_begin(call, &source);
}

bool ommai_chat_count_tokens(const struct ommai_server *server, const struct ommai_chat_request *request, int64_t *n_tokens,
                             struct ommai_api_error *error) {
  struct omma_error cause = {0};
  struct omma_request_options options = {.continue_final_message = request->continue_final_message,
                                         .no_generation_prompt = request->no_generation_prompt,
                                         .tools = request->tools_text,
                                         .chat_template_kwargs = request->template_text};
  return omma_count_prompt_tokens(server->config.model, request->messages, request->n_messages, &options, n_tokens, &cause) ==
             OMMA_OK ||
         ommai_api_fail_from(error, &cause);
}

static void answer(struct ommai_http_call *call, struct ommai_chat_request *request) {
  if (call->server->config.info.encoder_only) {
    ommai_encode_answer(call, request);
  } else {
    ommai_chat_answer(call, request, &ommai_chat_reply_format, NULL);
  }
}

void ommai_endpoint_chat(struct ommai_http_call *call) {
  struct ommai_api_error error;
  json_t *root = ommai_request_parse(call->body.data, call->body.size, &error);
  ommai_text_free(&call->body);
  if (root) {
    ommai_chat_job_start(call, &(struct ommai_chat_source){.root = root}, false, answer);
  } else {
    ommai_http_call_fail(call, &error);
  }
}
