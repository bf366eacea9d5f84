#include "engine/engine_stats.h"

static void add_snapshots(struct omma_engine_stats *sum, const struct omma_engine_stats *more) {
  sum->snapshots += more->snapshots;
  sum->snapshot_bytes = more->snapshot_bytes; /* of one */
  sum->snapshots_used += more->snapshots_used;
  sum->snapshots_published += more->snapshots_published;
  sum->snapshot_hits += more->snapshot_hits;
  sum->snapshot_evictions += more->snapshot_evictions;
}

/* The gain is that of an engine that knows one. */
void ommai_engine_stats_add(struct omma_engine_stats *sum, const struct omma_engine_stats *more) {
  sum->n_waiting += more->n_waiting;
  sum->n_running += more->n_running;
  sum->max_sequences += more->max_sequences;
  sum->waiting_bytes += more->waiting_bytes;
  sum->prompt_tokens += more->prompt_tokens;
  sum->generation_tokens += more->generation_tokens;
  sum->cached_prompt_tokens += more->cached_prompt_tokens;
  sum->images += more->images;
  sum->patches += more->patches;
  sum->encoder_passes += more->encoder_passes;
  sum->encoder_cache_bytes += more->encoder_cache_bytes;
  sum->encoder_cache_hits += more->encoder_cache_hits;
  sum->encoder_cache_misses += more->encoder_cache_misses;
  sum->encoder_cache_evictions += more->encoder_cache_evictions;
  sum->encoding_store_hits += more->encoding_store_hits;
  sum->encoding_store_misses += more->encoding_store_misses;
  sum->encoding_store_not_finite += more->encoding_store_not_finite;
  sum->kv_pages += more->kv_pages;
  sum->kv_pages_used += more->kv_pages_used;
  sum->kv_pages_kept += more->kv_pages_kept;
  sum->kv_pages_published += more->kv_pages_published;
  sum->prefix_cache_queries += more->prefix_cache_queries;
  sum->prefix_cache_hits += more->prefix_cache_hits;
  sum->n_drafts += more->n_drafts;
  sum->draft_tokens += more->draft_tokens;
  sum->accepted_tokens += more->accepted_tokens;
  add_snapshots(sum, more);
  sum->step_tokens += more->step_tokens;
  sum->decode_steps += more->decode_steps;
  sum->decode_seconds += more->decode_seconds;
  sum->decode_model_seconds += more->decode_model_seconds;
  sum->n_preemptions += more->n_preemptions;
  sum->n_preempted += more->n_preempted;
  sum->workspace_bytes += more->workspace_bytes;
  for (int i = 0; i < OMMA_N_FINISHES; i++) sum->n_finished[i] += more->n_finished[i];
  for (int i = 0; i < OMMA_MAX_DRAFT_TOKENS; i++) sum->accepted_by_place[i] += more->accepted_by_place[i];
  for (int i = 0; i < OMMA_N_STEP_SIZES; i++) sum->steps_by_tokens[i] += more->steps_by_tokens[i];
  if (sum->draft_gain <= 0) sum->draft_gain = more->draft_gain;
  sum->prefix_cache = sum->prefix_cache || more->prefix_cache;
  sum->alive = sum->alive || more->alive;
}
