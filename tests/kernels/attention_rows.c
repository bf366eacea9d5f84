#include "kernels/attention_rows.h"

#include <math.h>

#include "kernels/attention_element.h"
#include "kernels/attention_int8.h"
#include "support/attention_bound.h"

enum { NORMAL, EQUAL, HUGE_VALUES, DENORMAL, ALTERNATING, KINDS };

/* A value of the kind, not rounded yet. `loud`: of q or k. */
static float value_of(struct test_random *random, const struct attention_problem *problem, bool loud, int64_t place) {
  bool f16 = problem->types.q == OMMA_F16;
  switch (problem->values) {
    case EQUAL: return loud ? 0.5f : 0.75f;
    case HUGE_VALUES: return test_random_normal(random) * (!loud ? 1000.0f : f16 ? 200.0f : 3000.0f);
    case DENORMAL: return test_random_normal(random) * (f16 ? 0x1p-20f : 0x1p-128f);
    case ALTERNATING: return place % 2 ? -3.0f : 3.0f;
    default: return test_random_normal(random);
  }
}

/* A row of values to integers and their scale. */
static void store_int8(struct attention_rows *rows, int64_t row, const float *values) {
  float largest = 0.0f;
  for (int64_t d = 0; d < rows->dim; d++) largest = fmaxf(largest, fabsf(values[d]));
  float scale = largest / 127.0f;
  int8_t *out = (int8_t *)attention_row(rows, row);
  for (int64_t d = 0; d < rows->dim; d++) out[d] = (int8_t)fmaxf(-127.0f, fminf(127.0f, rintf(values[d] / scale)));
  ((float *)(void *)rows->scales.data)[row] = scale;
}

static struct attention_rows make_rows(struct test_random *random, const struct attention_problem *problem,
                                       enum omma_dtype type, int64_t n, int64_t dim, int64_t stride, bool loud) {
  size_t size = ommai_attention_element_size(type);
  struct attention_rows rows = {.type = type, .n = n, .dim = dim, .stride = stride};
  rows.memory = kernel_memory((size_t)((n - 1) * stride + dim) * size);
  if (type == OMMA_INT8) rows.scales = kernel_memory((size_t)n * sizeof(float));
  for (int64_t i = 0; i < n; i++) {
    float values[OMMA_ATTENTION_MAX_DECODE_HEAD_DIM];
    for (int64_t d = 0; d < dim; d++) {
      values[d] = value_of(random, problem, loud, i + d);
      if (type != OMMA_INT8) ommai_attention_store(rows.memory.data, i * stride + d, type, values[d]);
    }
    if (type == OMMA_INT8) store_int8(&rows, i, values);
  }
  return rows;
}

static void make_all(struct test_random *random, struct attention_problem *problem, const int64_t strides[4]) {
  problem->q = make_rows(random, problem, problem->types.q, problem->n_rows, problem->head_dim, strides[0], true);
  problem->k = make_rows(random, problem, problem->types.kv, problem->n_keys, problem->head_dim, strides[1], true);
  problem->v = make_rows(random, problem, problem->types.kv, problem->n_keys, problem->v_head_dim, strides[2], false);
  problem->out = make_rows(random, problem, problem->types.q, problem->n_rows, problem->v_head_dim, strides[3], false);
}

struct attention_problem attention_problem_random(struct test_random *random, struct ommai_attention_types types,
                                                  const struct attention_limits *limits) {
  static const int32_t usual[] = {64, 72, 80, 88, 96, 104, 112, 128};
  struct attention_problem problem = {.types = types};
  problem.n_rows = (int32_t)kernel_size(random, 1, limits->rows, limits->row_step);
  problem.n_keys = (int32_t)kernel_size(random, 1, limits->keys, OMMAI_ATTENTION_BLOCK);
  problem.head_dim = (int32_t)kernel_size(random, 1, limits->dim, 32);
  problem.v_head_dim = (int32_t)kernel_size(random, 1, limits->dim, 32);
  if (!kernel_is_sweeping() && test_random_range(random, 0, 1)) {
    problem.head_dim = problem.v_head_dim = usual[test_random_range(random, 0, sizeof usual / sizeof *usual - 1)];
  }
  problem.first_visible = problem.n_keys;
  if (limits->masked && problem.n_rows <= problem.n_keys && test_random_range(random, 0, 1)) {
    problem.first_visible = problem.n_keys - problem.n_rows + 1;
  }
  problem.window_keys = problem.n_keys;
  if (limits->sliding && test_random_range(random, 0, 1)) {
    problem.window_keys = test_random_range(random, 1, test_random_range(random, 1, problem.n_keys));
  }
  problem.values = test_random_range(random, 0, 1) ? NORMAL : (int)test_random_range(random, NORMAL, KINDS - 1);
  problem.scale = (test_random_range(random, 0, 5) ? 1.0f : -1.5f) / sqrtf((float)problem.head_dim);
  int64_t strides[4] = {problem.head_dim, problem.head_dim, problem.v_head_dim, problem.v_head_dim};
  for (int i = 0; i < 4; i++) strides[i] += test_random_range(random, 0, 1) ? test_random_range(random, 0, 9) : 0;
  make_all(random, &problem, strides);
  return problem;
}

struct attention_problem attention_problem_fixed(struct ommai_attention_types types, int32_t n_rows, int32_t n_keys,
                                                 int32_t head_dim) {
  struct test_random random = {1};
  struct attention_problem problem = {.types = types,
                                      .n_rows = n_rows,
                                      .n_keys = n_keys,
                                      .head_dim = head_dim,
                                      .v_head_dim = head_dim,
                                      .first_visible = n_keys,
                                      .window_keys = n_keys,
                                      .scale = 1.0f / sqrtf((float)head_dim)};
  int64_t fused = 3 * 16 * head_dim;
  make_all(&random, &problem, (const int64_t[4]){fused, fused, fused, (int64_t)16 * head_dim});
  return problem;
}

void attention_problem_free(struct attention_problem *problem) {
  guarded_free(&problem->q.memory);
  guarded_free(&problem->k.memory);
  guarded_free(&problem->v.memory);
  guarded_free(&problem->out.memory);
  if (problem->types.kv != OMMA_INT8) return;
  guarded_free(&problem->k.scales);
  guarded_free(&problem->v.scales);
}

const float *attention_row_scales(const struct attention_rows *rows, int64_t index) {
  return rows->type == OMMA_INT8 ? (const float *)(const void *)rows->scales.data + index : NULL;
}

unsigned char *attention_row(const struct attention_rows *rows, int64_t index) {
  return rows->memory.data + (size_t)(index * rows->stride) * ommai_attention_element_size(rows->type);
}

/* A row as the kernels see it. */
static void row_elements(const struct attention_rows *rows, int64_t row, double *out) {
  for (int64_t d = 0; d < rows->dim; d++) {
    out[d] = ommai_attention_load(rows->memory.data, row * rows->stride + d, rows->type);
  }
  if (rows->type != OMMA_INT8) return;
  float scale = *attention_row_scales(rows, row);
  for (int64_t d = 0; d < rows->dim; d++) {
    out[d] = rows->in_bf16 ? (double)ommai_bf16_to_f32(ommai_bf16_from_f32((float)out[d] * scale)) : out[d] * (double)scale;
  }
}

/* The softmax weights of a row, the key of the largest, and how far errors of f32 scores may
 * move. */
static int64_t row_weights(const struct attention_problem *problem, int64_t row, int64_t begin, int64_t end, double *weights,
                           double *max_terms) {
  double sum = 0.0, q[OMMA_ATTENTION_MAX_DECODE_HEAD_DIM], k[OMMA_ATTENTION_MAX_DECODE_HEAD_DIM];
  int64_t first = begin;
  *max_terms = 0.0;
  row_elements(&problem->q, row, q);
  for (int64_t key = begin; key < end; key++) {
    double dot = 0.0, terms = 0.0;
    row_elements(&problem->k, key, k);
    for (int64_t d = 0; d < problem->head_dim; d++) {
      double product = q[d] * k[d];
      dot += product;
      terms += fabs(product);
    }
    weights[key] = dot * problem->scale;
    if (weights[key] > weights[first]) first = key;
    *max_terms = fmax(*max_terms, terms * fabs(problem->scale));
  }
  double largest = weights[first];
  for (int64_t key = begin; key < end; key++) sum += weights[key] = exp(weights[key] - largest);
  for (int64_t key = begin; key < end; key++) weights[key] /= sum;
  return first;
}

/* How far half a unit of every weight of a row may move its result. */
static double rounding_of_weights(const struct attention_problem *problem, int64_t begin, int64_t end, const double *weights,
                                  const struct attention_whole_weights *whole) {
  double moved = 0.0, off[ATTENTION_MAX_KEYS];
  for (int64_t key = begin; key < end; key++) {
    int64_t first = key / OMMAI_ATTENTION_INT8_STEP * OMMAI_ATTENTION_INT8_STEP;
    double unit = 0.0;
    for (int64_t other = first; other < first + OMMAI_ATTENTION_INT8_STEP && other < end; other++) {
      unit = fmax(unit, weights[other] * whole->value_step[other / OMMAI_ATTENTION_BLOCK] / 255.0);
    }
    off[key] = 0.501 * unit / whole->value_step[key / OMMAI_ATTENTION_BLOCK];
  }
  double v[OMMA_ATTENTION_MAX_DECODE_HEAD_DIM], moves[OMMA_ATTENTION_MAX_DECODE_HEAD_DIM] = {0.0};
  for (int64_t key = begin; key < end; key++) {
    row_elements(&problem->v, key, v);
    for (int64_t d = 0; d < problem->v_head_dim; d++) moves[d] += off[key] * fabs(v[d] - (double)whole->center[d]);
  }
  for (int64_t d = 0; d < problem->v_head_dim; d++) moved += moves[d] * moves[d];
  return sqrt(moved);
}

/* Allowed: the rounding of the type, on the sum of |weight * value|; what errors of f32 scores move
 * from one key to another; what `whole` says; and denormals taken as zeros. */
double attention_row_error(const struct attention_problem *problem, int64_t row, int64_t begin, int64_t end, const float *found,
                           const struct attention_whole_weights *whole) {
  enum { MAX_DIM = OMMA_ATTENTION_MAX_DECODE_HEAD_DIM };
  double weights[ATTENTION_MAX_KEYS], max_terms, error = 0.0, magnitude = 0.0, moved = 0.0;
  double v[MAX_DIM], v_first[MAX_DIM], expected[MAX_DIM], terms[MAX_DIM], moves[MAX_DIM];
  int64_t first = row_weights(problem, row, begin, end, weights, &max_terms), dim = problem->v_head_dim;
  for (int64_t d = 0; d < dim; d++) expected[d] = terms[d] = moves[d] = 0.0;
  if (begin < end) row_elements(&problem->v, first, v_first);
  for (int64_t key = begin; key < end; key++) {
    double shift = key == first ? 0.0 : attention_moved_weight(weights[key], max_terms);
    row_elements(&problem->v, key, v);
    for (int64_t d = 0; d < dim; d++) {
      double term = weights[key] * v[d];
      expected[d] += term;
      terms[d] += fabs(term);
      moves[d] += shift * fabs(v[d] - v_first[d]);
    }
  }
  for (int64_t d = 0; d < dim; d++) {
    error += (found[d] - expected[d]) * (found[d] - expected[d]);
    magnitude += terms[d] * terms[d];
    moved += moves[d] * moves[d];
  }
  double tiny = problem->types.q == OMMA_F16 ? 0x1p-24 : 0x1p-126;
  double rounding = whole ? rounding_of_weights(problem, begin, end, weights, whole) : 0.0;
  return sqrt(error) / (sqrt(magnitude) * attention_unit(problem->types.q, problem->v_head_dim) + sqrt(moved) + rounding +
                        2 * tiny * sqrt(problem->v_head_dim));
}

const char *attention_types_name(struct ommai_attention_types types) {
  static const char *const names[] = {"f32", "bf16", "f16"};
  if (types.kv == OMMA_INT8) return types.q == OMMA_BF16 ? "bf16_kv8" : "f32_kv8";
  return types.q == types.kv ? names[types.q] : "f32_bf16";
}

const char *attention_problem_name(const struct attention_problem *problem, char *out, size_t size) {
  snprintf(out, size, "D %d/%d, %d keys, %d in the window, %s values", problem->head_dim, problem->v_head_dim, problem->n_keys,
           (int)problem->window_keys,
           (const char *const[KINDS]){"normal", "equal", "huge", "denormal", "alternating"}[problem->values]);
  return out;
}
