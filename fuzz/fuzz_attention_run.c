/* Runs of sound problems: each query row and head goes to its kernel once, all of the output is
 * written and nothing else, and it is right. */
#include <math.h>
#include <string.h>

#include "attention/attention_plan.h"
#include "fuzz_input.h"
#include "kernels/attention_element.h"
#include "support/attention_case.h"

enum { MAX_ROWS = 120 };

/* What the kernels are asked for, by the address of the query row: rows of tiles, and keys of
 * decode blocks. */
struct visit {
  const void *q;
  int64_t count;
};
static struct visit visits[MAX_ROWS * 16];
static int64_t n_visits;
static const struct ommai_attention_tile_kernel *inner_tile, *inner_window;
static const struct ommai_attention_decode_kernel *inner_decode;

static void visit(const void *q, int64_t count) {
  int64_t i = 0;
  while (i < n_visits && visits[i].q != q) i++;
  FUZZ_CHECK(i < (int64_t)(sizeof visits / sizeof *visits));
  if (i == n_visits) visits[n_visits++] = (struct visit){q, 0};
  visits[i].count += count;
}

static void count_rows(const struct ommai_attention_tile *tile) {
  for (int32_t row = 0; row < tile->n_rows; row++) {
    visit(ommai_attention_at(tile->q, row * tile->q_stride, inner_tile->types.q), 1);
  }
}

static void attend_and_count(const struct ommai_attention_tile *tile) {
  count_rows(tile);
  inner_tile->attend(tile);
}

static void attend_window_and_count(const struct ommai_attention_tile *tile) {
  count_rows(tile);
  inner_window->attend(tile);
}

static void block_and_count(const struct ommai_attention_decode_block *job) {
  for (int32_t head = 0; head < job->n_heads; head++) {
    visit(ommai_attention_at(job->q, head * job->q_head_stride, inner_decode->types.q), job->n_keys);
  }
  inner_decode->block(job);
}

static int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

static struct attention_segment pick_segment(struct fuzz_input *input, enum omma_attention_mode mode, int64_t room) {
  uint64_t flags = fuzz_number(input, 1);
  int64_t n_rows = fuzz_pick(input, 0, mode == OMMA_ATTENTION_DECODE ? 3 : flags & 1 ? 150 : 40);
  int64_t others = fuzz_pick(input, 0, flags & 2 ? 200 : 20);
  struct attention_segment segment = {.n_rows = min_i64(n_rows, room), .content = (uint32_t)fuzz_number(input, 1)};
  segment.n_keys = mode != OMMA_ATTENTION_ENCODER ? segment.n_rows + others : flags & 4 ? others : segment.n_rows;
  segment.poison = (flags & 0xf0) == 0xf0;
  return segment;
}

/* Tasks from the last to the first, on every worker in turn. */
static void run_backward(void *context, int64_t n_tasks, omma_task task, void *task_context) {
  const struct omma_team *team = context;
  for (int64_t i = n_tasks; i-- > 0;) task(task_context, i, (int)(i % team->n_workers));
}

/* Every query row and head that sees a key was asked for: once by tiles, with all of its keys by
 * decode blocks. */
static void check_visits(const struct attention_case *problem) {
  int64_t n_expected = 0, keys = 0, found = 0;
  for (int64_t i = 0; i < problem->n_segments; i++) {
    const struct attention_segment *segment = &problem->segments[i];
    if (segment->n_keys == 0) continue;
    n_expected += segment->n_rows * problem->n_heads;
    for (int64_t row = 0; row < segment->n_rows; row++) {
      int64_t seen = segment->n_keys - segment->n_rows + row + 1;
      keys += (problem->window > 0 ? min_i64(seen, problem->window) : seen) * problem->n_heads;
    }
  }
  for (int64_t i = 0; i < n_visits; i++) {
    FUZZ_CHECK(problem->mode == OMMA_ATTENTION_DECODE || visits[i].count == 1);
    found += visits[i].count;
  }
  FUZZ_CHECK(n_visits == n_expected);
  FUZZ_CHECK(found == (problem->mode == OMMA_ATTENTION_DECODE ? keys : n_expected));
}

/* Every row, or that many of them that the definition takes some milliseconds. */
static int64_t row_step(const struct attention_case *problem) {
  int64_t products = 0, max_products = 200000;
  for (int64_t i = 0; i < problem->n_segments; i++) products += problem->segments[i].n_rows * problem->segments[i].n_keys;
  return 1 + products * problem->n_heads * (problem->head_dim + problem->v_head_dim) / max_products;
}

static void run_sound(const struct omma_attention_context *context, struct attention_case *problem) {
  struct omma_attention_context counting = *context;
  const struct ommai_attention_types pair = {problem->dtype, problem->int8_kv   ? OMMA_INT8
                                                             : problem->bf16_kv ? OMMA_BF16
                                                                                : problem->dtype};
  int types = ommai_attention_types_index(pair);
  struct ommai_attention_tile_kernel tile = *context->tile[types], window = tile;
  struct ommai_attention_decode_kernel decode = {.name = "none"};
  if (problem->mode == OMMA_ATTENTION_DECODE) decode = *context->decode[types];
  inner_tile = context->tile[types];
  inner_window = context->window[types];
  inner_decode = context->decode[types];
  tile.attend = attend_and_count;
  decode.block = block_and_count;
  counting.tile[types] = &tile;
  if (inner_window) {
    window = *inner_window;
    window.attend = attend_window_and_count;
    counting.window[types] = &window;
  }
  counting.decode[types] = &decode;
  n_visits = 0;
  float *found = attention_case_run(&counting, problem);
  check_visits(problem);
  attention_case_check(problem, found, HUGE_VAL, row_step(problem), omma_attention_context_isa(context));
  problem->team = NULL;
  problem->slice = 0;
  float *again = attention_case_run(context, problem);
  int64_t rows = attention_case_row(problem, problem->n_segments) + problem->tail_rows;
  FUZZ_CHECK(memcmp(found, again, (size_t)(rows * problem->n_heads * problem->v_head_dim) * sizeof *found) == 0);
  free(found);
  free(again);
}

static void try_sound(struct fuzz_input *input) {
  enum { MAX_SEGMENTS = 6 };
  static const float scales[] = {0.0f, 0.0f, 0.3f, -0.2f, 1e-6f};
  enum ommai_cpu_level level = (enum ommai_cpu_level)fuzz_pick(input, 0, OMMAI_CPU_LEVELS - 1);
  struct omma_attention_options options = {.isa = ommai_cpu_level_name(ommai_cpu_has(level) ? level : ommai_cpu_best())};
  struct attention_segment segments[MAX_SEGMENTS];
  struct attention_case problem = {.mode = (enum omma_attention_mode)fuzz_pick(input, 0, 2), .segments = segments};
  bool encoder = problem.mode == OMMA_ATTENTION_ENCODER;
  int64_t types = fuzz_pick(input, 0, encoder ? 2 : 4);
  problem.bf16_kv = !encoder && types == 2;
  problem.int8_kv = types > 2;
  problem.dtype = problem.bf16_kv || types == 3 ? OMMA_F32 : types == 4 ? OMMA_BF16 : (enum omma_dtype)types;
  problem.n_kv_heads = (int32_t)fuzz_pick(input, 1, 3);
  problem.n_heads = problem.n_kv_heads * (int32_t)fuzz_pick(input, 1, 3);
  int32_t width = problem.mode == OMMA_ATTENTION_DECODE ? OMMA_ATTENTION_MAX_DECODE_HEAD_DIM / OMMA_ATTENTION_MAX_HEAD_DIM : 1;
  problem.head_dim = width * (int32_t)fuzz_pick(input, 1, 256);
  problem.v_head_dim = fuzz_pick(input, 0, 1) ? problem.head_dim : width * (int32_t)fuzz_pick(input, 1, 256);
  problem.scale = scales[fuzz_pick(input, 0, 4)];
  if (!encoder && fuzz_pick(input, 0, 1)) problem.window = fuzz_pick(input, 1, 255);
  uint64_t flags = fuzz_number(input, 1);
  problem.paged = (flags & 1) && problem.mode != OMMA_ATTENTION_ENCODER;
  problem.heads_first = flags & 2;
  problem.index64 = flags & 4;
  problem.pad = (int64_t)(flags >> 3 & 3);
  problem.tail_rows = (int64_t)(flags >> 5);
  problem.values = (enum attention_values)fuzz_pick(input, VALUES_NORMAL, VALUES_ALTERNATING);
  problem.slice = fuzz_pick(input, 0, 5);
  problem.n_segments = fuzz_pick(input, 0, MAX_SEGMENTS);
  int64_t room = MAX_ROWS / problem.n_heads;
  for (int64_t i = 0; i < problem.n_segments; i++) {
    segments[i] = pick_segment(input, problem.mode, room);
    room -= segments[i].n_rows;
  }
  struct omma_team team = {.n_workers = (int)fuzz_pick(input, 1, 5), .run = run_backward};
  team.context = &team;
  problem.team = &team;
  struct omma_attention_context *context;
  FUZZ_CHECK(omma_attention_context_create(&options, &context, NULL) == OMMA_OK);
  run_sound(context, &problem);
  omma_attention_context_destroy(context);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  struct fuzz_input input = {bytes, size};
  try_sound(&input);
  return 0;
}
