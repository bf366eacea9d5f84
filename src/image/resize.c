#include "image/resize.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/team.h"

/* Rows of a task, and bytes of a row that the vertical pass sums at once (small enough to stay in registers and L1). */
enum { ROWS_PER_TASK = 16, SUM_BYTES = 256 };
enum { MAX_PRECISION = 22, WEIGHT_LIMIT = 1 << 15 };
enum { MAX_SIDE = 1 << 24 };

/* Half the width of the cubic kernel at scale 1. */
static const double kernel_radius = 2.0;

/* One pass n -> m: output i is the weighted sum of inputs first[i] .. first[i] + count[i] - 1. */
struct pass {
  int32_t n, m;
  int32_t max_taps;
  int precision;    /* fraction bits of the weights */
  int32_t *first;   /* [m] */
  int32_t *count;   /* [m] */
  int32_t *weights; /* [m][max_taps], fixed point */
  double *exact;    /* [max_taps], one output's weights before rounding */
};

struct resize {
  struct pass horizontal, vertical;
  uint8_t *middle; /* [sh][dw][3], between the passes; NULL where only one pass is run */
};

static double cubic(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}

static double pass_scale(const struct pass *pass) { return (double)pass->n / pass->m; }
static double pass_stretch(const struct pass *pass) { return fmax(pass_scale(pass), 1.0); }

/* Places the tables of a pass; they stay NULL when the arena only measures. */
static void pass_place(struct pass *pass, int32_t n, int32_t m, struct ommai_arena *arena) {
  *pass = (struct pass){.n = n, .m = m};
  if (n == m) return;
  pass->max_taps = (int32_t)ceil(kernel_radius * pass_stretch(pass)) * 2 + 1;
  pass->first = ommai_arena_take(arena, (size_t)m, sizeof *pass->first);
  pass->count = ommai_arena_take(arena, (size_t)m, sizeof *pass->count);
  size_t n_weights;
  if (!ommai_mul_size((size_t)m, (size_t)pass->max_taps, &n_weights)) n_weights = SIZE_MAX;
  pass->weights = ommai_arena_take(arena, n_weights, sizeof *pass->weights);
  pass->exact = ommai_arena_take(arena, (size_t)pass->max_taps, sizeof *pass->exact);
}

/* Taps of output i, and their normalised weights in pass->exact. The order of operations is the official code's: other orders
 * give weights that round differently once in a while. */
static void exact_weights(struct pass *pass, int32_t i) {
  double scale = pass_scale(pass), stretch = pass_stretch(pass), inverse = 1.0 / stretch;
  double centre = scale * (i + 0.5), support = kernel_radius * stretch;
  int64_t first = ommai_max_i64((int64_t)(centre - support + 0.5), 0);
  int64_t last = ommai_min_i64((int64_t)(centre + support + 0.5), pass->n);
  int32_t count = (int32_t)ommai_min_i64(last - first, pass->max_taps);
  double sum = 0.0;
  for (int32_t j = 0; j < count; j++) {
    pass->exact[j] = cubic(((double)(j + first) - centre + 0.5) * inverse);
    sum += pass->exact[j];
  }
  for (int32_t j = 0; j < count && sum != 0.0; j++) pass->exact[j] /= sum;
  pass->first[i] = (int32_t)first;
  pass->count[i] = count;
}

static int int16_precision(double largest) {
  int p = 0;
  while (p < MAX_PRECISION && (int32_t)(0.5 + largest * (1 << (p + 1))) < WEIGHT_LIMIT) p++;
  return p;
}

static int find_precision(struct pass *pass, enum ommai_resize_rule rule) {
  if (rule == OMMAI_RESIZE_PRECISE22) return MAX_PRECISION;
  double largest = 0.0;
  for (int32_t i = 0; i < pass->m; i++) {
    exact_weights(pass, i);
    for (int32_t j = 0; j < pass->count[i]; j++) largest = fmax(largest, pass->exact[j]);
  }
  return int16_precision(largest);
}

static void pass_fill(struct pass *pass, enum ommai_resize_rule rule) {
  if (pass->n == pass->m) return;
  pass->precision = find_precision(pass, rule);
  double one = 1 << pass->precision;
  for (int32_t i = 0; i < pass->m; i++) {
    exact_weights(pass, i);
    int32_t *weights = pass->weights + (size_t)i * (size_t)pass->max_taps;
    for (int32_t j = 0; j < pass->count[i]; j++) {
      double scaled = pass->exact[j] * one;
      weights[j] = (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    }
  }
}

static void resize_place(struct resize *resize, int32_t sw, int32_t sh, int32_t dw, int32_t dh, struct ommai_arena *arena) {
  pass_place(&resize->horizontal, sw, dw, arena);
  pass_place(&resize->vertical, sh, dh, arena);
  resize->middle = NULL;
  if (sw != dw && sh != dh) resize->middle = ommai_arena_take(arena, (size_t)sh * 3, (size_t)dw);
}

static uint8_t clamp_byte(int32_t value) { return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value); }

struct pass_run {
  const struct pass *pass;
  const uint8_t *in;
  uint8_t *out;
  int64_t rows;      /* of the output */
  int64_t row_bytes; /* vertical: of either */
};

static void horizontal_row(const struct pass *pass, const uint8_t *in, uint8_t *out) {
  int32_t half = 1 << (pass->precision - 1);
  for (int32_t x = 0; x < pass->m; x++) {
    const uint8_t *pixel = in + (int64_t)pass->first[x] * 3;
    const int32_t *weights = pass->weights + (size_t)x * (size_t)pass->max_taps;
    int32_t red = half, green = half, blue = half;
    for (int32_t j = 0; j < pass->count[x]; j++) {
      red += weights[j] * pixel[3 * j];
      green += weights[j] * pixel[3 * j + 1];
      blue += weights[j] * pixel[3 * j + 2];
    }
    out[3 * (int64_t)x] = clamp_byte(red >> pass->precision);
    out[3 * (int64_t)x + 1] = clamp_byte(green >> pass->precision);
    out[3 * (int64_t)x + 2] = clamp_byte(blue >> pass->precision);
  }
}

static void horizontal_task(void *context, int64_t task, int worker) {
  (void)worker;
  const struct pass_run *run = context;
  int64_t last = ommai_min_i64((task + 1) * ROWS_PER_TASK, run->rows);
  for (int64_t y = task * ROWS_PER_TASK; y < last; y++) {
    horizontal_row(run->pass, run->in + y * run->pass->n * 3, run->out + y * run->pass->m * 3);
  }
}

/* out[i] for i < n, the weighted sum of n_taps bytes each `stride` apart. n is at most SUM_BYTES. */
static void vertical_sum(const uint8_t *in, int64_t stride, const int32_t *weights, int32_t n_taps, int precision, uint8_t *out,
                         int64_t n) {
  int32_t sums[SUM_BYTES];
  for (int64_t i = 0; i < n; i++) sums[i] = 1 << (precision - 1);
  for (int32_t j = 0; j < n_taps; j++) {
    const uint8_t *row = in + j * stride;
    int32_t weight = weights[j];
    for (int64_t i = 0; i < n; i++) sums[i] += weight * row[i];
  }
  for (int64_t i = 0; i < n; i++) out[i] = clamp_byte(sums[i] >> precision);
}

static void vertical_task(void *context, int64_t task, int worker) {
  (void)worker;
  const struct pass_run *run = context;
  const struct pass *pass = run->pass;
  int64_t last = ommai_min_i64((task + 1) * ROWS_PER_TASK, run->rows);
  for (int64_t y = task * ROWS_PER_TASK; y < last; y++) {
    const uint8_t *in = run->in + pass->first[y] * run->row_bytes;
    const int32_t *weights = pass->weights + (size_t)y * (size_t)pass->max_taps;
    for (int64_t x = 0; x < run->row_bytes; x += SUM_BYTES) {
      int64_t n = ommai_min_i64(SUM_BYTES, run->row_bytes - x);
      vertical_sum(in + x, run->row_bytes, weights, pass->count[y], pass->precision, run->out + y * run->row_bytes + x, n);
    }
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
  (void)rule;
  OMMAI_TRY(check_sizes(sw, sh, dw, dh, error));
  struct ommai_arena arena;
  struct resize resize;
  ommai_arena_measure(&arena);
  resize_place(&resize, sw, sh, dw, dh, &arena);
  if (arena.failed) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "resize: %d x %d to %d x %d pixels is too large", sw, sh, dw, dh);
  }
  *size = arena.peak;
  return OMMA_OK;
}

static void run_passes(const struct resize *resize, const uint8_t *src, uint8_t *dst, const struct omma_team *team) {
  const struct pass *across = &resize->horizontal, *down = &resize->vertical;
  const uint8_t *in = src;
  if (across->n != across->m) {
    struct pass_run run = {across, src, resize->middle ? resize->middle : dst, down->n, 0};
    ommai_team_run(team, ommai_div_up(run.rows, ROWS_PER_TASK), horizontal_task, &run);
    in = run.out;
  }
  if (down->n != down->m) {
    struct pass_run run = {down, in, dst, down->m, (int64_t)across->m * 3};
    ommai_team_run(team, ommai_div_up(run.rows, ROWS_PER_TASK), vertical_task, &run);
  } else if (in == src) {
    memcpy(dst, src, (size_t)across->m * 3 * (size_t)down->m);
  }
}

enum omma_status ommai_resize_bicubic(enum ommai_resize_rule rule, const uint8_t *src, int32_t sw, int32_t sh, uint8_t *dst,
                                      int32_t dw, int32_t dh, void *workspace, size_t size, const struct omma_team *team,
                                      struct omma_error *error) {
  OMMAI_TRY(check_sizes(sw, sh, dw, dh, error));
  struct ommai_arena arena;
  struct resize resize;
  ommai_arena_init(&arena, workspace, size);
  resize_place(&resize, sw, sh, dw, dh, &arena);
  if (arena.failed) {
    return ommai_fail(error, OMMA_ERROR_MEMORY, "resize: a workspace of %zu bytes is too small for %d x %d to %d x %d pixels",
                      size, sw, sh, dw, dh);
  }
  pass_fill(&resize.horizontal, rule);
  pass_fill(&resize.vertical, rule);
  run_passes(&resize, src, dst, team);
  return OMMA_OK;
}
