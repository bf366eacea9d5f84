#include "engine/engine_measure.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/memory_room.h"
#include "engine/policy.h"
#include "engine/scheduler.h"
#include "grammar/token_trie.h"
#include "model/model_open.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS, MAX_PREFILL_CHUNK = 65536, DEFAULT_LOOKUP_TOKENS = 5 };
/* More sequences than full ones take at most this part of the free memory. */
enum { SEQUENCES_PART = 8 };

#define MIN_RESERVE ((int64_t)512 << 20)
#define RESERVED_PART 8 /* the reserve is 1/8 of the room */
#define MIN_PART 8
#define WHERE_ROOM_IS_UNKNOWN ((int64_t)1 << 30)

int64_t ommai_kv_budget(int64_t needed, int64_t room, int64_t taken) {
  if (room < 0) return ommai_min_i64(needed, WHERE_ROOM_IS_UNKNOWN);
  int64_t left = room - taken - ommai_max_i64(room / RESERVED_PART, MIN_RESERVE);
  return ommai_min_i64(needed, ommai_max_i64(left, room / MIN_PART));
}

static enum omma_status pick(const char *field, int64_t value, int64_t fallback, int64_t max, int64_t *out,
                             struct omma_error *error) {
  *out = value ? value : fallback;
  if (*out >= 1 && *out <= max) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, field, "%s: expected 1 to %lld, found %lld", field, (long long)max,
                          (long long)value);
}

/* Pages of a group where the positions of `n` pages are kept: of windows no more than twice what
 * full sequences hold at once, of snapshots where all sequences stand, go on and draft, and for as
 * many full ones again. */
static int64_t group_pages(const struct ommai_engine_sizes *sizes, int g, int64_t n) {
  const struct ommai_state_group *group = &sizes->facts.groups[g];
  if (group->kind == OMMAI_STATE_PAGES) return n;
  bool snapshot = group->kind == OMMAI_STATE_SNAPSHOT;
  int64_t n_sequences = sizes->full_sequences + (snapshot ? sizes->limits.max_sequences : sizes->full_sequences);
  int64_t most = ommai_state_most_pages(group, sizes->limits.prefill_chunk) * n_sequences;
  return ommai_min_i64(snapshot ? ommai_max_i64(n, 4) : n, ommai_max_i64(most, 4));
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

/* Engines that share the memory, each of which gets the same part. */
static int64_t n_engines(const struct omma_model *model) { return ommai_max_i64(model->n_engines, 1); }

static int64_t free_memory(const struct omma_model *model) {
  int64_t room = ommai_memory_room("");
  return room < 0 ? room : room / n_engines(model);
}

/* An engine's part of what is yet to be packed. */
static int64_t weights_to_come(const struct omma_model *model) {
  if (model->network.packed) return 0;
  return (ommai_model_weight_bytes(model) + ommai_model_linear_scratch_bytes(model)) / n_engines(model);
}

/* What the KV cache of an engine with these sizes gets by default, at least a page. Weights that
 * are packed already are not in `room`. */
static int64_t default_kv_bytes(const struct omma_model *model, const struct ommai_runner_source *source,
                                const struct ommai_engine_sizes *sizes, int64_t room) {
  int64_t needed = INT64_MAX, n_pages, image_bytes;
  const struct ommai_runner_bytes *bytes = &sizes->bytes;
  size_t ignored;
  if (ommai_mul_i64(ommai_div_up(model->max_model_len, PAGE), sizes->full_sequences, &n_pages))
    needed = kv_bytes(sizes, n_pages);
  source->measure_image(source->network, sizes->limits.patch_budget, &ignored, &image_bytes);
  int64_t taken = (int64_t)(bytes->prefill + bytes->decode + bytes->encode + sizes->tables) +
                  ommai_min_i64(sizes->encoder_cache_bytes, INT64_MAX / 4) +
                  ommai_min_i64(ommai_image_store_budget(model->image_store), INT64_MAX / 8) / n_engines(model) +
                  sizes->full_sequences * image_bytes + sizes->limits.max_sequences * (int64_t)sizes->request_bytes;
  taken += weights_to_come(model);
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

static enum omma_status pick_drafts(const struct omma_engine_options *options, struct ommai_engine_sizes *sizes,
                                    struct omma_error *error) {
  int64_t longest = options->lookup_max ? options->lookup_max : options->lookup_min;
  if (options->drafting < OMMA_DRAFTS_LOOKUP || options->drafting > OMMA_DRAFTS_MODEL) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "drafting", "drafting: no such choice: %d", (int)options->drafting);
  }
  if (options->draft_tokens == 0) return OMMA_OK;
  OMMAI_TRY(pick("draft_tokens", options->draft_tokens, 1, OMMA_MAX_DRAFT_TOKENS, &sizes->draft_tokens, error));
  sizes->drafter = options->drafting != OMMA_DRAFTS_LOOKUP;
  enum ommai_drafter wanted = options->drafting == OMMA_DRAFTS_MODEL ? OMMAI_DRAFT_MODEL : OMMAI_DRAFT_HEAD;
  if (sizes->drafter && sizes->facts.vocab_size && sizes->facts.drafter != wanted) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "drafting", "drafting: the model was opened without a draft %s",
                            wanted == OMMAI_DRAFT_MODEL ? "model" : "head");
  }
  if (sizes->drafter) return OMMA_OK;
  OMMAI_TRY(pick("lookup_max", longest, DEFAULT_LOOKUP_TOKENS, OMMAI_MAX_LOOKUP_TOKENS, &sizes->lookup_max, error));
  return pick("lookup_min", options->lookup_min, sizes->lookup_max, sizes->lookup_max, &sizes->lookup_min, error);
}

static enum omma_status pick_limits(const struct omma_engine_options *options, struct ommai_engine_sizes *sizes,
                                    struct omma_error *error) {
  OMMAI_TRY(pick("patch_budget", options->patch_budget, OMMA_DEFAULT_PATCH_BUDGET, OMMAI_MAX_PATCH_BUDGET,
                 &sizes->limits.patch_budget, error));
  OMMAI_TRY(pick("prefill_chunk", options->prefill_chunk, OMMAI_DEFAULT_PREFILL_CHUNK, MAX_PREFILL_CHUNK,
                 &sizes->limits.prefill_chunk, error));
  if (options->queue_limit) {
    OMMAI_TRY(pick("queue_limit", options->queue_limit, 0, OMMAI_MAX_QUEUE_LIMIT, &sizes->queue.requests, error));
  }
  OMMAI_TRY(pick("queue_bytes", options->queue_bytes, OMMAI_DEFAULT_QUEUE_BYTES, INT64_MAX / 2, &sizes->queue.bytes, error));
  OMMAI_TRY(pick("slice_ms", options->slice_ms, OMMAI_DEFAULT_SLICE_MS, OMMAI_MAX_SLICE_MS, &sizes->slice_ms, error));
  OMMAI_TRY(pick("slice_percent", options->slice_percent, OMMAI_DEFAULT_SLICE_PERCENT, OMMAI_MAX_SLICE_PERCENT,
                 &sizes->slice_percent, error));
  OMMAI_TRY(pick("max_sequences", options->max_sequences, OMMA_DEFAULT_FULL_SEQUENCES, OMMAI_MAX_SEQUENCES,
                 &sizes->full_sequences, error));
  if (options->encoder_cache_bytes >= 0) {
    OMMAI_TRY(pick("encoder_cache_bytes", options->encoder_cache_bytes, OMMAI_DEFAULT_ENCODER_CACHE_BYTES, INT64_MAX,
                   &sizes->encoder_cache_bytes, error));
  }
  int64_t stuck_ms; /* the set's */
  OMMAI_TRY(pick("stuck_ms", options->stuck_ms, OMMAI_DEFAULT_STUCK_MS, OMMAI_MAX_STUCK_MS, &stuck_ms, error));
  OMMAI_TRY(pick("max_wait_ms", options->max_wait_ms, OMMAI_DEFAULT_WAIT_MS, OMMAI_MAX_WAIT_MS, &sizes->max_wait_ms, error));
  if (options->reserve_tokens != -1) {
    OMMAI_TRY(pick("reserve_tokens", options->reserve_tokens, OMMAI_DEFAULT_RESERVE_TOKENS, INT32_MAX, &sizes->reserve_tokens,
                   error));
  }
  sizes->limits.prefill_chunk = ommai_round_up(sizes->limits.prefill_chunk, PAGE);
  sizes->limits.team = options->team;
  if (options->team && options->team->n_workers > sizes->facts.n_workers) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "team", "team: expected at most the model's %d workers, found %d",
                            sizes->facts.n_workers, options->team->n_workers);
  }
  OMMAI_TRY(pick_drafts(options, sizes, error));
  sizes->image_patches = sizes->full_sequences * sizes->limits.patch_budget; /* both are bounded */
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
  sizes->drafter = false;
  sizes->prefix_cache = false;
  return measure(source, 0, sizes, error);
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

/* For n_sequences at once. room: bytes of memory that are free; -1: not known. */
static enum omma_status size_for(const struct omma_model *model, const struct ommai_runner_source *source,
                                 const struct omma_engine_options *options, int64_t n_sequences, int64_t room,
                                 struct ommai_engine_sizes *sizes, struct omma_error *error) {
  int64_t chunk = sizes->limits.prefill_chunk;
  int64_t n_draft = ommai_min_i64(n_sequences * sizes->draft_tokens, OMMAI_MAX_DRAFT_ROWS);
  sizes->limits.max_sequences = n_sequences;
  sizes->limits.drawn_rows = ommai_max_i64(n_sequences + n_draft, OMMAI_MIN_DRAWN_ROWS);
  sizes->limits.max_rows = ommai_max_i64(sizes->limits.drawn_rows, OMMAI_REPLAY_ROWS);
  if (!ommai_engine_generates(sizes)) return size_encoder(model, source, sizes, error);
  OMMAI_TRY(size_kv(model, source, options->kv_cache_bytes, room, sizes, error));
  OMMAI_TRY(measure(source, chunk, sizes, error));
  if (options->kv_cache_bytes) return OMMA_OK;
  set_pages(model, default_kv_bytes(model, source, sizes, room), sizes);
  return measure(source, chunk, sizes, error);
}

/* Bytes that grow with the number of sequences, besides the pages. */
static int64_t sequence_bytes(const struct ommai_engine_sizes *sizes) {
  return (int64_t)(sizes->bytes.decode + sizes->tables) + sizes->limits.max_sequences * (int64_t)sizes->request_bytes;
}

/* What keeps an engine from sizes with more sequences: their memory, or pages that the others lose.
 * DEFAULT: nothing. */
static enum omma_sequence_bound bound_of(const struct ommai_engine_sizes *few, const struct ommai_engine_sizes *many,
                                         int64_t room) {
  int64_t n_few = few->limits.n_pages[0], n_many = many->limits.n_pages[0];
  if (sequence_bytes(many) - sequence_bytes(few) > room / SEQUENCES_PART) return OMMA_SEQUENCES_MEMORY;
  bool fits = !ommai_engine_generates(many) || (n_many >= many->limits.max_sequences && n_many >= n_few - n_few / 8);
  return fits ? OMMA_SEQUENCES_DEFAULT : OMMA_SEQUENCES_KV_CACHE;
}

/* As many sequences as there is room for, of the default and its halves. */
static void add_sequences(const struct omma_model *model, const struct ommai_runner_source *source,
                          const struct omma_engine_options *options, int64_t kv_room, int64_t chunk,
                          struct ommai_engine_sizes *sizes) {
  const struct ommai_engine_sizes few = *sizes;
  int64_t room = ommai_max_i64(free_memory(model) - weights_to_come(model), 0);
  sizes->sequence_bound = OMMA_SEQUENCES_DEFAULT;
  for (int64_t n = OMMA_DEFAULT_MAX_SEQUENCES; n > few.limits.max_sequences; n /= 2) {
    struct ommai_engine_sizes many = few;
    struct omma_error ignored;
    many.limits.prefill_chunk = chunk;
    enum omma_sequence_bound bound = OMMA_SEQUENCES_MEMORY;
    if (size_for(model, source, options, n, kv_room, &many, &ignored) == OMMA_OK) bound = bound_of(&few, &many, room);
    if (bound == OMMA_SEQUENCES_DEFAULT) {
      many.sequence_bound = sizes->sequence_bound;
      *sizes = many;
      return;
    }
    sizes->sequence_bound = bound;
  }
}

enum omma_status ommai_engine_sizes(const struct omma_model *model, const struct ommai_runner_source *source,
                                    const struct omma_engine_options *options, struct ommai_engine_sizes *sizes,
                                    struct omma_error *error) {
  static const struct omma_engine_options defaults = {0};
  *sizes = (struct ommai_engine_sizes){0};
  source->facts(source->network, &sizes->facts);
  if (!options) options = &defaults;
  OMMAI_TRY(pick_limits(options, sizes, error));
  int64_t room = options->kv_cache_bytes ? -1 : free_memory(model), chunk = sizes->limits.prefill_chunk;
  OMMAI_TRY(size_for(model, source, options, sizes->full_sequences, room, sizes, error));
  if (!options->max_sequences) add_sequences(model, source, options, room, chunk, sizes);
  return OMMA_OK;
}
