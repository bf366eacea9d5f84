/* Plans from hostile specs, whose fields may hold anything. What must hold: a refusal has a message
 * and leaves no plan and no memory behind; a plan keeps within its bounds and its waves within
 * their budget. Runs of sound problems are fuzz_attention_run's. */
#include <math.h>
#include <string.h>

#include "attention/attention_plan.h"
#include "fuzz_input.h"
#include "support/attention_case.h"

enum { MAX_SEGMENTS = 300, MAX_UNITS = 20000, MAX_ALLOCATION = 64 << 20 };

static void *allocate_some(void *context, size_t size, size_t alignment) {
  struct test_allocator *allocator = context;
  return size > MAX_ALLOCATION ? NULL : allocator->interface.allocate(allocator, size, alignment);
}

static void release_some(void *context, void *pointer, size_t size) {
  struct test_allocator *allocator = context;
  allocator->interface.release(allocator, pointer, size);
}

/* A count or dimension: usually up to `usual`, sometimes at a border, sometimes any bits. */
static int64_t wild(struct fuzz_input *input, int64_t usual) {
  static const int64_t edges[] = {0,
                                  1,
                                  -1,
                                  2,
                                  255,
                                  256,
                                  257,
                                  1024,
                                  1025,
                                  4096,
                                  4097,
                                  INT32_MAX,
                                  INT32_MIN,
                                  INT64_MAX,
                                  INT64_MIN,
                                  OMMA_ATTENTION_MAX_TOKENS,
                                  OMMA_ATTENTION_MAX_TOKENS + 1,
                                  OMMA_ATTENTION_MAX_SEGMENTS + 1};
  uint64_t kind = fuzz_number(input, 1);
  if (kind < 200) return (int64_t)(kind * 2654435761u % (uint64_t)(usual + 1));
  if (kind < 240) return edges[kind % (sizeof edges / sizeof *edges)];
  return (int64_t)fuzz_number(input, 8);
}

/* Counts of arrays are either so small that the arrays are there, or refused. */
static int64_t wild_count(struct fuzz_input *input, int64_t limit) {
  int64_t count = wild(input, 12);
  return count > MAX_SEGMENTS && count <= limit ? MAX_SEGMENTS : count;
}

/* Mostly rising borders of either type. */
static void fill_borders(struct fuzz_input *input, enum omma_index_type type, void *borders) {
  int64_t value = 0;
  for (int i = 0; i <= MAX_SEGMENTS; i++) {
    if (type == OMMA_INDEX_INT32) {
      ((int32_t *)borders)[i] = (int32_t)value;
    } else {
      ((int64_t *)borders)[i] = value;
    }
    uint64_t step = fuzz_number(input, 1);
    value = (int64_t)((uint64_t)value + (step < 250 ? step % 80 : fuzz_number(input, 8)));
  }
}

static void check_plan(const struct omma_attention_context *context, const struct omma_attention_spec *spec,
                       const struct omma_attention_plan *plan) {
  struct omma_attention_plan_info info;
  omma_attention_plan_get_info(plan, &info);
  FUZZ_CHECK(info.n_steps >= 0 && info.n_waves >= 0 && info.flops >= 0 && isfinite(info.scale) && info.kernel);
  /* With pages the bounds speak of specs whose segments have no more keys than n_kv_tokens. */
  bool bounded = !spec->paged || spec->n_kv_tokens == 0 || plan->max_keys <= spec->n_kv_tokens;
  FUZZ_CHECK(!bounded || info.plan_bytes <= omma_attention_plan_size_bound(context, spec));
  for (int workers = 1; bounded && workers <= 100; workers += 33) {
    FUZZ_CHECK(omma_attention_plan_workspace_size(plan, workers) <= omma_attention_workspace_bound(context, spec, workers));
  }
  for (int64_t i = 0; i < plan->n_waves; i++) {
    const struct ommai_attention_wave *wave = &plan->waves[i];
    FUZZ_CHECK(wave[1].first_prepare >= wave->first_prepare && wave[1].first_attend >= wave->first_attend);
    FUZZ_CHECK(wave[1].first_prepare + wave[1].first_attend > wave->first_prepare + wave->first_attend);
    FUZZ_CHECK(wave[1].first_byte - wave->first_byte <= plan->wave_bytes);
  }
  for (int64_t i = 0; i < plan->n_units; i++) {
    FUZZ_CHECK(plan->units[i].n_rows > 0 && plan->units[i].n_keys >= 0 && plan->units[i].n_keys <= plan->max_keys);
    FUZZ_CHECK(plan->units[i].first_part >= 0 && plan->units[i].n_parts >= (plan->units[i].n_keys > 0));
    FUZZ_CHECK(plan->units[i].first_row >= 0 && plan->units[i].first_row + plan->units[i].n_rows <= plan->tail_row);
  }
}

/* Member by member: what lies between members is undefined. */
static bool same_unit(const struct ommai_attention_unit *a, const struct ommai_attention_unit *b) {
  return a->first_row == b->first_row && a->n_rows == b->n_rows && a->first_key == b->first_key && a->n_keys == b->n_keys &&
         a->first_visible == b->first_visible && a->first_part == b->first_part && a->n_parts == b->n_parts &&
         a->segment == b->segment && a->first_prepare == b->first_prepare && a->first_attend == b->first_attend &&
         a->first_byte == b->first_byte && a->bytes_per_pair == b->bytes_per_pair &&
         a->prepare_per_pair == b->prepare_per_pair && a->attend_per_pair == b->attend_per_pair &&
         a->heads_per_pair == b->heads_per_pair && a->n_pairs == b->n_pairs && a->small == b->small;
}

/* The same plan in memory of exactly its size, which one byte less is too little for. */
static void check_placed(const struct omma_attention_context *context, const struct omma_attention_spec *spec,
                         const struct omma_attention_plan *plan) {
  struct omma_attention_plan *placed;
  struct omma_error error;
  void *memory = aligned_alloc(64, (plan->plan_bytes + 63) / 64 * 64);
  FUZZ_CHECK(memory);
  FUZZ_CHECK(omma_attention_plan_place(context, spec, memory, plan->plan_bytes - 1, &placed, &error) == OMMA_ERROR_MEMORY);
  FUZZ_CHECK(omma_attention_plan_place(context, spec, memory, plan->plan_bytes, &placed, &error) == OMMA_OK);
  FUZZ_CHECK(placed->n_steps == plan->n_steps && placed->n_units == plan->n_units && placed->n_waves == plan->n_waves);
  for (int64_t i = 0; i < plan->n_units; i++) FUZZ_CHECK(same_unit(&placed->units[i], &plan->units[i]));
  FUZZ_CHECK(omma_attention_plan_workspace_size(placed, 3) == omma_attention_plan_workspace_size(plan, 3));
  free(memory);
}

static void check_wild(const struct omma_attention_context *context, struct test_allocator *counter,
                       const struct omma_attention_spec *spec) {
  struct omma_error error = {.status = OMMA_OK};
  struct omma_attention_plan *plan = (void *)counter;
  int64_t live = counter->n_live;
  enum omma_status status = omma_attention_plan_create(context, spec, &plan, &error);
  if (status == OMMA_OK) {
    check_plan(context, spec, plan);
    check_placed(context, spec, plan);
    omma_attention_plan_destroy(plan);
  } else {
    FUZZ_CHECK(status == OMMA_ERROR_ARGUMENT || status == OMMA_ERROR_UNSUPPORTED || status == OMMA_ERROR_LIMIT ||
               status == OMMA_ERROR_MEMORY);
    FUZZ_CHECK(error.status == status && error.message[0] && memchr(error.message, 0, sizeof error.message) && !plan);
  }
  FUZZ_CHECK(counter->n_live == live);
}

static void try_wild(struct fuzz_input *input) {
  static int64_t borders[MAX_SEGMENTS + 1], key_borders[MAX_SEGMENTS + 1], offsets[MAX_SEGMENTS];
  struct test_allocator counter;
  test_allocator_init(&counter);
  const struct omma_allocator allocator = {&counter, allocate_some, release_some};
  const struct omma_attention_options options = {.isa = "scalar", .allocator = &allocator};
  struct omma_attention_context *context;
  FUZZ_CHECK(omma_attention_context_create(&options, &context, NULL) == OMMA_OK);
  uint64_t flags = fuzz_number(input, 1);
  if (flags & 1) counter.fail_at = counter.n_allocations;
  struct omma_attention_spec spec = {.mode = (enum omma_attention_mode)fuzz_pick(input, 0, 3),
                                     .dtype = (enum omma_dtype)fuzz_pick(input, 0, 3),
                                     .index_type = (enum omma_index_type)fuzz_pick(input, 0, 7) / 3,
                                     .n_heads = (int32_t)wild(input, 16),
                                     .n_kv_heads = (int32_t)wild(input, 4),
                                     .head_dim = (int32_t)wild(input, 128),
                                     .v_head_dim = (int32_t)wild(input, 128),
                                     .n_tokens = wild(input, flags & 2 ? 20000 : 200),
                                     .n_kv_tokens = wild(input, flags & 2 ? 20000 : 200),
                                     .n_segments = wild_count(input, OMMA_ATTENTION_MAX_SEGMENTS),
                                     .batch = wild_count(input, OMMA_ATTENTION_MAX_SEGMENTS),
                                     .max_seqlen = wild(input, 100),
                                     .window = fuzz_pick(input, 0, 1) ? wild(input, 300) : 0,
                                     .paged = flags & 4};
  uint32_t scale = (uint32_t)fuzz_number(input, 4);
  if (flags & 8) memcpy(&spec.scale, &scale, sizeof scale);
  if (spec.mode == OMMA_ATTENTION_DECODE && spec.n_tokens > MAX_UNITS && spec.n_tokens <= OMMA_ATTENTION_MAX_TOKENS) {
    spec.n_tokens = MAX_UNITS; /* a plan has a unit for each, in memory and time */
  }
  fill_borders(input, spec.index_type, borders);
  fill_borders(input, spec.index_type, key_borders);
  for (int i = 0; i < MAX_SEGMENTS; i++) offsets[i] = wild(input, 150);
  if (flags & 16) spec.cu_seqlens = borders;
  if (flags & 32) spec.cu_seqlens_k = key_borders;
  if (flags & 64) spec.q_offsets = offsets;
  check_wild(context, &counter, &spec);
  omma_attention_context_destroy(context);
  FUZZ_CHECK(counter.n_live == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  struct fuzz_input input = {bytes, size};
  try_wild(&input);
  return 0;
}
