#include "engine/engine_sizes.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/memory_room.h"
#include "engine/kv_budget.h"
#include "engine/policy.h"
#include "engine/scheduler.h"
#include "grammar/token_trie.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS, MAX_PREFILL_CHUNK = 65536, DEFAULT_LOOKUP_TOKENS = 5 };

static enum omma_status pick(const char *field, int64_t value, int64_t fallback, int64_t max, int64_t *out,
                             struct omma_error *error) {
  *out = value ? value : fallback;
  if (*out >= 1 && *out <= max) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, field, "%s: expected 1 to %lld, found %lld", field, (long long)max,
                          (long long)value);
}

/* Pages of a group where the positions of `n` pages are kept: of windows no more than twice what
 * all sequences hold at once, of snapshots where they stand, go on and guess, and as many again. */
static int64_t group_pages(const struct ommai_engine_sizes *sizes, int g, int64_t n) {
  const struct ommai_state_group *group = &sizes->facts.groups[g];
  if (group->kind == OMMAI_STATE_PAGES) return n;
  int64_t most = ommai_state_most_pages(group, sizes->limits.prefill_chunk) * 2 * sizes->limits.max_sequences;
  return ommai_min_i64(group->kind == OMMAI_STATE_SNAPSHOT ? ommai_max_i64(n, 4) : n, ommai_max_i64(most, 4));
}

/* INT64_MAX where it is more. */
static int64_t kv_bytes(const struct ommai_engine_sizes *sizes, int64_t n) {
  int64_t sum = 0, bytes;
  for (int g = 0; g < sizes->facts.n_groups; g++) {
    if (!ommai_mul_i64(group_pages(sizes, g, n), (int64_t)sizes->facts.groups[g].page_bytes, &bytes) ||
        !ommai_add_i64(sum, bytes, &sum))
      return INT64_MAX;
  }
  return sum;
}

/* What the KV cache of an engine with these sizes gets by default, at least a page. Weights that
 * are packed already are not in `room`. */
static int64_t default_kv_bytes(const struct omma_model *model, const struct ommai_runner_source *source,
                                const struct ommai_engine_sizes *sizes, int64_t room) {
  int64_t needed = INT64_MAX, n_pages, image_bytes;
  const struct ommai_runner_bytes *bytes = &sizes->bytes;
  size_t ignored;
  if (ommai_mul_i64(ommai_div_up(model->max_model_len, PAGE), sizes->limits.max_sequences, &n_pages))
    needed = kv_bytes(sizes, n_pages);
  source->measure_image(source->network, sizes->limits.patch_budget, &ignored, &image_bytes);
  int64_t taken = (int64_t)(bytes->prefill + bytes->decode + bytes->encode + sizes->tables) +
                  ommai_min_i64(sizes->encoder_cache_bytes, INT64_MAX / 4) +
                  ommai_min_i64(ommai_image_store_budget(model->image_store), INT64_MAX / 8) +
                  sizes->limits.max_sequences * (image_bytes + (int64_t)sizes->request_bytes);
  if (!model->network.packed) taken += model->network.weight_bytes + model->network.linear_scratch_bytes;
  return ommai_max_i64(ommai_kv_budget(needed, room, taken), kv_bytes(sizes, 1));
}

/* As many positions as fit. */
static void set_pages(const struct omma_model *model, int64_t bytes, struct ommai_engine_sizes *sizes) {
  int64_t n = 0;
  for (int64_t step = (int64_t)1 << 30; step > 0; step /= 2) {
    if (n + step <= INT32_MAX && kv_bytes(sizes, n + step) <= bytes) n += step;
  }
  for (int g = 0; g < sizes->facts.n_groups; g++) sizes->limits.n_pages[g] = n ? group_pages(sizes, g, n) : 0;
  sizes->limits.context = ommai_min_i64(model->max_model_len, n * PAGE);
}

/* The cache that was asked for, or the default's upper bound: as if the workspaces, which follow
 * from the context, took nothing. */
static enum omma_status size_kv(const struct omma_model *model, const struct ommai_runner_source *source,
                                int64_t kv_cache_bytes, int64_t room, struct ommai_engine_sizes *sizes,
                                struct omma_error *error) {
  set_pages(model, kv_cache_bytes ? kv_cache_bytes : default_kv_bytes(model, source, sizes, room), sizes);
  if (kv_cache_bytes >= 0 && sizes->limits.n_pages[0] >= 1) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_LIMIT, "kv_cache_bytes",
                          "kv_cache_bytes: one page of %d tokens takes %lld bytes, found %lld", PAGE,
                          (long long)kv_bytes(sizes, 1), (long long)kv_cache_bytes);
}

static enum omma_status pick_drafts(const struct omma_engine_options *options, struct ommai_engine_sizes *sizes,
                                    struct omma_error *error) {
  int64_t longest = options->lookup_max ? options->lookup_max : options->lookup_min;
  if (options->draft_tokens == 0) return OMMA_OK;
  OMMAI_TRY(pick("draft_tokens", options->draft_tokens, 1, OMMAI_MAX_DRAFT_TOKENS, &sizes->draft_tokens, error));
  OMMAI_TRY(pick("lookup_max", longest, DEFAULT_LOOKUP_TOKENS, OMMAI_MAX_LOOKUP_TOKENS, &sizes->lookup_max, error));
  return pick("lookup_min", options->lookup_min, sizes->lookup_max, sizes->lookup_max, &sizes->lookup_min, error);
}

static enum omma_status pick_limits(const struct omma_engine_options *options, struct ommai_engine_sizes *sizes,
                                    struct omma_error *error) {
  OMMAI_TRY(pick("patch_budget", options->patch_budget, OMMA_DEFAULT_PATCH_BUDGET, OMMAI_MAX_PATCH_BUDGET,
                 &sizes->limits.patch_budget, error));
  OMMAI_TRY(pick("prefill_chunk", options->prefill_chunk, OMMAI_DEFAULT_PREFILL_CHUNK, MAX_PREFILL_CHUNK,
                 &sizes->limits.prefill_chunk, error));
  OMMAI_TRY(
      pick("queue_limit", options->queue_limit, OMMAI_DEFAULT_QUEUE_LIMIT, OMMAI_MAX_QUEUE_LIMIT, &sizes->queue_limit, error));
  OMMAI_TRY(pick("slice_ms", options->slice_ms, OMMAI_DEFAULT_SLICE_MS, OMMAI_MAX_SLICE_MS, &sizes->slice_ms, error));
  OMMAI_TRY(pick("slice_percent", options->slice_percent, OMMAI_DEFAULT_SLICE_PERCENT, OMMAI_MAX_SLICE_PERCENT,
                 &sizes->slice_percent, error));
  OMMAI_TRY(pick("max_sequences", options->max_sequences, OMMA_DEFAULT_MAX_SEQUENCES, OMMAI_MAX_SEQUENCES,
                 &sizes->limits.max_sequences, error));
  if (options->encoder_cache_bytes >= 0) {
    OMMAI_TRY(pick("encoder_cache_bytes", options->encoder_cache_bytes, OMMAI_DEFAULT_ENCODER_CACHE_BYTES, INT64_MAX,
                   &sizes->encoder_cache_bytes, error));
  }
  OMMAI_TRY(pick("max_wait_ms", options->max_wait_ms, OMMAI_DEFAULT_WAIT_MS, OMMAI_MAX_WAIT_MS, &sizes->max_wait_ms, error));
  if (options->reserve_tokens != -1) {
    OMMAI_TRY(pick("reserve_tokens", options->reserve_tokens, OMMAI_DEFAULT_RESERVE_TOKENS, INT32_MAX, &sizes->reserve_tokens,
                   error));
  }
  sizes->limits.prefill_chunk = ommai_round_up(sizes->limits.prefill_chunk, PAGE);
  OMMAI_TRY(pick_drafts(options, sizes, error));
  int64_t n_rows = sizes->limits.max_sequences * (1 + sizes->draft_tokens);
  sizes->limits.drawn_rows = ommai_max_i64(n_rows, OMMAI_MIN_DRAWN_ROWS);
  sizes->limits.max_rows = ommai_max_i64(sizes->limits.drawn_rows, OMMAI_REPLAY_ROWS);
  sizes->prefix_cache = !options->no_prefix_cache;
  sizes->by_priority = options->by_priority;
  if (options->scheduling < OMMA_SCHEDULING_AUTO || options->scheduling > OMMA_SCHEDULING_THROUGHPUT) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "scheduling", "scheduling: no such choice: %d",
                            (int)options->scheduling);
  }
  sizes->scheduling = options->scheduling;
  return OMMA_OK;
}

/* What follows from the limits: of the runner, and everything with a row for each sequence or
 * page. */
static enum omma_status measure(const struct ommai_runner_source *source, int64_t prefill_chunk,
                                struct ommai_engine_sizes *sizes, struct omma_error *error) {
  sizes->limits.prefill_chunk = ommai_min_i64(prefill_chunk, sizes->limits.context);
  sizes->kv_bytes = 0;
  OMMAI_TRY(source->measure(source->network, &sizes->limits, &sizes->bytes, error));
  sizes->mask_words = ommai_mask_words(sizes->facts.vocab_size);
  sizes->request_bytes =
      sizes->bytes.slot + (size_t)sizes->mask_words * sizeof(uint32_t) + ommai_repetition_bytes(sizes->limits.context);
  sizes->tables = sizes->bytes.tables + ommai_scheduler_bytes(sizes) + sizeof(struct ommai_state_pool);
  for (int g = 0; g < sizes->facts.n_groups; g++) {
    sizes->tables += ommai_page_pool_bytes(sizes->limits.n_pages[g]);
    sizes->kv_bytes += sizes->limits.n_pages[g] * (int64_t)sizes->facts.groups[g].page_bytes;
  }
  return OMMA_OK;
}

/* Nothing of a language model: neither pages nor what it computes in. */
static enum omma_status size_encoder(const struct omma_model *model, const struct ommai_runner_source *source,
                                     struct ommai_engine_sizes *sizes, struct omma_error *error) {
  sizes->limits.context = model->max_model_len;
  sizes->limits.drawn_rows = sizes->limits.max_rows = sizes->draft_tokens = 0;
  sizes->prefix_cache = false;
  return measure(source, 0, sizes, error);
}

enum omma_status ommai_engine_sizes(const struct omma_model *model, const struct ommai_runner_source *source,
                                    const struct omma_engine_options *options, struct ommai_engine_sizes *sizes,
                                    struct omma_error *error) {
  static const struct omma_engine_options defaults = {0};
  *sizes = (struct ommai_engine_sizes){0};
  source->facts(source->network, &sizes->facts);
  if (!options) options = &defaults;
  OMMAI_TRY(pick_limits(options, sizes, error));
  if (!ommai_engine_generates(sizes)) return size_encoder(model, source, sizes, error);
  int64_t room = options->kv_cache_bytes ? -1 : ommai_memory_room(""), chunk = sizes->limits.prefill_chunk;
  OMMAI_TRY(size_kv(model, source, options->kv_cache_bytes, room, sizes, error));
  OMMAI_TRY(measure(source, chunk, sizes, error));
  if (options->kv_cache_bytes) return OMMA_OK;
  set_pages(model, default_kv_bytes(model, source, sizes, room), sizes);
  return measure(source, chunk, sizes, error);
}
