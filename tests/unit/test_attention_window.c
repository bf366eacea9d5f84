/* The sliding window: against the definition in double precision, and the bits of a row whatever is
 * computed next to it. */
#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "base/team.h"
#include "support/attention_levels.h"

static const int64_t windows[] = {1, 2, 63, 64, 65, 100, 4096};
enum { WINDOWS = sizeof windows / sizeof *windows };

/* Prompts from the start and chunks far into a sequence; tiles whose rows' windows begin in
 * different blocks, and, at 4096, a window larger than every sequence but one. */
static void definition(const struct omma_attention_context *context) {
  const struct attention_segment segments[] = {{65, 65, 1, false},  {1, 200, 2, false}, {130, 330, 3, false}, {0, 90, 4, false},
                                               {40, 577, 5, false}, {2, 127, 6, false}, {3, 4200, 7, false}};
  for (int mode = OMMA_ATTENTION_CAUSAL; mode <= OMMA_ATTENTION_DECODE; mode++) {
    for (int types = 0; types < ATTENTION_DECODER_TYPES; types++) {
      for (int i = test_small() ? types % 3 : 0; i < WINDOWS; i += test_small() ? 3 : 1) {
        struct attention_case problem = attention_decoder_case(mode, types, 40, segments, 7);
        problem.window = windows[i];
        problem.n_heads = 6;
        problem.paged = (i + types) % 2;
        problem.pad = i % 3;
        attention_check(context, &problem, 5);
      }
    }
  }
}

static void head_dims(const struct omma_attention_context *context) {
  static const int32_t dims[] = {1, 17, 64, 72, 80, 128, 192, 256};
  const struct attention_segment segments[] = {{50, 170, 1, false}, {90, 90, 2, false}};
  for (int mode = OMMA_ATTENTION_CAUSAL; mode <= OMMA_ATTENTION_DECODE; mode++) {
    for (int types = 0; types < ATTENTION_DECODER_TYPES; types++) {
      for (size_t i = 0; i < sizeof dims / sizeof *dims; i += test_small() ? 3 : 1) {
        struct attention_case problem = attention_decoder_case(mode, types, dims[i], segments, 2);
        problem.window = 30;
        problem.n_kv_heads = 1;
        problem.v_head_dim = dims[(i + 3) % (sizeof dims / sizeof *dims)];
        problem.scale = i % 2 ? -0.05f : 0.0f;
        problem.paged = i % 2;
        attention_check(context, &problem, 7);
      }
    }
  }
}

/* Many heads over one compressed row that is key and, in part, value. */
static void wide_keys(const struct omma_attention_context *context) {
  const struct attention_segment segments[] = {{1, 130, 1, false}, {2, 577, 2, false}};
  for (int types = 0; types < ATTENTION_DECODER_TYPES; types++) {
    struct attention_case problem = attention_decoder_case(OMMA_ATTENTION_DECODE, types, 576, segments, 2);
    problem.v_head_dim = 512;
    problem.n_heads = 6;
    problem.n_kv_heads = 1;
    problem.scale = 0.02f;
    problem.window = 300;
    problem.paged = true;
    attention_check(context, &problem, 3);
  }
}

static void odd_values(const struct omma_attention_context *context) {
  const struct attention_segment segments[] = {{70, 270, 1, false}, {150, 150, 2, false}};
  for (int mode = OMMA_ATTENTION_CAUSAL; mode <= OMMA_ATTENTION_DECODE; mode++) {
    for (int types = 0; types < ATTENTION_DECODER_TYPES; types++) {
      for (int values = VALUES_EQUAL; values <= VALUES_ALTERNATING; values++) {
        struct attention_case problem = attention_decoder_case(mode, types, 40, segments, 2);
        problem.values = values;
        problem.window = 33;
        attention_check(context, &problem, 5);
      }
    }
  }
}

/* ---- equality -------------------------------------------------------------------------------- */

static void packing_teams_and_slices(const struct omma_attention_context *context) {
  const struct attention_segment segments[] = {{65, 65, 1, false},    {30, 30, 2, true},   {300, 300, 3, false},
                                               {0, 0, 4, false},      {1, 1, 5, false},    {150, 150, 6, true},
                                               {140, 1140, 7, false}, {1, 1100, 9, false}, {2, 64, 10, true}};
  struct omma_error error;
  struct ommai_team *team;
  assert_ok(ommai_team_create(3, false, &ommai_default_allocator, &team, &error), &error);
  for (int mode = OMMA_ATTENTION_CAUSAL; mode <= OMMA_ATTENTION_DECODE; mode++) {
    for (int types = 0; types < ATTENTION_DECODER_TYPES; types++) {
      for (int i = 1; i < WINDOWS; i += test_small() ? 4 : 2) {
        struct attention_case problem = attention_decoder_case(mode, types, 40, segments, 9);
        problem.window = windows[i];
        problem.n_heads = 4;
        problem.team = ommai_team_interface(team);
        problem.tail_rows = 300;
        attention_assert_same_as_alone(context, &problem, "team");
        problem.slice = 3;
        problem.paged = true;
        problem.pad = 5;
        attention_assert_same_as_alone(context, &problem, "slices and pages");
      }
    }
  }
  ommai_team_destroy(team);
}

static void chunked_prefill(const struct omma_attention_context *context) {
  for (int types = 0; types < ATTENTION_DECODER_TYPES; types++) {
    for (int w = 0; w < WINDOWS - 1; w += test_small() ? 3 : 1) {
      struct attention_case problem = attention_decoder_case(OMMA_ATTENTION_CAUSAL, types, 40, NULL, 1);
      problem.window = w == 0 ? 300 : windows[w];
      attention_assert_same_in_chunks(context, problem, 700);
    }
  }
}

static void decode_row_by_row(const struct omma_attention_context *context) { attention_assert_same_row_by_row(context, 257); }

/* A window that hides nothing is no window, bit for bit. */
static void larger_than_the_context(const struct omma_attention_context *context) {
  static const int64_t large[3] = {700, 4096, INT64_MAX};
  const struct attention_segment segments[] = {{70, 700, 1, false}, {300, 300, 2, false}, {1, 513, 3, false}};
  for (int mode = OMMA_ATTENTION_CAUSAL; mode <= OMMA_ATTENTION_DECODE; mode++) {
    for (int types = 0; types < ATTENTION_DECODER_TYPES; types++) {
      struct attention_case problem = attention_decoder_case(mode, types, 72, segments, 3);
      int64_t count = attention_case_row(&problem, 3) * problem.n_heads * problem.v_head_dim;
      float *expected = attention_case_run(context, &problem);
      for (size_t i = test_small() ? (size_t)types % 3 : 0; i < 3; i += test_small() ? 3 : 1) {
        problem.window = large[i];
        float *found = attention_case_run(context, &problem);
        attention_assert_same_rows(found, expected, count, "large window");
        free(found);
      }
      free(expected);
    }
  }
}

ATTENTION_LEVEL_TEST(definition)
ATTENTION_LEVEL_TEST(head_dims)
ATTENTION_LEVEL_TEST(wide_keys)
ATTENTION_LEVEL_TEST(odd_values)
ATTENTION_LEVEL_TEST(packing_teams_and_slices)
ATTENTION_LEVEL_TEST(chunked_prefill)
ATTENTION_LEVEL_TEST(decode_row_by_row)
ATTENTION_LEVEL_TEST(larger_than_the_context)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_definition),
      cmocka_unit_test(test_head_dims),
      cmocka_unit_test(test_wide_keys),
      cmocka_unit_test(test_odd_values),
      cmocka_unit_test(test_packing_teams_and_slices),
      cmocka_unit_test(test_chunked_prefill),
      cmocka_unit_test(test_decode_row_by_row),
      cmocka_unit_test(test_larger_than_the_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
