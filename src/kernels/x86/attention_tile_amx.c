/* The tile kernel for bf16 by AMX: both products on tiles, the softmax between them with the
 * queries in the lanes, as at AVX-512.
 *
 *   scores: 16 keys by 32 dimensions (packed) times pairs of dimensions by 16 queries
 *           -> f32 [key][16 nv]
 *   values: 16 dimensions by 32 keys (packed) times pairs of weights by 16 queries
 *           -> f32 [dim][16 nv]
 *
 * Head dimensions are padded with zeros to 32 in the first product and to 16 in the second.
 *
 * The tile unit and the vectors work at the same time: the weights of a block are made a few pairs
 * of keys at a time, between the products that find the scores of the next block and add the values
 * of the one before. */
#include "kernels/x86/attention_bf16_avx512.h"
#include "kernels/x86/tiles_amx.h"

#include "kernels/x86/attention_parts_avx512.h"

enum {
  NV = 2, /* registers of queries, at most */
  TILE = OMMAI_TILE_ROWS * OMMAI_TILE_BYTES,
  SPAN = 32, /* dimensions or keys of a product */
  SPAN_UNITS = SPAN / 2,
  BLOCK_SPANS = BLOCK / SPAN,
  BLOCK_TILES = BLOCK / OMMAI_TILE_ROWS,
  BLOCK_PAIRS = BLOCK / 2
};

static int64_t key_spans(int32_t head_dim) { return ommai_div_up(head_dim, SPAN); }
static int64_t value_tiles(int32_t v_head_dim) { return ommai_div_up(v_head_dim, OMMAI_TILE_ROWS); }
static size_t keys_bytes(int32_t head_dim) { return (size_t)(BLOCK_TILES * key_spans(head_dim) * TILE); }

static size_t block_bytes(int32_t head_dim, int32_t v_head_dim) {
  return keys_bytes(head_dim) + (size_t)(value_tiles(v_head_dim) * BLOCK_SPANS * TILE);
}

/* Queries, scores and weights of two blocks each, sums. */
enum { SCORES = BLOCK * NV * LANES, WEIGHTS = BLOCK_PAIRS * NV * LANES };

static size_t scratch_bytes(int32_t head_dim, int32_t v_head_dim) {
  return (size_t)(query_units(head_dim) + 2 * SCORES + 2 * WEIGHTS + sum_units(v_head_dim)) * sizeof(uint32_t);
}

/* ---- packing --------------------------------------------------------------------------------- */

/* [key tile][span of dimensions][16 keys][32], zeros where there are none. */
OMMAI_INLINE void pack_keys(const struct ommai_attention_pack *job, char *out, struct ommai_attention_types types) {
  int64_t spans = key_spans(job->head_dim), stride = job->k_stride * (int64_t)ommai_attention_element_size(types.kv);
  for (int64_t key = 0; key < BLOCK; key++) {
    const unsigned char *row = (const unsigned char *)job->k + key * stride;
    char *to = out + key / OMMAI_TILE_ROWS * spans * TILE + key % OMMAI_TILE_ROWS * OMMAI_TILE_BYTES;
    for (int64_t span = 0; span < spans; span++) {
      uint32_t mask = key < job->n_keys ? first_elements(job->head_dim - span * SPAN) : 0;
      ommai_avx512_prefetch(row, OMMAI_AVX512_ROWS_AHEAD * stride + span * OMMAI_TILE_BYTES);
      _mm512_store_si512(to + span * TILE, load_kept(row, span * SPAN_UNITS, mask, job->k_scales, key, types));
    }
  }
}

/* A pair of rows of values, 16 dimensions from `at` on, a pair to a lane. */
OMMAI_INLINE __m512i load_pair(const struct ommai_attention_pack *job, int64_t key, int64_t at,
                               struct ommai_attention_types types) {
  int64_t stride = job->v_stride * (int64_t)ommai_attention_element_size(types.kv);
  const unsigned char *row = (const unsigned char *)job->v + key * stride;
  __mmask16 mask = ommai_avx512_first(job->v_head_dim - at);
  __m256i a = load_value(row, at, key < job->n_keys ? mask : (__mmask16)0, job->v_scales, key, types.kv);
  __m256i b = load_value(row + stride, at, key + 1 < job->n_keys ? mask : (__mmask16)0, job->v_scales, key + 1, types.kv);
  return _mm512_or_si512(_mm512_cvtepu16_epi32(a), _mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16));
}

/* [tile of dimensions][span of keys][16 dimensions][32 keys]. */
OMMAI_INLINE void pack_values_by_dims(const struct ommai_attention_pack *job, char *out, struct ommai_attention_types types) {
  for (int64_t tile = 0; tile < value_tiles(job->v_head_dim); tile++) {
    for (int64_t span = 0; span < BLOCK_SPANS; span++, out += TILE) {
      __m512i pairs[LANES], rows[LANES];
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) pairs[i] = load_pair(job, span * SPAN + 2 * i, tile * OMMAI_TILE_ROWS, types);
      ommai_avx512_transpose_16x16(pairs, rows);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) _mm512_store_si512(out + i * OMMAI_TILE_BYTES, rows[i]);
    }
  }
}

OMMAI_INLINE void pack_block(const struct ommai_attention_pack *job, struct ommai_attention_types types) {
  char *packed = job->packed;
  pack_keys(job, packed, types);
  pack_values_by_dims(job, packed + keys_bytes(job->head_dim), types);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Weights of a block in the making. */
struct weighing {
  const float *scores;
  uint32_t *weights;
  int64_t pair, n_pairs, at_a_time;  /* pairs of keys */
  __m512 scale, lowest[NV], sum[NV]; /* lowest: the maximum, scaled */
};

/* The next n pairs of keys, or what there are. */
OMMAI_INLINE void weigh_pairs(struct weighing *w, int64_t n, const int nv) {
  const __m512i ones = _mm512_set1_epi32(0x3f803f80);
  int64_t end = ommai_min_i64(w->pair + n, w->n_pairs);
  for (; w->pair < end; w->pair++) {
#pragma GCC unroll 2
    for (int v = 0; v < nv; v++) {
      const float *score = w->scores + (2 * w->pair * nv + v) * LANES;
      __m512 a = ommai_avx512_exp2_cubic(_mm512_fmsub_ps(_mm512_load_ps(score), w->scale, w->lowest[v]));
      __m512 b = ommai_avx512_exp2_cubic(_mm512_fmsub_ps(_mm512_load_ps(score + nv * LANES), w->scale, w->lowest[v]));
      __m512i unit = make_unit(a, b);
      w->sum[v] = multiply_add(w->sum[v], unit, ones);
      _mm512_store_si512(w->weights + (w->pair * nv + v) * LANES, unit);
    }
  }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Sums are tiles 0 .. 3, packed keys and values 4 and 5, queries and weights 6 and 7. */
OMMAI_INLINE void configure(void) {
  struct ommai_tile_config config = {.palette = 1};
  for (int tile = 0; tile < OMMAI_TILES; tile++) ommai_tile_shape(&config, tile, OMMAI_TILE_ROWS, OMMAI_TILE_BYTES);
  ommai_tiles_configure(&config);
}

/* One or two tiles of a, `next` bytes apart, times nv tiles of b, and weights meanwhile. */
OMMAI_INLINE void multiply_span(const char *a, int64_t next, const uint32_t *b, struct weighing *w, const bool two,
                                const int nv) {
  ommai_tile_load(4, a, OMMAI_TILE_BYTES);
  ommai_tile_load(6, b, nv * OMMAI_TILE_BYTES);
  ommai_tile_multiply_bf16(0, 4, 6);
  if (nv > 1) {
    ommai_tile_load(7, b + LANES, nv * OMMAI_TILE_BYTES);
    ommai_tile_multiply_bf16(1, 4, 7);
  }
  if (two) {
    ommai_tile_load(5, a + next, OMMAI_TILE_BYTES);
    ommai_tile_multiply_bf16(2, 5, 6);
    if (nv > 1) ommai_tile_multiply_bf16(3, 5, 7);
  }
  weigh_pairs(w, w->at_a_time, nv);
}

OMMAI_INLINE void clear_sums(const bool two, const int nv) {
  ommai_tile_zero(0);
  if (nv > 1) ommai_tile_zero(1);
  if (two) ommai_tile_zero(2);
  if (two && nv > 1) ommai_tile_zero(3);
}

OMMAI_INLINE void load_sums(const float *sums, const bool two, const int nv) {
  const int64_t stride = nv * OMMAI_TILE_BYTES;
  const float *second = sums + OMMAI_TILE_ROWS * nv * LANES;
  ommai_tile_load(0, sums, stride);
  if (nv > 1) ommai_tile_load(1, sums + LANES, stride);
  if (two) ommai_tile_load(2, second, stride);
  if (two && nv > 1) ommai_tile_load(3, second + LANES, stride);
}

OMMAI_INLINE void store_sums(float *sums, const bool two, const int nv) {
  const int64_t stride = nv * OMMAI_TILE_BYTES;
  float *second = sums + OMMAI_TILE_ROWS * nv * LANES;
  ommai_tile_store(0, sums, stride);
  if (nv > 1) ommai_tile_store(1, sums + LANES, stride);
  if (two) ommai_tile_store(2, second, stride);
  if (two && nv > 1) ommai_tile_store(3, second + LANES, stride);
}

/* Scores of a block's first `groups` times 32 keys, unscaled. */
OMMAI_INLINE void multiply_keys(const char *keys, const uint32_t *queries, int64_t spans, int64_t groups, float *scores,
                                struct weighing *w, struct ommai_attention_prefetch *prefetch, const int nv) {
  for (int64_t group = 0; group < groups; group++, keys += 2 * spans * TILE, scores += SPAN * nv * LANES) {
    ommai_attention_prefetch_step(prefetch);
    clear_sums(true, nv);
    for (int64_t span = 0; span < spans; span++) {
      multiply_span(keys + span * TILE, spans * TILE, queries + span * SPAN_UNITS * nv * LANES, w, true, nv);
    }
    store_sums(scores, true, nv);
  }
}

OMMAI_INLINE void multiply_dims(const char *values, const uint32_t *weights, int64_t groups, bool first, float *sums,
                                struct weighing *w, const bool two, const int nv) {
  if (first) {
    clear_sums(two, nv);
  } else {
    load_sums(sums, two, nv);
  }
  for (int64_t group = 0; group < groups; group++) {
    multiply_span(values + group * TILE, BLOCK_SPANS * TILE, weights + group * SPAN_UNITS * nv * LANES, w, two, nv);
  }
  store_sums(sums, two, nv);
}

/* sums [tiles][16][16 nv] += values times weights of `groups` times 32 keys. */
OMMAI_INLINE void multiply_weights(const char *values, const uint32_t *weights, int64_t tiles, int64_t groups, bool first,
                                   float *sums, struct weighing *w, struct ommai_attention_prefetch *prefetch, const int nv) {
  for (; tiles > 0; tiles -= 2, values += 2 * BLOCK_SPANS * TILE, sums += 2 * LANES * nv * LANES) {
    ommai_attention_prefetch_step(prefetch);
    if (tiles > 1) {
      multiply_dims(values, weights, groups, first, sums, w, true, nv);
    } else {
      multiply_dims(values, weights, groups, first, sums, w, false, nv);
    }
  }
}

/* ---- a tile ---------------------------------------------------------------------------------- */

/* What is the same for all blocks. */
struct attending {
  const struct ommai_attention_tile *tile;
  int64_t spans, tiles, n_blocks;
  size_t stride;
  __m512 scale;
  uint32_t *queries, *weights;
  float *scores, *sums;
};

OMMAI_INLINE const char *block_at(const struct attending *a, int64_t block) {
  return (const char *)a->tile->packed + (size_t)block * a->stride;
}

/* Groups of 32 keys that a block has. */
OMMAI_INLINE int64_t groups_of(const struct attending *a, int64_t block) {
  int64_t left = a->tile->n_keys - a->tile->first_key - block * BLOCK;
  return ommai_div_up(ommai_min_i64(left, BLOCK), SPAN);
}

OMMAI_INLINE float *scores_of(const struct attending *a, int64_t block) { return a->scores + block % 2 * SCORES; }
OMMAI_INLINE uint32_t *weights_of(const struct attending *a, int64_t block) { return a->weights + block % 2 * WEIGHTS; }

/* The largest score of each row of a block, once those that a row does not see are -inf. */
OMMAI_INLINE void find_largest(const struct attending *a, int64_t block, __m512 largest[MAX_NV], const int nv) {
  enum { CHAINS = 4 }; /* of maxima, which would wait for each other */
  float *scores = scores_of(a, block);
  int64_t n_keys = groups_of(a, block) * SPAN;
  __m512 chains[CHAINS][NV];
#pragma GCC unroll 8
  for (int i = 0; i < CHAINS * nv; i++) chains[i / nv][i % nv] = _mm512_load_ps(scores + i * LANES);
  for (int64_t key = CHAINS; key < n_keys; key += CHAINS) {
#pragma GCC unroll 8
    for (int i = 0; i < CHAINS * nv; i++) {
      __m512 *chain = &chains[i / nv][i % nv];
      *chain = _mm512_max_ps(*chain, _mm512_load_ps(scores + (key * nv + i) * LANES));
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < nv; v++) {
    largest[v] = _mm512_max_ps(_mm512_max_ps(chains[0][v], chains[1][v]), _mm512_max_ps(chains[2][v], chains[3][v]));
  }
  mask_block(a->tile, a->tile->first_key + block * BLOCK, n_keys, scores, largest, nv);
}

OMMAI_INLINE void rescale_sums(const struct attending *a, const __m512 rescale[MAX_NV], const int nv) {
  for (int64_t row = 0; row < a->tiles * LANES; row++) {
#pragma GCC unroll 2
    for (int v = 0; v < nv; v++) {
      float *sum = a->sums + (row * nv + v) * LANES;
      _mm512_store_ps(sum, _mm512_mul_ps(_mm512_load_ps(sum), rescale[v]));
    }
  }
}

/* Scores of the block after this one, sums of the one before, and this one's weights meanwhile. */
OMMAI_INLINE void multiply_around(const struct attending *a, int64_t block, struct weighing *w, const int nv) {
  bool has_next = block + 1 < a->n_blocks, has_last = block > 0;
  int64_t next_groups = has_next ? groups_of(a, block + 1) : 0, last_groups = has_last ? groups_of(a, block - 1) : 0;
  int64_t products = next_groups * a->spans + last_groups * ommai_div_up(a->tiles, 2);
  w->at_a_time = ommai_div_up(w->n_pairs, ommai_max_i64(products, 1));
  if (has_next) {
    multiply_keys(block_at(a, block + 1), a->queries, a->spans, next_groups, scores_of(a, block + 1), w, a->tile->prefetch, nv);
  }
  if (has_last) {
    const char *values = block_at(a, block - 1) + keys_bytes(a->tile->head_dim);
    multiply_weights(values, weights_of(a, block - 1), a->tiles, last_groups, block == 1, a->sums, w, a->tile->prefetch, nv);
  }
  weigh_pairs(w, w->n_pairs, nv);
}

OMMAI_INLINE struct weighing begin_weighing(const struct attending *a, int64_t block, const struct softmax *softmax,
                                            const int nv) {
  struct weighing w = {.scores = scores_of(a, block), .weights = weights_of(a, block), .scale = a->scale};
  w.n_pairs = block >= 0 && block < a->n_blocks ? groups_of(a, block) * SPAN / 2 : 0;
  for (int v = 0; v < nv; v++) {
    w.lowest[v] = _mm512_mul_ps(softmax->maximum[v], a->scale);
    w.sum[v] = _mm512_setzero_ps();
  }
  return w;
}

OMMAI_INLINE void attend_blocks(const struct attending *a, struct softmax *softmax, const int nv) {
  __m512 largest[MAX_NV];
  struct weighing none = begin_weighing(a, a->n_blocks, softmax, nv);
  enum carry carry = CARRY_NOTHING;
  multiply_keys(block_at(a, 0), a->queries, a->spans, groups_of(a, 0), a->scores, &none, a->tile->prefetch, nv);
  find_largest(a, 0, largest, nv);
  /* the round after the last block adds its values */
  for (int64_t block = 0; block <= a->n_blocks; block++) {
    bool has_block = block < a->n_blocks;
    if (carry == CARRY_RESCALED) rescale_sums(a, softmax->rescale, nv);
    if (has_block) carry = raise_maximum(softmax, largest, a->scale, ommai_attention_slack(OMMA_BF16), block == 0, nv);
    struct weighing w = begin_weighing(a, block, softmax, nv);
    multiply_around(a, block, &w, nv);
    for (int v = 0; v < nv && has_block; v++) {
      softmax->sum[v] = _mm512_fmadd_ps(softmax->sum[v], softmax->rescale[v], w.sum[v]);
    }
    if (block + 1 < a->n_blocks) find_largest(a, block + 1, largest, nv);
  }
}

OMMAI_INLINE void attend_rows(const struct ommai_attention_tile *tile, const int nv) {
  struct attending a = {.tile = tile, .spans = key_spans(tile->head_dim), .tiles = value_tiles(tile->v_head_dim)};
  struct softmax softmax;
  a.n_blocks = ommai_div_up(tile->n_keys - tile->first_key, BLOCK);
  a.stride = (size_t)ommai_round_up((int64_t)block_bytes(tile->head_dim, tile->v_head_dim), 64);
  a.scale = _mm512_set1_ps(fabsf(tile->scale) * LOG2_E);
  a.queries = tile->scratch;
  a.scores = (float *)(a.queries + query_units(tile->head_dim));
  a.weights = (uint32_t *)(a.scores + 2 * SCORES);
  a.sums = (float *)(a.weights + 2 * WEIGHTS);
  for (int v = 0; v < nv; v++) {
    softmax.maximum[v] = _mm512_set1_ps(OMMAI_ATTENTION_LEAST_SCORE);
    softmax.sum[v] = _mm512_setzero_ps();
    softmax.rescale[v] = _mm512_set1_ps(1.0f);
  }
  pack_queries(tile, a.queries, nv, OMMA_BF16);
  configure();
  attend_blocks(&a, &softmax, nv);
  ommai_tiles_release();
  write_rows(tile, a.sums, softmax.sum, nv, OMMA_BF16);
}

/* Functions of their own, so that each has the registers to itself. */
static __attribute__((noinline)) void attend_16(const struct ommai_attention_tile *tile) { attend_rows(tile, 1); }
static __attribute__((noinline)) void attend_32(const struct ommai_attention_tile *tile) { attend_rows(tile, 2); }

static void attend(const struct ommai_attention_tile *tile) {
  if (tile->n_rows <= LANES) {
    attend_16(tile);
  } else {
    attend_32(tile);
  }
}

static void pack(const struct ommai_attention_pack *job) {
  pack_block(job, (struct ommai_attention_types){OMMA_BF16, OMMA_BF16});
}

static void pack_kv8(const struct ommai_attention_pack *job) {
  pack_block(job, (struct ommai_attention_types){OMMA_BF16, OMMA_INT8});
}

#define KERNEL(object, title, KV, pack_function)                                                             \
  const struct ommai_attention_tile_kernel ommai_attention_tile_##object = {.name = title,                   \
                                                                            .level = OMMAI_CPU_AMX,          \
                                                                            .types = {OMMA_BF16, OMMA_##KV}, \
                                                                            .rows = NV * LANES,              \
                                                                            .row_step = LANES,               \
                                                                            .block_bytes = block_bytes,      \
                                                                            .scratch_bytes = scratch_bytes,  \
                                                                            .pack = pack_function,           \
                                                                            .attend = attend}

KERNEL(bf16_amx, "tile_bf16_32_amx", BF16, pack);
KERNEL(bf16_kv8_amx, "tile_bf16_kv8_32_amx", INT8, pack_kv8);
