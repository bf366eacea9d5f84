/* The routes that only read counters and constants, and what is kept ready. */
#include <string.h>

#include "base/json_writer.h"
#include "server/api/answer_fields.h"
#include "server/api/ocr_request.h"
#include "server/http/endpoints.h"
#include "server/http/http_call.h"
#include "server/http/routes.h"
#include "server/metrics/metrics_text.h"
#include "server/publish/kv_publisher.h"
#include "server/publish/trace_exporter.h"
#include "server/state/server_state.h"

static void reply_json(struct ommai_http_call *call, struct ommai_text *body) {
  ommai_http_call_reply(call, 200, "application/json", body);
}

/* Serves as long as one of its engines does, and names those that do not. */
void ommai_endpoint_health(struct ommai_http_call *call) {
  const struct omma_engine *engine = call->server->engine;
  struct ommai_text body = ommai_text_of(call->allocator);
  bool some = false;
  for (int i = 0; i < omma_engine_count(engine); i++) {
    struct omma_engine_stats stats = {0};
    omma_engine_get_stats_of(engine, i, &stats);
    some = some || stats.alive;
    if (!stats.alive && omma_engine_count(engine) > 1) ommai_text_format(&body, "engine %d does not answer\n", i);
  }
  bool serving = some && !atomic_load(&call->server->leaving);
  ommai_http_call_reply(call, serving ? 200 : 503, "text/plain", &body);
}

void ommai_endpoint_version(struct ommai_http_call *call) {
  ommai_http_call_reply_json(call, json_pack("{s:s}", "version", omma_version()));
}

void ommai_endpoint_load(struct ommai_http_call *call) {
  json_int_t n_active = atomic_load(&call->server->n_active);
  ommai_http_call_reply_json(call, json_pack("{s:I}", "server_load", n_active));
}

void ommai_endpoint_metrics(struct ommai_http_call *call) {
  struct ommai_server *server = call->server;
  struct omma_engine_stats stats[OMMA_MAX_ENGINES];
  struct ommai_metrics_sources sources = {.stats = stats,
                                          .n_engines = omma_engine_count(server->engine),
                                          .model_name = server->config.model_names[0],
                                          .sleep_level = atomic_load(&server->sleep.level),
                                          .kv_cache = server->config.info.kv_cache,
                                          .max_model_len = server->config.info.max_model_len};
  for (int i = 0; i < sources.n_engines; i++) omma_engine_get_stats_of(server->engine, i, &stats[i]);
  struct ommai_text body = ommai_text_of(call->allocator);
  ommai_kv_publisher_counts(server->kv_publisher, &sources.kv_event_batches, &sources.kv_events_lost);
  ommai_trace_exporter_counts(server->tracer, &sources.spans_sent, &sources.spans_dropped);
  ommai_grammar_cache_count(&server->grammars, &sources.grammar_bytes, &sources.n_grammars);
  ommai_metrics_write(&server->metrics, &sources, &body);
  ommai_http_metrics_write(&server->http_metrics, ommai_route_name, &body);
  ommai_process_metrics_write(&body);
  ommai_http_call_reply(call, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
}

static json_t *make_permission(int64_t created, size_t index) {
  return json_pack("[{s:o,s:s,s:I,s:b,s:b,s:b,s:b,s:b,s:b,s:s,s:n,s:b}]", "id", json_sprintf("modelperm-%zu", index), "object",
                   "model_permission", "created", (json_int_t)created, "allow_create_engine", 0, "allow_sampling", 1,
                   "allow_logprobs", 1, "allow_search_indices", 0, "allow_view", 1, "allow_fine_tuning", 0, "organization", "*",
                   "group", "is_blocking", 0);
}

/* Of an encoder node: what its embeddings are of, so that whoever reads them can check it before
 * the first. */
static json_t *make_encoder(const struct omma_model_info *info) {
  return json_pack("{s:s?,s:s?,s:s}", "fingerprint", info->fingerprint, "numeric_mode", info->vision_weights, "dtype",
                   info->bf16_embeddings ? "BF16" : "F32");
}

/* `root` is the name again: the real directory is nobody's business. */
static void add_model(struct ommai_text *body, const struct ommai_server *server, size_t index) {
  const struct omma_model_info *info = &server->config.info;
  const char *name = server->config.model_names[index];
  ommai_put_begin(body, NULL, "{");
  OMMAI_PUT_STRINGS(body, {"id", name}, {"object", "model"});
  ommai_put_integer(body, "created", server->config.created);
  OMMAI_PUT_STRINGS(body, {"owned_by", "ommatidia"}, {"root", name});
  ommai_put_null(body, "parent");
  ommai_put_integer(body, "max_model_len", info->max_model_len);
  ommai_put_new(body, "permission", make_permission(server->config.created, index));
  /* whose chat template prompts are rendered by, and whether it is the checkpoint's own */
  ommai_put_new(body, "chat_template",
                json_pack("{s:s?,s:b}", "rendered_as", info->chat_template, "checkpoint_has_it", !info->chat_template_difference));
  if (info->encoder_only) ommai_put_new(body, "encoder", make_encoder(info));
  if (ommai_ocr_is_served(server)) ommai_put_new(body, "capabilities", json_pack("{s:b}", "ocr", 1));
  ommai_put_end(body, "}");
}

void ommai_endpoint_models(struct ommai_http_call *call) {
  struct ommai_text body = ommai_text_of(call->allocator);
  ommai_put_begin(&body, NULL, "{");
  ommai_put_string(&body, "object", "list");
  ommai_put_begin(&body, "data", "[");
  for (size_t i = 0; i < call->server->config.n_model_names; i++) add_model(&body, call->server, i);
  ommai_put_end(&body, "]}");
  reply_json(call, &body);
}

void ommai_endpoint_encoding(struct ommai_http_call *call) {
  struct ommai_server *server = call->server;
  struct ommai_api_error error;
  struct ommai_text body = ommai_text_of(call->allocator);
  if (server->config.info.encoder_only && ommai_encoding_memory_get(&server->encodings, call->path_rest, &body)) {
    ommai_http_call_reply(call, 200, "application/octet-stream", &body);
    return;
  }
  ommai_api_fail(&error, 404, NULL,
                 server->config.info.encoder_only
                     ? "No embeddings are kept under this key: send the image to /v1/chat/completions."
                     : "This server publishes no embeddings (--mm-encoder-only).");
  ommai_http_call_fail(call, &error);
}

/* The model's path, where that is a name too, is the first one's. */
void ommai_endpoint_model(struct ommai_http_call *call) {
  const struct ommai_server *server = call->server;
  struct ommai_api_error error;
  size_t index = server->config.n_model_names - 1;
  if (!ommai_model_check(&server->config, call->path_rest, &error)) {
    ommai_http_call_fail(call, &error);
    return;
  }
  while (index && strcmp(server->config.model_names[index], call->path_rest) != 0) index--;
  struct ommai_text body = ommai_text_of(call->allocator);
  add_model(&body, server, index);
  reply_json(call, &body);
}
