#include "image/resize.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/team.h"
#include "kernels/resample.h"

enum { ROWS_PER_TASK = 16 };
enum { MAX_PRECISION = 22, WEIGHT_LIMIT = 1 << 15 };
enum { MAX_SIDE = 1 << 24 };

/* Half the width of the cubic kernel at scale 1. */
static const double kernel_radius = 2.0;

/* One pass, its tables, and scratch for making them. */
struct pass {
  struct ommai_resample_pass taps;
  double *exact; /* [max_taps], one output's weights before rounding */
};

struct resize {
  struct pass horizontal, vertical;
  bool vertical_first;
  /* [sh][dw][3], vertical first [dh][sw][3], between the passes; NULL where only one pass is run */
  uint8_t *middle;
};

static double cubic(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}

static bool pass_is_needed(const struct pass *pass) { return pass->taps.n != pass->taps.m; }
static double pass_scale(const struct pass *pass) { return (double)pass->taps.n / pass->taps.m; }
static double pass_stretch(const struct pass *pass) { return fmax(pass_scale(pass), 1.0); }

/* Places the tables of a pass; they stay NULL when the arena only measures. */
static void pass_place(struct pass *pass, enum ommai_resize_rule rule, int32_t n, int32_t m, struct ommai_arena *arena) {
  *pass = (struct pass){.taps = {.n = n, .m = m}};
  if (!pass_is_needed(pass)) return;
  struct ommai_resample_pass *taps = &pass->taps;
  int64_t max_taps_needed = (int64_t)ceil(kernel_radius * pass_stretch(pass)) * 2 + 1;
  taps->max_taps = (int32_t)ommai_round_up(max_taps_needed, OMMAI_RESAMPLE_TAP_STEP);
  size_t n_weights;
  if (!ommai_mul_size((size_t)m, (size_t)taps->max_taps, &n_weights)) n_weights = SIZE_MAX;
  taps->first = ommai_arena_take(arena, (size_t)m, sizeof *taps->first);
  taps->count = ommai_arena_take(arena, (size_t)m, sizeof *taps->count);
  taps->weights = ommai_arena_take(arena, n_weights, sizeof *taps->weights);
  if (rule == OMMAI_RESIZE_INT16) taps->narrow = ommai_arena_take(arena, n_weights, sizeof *taps->narrow);
  pass->exact = ommai_arena_take(arena, (size_t)taps->max_taps, sizeof *pass->exact);
}

/* Taps of output i, and their normalised weights in pass->exact. The order of operations is the
 * official code's: other orders give weights that round differently once in a while. */
static void exact_weights(struct pass *pass, int32_t i) {
  double scale = pass_scale(pass), stretch = pass_stretch(pass), inverse = 1.0 / stretch;
  double centre = scale * (i + 0.5), support = kernel_radius * stretch;
  int64_t first = ommai_max_i64((int64_t)(centre - support + 0.5), 0);
  int64_t last = ommai_min_i64((int64_t)(centre + support + 0.5), pass->taps.n);
  int32_t count = (int32_t)ommai_min_i64(last - first, pass->taps.max_taps);
  double sum = 0.0;
  for (int32_t j = 0; j < count; j++) {
    pass->exact[j] = cubic(((double)(j + first) - centre + 0.5) * inverse);
    sum += pass->exact[j];
  }
  for (int32_t j = 0; j < count && sum != 0.0; j++) pass->exact[j] /= sum;
  pass->taps.first[i] = (int32_t)first;
  pass->taps.count[i] = count;
}

static int int16_precision(double largest) {
  int p = 0;
  while (p < MAX_PRECISION && (int32_t)(0.5 + largest * (1 << (p + 1))) < WEIGHT_LIMIT) p++;
  return p;
}

static int find_precision(struct pass *pass, enum ommai_resize_rule rule) {
  if (rule == OMMAI_RESIZE_PRECISE22) return MAX_PRECISION;
  double largest = 0.0;
  for (int32_t i = 0; i < pass->taps.m; i++) {
    exact_weights(pass, i);
    for (int32_t j = 0; j < pass->taps.count[i]; j++) largest = fmax(largest, pass->exact[j]);
  }
  return int16_precision(largest);
}

static void pass_fill(struct pass *pass, enum ommai_resize_rule rule) {
  if (!pass_is_needed(pass)) return;
  struct ommai_resample_pass *taps = &pass->taps;
  taps->precision = find_precision(pass, rule);
  double one = 1 << taps->precision;
  for (int32_t i = 0; i < taps->m; i++) {
    exact_weights(pass, i);
    size_t at = (size_t)i * (size_t)taps->max_taps;
    for (int32_t j = 0; j < taps->max_taps; j++) {
      double scaled = j < taps->count[i] ? pass->exact[j] * one : 0.0;
      taps->weights[at + (size_t)j] = (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
      if (taps->narrow) taps->narrow[at + (size_t)j] = (int16_t)taps->weights[at + (size_t)j];
    }
  }
}

/* Pillow 13: the height loses more than twice as many pixels as the width. */
static bool is_vertical_first(enum ommai_resize_rule rule, int32_t sw, int32_t sh, int32_t dw, int32_t dh) {
  int64_t lower = (int64_t)sh - dh, narrower = (int64_t)sw - dw;
  return rule == OMMAI_RESIZE_PRECISE22 && lower > 0 && lower > 2 * narrower;
}

static void resize_place(struct resize *resize, enum ommai_resize_rule rule, int32_t sw, int32_t sh, int32_t dw, int32_t dh,
                         struct ommai_arena *arena) {
  pass_place(&resize->horizontal, rule, sw, dw, arena);
  pass_place(&resize->vertical, rule, sh, dh, arena);
  resize->vertical_first = is_vertical_first(rule, sw, sh, dw, dh);
  resize->middle = NULL;
  if (sw == dw || sh == dh) return;
  int32_t height = resize->vertical_first ? dh : sh, width = resize->vertical_first ? sw : dw;
  resize->middle = ommai_arena_take(arena, (size_t)height * 3, (size_t)width);
}

/* What the tasks of one pass share. */
struct pass_run {
  const struct ommai_resample_pass *pass;
  struct ommai_resample_kernels kernels;
  const uint8_t *in;
  uint8_t *out;
  int64_t n_rows;    /* of the output */
  int64_t row_bytes; /* vertical: of either side */
};

static void horizontal_task(void *context, int64_t task, int worker) {
  (void)worker;
  const struct pass_run *run = context;
  int64_t last = ommai_min_i64((task + 1) * ROWS_PER_TASK, run->n_rows);
  for (int64_t y = task * ROWS_PER_TASK; y < last; y++) {
    run->kernels.row(run->pass, run->in + y * run->pass->n * 3, run->out + y * run->pass->m * 3, 0, run->pass->m);
  }
}

static void vertical_task(void *context, int64_t task, int worker) {
  (void)worker;
  const struct pass_run *run = context;
  int64_t last = ommai_min_i64((task + 1) * ROWS_PER_TASK, run->n_rows);
  for (int64_t y = task * ROWS_PER_TASK; y < last; y++) {
    const uint8_t *in = run->in + run->pass->first[y] * run->row_bytes;
    run->kernels.column(run->pass, (int32_t)y, in, run->row_bytes, run->out + y * run->row_bytes, run->row_bytes);
  }
}

static enum omma_status check_sizes(int32_t sw, int32_t sh, int32_t dw, int32_t dh, struct omma_error *error) {
  if (sw < 1 || sh < 1 || dw < 1 || dh < 1) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT, "resize: cannot make %d x %d pixels from %d x %d", dw, dh, sw, sh);
  }
  if (sw > MAX_SIDE || sh > MAX_SIDE || dw > MAX_SIDE || dh > MAX_SIDE) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "resize: %d x %d to %d x %d pixels: at most %d a side", sw, sh, dw, dh,
                      MAX_SIDE);
  }
  return OMMA_OK;
}

enum omma_status ommai_resize_workspace(enum ommai_resize_rule rule, int32_t sw, int32_t sh, int32_t dw, int32_t dh,
                                        size_t *size, struct omma_error *error) {
  OMMAI_TRY(check_sizes(sw, sh, dw, dh, error));
  struct ommai_arena arena;
  struct resize resize;
  ommai_arena_measure(&arena);
  resize_place(&resize, rule, sw, sh, dw, dh, &arena);
  if (arena.failed) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "resize: %d x %d to %d x %d pixels is too large", sw, sh, dw, dh);
  }
  *size = arena.peak;
  return OMMA_OK;
}

/* From in [n_rows][n][3] to out [n_rows][m][3]. */
static void run_horizontal(const struct ommai_resample_pass *pass, enum ommai_cpu_level level, const uint8_t *in, uint8_t *out,
                           int64_t n_rows, const struct omma_team *team) {
  struct pass_run run = {pass, {0}, in, out, n_rows, 0};
  ommai_resample_select(level, pass, &run.kernels);
  ommai_team_run(team, ommai_div_up(n_rows, ROWS_PER_TASK), horizontal_task, &run);
}

/* From in [n][width][3] to out [m][width][3]. */
static void run_vertical(const struct ommai_resample_pass *pass, enum ommai_cpu_level level, const uint8_t *in, uint8_t *out,
                         int64_t width, const struct omma_team *team) {
  struct pass_run run = {pass, {0}, in, out, pass->m, width * 3};
  ommai_resample_select(level, pass, &run.kernels);
  ommai_team_run(team, ommai_div_up(run.n_rows, ROWS_PER_TASK), vertical_task, &run);
}

static void run_passes(const struct resize *resize, enum ommai_cpu_level level, const uint8_t *src, uint8_t *dst,
                       const struct omma_team *team) {
  const struct ommai_resample_pass *across = &resize->horizontal.taps, *down = &resize->vertical.taps;
  if (resize->middle && resize->vertical_first) {
    run_vertical(down, level, src, resize->middle, across->n, team);
    run_horizontal(across, level, resize->middle, dst, down->m, team);
  } else if (resize->middle) {
    run_horizontal(across, level, src, resize->middle, down->n, team);
    run_vertical(down, level, resize->middle, dst, across->m, team);
  } else if (pass_is_needed(&resize->horizontal)) {
    run_horizontal(across, level, src, dst, down->m, team);
  } else if (pass_is_needed(&resize->vertical)) {
    run_vertical(down, level, src, dst, across->m, team);
  } else {
    memcpy(dst, src, (size_t)across->m * 3 * (size_t)down->m);
  }
}

enum omma_status ommai_resize_bicubic_at(enum ommai_cpu_level level, enum ommai_resize_rule rule, const uint8_t *src,
                                         int32_t sw, int32_t sh, uint8_t *dst, int32_t dw, int32_t dh, void *workspace,
                                         size_t size, const struct omma_team *team, struct omma_error *error) {
  OMMAI_TRY(check_sizes(sw, sh, dw, dh, error));
  struct ommai_arena arena;
  struct resize resize;
  ommai_arena_init(&arena, workspace, size);
  resize_place(&resize, rule, sw, sh, dw, dh, &arena);
  if (arena.failed) {
    return ommai_fail(error, OMMA_ERROR_MEMORY, "resize: a workspace of %zu bytes is too small for %d x %d to %d x %d pixels",
                      size, sw, sh, dw, dh);
  }
  pass_fill(&resize.horizontal, rule);
  pass_fill(&resize.vertical, rule);
  run_passes(&resize, level, src, dst, team);
  return OMMA_OK;
}

enum omma_status ommai_resize_bicubic(enum ommai_resize_rule rule, const uint8_t *src, int32_t sw, int32_t sh, uint8_t *dst,
                                      int32_t dw, int32_t dh, void *workspace, size_t size, const struct omma_team *team,
                                      struct omma_error *error) {
  enum ommai_cpu_level level;
  OMMAI_TRY(ommai_cpu_select_without_tiles(&level, error));
  return ommai_resize_bicubic_at(level, rule, src, sw, sh, dst, dw, dh, workspace, size, team, error);
}
