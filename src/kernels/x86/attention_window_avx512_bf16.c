/* The window kernel for bf16 with VDPBF16PS: keys in the lanes, everything in one pass.
 *
 *   keys      packed as [units of head_dim][64 keys]: 4 query rows, a broadcast each, against up to
 *             4 registers of 16 keys
 *   weights   [64 rows][64 keys] bf16 in the scratch: rows in the order of their keys, so they are
 *             written as they are made
 *   values    packed as [column][32 pairs of keys][16 dimensions], the last column 8 wide where
 *             that is enough:
 *             4 rows of weights, a broadcast each, against up to 6 registers of 16 dimensions
 *
 * A unit is two elements in 32 bits: two dimensions of a query and a key, two keys of a weight and
 * a value. Queries are read in place, and the result is in the order in which it is written. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/attention_kernels.h"
#include "kernels/attention_prefetch.h"
#include "kernels/x86/attention_avx512.h"

enum {
  KEYS = OMMAI_ATTENTION_BLOCK,
  PAIRS = KEYS / 2,
  LANES = 16,
  ROWS = 4, /* that are worked on at once */
  MAX_ROWS = 64,
  MAX_COLUMNS = 6, /* of values at once */
  MAX_UNITS = OMMA_ATTENTION_MAX_HEAD_DIM / 2
};

#define LOG2_E 1.44269504088896340736f

static int64_t key_units(int32_t head_dim) { return ommai_div_up(head_dim, 2); }

/* The same as the tile kernel's. */
static size_t block_bytes(int32_t head_dim, int32_t v_head_dim) {
  return (size_t)(KEYS * key_units(head_dim) + PAIRS * ommai_round_up(v_head_dim, LANES / 2)) * sizeof(uint32_t);
}

struct scratch {
  uint32_t weights[MAX_ROWS][PAIRS];
  float inverse[MAX_ROWS];               /* of the sums of the weights */
  uint32_t queries[ROWS][MAX_UNITS + 1]; /* one more for the zero after the last element */
};

static size_t scratch_bytes(int32_t head_dim, int32_t v_head_dim) {
  (void)head_dim;
  (void)v_head_dim;
  return sizeof(struct scratch);
}

/* ---- packing --------------------------------------------------------------------------------- */

OMMAI_INLINE __mmask32 first_elements(int64_t count) { return count >= 32 ? 0xffffffffu : (1u << count) - 1; }

static void pack_keys(const struct ommai_attention_pack *job, uint32_t *out) {
  int64_t units = key_units(job->head_dim);
  for (int64_t key = 0; key < job->n_keys; key += LANES) {
    const uint16_t *rows = (const uint16_t *)job->k + key * job->k_stride;
    int64_t n_rows = job->n_keys - key;
    for (int64_t at = 0; at < units; at += LANES) {
      __m512i r[LANES], columns[LANES];
      __mmask32 mask = first_elements(job->head_dim - 2 * at);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) {
        r[i] = _mm512_maskz_loadu_epi16(i < n_rows ? mask : 0, rows + i * job->k_stride + 2 * at);
      }
      ommai_avx512_transpose_16x16(r, columns);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) {
        if (at + i < units) _mm512_store_si512(out + (at + i) * KEYS + key, columns[i]);
      }
    }
  }
}

static void pack_values(const struct ommai_attention_pack *job, uint32_t *out) {
  for (int64_t pair = 0; 2 * pair < job->n_keys; pair++) {
    const uint16_t *row = (const uint16_t *)job->v + 2 * pair * job->v_stride;
    for (int64_t at = 0; at < job->v_head_dim; at += LANES) {
      __mmask16 mask = ommai_avx512_first(job->v_head_dim - at);
      __m256i a = _mm256_maskz_loadu_epi16(mask, row + at);
      __m256i b = _mm256_maskz_loadu_epi16(2 * pair + 1 < job->n_keys ? mask : (__mmask16)0, row + job->v_stride + at);
      __m512i units = _mm512_or_si512(_mm512_cvtepu16_epi32(a), _mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16));
      uint32_t *column = out + at * PAIRS;
      if (job->v_head_dim - at > LANES / 2) {
        _mm512_store_si512(column + pair * LANES, units);
      } else {
        _mm256_store_si256((__m256i *)(void *)(column + pair * LANES / 2), _mm512_castsi512_si256(units));
      }
    }
  }
}

static void pack(const struct ommai_attention_pack *job) {
  uint32_t *packed = job->packed;
  pack_keys(job, packed);
  pack_values(job, packed + KEYS * key_units(job->head_dim));
}

/* ---- weights --------------------------------------------------------------------------------- */

OMMAI_INLINE __m512i broadcast(const void *unit) {
  int bits;
  memcpy(&bits, unit, sizeof bits);
  return _mm512_set1_epi32(bits);
}

/* All lanes of each of four registers joined: that of register r in lane r of each 128 bits. */
OMMAI_INLINE __m512 fold(const __m512 x[ROWS], __m512 (*join)(__m512, __m512)) {
  __m512 parts = ommai_avx512_join4(x, join);
  parts = join(parts, _mm512_shuffle_f32x4(parts, parts, 0x4e));
  return join(parts, _mm512_shuffle_f32x4(parts, parts, 0xb1));
}

/* acc[4][n] = 4 query rows times n registers of 16 keys: scores, unscaled. */
OMMAI_INLINE void multiply_keys(const uint32_t *keys, const void *const q[ROWS], int64_t units, __m512 acc[ROWS][4], int n) {
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; r++) {
#pragma GCC unroll 4
    for (int c = 0; c < n; c++) acc[r][c] = _mm512_setzero_ps();
  }
  const char *q0 = q[0], *q1 = q[1], *q2 = q[2], *q3 = q[3];
#pragma GCC unroll 1
  for (int64_t t = 0; t < units; t++, keys += KEYS) {
    __m512bh columns[4];
    __m512bh unit[ROWS] = {(__m512bh)broadcast(q0 + 4 * t), (__m512bh)broadcast(q1 + 4 * t), (__m512bh)broadcast(q2 + 4 * t),
                           (__m512bh)broadcast(q3 + 4 * t)};
#pragma GCC unroll 4
    for (int c = 0; c < n; c++) columns[c] = (__m512bh)_mm512_load_si512(keys + c * LANES);
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
#pragma GCC unroll 4
      for (int c = 0; c < n; c++) acc[r][c] = _mm512_dpbf16_ps(acc[r][c], unit[r], columns[c]);
    }
  }
}

/* Each row's largest score, scaled, in all lanes. */
OMMAI_INLINE void find_maxima(const __m512 scores[ROWS][4], __m512 scale, __m512 maxima[ROWS], int n) {
  __m512 largest[ROWS];
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; r++) {
    largest[r] = scores[r][0];
#pragma GCC unroll 4
    for (int c = 1; c < n; c++) largest[r] = _mm512_max_ps(largest[r], scores[r][c]);
  }
  __m512 scaled = _mm512_mul_ps(fold(largest, ommai_avx512_larger), scale);
  maxima[0] = _mm512_permute_ps(scaled, 0x00);
  maxima[1] = _mm512_permute_ps(scaled, 0x55);
  maxima[2] = _mm512_permute_ps(scaled, 0xaa);
  maxima[3] = _mm512_permute_ps(scaled, 0xff);
}

/* Scores of 4 rows to weights, and the inverse of their sums as rounded; n: registers of 16
 * keys. */
OMMAI_INLINE void make_weights(const __m512 scores[ROWS][4], __m512 scale, uint32_t *weights, float *inverse, int n) {
  const __m512bh ones = (__m512bh)_mm512_set1_epi32(0x3f803f80);
  __m512 maxima[ROWS], sums[ROWS];
  find_maxima(scores, scale, maxima, n);
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; r++) {
    __m512 w[4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
      w[c] = c < n ? ommai_avx512_exp2_cubic(_mm512_fmsub_ps(scores[r][c], scale, maxima[r])) : _mm512_setzero_ps();
    }
    __m512bh units = _mm512_cvtne2ps_pbh(w[1], w[0]);
    sums[r] = _mm512_dpbf16_ps(_mm512_setzero_ps(), units, ones);
    _mm512_store_si512(weights + r * PAIRS, (__m512i)units);
    if (n > 2) {
      units = _mm512_cvtne2ps_pbh(w[3], w[2]);
      sums[r] = _mm512_dpbf16_ps(sums[r], units, ones);
      _mm512_store_si512(weights + r * PAIRS + LANES, (__m512i)units);
    }
  }
  _mm_store_ps(inverse, _mm_div_ps(_mm_set1_ps(1.0f), _mm512_castps512_ps128(fold(sums, ommai_avx512_sum))));
}

/* Four query rows from row `first` on; beyond the last row it stands for those that are missing. */
OMMAI_INLINE void find_rows(const struct ommai_attention_tile *tile, int32_t first, struct scratch *scratch,
                            const void *q[ROWS]) {
  for (int r = 0; r < ROWS; r++) {
    int64_t row = ommai_min_i64(first + r, tile->n_rows - 1);
    const uint16_t *from = (const uint16_t *)tile->q + row * tile->q_stride;
    q[r] = from;
    if (tile->head_dim % 2 == 0 && tile->scale >= 0.0f) continue;
    uint16_t *copy = (uint16_t *)scratch->queries[r];
    uint16_t sign = tile->scale < 0.0f ? 0x8000 : 0;
    for (int64_t d = 0; d < tile->head_dim; d++) copy[d] = from[d] ^ sign;
    copy[tile->head_dim] = 0;
    q[r] = copy;
  }
}

/* Weights of all rows; n: registers of 16 keys. */
OMMAI_INLINE void weigh(const struct ommai_attention_tile *tile, struct scratch *scratch, int n) {
  int64_t units = key_units(tile->head_dim);
  __mmask16 last = ommai_avx512_first(tile->n_keys - (n - 1) * LANES);
  __m512 scale = _mm512_set1_ps(fabsf(tile->scale) * LOG2_E);
  for (int32_t row = 0; row < tile->n_rows; row += ROWS) {
    const void *q[ROWS];
    __m512 scores[ROWS][4];
    ommai_attention_prefetch_step(tile->prefetch);
    find_rows(tile, row, scratch, q);
    multiply_keys(tile->packed, q, units, scores, n);
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
      scores[r][n - 1] = _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), last, scores[r][n - 1]);
    }
    make_weights(scores, scale, scratch->weights[row], scratch->inverse + row, n);
  }
}

/* ---- results --------------------------------------------------------------------------------- */

OMMAI_INLINE __m512 multiply_add(__m512 sum, __m512i a, __m512i b, bool half) {
  if (!half) return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  __m256bh low_a = (__m256bh)_mm512_castsi512_si256(a), low_b = (__m256bh)_mm512_castsi512_si256(b);
  return _mm512_castps256_ps512(_mm256_dpbf16_ps(_mm512_castps512_ps256(sum), low_a, low_b));
}

/* acc[4][n] = 4 rows of weights times n columns of values; half: of the last column there are 8
 * dimensions. */
OMMAI_INLINE void multiply_values(const uint32_t *values, const uint32_t *weights, int64_t n_pairs,
                                  __m512 acc[ROWS][MAX_COLUMNS], int n, bool half) {
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; r++) {
#pragma GCC unroll 6
    for (int c = 0; c < n; c++) acc[r][c] = _mm512_setzero_ps();
  }
#pragma GCC unroll 1
  for (int64_t pair = 0; pair < n_pairs; pair++) {
    __m512i columns[MAX_COLUMNS];
#pragma GCC unroll 6
    for (int c = 0; c < n; c++) {
      const uint32_t *column = values + c * PAIRS * LANES;
      if (half && c == n - 1) {
        columns[c] = _mm512_castsi256_si512(_mm256_load_si256((const __m256i *)(const void *)(column + pair * LANES / 2)));
      } else {
        columns[c] = _mm512_load_si512(column + pair * LANES);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
      __m512i unit = broadcast(weights + r * PAIRS + pair);
#pragma GCC unroll 6
      for (int c = 0; c < n; c++) acc[r][c] = multiply_add(acc[r][c], unit, columns[c], half && c == n - 1);
    }
  }
}

/* Adding zero turns a negative zero into a positive one. */
OMMAI_INLINE __m512 result(__m512 sum, __m512 inverse) {
  return _mm512_add_ps(_mm512_mul_ps(sum, inverse), _mm512_setzero_ps());
}

/* Four rows of sums over their weights to rows of out. */
OMMAI_INLINE void write_rows(const struct ommai_attention_tile *tile, const float *inverse, int32_t row, int64_t at,
                             const __m512 acc[ROWS][MAX_COLUMNS], int n) {
  uint16_t *out = (uint16_t *)tile->out + row * tile->out_stride + at;
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; r++, out += tile->out_stride) {
    if (row + r >= tile->n_rows) break;
    __m512 factor = _mm512_set1_ps(inverse[r]);
#pragma GCC unroll 3
    for (int c = 0; c < n; c += 2) {
      int columns = n - c < 2 ? 1 : 2;
      __m512 low = result(acc[r][c], factor), high = columns == 2 ? result(acc[r][c + 1], factor) : _mm512_setzero_ps();
      int64_t count = ommai_min_i64(tile->v_head_dim - at - c * LANES, columns * LANES);
      _mm512_mask_storeu_epi16(out + c * LANES, first_elements(count), (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
  }
}

/* n columns of all rows, from dimension `at` on. */
OMMAI_INLINE void finish(const struct ommai_attention_tile *tile, const struct scratch *scratch, int64_t at, int n, bool half) {
  const uint32_t *values = (const uint32_t *)tile->packed + KEYS * key_units(tile->head_dim) + at * PAIRS;
  int64_t n_pairs = ommai_div_up(tile->n_keys, 2);
  for (int32_t row = 0; row < tile->n_rows; row += ROWS) {
    __m512 acc[ROWS][MAX_COLUMNS];
    ommai_attention_prefetch_step(tile->prefetch);
    multiply_values(values, scratch->weights[row], n_pairs, acc, n, half);
    write_rows(tile, scratch->inverse + row, row, at, acc, n);
  }
}

/* ---- a tile ---------------------------------------------------------------------------------- */

/* A function of constants only for each number of columns. */
#define FINISH(n)                                                                                                         \
  static void finish_##n(const struct ommai_attention_tile *tile, const struct scratch *scratch, int64_t at, bool half) { \
    if (half) {                                                                                                           \
      finish(tile, scratch, at, n, true);                                                                                 \
    } else {                                                                                                              \
      finish(tile, scratch, at, n, false);                                                                                \
    }                                                                                                                     \
  }
FINISH(1)
FINISH(2)
FINISH(3)
FINISH(4)
FINISH(5)
FINISH(6)
#undef FINISH

/* All columns, in panels of nearly the same width. */
static void finish_all(const struct ommai_attention_tile *tile, const struct scratch *scratch) {
  static void (*const panels[])(const struct ommai_attention_tile *, const struct scratch *, int64_t, bool) = {
      finish_1, finish_2, finish_3, finish_4, finish_5, finish_6};
  int64_t n_columns = ommai_div_up(tile->v_head_dim, LANES), first = 0;
  for (int64_t left = ommai_div_up(n_columns, MAX_COLUMNS); left > 0; left--) {
    int64_t at = first * LANES;
    first += ommai_div_up(n_columns - first, left);
    panels[first - at / LANES - 1](tile, scratch, at, first * LANES - tile->v_head_dim >= LANES / 2);
  }
}

static void weigh_16(const struct ommai_attention_tile *tile) { weigh(tile, tile->scratch, 1); }
static void weigh_32(const struct ommai_attention_tile *tile) { weigh(tile, tile->scratch, 2); }
static void weigh_48(const struct ommai_attention_tile *tile) { weigh(tile, tile->scratch, 3); }
static void weigh_64(const struct ommai_attention_tile *tile) { weigh(tile, tile->scratch, 4); }

static void attend(const struct ommai_attention_tile *tile) {
  static void (*const weigh_keys[])(const struct ommai_attention_tile *) = {weigh_16, weigh_32, weigh_48, weigh_64};
  weigh_keys[(tile->n_keys - 1) / LANES](tile);
  finish_all(tile, tile->scratch);
}

const struct ommai_attention_tile_kernel ommai_attention_window_bf16_avx512_bf16 = {"window_bf16_64_avx512_bf16",
                                                                                    OMMAI_CPU_AVX512_BF16,
                                                                                    {OMMA_BF16, OMMA_BF16},
                                                                                    MAX_ROWS,
                                                                                    ROWS,
                                                                                    block_bytes,
                                                                                    scratch_bytes,
                                                                                    pack,
                                                                                    attend};
