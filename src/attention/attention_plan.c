/* Building a plan: spec -> units in order of weight -> job numbers -> waves. Integer work only. */
#include "attention/attention_plan.h"

#include <inttypes.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/sized.h"

/* Units are ordered by weight with three bits below the leading one (weights under 8 share classes
 * with those up to 15, which costs nothing); those that use shared workspace come first. */
enum { WEIGHT_CLASSES = 512, BUCKETS = 2 * WEIGHT_CLASSES };

int64_t ommai_attention_tile_count(const struct ommai_attention_tile_kernel *kernel, int64_t n_rows) {
  return ommai_div_up(n_rows, kernel->rows);
}

/* Where the last tile would hold a third or less of a full one, it takes a step of rows from the
 * tile before, so that a unit of 64 rows is cut into 32 and 32 and not into 48 and 16. */
void ommai_attention_tile_rows(const struct ommai_attention_tile_kernel *kernel, int64_t n_rows, int64_t index,
                               int64_t *first_row, int64_t *count) {
  int64_t last = ommai_attention_tile_count(kernel, n_rows) - 1;
  int64_t rest = n_rows - last * kernel->rows;
  int64_t moved = last > 0 && rest <= kernel->rows / 3 ? kernel->row_step : 0;
  *first_row = index * kernel->rows - (index == last ? moved : 0);
  *count = index == last ? rest + moved : kernel->rows - (index == last - 1 ? moved : 0);
}

const struct ommai_attention_tile_kernel *ommai_attention_kernel_for(const struct ommai_attention_problem *problem,
                                                                     int64_t n_keys) {
  return problem->window && n_keys <= OMMAI_ATTENTION_BLOCK ? problem->window : problem->tile;
}

int64_t ommai_attention_first_key(const struct ommai_attention_problem *problem, int64_t n_keys) {
  return ommai_max_i64(0, n_keys - problem->window_keys);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* What the memory of a plan depends on. */
struct extent {
  int64_t n_units;
  int64_t n_pairs;    /* that use shared workspace */
  size_t pair_bytes;  /* of the largest */
  size_t total_bytes; /* of all */
};

static size_t saturating_mul(size_t a, size_t b) {
  size_t product;
  return ommai_mul_size(a, b, &product) ? product : SIZE_MAX;
}

static size_t saturating_add(size_t a, size_t b) {
  size_t sum;
  return ommai_add_size(a, b, &sum) ? sum : SIZE_MAX;
}

/* Keys of a block, or of a split when decoding. */
static int64_t part_keys(const struct ommai_attention_problem *problem) {
  return problem->mode == OMMA_ATTENTION_DECODE ? OMMAI_ATTENTION_SPLIT_KEYS : OMMAI_ATTENTION_BLOCK;
}

/* Shared workspace of one kv head. */
static size_t head_bytes(const struct ommai_attention_problem *problem, int64_t n_parts) {
  bool decode = problem->mode == OMMA_ATTENTION_DECODE;
  return (size_t)n_parts * (decode ? problem->state_bytes * (size_t)problem->group : problem->block_bytes);
}

/* The largest n_parts of a unit: what the windows of neighbouring rows cover may begin anywhere. */
static int64_t part_bound(const struct ommai_attention_problem *problem, int64_t n_keys) {
  int64_t n_rows = problem->mode == OMMA_ATTENTION_DECODE ? 1 : ommai_max_i64(problem->n_tokens, 1);
  int64_t covered = problem->window_keys + n_rows - 1, size = part_keys(problem);
  return ommai_min_i64(ommai_div_up(n_keys, size), ommai_div_up(covered - 1, size) + 1);
}

/* A wave ends where the next pair does not fit, so two neighbours together hold more than the
 * budget. */
static size_t wave_count_bound(const struct extent *extent) {
  size_t by_bytes = saturating_add(saturating_mul(extent->total_bytes / OMMAI_ATTENTION_WAVE_BYTES, 2), 2);
  size_t by_pairs = (size_t)extent->n_pairs + 1;
  return by_bytes < by_pairs ? by_bytes : by_pairs;
}

static size_t wave_bytes_bound(const struct extent *extent) {
  size_t largest = extent->pair_bytes > OMMAI_ATTENTION_WAVE_BYTES ? extent->pair_bytes : OMMAI_ATTENTION_WAVE_BYTES;
  return extent->total_bytes < largest ? extent->total_bytes : largest;
}

static size_t round_line(size_t bytes) { return saturating_add(bytes, 63) & ~(size_t)63; }

static size_t units_offset(void) { return round_line(sizeof(struct omma_attention_plan)); }

static size_t waves_offset(const struct extent *extent) {
  return saturating_add(units_offset(),
                        round_line(saturating_mul((size_t)extent->n_units, sizeof(struct ommai_attention_unit))));
}

static size_t plan_bytes(const struct extent *extent) {
  size_t waves = saturating_mul(saturating_add(wave_count_bound(extent), 1), sizeof(struct ommai_attention_wave));
  size_t bytes = saturating_add(waves_offset(extent), round_line(waves));
  return bytes > PTRDIFF_MAX ? 0 : bytes;
}

/* The maximum number of keys of a segment in any spec for which the bounds hold. */
static int64_t key_bound(const struct ommai_attention_problem *problem, const struct omma_attention_spec *spec) {
  if (!problem->paged || spec->n_kv_tokens > 0) return problem->n_kv_tokens;
  int64_t offset = 0;
  for (int64_t i = 0; spec->q_offsets && i < problem->n_segments; i++) offset = ommai_max_i64(offset, spec->q_offsets[i]);
  return ommai_min_i64(ommai_min_i64(offset, OMMA_ATTENTION_MAX_TOKENS) + problem->n_tokens, OMMA_ATTENTION_MAX_TOKENS);
}

static struct extent extent_bound(const struct ommai_attention_problem *problem, const struct omma_attention_spec *spec) {
  struct extent extent = {0};
  bool decode = problem->mode == OMMA_ATTENTION_DECODE;
  extent.n_units = decode ? problem->n_tokens : ommai_min_i64(problem->n_segments, problem->n_tokens);
  extent.n_pairs = extent.n_units * problem->n_kv_heads;
  size_t bytes = head_bytes(problem, part_bound(problem, key_bound(problem, spec)));
  extent.pair_bytes = saturating_mul(bytes, decode ? (size_t)ommai_attention_pair_heads(problem->n_kv_heads) : 1);
  extent.total_bytes = saturating_mul(bytes, (size_t)extent.n_pairs);
  if (!decode && !problem->paged) {
    int64_t blocks = ommai_div_up(problem->n_kv_tokens, OMMAI_ATTENTION_BLOCK) + extent.n_units;
    size_t packed = saturating_mul((size_t)blocks * (size_t)problem->n_kv_heads, problem->block_bytes);
    if (packed < extent.total_bytes) extent.total_bytes = packed;
  }
  return extent;
}

/* ---- units ----------------------------------------------------------------------------------- */

/* Units of one segment: one, or one per query row when decoding; none without query rows. */
static int64_t units_in(const struct ommai_attention_problem *problem, const struct ommai_attention_segment *segment) {
  if (problem->mode == OMMA_ATTENTION_DECODE) return segment->n_rows;
  return segment->n_rows > 0;
}

int32_t ommai_attention_pair_heads(int32_t n_kv_heads) {
  int32_t heads = OMMAI_ATTENTION_PAIR_HEADS;
  while (n_kv_heads % heads != 0) heads /= 2;
  return heads;
}

/* How many kv heads mode a pair, where `n_pieces` pieces of work per head are independent and
 * `many` are enough. */
static int32_t choose_heads(const struct ommai_attention_problem *problem, int64_t n_pieces, int64_t many) {
  int32_t heads = ommai_attention_pair_heads(problem->n_kv_heads);
  if (n_pieces >= many) return heads;
  while (heads > 1 && n_pieces * (problem->n_kv_heads / heads) < many) heads /= 2;
  return heads;
}

static struct ommai_attention_unit make_unit(const struct ommai_attention_problem *problem,
                                             const struct ommai_attention_segment *segment, int64_t index, int64_t row) {
  struct ommai_attention_unit unit = {.first_row = segment->first_row + row,
                                      .n_rows = segment->n_rows,
                                      .first_key = segment->first_key,
                                      .n_keys = segment->n_keys,
                                      .first_visible = segment->n_keys,
                                      .segment = index,
                                      .attend_per_pair = 1,
                                      .heads_per_pair = 1};
  if (problem->mode != OMMA_ATTENTION_ENCODER) unit.first_visible = segment->offset + row + 1;
  if (problem->mode == OMMA_ATTENTION_DECODE) unit.n_rows = 1, unit.n_keys = unit.first_visible;
  unit.first_part = ommai_attention_first_key(problem, unit.first_visible) / part_keys(problem);
  unit.n_parts = ommai_div_up(unit.n_keys, part_keys(problem)) - unit.first_part;
  if (problem->mode == OMMA_ATTENTION_DECODE) {
    unit.prepare_per_pair = unit.n_parts;
    unit.small = unit.prepare_per_pair <= 1;
    unit.heads_per_pair =
        choose_heads(problem, ommai_min_i64(problem->n_tokens, OMMAI_ATTENTION_MANY_SPLITS) * unit.prepare_per_pair,
                     OMMAI_ATTENTION_MANY_SPLITS);
  } else {
    unit.prepare_per_pair = ommai_div_up(unit.n_parts, OMMAI_ATTENTION_PACK_BLOCKS);
    unit.small = unit.n_keys <= OMMAI_ATTENTION_SMALL_KEYS && unit.n_rows <= OMMAI_ATTENTION_SMALL_ROWS / problem->group;
    if (unit.small) {
      unit.heads_per_pair = choose_heads(problem, problem->n_segments, OMMAI_ATTENTION_MANY_PAIRS);
    } else {
      const struct ommai_attention_tile_kernel *kernel = ommai_attention_kernel_for(problem, unit.n_keys);
      unit.attend_per_pair = problem->group * ommai_attention_tile_count(kernel, unit.n_rows);
    }
  }
  if (unit.small) {
    unit.prepare_per_pair = 0;
  } else {
    unit.bytes_per_pair = head_bytes(problem, unit.n_parts) * (size_t)unit.heads_per_pair;
  }
  unit.n_pairs = problem->n_kv_heads / unit.heads_per_pair;
  return unit;
}

static int bucket_of(const struct ommai_attention_problem *problem, const struct ommai_attention_unit *unit) {
  int64_t n_keys = unit->n_keys - unit->first_part * part_keys(problem);
  uint64_t weight = (uint64_t)unit->n_rows * (uint64_t)(n_keys + 1);
  int top = 63 - __builtin_clzll(weight | 8);
  int class = top * 8 + (int)((weight >> (top - 3)) & 7);
  return (unit->small ? WEIGHT_CLASSES : 0) + WEIGHT_CLASSES - 1 - class;
}

/* n + (n - 1) + ... of `count` numbers. */
static double falling_sum(double n, double count) { return count * n - count * (count - 1) / 2; }

static double unit_flops(const struct ommai_attention_problem *problem, const struct ommai_attention_unit *unit) {
  bool causal = problem->mode == OMMA_ATTENTION_CAUSAL;
  double rows = (double)unit->n_rows, n_keys = (double)unit->n_keys, seen = causal ? falling_sum(n_keys, rows) : rows * n_keys;
  int64_t hidden = ommai_attention_first_key(problem, unit->n_keys); /* from the last row */
  seen -= falling_sum((double)hidden, (double)ommai_min_i64(hidden, unit->n_rows));
  return 2.0 * (problem->head_dim + problem->v_head_dim) * problem->n_heads * seen;
}

/* First pass: counts per bucket, and the extent. */
static enum omma_status measure_units(const struct ommai_attention_problem *problem, const struct omma_attention_spec *spec,
                                      int64_t counts[BUCKETS], struct extent *extent, struct omma_error *error) {
  for (int64_t i = 0; i < problem->n_segments; i++) {
    struct ommai_attention_segment segment = ommai_attention_segment_at(problem, spec, i);
    int64_t n_units = units_in(problem, &segment);
    for (int64_t row = 0; row < n_units; row++) {
      struct ommai_attention_unit unit = make_unit(problem, &segment, i, row);
      counts[bucket_of(problem, &unit)]++;
      extent->n_units++;
      if (unit.bytes_per_pair == 0) continue;
      extent->n_pairs += unit.n_pairs;
      if (unit.bytes_per_pair > extent->pair_bytes) extent->pair_bytes = unit.bytes_per_pair;
      size_t bytes = saturating_mul(unit.bytes_per_pair, (size_t)unit.n_pairs);
      extent->total_bytes = saturating_add(extent->total_bytes, bytes);
    }
    if (extent->total_bytes > PTRDIFF_MAX) {
      return ommai_fail(error, OMMA_ERROR_LIMIT, "segment %" PRId64 ": keys and values of the segments so far are too large",
                        i);
    }
  }
  return OMMA_OK;
}

/* Second pass: a stable counting sort straight into the plan. */
static void place_units(struct omma_attention_plan *plan, const struct omma_attention_spec *spec, int64_t counts[BUCKETS]) {
  int64_t next = 0;
  for (int bucket = 0; bucket < BUCKETS; bucket++) {
    int64_t count = counts[bucket];
    counts[bucket] = next;
    next += count;
  }
  for (int64_t i = 0; i < plan->problem.n_segments; i++) {
    struct ommai_attention_segment segment = ommai_attention_segment_at(&plan->problem, spec, i);
    int64_t n_units = units_in(&plan->problem, &segment);
    for (int64_t row = 0; row < n_units; row++) {
      struct ommai_attention_unit unit = make_unit(&plan->problem, &segment, i, row);
      plan->units[counts[bucket_of(&plan->problem, &unit)]++] = unit;
    }
  }
}

/* ---- jobs and waves -------------------------------------------------------------------------- */

/* Numbers the jobs; returns the position after the last unit. */
static struct ommai_attention_wave number_jobs(struct omma_attention_plan *plan) {
  struct ommai_attention_wave end = {0};
  for (int64_t i = 0; i < plan->n_units; i++) {
    struct ommai_attention_unit *unit = &plan->units[i];
    unit->first_prepare = end.first_prepare;
    unit->first_attend = end.first_attend;
    unit->first_byte = end.first_byte;
    end.first_prepare += unit->prepare_per_pair * unit->n_pairs;
    end.first_attend += unit->attend_per_pair * unit->n_pairs;
    end.first_byte += unit->bytes_per_pair * (size_t)unit->n_pairs;
    plan->max_keys = ommai_max_i64(plan->max_keys, unit->n_keys);
    plan->flops += unit_flops(&plan->problem, unit);
  }
  end.first_unit = plan->n_units;
  return end;
}

static struct ommai_attention_wave wave_at(const struct omma_attention_plan *plan, int64_t index, int32_t pair) {
  const struct ommai_attention_unit *unit = &plan->units[index];
  return (struct ommai_attention_wave){.first_unit = index,
                                       .first_pair = pair,
                                       .first_prepare = unit->first_prepare + pair * unit->prepare_per_pair,
                                       .first_attend = unit->first_attend + pair * unit->attend_per_pair,
                                       .first_byte = unit->first_byte + (size_t)pair * unit->bytes_per_pair};
}

static void cut_waves(struct omma_attention_plan *plan) {
  struct ommai_attention_wave end = number_jobs(plan);
  size_t used = 0;
  if (plan->n_units > 0) plan->waves[plan->n_waves++] = wave_at(plan, 0, 0);
  for (int64_t i = 0; i < plan->n_units; i++) {
    size_t bytes = plan->units[i].bytes_per_pair;
    for (int32_t pair = 0; bytes > 0 && pair < plan->units[i].n_pairs; pair++) {
      if (used > 0 && used + bytes > OMMAI_ATTENTION_WAVE_BYTES) {
        plan->waves[plan->n_waves++] = wave_at(plan, i, pair);
        used = 0;
      }
      used += bytes;
      if (used > plan->wave_bytes) plan->wave_bytes = used;
    }
  }
  plan->waves[plan->n_waves] = end;
  plan->n_steps = end.first_prepare + end.first_attend;
}

/* ---- creation -------------------------------------------------------------------------------- */

/* What is known of a plan before it has memory. */
struct measured {
  struct ommai_attention_problem problem;
  struct extent extent;
  int64_t counts[BUCKETS];
};

/* The plan is NULL until it is built. */
/* Puts a copy of the spec in its place; NULL is refused by the check that follows. */
static enum omma_status take_spec(const struct omma_attention_spec **spec, struct omma_attention_spec *taken,
                                  struct omma_error *error) {
  if (!*spec) return OMMA_OK;
  OMMAI_TRY(ommai_take_struct(*spec, "struct omma_attention_spec", taken, sizeof *taken, error));
  *spec = taken;
  return OMMA_OK;
}

static enum omma_status check_and_measure(const struct omma_attention_context *context, const struct omma_attention_spec *spec,
                                          struct omma_attention_plan **plan, struct measured *measured,
                                          struct omma_error *error) {
  if (!plan) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "plan", "plan: expected a pointer, found NULL");
  *plan = NULL;
  memset(measured, 0, sizeof *measured);
  OMMAI_TRY(ommai_attention_check_spec(context, spec, &measured->problem, error));
  OMMAI_TRY(ommai_attention_check_segments(&measured->problem, spec, error));
  OMMAI_TRY(measure_units(&measured->problem, spec, measured->counts, &measured->extent, error));
  if (plan_bytes(&measured->extent) == 0) return ommai_fail(error, OMMA_ERROR_LIMIT, "attention plan: too large");
  return OMMA_OK;
}

static struct omma_attention_plan *build(void *memory, const struct omma_attention_spec *spec, struct measured *measured) {
  const struct ommai_attention_problem *problem = &measured->problem;
  const struct extent *extent = &measured->extent;
  int64_t *counts = measured->counts;
  struct omma_attention_plan *plan = memory;
  memset(plan, 0, sizeof *plan);
  plan->problem = *problem;
  plan->plan_bytes = plan_bytes(extent);
  plan->n_units = extent->n_units;
  plan->units = (void *)((unsigned char *)memory + units_offset());
  plan->waves = (void *)((unsigned char *)memory + waves_offset(extent));
  if (problem->n_segments > 0) {
    struct ommai_attention_segment last = ommai_attention_segment_at(problem, spec, problem->n_segments - 1);
    plan->tail_row = last.first_row + last.n_rows;
  }
  place_units(plan, spec, counts);
  cut_waves(plan);
  return plan;
}

enum omma_status omma_attention_plan_create(const struct omma_attention_context *context,
                                            const struct omma_attention_spec *spec, struct omma_attention_plan **plan,
                                            struct omma_error *error) {
  struct measured measured;
  struct omma_attention_spec taken;
  OMMAI_TRY(take_spec(&spec, &taken, error));
  OMMAI_TRY(check_and_measure(context, spec, plan, &measured, error));
  size_t size = plan_bytes(&measured.extent);
  void *memory = ommai_allocate(&context->allocator, size, 1);
  if (!memory) return ommai_fail_memory(error, "attention plan", size);
  *plan = build(memory, spec, &measured);
  (*plan)->allocator = context->allocator;
  return OMMA_OK;
}

void omma_attention_plan_destroy(struct omma_attention_plan *plan) {
  if (!plan || !plan->allocator.allocate) return;
  struct omma_allocator allocator = plan->allocator;
  ommai_release(&allocator, plan, plan->plan_bytes, 1);
}

size_t omma_attention_plan_size_bound(const struct omma_attention_context *context, const struct omma_attention_spec *spec) {
  struct ommai_attention_problem problem;
  struct omma_attention_spec taken;
  if (take_spec(&spec, &taken, NULL) != OMMA_OK) return 0;
  if (ommai_attention_check_spec(context, spec, &problem, NULL) != OMMA_OK) return 0;
  struct extent extent = extent_bound(&problem, spec);
  return plan_bytes(&extent);
}

enum omma_status omma_attention_plan_place(const struct omma_attention_context *context, const struct omma_attention_spec *spec,
                                           void *memory, size_t memory_size, struct omma_attention_plan **plan,
                                           struct omma_error *error) {
  struct measured measured;
  struct omma_attention_spec taken;
  OMMAI_TRY(take_spec(&spec, &taken, error));
  OMMAI_TRY(check_and_measure(context, spec, plan, &measured, error));
  if (!memory || (uintptr_t)memory % 64 != 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "memory", "memory: expected an address aligned to 64, found %p",
                            memory);
  }
  if (memory_size < plan_bytes(&measured.extent)) {
    return ommai_fail_field(error, OMMA_ERROR_MEMORY, "memory_size", "memory_size: the plan takes %zu bytes, found %zu",
                            plan_bytes(&measured.extent), memory_size);
  }
  *plan = build(memory, spec, &measured);
  return OMMA_OK;
}

/* ---- facts ----------------------------------------------------------------------------------- */

/* Of the longest unit. */
static const char *kernel_name(const struct omma_attention_plan *plan) {
  const struct ommai_attention_problem *problem = &plan->problem;
  if (problem->decode) return problem->decode->name;
  return ommai_attention_kernel_for(problem, plan->max_keys)->name;
}

void omma_attention_plan_get_info(const struct omma_attention_plan *plan, struct omma_attention_plan_info *info) {
  const struct ommai_attention_problem *problem = &plan->problem;
  *info = (struct omma_attention_plan_info){.n_segments = problem->n_segments,
                                            .n_waves = plan->n_waves,
                                            .n_steps = plan->n_steps,
                                            .flops = plan->flops,
                                            .plan_bytes = plan->plan_bytes,
                                            .scale = problem->scale,
                                            .kernel = kernel_name(plan)};
}

/* The wave's memory, then one block of scratch per worker. */
static size_t workspace_bytes(const struct ommai_attention_problem *problem, size_t wave_bytes, int n_workers) {
  size_t workers = (size_t)ommai_max_i64(n_workers, 1);
  return saturating_add(round_line(wave_bytes), saturating_mul(workers, problem->scratch_bytes));
}

size_t omma_attention_plan_workspace_size(const struct omma_attention_plan *plan, int n_workers) {
  return workspace_bytes(&plan->problem, plan->wave_bytes, n_workers);
}

size_t omma_attention_workspace_bound(const struct omma_attention_context *context, const struct omma_attention_spec *spec,
                                      int n_workers) {
  struct ommai_attention_problem problem;
  struct omma_attention_spec taken;
  if (take_spec(&spec, &taken, NULL) != OMMA_OK) return 0;
  if (ommai_attention_check_spec(context, spec, &problem, NULL) != OMMA_OK) return 0;
  struct extent extent = extent_bound(&problem, spec);
  return workspace_bytes(&problem, wave_bytes_bound(&extent), n_workers);
}
