#include "server/metrics/metrics_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* What lines are written of, and the label that every one has besides its engine. */
struct writer {
  struct ommai_text *out;
  const struct ommai_metrics_sources *sources;
  const struct ommai_metrics *counted;
  char model[288];
  char labels[320]; /* of the engine at hand */
};

static void set_engine(struct writer *writer, int engine) {
  snprintf(writer->labels, sizeof writer->labels, "engine=\"%d\",%s", engine, writer->model);
}

/* A label's value with backslash, quote and line feed escaped, cut where it does not fit. */
static void set_model(struct writer *writer, const char *model_name) {
  char escaped[256];
  size_t used = 0;
  for (; *model_name && used + 2 < sizeof escaped; model_name++) {
    char c = *model_name;
    if (c == '\\' || c == '"' || c == '\n') escaped[used++] = '\\';
    escaped[used++] = c == '\n' ? 'n' : c;
  }
  escaped[used] = '\0';
  snprintf(writer->model, sizeof writer->model, "model_name=\"%s\"", escaped);
}

void ommai_metrics_begin(struct ommai_text *out, const char *name, const char *type, const char *help) {
  ommai_text_format(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_value(struct writer *writer, const char *name, const char *type, const char *help, double value) {
  ommai_metrics_begin(writer->out, name, type, help);
  ommai_text_format(writer->out, "%s{%s} %.17g\n", name, writer->labels, value);
}

void ommai_histogram_write(struct ommai_text *out, const char *name, const char *labels,
                           const struct ommai_histogram *histogram, const double *bounds, double last) {
  const char *comma = *labels ? "," : "", *open = *labels ? "{" : "", *close = *labels ? "}" : "";
  int64_t count = 0;
  int bucket = 0;
  for (; bounds[bucket] > 0; bucket++) {
    count += histogram->counts[bucket];
    if (bounds[bucket] > last) continue;
    ommai_text_format(out, "%s_bucket{%s%sle=\"%g\"} %" PRId64 "\n", name, labels, comma, bounds[bucket], count);
  }
  count += histogram->counts[bucket];
  ommai_text_format(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRId64 "\n", name, labels, comma, count);
  ommai_text_format(out, "%s_sum%s%s%s %.17g\n", name, open, labels, close, histogram->sum);
  ommai_text_format(out, "%s_count%s%s%s %" PRId64 "\n", name, open, labels, close, count);
}

/* As in vLLM, no bound that counts tokens is beyond the context. */
static void write_histogram(struct writer *writer, struct ommai_metrics *metrics, enum ommai_histogram_name name) {
  const struct ommai_histogram_kind *kind = &ommai_histogram_kinds[name];
  bool counts_tokens = kind->bounds == ommai_histogram_kinds[OMMAI_PROMPT_TOKENS].bounds;
  double last = counts_tokens ? (double)writer->sources->max_model_len : INFINITY;
  ommai_metrics_begin(writer->out, kind->name, "histogram", kind->help);
  for (int engine = 0; engine < writer->sources->n_engines; engine++) {
    const struct omma_engine_stats *stats = &writer->sources->stats[engine];
    pthread_mutex_lock(&metrics->lock);
    struct ommai_histogram copy = metrics->histograms[engine].of[name];
    pthread_mutex_unlock(&metrics->lock);
    if (name == OMMAI_STEP_TOKENS) {
      memcpy(copy.counts, stats->steps_by_tokens, sizeof stats->steps_by_tokens);
      copy.sum = (double)stats->step_tokens;
    }
    set_engine(writer, engine);
    ommai_histogram_write(writer->out, kind->name, writer->labels, &copy, kind->bounds, last);
  }
}

static void write_finished(struct writer *writer) {
  static const char *const reasons[] = {[OMMA_FINISH_STOP] = "stop",
                                        [OMMA_FINISH_LENGTH] = "length",
                                        [OMMA_FINISH_CANCELLED] = "abort",
                                        [OMMA_FINISH_ERROR] = "error",
                                        [OMMA_FINISH_REPETITION] = "repetition"};
  ommai_metrics_begin(writer->out, "vllm:request_success_total", "counter", "Requests that have ended.");
  for (int i = 0; i < OMMA_N_FINISHES * writer->sources->n_engines; i++) {
    int engine = i / OMMA_N_FINISHES, reason = i % OMMA_N_FINISHES;
    set_engine(writer, engine);
    ommai_text_format(writer->out, "vllm:request_success_total{%s,finished_reason=\"%s\"} %" PRId64 "\n", writer->labels,
                      reasons[reason], writer->sources->stats[engine].n_finished[reason]);
  }
}

/* As in vLLM, which has no number of the engine among these labels. */
static void write_refusals(struct writer *writer) {
  ommai_metrics_begin(writer->out, "vllm:admission_rejections_total", "counter",
                      "Requests that got status 503 because the server was busy.");
  for (int i = OMMAI_REFUSAL_NONE + 1; i < OMMAI_N_REFUSALS; i++) {
    ommai_text_format(writer->out, "vllm:admission_rejections_total{%s,reason=\"%s\"} %" PRId64 "\n", writer->model,
                      ommai_refusal_reason((enum ommai_refusal)i), writer->counted->refusals[i]);
  }
}

/* As in vLLM: a stream is looked through piece by piece. */
static void write_tool_searches(struct writer *writer) {
  static const char *const callers[OMMAI_N_TOOL_CALLERS] = {"chat_completions", "responses", "other"};
  static const char *const modes[] = {"non_streaming", "streaming"}, *const outcomes[] = {"no_tool_call", "tool_call"};
  ommai_metrics_begin(writer->out, "vllm:tool_call_parser_invocations_total", "counter",
                      "Answers, and pieces of streams, looked through for tool calls.");
  for (int i = 0; i < 4 * OMMAI_N_TOOL_CALLERS; i++) {
    int caller = i / 4, stream = i / 2 % 2, found = i % 2;
    ommai_text_format(
        writer->out, "vllm:tool_call_parser_invocations_total{%s,mode=\"%s\",outcome=\"%s\",request_type=\"%s\"} %" PRId64 "\n",
        writer->model, modes[stream], outcomes[found], callers[caller], writer->counted->tool_searches[caller][stream][found]);
  }
}

static double used_pages(const struct omma_engine_stats *stats) {
  return stats->kv_pages ? (double)stats->kv_pages_used / (double)stats->kv_pages : 0;
}

/* A figure with its name and the text of the lines before it. */
struct figure {
  const char *name, *type, *help;
  double value;
};

enum { MAX_FIGURES = 40 };

/* The figures of an engine; returns their number. */
typedef int fill_figures(const struct omma_engine_stats *stats, struct figure figures[MAX_FIGURES]);

static void write_figures(struct writer *writer, fill_figures *fill) {
  const struct ommai_metrics_sources *sources = writer->sources;
  struct figure figures[MAX_FIGURES];
  int n = fill(&sources->stats[0], figures);
  for (int i = 0; i < n; i++) {
    ommai_metrics_begin(writer->out, figures[i].name, figures[i].type, figures[i].help);
    for (int engine = 0; engine < sources->n_engines; engine++) {
      fill(&sources->stats[engine], figures);
      set_engine(writer, engine);
      ommai_text_format(writer->out, "%s{%s} %.17g\n", figures[i].name, writer->labels, figures[i].value);
    }
  }
}

static int engine_figures(const struct omma_engine_stats *stats, struct figure out[MAX_FIGURES]) {
  int64_t queries = stats->encoder_cache_hits + stats->encoder_cache_misses;
  const struct figure figures[] = {
      {"vllm:num_requests_running", "gauge", "Requests that the engine works on.", (double)stats->n_running},
      {"vllm:num_requests_waiting", "gauge", "Requests that wait for the engine, or for pages to go on.",
       (double)stats->n_waiting},
      {"omma:queued_bytes", "gauge", "Bytes of the requests that wait for the engine, without pixels of images.",
       (double)stats->waiting_bytes},
      {"omma:max_num_seqs", "gauge", "Requests that may run at once.", (double)stats->max_sequences},
      {"vllm:kv_cache_usage_perc", "gauge", "Pages of keys and values in use; 1 is all.", used_pages(stats)},
      {"vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up among those of earlier prompts.",
       (double)stats->prefix_cache_queries},
      {"vllm:prefix_cache_hits_total", "counter", "Prompt tokens whose keys and values an earlier prompt had left.",
       (double)stats->prefix_cache_hits},
      {"omma:snapshots", "gauge", "Snapshots of recurrent layers that there is memory for; 0: the model has none.",
       (double)stats->snapshots},
      {"omma:snapshots_used", "gauge", "Snapshots of running requests.", (double)stats->snapshots_used},
      {"omma:snapshots_kept", "gauge", "Snapshots that later prompts may go on from.", (double)stats->snapshots_published},
      {"omma:snapshot_bytes", "gauge", "Bytes of a snapshot.", (double)stats->snapshot_bytes},
      {"omma:snapshot_hits_total", "counter", "Times that a prompt went on from an earlier one's snapshot.",
       (double)stats->snapshot_hits},
      {"omma:snapshot_evictions_total", "counter", "Snapshots that were evicted, for others or with their pages.",
       (double)stats->snapshot_evictions},
      {"vllm:mm_cache_queries_total", "counter", "Images looked up in the encoder's cache.", (double)queries},
      {"vllm:mm_cache_hits_total", "counter", "Images encoded before for an earlier request or choice.",
       (double)stats->encoder_cache_hits},
      {"vllm:num_preemptions_total", "counter", "Times that a request gave its pages up for older ones and went on later.",
       (double)stats->n_preemptions},
      {"vllm:spec_decode_num_drafts_total", "counter", "Drafts of the next tokens.", (double)stats->n_drafts},
      {"vllm:spec_decode_num_draft_tokens_total", "counter", "Draft tokens.", (double)stats->draft_tokens},
      {"vllm:spec_decode_num_accepted_tokens_total", "counter", "Draft tokens that were accepted.",
       (double)stats->accepted_tokens},
      {"omma:spec_decode_gain", "gauge",
       "Tokens a second of steps with drafts of a draft head over those without; 0: not known.", stats->draft_gain},
      {"vllm:prompt_tokens_total", "counter", "Prompt tokens of ended requests.", (double)stats->prompt_tokens},
      {"vllm:prompt_tokens_cached_total", "counter", "Of these, tokens whose keys and values an earlier prompt had left.",
       (double)stats->cached_prompt_tokens},
      {"vllm:generation_tokens_total", "counter", "Tokens of ended answers.", (double)stats->generation_tokens},
      {"omma:engine_up", "gauge", "1 where the engine answers, 0 while it is out.", (double)stats->alive},
      {"omma:workspace_bytes", "gauge", "Bytes of the engine's workspaces.", (double)stats->workspace_bytes},
  };
  _Static_assert(sizeof figures <= MAX_FIGURES * sizeof *figures, "they fit");
  memcpy(out, figures, sizeof figures);
  return (int)(sizeof figures / sizeof figures[0]);
}

/* What the server counts itself; it stands at the first engine. */
static void write_counters(struct writer *writer) {
  static const struct {
    const char *name, *help;
  } counters[OMMAI_N_COUNTERS] = {
      [OMMAI_IMAGES_PREPARED_AHEAD] = {"omma:images_prepared_ahead_total",
                                       "Images and videos prepared while another request was running."},
      [OMMAI_PAGES_READ] = {"omma:pages_read_total", "Pages of documents that were read."},
      [OMMAI_PAGES_FAILED] = {"omma:pages_failed_total", "Pages of documents that failed."},
      [OMMAI_IMAGES_DECODED] = {"omma:images_decoded_total", "Images and frames of videos that were decoded."},
      [OMMAI_IMAGES_RECALLED] = {"omma:images_recalled_total",
                                 "Images known by the bytes of their files: neither decoded nor resized."},
  };
  for (int i = 0; i < OMMAI_N_COUNTERS; i++) {
    write_value(writer, counters[i].name, "counter", counters[i].help, (double)writer->counted->counters[i]);
  }
}

static int image_figures(const struct omma_engine_stats *stats, struct figure out[MAX_FIGURES]) {
  const struct figure figures[] = {
      {"omma:encoder_images_total", "counter", "Images that went through the encoder.", (double)stats->images},
      {"omma:encoder_patches_total", "counter", "Their patches.", (double)stats->patches},
      {"omma:encoder_cache_bytes", "gauge", "Bytes of encoded images kept.", (double)stats->encoder_cache_bytes},
      {"omma:encoder_cache_hits_total", "counter", "Images encoded before for an earlier request or choice.",
       (double)stats->encoder_cache_hits},
      {"omma:encoder_cache_misses_total", "counter", "Images that needed the encoder.", (double)stats->encoder_cache_misses},
      {"omma:encoder_cache_evictions_total", "counter", "Encoded images given up for others.",
       (double)stats->encoder_cache_evictions},
      {"omma:encoding_store_hits_total", "counter", "Images found in the store that replicas share.",
       (double)stats->encoding_store_hits},
      {"omma:encoding_store_misses_total", "counter", "Images looked for there and not found.",
       (double)stats->encoding_store_misses},
      {"omma:encoding_store_not_finite_total", "counter", "Of the images not found there, those it had with NaN or infinities.",
       (double)stats->encoding_store_not_finite},
  };
  _Static_assert(sizeof figures <= MAX_FIGURES * sizeof *figures, "they fit");
  memcpy(out, figures, sizeof figures);
  return (int)(sizeof figures / sizeof figures[0]);
}

static void write_image_batches(struct writer *writer) {
  ommai_metrics_begin(writer->out, "omma:encoder_batch_images", "summary", "Images in a pass through the encoder.");
  for (int engine = 0; engine < writer->sources->n_engines; engine++) {
    const struct omma_engine_stats *stats = &writer->sources->stats[engine];
    set_engine(writer, engine);
    ommai_text_format(writer->out, "omma:encoder_batch_images_sum{%s} %" PRId64 "\n", writer->labels, stats->images);
    ommai_text_format(writer->out, "omma:encoder_batch_images_count{%s} %" PRId64 "\n", writer->labels, stats->encoder_passes);
  }
}

/* A figure by one more label. */
struct by_label {
  const char *name, *type, *help, *label;
  struct {
    const char *value;
    int64_t figure;
  } values[OMMA_MAX_DRAFT_TOKENS];
  size_t n;
};

typedef struct by_label fill_by_label(const struct omma_engine_stats *stats);

static void write_by_label(struct writer *writer, fill_by_label *fill) {
  for (int engine = 0; engine < writer->sources->n_engines; engine++) {
    const struct by_label of = fill(&writer->sources->stats[engine]);
    if (engine == 0) ommai_metrics_begin(writer->out, of.name, of.type, of.help);
    set_engine(writer, engine);
    for (size_t i = 0; i < of.n; i++) {
      ommai_text_format(writer->out, "%s{%s,%s=\"%s\"} %" PRId64 "\n", of.name, writer->labels, of.label, of.values[i].value,
                        of.values[i].figure);
    }
  }
}

/* What vLLM has by one more label, with the values of it that are always 0 here: no request is put
 * off for adapters or transfers, and no tokens come from elsewhere. */
static struct by_label waiting(const struct omma_engine_stats *stats) {
  return (struct by_label){"vllm:num_requests_waiting_by_reason",
                           "gauge",
                           "vllm:num_requests_waiting by what they wait for.",
                           "reason",
                           {{"capacity", stats->n_waiting}, {"deferred", 0}},
                           2};
}

static struct by_label prompts(const struct omma_engine_stats *stats) {
  return (struct by_label){"vllm:prompt_tokens_by_source_total",
                           "counter",
                           "Prompt tokens of ended requests by their source.",
                           "source",
                           {{"local_compute", stats->prompt_tokens - stats->cached_prompt_tokens},
                            {"local_cache_hit", stats->cached_prompt_tokens},
                            {"external_kv_transfer", 0}},
                           3};
}

static struct by_label cached(const struct omma_engine_stats *stats) {
  return (struct by_label){
      "vllm:prompt_tokens_cached_by_source_total",
      "counter",
      "vllm:prefix_cache_hits_total by the cache that had them.",
      "source",
      {{"device", stats->prefix_cache_hits}, {"host", 0}, {"p2p", 0}, {"disk", 0}, {"external_unspecified", 0}},
      5};
}

static struct by_label accepted_by_place(const struct omma_engine_stats *stats) {
  static const char *const places[OMMA_MAX_DRAFT_TOKENS] = {"0", "1", "2",  "3",  "4",  "5",  "6", "7",
                                                            "8", "9", "10", "11", "12", "13", "14"};
  struct by_label of = {"vllm:spec_decode_num_accepted_tokens_per_pos_total", "counter",
                        "Draft tokens that were accepted, by place in their draft.", "position", .n = OMMA_MAX_DRAFT_TOKENS};
  for (int i = 0; i < OMMA_MAX_DRAFT_TOKENS; i++) {
    of.values[i].value = places[i];
    of.values[i].figure = stats->accepted_by_place[i];
  }
  return of;
}

/* As in vLLM, whose weights go to main memory at level 1 and are given up at level 2. All engines
 * sleep together. */
static void write_sleep_state(struct writer *writer) {
  static const char *const states[] = {"awake", "weights_offloaded", "discard_all"};
  const struct ommai_metrics_sources *sources = writer->sources;
  ommai_metrics_begin(
      writer->out, "vllm:engine_sleep_state", "gauge",
      "1 where it is so: awake, or asleep at level 1 (weights_offloaded) or 2 (discard_all); weights stay at both.");
  for (int i = 0; i < 3 * sources->n_engines; i++) {
    set_engine(writer, i / 3);
    ommai_text_format(writer->out, "vllm:engine_sleep_state{%s,sleep_state=\"%s\"} %d\n", writer->labels, states[i % 3],
                      sources->sleep_level == i % 3);
  }
}

/* Names that routers read which were written for older versions of vLLM, of the same figures. */
static int old_figures(const struct omma_engine_stats *stats, struct figure out[MAX_FIGURES]) {
  double hits = (double)stats->prefix_cache_hits, queries = (double)stats->prefix_cache_queries;
  const struct figure figures[] = {
      {"vllm:gpu_cache_usage_perc", "gauge", "vllm:kv_cache_usage_perc by its older name.", used_pages(stats)},
      {"vllm:gpu_prefix_cache_queries_total", "counter", "vllm:prefix_cache_queries_total by its older name.", queries},
      {"vllm:gpu_prefix_cache_hits_total", "counter", "vllm:prefix_cache_hits_total by its older name.", hits},
      {"vllm:gpu_prefix_cache_hit_rate", "gauge", "Hits among these queries since the start.",
       queries > 0 ? hits / queries : 0},
      {"omma:prefix_cache_pages", "gauge", "Pages that later prompts may take over.", (double)stats->kv_pages_published},
  };
  memcpy(out, figures, sizeof figures);
  return (int)(sizeof figures / sizeof figures[0]);
}

/* What is as it was configured, in labels. */
static void write_configuration(struct writer *writer) {
  const struct ommai_metrics_sources *sources = writer->sources;
  const char *kept = sources->kv_cache;
  const char *type = strcmp(kept, "f32") == 0 ? "float32" : strcmp(kept, "bf16") == 0 ? "bfloat16" : kept;
  ommai_metrics_begin(writer->out, "vllm:cache_config_info", "gauge",
                      "Pages of keys and values: their number, and tokens in each.");
  for (int engine = 0; engine < sources->n_engines; engine++) {
    const struct omma_engine_stats *stats = &sources->stats[engine];
    set_engine(writer, engine);
    ommai_text_format(writer->out,
                      "vllm:cache_config_info{%s,block_size=\"%d\",cache_dtype=\"%s\",enable_prefix_caching=\"%s\","
                      "num_cpu_blocks=\"None\",num_gpu_blocks=\"%" PRId64 "\",prefix_caching_hash_algo=\"blake2b\"} 1\n",
                      writer->labels, OMMA_ATTENTION_PAGE_TOKENS, type, stats->prefix_cache ? "True" : "False",
                      stats->kv_pages);
  }
  ommai_metrics_begin(writer->out, "vllm:lora_requests_info", "gauge",
                      "Adapters in use: there are none. The time, as vLLM has it.");
  ommai_text_format(writer->out,
                    "vllm:lora_requests_info{max_lora=\"0\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} %lld\n",
                    (long long)time(NULL));
}

/* What others of the server count, likewise. */
static void write_sources(struct writer *writer) {
  const struct ommai_metrics_sources *sources = writer->sources;
  const struct figure figures[] = {
      {"omma:kv_event_batches_total", "counter", "Batches of KV events that were published.",
       (double)sources->kv_event_batches},
      {"omma:kv_events_lost_total", "counter", "KV events that no subscriber got.", (double)sources->kv_events_lost},
      {"omma:trace_spans_sent_total", "counter", "Spans of traces that the collector took.", (double)sources->spans_sent},
      {"omma:trace_spans_dropped_total", "counter", "Spans of traces that it did not take in time.",
       (double)sources->spans_dropped},
      {"omma:grammar_bytes", "gauge", "Bytes of compiled grammars, of running requests and kept.",
       (double)sources->grammar_bytes},
      {"omma:grammars", "gauge", "Compiled grammars.", (double)sources->n_grammars},
  };
  for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
    write_value(writer, figures[i].name, figures[i].type, figures[i].help, figures[i].value);
  }
}

void ommai_metrics_write(struct ommai_metrics *metrics, const struct ommai_metrics_sources *sources, struct ommai_text *out) {
  struct ommai_metrics counted = {0};
  struct writer writer = {.out = out, .sources = sources, .counted = &counted};
  set_model(&writer, sources->model_name);
  pthread_mutex_lock(&metrics->lock);
  memcpy(counted.counters, metrics->counters, sizeof counted.counters);
  memcpy(counted.refusals, metrics->refusals, sizeof counted.refusals);
  memcpy(counted.tool_searches, metrics->tool_searches, sizeof counted.tool_searches);
  pthread_mutex_unlock(&metrics->lock);
  write_figures(&writer, engine_figures);
  set_engine(&writer, 0);
  write_counters(&writer);
  write_figures(&writer, image_figures);
  write_image_batches(&writer);
  write_figures(&writer, old_figures);
  write_configuration(&writer);
  set_engine(&writer, 0);
  write_sources(&writer);
  write_finished(&writer);
  write_by_label(&writer, waiting);
  write_by_label(&writer, prompts);
  write_by_label(&writer, cached);
  write_sleep_state(&writer);
  write_by_label(&writer, accepted_by_place);
  write_refusals(&writer);
  write_tool_searches(&writer);
  for (int i = 0; i < OMMAI_N_HISTOGRAMS; i++) write_histogram(&writer, metrics, (enum ommai_histogram_name)i);
}
