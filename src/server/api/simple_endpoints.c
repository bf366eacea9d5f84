/* The routes that only read counters and constants, and what is kept ready. */
#include <inttypes.h>
#include <string.h>

#include "server/api/answer_fields.h"
#include "server/api/ocr_request.h"
#include "server/http/endpoints.h"
#include "server/http/http_call.h"
#include "server/http/routes.h"
#include "server/metrics/process_metrics.h"
#include "server/publish/kv_publisher.h"
#include "server/publish/trace_exporter.h"
#include "server/state/server_state.h"

static void reply_json(struct ommai_http_call *call, struct ommai_text *body) {
  ommai_http_call_reply(call, 200, "application/json", body);
}

/* Serves as long as one of its engines does, and names those that do not. */
void ommai_endpoint_health(struct ommai_http_call *call) {
  const struct omma_engine *engine = call->server->engine;
  struct ommai_text body;
  ommai_text_init(&body, call->allocator);
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
  struct ommai_text body;
  ommai_text_init(&body, call->allocator);
  ommai_text_format(&body, "{\"version\":\"%s\"}", omma_version());
  reply_json(call, &body);
}

void ommai_endpoint_load(struct ommai_http_call *call) {
  struct ommai_text body;
  ommai_text_init(&body, call->allocator);
  ommai_text_format(&body, "{\"server_load\":%lld}", (long long)atomic_load(&call->server->n_active));
  reply_json(call, &body);
}

/* vLLM's sleep mode, which routers ask about, is not here. */
void ommai_endpoint_is_sleeping(struct ommai_http_call *call) {
  struct ommai_text body;
  ommai_text_init(&body, call->allocator);
  ommai_text_add(&body, "{\"is_sleeping\":false}");
  reply_json(call, &body);
}

void ommai_endpoint_metrics(struct ommai_http_call *call) {
  struct ommai_server *server = call->server;
  struct omma_engine_stats stats[OMMA_MAX_ENGINES];
  struct ommai_metrics_sources sources = {.stats = stats,
                                          .n_engines = omma_engine_count(server->engine),
                                          .model_name = server->config.model_names[0],
                                          .kv_cache = server->config.info.kv_cache,
                                          .max_model_len = server->config.info.max_model_len};
  struct ommai_text body;
  for (int i = 0; i < sources.n_engines; i++) omma_engine_get_stats_of(server->engine, i, &stats[i]);
  ommai_text_init(&body, call->allocator);
  ommai_kv_publisher_counts(server->kv_publisher, &sources.kv_event_batches, &sources.kv_events_lost);
  ommai_trace_exporter_counts(server->tracer, &sources.spans_sent, &sources.spans_dropped);
  ommai_grammar_cache_count(&server->grammars, &sources.grammar_bytes, &sources.n_grammars);
  ommai_metrics_write(&server->metrics, &sources, &body);
  ommai_http_metrics_write(&server->http_metrics, ommai_route_name, &body);
  ommai_process_metrics_write(&body);
  ommai_http_call_reply(call, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
}

/* Whose chat template prompts are rendered by, and whether it is the checkpoint's own. */
static void add_chat_template(struct ommai_text *body, const struct omma_model_info *info) {
  ommai_text_add(body, "{\"rendered_as\":");
  ommai_text_json_string(body, info->chat_template);
  ommai_text_format(body, ",\"checkpoint_has_it\":%s}", info->chat_template_difference ? "false" : "true");
}

/* Of an encoder node: what its embeddings are of, so that whoever reads them can check it before
 * the first. */
static void add_encoder(struct ommai_text *body, const struct omma_model_info *info) {
  ommai_text_add(body, ",\"encoder\":{\"fingerprint\":");
  ommai_text_json_string(body, info->fingerprint);
  ommai_text_add(body, ",\"numeric_mode\":");
  ommai_text_json_string(body, info->vision_weights);
  ommai_text_format(body, ",\"dtype\":\"%s\"}", info->bf16_embeddings ? "BF16" : "F32");
}

/* `root` is the name again: the real directory is nobody's business. */
static void add_model(struct ommai_text *body, const struct ommai_server *server, size_t index) {
  const char *name = server->config.model_names[index];
  ommai_text_add(body, "{\"id\":");
  ommai_text_json_string(body, name);
  ommai_text_format(
      body, ",\"object\":\"model\",\"created\":%" PRId64 ",\"owned_by\":\"ommatidia\",\"root\":", server->config.created);
  ommai_text_json_string(body, name);
  ommai_text_format(body, ",\"parent\":null,\"max_model_len\":%" PRId64 ",\"permission\":[{\"id\":\"modelperm-%zu\",",
                    server->config.info.max_model_len, index);
  ommai_text_format(body, "\"object\":\"model_permission\",\"created\":%" PRId64 ",\"allow_create_engine\":false,",
                    server->config.created);
  ommai_text_add(
      body,
      "\"allow_sampling\":true,\"allow_logprobs\":true,\"allow_search_indices\":false,\"allow_view\":true,"
      "\"allow_fine_tuning\":false,\"organization\":\"*\",\"group\":null,\"is_blocking\":false}],\"chat_template\":");
  add_chat_template(body, &server->config.info);
  if (server->config.info.encoder_only) add_encoder(body, &server->config.info);
  if (ommai_ocr_is_served(server)) ommai_text_add(body, ",\"capabilities\":{\"ocr\":true}");
  ommai_text_add(body, "}");
}

void ommai_endpoint_models(struct ommai_http_call *call) {
  struct ommai_text body;
  ommai_text_init(&body, call->allocator);
  ommai_text_add(&body, "{\"object\":\"list\",\"data\":[");
  for (size_t i = 0; i < call->server->config.n_model_names; i++) {
    if (i) ommai_text_add(&body, ",");
    add_model(&body, call->server, i);
  }
  ommai_text_add(&body, "]}");
  reply_json(call, &body);
}

void ommai_endpoint_encoding(struct ommai_http_call *call) {
  struct ommai_server *server = call->server;
  struct ommai_api_error error;
  struct ommai_text body;
  ommai_text_init(&body, call->allocator);
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
  struct ommai_text body;
  size_t index = server->config.n_model_names - 1;
  if (!ommai_model_check(&server->config, call->path_rest, &error)) {
    ommai_http_call_fail(call, &error);
    return;
  }
  while (index && strcmp(server->config.model_names[index], call->path_rest) != 0) index--;
  ommai_text_init(&body, call->allocator);
  add_model(&body, server, index);
  reply_json(call, &body);
}
