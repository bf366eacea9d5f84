/* How the jobs of a plan spread over workers, without a clock: each worker takes the next job of a
 * phase when it is free, as a team does, a job costs its multiply-adds, and a phase ends with its
 * last job. */
#include <math.h>
#include <stdlib.h>

#include "attention/attention_plan.h"
#include "support/test.h"

enum { MAX_WORKERS = 64, MAX_SEGMENTS = 1200 };

/* Packing reads, widens and writes: worth about that many multiply-adds per element. */
#define PACK_COST 8.0

struct load {
  double total;   /* of all jobs */
  double largest; /* of one job in each phase, added up: what no schedule can beat */
  double makespan;
};

struct workers {
  int n;
  double busy_until[MAX_WORKERS];
};

static void take_job(struct workers *workers, double cost) {
  int first = 0;
  for (int i = 1; i < workers->n; i++) {
    if (workers->busy_until[i] < workers->busy_until[first]) first = i;
  }
  workers->busy_until[first] += cost;
}

static double prepare_cost(const struct ommai_attention_problem *problem, const struct ommai_attention_unit *unit,
                           int64_t index) {
  double width = problem->head_dim + problem->v_head_dim;
  if (problem->mode == OMMA_ATTENTION_DECODE) {
    double keys = fmin((double)unit->n_keys - (double)index * OMMAI_ATTENTION_SPLIT_KEYS, OMMAI_ATTENTION_SPLIT_KEYS);
    return keys * width * problem->group * unit->heads_per_pair;
  }
  double keys = OMMAI_ATTENTION_PACK_BLOCKS * OMMAI_ATTENTION_BLOCK;
  return PACK_COST * width * fmin((double)unit->n_keys - (double)index * keys, keys);
}

static double rows_cost(const struct ommai_attention_problem *problem, const struct ommai_attention_unit *unit, int64_t first,
                        int64_t count) {
  double cost = 0.0;
  for (int64_t row = first; row < first + count; row++) {
    cost += fmin((double)unit->n_keys, (double)unit->first_visible + (double)row);
  }
  return cost * (problem->head_dim + problem->v_head_dim);
}

static double attend_cost(const struct ommai_attention_problem *problem, const struct ommai_attention_unit *unit,
                          int64_t index) {
  double width = problem->head_dim + problem->v_head_dim;
  if (problem->mode == OMMA_ATTENTION_DECODE) {
    double combine = (double)unit->prepare_per_pair * problem->v_head_dim * problem->group * unit->heads_per_pair;
    return unit->small ? (double)unit->n_keys * width * problem->group * unit->heads_per_pair : combine;
  }
  if (unit->small) {
    double pack = PACK_COST * width * (double)unit->n_keys;
    return (pack + problem->group * rows_cost(problem, unit, 0, unit->n_rows)) * unit->heads_per_pair;
  }
  const struct ommai_attention_tile_kernel *kernel = ommai_attention_kernel_for(problem, unit->n_keys);
  int64_t n_tiles = ommai_attention_tile_count(kernel, unit->n_rows), tile = index % n_tiles, first, count;
  if (problem->mode == OMMA_ATTENTION_CAUSAL) tile = n_tiles - 1 - tile;
  ommai_attention_tile_rows(kernel, unit->n_rows, tile, &first, &count);
  return rows_cost(problem, unit, first, count);
}

/* Pairs of a unit that lie in a wave: [*first, *end). */
static void pairs_in(const struct omma_attention_plan *plan, const struct ommai_attention_wave *wave, int64_t unit,
                     int32_t *first, int32_t *end) {
  const struct ommai_attention_wave *next = wave + 1;
  *first = unit == wave->first_unit ? wave->first_pair : 0;
  *end = unit == next->first_unit ? next->first_pair : plan->units[unit].n_pairs;
}

/* One phase of one wave, in the order of the job numbers. */
static void run_phase(const struct omma_attention_plan *plan, const struct ommai_attention_wave *wave, bool prepare,
                      int n_workers, struct load *load) {
  struct workers workers = {.n = n_workers};
  double largest = 0.0, last = 0.0;
  for (int64_t i = wave->first_unit; i <= wave[1].first_unit && i < plan->n_units; i++) {
    const struct ommai_attention_unit *unit = &plan->units[i];
    int32_t first, end;
    pairs_in(plan, wave, i, &first, &end);
    int64_t jobs = prepare ? unit->prepare_per_pair : unit->attend_per_pair;
    for (int64_t job = 0; job < jobs * (end - first); job++) {
      double cost = prepare ? prepare_cost(&plan->problem, unit, job % jobs) : attend_cost(&plan->problem, unit, job % jobs);
      take_job(&workers, cost);
      load->total += cost;
      largest = fmax(largest, cost);
    }
  }
  for (int i = 0; i < n_workers; i++) last = fmax(last, workers.busy_until[i]);
  load->largest += largest;
  load->makespan += last;
}

static struct load simulate(const struct omma_attention_plan *plan, int n_workers) {
  struct load load = {0};
  for (int64_t i = 0; i < plan->n_waves; i++) {
    run_phase(plan, &plan->waves[i], true, n_workers, &load);
    run_phase(plan, &plan->waves[i], false, n_workers, &load);
  }
  return load;
}

struct shape {
  const char *name;
  enum omma_attention_mode mode;
  enum omma_dtype dtype;
  int32_t n_heads, n_kv_heads, head_dim;
  int n_segments;
  int64_t (*rows)(int segment);
  double allowed; /* makespan over the smallest possible */
};

static int64_t long_one_among_short(int segment) { return segment == 500 ? 60000 : 64; }
static int64_t windows(int segment) { return segment >= 0 ? 64 : 0; }
static int64_t one_image(int segment) { return segment == 0 ? 4096 : 0; }
static int64_t mixed_images(int segment) { return 196 + 4 * ((int64_t)segment * 7919 % 700); }
static int64_t short_and_empty(int segment) { return segment % 3 ? 0 : 5 + segment % 40; }

static struct omma_attention_plan *make_plan(const struct omma_attention_context *context, const struct shape *shape) {
  int64_t borders[MAX_SEGMENTS + 1] = {0};
  for (int i = 0; i < shape->n_segments; i++) borders[i + 1] = borders[i] + shape->rows(i);
  struct omma_attention_spec spec = {.mode = shape->mode,
                                     .dtype = shape->dtype,
                                     .n_heads = shape->n_heads,
                                     .n_kv_heads = shape->n_kv_heads,
                                     .head_dim = shape->head_dim,
                                     .n_tokens = borders[shape->n_segments],
                                     .index_type = OMMA_INDEX_INT64,
                                     .n_segments = shape->n_segments,
                                     .cu_seqlens = borders};
  struct omma_attention_plan *plan;
  struct omma_error error;
  assert_ok(omma_attention_plan_create(context, &spec, &plan, &error), &error);
  return plan;
}

/* The makespan stays close to what any schedule would need: the mean load, or the largest job of
 * each phase. With one long segment among hundreds of short ones that is within 5 %; fewer than 20
 * jobs per worker, as 1,024 windows on 60, round up to more. */
static void workers_are_busy_to_the_end(void **state) {
  (void)state;
  static const struct shape shapes[] = {
      {"60,000 among 64s", OMMA_ATTENTION_ENCODER, OMMA_BF16, 16, 16, 72, 1000, long_one_among_short, 1.05},
      {"60,000 among 64s, grouped", OMMA_ATTENTION_ENCODER, OMMA_F32, 16, 2, 64, 700, long_one_among_short, 1.05},
      {"60,000 among 64s, causal", OMMA_ATTENTION_CAUSAL, OMMA_BF16, 8, 2, 128, 600, long_one_among_short, 1.05},
      {"windows", OMMA_ATTENTION_ENCODER, OMMA_BF16, 16, 16, 64, 1024, windows, 1.1},
      {"one image", OMMA_ATTENTION_ENCODER, OMMA_BF16, 16, 16, 72, 1, one_image, 1.1},
      {"mixed images", OMMA_ATTENTION_ENCODER, OMMA_BF16, 16, 16, 72, 60, mixed_images, 1.1},
      {"mixed images, f16", OMMA_ATTENTION_ENCODER, OMMA_F16, 12, 12, 88, 60, mixed_images, 1.1},
      {"short and empty", OMMA_ATTENTION_ENCODER, OMMA_F32, 16, 16, 80, 1100, short_and_empty, 1.1},
  };
  struct omma_attention_context *context;
  struct omma_error error;
  assert_ok(omma_attention_context_create(NULL, &context, &error), &error);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    struct omma_attention_plan *plan = make_plan(context, &shapes[i]);
    double worst = 0.0;
    for (int n_workers = 2; n_workers <= MAX_WORKERS; n_workers += test_small() ? 10 : 1) {
      struct load load = simulate(plan, n_workers);
      double possible = fmax(load.total / n_workers, load.largest), ratio = load.makespan / possible;
      worst = fmax(worst, ratio);
      if (ratio > shapes[i].allowed) {
        fail_msg("%s: %d workers take %.3f of the smallest possible, allowed %.3f", shapes[i].name, n_workers, ratio,
                 shapes[i].allowed);
      }
    }
    print_message("%s: at worst %.3f of the smallest possible, over 2 to %d workers\n", shapes[i].name, worst, MAX_WORKERS);
    omma_attention_plan_destroy(plan);
  }
  omma_attention_context_destroy(context);
}

/* The simulated jobs are the plan's: their multiply-adds, less packing, are the useful work that it
 * states. */
static void simulated_work_is_the_plans(void **state) {
  (void)state;
  static const struct shape shapes[] = {
      {"encoder", OMMA_ATTENTION_ENCODER, OMMA_BF16, 6, 2, 72, 300, mixed_images, 0},
      {"causal", OMMA_ATTENTION_CAUSAL, OMMA_F32, 4, 1, 64, 40, mixed_images, 0},
      {"short", OMMA_ATTENTION_ENCODER, OMMA_F32, 16, 16, 80, 900, short_and_empty, 0},
  };
  struct omma_attention_context *context;
  struct omma_error error;
  assert_ok(omma_attention_context_create(NULL, &context, &error), &error);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    struct omma_attention_plan *plan = make_plan(context, &shapes[i]);
    double work = simulate(plan, 1).total;
    for (int64_t u = 0; u < plan->n_units; u++) {
      work -= PACK_COST * 2 * shapes[i].head_dim * (double)plan->units[u].n_keys * shapes[i].n_kv_heads;
    }
    if (fabs(2 * work / plan->flops - 1) > 1e-9) fail_msg("%s: %.9g, plan %.9g", shapes[i].name, 2 * work, plan->flops);
    omma_attention_plan_destroy(plan);
  }
  omma_attention_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(simulated_work_is_the_plans),
      cmocka_unit_test(workers_are_busy_to_the_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
