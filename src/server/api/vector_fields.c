#include "server/api/vector_requests.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "server/api/answer_fields.h"
#include "server/api/token_fields.h"
#include "server/core/request_json.h"
#include "server/state/server_state.h"

const struct ommai_vector_rules *ommai_vector_rules_of(const char *path) {
  static const struct ommai_vector_rules embedding = {.id_prefix = "embd-"}, cohere = {.is_cohere = true, .id_prefix = "embd-"},
                                         pooling = {.is_pooling = true, .id_prefix = "pooling-"},
                                         scoring = {.is_scoring = true, .id_prefix = "score-"},
                                         reranking = {.is_scoring = true, .is_reranking = true, .id_prefix = "score-"};
  static const struct {
    const char *path;
    const struct ommai_vector_rules *rules;
  } list[] = {{"/v2/embed", &cohere},  {"/v1/embeddings", &embedding}, {"/pooling", &pooling},     {"/score", &scoring},
              {"/v1/score", &scoring}, {"/rerank", &reranking},        {"/v1/rerank", &reranking}, {"/v2/rerank", &reranking}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    if (strcmp(list[i].path, path) == 0) return list[i].rules;
  }
  return NULL;
}

/* How vectors are written in the reply. */
static bool read_encoding(const json_t *root, struct ommai_vector_fields *fields, struct ommai_api_error *error) {
  static const char *const formats[] = {"float", "base64", "bytes_only", NULL};
  static const char *const types[] = {"float32", "float16", "bfloat16", NULL};
  static const char *const orders[] = {"native", "little", "big", NULL};
  int format = 0, type = 0, order = 0;
  if (!ommai_field_word(root, "encoding_format", formats, &format, error) ||
      !ommai_field_word(root, "embed_dtype", types, &type, error) ||
      !ommai_field_word(root, "endianness", orders, &order, error)) {
    return false;
  }
  fields->format = (enum ommai_vector_format)format;
  fields->type = (enum ommai_vector_type)type;
  fields->big_endian = order == 2 || (order == 0 && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
  return true;
}

/* The values that ask for what is done anyway are accepted. */
static bool refuse_fields(const json_t *root, struct ommai_api_error *error) {
  static const char *const paddings[] = {"do_not_pad", NULL};
  static const char *const keys[] = {"chat_template", "prompt_embeds"};
  int padding = 0;
  bool add_special_tokens = true;
  if (ommai_field_get(root, "normalize")) {
    return ommai_api_fail(error, 400, "normalize", "Parameter `normalize` was removed; use `use_activation` instead.");
  }
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    if (ommai_field_is_neutral(ommai_field_get(root, keys[i]))) continue;
    return ommai_api_fail(error, 400, keys[i], "%s is not supported.", keys[i]);
  }
  return ommai_field_word(root, "padding", paddings, &padding, error) &&
         ommai_field_boolean(root, "add_special_tokens", &add_special_tokens, error);
}

/* As vLLM: the first tokens are kept where no side is named. */
static bool read_truncation(const struct ommai_server *server, const json_t *root, struct omma_truncation *truncation,
                            struct ommai_api_error *error) {
  int64_t room = omma_engine_max_model_len(server->engine) - 1;
  if (!ommai_truncation_read(root, room, truncation, error)) return false;
  if (!ommai_field_get(root, "truncation_side")) truncation->keep_first = true;
  return true;
}

/* By either of its names; the template's wins, as in vLLM. */
static bool read_instruction(const json_t *root, struct ommai_vector_fields *fields, struct ommai_api_error *error) {
  static const char *const known[] = {"instruction", NULL};
  const json_t *kwargs;
  return ommai_field_string(root, "instruction", &fields->instruction, error) &&
         ommai_field_object(root, "chat_template_kwargs", known, &kwargs, error) &&
         ommai_field_string(kwargs, "instruction", &fields->instruction, error);
}

static bool read_max_tokens(const struct ommai_server *server, const json_t *root, const char *key, int64_t *limit,
                            struct ommai_api_error *error) {
  return ommai_field_integer(root, key, 0, server->config.info.max_model_len - 1, limit, error);
}

static bool read_scoring(const struct ommai_server *server, const json_t *root, const struct ommai_vector_rules *rules,
                         struct ommai_vector_fields *fields, struct ommai_api_error *error) {
  return read_instruction(root, fields, error) &&
         read_max_tokens(server, root, "max_tokens_per_query", &fields->max_query_tokens, error) &&
         read_max_tokens(server, root, "max_tokens_per_doc", &fields->max_document_tokens, error) &&
         (!rules->is_reranking || ommai_field_integer(root, "top_n", 0, INT32_MAX, &fields->top_n, error));
}

/* The task of /pooling, which must be the model's. */
static bool read_task(const struct ommai_server *server, const json_t *root, struct ommai_api_error *error) {
  const char *task = NULL, *own = server->config.info.token_vector_width        ? "token_embed"
                                  : server->config.info.task == OMMA_TASK_SCORE ? "classify"
                                                                                : "embed";
  if (!ommai_field_string(root, "task", &task, error)) return false;
  return !task || strcmp(task, own) == 0 ||
         ommai_api_fail(error, 400, "task", "Unsupported task: '%.40s' Supported tasks: ['%s']", task, own);
}

/* Only a model that has one vector for an input takes dimensions elsewhere. */
static bool read_dimensions(const struct ommai_server *server, const json_t *root, const struct ommai_vector_rules *rules,
                            struct ommai_vector_fields *fields, struct ommai_api_error *error) {
  const struct omma_model_info *info = &server->config.info;
  bool elsewhere = info->task == OMMA_TASK_EMBED && !info->token_vector_width;
  if (!ommai_field_integer(root, "dimensions", 1, INT32_MAX, &fields->dimensions, error)) return false;
  return !rules->is_pooling || !fields->dimensions ||
         ommai_api_fail(error, 400, "dimensions", "dimensions is not supported by /pooling%s.",
                        elsewhere ? "; /v1/embeddings has it" : " of this model");
}

bool ommai_vector_fields_read(struct ommai_server *server, const json_t *root, const struct ommai_vector_rules *rules,
                              struct ommai_vector_fields *fields, struct ommai_api_error *error) {
  bool activation = true;
  *fields = (struct ommai_vector_fields){0};
  if (!ommai_model_read(&server->config, root, &fields->model, error) ||
      !ommai_field_string(root, "request_id", &fields->request_id, error) ||
      !ommai_field_name(root, "cache_salt", &fields->cache_salt, error) ||
      !ommai_field_integer(root, "priority", INT32_MIN, INT32_MAX, &fields->priority, error) ||
      !ommai_field_boolean(root, "use_activation", &activation, error) || !refuse_fields(root, error) ||
      !read_truncation(server, root, &fields->truncation, error)) {
    return false;
  }
  fields->raw = !activation;
  if (rules->is_scoring) return read_scoring(server, root, rules, fields, error);
  return (!rules->is_pooling || read_task(server, root, error)) &&
         ommai_field_string(root, "instruction", &fields->instruction, error) &&
         read_dimensions(server, root, rules, fields, error) && read_encoding(root, fields, error);
}
