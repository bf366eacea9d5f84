/* The chosen kernels against the definition in double precision, on problems small enough for every
 * start of a program. */
#include <math.h>

#include "attention/attention_plan.h"
#include "base/allocator.h"
#include "base/error.h"
#include "kernels/attention_element.h"

/* Two heads on one kv head; a small segment, and one that uses shared workspace. */
enum { N_HEADS = 2, SHORT = 37, LONG = 150, TOKENS = SHORT + LONG, ROW_STEP = 29, DECODE_ROWS = 2, WINDOW = 50 };

struct trial {
  enum omma_attention_mode mode;
  struct ommai_attention_types types;
  int32_t head_dim;
  int64_t window; /* 0: none */
  float *values;  /* inputs: q [TOKENS, N_HEADS, D], k [TOKENS, D], v [TOKENS, D] */
  float *scales;  /* [2 TOKENS]: of the integers of k and v */
  /* the same in the trial's types, k and v with room for q's, then out [TOKENS, N_HEADS, D] */
  void *elements;
  double *weights; /* [TOKENS] */
};

static int64_t q_count(const struct trial *trial) { return (int64_t)TOKENS * N_HEADS * trial->head_dim; }
static int64_t kv_count(const struct trial *trial) { return (int64_t)TOKENS * trial->head_dim; }
static int64_t out_index(const struct trial *trial) { return q_count(trial) + 2 * kv_count(trial); }

static void *keys_of(const struct trial *trial) {
  return ommai_attention_at_out(trial->elements, q_count(trial), trial->types.q);
}

static int64_t row_of(const struct trial *trial, int64_t at) { return at / trial->head_dim; }

/* Values in [-2, 2) from a linear congruential generator, rounded to the type; or as integers and a
 * scale for each row. */
static void fill(struct trial *trial) {
  uint32_t state = 12345u + (uint32_t)trial->head_dim;
  for (int64_t i = 0; i < out_index(trial); i++) {
    state = state * 1664525u + 1013904223u;
    bool query = i < q_count(trial);
    void *elements = query ? trial->elements : keys_of(trial);
    int64_t at = query ? i : i - q_count(trial);
    enum omma_dtype type = query ? trial->types.q : trial->types.kv;
    if (type == OMMA_INT8) {
      float *scale = &trial->scales[row_of(trial, at)];
      ((int8_t *)elements)[at] = (int8_t)(state >> 24);
      *scale = (float)(row_of(trial, at) % 3 + 1) / 128.0f;
      trial->values[i] = (float)((int8_t *)elements)[at] * *scale;
      continue;
    }
    ommai_attention_store(elements, at, type, (float)(state >> 8) * 0x1p-22f - 2.0f);
    trial->values[i] = ommai_attention_load(elements, at, type);
  }
}

/* Relative error (L2) of row `row` of head `head`, which sees keys [first, first + n_keys). */
static double row_error(const struct trial *trial, int64_t row, int64_t head, int64_t first, int64_t n_keys) {
  int64_t dim = trial->head_dim, at = (row * N_HEADS + head) * dim;
  const float *q = trial->values + at, *k = trial->values + q_count(trial) + first * dim, *v = k + kv_count(trial);
  double sum = 0.0, error = 0.0, norm = 0.0;
  for (int64_t key = 0; key < n_keys; key++) {
    double dot = 0.0;
    for (int64_t d = 0; d < dim; d++) dot += (double)q[d] * k[key * dim + d];
    trial->weights[key] = exp(dot / sqrt((double)dim));
    sum += trial->weights[key];
  }
  for (int64_t d = 0; d < dim; d++) {
    double expected = 0.0;
    for (int64_t key = 0; key < n_keys; key++) expected += trial->weights[key] * v[key * dim + d];
    expected /= sum;
    double found = ommai_attention_load(trial->elements, out_index(trial) + at + d, trial->types.q);
    error += (found - expected) * (found - expected);
    norm += expected * expected;
  }
  return sqrt(error / norm);
}

/* Query rows of the two segments; when decoding the last rows of each. */
static void segments_of(const struct trial *trial, int64_t borders[3], int64_t key_borders[3], int64_t offsets[2]) {
  const int64_t lengths[2] = {SHORT, LONG};
  borders[0] = key_borders[0] = 0;
  for (int i = 0; i < 2; i++) {
    int64_t rows = trial->mode == OMMA_ATTENTION_DECODE ? DECODE_ROWS : lengths[i];
    borders[i + 1] = borders[i] + rows;
    key_borders[i + 1] = key_borders[i] + lengths[i];
    offsets[i] = lengths[i] - rows;
  }
}

/* The next row to look at in [row, end): some, and always the last, where tiles go wrong first. */
static int64_t next_row(const struct trial *trial, int64_t row, int64_t end) {
  int64_t next = row + (trial->mode == OMMA_ATTENTION_DECODE ? 1 : ROW_STEP);
  return next < end || row == end - 1 ? next : end - 1;
}

static enum omma_status compare(const struct omma_attention_context *context, const struct trial *trial,
                                const int64_t borders[3], const int64_t key_borders[3], const int64_t offsets[2],
                                struct omma_error *error) {
  static const double limits[3] = {1e-5, 1.5e-2, 2e-3}; /* by the queries' type */
  for (int i = 0; i < 2; i++) {
    for (int64_t row = borders[i]; row < borders[i + 1]; row = next_row(trial, row, borders[i + 1])) {
      int64_t n_keys = key_borders[i + 1] - key_borders[i];
      if (trial->mode != OMMA_ATTENTION_ENCODER) n_keys = offsets[i] + row - borders[i] + 1;
      int64_t hidden = trial->window > 0 && n_keys > trial->window ? n_keys - trial->window : 0;
      double found = row_error(trial, row, row % N_HEADS, key_borders[i] + hidden, n_keys - hidden);
      if (found <= limits[trial->types.q]) continue;
      return ommai_fail(error, OMMA_ERROR_INTERNAL,
                        "attention self-test: %s, head_dim %d, row %d: error %.3g, expected at most %g",
                        omma_attention_kernel_name(context, trial->mode, trial->types.q, trial->head_dim, 0), trial->head_dim,
                        (int)row, found, limits[trial->types.q]);
    }
  }
  return OMMA_OK;
}

static enum omma_status run_plan(const struct omma_attention_context *context, const struct omma_attention_plan *plan,
                                 const struct omma_attention_tensors *tensors, struct omma_error *error) {
  size_t size = omma_attention_plan_workspace_size(plan, 1);
  void *workspace = ommai_allocate(&context->allocator, size, 1);
  if (!workspace) return ommai_fail_memory(error, "attention self-test", size);
  enum omma_status status = omma_attention_run(plan, tensors, workspace, size, NULL, error);
  ommai_release(&context->allocator, workspace, size, 1);
  return status;
}

static enum omma_status run_trial(const struct omma_attention_context *context, struct trial *trial, struct omma_error *error) {
  int64_t borders[3], key_borders[3], offsets[2];
  segments_of(trial, borders, key_borders, offsets);
  fill(trial);
  struct omma_attention_spec spec = {.mode = trial->mode,
                                     .dtype = trial->types.q,
                                     .n_heads = N_HEADS,
                                     .n_kv_heads = 1,
                                     .head_dim = trial->head_dim,
                                     .n_tokens = borders[2],
                                     .n_kv_tokens = TOKENS,
                                     .index_type = OMMA_INDEX_INT64,
                                     .n_segments = 2,
                                     .cu_seqlens = borders,
                                     .cu_seqlens_k = key_borders,
                                     .q_offsets = trial->mode == OMMA_ATTENTION_ENCODER ? NULL : offsets,
                                     .window = trial->window,
                                     .bf16_kv = trial->types.q == OMMA_F32 && trial->types.kv == OMMA_BF16,
                                     .int8_kv = trial->types.kv == OMMA_INT8};
  struct omma_attention_plan *plan;
  OMMAI_TRY(omma_attention_plan_create(context, &spec, &plan, error));
  struct omma_attention_tensors tensors = {.q = trial->elements,
                                           .k = keys_of(trial),
                                           .v = ommai_attention_at(keys_of(trial), kv_count(trial), trial->types.kv),
                                           .out = ommai_attention_at_out(trial->elements, out_index(trial), trial->types.q),
                                           .k_scales = trial->scales,
                                           .v_scales = trial->scales + TOKENS};
  enum omma_status status = run_plan(context, plan, &tensors, error);
  if (status == OMMA_OK) status = compare(context, trial, borders, key_borders, offsets, error);
  omma_attention_plan_destroy(plan);
  return status;
}

static bool served(int mode, struct ommai_attention_types types) {
  return mode == OMMA_ATTENTION_ENCODER ? types.q == types.kv : types.q != OMMA_F16;
}

/* All modes, types and usual head dimensions in one block of memory; of those with a window the
 * first dimension alone. */
static enum omma_status run_trials(const struct omma_attention_context *context, float *values, void *elements, double *weights,
                                   float *scales, struct omma_error *error) {
  static const int32_t dims[] = {64, 72, 80, 128};
  for (int mode = OMMA_ATTENTION_ENCODER; mode <= OMMA_ATTENTION_DECODE; mode++) {
    for (int j = 0; j < OMMAI_ATTENTION_TYPES; j++) {
      const struct ommai_attention_types types = ommai_attention_types_at[j];
      if (!served(mode, types)) continue;
      for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        struct trial trial = {(enum omma_attention_mode)mode, types, dims[i], 0, values, scales, elements, weights};
        OMMAI_TRY(run_trial(context, &trial, error));
        if (mode == OMMA_ATTENTION_ENCODER || i > 0) continue;
        trial.window = WINDOW;
        OMMAI_TRY(run_trial(context, &trial, error));
      }
    }
  }
  return OMMA_OK;
}

enum omma_status omma_attention_self_test(const struct omma_attention_context *context, struct omma_error *error) {
  if (!context) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "context", "context: expected a context, found NULL");
  enum { LARGEST = TOKENS * 128 * (2 * N_HEADS + 2) };
  size_t size = LARGEST * 2 * sizeof(float) + TOKENS * (sizeof(double) + 2 * sizeof(float));
  float *values = ommai_allocate(&context->allocator, size, 1);
  if (!values) return ommai_fail_memory(error, "attention self-test", size);
  double *weights = (double *)(void *)(values + 2 * (int64_t)LARGEST);
  enum omma_status status = run_trials(context, values, values + LARGEST, weights, (float *)(void *)(weights + TOKENS), error);
  ommai_release(&context->allocator, values, size, 1);
  return status;
}
