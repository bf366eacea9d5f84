#include "cli/serve/serve_notes.h"

#include <stdio.h>
#include <string.h>

#include "base/cpu_room.h"
#include "base/plural.h"
#include "cli/core/diagnostics.h"
#include "cli/core/format.h"

/* "none", or the words with commas between, as far as there is room. */
static const char *show_words(const char *const *words, size_t n, char *out, size_t size) {
  snprintf(out, size, "%s", n ? "" : "none");
  for (size_t i = 0; i < n; i++) ommai_list_entry(out, size, "%s", words[i]);
  return out;
}

void ommai_serve_note_names(const struct omma_model *model, const struct ommai_server *server) {
  struct omma_model_info info;
  char names[1024];
  size_t n_names;
  const char *const *list = ommai_server_model_names(server, &n_names);
  omma_model_get_info(model, &info);
  ommai_note("serving %s as %s", info.directory, show_words(list, n_names, names, sizeof names));
}

static void note_engines(const struct omma_model_info *info, const struct ommai_cpu_room *room, int64_t threads) {
  char reason[64] = "as --threads says";
  if (info->n_engines == 1) return;
  if (!threads) snprintf(reason, sizeof reason, "a share of the %d that one engine would have", room->threads);
  ommai_note("engines: %d, of %d thread%s each, %s, over %d cop%s of the weights; requests and memory are those of all",
             info->n_engines, info->n_threads, ommai_plural(info->n_threads), reason, info->n_copies,
             info->n_copies == 1 ? "y" : "ies");
}

void ommai_serve_note_model(const struct omma_model *model, const struct omma_memory_estimate *estimate, int64_t threads) {
  struct omma_model_info info;
  struct ommai_cpu_room room;
  char cpus[OMMAI_CPU_ROOM_TEXT], count[32];
  omma_model_get_info(model, &info);
  ommai_cpu_room_here(&room);
  ommai_note(
      "model: %s, %s parameters, %s weights computed in %s, KV cache in %s, vision %s, %s, %d thread%s (%s); up to "
      "%lld "
      "requests at once (%s)",
      info.model_type, ommai_format_count(info.n_parameters, count, sizeof count), info.kept_weights, info.weights,
      info.kv_cache, info.vision_weights, info.isa, info.n_threads, ommai_plural(info.n_threads),
      ommai_cpu_room_describe(&room, cpus, sizeof cpus), (long long)estimate->max_sequences,
      ommai_sequence_bound_words(estimate));
  note_engines(&info, &room, threads);
}

/* Of all that run, and the images that they may have at once. */
static int64_t request_bytes(const struct omma_memory_estimate *estimate) {
  int64_t image_bytes = estimate->request_bytes - estimate->text_request_bytes;
  return estimate->max_sequences * estimate->text_request_bytes + estimate->max_image_sequences * image_bytes;
}

static void note_encoder_memory(const struct omma_memory_estimate *estimate) {
  char weights[32], workspaces[32], requests[32], total[32], caches[32];
  ommai_note(
      "memory: tower weights %s, workspaces and tables %s, requests with their images %s: %s in all, and up to %s for "
      "images kept from earlier requests; no language weights, no keys and values",
      ommai_format_bytes(estimate->weight_bytes, weights, sizeof weights),
      ommai_format_bytes(estimate->vision_workspace_bytes + estimate->linear_scratch_bytes + estimate->table_bytes, workspaces,
                         sizeof workspaces),
      ommai_format_bytes(request_bytes(estimate), requests, sizeof requests),
      ommai_format_bytes(estimate->total_bytes, total, sizeof total),
      ommai_format_bytes(estimate->encoder_cache_bytes + estimate->known_image_bytes, caches, sizeof caches));
}

void ommai_serve_note_memory(const struct omma_memory_estimate *estimate, bool encoder_only) {
  if (encoder_only) {
    note_encoder_memory(estimate);
    return;
  }
  const struct {
    const char *name;
    int64_t bytes;
  } parts[] = {
      {"weights", estimate->weight_bytes},
      {"keys and values", estimate->kv_cache_bytes},
      {"workspaces", estimate->vision_workspace_bytes + estimate->language_workspace_bytes + estimate->linear_scratch_bytes},
      {"tables", estimate->table_bytes},
      {"requests, those with images included", request_bytes(estimate)}};
  char text[320] = "", total[32], caches[32];
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    char bytes[32];
    ommai_list_entry(text, sizeof text, "%s %s", parts[i].name, ommai_format_bytes(parts[i].bytes, bytes, sizeof bytes));
  }
  ommai_note("memory: %s: %s in all, and up to %s for images kept from earlier requests", text,
             ommai_format_bytes(estimate->total_bytes, total, sizeof total),
             ommai_format_bytes(estimate->encoder_cache_bytes + estimate->known_image_bytes, caches, sizeof caches));
}

static void note_encodings(const struct omma_server_options *options) {
  char bytes[32], kept[96] = "none are kept for /v1/encodings";
  if (options->encoding_bytes > 0) {
    snprintf(kept, sizeof kept, "up to %s are kept for /v1/encodings/UUID",
             ommai_format_bytes(options->encoding_bytes, bytes, sizeof bytes));
    if (options->encoding_ttl_ms > 0) {
      size_t used = strlen(kept);
      snprintf(kept + used, sizeof kept - used, ", for %lld s", (long long)options->encoding_ttl_ms / 1000);
    }
  }
  if (!options->encoding_directory) {
    ommai_note("embeddings: %s; files: none", kept);
  } else if (options->encoding_file_bytes > 0) {
    ommai_note("embeddings: %s; files: %s, up to %s", kept, options->encoding_directory,
               ommai_format_bytes(options->encoding_file_bytes, bytes, sizeof bytes));
  } else {
    ommai_note("embeddings: %s; files: %s, without limit", kept, options->encoding_directory);
  }
}

void ommai_serve_note_encoder(const struct omma_model *model, const struct omma_memory_estimate *estimate,
                              const struct omma_server_options *options, int64_t threads) {
  struct omma_model_info info;
  struct ommai_cpu_room room;
  char cpus[OMMAI_CPU_ROOM_TEXT], count[32];
  omma_model_get_info(model, &info);
  ommai_cpu_room_here(&room);
  ommai_note(
      "encoder node: vision tower of %s, %s parameters, computed in %s, embeddings in %s, %s, %d thread%s (%s); up "
      "to %lld requests at once; checkpoint %s",
      info.model_type, ommai_format_count(info.n_parameters, count, sizeof count), info.vision_weights,
      info.bf16_embeddings ? "bf16" : "f32", info.isa, info.n_threads, ommai_plural(info.n_threads),
      ommai_cpu_room_describe(&room, cpus, sizeof cpus), (long long)estimate->max_sequences, info.fingerprint);
  note_engines(&info, &room, threads);
  note_encodings(options);
}

void ommai_serve_note_access(const struct omma_server_options *options) {
  static const char *const clients[] = {"", ", clients may show certificates", ", clients must show certificates"};
  char origins[160], hosts[160];
  ommai_note("clients: %s%s; %zu API key%s%s; pages of other origins: %s; files: %s; hosts that images are fetched from: %s",
             options->tls.certificate_file ? "TLS" : "plain HTTP", clients[options->tls.clients], options->n_api_keys,
             ommai_plural((int64_t)options->n_api_keys), options->settings.metrics_without_key ? ", none for /metrics" : "",
             show_words(options->cross_origin.origins, options->cross_origin.n_origins, origins, sizeof origins),
             options->allowed_local_media_path ? options->allowed_local_media_path : "none",
             show_words(options->allowed_media_domains.items, options->allowed_media_domains.count, hosts, sizeof hosts));
}

void ommai_serve_warn_of_tools(const struct omma_model *model, const struct omma_server_options *options) {
  struct omma_model_info info;
  omma_model_get_info(model, &info);
  if (!options->enable_auto_tool_choice || info.chat_template_has_tools) return;
  ommai_warn(
      "serve: --enable-auto-tool-choice: this model's chat template has no tools, so every request that may call one is "
      "refused; "
      "--chat-template gives the model another one");
}
