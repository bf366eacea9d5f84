/* The tile kernel with the queries in the lanes, for vectors of any width. The including file
 * includes attention_lanes.h and defines, before the include:
 *
 *   GROUP, MAX_NV          keys (or dimensions of a value) and registers of queries in one product:
 *   GROUP MAX_NV accumulators
 *   UNIT_DIMS, UNIT_KEYS   dimensions of q and k, and keys of v, that one unit of packed data holds
 *   UNIT_WORDS             32-bit words in a unit
 *   SUM_UNITS              units of head_dim, at most, whose products are added up one after the
 *                          other
 *   multiply(acc, a, b, n, nv)       acc[GROUP][nv] = sum over n units of a [n][GROUP] times b
 *   [n][nv LANES]
 *   pack_keys(job, out, types)       to [BLOCK / GROUP][units of head_dim][GROUP] units
 *   pack_values(job, out, types)     to [v_head_dim / GROUP][BLOCK / UNIT_KEYS][GROUP] units;
 *   v_head_dim rounded up to 8
 *   pack_queries(tile, out, nv, dtype)   to [units of head_dim][nv LANES] units, with the sign of
 *   the scale
 *   make_weights(scores, weights, n_keys, nv, scale, maximum, dtype)   one register's scores
 *   [n_keys] to weights
 *                          [n_keys / UNIT_KEYS] units, both at the stride of nv registers; returns
 *                          the sums as rounded
 *
 * Scores and sums are f32: [BLOCK][nv LANES] and [v_head_dim][nv LANES]. Only row by row, never
 * across lanes, is anything added or compared, and a row's operations do not depend on nv. */
#pragma once

#include "kernels/attention_lanes.h"
#include "kernels/attention_prefetch.h"

enum { TILE_ROWS = MAX_NV * LANES, BLOCK_UNITS = BLOCK / UNIT_KEYS, SQUARE = 8 };

static int64_t key_units(int32_t head_dim) { return ommai_div_up(head_dim, UNIT_DIMS); }
static int64_t key_words(int32_t head_dim) { return BLOCK * key_units(head_dim) * UNIT_WORDS; }
static size_t block_bytes(int32_t head_dim, int32_t v_head_dim) {
  int64_t value_words = ommai_round_up(v_head_dim, SQUARE) * BLOCK_UNITS * UNIT_WORDS;
  return (size_t)(key_words(head_dim) + value_words) * sizeof(float);
}

/* Words of each part of the scratch: queries, scores, weights, sums. Queries and sums are whole
 * squares. */
static int64_t query_words(int32_t head_dim) { return ommai_round_up(key_units(head_dim), SQUARE) * TILE_ROWS * UNIT_WORDS; }
static int64_t sum_words(int32_t v_head_dim) { return ommai_round_up(v_head_dim, SQUARE) * TILE_ROWS; }
static size_t scratch_bytes(int32_t head_dim, int32_t v_head_dim) {
  int64_t scores = (BLOCK + BLOCK_UNITS * UNIT_WORDS) * TILE_ROWS;
  return (size_t)(query_words(head_dim) + scores + sum_words(v_head_dim)) * sizeof(float);
}

OMMAI_INLINE void pack_block(const struct ommai_attention_pack *job, struct ommai_attention_types types) {
  float *packed = job->packed;
  pack_keys(job, packed, types);
  pack_values(job, packed + key_words(job->head_dim), types);
}

/* ---- products -------------------------------------------------------------------------------- */

/* Scores [GROUP n_groups][nv LANES] of a block, unscaled, and the largest of each row. Sums over
 * parts of the dimensions, which are then added, are nearer to the exact one than one long sum. */
OMMAI_INLINE void multiply_keys(const float *keys, const float *queries, int64_t units, int64_t n_groups, float *scores,
                                vec largest[MAX_NV], struct ommai_attention_prefetch *prefetch, int nv) {
  vec acc[GROUP][MAX_NV];
  int64_t n_units = ommai_div_up(units, ommai_div_up(units, SUM_UNITS));
  for (int v = 0; v < nv; v++) largest[v] = vec_set1(-INFINITY);
  for (int64_t group = 0; group < n_groups; group++, keys += units * GROUP * UNIT_WORDS, scores += GROUP * nv * LANES) {
    ommai_attention_prefetch_step(prefetch);
    for (int64_t at = 0; at < units; at += n_units) {
      multiply(acc, keys + at * GROUP * UNIT_WORDS, queries + at * nv * LANES * UNIT_WORDS, ommai_min_i64(units - at, n_units),
               nv);
#pragma GCC unroll 8
      for (int i = 0; i < GROUP; i++) {
#pragma GCC unroll 3
        for (int v = 0; v < nv; v++) {
          float *score = scores + (i * nv + v) * LANES;
          if (at > 0) acc[i][v] = vec_add(acc[i][v], vec_load(score));
          if (at + n_units >= units) largest[v] = vec_max(largest[v], acc[i][v]);
          vec_store(score, acc[i][v]);
        }
      }
    }
  }
}

/* Where each row's keys end, counted from `from`: as far as a block's length, which is all that
 * counts. Counted from a window's length further on, where they begin. */
OMMAI_INLINE void find_ends(const struct ommai_attention_tile *tile, int64_t from, vec ends[MAX_NV], int nv) {
  int64_t last = ommai_min_i64(ommai_max_i64(tile->n_keys - from, -BLOCK), BLOCK);
  int64_t first = ommai_min_i64(ommai_max_i64(tile->first_visible - from, -BLOCK), BLOCK);
  for (int v = 0; v < nv; v++) {
    vec end = vec_add(vec_indices(), vec_set1((float)(first + v * LANES)));
    ends[v] = vec_select(vec_greater(end, vec_set1((float)last)), vec_set1((float)last), end);
  }
}

/* Scores of a block that a row does not see become -inf; the largest are found anew. */
OMMAI_INLINE void mask_scores(float *scores, int64_t n_keys, const vec firsts[MAX_NV], const vec ends[MAX_NV],
                              vec largest[MAX_NV], int nv) {
  const vec hidden = vec_set1(-INFINITY);
  for (int v = 0; v < nv; v++) largest[v] = hidden;
  for (int64_t key = 0; key < n_keys; key++) {
    for (int v = 0; v < nv; v++) {
      float *at = scores + (key * nv + v) * LANES;
      vec score = vec_select(vec_greater(ends[v], vec_set1((float)key)), vec_load(at), hidden);
      score = vec_select(vec_greater(firsts[v], vec_set1((float)key)), hidden, score);
      largest[v] = vec_max(largest[v], score);
      vec_store(at, score);
    }
  }
}

/* The block at `begin`, where a row does not see all of its n_keys keys. */
OMMAI_INLINE void mask_block(const struct ommai_attention_tile *tile, int64_t begin, int64_t n_keys, float *scores,
                             vec largest[MAX_NV], int nv) {
  vec firsts[MAX_NV], ends[MAX_NV];
  int64_t all_see = ommai_min_i64(tile->n_keys, tile->first_visible), last_begins = tile->n_keys - tile->window_keys;
  if (begin + n_keys <= all_see && begin >= last_begins) return;
  find_ends(tile, begin + tile->window_keys, firsts, nv);
  find_ends(tile, begin, ends, nv);
  mask_scores(scores, n_keys, firsts, ends, largest, nv);
}

/* What happens to the sums of the blocks before. */
enum carry { CARRY_NOTHING, CARRY_AS_IS, CARRY_RESCALED };
OMMAI_INLINE void multiply_values(const float *values, const float *weights, int64_t n_units, int64_t n_groups, float *sums,
                                  enum carry carry, const vec rescale[MAX_NV], struct ommai_attention_prefetch *prefetch,
                                  int nv) {
  vec acc[GROUP][MAX_NV];
  for (int64_t group = 0; group < n_groups; group++, values += BLOCK_UNITS * GROUP * UNIT_WORDS, sums += GROUP * nv * LANES) {
    ommai_attention_prefetch_step(prefetch);
    multiply(acc, values, weights, n_units, nv);
#pragma GCC unroll 8
    for (int i = 0; i < GROUP; i++) {
#pragma GCC unroll 3
      for (int v = 0; v < nv; v++) {
        float *at = sums + (i * nv + v) * LANES;
        vec sum = acc[i][v];
        if (carry == CARRY_AS_IS) sum = vec_add(vec_load(at), sum);
        if (carry == CARRY_RESCALED) sum = vec_fma(vec_load(at), rescale[v], sum);
        vec_store(at, sum);
      }
    }
  }
}

/* ---- a tile ---------------------------------------------------------------------------------- */

/* Sums [v_head_dim][nv LANES] over their weights to rows. Adding zero turns a negative zero into a
 * positive one. */
OMMAI_INLINE void write_rows(const struct ommai_attention_tile *tile, const float *sums, const vec total[MAX_NV], int nv,
                             enum omma_dtype dtype) {
  int64_t stride = bytes_of(tile->out_stride, dtype);
  for (int v = 0; v < nv; v++) {
    unsigned char *rows = (unsigned char *)tile->out + v * LANES * stride;
    int64_t n_rows = ommai_min_i64(tile->n_rows - v * LANES, LANES);
    vec inverse = vec_div(vec_set1(1.0f), total[v]);
    for (int64_t at = 0; at < tile->v_head_dim; at += LANES) {
      vec r[LANES];
#pragma GCC unroll 8
      for (int i = 0; i < LANES; i++) {
        r[i] = vec_add(vec_mul(vec_load(sums + ((at + i) * nv + v) * LANES), inverse), vec_zero());
      }
      vec_transpose(r);
#pragma GCC unroll 8
      for (int i = 0; i < LANES; i++) {
        if (i < n_rows) store_part(rows + i * stride, at, tile->v_head_dim - at, r[i], dtype);
      }
    }
  }
}

/* Per row: the maximum in use (unscaled) and the sum of the weights. */
struct softmax {
  vec maximum[MAX_NV], sum[MAX_NV], rescale[MAX_NV];
};

/* Raises the maxima that a block's largest scores exceed by more than `slack`, and returns what
 * becomes of the sums so far. */
OMMAI_INLINE enum carry raise_maximum(struct softmax *softmax, const vec largest[MAX_NV], vec scale, float slack, bool first,
                                      int nv) {
  vec before[MAX_NV];
  bool raised = false;
  for (int v = 0; v < nv; v++) {
    before[v] = softmax->maximum[v];
    vec raise = vec_greater(below(largest[v], before[v], scale), vec_set1(slack));
    softmax->maximum[v] = vec_select(raise, largest[v], before[v]);
    softmax->rescale[v] = vec_set1(1.0f);
    raised |= vec_any(raise);
  }
  if (raised) {
    for (int v = 0; v < nv; v++) softmax->rescale[v] = exp2_full(below(before[v], softmax->maximum[v], scale));
  }
  if (first) return CARRY_NOTHING;
  return raised ? CARRY_RESCALED : CARRY_AS_IS;
}

OMMAI_INLINE void attend_rows(const struct ommai_attention_tile *tile, int nv, enum omma_dtype dtype) {
  int64_t units = key_units(tile->head_dim), n_groups = ommai_div_up(tile->v_head_dim, GROUP);
  int64_t stride = ommai_round_up((int64_t)block_bytes(tile->head_dim, tile->v_head_dim), 64) / (int64_t)sizeof(float);
  float *queries = tile->scratch;
  float *scores = queries + query_words(tile->head_dim);
  float *weights = scores + BLOCK * TILE_ROWS;
  float *sums = weights + BLOCK_UNITS * UNIT_WORDS * TILE_ROWS;
  vec scale = vec_set1(fabsf(tile->scale) * LOG2_E), largest[MAX_NV];
  struct softmax softmax;
  for (int v = 0; v < nv; v++) {
    softmax.maximum[v] = vec_set1(OMMAI_ATTENTION_LEAST_SCORE);
    softmax.sum[v] = vec_zero();
  }
  pack_queries(tile, queries, nv, dtype);
  const float *block = tile->packed;
  for (int64_t begin = tile->first_key; begin < tile->n_keys; begin += BLOCK, block += stride) {
    int64_t n_keys = ommai_round_up(ommai_min_i64(tile->n_keys - begin, BLOCK), GROUP);
    multiply_keys(block, queries, units, n_keys / GROUP, scores, largest, tile->prefetch, nv);
    mask_block(tile, begin, n_keys, scores, largest, nv);
    bool first = begin == tile->first_key;
    enum carry carry = raise_maximum(&softmax, largest, scale, ommai_attention_slack(dtype), first, nv);
    for (int v = 0; v < nv; v++) {
      vec sum =
          make_weights(scores + v * LANES, weights + v * LANES * UNIT_WORDS, n_keys, nv, scale, softmax.maximum[v], dtype);
      softmax.sum[v] = vec_fma(softmax.sum[v], softmax.rescale[v], sum);
    }
    multiply_values(block + key_words(tile->head_dim), weights, n_keys / UNIT_KEYS, n_groups, sums, carry, softmax.rescale,
                    tile->prefetch, nv);
  }
  write_rows(tile, sums, softmax.sum, nv, dtype);
}

#define TILE_OBJECT(name, Q, KV, rows, LEVEL, suffix, pack, attend)                                                       \
  _Static_assert((rows) == TILE_ROWS, "the kernel's name states its rows");                                               \
  const struct ommai_attention_tile_kernel ommai_attention_tile_##name##_##suffix = {"tile_" #name "_" #rows "_" #suffix, \
                                                                                     OMMAI_CPU_##LEVEL,                   \
                                                                                     {OMMA_##Q, OMMA_##KV},               \
                                                                                     TILE_ROWS,                           \
                                                                                     LANES,                               \
                                                                                     block_bytes,                         \
                                                                                     scratch_bytes,                       \
                                                                                     pack,                                \
                                                                                     attend}

#define TILE_PACK(name, Q, KV)                                            \
  static void pack_##name(const struct ommai_attention_pack *job) {       \
    pack_block(job, (struct ommai_attention_types){OMMA_##Q, OMMA_##KV}); \
  }

/* One function per number of registers, then the choice among them. */
#define TILE_KERNEL(type, TYPE, rows, LEVEL, suffix)                                                            \
  TILE_PACK(type, TYPE, TYPE)                                                                                   \
  static void attend_##type##_1(const struct ommai_attention_tile *tile) { attend_rows(tile, 1, OMMA_##TYPE); } \
  static void attend_##type##_2(const struct ommai_attention_tile *tile) { attend_rows(tile, 2, OMMA_##TYPE); } \
  static void attend_##type##_3(const struct ommai_attention_tile *tile) { attend_rows(tile, 3, OMMA_##TYPE); } \
  static void attend_##type(const struct ommai_attention_tile *tile) {                                          \
    if (tile->n_rows <= LANES) {                                                                                \
      attend_##type##_1(tile);                                                                                  \
    } else if (tile->n_rows <= 2 * LANES) {                                                                     \
      attend_##type##_2(tile);                                                                                  \
    } else {                                                                                                    \
      attend_##type##_3(tile);                                                                                  \
    }                                                                                                           \
  }                                                                                                             \
  TILE_OBJECT(type, TYPE, TYPE, rows, LEVEL, suffix, pack_##type, attend_##type)

/* After those of both types: f32 queries attend to bf16 keys and values, which are packed as
 * f32. */
#define TILE_KERNEL_F32_BF16(rows, LEVEL, suffix) TILE_OBJECT(f32_bf16, F32, BF16, rows, LEVEL, suffix, pack_bf16, attend_f32)

/* After that of the type: its queries attend to integers with scales, which are packed as the type
 * is. */
#define TILE_KERNEL_KV8(type, TYPE, rows, LEVEL, suffix) \
  TILE_PACK(type##_kv8, TYPE, INT8)                      \
  TILE_OBJECT(type##_kv8, TYPE, INT8, rows, LEVEL, suffix, pack_##type##_kv8, attend_##type)
