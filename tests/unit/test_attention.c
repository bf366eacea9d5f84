/* The operator against its definition in double precision, and against itself: neighbours, order,
 * strides, teams, slices and chunks do not change a bit. */
#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "base/half.h"
#include "base/team.h"
#include "kernels/cpu.h"
#include "support/attention_levels.h"
#include "support/guarded.h"

static bool is_highest(const struct omma_attention_context *context) {
  return strcmp(omma_attention_context_isa(context), ommai_cpu_level_name(ommai_cpu_best())) == 0;
}

/* Lengths around the tiles and blocks of all kernels, in one packed run. */
static void lengths(const struct omma_attention_context *context) {
  static const int64_t n[] = {0,  1,  2,  7, 8,  9,  15,  16,  17,  31,  33,  47,  48, 49,
                              63, 64, 65, 0, 79, 97, 113, 127, 128, 129, 131, 193, 0};
  enum { COUNT = sizeof n / sizeof *n };
  struct attention_segment segments[COUNT];
  for (int i = 0; i < COUNT; i++) segments[i] = (struct attention_segment){n[i], n[i], (uint32_t)i, false};
  for (int dtype = OMMA_F32; dtype <= OMMA_F16; dtype++) {
    struct attention_case problem = attention_base_case(OMMA_ATTENTION_ENCODER, dtype, 24, segments, COUNT);
    problem.tail_rows = 3;
    attention_check(context, &problem, 2);
    if (dtype == OMMA_F16) continue;
    problem.mode = OMMA_ATTENTION_CAUSAL;
    attention_check(context, &problem, 2);
    problem.paged = true;
    attention_check(context, &problem, 2);
  }
}

/* A row that sees one key alone gets that key's value to the bit. */
static void one_key(const struct omma_attention_context *context) {
  enum { COUNT = 50 };
  struct attention_segment segments[COUNT];
  for (int i = 0; i < COUNT; i++) segments[i] = (struct attention_segment){1, 1, (uint32_t)i, false};
  for (int dtype = OMMA_F32; dtype <= OMMA_F16; dtype++) {
    struct attention_case problem = attention_base_case(OMMA_ATTENTION_ENCODER, dtype, 72, segments, COUNT);
    float *found = attention_case_run(context, &problem);
    attention_case_check(&problem, found, 0.0, 1, omma_attention_context_isa(context));
    free(found);
  }
}

/* The worst of some ten thousand rows: of that number there are some in which two or three keys
 * outweigh the others, or the result nearly cancels. Below the highest level a quarter of them, in
 * small runs half of them: the reference takes its time. */
static void worst_rows(const struct omma_attention_context *context) {
  enum { COUNT = 3 };
  const int32_t n_heads = !is_highest(context) ? 3 : test_small() ? 6 : 12;
  static const int32_t dims[2][2] = {{OMMA_F32, 128}, {OMMA_BF16, 64}};
  struct attention_segment segments[COUNT];
  for (int i = 0; i < COUNT; i++) segments[i] = (struct attention_segment){256, 256, (uint32_t)i, false};
  for (int i = 0; i < 2; i++) {
    struct attention_case problem = attention_base_case(OMMA_ATTENTION_ENCODER, dims[i][0], dims[i][1], segments, COUNT);
    problem.n_heads = problem.n_kv_heads = n_heads;
    attention_check(context, &problem, 1);
  }
}

/* Every dimension there is; the usual ones and their neighbours on more rows. */
static void encoder_head_dims(const struct omma_attention_context *context) {
  static const int32_t dims[] = {1, 16, 40, 64, 65, 72, 80, 88, 96, 104, 112, 127, 128, 256};
  const struct attention_segment some[] = {{37, 37, 1, false}, {140, 140, 2, false}}, few = {19, 67, 3, false};
  for (int dtype = OMMA_F32; dtype <= OMMA_F16; dtype++) {
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i += test_small() ? 5 : 1) {
      struct attention_case problem = attention_base_case(OMMA_ATTENTION_ENCODER, dtype, dims[i], some, 2);
      problem.pad = (int64_t)i % 3;
      attention_check(context, &problem, 11);
    }
    for (int32_t dim = 1; dim <= OMMA_ATTENTION_MAX_HEAD_DIM; dim += test_small() ? 37 : 1) {
      struct attention_case problem = attention_base_case(OMMA_ATTENTION_ENCODER, dtype, dim, &few, 1);
      problem.n_heads = problem.n_kv_heads = 1;
      attention_check(context, &problem, 6);
    }
  }
}

/* Causal and decode rows at every dimension there is; of the types over integers, which share their
 * code, every third. */
static void decoder_head_dims(const struct omma_attention_context *context) {
  const struct attention_segment rows = {3, 70, 4, false};
  for (int mode = OMMA_ATTENTION_CAUSAL; mode <= OMMA_ATTENTION_DECODE; mode++) {
    for (int types = 0; types < ATTENTION_DECODER_TYPES; types++) {
      int32_t step = test_small() ? 41 : types > 2 ? 3 : 1;
      for (int32_t dim = 1; dim <= OMMA_ATTENTION_MAX_HEAD_DIM; dim += step) {
        struct attention_case problem = attention_decoder_case(mode, types, dim, &rows, 1);
        problem.n_heads = 2, problem.n_kv_heads = 1;
        problem.paged = dim % 2;
        attention_check(context, &problem, 3);
      }
    }
  }
}

static void different_value_dims_and_groups(const struct omma_attention_context *context) {
  const struct attention_segment segments[] = {{50, 170, 1, false}, {0, 9, 2, false}, {3, 3, 3, false}};
  for (int mode = OMMA_ATTENTION_ENCODER; mode <= OMMA_ATTENTION_DECODE; mode++) {
    for (int dtype = OMMA_F32; dtype <= OMMA_BF16; dtype++) {
      struct attention_case problem = attention_base_case(mode, dtype, 192, segments, 3);
      problem.v_head_dim = 128;
      attention_check(context, &problem, 7);
      problem.head_dim = 17, problem.v_head_dim = 40;
      problem.n_heads = 6, problem.n_kv_heads = 2;
      problem.heads_first = true;
      problem.pad = 1;
      attention_check(context, &problem, 3);
      problem.n_kv_heads = 1;
      problem.scale = 0.3f;
      problem.index64 = true;
      attention_check(context, &problem, 3);
      problem.scale = -0.2f;
      attention_check(context, &problem, 3);
    }
  }
}

/* The cross mode: pooling queries, none at all, and queries without keys. */
static void cross_segments(const struct omma_attention_context *context) {
  const struct attention_segment segments[] = {{1, 200, 1, false}, {5, 0, 2, false},    {0, 30, 3, false},
                                               {700, 3, 4, false}, {20, 129, 5, false}, {600, 0, 6, false}};
  for (int dtype = OMMA_F32; dtype <= OMMA_F16; dtype++) {
    struct attention_case problem = attention_base_case(OMMA_ATTENTION_ENCODER, dtype, 36, segments, 6);
    attention_check(context, &problem, 2);
  }
}

static void odd_values(const struct omma_attention_context *context) {
  const struct attention_segment segments[] = {{70, 70, 1, false}, {150, 150, 2, false}};
  for (int mode = OMMA_ATTENTION_ENCODER; mode <= OMMA_ATTENTION_DECODE; mode++) {
    for (int dtype = OMMA_F32; dtype <= OMMA_F16; dtype++) {
      if (mode != OMMA_ATTENTION_ENCODER && dtype == OMMA_F16) continue;
      for (int values = VALUES_EQUAL; values <= VALUES_ALTERNATING; values++) {
        struct attention_case problem = attention_base_case(mode, dtype, 40, segments, 2);
        problem.values = values;
        attention_check(context, &problem, 5);
      }
    }
  }
}

static void decode_lengths(const struct omma_attention_context *context) {
  const struct attention_segment segments[] = {{1, 1, 1, false},   {1, 63, 2, false},   {2, 64, 3, false},
                                               {1, 65, 4, false},  {0, 5, 5, false},    {1, 512, 6, false},
                                               {1, 513, 7, false}, {3, 1025, 8, false}, {5, 5, 9, false}};
  static const int32_t dims[] = {3, 64, 72, 128, 256};
  for (int types = 0; types < ATTENTION_DECODER_TYPES; types++) {
    for (size_t i = 0; i < (test_small() ? 2 : sizeof dims / sizeof *dims); i++) {
      struct attention_case problem = attention_decoder_case(OMMA_ATTENTION_DECODE, types, dims[i], segments, 9);
      problem.n_heads = 4;
      attention_check(context, &problem, 4);
      problem.paged = true;
      problem.pad = 3;
      problem.n_kv_heads = 1;
      attention_check(context, &problem, 4);
    }
  }
}

/* Many heads over one compressed row that is key and, in part, value. */
static void decode_shares_wide_keys(const struct omma_attention_context *context) {
  const struct attention_segment segments[] = {{1, 1, 1, false}, {1, 130, 2, false}, {2, 577, 3, false}};
  static const int32_t dims[3][2] = {{576, 512}, {300, 257}, {OMMA_ATTENTION_MAX_DECODE_HEAD_DIM, 1000}};
  for (int types = 0; types < ATTENTION_DECODER_TYPES; types++) {
    for (size_t i = test_small() ? (size_t)types % 3 : 0; i < 3; i += test_small() ? 3 : 1) {
      struct attention_case problem = attention_decoder_case(OMMA_ATTENTION_DECODE, types, dims[i][0], segments, 3);
      problem.v_head_dim = dims[i][1];
      problem.scale = 0.02f;
      problem.n_heads = 6;
      problem.n_kv_heads = 1;
      problem.paged = true;
      attention_check(context, &problem, 3);
    }
  }
}

/* ---- equality -------------------------------------------------------------------------------- */

static void packing_teams_and_slices(const struct omma_attention_context *context) {
  const struct attention_segment segments[] = {
      {65, 65, 1, false},  {30, 30, 2, true},    {300, 300, 3, false}, {0, 0, 4, false},    {1, 1, 5, false},
      {150, 150, 6, true}, {140, 140, 7, false}, {7, 40, 8, false},    {1, 1100, 9, false}, {2, 64, 10, true}};
  struct omma_error error;
  struct ommai_team *team;
  assert_ok(ommai_team_create(3, false, &ommai_default_allocator, &team, &error), &error);
  for (int mode = OMMA_ATTENTION_ENCODER; mode <= OMMA_ATTENTION_DECODE; mode++) {
    for (int dtype = OMMA_F32; dtype <= OMMA_BF16; dtype++) {
      struct attention_case problem = attention_base_case(mode, dtype, 40, segments, 10);
      problem.n_heads = 4;
      attention_assert_same_as_alone(context, &problem, "packed");
      problem.team = ommai_team_interface(team);
      problem.tail_rows = 300;
      problem.pad = 5;
      attention_assert_same_as_alone(context, &problem, "team");
      problem.slice = 3;
      problem.heads_first = true;
      attention_assert_same_as_alone(context, &problem, "slices");
      problem.paged = mode != OMMA_ATTENTION_ENCODER;
      problem.team = NULL;
      attention_assert_same_as_alone(context, &problem, "pages");
    }
  }
  struct attention_case problem = attention_base_case(OMMA_ATTENTION_ENCODER, OMMA_BF16, 72, segments, 10);
  problem.int8_scores = true;
  problem.team = ommai_team_interface(team);
  problem.slice = 3;
  attention_assert_same_as_alone(context, &problem, "scores in 8 bits");
  ommai_team_destroy(team);
}

static void chunked_prefill(const struct omma_attention_context *context) {
  for (int types = 0; types < ATTENTION_DECODER_TYPES; types++) {
    struct attention_case problem = attention_decoder_case(OMMA_ATTENTION_CAUSAL, types, 72, NULL, 1);
    problem.n_heads = 4;
    attention_assert_same_in_chunks(context, problem, 333);
  }
}

static void decode_row_by_row(const struct omma_attention_context *context) { attention_assert_same_row_by_row(context, 0); }

/* Keys and values of a wave exceed the budget, so that there are several waves. */
static void several_waves(const struct omma_attention_context *context) {
  if (strcmp(omma_attention_context_isa(context), "scalar") == 0) return;
  const struct attention_segment segments[] = {
      {20, 9000, 1, false}, {5, 12000, 2, false}, {64, 64, 3, false}, {1, 30000, 4, false}};
  struct attention_case problem = attention_base_case(OMMA_ATTENTION_ENCODER, OMMA_BF16, 128, segments, 4);
  problem.n_heads = problem.n_kv_heads = 3;
  problem.slice = 40;
  attention_assert_same_as_alone(context, &problem, "waves");
}

/* One segment of 60,000 among hundreds of 64, some empty: the few next to the many have the bits of
 * a run alone. */
static void one_long_segment_among_many(const struct omma_attention_context *context) {
  enum { COUNT = 401 };
  if (!is_highest(context)) return;
  int64_t longest = test_small() || strcmp(omma_attention_context_isa(context), "scalar") == 0 ? 3000 : 60000;
  struct attention_segment segments[COUNT];
  for (int i = 0; i < COUNT; i++) {
    int64_t n = i == 200 ? longest : i % 50 == 7 ? 0 : 64;
    segments[i] = (struct attention_segment){n, n, (uint32_t)i, false};
  }
  struct attention_case problem = attention_base_case(OMMA_ATTENTION_ENCODER, OMMA_BF16, 8, segments, COUNT);
  problem.n_heads = problem.n_kv_heads = 1;
  float *found = attention_case_run(context, &problem);
  attention_case_check(&problem, found, attention_relative_limits[OMMA_BF16], 3001, "one long segment");
  for (int i = 1; i < COUNT; i += 40) {
    float *alone = attention_run_alone(context, problem, &segments[i]);
    attention_assert_same_rows(alone, found + attention_case_row(&problem, i) * 8, segments[i].n_rows * 8, "short segment");
    free(alone);
  }
  free(found);
}

enum { SHIFTED_TOKENS = 150, SHIFTED_DIM = 64, SHIFTED_VALUES = SHIFTED_TOKENS * SHIFTED_DIM };

/* One head of normal values, `shift` added to every key: rows of out. */
static void run_shifted(const struct omma_attention_context *context, float shift, bool int8_scores,
                        float out[SHIFTED_VALUES]) {
  static uint16_t rows[4][SHIFTED_VALUES];
  struct test_random random = {7};
  for (int i = 0; i < 3 * SHIFTED_VALUES; i++) {
    int tensor = i / SHIFTED_VALUES, at = i % SHIFTED_VALUES;
    float offset = tensor == 1 ? shift * (float)(at % SHIFTED_DIM % 5 - 2) : 0.0f;
    rows[tensor][at] = ommai_bf16_from_f32(test_random_normal(&random) + offset);
  }
  struct omma_attention_spec spec = {
      .dtype = OMMA_BF16, .n_heads = 1, .head_dim = SHIFTED_DIM, .n_tokens = SHIFTED_TOKENS, .int8_scores = int8_scores};
  struct omma_attention_tensors tensors = {.q = rows[0], .k = rows[1], .v = rows[2], .out = rows[3]};
  struct omma_attention_plan *plan;
  struct omma_error error;
  assert_ok(omma_attention_plan_create(context, &spec, &plan, &error), &error);
  size_t size = omma_attention_plan_workspace_size(plan, 1);
  struct guarded workspace = guarded_new((size + 63) / 64 * 64, true);
  assert_ok(omma_attention_run(plan, &tensors, workspace.data, size, NULL, &error), &error);
  for (int i = 0; i < SHIFTED_VALUES; i++) out[i] = ommai_bf16_to_f32(rows[3][i]);
  guarded_free(&workspace);
  omma_attention_plan_destroy(plan);
}

/* Scores of 8-bit integers: near those in bf16, also where all keys have much in common. */
static void scores_in_8_bits(const struct omma_attention_context *context) {
  static float plain[SHIFTED_VALUES], in_8_bits[SHIFTED_VALUES];
  for (float shift = 0.0f; shift < 5.0f; shift += 4.0f) {
    double error = 0.0, norm = 0.0;
    run_shifted(context, shift, false, plain);
    run_shifted(context, shift, true, in_8_bits);
    for (int i = 0; i < SHIFTED_VALUES; i++) {
      double difference = in_8_bits[i] - plain[i];
      error += difference * difference;
      norm += plain[i] * plain[i];
    }
    if (!(sqrt(error / norm) <= 0.03)) fail_msg("keys shifted by %g: %.3g", (double)shift, sqrt(error / norm));
  }
}

static void self_test(const struct omma_attention_context *context) {
  struct omma_error error;
  assert_ok(omma_attention_self_test(context, &error), &error);
}

ATTENTION_LEVEL_TEST(one_key)
ATTENTION_LEVEL_TEST(worst_rows)
ATTENTION_LEVEL_TEST(lengths)
ATTENTION_LEVEL_TEST(encoder_head_dims)
ATTENTION_LEVEL_TEST(decoder_head_dims)
ATTENTION_LEVEL_TEST(different_value_dims_and_groups)
ATTENTION_LEVEL_TEST(cross_segments)
ATTENTION_LEVEL_TEST(odd_values)
ATTENTION_LEVEL_TEST(decode_lengths)
ATTENTION_LEVEL_TEST(decode_shares_wide_keys)
ATTENTION_LEVEL_TEST(packing_teams_and_slices)
ATTENTION_LEVEL_TEST(chunked_prefill)
ATTENTION_LEVEL_TEST(decode_row_by_row)
ATTENTION_LEVEL_TEST(several_waves)
ATTENTION_LEVEL_TEST(one_long_segment_among_many)
ATTENTION_LEVEL_TEST(scores_in_8_bits)
ATTENTION_LEVEL_TEST(self_test)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_key),
      cmocka_unit_test(test_lengths),
      cmocka_unit_test(test_worst_rows),
      cmocka_unit_test(test_encoder_head_dims),
      cmocka_unit_test(test_decoder_head_dims),
      cmocka_unit_test(test_different_value_dims_and_groups),
      cmocka_unit_test(test_cross_segments),
      cmocka_unit_test(test_odd_values),
      cmocka_unit_test(test_decode_lengths),
      cmocka_unit_test(test_decode_shares_wide_keys),
      cmocka_unit_test(test_packing_teams_and_slices),
      cmocka_unit_test(test_chunked_prefill),
      cmocka_unit_test(test_decode_row_by_row),
      cmocka_unit_test(test_several_waves),
      cmocka_unit_test(test_one_long_segment_among_many),
      cmocka_unit_test(test_scores_in_8_bits),
      cmocka_unit_test(test_self_test),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
