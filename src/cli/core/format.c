#include "cli/core/format.h"

#include <omma/omma.h>
#include <stdarg.h>

#include "base/memory_room.h"
#include "base/plural.h"
#include "cli/core/plain_text.h"

const char *ommai_format_bytes(int64_t bytes, char *out, size_t size) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) {
    snprintf(out, size, "%lld bytes", (long long)bytes);
    return out;
  }
  double value = (double)bytes / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) value /= 1024;
  snprintf(out, size, value < 100 ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return out;
}

const char *ommai_format_seconds(double seconds, char *out, size_t size) {
  if (seconds < 1e-3) {
    snprintf(out, size, "%.0f us", seconds * 1e6);
  } else if (seconds < 1) {
    snprintf(out, size, seconds < 0.1 ? "%.1f ms" : "%.0f ms", seconds * 1e3);
  } else {
    snprintf(out, size, seconds < 100 ? "%.1f s" : "%.0f s", seconds);
  }
  return out;
}

void ommai_print_fact(FILE *out, const char *name, const char *format, ...) {
  enum { MAX_FACT = 8192 };
  char text[MAX_FACT];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(out, "  %-26s %s\n", name, ommai_plain_text(text));
}

const char *ommai_format_count(int64_t count, char *out, size_t size) {
  snprintf(out, size, count < 1000000000 ? "%.3g million" : "%.3g billion", (double)count * (count < 1000000000 ? 1e-6 : 1e-9));
  return out;
}

size_t ommai_sampling_facts(const struct omma_model_info *m, struct ommai_sampling_fact facts[OMMAI_MAX_SAMPLING_FACTS]) {
  const struct {
    struct ommai_sampling_fact fact;
    double nothing;
  } all[OMMAI_MAX_SAMPLING_FACTS] = {{{"temperature", m->recommended_temperature}, -1},
                                     {{"top_p", m->recommended_top_p}, 0},
                                     {{"top_k", (double)m->recommended_top_k}, 0},
                                     {{"min_p", m->recommended_min_p}, 0},
                                     {{"repetition_penalty", m->recommended_repetition_penalty}, 0},
                                     {{"presence_penalty", m->recommended_presence_penalty}, 0},
                                     {{"frequency_penalty", m->recommended_frequency_penalty}, 0},
                                     {{"max_tokens", (double)m->recommended_max_tokens}, 0},
                                     {{"max_tokens_limit", (double)m->max_tokens_limit}, 0}};
  size_t n = 0;
  for (size_t i = 0; i < OMMAI_MAX_SAMPLING_FACTS; i++) {
    if (all[i].fact.value != all[i].nothing) facts[n++] = all[i].fact;
  }
  return n;
}

const char *ommai_format_sampling(const struct omma_model_info *m, char *out, size_t size) {
  struct ommai_sampling_fact facts[OMMAI_MAX_SAMPLING_FACTS];
  size_t n = ommai_sampling_facts(m, facts);
  out[0] = '\0';
  for (size_t i = 0; i < n; i++) ommai_list_entry(out, size, "%s %.10g", facts[i].name, facts[i].value);
  return out;
}

void ommai_print_model(FILE *out, const struct omma_model_info *m) {
  char all[32], vision[32];
  fputs("Model\n", out);
  ommai_print_fact(out, "directory", "%s", m->directory);
  ommai_print_fact(out, "type", "%s", m->model_type);
  if (m->task != OMMA_TASK_GENERATE) {
    ommai_print_fact(out, "gives", "%s", m->task == OMMA_TASK_EMBED ? "vectors of inputs" : "scores of documents");
  }
  ommai_print_fact(out, "parameters", "%s, of these %s in the vision tower",
                   ommai_format_count(m->n_parameters, all, sizeof all),
                   ommai_format_count(m->n_vision_parameters, vision, sizeof vision));
  if (m->quantization) ommai_print_fact(out, "quantized", "%s", m->quantization);
  ommai_print_fact(out, "computes in", "%s, vision %s; weights kept as %s, keys and values as %s", m->weights,
                   m->vision_weights, m->kept_weights, m->kv_cache);
  ommai_print_fact(out, "CPU level, threads", "%s, %d", m->isa, m->n_threads);
  ommai_print_fact(out, "linear layers", "%s", m->linear);
  ommai_print_fact(out, "language model", "%lld layers of width %lld, %lld heads (%lld for keys and values) of %lld",
                   (long long)m->n_layers, (long long)m->hidden_size, (long long)m->n_heads, (long long)m->n_kv_heads,
                   (long long)m->head_dim);
  ommai_print_fact(out, "vocabulary", "%lld", (long long)m->vocab_size);
  ommai_print_fact(out, "context limit", "%lld tokens", (long long)m->max_model_len);
  ommai_print_fact(out, "vision tower", "%lld layers of width %lld, %lld heads of %lld, %lld deepstack outputs",
                   (long long)m->vision_depth, (long long)m->vision_hidden_size, (long long)m->vision_n_heads,
                   (long long)m->vision_head_dim, (long long)m->n_deepstack);
  ommai_print_fact(out, "patches", "%lldx%lld pixels, %lldx%lld merged into a token", (long long)m->patch_size,
                   (long long)m->patch_size, (long long)m->merge_size, (long long)m->merge_size);
  ommai_print_fact(out, "image area", "%lld to %lld pixels", (long long)m->min_pixels, (long long)m->max_pixels);
  if (m->chat_template_difference) {
    ommai_print_fact(out, "chat template", "none to render: %s", m->chat_template_difference);
  } else {
    ommai_print_fact(out, "chat template", "%s", m->chat_template);
  }
  char sampling[320];
  if (ommai_format_sampling(m, sampling, sizeof sampling)[0]) ommai_print_fact(out, "sampling", "%s", sampling);
  if (m->published_values) ommai_print_fact(out, "preprocessor_config.json", "not found: %s", m->published_values);
}

const char *ommai_sequence_bound_words(const struct omma_memory_estimate *estimate) {
  switch (estimate->sequence_bound) {
    case OMMA_SEQUENCES_GIVEN: return "as given";
    case OMMA_SEQUENCES_MEMORY: return "more would take over an eighth of the free memory";
    case OMMA_SEQUENCES_KV_CACHE: return "more would leave too little of the KV cache to each";
    default: return "the default";
  }
}

void ommai_print_memory_estimate(FILE *out, const struct omma_memory_estimate *estimate) {
  char text[32];
  fputs("Memory\n", out);
  ommai_print_fact(out, "weights", "%s", ommai_format_bytes(estimate->weight_bytes, text, sizeof text));
  ommai_print_fact(out, "keys and values", "up to %s, room for %lld tokens",
                   ommai_format_bytes(estimate->kv_cache_bytes, text, sizeof text), (long long)estimate->kv_cache_tokens);
  ommai_print_fact(out, "vision workspace", "%s", ommai_format_bytes(estimate->vision_workspace_bytes, text, sizeof text));
  ommai_print_fact(out, "language workspace", "%s", ommai_format_bytes(estimate->language_workspace_bytes, text, sizeof text));
  ommai_print_fact(out, "linear layers' scratch", "%s", ommai_format_bytes(estimate->linear_scratch_bytes, text, sizeof text));
  ommai_print_fact(out, "tables", "%s", ommai_format_bytes(estimate->table_bytes, text, sizeof text));
  ommai_print_fact(out, "one image's request", "%s, and %lld at a time",
                   ommai_format_bytes(estimate->request_bytes, text, sizeof text), (long long)estimate->max_image_sequences);
  ommai_print_fact(out, "requests at once", "%lld (%s), %s each without images", (long long)estimate->max_sequences,
                   ommai_sequence_bound_words(estimate), ommai_format_bytes(estimate->text_request_bytes, text, sizeof text));
  ommai_print_fact(out, "total", "%s", ommai_format_bytes(estimate->total_bytes, text, sizeof text));
  ommai_print_fact(out, "encoded images kept", "up to %s more",
                   ommai_format_bytes(estimate->encoder_cache_bytes, text, sizeof text));
  ommai_print_fact(out, "resized images kept", "up to %s more",
                   ommai_format_bytes(estimate->known_image_bytes, text, sizeof text));
}

void ommai_print_free_memory(FILE *out) {
  char text[32];
  int64_t room = ommai_memory_room("");
  if (room >= 0) ommai_print_fact(out, "free on this machine", "%s", ommai_format_bytes(room, text, sizeof text));
}

const char *ommai_task_name(enum omma_model_task task) {
  static const char *const names[] = {"auto", "generate", "embed", "score"};
  return names[task];
}
