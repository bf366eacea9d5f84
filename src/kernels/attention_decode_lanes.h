/* The decode kernel's products in f32 for vectors of any width. The including file includes
 * lanes_*.h before.
 *
 * Elements go by spans of two registers: of a bf16 row the even elements and the odd ones, which
 * takes no shuffles; sums of values are put into order when a block ends. Integers come in their
 * order. */
#pragma once

#include <string.h>

#include "kernels/attention_decode_block.h"

enum { SPAN = 2 * LANES, Q_ROOM = OMMA_ATTENTION_MAX_DECODE_HEAD_DIM + SPAN };

/* Elements [at, at + SPAN) of a row as two registers; those from `count` on are zeros and are not
 * read. */
OMMAI_INLINE void load_span(const void *row, int64_t at, int64_t count, enum omma_dtype dtype, vec span[2]) {
  if (dtype != OMMA_BF16) {
    span[0] = load_part(row, at, count, dtype);
    span[1] = load_part(row, at + LANES, count - LANES, dtype);
    return;
  }
  const ommai_bf16 *from = (const ommai_bf16 *)row + at;
  ommai_bf16 part[SPAN] = {0};
  if (count < SPAN) from = memcpy(part, from, (size_t)count * sizeof *part);
  vec_load_pairs(from, &span[0], &span[1]);
}

/* A row of q in the order that rows of k come in. */
OMMAI_INLINE void load_query(const struct ommai_attention_decode_block *job, int64_t head, float *q,
                             struct ommai_attention_types types) {
  const unsigned char *row = (const unsigned char *)job->q + bytes_of(head * job->q_head_stride, types.q);
  for (int64_t at = 0; at < job->head_dim; at += SPAN) {
    vec span[2];
    if (types.kv == OMMA_INT8) {
      span[0] = load_part(row, at, job->head_dim - at, types.q);
      span[1] = load_part(row, at + LANES, job->head_dim - at - LANES, types.q);
    } else {
      load_span(row, at, job->head_dim - at, types.q, span);
      if (types.q != types.kv) vec_unzip(span);
    }
    vec_store(q + at, span[0]);
    vec_store(q + at + LANES, span[1]);
  }
}

/* sums [n][keys]: plus the products of a span of q and of k. */
OMMAI_INLINE void multiply_span(const unsigned char *const *rows, int keys, const float (*q)[Q_ROOM], int n, int64_t at,
                                int64_t count, vec (*sums)[KEYS_AT_ONCE], enum omma_dtype dtype) {
#pragma GCC unroll 4
  for (int j = 0; j < keys; j++) {
    vec span[2];
    load_span(rows[j], at, count, dtype, span);
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
      sums[i][j] = vec_fma(vec_load(q[i] + at), span[0], sums[i][j]);
      sums[i][j] = vec_fma(vec_load(q[i] + at + LANES), span[1], sums[i][j]);
    }
  }
}

OMMAI_INLINE void multiply_keys(const struct ommai_attention_decode_block *job, int64_t head, int n, float *scores,
                                struct ommai_attention_types types) {
  float q[SHARED_HEADS][Q_ROOM];
  int keys = n * KEYS_AT_ONCE > MAX_SUMS ? KEYS_AT_ONCE / 2 : KEYS_AT_ONCE;
  for (int i = 0; i < n; i++) load_query(job, head + i, q[i], types);
  for (int64_t key = 0; key < job->n_keys; key += KEYS_AT_ONCE) {
    const unsigned char *rows[KEYS_AT_ONCE];
    vec sums[SHARED_HEADS][KEYS_AT_ONCE];
    key_rows(job, key, rows, types);
    if (head == 0) prefetch_rows(job, false, key, KEYS_AT_ONCE, types);
#pragma GCC unroll 2
    for (int part = 0; part < KEYS_AT_ONCE; part += keys) {
      vec some[SHARED_HEADS][KEYS_AT_ONCE];
      int64_t at = 0;
#pragma GCC unroll 16
      for (int i = 0; i < n * keys; i++) some[i / keys][i % keys] = vec_zero();
      for (; at + SPAN <= job->head_dim; at += SPAN) multiply_span(rows + part, keys, q, n, at, SPAN, some, types.kv);
      if (at < job->head_dim) multiply_span(rows + part, keys, q, n, at, job->head_dim - at, some, types.kv);
#pragma GCC unroll 16
      for (int i = 0; i < n * keys; i++) sums[i / keys][part + i % keys] = some[i / keys][i % keys];
    }
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) vec_store_sums4(scores + i * BLOCK + key, sums[i], job->scale * LOG2_E);
  }
}

/* Some keys' values, for all columns in turn. */
struct value_keys {
  int64_t first, end;
  float (*kept)[Q_ROOM]; /* [n] sums between the parts of a block, as they stand in registers */
  /* The next rows are asked for evenly over all passes: one in that many keys. */
  int64_t coming;
  int passes, due;
};

OMMAI_INLINE void prefetch_coming(const struct ommai_attention_decode_block *job, struct value_keys *keys,
                                  struct ommai_attention_types types) {
  if (--keys->due > 0) return;
  keys->due = keys->passes;
  prefetch_rows(job, true, keys->coming++, 1, types);
}

/* A block's sums of one head to its state, `count` of them in the last span. */
OMMAI_INLINE void store_spans(const struct ommai_attention_decode_block *job, int64_t head, int64_t at, int spans,
                              int64_t count, float rescale, vec *acc, struct ommai_attention_types types) {
  float *out = job->state + head * job->state_stride + OMMAI_ATTENTION_STATE_OUT + at;
#pragma GCC unroll 8
  for (int s = 0; s < spans; s++, out += SPAN) {
    if (types.kv == OMMA_BF16) vec_zip(acc + 2 * s);
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
      vec sum = acc[2 * s + j];
      if (count <= j * LANES) break;
      vec_store(out + j * LANES, job->first ? sum : vec_fma(vec_load(out + j * LANES), vec_set1(rescale), sum));
    }
  }
}

/* The values of `spans` spans from `at` on; a single one may be the end of a row, of `count`
 * elements. */
OMMAI_INLINE void add_spans(const struct ommai_attention_decode_block *job, int64_t head, int n, struct value_keys *keys,
                            int64_t at, int spans, int64_t count, const float *weights, const float *rescale,
                            struct ommai_attention_types types) {
  int64_t step = bytes_of(job->v_stride, types.kv);
  vec acc[SHARED_HEADS][2 * MAX_SPANS];
#pragma GCC unroll 32
  for (int i = 0; i < n * 2 * spans; i++) {
    acc[i / (2 * spans)][i % (2 * spans)] =
        keys->first > 0 ? vec_load(keys->kept[i / (2 * spans)] + at + i % (2 * spans) * LANES) : vec_zero();
  }
  const unsigned char *row = (const unsigned char *)job->v + keys->first * step;
  for (int64_t key = keys->first; key < keys->end; key++, row += step) {
    if (head == 0) prefetch_coming(job, keys, types);
#pragma GCC unroll 8
    for (int s = 0; s < spans; s++) {
      vec span[2];
      load_span(row, at + s * SPAN, count, types.kv, span);
#pragma GCC unroll 4
      for (int i = 0; i < n; i++) {
        vec weight = vec_set1(weights[i * BLOCK + key]);
        acc[i][2 * s] = vec_fma(weight, span[0], acc[i][2 * s]);
        acc[i][2 * s + 1] = vec_fma(weight, span[1], acc[i][2 * s + 1]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < n; i++) {
    if (keys->end == job->n_keys) {
      store_spans(job, head + i, at, spans, count, rescale[i], acc[i], types);
      continue;
    }
#pragma GCC unroll 8
    for (int j = 0; j < 2 * spans; j++) vec_store(keys->kept[i] + at + j * LANES, acc[i][j]);
  }
}

/* What pads a head's sums to whole registers is inside of its state and holds zeros. Where columns
 * take several passes, all are done for some keys before the next: the memory that a pass finds in
 * cache by then is asked for in the time of all. */
OMMAI_INLINE void add_values(const struct ommai_attention_decode_block *job, int64_t head, int n, const float *weights,
                             const float *rescale, struct ommai_attention_types types) {
  enum { SOME_KEYS = BLOCK / 2 };
  float kept[SHARED_HEADS][Q_ROOM];
  const int spans = n == 1 ? MAX_SPANS : MAX_SUMS / 2 / (n == 3 ? 4 : n);
  const int64_t whole = job->v_head_dim / (spans * SPAN), rest = job->v_head_dim - whole * spans * SPAN;
  struct value_keys keys = {.kept = kept, .passes = (int)(whole + ommai_div_up(rest, SPAN))};
  keys.due = keys.passes;
  for (; keys.first < job->n_keys; keys.first = keys.end) {
    int64_t at = 0;
    keys.end = keys.passes > 1 ? ommai_min_i64(keys.first + SOME_KEYS, job->n_keys) : job->n_keys;
    for (; at < whole * spans * SPAN; at += spans * SPAN) {
      add_spans(job, head, n, &keys, at, spans, SPAN, weights, rescale, types);
    }
    for (; at < job->v_head_dim; at += SPAN) {
      add_spans(job, head, n, &keys, at, 1, ommai_min_i64(job->v_head_dim - at, SPAN), weights, rescale, types);
    }
  }
}
