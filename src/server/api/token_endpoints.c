/* POST /tokenize and /detokenize. */

#include "base/allocator.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "server/api/chat_job.h"
#include "server/api/other_requests.h"
#include "server/api/reply_format.h"
#include "server/api/token_fields.h"
#include "server/core/request_json.h"
#include "server/http/endpoints.h"
#include "server/http/http_call.h"
#include "server/state/server_config.h"

static void write_tokens(const struct ommai_server_config *config, const int32_t *tokens, size_t n_tokens, bool with_texts,
                         struct ommai_text *out) {
  char text[OMMAI_TOKEN_TEXT_SIZE];
  ommai_put_begin(out, NULL, "{");
  OMMAI_PUT_INTEGERS(out, {"count", (int64_t)n_tokens}, {"max_model_len", config->info.max_model_len});
  ommai_put_begin(out, "tokens", "[");
  for (size_t i = 0; i < n_tokens; i++) ommai_put_integer(out, NULL, tokens[i]);
  ommai_put_end(out, "]");
  if (with_texts) {
    ommai_put_begin(out, "token_strs", "[");
    for (size_t i = 0; i < n_tokens; i++) {
      ommai_put_text(out, NULL, text, ommai_reply_token_text(config->model, tokens[i], text));
    }
    ommai_put_end(out, "]");
  } else {
    ommai_put_null(out, "token_strs");
  }
  ommai_put_end(out, "}");
}

static bool tokenize_text(const struct ommai_server_config *config, const json_t *prompt, bool with_texts,
                          struct ommai_text *out, struct ommai_api_error *error) {
  int32_t *tokens;
  size_t n_tokens;
  size_t max_tokens = (size_t)config->info.max_model_len;
  if (!ommai_text_tokenize(config, prompt, max_tokens, &tokens, &n_tokens, error)) return false;
  write_tokens(config, tokens, n_tokens, with_texts, out);
  ommai_release(config->allocator, tokens, n_tokens, sizeof *tokens);
  return true;
}

static bool write_message_tokens(const struct ommai_server_config *config, const struct ommai_chat_request *source,
                                 struct ommai_text *out, struct ommai_api_error *error) {
  struct omma_request *request;
  struct omma_error cause = {0};
  struct omma_request_options options = {.continue_final_message = source->continue_final_message,
                                         .no_generation_prompt = source->no_generation_prompt,
                                         .tools = source->tools_text,
                                         .chat_template_kwargs = source->template_text};
  bool with_texts = false;
  if (!ommai_field_boolean(source->root, "return_token_strs", &with_texts, error)) return false;
  if (omma_request_create(config->model, source->messages, source->n_messages, &options, &request, &cause) != OMMA_OK) {
    return ommai_api_fail_from(error, &cause);
  }
  size_t n_tokens = 0;
  const int32_t *tokens = omma_request_prompt(request, &n_tokens);
  write_tokens(config, tokens, n_tokens, with_texts, out);
  omma_request_destroy(request);
  return true;
}

static bool tokenize_messages(struct ommai_http_call *call, struct ommai_chat_request *source, struct ommai_api_error *error) {
  struct ommai_text out = ommai_text_of(call->allocator);
  bool good = write_message_tokens(call->config, source, &out, error);
  if (good) ommai_http_call_reply(call, 200, "application/json", &out);
  ommai_text_free(&out);
  return good;
}

bool ommai_tokenize(const struct ommai_server_config *config, json_t *root, struct ommai_text *out,
                    struct ommai_api_error *error) {
  const json_t *prompt = ommai_field_get(root, "prompt");
  bool with_texts = false, done = false;
  const char *model;
  if (!ommai_field_boolean(root, "return_token_strs", &with_texts, error)) goto end;
  if (!ommai_model_read(config, root, &model, error)) goto end;
  if (!prompt) {
    ommai_api_fail_body(error, "body.prompt", "Field required: prompt or messages.");
  } else if (!ommai_json_is_text(prompt)) {
    ommai_api_fail(error, 400, "prompt", "prompt must be a string, got %s.", ommai_json_kind(prompt));
  } else {
    done = tokenize_text(config, prompt, with_texts, out, error);
  }
end:
  json_decref(root);
  return done;
}

static bool write_text(const struct ommai_server_config *config, const int32_t *tokens, size_t n_tokens, struct ommai_text *out,
                       struct ommai_api_error *error) {
  struct ommai_text text = ommai_text_of(config->allocator);
  bool done = ommai_token_text_add(config, tokens, n_tokens, &text, error);
  if (done) {
    ommai_put_begin(out, NULL, "{");
    ommai_put_text(out, "prompt", text.data, text.size);
    ommai_put_end(out, "}");
  }
  ommai_text_free(&text);
  return done;
}

bool ommai_detokenize(const struct ommai_server_config *config, json_t *root, struct ommai_text *out,
                      struct ommai_api_error *error) {
  const json_t *array = ommai_field_get(root, "tokens");
  size_t n_tokens = 0;
  int32_t *tokens = NULL;
  bool done = false;
  const char *model;
  if (!ommai_model_read(config, root, &model, error)) goto end;
  if (!json_is_array(array)) {
    if (array) {
      ommai_api_fail(error, 400, "tokens", "tokens must be an array of token ids, got %s.", ommai_json_kind(array));
    } else {
      ommai_api_fail_body(error, "body.tokens", "Field required: tokens.");
    }
    goto end;
  }
  if (!ommai_token_array_read(config, array, "tokens", &tokens, &n_tokens, error)) goto end;
  done = write_text(config, tokens, n_tokens, out, error);
end:
  ommai_release(config->allocator, tokens, n_tokens, sizeof *tokens);
  json_decref(root);
  return done;
}

/* Takes root over. */
static bool reply(struct ommai_http_call *call, json_t *root,
                  bool (*work)(const struct ommai_server_config *config, json_t *root, struct ommai_text *out,
                               struct ommai_api_error *error),
                  struct ommai_api_error *error) {
  struct ommai_text out = ommai_text_of(call->allocator);
  bool good = work(call->config, root, &out, error);
  if (good) ommai_http_call_reply(call, 200, "application/json", &out);
  ommai_text_free(&out);
  return good;
}

bool ommai_endpoint_tokenize(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error) {
  if (!ommai_field_get(root, "messages")) return reply(call, root, ommai_tokenize, error);
  return ommai_chat_job_start(call, &(struct ommai_chat_source){.root = root}, true, tokenize_messages, error);
}

bool ommai_endpoint_detokenize(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error) {
  return reply(call, root, ommai_detokenize, error);
}
