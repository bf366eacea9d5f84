/* Contracts of the attention kernels, and the lists from which declarations, table and tests are
 * made.
 *
 * Four families. TILE kernels serve the encoder and causal modes: keys and values are packed once
 * per (segment, kv head) in blocks of 64 keys, then tiles of query rows of one head attend to the
 * packed blocks. WINDOW kernels are the same for encoder segments of at most one block, which need
 * no running maximum: every row sees every key. INT8 kernels are TILE kernels whose products are of
 * 8-bit integers, and round as attention_int8.h says. DECODE kernels serve single query rows: they
 * read keys and values in place, one block of at most 64 keys at a time.
 *
 * Every kernel keeps these rules, from which the operator's determinism follows:
 * - what is computed for a query row depends on that row, the keys it sees and their positions
 *   alone, never on the other rows of the tile, on the number of rows, or on where the tile
 *   begins; negative zeros in the result are written as zeros, so that keys which are present but
 *   masked leave no trace; only values that are not finite do (0 * infinity is NaN);
 * - key blocks are anchored at the first key of the segment (position 0 of the sequence);
 * - nothing outside the stated rows is read or written; rows need only the natural alignment of
 *   their type;
 * - scores, softmax and sums are f32; in bf16 the probabilities are rounded to bf16 before the
 *   second product, their sum is that of the rounded ones, and the result is rounded once;
 * - keys and values of 8 bits (kv8) are integers times a scale for each row. TILE kernels take the
 *   products, rounded to bf16 under bf16 queries. DECODE kernels multiply scores by the keys'
 *   scales and probabilities by the values', in f32 throughout: no probability is rounded. */
#pragma once

#include <omma/attention.h>

#include "kernels/cpu.h"

enum { OMMAI_ATTENTION_BLOCK = OMMA_ATTENTION_PAGE_TOKENS };

/* Head dimensions that are a multiple of it are packed and multiplied without padding by every tile
 * and window kernel; of the others no kernel pads more than up to the next multiple. */
enum { OMMAI_ATTENTION_DIM_STEP = 8 };

/* Element types. kv is q's type; or bf16 under f32 queries: then keys and values are widened where
 * they are read, and nothing is rounded; or int8 with scales under f32 and bf16 queries. */
struct ommai_attention_types {
  enum omma_dtype q; /* of out as well */
  enum omma_dtype kv;
};

/* One block of keys and values of one kv head, to be packed. Strides count elements. */
struct ommai_attention_pack {
  const void *k; /* [n_keys, head_dim], rows k_stride apart */
  const void *v; /* [n_keys, v_head_dim], rows v_stride apart */
  int64_t k_stride, v_stride;
  /* 1 .. OMMAI_ATTENTION_BLOCK; a tile kernel fills the rest of the block with zeros */
  int32_t n_keys;
  int32_t head_dim, v_head_dim;
  /* [head_dim]: what INT8 kernels take off every key; others look at none of these three */
  const float *center;
  /* [v_head_dim] each: what they take off every value, and what they divide it by then; above 0 */
  const float *v_center, *v_spread;
  /* [n_keys] each: what the integers of a row are multiplied by; not looked at for other types */
  const float *k_scales, *v_scales;
  /* block_bytes(head_dim, v_head_dim), aligned to 64; layout private to the kernel */
  void *packed;
};

/* Rows of q, k, v and out that will be wanted after this job; a kernel asks for a share between its
 * loops. Only a hint: rows that do not exist do no harm, and a kernel may ignore it. */
struct ommai_attention_prefetch {
  const void *base[4];
  int64_t stride[4], row_bytes[4]; /* bytes */
  int32_t n_rows, rows_per_step;
  int32_t kind, row; /* where the next step begins */
};

/* One tile of query rows of one head. The keys that row r sees end at e = min(n_keys, first_visible
 * + r) and begin at max(0, e - window_keys). */
struct ommai_attention_tile {
  const void *q; /* [n_rows, head_dim], rows q_stride apart */
  void *out;     /* [n_rows, v_head_dim], rows out_stride apart */
  int64_t q_stride, out_stride;
  int32_t n_rows; /* 1 .. the kernel's rows */
  int32_t head_dim, v_head_dim;
  const void *packed;    /* blocks from first_key on, block_bytes up to a multiple of 64 apart */
  int64_t first_key;     /* that of the block with the first key that row 0 sees */
  int64_t n_keys;        /* 1 or more: the keys up to the last that the last row sees */
  int64_t first_visible; /* 1 or more: those of row 0; n_keys where no row sees more than another */
  /* 1 or more: the keys that a row sees at most; WINDOW and INT8: n_keys or more */
  int64_t window_keys;
  float scale;
  /* scratch_bytes(head_dim, v_head_dim), aligned to 64 */
  void *scratch;
  struct ommai_attention_prefetch *prefetch; /* may be NULL */
};

/* A row's maximum in use is raised only when a block exceeds it by more than this many units of
 * log2, decided for each row alone: weights stay below 2^8, and sums are hardly ever rescaled. Not
 * so in bf16, where weights are rounded: relative to the exact maximum the largest is 1 and has no
 * error, which shows in rows where two or three keys outweigh the others. */
static inline float ommai_attention_slack(enum omma_dtype dtype) { return dtype == OMMA_BF16 ? 0.0f : 8.0f; }

/* The maximum in use of a row that has seen no key yet. It is below all scores before they are
 * scaled, and finite: a block whose keys a row's window hides has weights of zero, not NaN. */
#define OMMAI_ATTENTION_LEAST_SCORE (-0x1p100f)

struct ommai_attention_tile_kernel {
  const char *name;
  enum ommai_cpu_level level;
  struct ommai_attention_types types;
  int32_t rows;     /* the largest tile */
  int32_t row_step; /* tiles whose row count is a multiple of it waste nothing */
  size_t (*block_bytes)(int32_t head_dim, int32_t v_head_dim);
  size_t (*scratch_bytes)(int32_t head_dim, int32_t v_head_dim);
  void (*pack)(const struct ommai_attention_pack *job);
  void (*attend)(const struct ommai_attention_tile *tile);
};

/* Running state of one query row over a split of the keys, in floats: the maximum of its scores in
 * units of log2 at OMMAI_ATTENTION_STATE_MAX, the sum of 2^(score - maximum) at ..._SUM, the
 * weighted sum of values from ..._OUT on. */
enum { OMMAI_ATTENTION_STATE_MAX = 0, OMMAI_ATTENTION_STATE_SUM = 1, OMMAI_ATTENTION_STATE_OUT = 16 };

/* One block of keys for the query rows of the heads that share a kv head. */
struct ommai_attention_decode_block {
  const void *q; /* [n_heads, head_dim], rows q_head_stride apart */
  const void *k; /* [n_keys, head_dim], rows k_stride apart */
  const void *v; /* [n_keys, v_head_dim], rows v_stride apart */
  int64_t q_head_stride, k_stride, v_stride;
  const float *k_scales; /* [n_keys] each: of rows of integers; not looked at for other types */
  const float *v_scales;
  int32_t n_heads;
  int32_t n_keys; /* 1 .. OMMAI_ATTENTION_BLOCK, all visible */
  int32_t head_dim, v_head_dim;
  float scale;
  bool first;         /* the states hold nothing yet */
  const void *next_k; /* rows and scales that are wanted next, to be prefetched; may be NULL */
  const void *next_v;
  const float *next_k_scales, *next_v_scales;
  /* [n_heads], aligned to 64, state_stride floats apart */
  float *state;
  /* a multiple of 16, at least OMMAI_ATTENTION_STATE_OUT + v_head_dim rounded up to 16 */
  int64_t state_stride;
};

struct ommai_attention_decode_kernel {
  const char *name;
  enum ommai_cpu_level level;
  struct ommai_attention_types types;
  void (*block)(const struct ommai_attention_decode_block *job);
};

/* All kernels, from the lowest level upward: X(name of the kernel object without its prefix).
 * f32_bf16: f32 queries, bf16 keys; f32_kv8, bf16_kv8: f32 and bf16 queries, keys of 8 bits with
 * scales. */
#if defined(__x86_64__)
#define OMMAI_ATTENTION_TILE_KERNELS_ARCH(X) \
  X(f32_avx2)                                \
  X(f32_bf16_avx2)                           \
  X(f32_kv8_avx2)                            \
  X(bf16_avx2)                               \
  X(bf16_kv8_avx2)                           \
  X(f16_avx2)                                \
  X(f32_avx512)                              \
  X(f32_bf16_avx512)                         \
  X(f32_kv8_avx512) X(bf16_avx512) X(bf16_kv8_avx512) X(f16_avx512) X(bf16_avx512_bf16) X(bf16_kv8_avx512_bf16) X(bf16_amx) X(bf16_kv8_amx)
#define OMMAI_ATTENTION_WINDOW_KERNELS(X) X(bf16_avx512_bf16)
#define OMMAI_ATTENTION_INT8_KERNELS_ARCH(X) X(bf16_avx512_bf16_vnni)
#define OMMAI_ATTENTION_DECODE_KERNELS_ARCH(X) \
  X(f32_avx2)                                  \
  X(f32_bf16_avx2)                             \
  X(f32_kv8_avx2)                              \
  X(bf16_avx2)                                 \
  X(bf16_kv8_avx2) X(f32_avx512) X(f32_bf16_avx512) X(f32_kv8_avx512) X(bf16_avx512) X(bf16_kv8_avx512) X(bf16_avx512_bf16)
#elif defined(__aarch64__)
#define OMMAI_ATTENTION_TILE_KERNELS_ARCH(X) \
  X(f32_neon) X(f32_bf16_neon) X(f32_kv8_neon) X(bf16_neon) X(bf16_kv8_neon) X(f16_neon) X(bf16_neon_bf16)
#define OMMAI_ATTENTION_WINDOW_KERNELS(X)
#define OMMAI_ATTENTION_INT8_KERNELS_ARCH(X)
#define OMMAI_ATTENTION_DECODE_KERNELS_ARCH(X) X(f32_neon) X(f32_bf16_neon) X(f32_kv8_neon) X(bf16_neon) X(bf16_kv8_neon)
#else
#define OMMAI_ATTENTION_TILE_KERNELS_ARCH(X)
#define OMMAI_ATTENTION_WINDOW_KERNELS(X)
#define OMMAI_ATTENTION_INT8_KERNELS_ARCH(X)
#define OMMAI_ATTENTION_DECODE_KERNELS_ARCH(X)
#endif

#define OMMAI_ATTENTION_TILE_KERNELS(X) \
  X(f32_scalar)                         \
  X(f32_bf16_scalar)                    \
  X(f32_kv8_scalar)                     \
  X(bf16_scalar)                        \
  X(bf16_kv8_scalar)                    \
  X(f16_scalar)                         \
  OMMAI_ATTENTION_TILE_KERNELS_ARCH(X)

#define OMMAI_ATTENTION_INT8_KERNELS(X) X(bf16_scalar) OMMAI_ATTENTION_INT8_KERNELS_ARCH(X)

#define OMMAI_ATTENTION_DECODE_KERNELS(X) \
  X(f32_scalar)                           \
  X(f32_bf16_scalar)                      \
  X(f32_kv8_scalar)                       \
  X(bf16_scalar)                          \
  X(bf16_kv8_scalar)                      \
  OMMAI_ATTENTION_DECODE_KERNELS_ARCH(X)

#define OMMAI_DECLARE_TILE(kernel) extern const struct ommai_attention_tile_kernel ommai_attention_tile_##kernel;
#define OMMAI_DECLARE_WINDOW(kernel) extern const struct ommai_attention_tile_kernel ommai_attention_window_##kernel;
#define OMMAI_DECLARE_INT8(kernel) extern const struct ommai_attention_tile_kernel ommai_attention_int8_##kernel;
#define OMMAI_DECLARE_DECODE(kernel) extern const struct ommai_attention_decode_kernel ommai_attention_decode_##kernel;
OMMAI_ATTENTION_TILE_KERNELS(OMMAI_DECLARE_TILE)
OMMAI_ATTENTION_WINDOW_KERNELS(OMMAI_DECLARE_WINDOW)
OMMAI_ATTENTION_INT8_KERNELS(OMMAI_DECLARE_INT8)
OMMAI_ATTENTION_DECODE_KERNELS(OMMAI_DECLARE_DECODE)
#undef OMMAI_DECLARE_TILE
#undef OMMAI_DECLARE_WINDOW
#undef OMMAI_DECLARE_INT8
#undef OMMAI_DECLARE_DECODE

/* The kernel of the highest level up to `level`; NULL where the types have none. A window kernel's
 * block takes no more bytes than the tile and INT8 kernels' of the same level and type, in whose
 * place it may lie. */
const struct ommai_attention_tile_kernel *ommai_attention_tile_kernel_find(enum ommai_cpu_level level,
                                                                           struct ommai_attention_types types);
/* Of the next two: NULL too where the best one is of a lower level than the tile kernel, which is
 * faster then. */
const struct ommai_attention_tile_kernel *ommai_attention_window_kernel_find(enum ommai_cpu_level level,
                                                                             struct ommai_attention_types types);
const struct ommai_attention_tile_kernel *ommai_attention_int8_kernel_find(enum ommai_cpu_level level,
                                                                           struct ommai_attention_types types);
const struct ommai_attention_decode_kernel *ommai_attention_decode_kernel_find(enum ommai_cpu_level level,
                                                                               struct ommai_attention_types types);

/* Whether this machine runs an INT8 kernel: some need AVX512-VNNI besides what their level has. */
bool ommai_attention_int8_supported(const struct ommai_attention_tile_kernel *kernel);

/* The lists as NULL-terminated arrays, for tests and benchmarks. */
extern const struct ommai_attention_tile_kernel *const ommai_attention_tile_kernels[];
extern const struct ommai_attention_tile_kernel *const ommai_attention_window_kernels[];
extern const struct ommai_attention_tile_kernel *const ommai_attention_int8_kernels[];
extern const struct ommai_attention_decode_kernel *const ommai_attention_decode_kernels[];
