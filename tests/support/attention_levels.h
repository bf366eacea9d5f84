/* Attention problems on every CPU level of this machine, with what their results must keep. */
#pragma once

#include "support/attention_case.h"

/* Relative errors by enum omma_dtype, on normal inputs. */
extern const double attention_relative_limits[3];

/* The types of the causal and decode modes: f32, bf16, f32 over keys and values in bf16, f32 and
 * bf16 over integers with scales. */
enum { ATTENTION_DECODER_TYPES = 5 };

/* Two heads of both kinds. */
struct attention_case attention_base_case(enum omma_attention_mode mode, enum omma_dtype dtype, int32_t head_dim,
                                          const struct attention_segment *segments, int64_t n_segments);
/* types: an index up to ATTENTION_DECODER_TYPES. */
struct attention_case attention_decoder_case(enum omma_attention_mode mode, int types, int32_t head_dim,
                                             const struct attention_segment *segments, int64_t n_segments);

/* Runs `body` once for every CPU level of this machine that has kernels of its own; with
 * OMMA_TEST_LEVEL in the environment, at that level alone. */
void attention_on_every_level(void (*body)(const struct omma_attention_context *context));

/* A test of the name test_`name` that does so. */
#define ATTENTION_LEVEL_TEST(name)        \
  static void test_##name(void **state) { \
    (void)state;                          \
    attention_on_every_level(name);       \
  }

/* Runs the case and compares every row_step-th row with the result in double precision. */
void attention_check(const struct omma_attention_context *context, const struct attention_case *problem, int64_t row_step);

/* Fails the test where bits differ. */
void attention_assert_same_rows(const float *a, const float *b, int64_t count, const char *what);

/* One of the case's segments alone, with this thread alone; to be freed. */
float *attention_run_alone(const struct omma_attention_context *context, struct attention_case problem,
                           const struct attention_segment *segment);

/* Every healthy segment of the case has the bits of a run alone. */
void attention_assert_same_as_alone(const struct omma_attention_context *context, const struct attention_case *problem,
                                    const char *what);

/* A prompt of `length` tokens in chunks of many lengths has the bits of the whole prompt, in pages
 * or not, wherever a chunk's tiles begin. The case's segments are not used. */
void attention_assert_same_in_chunks(const struct omma_attention_context *context, struct attention_case problem,
                                     int64_t length);

/* Rows decoded together with others of their sequence have the bits of rows decoded alone. window:
 * 0: none. */
void attention_assert_same_row_by_row(const struct omma_attention_context *context, int64_t window);
