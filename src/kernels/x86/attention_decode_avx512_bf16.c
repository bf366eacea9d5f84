/* The decode kernel for bf16 with VDPBF16PS, which takes two elements of a row of k, and of v an
 * element of two rows, at a time. */
#include "kernels/attention_kernels.h"
#include "kernels/x86/lanes_avx512.h"

#include "kernels/attention_decode_block.h"

enum { SPAN = 32 };

OMMAI_INLINE __mmask32 first_elements(int64_t count) {
  return count >= SPAN ? 0xffffffffu : count <= 0 ? 0 : (1u << count) - 1;
}

OMMAI_INLINE __m512i load_span(const unsigned char *row, int64_t at, __mmask32 mask) {
  return _mm512_maskz_loadu_epi16(mask, (const uint16_t *)(const void *)row + at);
}

/* sums [n]: plus the products of a span of q and of four rows of k. */
OMMAI_INLINE void multiply_span(const unsigned char *const rows[KEYS_AT_ONCE], const unsigned char *const *q, int n, int64_t at,
                                __mmask32 mask, vec (*sums)[KEYS_AT_ONCE]) {
#pragma GCC unroll 4
  for (int i = 0; i < n; i++) {
    __m512bh a = (__m512bh)load_span(q[i], at, mask);
#pragma GCC unroll 4
    for (int j = 0; j < KEYS_AT_ONCE; j++) {
      sums[i][j] = _mm512_dpbf16_ps(sums[i][j], a, (__m512bh)load_span(rows[j], at, mask));
    }
  }
}

OMMAI_INLINE void multiply_keys(const struct ommai_attention_decode_block *job, int64_t head, int n, float *scores,
                                struct ommai_attention_types types) {
  const unsigned char *q[SHARED_HEADS];
  for (int i = 0; i < n; i++) q[i] = (const unsigned char *)job->q + bytes_of((head + i) * job->q_head_stride, types.q);
  for (int64_t key = 0; key < job->n_keys; key += KEYS_AT_ONCE) {
    const unsigned char *rows[KEYS_AT_ONCE];
    vec sums[SHARED_HEADS][KEYS_AT_ONCE];
    int64_t at = 0;
    key_rows(job, key, rows, types);
    if (head == 0) prefetch_rows(job, false, key, KEYS_AT_ONCE, types);
#pragma GCC unroll 16
    for (int i = 0; i < n * KEYS_AT_ONCE; i++) sums[i / KEYS_AT_ONCE][i % KEYS_AT_ONCE] = vec_zero();
    for (; at + SPAN <= job->head_dim; at += SPAN) multiply_span(rows, q, n, at, first_elements(SPAN), sums);
    if (at < job->head_dim) multiply_span(rows, q, n, at, first_elements(job->head_dim - at), sums);
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) vec_store_sums4(scores + i * BLOCK + key, sums[i], job->scale * LOG2_E);
  }
}

/* Sums of a span whose elements came in the order of VPUNPCK, to rows' order. */
OMMAI_INLINE void order_span(vec sums[2]) {
  const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
  vec low = sums[0], high = sums[1];
  sums[0] = _mm512_permutex2var_ps(low, first, high);
  sums[1] = _mm512_permutex2var_ps(low, second, high);
}

/* The values of `spans` spans from `at` on; the last element's mask is for a single one, which may
 * be the end of a row. pairs [n][BLOCK / 2]: weights of two keys. */
OMMAI_INLINE void add_spans(const struct ommai_attention_decode_block *job, int64_t head, int n, int64_t at, int spans,
                            __mmask32 mask, int32_t (*pairs)[BLOCK / 2], const float *rescale,
                            struct ommai_attention_types types) {
  int64_t step = bytes_of(job->v_stride, types.kv);
  vec acc[SHARED_HEADS][2 * MAX_SPANS];
#pragma GCC unroll 32
  for (int i = 0; i < n * 2 * spans; i++) acc[i / (2 * spans)][i % (2 * spans)] = vec_zero();
  const unsigned char *row = job->v;
  for (int64_t key = 0; key < job->n_keys; key += 2, row += 2 * step) {
    bool both = key + 1 < job->n_keys;
    __mmask32 second = both ? mask : 0;
    if (head == 0 && at == 0) prefetch_rows(job, true, key, 2, types);
#pragma GCC unroll 4
    for (int s = 0; s < spans; s++) {
      __m512i a = load_span(row, at + s * SPAN, mask), b = load_span(row + step, at + s * SPAN, second);
      __m512bh low = (__m512bh)_mm512_unpacklo_epi16(a, b), high = (__m512bh)_mm512_unpackhi_epi16(a, b);
#pragma GCC unroll 4
      for (int i = 0; i < n; i++) {
        __m512bh weight = (__m512bh)_mm512_set1_epi32(pairs[i][key / 2]);
        acc[i][2 * s] = _mm512_dpbf16_ps(acc[i][2 * s], weight, low);
        acc[i][2 * s + 1] = _mm512_dpbf16_ps(acc[i][2 * s + 1], weight, high);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < n; i++) {
    float *out = job->state + (head + i) * job->state_stride + OMMAI_ATTENTION_STATE_OUT + at;
#pragma GCC unroll 4
    for (int s = 0; s < spans; s++, out += SPAN) {
      order_span(acc[i] + 2 * s);
#pragma GCC unroll 2
      for (int j = 0; j < 2; j++) {
        vec sum = acc[i][2 * s + j];
        __mmask16 lanes = (__mmask16)(mask >> (16 * j));
        if (!job->first) sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(lanes, out + 16 * j), _mm512_set1_ps(rescale[i]), sum);
        _mm512_mask_storeu_ps(out + 16 * j, lanes, sum);
      }
    }
  }
}

OMMAI_INLINE void add_values(const struct ommai_attention_decode_block *job, int64_t head, int n, const float *weights,
                             const float *rescale, struct ommai_attention_types types) {
  int32_t pairs[SHARED_HEADS][BLOCK / 2];
  int spans = n > 2 ? MAX_SPANS / 2 : MAX_SPANS;
  int64_t at = 0;
#pragma GCC unroll 16
  for (int i = 0; i < n * BLOCK / LANES; i++) {
    __m256i rounded = (__m256i)_mm512_cvtneps_pbh(vec_load(weights + i * LANES));
    _mm256_storeu_si256((__m256i *)(void *)(&pairs[0][0] + i * LANES / 2), rounded);
  }
  for (; at + spans * SPAN <= job->v_head_dim; at += spans * SPAN) {
    add_spans(job, head, n, at, spans, first_elements(SPAN), pairs, rescale, types);
  }
  for (; at < job->v_head_dim; at += SPAN) {
    add_spans(job, head, n, at, 1, first_elements(job->v_head_dim - at), pairs, rescale, types);
  }
}

DECODE_KERNEL(bf16, BF16, BF16, AVX512_BF16, avx512_bf16);
