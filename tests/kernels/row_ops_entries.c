/* The row operations: against double precision, and at every level the bits of the scalar code. */
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "kernels/kernel_entry.h"
#include "kernels/row_ops.h"

enum { MAX_D = 5000, BENCH_D = 1152 };

/* The operations in the order of the list. */
enum operation {
#define OPERATION(name, parameters) OPERATION_##name,
  OMMAI_ROW_OPS(OPERATION)
#undef OPERATION
      OPERATIONS
};
static const char *const names[OPERATIONS] = {
#define NAME(name, parameters) "row_" #name,
    OMMAI_ROW_OPS(NAME)
#undef NAME
};

enum { X, OTHER, WEIGHT, BIAS, COSINE, SINE, INPUTS };

struct inputs {
  int64_t d;
  enum omma_dtype type; /* of out */
  struct guarded rows[INPUTS];
};

static const float *row_of(const struct inputs *inputs, int which) { return (const float *)(void *)inputs->rows[which].data; }

/* Rows of d floats at a page without access; cosine and sine of d / 2 angles. */
static struct inputs make_inputs(struct test_random *random, int64_t d, enum omma_dtype type) {
  struct inputs inputs = {.d = d, .type = type};
  float *rows[INPUTS];
  for (int i = 0; i < INPUTS; i++) {
    inputs.rows[i] = kernel_memory((size_t)(i >= COSINE ? d / 2 : d) * sizeof(float));
    rows[i] = (float *)(void *)inputs.rows[i].data;
  }
  float spread = test_random_range(random, 0, 7) ? 3.0f : 60.0f;
  for (int64_t i = 0; i < d; i++) {
    rows[X][i] = test_random_normal(random) * spread;
    for (int which = OTHER; which <= BIAS; which++) rows[which][i] = test_random_normal(random);
  }
  for (int64_t i = 0; i < d / 2; i++) {
    double angle = 9.0 * test_random_normal(random);
    rows[COSINE][i] = (float)cos(angle);
    rows[SINE][i] = (float)sin(angle);
  }
  return inputs;
}

static float highest(const struct inputs *inputs) {
  float highest = row_of(inputs, X)[0];
  for (int64_t i = 1; i < inputs->d; i++) highest = fmaxf(highest, row_of(inputs, X)[i]);
  return highest;
}

static void free_inputs(struct inputs *inputs) {
  for (int i = 0; i < INPUTS; i++) guarded_free(&inputs->rows[i]);
}

/* The operations from add on change their output. */
static bool in_place(int operation) { return operation >= OPERATION_add; }

static bool is_wide(int operation, enum omma_dtype type) {
  return type == OMMA_F32 || in_place(operation) || operation == OPERATION_convolve;
}

/* Any bits as weights: large sums are part of what is timed and compared. */
static const uint32_t *weights_of(const float *row) { return (const uint32_t *)(const void *)row; }

static void run(const struct ommai_row_ops *ops, int operation, const struct inputs *inputs, void *out) {
  static const float weights[5] = {0.5f, -0.25f, 0.125f, 0.7f, -0.9f};
  const float *x = row_of(inputs, X), *other = row_of(inputs, OTHER), *weight = row_of(inputs, WEIGHT);
  const float *const rows[5] = {x, other, weight, row_of(inputs, BIAS), x};
  switch ((enum operation)operation) {
    case OPERATION_layer_norm: ops->layer_norm(x, weight, row_of(inputs, BIAS), 1e-6f, inputs->d, out, inputs->type); break;
    case OPERATION_rms_norm: ops->rms_norm(x, weight, 1e-6f, inputs->d, out, inputs->type); break;
    case OPERATION_rope_half:
      ops->rope_half(x, row_of(inputs, COSINE), row_of(inputs, SINE), 1, inputs->d, out, inputs->d, inputs->type);
      break;
    case OPERATION_rope_pairs:
      ops->rope_pairs(x, row_of(inputs, COSINE), row_of(inputs, SINE), 1, inputs->d, out, inputs->d, inputs->type);
      break;
    case OPERATION_silu_mul: ops->silu_mul(x, other, inputs->d, out, inputs->type); break;
    case OPERATION_sigmoid_mul: ops->sigmoid_mul(x, other, inputs->d, out, inputs->type); break;
    case OPERATION_convolve: ops->convolve(rows, rows + 1, 3, inputs->d, out); break;
    case OPERATION_convert: ops->convert(x, inputs->d, out, inputs->type); break;
    case OPERATION_exp_scaled: ops->exp_scaled(x, highest(inputs), 0.5f, inputs->d, out, inputs->type); break;
    case OPERATION_add: ops->add(out, x, inputs->d); break;
    case OPERATION_add_weighted: ops->add_weighted(out, rows, weights, 5, inputs->d); break;
    case OPERATION_gelu_tanh: ops->gelu_tanh(out, inputs->d); break;
    case OPERATION_gelu_erf: ops->gelu_erf(out, inputs->d); break;
    case OPERATION_silu: ops->silu(out, inputs->d); break;
    case OPERATION_quick_gelu: ops->quick_gelu(out, inputs->d); break;
    case OPERATION_quantise: ops->quantise(x, OMMA_F32, inputs->d, out, &(struct ommai_int8_row){0}); break;
    case OPERATION_find_range: ops->find_range(x, inputs->d, &(struct ommai_row_range){0}); break;
    case OPERATION_weigh: ops->weigh(x, highest(inputs), 0.5f, inputs->d, out); break;
    case OPERATION_add_shares:
      ops->add_shares(x, weights_of(other), inputs->d, weight, OMMAI_ROW_MAX_THRESHOLDS,
                      (struct ommai_row_share[OMMAI_ROW_MAX_THRESHOLDS]){{0}});
      break;
    case OPERATION_list_between: ops->list_between(x, 1.0f, 1.1f, inputs->d, 0, out, &(int64_t){0}); break;
    case OPERATION_quantise_symmetric: ops->quantise_symmetric(x, OMMA_F32, inputs->d, out, &(float){0}); break;
    case OPERATION_group_sums: ops->group_sums((const int8_t *)(const void *)x, inputs->d, 64, out); break;
    case OPERATION_fit_int4: ops->fit_int4(x, inputs->d, out, &(float){0}); break;
    default: break; /* of panels: row_panel_entries.c */
  }
}

/* The output between its pages; operations in place begin with OTHER. */
static struct guarded run_guarded(const struct ommai_row_ops *ops, int operation, const struct inputs *inputs) {
  size_t size = is_wide(operation, inputs->type) ? sizeof(float) : sizeof(ommai_bf16);
  struct guarded out = kernel_memory((size_t)inputs->d * size);
  if (in_place(operation)) memcpy(out.data, row_of(inputs, OTHER), out.size);
  run(ops, operation, inputs, out.data);
  guarded_check(&out, "out");
  return out;
}

/* What the whole row gives. */
struct row_facts {
  double mean, variance, square, highest;
};

static double expected_at(const struct inputs *inputs, int operation, int64_t i, const struct row_facts *facts) {
  int64_t half = inputs->d / 2, pair = i < half ? i + half : i - half;
  double x = row_of(inputs, X)[i], y = row_of(inputs, OTHER)[i], w = row_of(inputs, WEIGHT)[i], b = row_of(inputs, BIAS)[i];
  switch (operation) {
    case OPERATION_layer_norm: return (x - facts->mean) / sqrt(facts->variance + 1e-6) * w + b;
    case OPERATION_rms_norm: return x / sqrt(facts->square + 1e-6) * w;
    case OPERATION_rope_half:
      return x * row_of(inputs, COSINE)[i % half] +
             (i < half ? -1.0 : 1.0) * row_of(inputs, X)[pair] * row_of(inputs, SINE)[i % half];
    case OPERATION_rope_pairs:
      return x * row_of(inputs, COSINE)[i / 2] + (i % 2 ? 1.0 : -1.0) * row_of(inputs, X)[i ^ 1] * row_of(inputs, SINE)[i / 2];
    case OPERATION_silu_mul: return x / (1 + exp(-x)) * y;
    case OPERATION_sigmoid_mul: return y / (1 + exp(-x));
    case OPERATION_convolve: return x * y + y * w + w * b;
    case OPERATION_convert: return x;
    case OPERATION_exp_scaled: return exp((x - facts->highest) * 0.5);
    case OPERATION_add: return x + y;
    case OPERATION_gelu_tanh: return y / (1 + exp(-1.5957691216057308 * (y + 0.044715 * y * y * y)));
    case OPERATION_gelu_erf: return 0.5 * y * erfc(-y * 0.7071067811865476);
    case OPERATION_silu: return y / (1 + exp(-y));
    case OPERATION_quick_gelu: return y / (1 + exp(-1.702 * y));
    default: return y + 0.5 * x - 0.25 * y + 0.125 * w + (double)0.7f * b - (double)0.9f * x;
  }
}

/* Relative error (L2) of an output, over what is allowed. */
static double error_of(const struct inputs *inputs, int operation, const struct guarded *out) {
  double difference = 0, norm = 0, whole = 0, d = (double)inputs->d;
  struct row_facts facts = {.highest = highest(inputs)};
  const float *x = row_of(inputs, X);
  bool wide = out->size == (size_t)inputs->d * sizeof(float);
  for (int64_t i = 0; i < inputs->d; i++) {
    facts.mean += x[i] / d;
    facts.square += (double)x[i] * x[i] / d;
  }
  for (int64_t i = 0; i < inputs->d; i++) facts.variance += (x[i] - facts.mean) * (x[i] - facts.mean) / d;
  for (int64_t i = 0; i < inputs->d; i++) {
    double expected = expected_at(inputs, operation, i, &facts);
    double found = wide ? ((const float *)(void *)out->data)[i] : ommai_bf16_to_f32(((const ommai_bf16 *)(void *)out->data)[i]);
    difference += (found - expected) * (found - expected);
    norm += expected * expected;
    for (int which = X; which <= BIAS; which++) whole += (double)row_of(inputs, which)[i] * row_of(inputs, which)[i];
  }
  /* Of few numbers nearly everything may cancel: then against the inputs, and for a mean that is
   * taken off against what is left. */
  if (inputs->d < 64)
    norm += whole * (operation == OPERATION_layer_norm ? 1 + facts.mean * facts.mean / (facts.variance + 1e-6) : 1);
  return sqrt(difference) / ((wide ? 5e-7 : 3e-3) * sqrt(norm) + 1e-30);
}

static double check_row_op(const struct kernel_entry *entry, uint64_t seed) {
  struct test_random random = {seed};
  int64_t d = kernel_size(&random, 1, MAX_D, 16);
  if (entry->index == OPERATION_rope_half || entry->index == OPERATION_rope_pairs) d += d % 2;
  struct inputs inputs = make_inputs(&random, d, test_random_range(&random, 0, 1) ? OMMA_F32 : OMMA_BF16);
  struct guarded out = run_guarded(entry->kernel, entry->index, &inputs);
  struct guarded scalar = run_guarded(&ommai_row_ops_scalar, entry->index, &inputs);
  double error = error_of(&inputs, entry->index, &out);
  if (!(error <= 1.0)) kernel_fail(entry, seed, "d %d: %.3g of the bound", (int)d, error);
  if (memcmp(out.data, scalar.data, out.size) != 0) kernel_fail(entry, seed, "d %d: differs from the scalar code", (int)d);
  guarded_free(&out);
  guarded_free(&scalar);
  free_inputs(&inputs);
  return error;
}

/* x (f32, or bf16 at `narrow`) to 8 bits with a zero point: at most half a step off, the last step
 * of the range a whole one, 0 exact. */
static double check_quantise(const struct kernel_entry *entry, uint64_t seed) {
  struct test_random random = {seed};
  struct inputs made = make_inputs(&random, kernel_size(&random, 1, MAX_D, 16),
                                   test_random_range(&random, 0, 1) ? OMMA_F32 : OMMA_BF16),
                *inputs = &made;
  size_t d = (size_t)inputs->d;
  const struct ommai_row_ops *const ops[2] = {entry->kernel, &ommai_row_ops_scalar};
  struct guarded narrow = kernel_memory(d * sizeof(ommai_bf16)), out[2];
  ommai_bf16 *halves = (ommai_bf16 *)(void *)narrow.data;
  struct ommai_int8_row rows[2];
  ommai_row_ops_scalar.convert(row_of(inputs, X), inputs->d, halves, OMMA_BF16);
  for (int i = 0; i < 2; i++) {
    out[i] = kernel_memory(d);
    const void *x = inputs->type == OMMA_F32 ? (const void *)row_of(inputs, X) : halves;
    ops[i]->quantise(x, inputs->type, inputs->d, (int8_t *)out[i].data, &rows[i]);
    guarded_check(&out[i], "out");
  }
  if (memcmp(out[0].data, out[1].data, d) != 0 || memcmp(&rows[0], &rows[1], sizeof *rows) != 0) {
    kernel_fail(entry, seed, "d %d: differs from the scalar code", (int)d);
  }
  for (size_t i = 0; i < d; i++) {
    int whole = ((const int8_t *)out[0].data)[i];
    float x = inputs->type == OMMA_F32 ? row_of(inputs, X)[i] : ommai_bf16_to_f32(halves[i]);
    float off = fabsf((float)(whole - rows[0].zero) * rows[0].scale - x) / rows[0].scale;
    if (!(off <= (whole == OMMAI_INT8_MAX ? 1.001f : 0.501f)) || (x == 0.0f && whole != rows[0].zero)) {
      kernel_fail(entry, seed, "d %d: value %d is %g steps off", (int)d, (int)i, (double)off);
    }
  }
  for (int i = 0; i < 2; i++) guarded_free(&out[i]);
  guarded_free(&narrow);
  free_inputs(inputs);
  return 0;
}

/* What an operation on rows of symmetric integers makes of x. */
static void run_symmetric(const struct ommai_row_ops *ops, const struct kernel_entry *entry, const struct inputs *inputs,
                          const void *x, struct guarded *out, float *scale) {
  *out = kernel_memory((size_t)inputs->d * sizeof(float));
  *scale = 0.0f;
  switch (entry->index) {
    case OPERATION_quantise_symmetric: ops->quantise_symmetric(x, inputs->type, inputs->d, (int8_t *)out->data, scale); break;
    case OPERATION_group_sums: ops->group_sums(x, inputs->d, 16, (int32_t *)(void *)out->data); break;
    default: ops->fit_int4(row_of(inputs, X), inputs->d, (int8_t *)out->data, scale); break;
  }
  guarded_check(out, "out");
}

/* Of x's integers from `first` on, 16 at most. */
static int32_t sum_of_group(const int8_t *x, int64_t first, int64_t d) {
  int32_t sum = 0;
  for (int64_t i = first; i < d && i < first + 16; i++) sum += x[i];
  return sum;
}

/* The squared error of x in whole multiples of a scale. */
static double squared_error(const float *x, int64_t d, const int8_t *q, int zero, double scale) {
  double error = 0;
  for (int64_t i = 0; i < d; i++) error += pow(scale * (q[i] - zero) - (double)x[i], 2);
  return error;
}

/* Integers from 0 to 15, no worse than the grid of max|x| / 7 by more than f32 can tell. The
 * kernel compares grids by sum(x q)^2 / sum(q q) in f32: no term is negative, so a sum of d / 16
 * numbers per lane is off by at most a share of itself, which is at most sum(x x). Nothing
 * smaller can be asked: of a row of one number the grid of max|x| / 7 is exact, and its f32
 * scale is not. */
static void check_int4(const struct kernel_entry *entry, uint64_t seed, const float *x, int64_t d, const int8_t *q,
                       double scale) {
  double max_abs = 0, plain = 0, norm = 0;
  for (int64_t i = 0; i < d; i++) {
    if (q[i] < 0 || q[i] > 15) kernel_fail(entry, seed, "d %d: value %d", (int)d, (int)i);
    max_abs = fmax(max_abs, fabs((double)x[i]));
    norm += (double)x[i] * x[i];
  }
  for (int64_t i = 0; i < d; i++) plain += pow(rint(x[i] / max_abs * 7) * max_abs / 7 - (double)x[i], 2);
  double allowed = plain + norm * (12 + (double)d / 8) * 0x1p-23, error = squared_error(x, d, q, 8, scale);
  if (!(error <= allowed)) kernel_fail(entry, seed, "d %d: squared error %g, expected up to %g", (int)d, error, allowed);
}

/* The bits of the scalar code; int8 at most half a step off; int4 as check_int4 says. */
static double check_symmetric(const struct kernel_entry *entry, uint64_t seed) {
  struct test_random random = {seed};
  int64_t d = kernel_size(&random, 1, 256, 16);
  struct inputs inputs = make_inputs(&random, d, OMMA_F32);
  const float *x = row_of(&inputs, X);
  struct guarded out[2];
  float scale[2];
  run_symmetric(entry->kernel, entry, &inputs, x, &out[0], &scale[0]);
  run_symmetric(&ommai_row_ops_scalar, entry, &inputs, x, &out[1], &scale[1]);
  if (memcmp(out[0].data, out[1].data, out[0].size) != 0 || scale[0] != scale[1]) {
    kernel_fail(entry, seed, "d %d: differs from the scalar code", (int)d);
  }
  const int8_t *q = (const int8_t *)out[0].data;
  for (int64_t i = 0; i < d; i++) {
    const int32_t *sums = (const int32_t *)(const void *)out[0].data;
    bool right = true;
    if (entry->index == OPERATION_quantise_symmetric)
      right = fabs(q[i] * (double)scale[0] - (double)x[i]) <= 0.501 * (double)scale[0];
    if (entry->index == OPERATION_group_sums && i % 16 == 0) {
      right = sums[i / 16] == sum_of_group((const int8_t *)(const void *)x, i, d);
    }
    if (!right) kernel_fail(entry, seed, "d %d: value %d", (int)d, (int)i);
  }
  if (entry->index == OPERATION_fit_int4) check_int4(entry, seed, x, d, q, (double)scale[0]);
  for (int i = 0; i < 2; i++) guarded_free(&out[i]);
  free_inputs(&inputs);
  return 0;
}

/* ---- draws ---- */

static void check_range(const struct kernel_entry *entry, uint64_t seed, const struct inputs *inputs) {
  const struct ommai_row_ops *ops = entry->kernel;
  const float *x = row_of(inputs, X);
  float *changed = (float *)(void *)inputs->rows[X].data, low = x[0], kept = x[inputs->d / 2];
  const float wrong[3] = {NAN, INFINITY, -INFINITY};
  struct ommai_row_range range;
  for (int64_t i = 1; i < inputs->d; i++) low = fminf(low, x[i]);
  ops->find_range(x, inputs->d, &range);
  if (!range.finite || range.low != low || range.high != highest(inputs)) kernel_fail(entry, seed, "d %d", (int)inputs->d);
  for (int i = 0; i < 3; i++) {
    changed[inputs->d / 2] = wrong[i];
    ops->find_range(x, inputs->d, &range);
    if (range.finite) kernel_fail(entry, seed, "d %d: %g counts as finite", (int)inputs->d, (double)wrong[i]);
  }
  changed[inputs->d / 2] = -INFINITY;
  ops->find_range(x, inputs->d, &range);
  changed[inputs->d / 2] = kept;
  if (range.low != -INFINITY) kernel_fail(entry, seed, "d %d: infinity does not count", (int)inputs->d);
}

/* Weights within what exp_scaled is off by, and half a unit; the same bits as the scalar code's. */
static double check_weights(const struct kernel_entry *entry, uint64_t seed, const struct inputs *inputs, uint32_t *weights) {
  const struct ommai_row_ops *ops = entry->kernel;
  const float *x = row_of(inputs, X);
  struct guarded scalar = kernel_memory((size_t)inputs->d * sizeof(uint32_t));
  const uint32_t *expected = (const uint32_t *)(void *)scalar.data;
  float shift = highest(inputs);
  double worst = 0;
  ops->weigh(x, shift, 0.5f, inputs->d, weights);
  ommai_row_ops_scalar.weigh(x, shift, 0.5f, inputs->d, (uint32_t *)(void *)scalar.data);
  for (int64_t i = 0; i < inputs->d; i++) {
    double exact = OMMAI_ROW_WEIGHT_ONE * exp(((double)x[i] - shift) * 0.5);
    double error = fabs(weights[i] - exact) / (0.51 + exact * (2e-7 + 1e-7 * fabs((double)x[i] - shift)));
    if (weights[i] != expected[i]) kernel_fail(entry, seed, "d %d: differs from the scalar code", (int)inputs->d);
    if (!(error <= 1.0)) kernel_fail(entry, seed, "d %d, element %d: %.3g of the bound", (int)inputs->d, (int)i, error);
    if (error > worst) worst = error;
  }
  guarded_free(&scalar);
  return worst;
}

static void check_shares(const struct kernel_entry *entry, uint64_t seed, const struct inputs *inputs, uint32_t *weights) {
  const struct ommai_row_ops *ops = entry->kernel;
  const float *x = row_of(inputs, X), *other = row_of(inputs, OTHER);
  float thresholds[OMMAI_ROW_MAX_THRESHOLDS];
  int n = 1 + (int)(seed % OMMAI_ROW_MAX_THRESHOLDS);
  struct ommai_row_share shares[OMMAI_ROW_MAX_THRESHOLDS], expected[OMMAI_ROW_MAX_THRESHOLDS];
  for (int64_t i = 0; i < inputs->d && seed % 3 == 0; i++) weights[i] = OMMAI_ROW_WEIGHT_ONE;
  for (int t = 0; t < n; t++) {
    shares[t] = expected[t] = (struct ommai_row_share){1000, 10};
    thresholds[t] = t == 0 ? -INFINITY : t == 1 ? x[inputs->d / 2] : other[t % inputs->d];
    for (int64_t i = 0; i < inputs->d; i++) {
      expected[t].weight += x[i] >= thresholds[t] ? weights[i] : 0;
      expected[t].count += x[i] >= thresholds[t];
    }
  }
  ops->add_shares(x, weights, inputs->d, thresholds, n, shares);
  for (int t = 0; t < n; t++) {
    if (shares[t].weight != expected[t].weight || shares[t].count != expected[t].count) {
      kernel_fail(entry, seed, "d %d, threshold %g", (int)inputs->d, (double)thresholds[t]);
    }
  }
}

static void check_list(const struct kernel_entry *entry, uint64_t seed, const struct inputs *inputs) {
  const struct ommai_row_ops *ops = entry->kernel;
  const float *x = row_of(inputs, X);
  float width = seed % 2 ? 0.05f : 1.0f, low = seed % 5 ? x[inputs->d / 2] : 1e30f, high = low + width;
  struct guarded out = kernel_memory((size_t)inputs->d * sizeof(int32_t));
  const int32_t *found = (const int32_t *)(void *)out.data;
  int64_t n = -1, at = 0;
  ops->list_between(x, low, high, inputs->d, 7000, (int32_t *)(void *)out.data, &n);
  guarded_check(&out, "out");
  for (int64_t i = 0; i < inputs->d; i++) {
    if (!(x[i] >= low && x[i] < high)) continue;
    if (at >= n || found[at++] != 7000 + (int32_t)i) kernel_fail(entry, seed, "d %d: element %d", (int)inputs->d, (int)i);
  }
  if (at != n) kernel_fail(entry, seed, "d %d: %d elements", (int)inputs->d, (int)n);
  guarded_free(&out);
}

/* The four operations of draws, whichever the entry names. */
static double check_draws(const struct kernel_entry *entry, uint64_t seed) {
  struct test_random random = {seed};
  int64_t d = kernel_size(&random, 1, MAX_D, 16);
  struct inputs inputs = make_inputs(&random, d, OMMA_F32);
  struct guarded weights = kernel_memory((size_t)d * sizeof(uint32_t));
  check_range(entry, seed, &inputs);
  double worst = check_weights(entry, seed, &inputs, (uint32_t *)(void *)weights.data);
  guarded_check(&weights, "weights");
  check_shares(entry, seed, &inputs, (uint32_t *)(void *)weights.data);
  check_list(entry, seed, &inputs);
  guarded_free(&weights);
  free_inputs(&inputs);
  return worst;
}

static double check_silu(const struct kernel_entry *entry, uint64_t seed) {
  static const float gate[6] = {-1e30f, -100.0f, -88.0f, 0.0f, 88.0f, 1e30f}, up[6] = {1, 1, 1, 1, 1, 1};
  const struct ommai_row_ops *ops = entry->kernel;
  float out[6];
  ops->silu_mul(gate, up, 6, out, OMMA_F32);
  for (int i = 0; i < 6; i++) {
    if (!isfinite(out[i])) kernel_fail(entry, seed, "silu(%g) is %g", (double)gate[i], (double)out[i]);
  }
  assert_true(fabsf(out[1]) < 1e-30f && fabsf(out[2]) < 1e-30f && out[3] == 0.0f && out[4] == 88.0f);
  return check_row_op(entry, seed);
}

struct bench {
  const struct kernel_entry *entry;
  struct inputs inputs;
  float out[BENCH_D];
};

static void bench_run(void *context) {
  struct bench *bench = context;
  run(bench->entry->kernel, bench->entry->index, &bench->inputs, bench->out);
}

static void release_bench(void *context) {
  struct bench *bench = context;
  free_inputs(&bench->inputs);
  free(bench);
}

static struct kernel_call row_call(const struct kernel_entry *entry) {
  struct test_random random = {1};
  struct bench *bench = calloc(1, sizeof *bench);
  bench->entry = entry;
  bench->inputs = make_inputs(&random, BENCH_D, OMMA_BF16);
  struct kernel_call call = {.run = bench_run, .release = release_bench, .context = bench};
  snprintf(call.shape, sizeof call.shape, "d %d", BENCH_D);
  return call;
}

void kernel_list_row_ops(struct kernel_list *list) {
  static const struct kernel_family family = {check_row_op, row_call}, silu = {check_silu, row_call},
                                    quantise = {check_quantise, row_call}, symmetric = {check_symmetric, row_call},
                                    draws = {check_draws, row_call};
  const struct ommai_row_ops *before = NULL;
  for (int level = 0; level < OMMAI_CPU_LEVELS; level++) {
    const struct ommai_row_ops *ops = ommai_row_ops(level);
    if (ops == before || (int)ops->level != level) continue;
    for (int i = 0; i < OPERATIONS; i++) {
      if (i >= OPERATION_scale_panel && i <= OPERATION_convert_panel) continue;
      bool is_draws = i >= OPERATION_find_range, is_symmetric = !is_draws && i >= OPERATION_quantise_symmetric;
      kernel_list_add(list,
                      is_draws                  ? &draws
                      : is_symmetric            ? &symmetric
                      : i == OPERATION_quantise ? &quantise
                      : i == OPERATION_silu_mul ? &silu
                                                : &family,
                      names[i], ops->level, ops, i);
    }
    before = ops;
  }
}
