#include "support/linear_fixture.h"

#include <math.h>

#include "base/error.h"
#include "base/half.h"
#include "support/test.h"

void fixture_put(void *array, int64_t at, float value, enum omma_dtype type) {
  if (type == OMMA_BF16) {
    ((ommai_bf16 *)array)[at] = ommai_bf16_from_f32(value);
  } else {
    ((float *)array)[at] = value;
  }
}

float fixture_get(const void *array, int64_t at, enum omma_dtype type) {
  return type == OMMA_BF16 ? ommai_bf16_to_f32(((const ommai_bf16 *)array)[at]) : ((const float *)array)[at];
}

double fixture_activate(double x, enum ommai_activation activation) {
  switch (activation) {
    case OMMAI_ACTIVATION_GELU_TANH: return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case OMMAI_ACTIVATION_GELU_ERF: return 0.5 * x * erfc(-x * 0.7071067811865476);
    case OMMAI_ACTIVATION_SILU: return x / (1 + exp(-x));
    case OMMAI_ACTIVATION_QUICK_GELU: return x / (1 + exp(-1.702 * x));
    default: return x;
  }
}

static enum omma_status refuse(const struct ommai_linear_op *op, const void *x, void *y, int64_t n_rows, int worker,
                               struct omma_error *error) {
  (void)op, (void)x, (void)y, (void)n_rows, (void)worker;
  return ommai_fail(error, OMMA_ERROR_LIMIT, "no tiles today");
}

void fixture_break_linear(struct ommai_linear *linear, struct ommai_linear_code *broken) {
  *broken = *linear->code;
  broken->op_run = refuse;
  broken->op_run_prepared = NULL;
  linear->code = broken;
}

void fixture_mend_linear(struct ommai_linear *linear) { linear->code = ommai_linear_code_for(linear->context, &linear->spec); }

int fixture_run_levels(int (*run_level)(const char *level)) {
  int n_run = 0, n_failed = 0;
  for (int level = 0; level < OMMAI_CPU_LEVELS; level++) {
    if (test_leaves_out(ommai_cpu_level_name(level)) || !ommai_cpu_has(level)) continue;
    n_failed += run_level(ommai_cpu_level_name(level));
    n_run++;
  }
  if (!n_run) fprintf(stderr, "OMMA_TEST_LEVEL: this machine has no such level\n");
  return n_run ? n_failed : 1;
}
