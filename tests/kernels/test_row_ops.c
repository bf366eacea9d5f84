/* Row operations: every level the machine has, against double precision and, bit for bit, against the scalar level. */
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "kernels/row_ops.h"
#include "support/test.h"

enum { MAX_D = 5000 };

static float input[2][MAX_D], weight[MAX_D], bias[MAX_D], cosine[MAX_D], sine[MAX_D];
static const int64_t sizes[] = {2, 4, 14, 16, 18, 34, 72, 80, 128, 1000, 1152, 4304};

static void fill(uint64_t seed) {
  struct test_random random = {seed};
  for (int i = 0; i < MAX_D; i++) {
    input[0][i] = test_random_normal(&random) * 3;
    input[1][i] = test_random_normal(&random);
    weight[i] = test_random_normal(&random);
    bias[i] = test_random_normal(&random);
    float angle = test_random_normal(&random) * 9;
    cosine[i] = cosf(angle);
    sine[i] = sinf(angle);
  }
}

/* Runs operation `which` and stores the result as f32 bits or widened bf16. */
static void run(const struct ommai_row_ops *ops, int which, int64_t d, enum omma_dtype type, float *out) {
  static float raw[MAX_D];
  const float *rows[5] = {input[0], input[1], weight, bias, cosine};
  const float weights[5] = {0.5f, -0.25f, 0.125f, 0.7f, -0.9f};
  memset(raw, 0, sizeof raw);
  switch (which) {
    case 0: ops->layer_norm(input[0], weight, bias, 1e-6f, d, raw, type); break;
    case 1: ops->rms_norm(input[0], weight, 1e-6f, d, raw, type); break;
    case 2: ops->rope_half(input[0], cosine, sine, 1, d, raw, d, type); break;
    case 3: ops->silu_mul(input[0], input[1], d, raw, type); break;
    case 4: ops->convert(input[0], d, raw, type); break;
    case 5: ops->rope_pairs(input[0], cosine, sine, 1, d, raw, d, type); break;
    case 6:
      memcpy(raw, input[1], sizeof raw);
      ops->add(raw, input[0], d);
      break;
    case 7:
      memcpy(raw, input[1], sizeof raw);
      ops->add_scaled(raw, input[0], 0.7f, d);
      break;
    case 8:
      memcpy(raw, input[1], sizeof raw);
      ops->add_weighted(raw, rows, weights, 5, d);
      break;
    case 9:
      memcpy(raw, input[0], sizeof raw);
      ops->gelu_tanh(raw, d);
      break;
    case 10:
      memcpy(raw, input[0], sizeof raw);
      ops->gelu_erf(raw, d);
      break;
    default: memcpy(raw, input[0], sizeof raw); ops->silu(raw, d);
  }
  for (int64_t i = 0; i < d; i++) {
    out[i] = type == OMMA_F32 || which >= 6 ? raw[i] : ommai_bf16_to_f32(((ommai_bf16 *)raw)[i]);
  }
}

static void oracle(int which, int64_t d, double *out) {
  double mean = 0, square = 0, variance = 0;
  for (int64_t i = 0; i < d; i++) {
    mean += input[0][i] / (double)d;
    square += (double)input[0][i] * input[0][i] / (double)d;
  }
  for (int64_t i = 0; i < d; i++) variance += (input[0][i] - mean) * (input[0][i] - mean) / (double)d;
  for (int64_t i = 0; i < d; i++) {
    double x = input[0][i], y = input[1][i];
    int64_t j = i % (d / 2), pair = i < d / 2 ? i + d / 2 : i - d / 2;
    switch (which) {
      case 0: out[i] = (x - mean) / sqrt(variance + 1e-6) * weight[i] + bias[i]; break;
      case 1: out[i] = x / sqrt(square + 1e-6) * weight[i]; break;
      case 2: out[i] = x * cosine[j] + (i < d / 2 ? -1.0 : 1.0) * input[0][pair] * sine[j]; break;
      case 3: out[i] = x / (1 + exp(-x)) * y; break;
      case 4: out[i] = x; break;
      case 5: out[i] = x * cosine[i / 2] + (i % 2 ? 1.0 : -1.0) * input[0][i ^ 1] * sine[i / 2]; break;
      case 6: out[i] = x + y; break;
      case 7: out[i] = y + (double)0.7f * x; break;
      case 9: out[i] = x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x))); break;
      case 10: out[i] = 0.5 * x * erfc(-x * 0.7071067811865476); break;
      case 11: out[i] = x / (1 + exp(-x)); break;
      default: out[i] = y + 0.5 * x - 0.25 * y + 0.125 * weight[i] + (double)0.7f * bias[i] - (double)0.9f * cosine[i];
    }
  }
}

static void every_level_matches_double_and_scalar(void **state) {
  (void)state;
  static float got[MAX_D], scalar[MAX_D];
  static double expected[MAX_D];
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    int64_t d = sizes[s];
    fill(7 + s);
    for (int which = 0; which < 12; which++) {
      for (int type = OMMA_F32; type <= OMMA_BF16; type++) {
        oracle(which, d, expected);
        run(&ommai_row_ops_scalar, which, d, type, scalar);
        double difference = 0, norm = 0;
        for (int64_t i = 0; i < d; i++) {
          difference += (scalar[i] - expected[i]) * (scalar[i] - expected[i]);
          norm += expected[i] * expected[i];
        }
        double bound = type == OMMA_F32 || which >= 6 ? 5e-7 : 3e-3;
        if (!(sqrt(difference) <= bound * sqrt(norm))) {
          fail_msg("operation %d, d %d, type %d: relative error %g", which, (int)d, type, sqrt(difference / norm));
        }
        for (int level = 0; level < OMMAI_CPU_LEVELS; level++) {
          if (!ommai_cpu_has(level)) continue;
          run(ommai_row_ops(level), which, d, type, got);
          if (memcmp(got, scalar, (size_t)d * sizeof *got) != 0) {
            fail_msg("operation %d, d %d, type %d: level %s differs from scalar", which, (int)d, type,
                     ommai_cpu_level_name(level));
          }
        }
      }
    }
  }
}

/* Values x [d], f32 or bf16, to u8 and back: no further off than half a step, 0 exact, all levels alike. */
static void rows_come_back_from_u8(void **state) {
  (void)state;
  static uint8_t whole[MAX_D], scalar[MAX_D];
  static ommai_bf16 narrow[MAX_D];
  static int32_t sums[MAX_D], ones[MAX_D];
  static float scales[MAX_D], none[MAX_D], back[MAX_D];
  fill(5);
  input[0][1] = 0;
  for (int i = 0; i < MAX_D; i++) {
    narrow[i] = ommai_bf16_from_f32(input[0][i]);
    ones[i] = 1;
    scales[i] = 1;
  }
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    int64_t d = sizes[s];
    for (int type = OMMA_F32; type <= OMMA_BF16; type++) {
      const void *x = type == OMMA_F32 ? (const void *)input[0] : narrow;
      struct ommai_uint8_row row, expected;
      ommai_row_ops_scalar.quantise(x, type, d, scalar, &expected);
      for (int level = 0; level < OMMAI_CPU_LEVELS; level++) {
        if (!ommai_cpu_has(level)) continue;
        const struct ommai_row_ops *ops = ommai_row_ops(level);
        ops->quantise(x, type, d, whole, &row);
        assert_true(row.scale == expected.scale && row.zero == expected.zero);
        assert_memory_equal(whole, scalar, (size_t)d);
        for (int64_t i = 0; i < d; i++) sums[i] = whole[i];
        ops->dequantise(sums, ones, scales, none, row, d, back);
        for (int64_t i = 0; i < d; i++) {
          float value = type == OMMA_F32 ? input[0][i] : ommai_bf16_to_f32(narrow[i]);
          /* An end of the range that the zero point's rounding pushed out loses up to a step. */
          float bound = whole[i] == OMMAI_UINT8_MOST ? 1.001f : 0.501f;
          assert_true(fabsf(back[i] - value) <= bound * row.scale);
        }
        assert_true(back[1] == 0.0f);
      }
    }
  }
}

static void silu_is_finite_everywhere(void **state) {
  (void)state;
  const float gate[6] = {-1e30f, -100.0f, -88.0f, 0.0f, 88.0f, 1e30f}, up[6] = {1, 1, 1, 1, 1, 1};
  float out[6];
  for (int level = 0; level < OMMAI_CPU_LEVELS; level++) {
    if (!ommai_cpu_has(level)) continue;
    ommai_row_ops(level)->silu_mul(gate, up, 6, out, OMMA_F32);
    for (int i = 0; i < 6; i++) assert_true(isfinite(out[i]));
    assert_true(fabsf(out[1]) < 1e-30f && fabsf(out[2]) < 1e-30f);
    assert_true(out[3] == 0.0f && out[4] == 88.0f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_level_matches_double_and_scalar),
                                     cmocka_unit_test(rows_come_back_from_u8), cmocka_unit_test(silu_is_finite_everywhere)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
