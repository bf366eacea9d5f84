#include "support/attention_levels.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu.h"

const double attention_relative_limits[3] = {2e-6, 4e-3, 1e-3};

static struct omma_attention_context *make_context(enum ommai_cpu_level level) {
  struct omma_attention_options options = {.isa = ommai_cpu_level_name(level)};
  struct omma_attention_context *context;
  struct omma_error error;
  assert_ok(omma_attention_context_create(&options, &context, &error), &error);
  return context;
}

/* Whether two contexts choose the same kernels throughout. */
static bool same_kernels(const struct omma_attention_context *a, const struct omma_attention_context *b) {
  for (int mode = OMMA_ATTENTION_ENCODER; mode <= OMMA_ATTENTION_DECODE; mode++) {
    for (int dtype = OMMA_F32; dtype <= OMMA_F16; dtype++) {
      if (omma_attention_kernel_name(a, mode, dtype, 64, 0) != omma_attention_kernel_name(b, mode, dtype, 64, 0)) return false;
    }
  }
  return true;
}

void attention_on_every_level(void (*body)(const struct omma_attention_context *context)) {
  struct omma_attention_context *before = NULL;
  for (int level = 0; level < OMMAI_CPU_LEVELS; level++) {
    if (test_leaves_out(ommai_cpu_level_name(level)) || !ommai_cpu_has(level)) continue;
    struct omma_attention_context *context = make_context(level);
    if (!before || !same_kernels(before, context)) body(context);
    omma_attention_context_destroy(before);
    before = context;
  }
  assert_non_null(before);
  omma_attention_context_destroy(before);
  attention_case_forget();
}

void attention_check(const struct omma_attention_context *context, const struct attention_case *problem, int64_t row_step) {
  float *found = attention_case_run(context, problem);
  attention_case_check(problem, found, attention_relative_limits[problem->dtype], row_step,
                       omma_attention_context_isa(context));
  free(found);
}

struct attention_case attention_base_case(enum omma_attention_mode mode, enum omma_dtype dtype, int32_t head_dim,
                                          const struct attention_segment *segments, int64_t n_segments) {
  return (struct attention_case){.mode = mode,
                                 .dtype = dtype,
                                 .n_heads = 2,
                                 .n_kv_heads = 2,
                                 .head_dim = head_dim,
                                 .v_head_dim = head_dim,
                                 .n_segments = n_segments,
                                 .segments = segments};
}

struct attention_case attention_decoder_case(enum omma_attention_mode mode, int types, int32_t head_dim,
                                             const struct attention_segment *segments, int64_t n_segments) {
  enum omma_dtype dtype = types == OMMA_BF16 || types == 4 ? OMMA_BF16 : OMMA_F32;
  struct attention_case problem = attention_base_case(mode, dtype, head_dim, segments, n_segments);
  problem.bf16_kv = types == 2;
  problem.int8_kv = types >= 3;
  return problem;
}

void attention_assert_same_rows(const float *a, const float *b, int64_t count, const char *what) {
  for (int64_t i = 0; i < count; i++) {
    if (memcmp(&a[i], &b[i], sizeof *a) != 0)
      fail_msg("%s: element %d: %.9g and %.9g", what, (int)i, (double)a[i], (double)b[i]);
  }
}

float *attention_run_alone(const struct omma_attention_context *context, struct attention_case problem,
                           const struct attention_segment *segment) {
  problem.segments = segment;
  problem.n_segments = 1;
  problem.team = NULL;
  problem.slice = problem.tail_rows = problem.pad = 0;
  problem.heads_first = false;
  return attention_case_run(context, &problem);
}

void attention_assert_same_as_alone(const struct omma_attention_context *context, const struct attention_case *problem,
                                    const char *what) {
  float *together = attention_case_run(context, problem);
  int64_t width = (int64_t)problem->n_heads * problem->v_head_dim;
  for (int64_t i = 0; i < problem->n_segments; i++) {
    if (problem->segments[i].poison) continue;
    float *alone = attention_run_alone(context, *problem, &problem->segments[i]);
    attention_assert_same_rows(alone, together + attention_case_row(problem, i) * width, problem->segments[i].n_rows * width,
                               what);
    free(alone);
  }
  free(together);
}

void attention_assert_same_in_chunks(const struct omma_attention_context *context, struct attention_case problem,
                                     int64_t length) {
  static const int64_t chunks[] = {1, 7, 48, 64, 100};
  const struct attention_segment whole = {length, length, 77, false};
  int64_t width = (int64_t)problem.n_heads * problem.v_head_dim;
  problem.segments = &whole;
  float *expected = attention_case_run(context, &problem);
  /* Of small runs one of the last two. */
  size_t n = sizeof chunks / sizeof *chunks, begin = !test_small() ? 0 : problem.dtype == OMMA_BF16 ? n - 2 : n - 1;
  for (size_t i = begin; i < (test_small() ? begin + 1 : n); i++) {
    for (int64_t first = chunks[i] / 2; first < length; first += chunks[i] + (chunks[i] < 48 ? 61 : 0)) {
      int64_t n_rows = length - first < chunks[i] ? length - first : chunks[i];
      const struct attention_segment chunk = {n_rows, first + n_rows, 77, false};
      problem.segments = &chunk;
      problem.paged = i % 2;
      float *found = attention_case_run(context, &problem);
      attention_assert_same_rows(found, expected + first * width, n_rows * width, "chunk");
      free(found);
    }
  }
  free(expected);
}

void attention_assert_same_row_by_row(const struct omma_attention_context *context, int64_t window) {
  for (int types = 0; types < ATTENTION_DECODER_TYPES; types++) {
    const struct attention_segment rows = {4, 514, 5, false};
    struct attention_case problem = attention_decoder_case(OMMA_ATTENTION_DECODE, types, 64, &rows, 1);
    problem.window = window;
    problem.paged = true;
    float *together = attention_case_run(context, &problem);
    int64_t width = (int64_t)problem.n_heads * problem.v_head_dim;
    for (int64_t row = 0; row < 4; row++) {
      const struct attention_segment single = {1, 511 + row, 5, false};
      float *alone = attention_run_alone(context, problem, &single);
      attention_assert_same_rows(alone, together + row * width, width, "decode");
      free(alone);
    }
    free(together);
  }
}
