/* Running a plan: check the tensors, then wave by wave one team call to prepare and one to
 * attend. */
#include <inttypes.h>
#include <string.h>

#include "attention/attention_address.h"
#include "attention/attention_plan.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/plural.h"
#include "kernels/attention_element.h"

enum { TAIL_ROWS = 256 }; /* rows per task that clears */

static int64_t or_default(int64_t stride, int64_t packed) { return stride ? stride : packed; }

static void fill_strides(const struct ommai_attention_problem *problem, struct omma_attention_tensors *t) {
  int64_t dim = problem->head_dim, v_dim = problem->v_head_dim, page = OMMA_ATTENTION_PAGE_TOKENS;
  t->q_token_stride = or_default(t->q_token_stride, problem->n_heads * dim);
  t->q_head_stride = or_default(t->q_head_stride, dim);
  t->out_token_stride = or_default(t->out_token_stride, problem->n_heads * v_dim);
  t->out_head_stride = or_default(t->out_head_stride, v_dim);
  t->k_token_stride = or_default(t->k_token_stride, problem->paged ? dim : problem->n_kv_heads * dim);
  t->k_head_stride = or_default(t->k_head_stride, problem->paged ? page * dim : dim);
  t->v_token_stride = or_default(t->v_token_stride, problem->paged ? v_dim : problem->n_kv_heads * v_dim);
  t->v_head_stride = or_default(t->v_head_stride, problem->paged ? page * v_dim : v_dim);
  t->k_page_stride = or_default(t->k_page_stride, problem->n_kv_heads * page * dim);
  t->v_page_stride = or_default(t->v_page_stride, problem->n_kv_heads * page * v_dim);
  int64_t rows = problem->paged ? page : problem->n_kv_tokens;
  t->k_scale_head_stride = or_default(t->k_scale_head_stride, rows);
  t->v_scale_head_stride = or_default(t->v_scale_head_stride, rows);
  t->k_scale_page_stride = or_default(t->k_scale_page_stride, problem->n_kv_heads * page);
  t->v_scale_page_stride = or_default(t->v_scale_page_stride, problem->n_kv_heads * page);
}

/* Addresses of a tensor stay within 2^62 bytes of its pointer. */
static enum omma_status check_reach(const char *name, int64_t count, int64_t stride, struct omma_error *error) {
  int64_t reach;
  if (!ommai_mul_i64(count, stride, &reach) || reach > INT64_MAX / 16 || reach < -(INT64_MAX / 16)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, name, "%s: %" PRId64 " steps of %" PRId64 " elements overflow", name,
                            count, stride);
  }
  return OMMA_OK;
}

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/* Rows of out are written by different workers and may not share memory. check_reach has bounded
 * the products. */
static enum omma_status check_out_strides(const struct ommai_attention_problem *problem, const struct omma_attention_tensors *t,
                                          struct omma_error *error) {
  int64_t row = problem->v_head_dim, token = magnitude(t->out_token_stride), head = magnitude(t->out_head_stride);
  if (problem->n_tokens > 1 && token < row) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "out_token_stride",
                            "out_token_stride: rows of %" PRId64 " elements overlap at a stride of %" PRId64, row,
                            t->out_token_stride);
  }
  if (problem->n_heads > 1 && head < row) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "out_head_stride",
                            "out_head_stride: rows of %" PRId64 " elements overlap at a stride of %" PRId64, row,
                            t->out_head_stride);
  }
  if (problem->n_tokens > 1 && problem->n_heads > 1 && token < (problem->n_heads - 1) * head + row &&
      head < (problem->n_tokens - 1) * token + row) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "out_head_stride",
                            "out_head_stride: rows of different tokens and heads overlap at strides of %" PRId64
                            " and %" PRId64,
                            t->out_token_stride, t->out_head_stride);
  }
  return OMMA_OK;
}

static enum omma_status check_strides(const struct omma_attention_plan *plan, const struct omma_attention_tensors *t,
                                      struct omma_error *error) {
  const struct ommai_attention_problem *problem = &plan->problem;
  int64_t kv_rows = problem->paged ? OMMA_ATTENTION_PAGE_TOKENS : problem->n_kv_tokens;
  OMMAI_TRY(check_reach("q_token_stride", problem->n_tokens, t->q_token_stride, error));
  OMMAI_TRY(check_reach("q_head_stride", problem->n_heads, t->q_head_stride, error));
  OMMAI_TRY(check_reach("out_token_stride", problem->n_tokens, t->out_token_stride, error));
  OMMAI_TRY(check_reach("out_head_stride", problem->n_heads, t->out_head_stride, error));
  OMMAI_TRY(check_reach("k_token_stride", kv_rows, t->k_token_stride, error));
  OMMAI_TRY(check_reach("k_head_stride", problem->n_kv_heads, t->k_head_stride, error));
  OMMAI_TRY(check_reach("v_token_stride", kv_rows, t->v_token_stride, error));
  OMMAI_TRY(check_reach("v_head_stride", problem->n_kv_heads, t->v_head_stride, error));
  OMMAI_TRY(check_reach("k_scale_head_stride", problem->n_kv_heads, t->k_scale_head_stride, error));
  OMMAI_TRY(check_reach("v_scale_head_stride", problem->n_kv_heads, t->v_scale_head_stride, error));
  if (problem->paged) {
    OMMAI_TRY(check_reach("k_page_stride", INT32_MAX, t->k_page_stride, error));
    OMMAI_TRY(check_reach("v_page_stride", INT32_MAX, t->v_page_stride, error));
    OMMAI_TRY(check_reach("k_scale_page_stride", INT32_MAX, t->k_scale_page_stride, error));
    OMMAI_TRY(check_reach("v_scale_page_stride", INT32_MAX, t->v_scale_page_stride, error));
    OMMAI_TRY(check_reach("page_table_stride", problem->n_segments, t->page_table_stride, error));
  }
  return check_out_strides(problem, t, error);
}

static enum omma_status check_pointers(const struct omma_attention_plan *plan, const struct omma_attention_tensors *t,
                                       struct omma_error *error) {
  const struct ommai_attention_problem *problem = &plan->problem;
  const char *missing = NULL;
  if (problem->n_tokens > 0 && !t->out) missing = "out";
  if (plan->max_keys > 0) {
    if (!t->v) missing = "v";
    if (!t->k) missing = "k";
    if (!t->q) missing = "q";
    if (problem->types.kv == OMMA_INT8 && !t->v_scales) missing = "v_scales";
    if (problem->types.kv == OMMA_INT8 && !t->k_scales) missing = "k_scales";
    if (problem->paged && !t->page_table) missing = "page_table";
  }
  if (missing) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, missing, "%s: expected a pointer, found NULL", missing);
  int64_t pages = ommai_div_up(plan->max_keys, OMMA_ATTENTION_PAGE_TOKENS);
  if (problem->paged && problem->n_segments > 1 && t->page_table_stride < pages) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "page_table_stride",
                            "page_table_stride: expected at least the %" PRId64 " pages of the longest segment, found %" PRId64,
                            pages, t->page_table_stride);
  }
  return OMMA_OK;
}

static enum omma_status check_workspace(const struct omma_attention_plan *plan, const void *workspace, size_t workspace_size,
                                        const struct omma_team *team, struct omma_error *error) {
  if (team && (team->n_workers < 1 || !team->run)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "team", "team: expected a run function and at least 1 worker, found %d",
                            team->n_workers);
  }
  int n_workers = team ? team->n_workers : 1;
  size_t needed = omma_attention_plan_workspace_size(plan, n_workers);
  if (!workspace || (uintptr_t)workspace % 64 != 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "workspace", "workspace: expected an address aligned to 64, found %p",
                            workspace);
  }
  if (workspace_size < needed) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "workspace_size",
                            "workspace_size: the plan needs %zu bytes for %d worker%s, found %zu", needed, n_workers,
                            ommai_plural(n_workers), workspace_size);
  }
  return OMMA_OK;
}

static enum omma_status check_run(const struct omma_attention_plan *plan, const struct omma_attention_tensors *tensors,
                                  void *workspace, size_t workspace_size, const struct omma_team *team,
                                  struct ommai_attention_run *run, struct omma_error *error) {
  if (!plan) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "plan", "plan: expected a plan, found NULL");
  if (!tensors) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "tensors", "tensors: expected a pointer, found NULL");
  *run = (struct ommai_attention_run){.plan = plan, .tensors = *tensors, .wave_memory = workspace};
  fill_strides(&plan->problem, &run->tensors);
  OMMAI_TRY(check_pointers(plan, &run->tensors, error));
  OMMAI_TRY(check_strides(plan, &run->tensors, error));
  OMMAI_TRY(check_workspace(plan, workspace, workspace_size, team, error));
  run->n_workers = team ? team->n_workers : 1;
  run->scratch = run->wave_memory + (plan->wave_bytes + 63) / 64 * 64;
  return OMMA_OK;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static int64_t first_job(const struct ommai_attention_unit *unit, bool prepare) {
  return prepare ? unit->first_prepare : unit->first_attend;
}

/* The last unit whose first job is not after `number`: units without jobs begin where the next one
 * does. */
static const struct ommai_attention_unit *unit_of(const struct omma_attention_plan *plan, int64_t number, bool prepare) {
  int64_t low = 0, high = plan->n_units;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (first_job(&plan->units[middle], prepare) <= number) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return &plan->units[low];
}

static struct ommai_attention_job find_job(const struct ommai_attention_run *run, int64_t number, int worker, bool prepare) {
  const struct ommai_attention_unit *unit = unit_of(run->plan, number, prepare);
  int64_t within = number - first_job(unit, prepare);
  int64_t per_pair = prepare ? unit->prepare_per_pair : unit->attend_per_pair;
  struct ommai_attention_job job = {.unit = unit,
                                    .first_head = (int32_t)(within / per_pair) * unit->heads_per_pair,
                                    .n_heads = unit->heads_per_pair,
                                    .index = within % per_pair,
                                    .scratch = run->scratch + (size_t)worker * run->plan->problem.scratch_bytes};
  size_t byte = unit->first_byte + (size_t)(within / per_pair) * unit->bytes_per_pair - run->wave->first_byte;
  job.shared = unit->small ? NULL : run->wave_memory + byte;
  return job;
}

static void prepare_task(void *context, int64_t task, int worker) {
  const struct ommai_attention_run *run = context;
  struct ommai_attention_job job = find_job(run, run->first_job + task, worker, true);
  if (run->plan->problem.mode == OMMA_ATTENTION_DECODE) {
    ommai_attention_decode_prepare(run, &job);
  } else {
    ommai_attention_tile_prepare(run, &job);
  }
}

static void attend_task(void *context, int64_t task, int worker) {
  const struct ommai_attention_run *run = context;
  struct ommai_attention_job job = find_job(run, run->first_job + task, worker, false);
  if (run->plan->problem.mode == OMMA_ATTENTION_DECODE) {
    ommai_attention_decode_attend(run, &job);
  } else {
    ommai_attention_tile_attend(run, &job);
  }
}

static void clear_task(void *context, int64_t task, int worker) {
  (void)worker;
  const struct ommai_attention_run *run = context;
  const struct ommai_attention_problem *problem = &run->plan->problem;
  int64_t row = run->plan->tail_row + task * TAIL_ROWS;
  int64_t end = ommai_min_i64(row + TAIL_ROWS, problem->n_tokens);
  size_t size = (size_t)problem->v_head_dim * ommai_attention_element_size(problem->types.q);
  for (; row < end; row++) {
    for (int32_t head = 0; head < problem->n_heads; head++) memset(ommai_attention_out(run, row, head), 0, size);
  }
}

static void run_tasks(const struct omma_team *team, int64_t n_tasks, omma_task task, struct ommai_attention_run *run) {
  if (n_tasks <= 0) return;
  if (team) {
    team->run(team->context, n_tasks, task, run);
    return;
  }
  for (int64_t i = 0; i < n_tasks; i++) task(run, i, 0);
}

/* Jobs [first, end) of one phase, cut to those whose steps lie in [from, to). Step of job j: step +
 * (j - first). */
static void run_phase(struct ommai_attention_run *run, const struct omma_team *team, omma_task task, int64_t first, int64_t end,
                      int64_t step, int64_t from, int64_t to) {
  int64_t begin = ommai_max_i64(first, first + (from - step));
  run->first_job = begin;
  run_tasks(team, ommai_min_i64(end, first + (to - step)) - begin, task, run);
}

static void run_steps(struct ommai_attention_run *run, const struct omma_team *team, int64_t from, int64_t to) {
  const struct omma_attention_plan *plan = run->plan;
  if (from == 0) {
    run_tasks(team, ommai_div_up(plan->problem.n_tokens - plan->tail_row, TAIL_ROWS), clear_task, run);
  }
  for (int64_t i = 0; i < plan->n_waves; i++) {
    const struct ommai_attention_wave *wave = &plan->waves[i], *next = wave + 1;
    int64_t step = wave->first_prepare + wave->first_attend;
    if (next->first_prepare + next->first_attend <= from || step >= to) continue;
    run->wave = wave;
    run_phase(run, team, prepare_task, wave->first_prepare, next->first_prepare, step, from, to);
    step += next->first_prepare - wave->first_prepare;
    run_phase(run, team, attend_task, wave->first_attend, next->first_attend, step, from, to);
  }
}

enum omma_status omma_attention_run(const struct omma_attention_plan *plan, const struct omma_attention_tensors *tensors,
                                    void *workspace, size_t workspace_size, const struct omma_team *team,
                                    struct omma_error *error) {
  struct ommai_attention_run run;
  OMMAI_TRY(check_run(plan, tensors, workspace, workspace_size, team, &run, error));
  run_steps(&run, team, 0, plan->n_steps);
  return OMMA_OK;
}

enum omma_status omma_attention_run_range(const struct omma_attention_plan *plan, const struct omma_attention_tensors *tensors,
                                          void *workspace, size_t workspace_size, const struct omma_team *team, int64_t first,
                                          int64_t count, struct omma_error *error) {
  struct ommai_attention_run run;
  OMMAI_TRY(check_run(plan, tensors, workspace, workspace_size, team, &run, error));
  if (first < 0 || first > plan->n_steps) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "first", "first: expected 0 to %" PRId64 ", found %" PRId64,
                            plan->n_steps, first);
  }
  if (count < 0 || count > plan->n_steps - first) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "count",
                            "count: expected 0 to %" PRId64 " steps from %" PRId64 " on, found %" PRId64, plan->n_steps - first,
                            first, count);
  }
  if (count > 0 || plan->n_steps == 0) run_steps(&run, team, first, first + count);
  return OMMA_OK;
}
