/* Tile kernels in f32 for AVX2, with the queries in the lanes: f32, and bf16 and f16 widened while packing. The scheme is that of
 * attention_tile_avx512.h in the small: 4 keys, or 4 dimensions, against 24 queries in 12 accumulators.
 * Packed block: keys [BLOCK / 4][head_dim][4], then values [v_head_dim / 4][BLOCK][4]. */
#include <immintrin.h>
#include <math.h>

#include "base/checked.h"
#include "kernels/attention_element.h"
#include "kernels/attention_kernels.h"

#define INLINE static inline __attribute__((always_inline))
#define LOG2_E 1.44269504088896340736f
#define SLACK 8.0f /* a row's maximum is raised when a block exceeds it by more, in units of log2 */

enum { BLOCK = OMMAI_ATTENTION_BLOCK, LANES = 8, NV = 3, ROWS = NV * LANES, GROUP = 4 };

static int64_t value_groups(int32_t v_head_dim) { return ommai_div_up(v_head_dim, GROUP); }

static size_t block_bytes(int32_t head_dim, int32_t v_head_dim) {
  return (size_t)(BLOCK * (head_dim + value_groups(v_head_dim) * GROUP)) * sizeof(float);
}

/* Queries, scores that become weights, sums. */
static size_t scratch_bytes(int32_t head_dim, int32_t v_head_dim) {
  return (size_t)((head_dim + BLOCK + value_groups(v_head_dim) * GROUP) * ROWS) * sizeof(float);
}

static void pack(const struct ommai_attention_pack *job, enum omma_dtype dtype) {
  float *keys = job->packed, *values = keys + (int64_t)BLOCK * job->head_dim;
  int64_t dims = value_groups(job->v_head_dim) * GROUP;
  for (int64_t key = 0; key < BLOCK; key++) {
    float *group = keys + key / GROUP * job->head_dim * GROUP + key % GROUP;
    for (int64_t d = 0; d < job->head_dim; d++) {
      group[d * GROUP] = key < job->n_keys ? ommai_attention_load(job->k, key * job->k_stride + d, dtype) : 0.0f;
    }
    for (int64_t d = 0; d < dims; d++) {
      bool inside = key < job->n_keys && d < job->v_head_dim;
      values[(d / GROUP * BLOCK + key) * GROUP + d % GROUP] =
          inside ? ommai_attention_load(job->v, key * job->v_stride + d, dtype) : 0.0f;
    }
  }
}

/* [head_dim][ROWS], negated where the scale is negative; rows that do not exist are zeros. */
static void pack_queries(const struct ommai_attention_tile *tile, float *out, enum omma_dtype dtype) {
  float sign = tile->scale < 0.0f ? -1.0f : 1.0f;
  for (int64_t row = 0; row < ROWS; row++) {
    for (int64_t d = 0; d < tile->head_dim; d++) {
      out[d * ROWS + row] = row < tile->n_rows ? sign * ommai_attention_load(tile->q, row * tile->q_stride + d, dtype) : 0.0f;
    }
  }
}

/* 2^x for x up to some tens, 0 below 2^-126; fit as in attention_avx512.h. NaN stays NaN. */
INLINE __m256 exp2_lanes(__m256 x) {
  __m256 whole = _mm256_floor_ps(x), f = _mm256_sub_ps(x, whole);
  __m256 p = _mm256_fmadd_ps(f, _mm256_set1_ps(0.0018671317f), _mm256_set1_ps(0.009017027f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0.055799916f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0.24016444f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0.6931513f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.0f));
  __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(whole), 23);
  p = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
  return _mm256_and_ps(p, _mm256_cmp_ps(x, _mm256_set1_ps(-126.0f), _CMP_NLT_UQ));
}

/* To the nearest bf16, ties to even; weights are neither NaN with a small payload nor infinite. */
INLINE __m256 round_bf16(__m256 value) {
  __m256i bits = _mm256_castps_si256(value);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  bits = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  return _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32((int)0xffff0000u)));
}

/* acc[4][NV] = sum over n of a [n][4] times b [n][ROWS]. */
INLINE void multiply(__m256 acc[GROUP][NV], const float *a, const float *b, int64_t n) {
#pragma GCC unroll 4
  for (int i = 0; i < GROUP; i++) acc[i][0] = acc[i][1] = acc[i][2] = _mm256_setzero_ps();
#pragma GCC unroll 1
  for (int64_t t = 0; t < n; t++, a += GROUP, b += ROWS) {
    __m256 x = _mm256_loadu_ps(b), y = _mm256_loadu_ps(b + LANES), z = _mm256_loadu_ps(b + 2 * LANES);
#pragma GCC unroll 4
    for (int i = 0; i < GROUP; i++) {
      __m256 one = _mm256_broadcast_ss(a + i);
      acc[i][0] = _mm256_fmadd_ps(one, x, acc[i][0]);
      acc[i][1] = _mm256_fmadd_ps(one, y, acc[i][1]);
      acc[i][2] = _mm256_fmadd_ps(one, z, acc[i][2]);
    }
  }
}

static void multiply_keys(const float *keys, const float *queries, int64_t head_dim, int64_t n_groups, float *scores) {
  for (int64_t group = 0; group < n_groups; group++, keys += head_dim * GROUP) {
    __m256 acc[GROUP][NV];
    multiply(acc, keys, queries, head_dim);
#pragma GCC unroll 4
    for (int i = 0; i < GROUP; i++) {
#pragma GCC unroll 3
      for (int v = 0; v < NV; v++) _mm256_storeu_ps(scores + ((group * GROUP + i) * NV + v) * LANES, acc[i][v]);
    }
  }
}

/* Adds a block's values to `sums`, which are multiplied by rescale first; `first`: there are none yet. */
static void multiply_values(const float *values, const float *weights, int64_t n_keys, int64_t n_groups, float *sums,
                            bool first, const __m256 rescale[NV]) {
  for (int64_t group = 0; group < n_groups; group++, values += BLOCK * GROUP, sums += GROUP * ROWS) {
    __m256 acc[GROUP][NV];
    multiply(acc, values, weights, n_keys);
#pragma GCC unroll 4
    for (int i = 0; i < GROUP; i++) {
#pragma GCC unroll 3
      for (int v = 0; v < NV; v++) {
        float *at = sums + (i * NV + v) * LANES;
        _mm256_storeu_ps(at, first ? acc[i][v] : _mm256_fmadd_ps(_mm256_loadu_ps(at), rescale[v], acc[i][v]));
      }
    }
  }
}

struct softmax {
  __m256 scale;
  __m256 maximum[NV], sum[NV], rescale[NV];
};

/* Scores of the rows of register v to weights. `seen`: keys of the block that the register's first row sees; each next row sees one
 * more, up to `last`. */
INLINE void weigh(struct softmax *softmax, int v, float *scores, int64_t n_keys, int64_t seen, int64_t last, bool round) {
  const __m256 hidden = _mm256_set1_ps(-INFINITY);
  __m256i limit = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32((int)seen));
  limit = _mm256_min_epi32(limit, _mm256_set1_epi32((int)last));
  __m256 largest = hidden, before = softmax->maximum[v], sum = _mm256_setzero_ps();
  for (int64_t key = 0; key < n_keys; key++) {
    float *at = scores + (key * NV + v) * LANES;
    __m256 mask = _mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, _mm256_set1_epi32((int)key)));
    __m256 score = _mm256_blendv_ps(hidden, _mm256_mul_ps(_mm256_loadu_ps(at), softmax->scale), mask);
    largest = _mm256_max_ps(largest, score);
    _mm256_storeu_ps(at, score);
  }
  __m256 raise = _mm256_cmp_ps(largest, _mm256_add_ps(before, _mm256_set1_ps(SLACK)), _CMP_GT_OQ);
  softmax->maximum[v] = _mm256_blendv_ps(before, largest, raise);
  softmax->rescale[v] = exp2_lanes(_mm256_sub_ps(before, softmax->maximum[v]));
  for (int64_t key = 0; key < n_keys; key++) {
    float *at = scores + (key * NV + v) * LANES;
    __m256 weight = exp2_lanes(_mm256_sub_ps(_mm256_loadu_ps(at), softmax->maximum[v]));
    sum = _mm256_add_ps(sum, weight);
    _mm256_storeu_ps(at, round ? round_bf16(weight) : weight);
  }
  softmax->sum[v] = _mm256_fmadd_ps(softmax->sum[v], softmax->rescale[v], sum);
}

static void write_rows(const struct ommai_attention_tile *tile, const float *sums, const struct softmax *softmax,
                       enum omma_dtype dtype) {
  float total[ROWS];
  for (int v = 0; v < NV; v++) _mm256_storeu_ps(total + v * LANES, softmax->sum[v]);
  for (int64_t row = 0; row < tile->n_rows; row++) {
    for (int64_t d = 0; d < tile->v_head_dim; d++) {
      ommai_attention_store(tile->out, row * tile->out_stride + d, dtype, sums[d * ROWS + row] / total[row] + 0.0f);
    }
  }
}

INLINE void attend(const struct ommai_attention_tile *tile, enum omma_dtype dtype) {
  int64_t n_groups = value_groups(tile->v_head_dim);
  int64_t stride = ommai_round_up((int64_t)block_bytes(tile->head_dim, tile->v_head_dim), 64) / (int64_t)sizeof(float);
  float *queries = tile->scratch, *scores = queries + (int64_t)tile->head_dim * ROWS, *sums = scores + BLOCK * ROWS;
  struct softmax softmax = {.scale = _mm256_set1_ps(fabsf(tile->scale) * LOG2_E)};
  for (int v = 0; v < NV; v++) {
    softmax.maximum[v] = _mm256_set1_ps(-INFINITY);
    softmax.sum[v] = _mm256_setzero_ps();
  }
  pack_queries(tile, queries, dtype);
  const float *block = tile->packed;
  for (int64_t begin = 0; begin < tile->n_keys; begin += BLOCK, block += stride) {
    int64_t last = ommai_min_i64(tile->n_keys - begin, BLOCK), n_keys = ommai_round_up(last, GROUP);
    int64_t seen = ommai_min_i64(ommai_max_i64(tile->first_visible - begin, -BLOCK), BLOCK);
    multiply_keys(block, queries, tile->head_dim, n_keys / GROUP, scores);
    for (int v = 0; v < NV; v++) weigh(&softmax, v, scores, n_keys, seen + v * LANES, last, dtype == OMMA_BF16);
    multiply_values(block + (int64_t)BLOCK * tile->head_dim, scores, n_keys, n_groups, sums, begin == 0, softmax.rescale);
  }
  write_rows(tile, sums, &softmax, dtype);
}

#define AVX2_KERNEL(type, TYPE)                                                                            \
  static void pack_##type(const struct ommai_attention_pack *job) { pack(job, OMMA_##TYPE); }              \
  static void attend_##type(const struct ommai_attention_tile *tile) { attend(tile, OMMA_##TYPE); }        \
  const struct ommai_attention_tile_kernel ommai_attention_tile_##type##_avx2 = {"tile_" #type "_24_avx2", \
                                                                                 OMMAI_CPU_AVX2,           \
                                                                                 OMMA_##TYPE,              \
                                                                                 ROWS,                     \
                                                                                 LANES,                    \
                                                                                 block_bytes,              \
                                                                                 scratch_bytes,            \
                                                                                 pack_##type,              \
                                                                                 attend_##type}

AVX2_KERNEL(f32, F32);
AVX2_KERNEL(bf16, BF16);
AVX2_KERNEL(f16, F16);
