/* Packed attention over many images, on CPUs: the operator of Ommatidia by itself.
 *
 *   out[i] = softmax(scale * q[i] . K[seg(i)]^T) V[seg(i)]
 *
 * The tokens of many images (or windows, or sequences) lie end to end in one array. `cu_seqlens`
 * marks the borders, and each segment attends only to itself. There is no mask, the caller sees no
 * padding, and a run allocates nothing. A segment has the same result, bit for bit, regardless of
 * its neighbours, its position in the array, the strides and the number of threads.
 *
 * Use:
 * - Create a context, which has the kernels for this CPU.
 * - Create a plan for each segmentation, shape and type. It is immutable, and all layers and
 *   threads may share it.
 * - Get the workspace size.
 * - Run the plan as often as wanted, with one workspace for each running call.
 *
 * Source of the behaviour: the `MMEncoderAttention` layer of vLLM (packed, bidirectional,
 * cu_seqlens on the host). */
#ifndef OMMA_ATTENTION_H
#define OMMA_ATTENTION_H

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element type of q, k, v and out. Scores, softmax and sums are always f32. Scores must stay below
 * 2^100 in magnitude before they are scaled, and `scale` below 2^26. With bf16, the softmax
 * weights are rounded to bf16 for the product with v, and their divisor is the sum of the rounded
 * weights. With bf16 and f16 the result is rounded once. INT8 is no type of a plan: it is that of
 * keys and values with scales (int8_kv below). */
enum omma_dtype { OMMA_F32 = 0, OMMA_BF16 = 1, OMMA_F16 = 2, OMMA_INT8 = 3 };

/* Type of the entries of a cu_seqlens array. */
enum omma_index_type { OMMA_INDEX_INT32 = 0, OMMA_INDEX_INT64 = 1 };

/* To which keys a query attends.
 *
 * ENCODER: every key of its own segment (bidirectional).
 *
 * CAUSAL: prefill of a decoder. Query row r of segment s has position q_offsets[s] + r in its
 * sequence and attends to the keys at positions 0 .. q_offsets[s] + r. Key blocks are the pages of
 * OMMA_ATTENTION_PAGE_TOKENS positions, anchored at position 0, so a prompt computed in chunks
 * gives the same bits as the whole prompt. f32 and bf16 only.
 *
 * With a sliding window (`window` of the spec) of W, the query at position p attends to the keys at
 * positions max(0, p - W + 1) .. p alone, in the CAUSAL and DECODE modes. All that is said of bits
 * holds as well, and work and workspace shrink with the window.
 *
 * DECODE: as CAUSAL, for one to a few query rows per segment. The kernels split the keys in a fixed
 * way, so a row's bits do not depend on how many rows or sequences are decoded together. f32 and
 * bf16 only. */
enum omma_attention_mode { OMMA_ATTENTION_ENCODER = 0, OMMA_ATTENTION_CAUSAL = 1, OMMA_ATTENTION_DECODE = 2 };

#define OMMA_ATTENTION_MAX_HEAD_DIM 256
/* DECODE allows more: keys may be compressed rows that many heads share. */
#define OMMA_ATTENTION_MAX_DECODE_HEAD_DIM 1024
#define OMMA_ATTENTION_PAGE_TOKENS 64
/* The maximum number of tokens that one plan may address, and of its segments. Both bound the size
 * of a plan before any memory is touched. */
#define OMMA_ATTENTION_MAX_TOKENS ((int64_t)1 << 31)
#define OMMA_ATTENTION_MAX_SEGMENTS ((int64_t)1 << 24)
#define OMMA_ATTENTION_MAX_HEADS 4096

/* ---- context: the kernels chosen for one CPU level ---- */

struct omma_attention_context;

/* isa: "scalar", "avx2", "avx2_vnni", "avx512", "avx512_bf16", "amx", "neon" or "neon_bf16". NULL:
 * the environment variable OMMA_ISA where it is set, else the best level of this machine. A level
 * that the machine lacks is refused.
 *
 * allocator: for contexts and plans. NULL: the C library's. */
struct omma_attention_options {
  size_t struct_size; /* sizeof this struct, or 0 (omma/omma.h) */
  const char *isa;
  const struct omma_allocator *allocator;
};

/* Creates a context. `options` may be NULL. The context is immutable, any number of threads may use
 * it, and it must outlive its plans. The caller destroys it. Errors: ARGUMENT (isa is not a level),
 * UNSUPPORTED (this machine lacks the level), MEMORY. */
OMMA_API enum omma_status omma_attention_context_create(const struct omma_attention_options *options,
                                                        struct omma_attention_context **context, struct omma_error *error);
OMMA_API void omma_attention_context_destroy(struct omma_attention_context *context);

/* The CPU level in use: a constant string such as "avx512_bf16". */
OMMA_API const char *omma_attention_context_isa(const struct omma_attention_context *context);

/* The name of the kernel that is used for this mode, type and pair of head dimensions, for
 * messages: a constant string. Encoder segments of up to 64 keys may have another kernel, which
 * omma_attention_plan_info names. NULL where the combination is not supported. */
OMMA_API const char *omma_attention_kernel_name(const struct omma_attention_context *context, enum omma_attention_mode mode,
                                                enum omma_dtype dtype, int32_t head_dim, int32_t v_head_dim);

/* Runs small problems through the chosen kernels of every mode, type and usual head dimension, and
 * compares them with the scalar reference in double precision. Takes some milliseconds. OK, or
 * INTERNAL with the name of the first kernel whose result is wrong. */
OMMA_API enum omma_status omma_attention_self_test(const struct omma_attention_context *context, struct omma_error *error);

/* ---- plan: one segmentation, shape and type ---- */

/* The input of a plan. Zero-initialise it, then fill it: 0 and NULL are the stated defaults. It is
 * read during the call only.
 *
 * Shapes: q [n_tokens, n_heads, head_dim], out [n_tokens, n_heads, v_head_dim], k [n_kv_tokens,
 * n_kv_heads, head_dim], v [n_kv_tokens, n_kv_heads, v_head_dim]. A batched [b, s, H, D] tensor is
 * the packed one with n_tokens = b * s and batch = b. Query head h uses key/value head h / (n_heads
 * / n_kv_heads). */
struct omma_attention_spec {
  size_t struct_size; /* sizeof this struct, or 0 (omma/omma.h) */
  enum omma_attention_mode mode;
  enum omma_dtype dtype;
  int32_t n_heads;
  int32_t n_kv_heads; /* 0: n_heads. n_heads must be a multiple of it */
  /* 1 .. OMMA_ATTENTION_MAX_HEAD_DIM; with DECODE 1 .. OMMA_ATTENTION_MAX_DECODE_HEAD_DIM. The same
   * limits hold for v_head_dim. */
  int32_t head_dim;
  int32_t v_head_dim; /* 0: head_dim */
  float scale;        /* 0: 1 / sqrt(head_dim) of the head_dim given. Must be finite */

  int64_t n_tokens; /* rows of q and out. A run sets rows past the last border to zero */
  /* Rows of k and v. 0: n_tokens. With pages it is read only by the two functions for upper bounds,
   * as the maximum number of keys (positions) of a segment; 0 then means the number that q_offsets
   * gives, or no keys before the queries. */
  int64_t n_kv_tokens;

  /* Borders: n_segments + 1 entries. The first is 0, they never decrease, and the last is at most
   * n_tokens (for k: n_kv_tokens). Segments may be empty. NULL: each of `batch` equal rows of
   * tokens is a segment (batch 0 means 1). */
  enum omma_index_type index_type;
  int64_t n_segments;
  const void *cu_seqlens;
  /* Borders of the keys. NULL: as cu_seqlens. ENCODER: for example for pooling heads; queries of a
   * segment without keys get zeros. CAUSAL and DECODE: where a sequence's keys begin; not used with
   * pages. */
  const void *cu_seqlens_k;
  int64_t batch;
  int64_t max_seqlen; /* accepted for callers that pass it to other operators; never trusted */

  /* CAUSAL and DECODE: the position of each segment's first query, [n_segments]. NULL: all 0.
   * Segment s has q_offsets[s] + (its number of queries) keys. */
  const int64_t *q_offsets;

  /* CAUSAL and DECODE: how many keys a query attends to at most, its own position's and those
   * before it. 0: all; so is a window that is larger than the sequence. ENCODER: 0. */
  int64_t window;

  bool paged; /* k and v are read through the page table that a run gets */

  /* CAUSAL and DECODE: k and v are bf16, and `dtype` is the type of q and out only. With f32
   * queries, keys and values are converted to f32, which is exact, and nothing is rounded. */
  bool bf16_kv;

  /* CAUSAL and DECODE: k and v are 8-bit integers (int8_t), each row of a head times a scale of its
   * own, which a run finds in k_scales and v_scales; `dtype` is the type of q and out only. CAUSAL
   * with bf16 queries rounds the products to bf16, otherwise nothing is rounded. Not together with
   * bf16_kv. */
  bool int8_kv;

  /* ENCODER: allows products of 8-bit integers, where those are faster: in bf16, on CPUs with
   * AVX512-BF16 and VNNI, for segments of more than 64 keys. q is quantized row by row, its softmax
   * weights in steps of 256 keys. From k and v their means over the segment are subtracted; the
   * differences are quantized in blocks of 64 keys. Otherwise the flag has no effect. */
  bool int8_scores;
};

struct omma_attention_plan;

/* Creates a plan in memory of the context's allocator. The plan is immutable, and any number of
 * threads and layers may share it. It does not keep the arrays of `spec`. The caller destroys it.
 * Errors: before any memory is touched ARGUMENT (with the index or value at fault), UNSUPPORTED,
 * LIMIT; then MEMORY. */
OMMA_API enum omma_status omma_attention_plan_create(const struct omma_attention_context *context,
                                                     const struct omma_attention_spec *spec, struct omma_attention_plan **plan,
                                                     struct omma_error *error);
/* Destroys a plan made by omma_attention_plan_create. NULL is allowed. */
OMMA_API void omma_attention_plan_destroy(struct omma_attention_plan *plan);

/* A plan without allocation. omma_attention_plan_size_bound is an upper bound of the bytes that a
 * plan takes; omma_attention_plan_place makes the plan in `memory` of the caller, aligned to 64
 * bytes. Such a plan needs no destruction. A bound holds for every spec with the same mode, type,
 * heads and dimensions whose counts and window are not larger (no window is the largest). It does
 * not read cu_seqlens, which may be NULL. It is 0 for a spec that would be refused. */
OMMA_API size_t omma_attention_plan_size_bound(const struct omma_attention_context *context,
                                               const struct omma_attention_spec *spec);
OMMA_API enum omma_status omma_attention_plan_place(const struct omma_attention_context *context,
                                                    const struct omma_attention_spec *spec, void *memory, size_t memory_size,
                                                    struct omma_attention_plan **plan, struct omma_error *error);

/* Facts about a plan. flops counts useful work only: 2 * (head_dim + v_head_dim) for each query
 * head, query, and key to which the query attends. */
struct omma_attention_plan_info {
  int64_t n_segments;
  /* A wave packs keys and values of some segments and heads, then attends to them. */
  int64_t n_waves;
  /* The unit of omma_attention_run_range: the pack and attend jobs of all waves, in order. */
  int64_t n_steps;
  double flops;
  size_t plan_bytes;
  float scale;
  const char *kernel; /* the kernel that computes the longest segment */
};
OMMA_API void omma_attention_plan_get_info(const struct omma_attention_plan *plan, struct omma_attention_plan_info *info);

/* Bytes of workspace for a run on a team of n_workers: a fixed amount per worker plus one wave,
 * regardless of the number of tokens. */
OMMA_API size_t omma_attention_plan_workspace_size(const struct omma_attention_plan *plan, int n_workers);

/* An upper bound of omma_attention_plan_workspace_size over all plans with the spec's mode, type,
 * heads and dimensions whose counts and window are not larger. For programs that plan their memory
 * before they know the segmentations. */
OMMA_API size_t omma_attention_workspace_bound(const struct omma_attention_context *context,
                                               const struct omma_attention_spec *spec, int n_workers);

/* ---- run ---- */

/* The tensors of one call. Strides count elements; 0 means the packed layout of the shapes above.
 * Each tensor may have any token stride of its own (v is usually a view into a fused q/k/v row).
 * The last dimension is contiguous. Elements need only their natural alignment. Inputs are not
 * changed, and out must not overlap them.
 *
 * With pages, position p of segment s lies in page t = page_table[s * page_table_stride + p / 64].
 * Its key for head h is at k + t * k_page_stride + h * k_head_stride + (p % 64) * k_token_stride,
 * and its value likewise. The default head and token strides are those of a page laid out as
 * [n_kv_heads, 64, head_dim] (v: [n_kv_heads, 64, v_head_dim]). Pages that lie outside of the
 * windows of all queries of a segment are never read: their entries may hold anything, such as -1.
 *
 * With int8_kv, the scales of head h are floats from k_scales + h * k_scale_head_stride on, one for
 * each row of k; with pages, that of position p is at k_scales + t * k_scale_page_stride + h *
 * k_scale_head_stride + p % 64. Those of v likewise. The default strides are those of
 * [n_kv_heads, n_kv_tokens], and of pages of [n_kv_heads, 64]. */
struct omma_attention_tensors {
  const void *q, *k, *v;
  void *out;
  int64_t q_token_stride, q_head_stride;
  int64_t k_token_stride, k_head_stride;
  int64_t v_token_stride, v_head_stride;
  int64_t out_token_stride, out_head_stride;
  const int32_t *page_table;
  int64_t page_table_stride;
  int64_t k_page_stride, v_page_stride;
  const float *k_scales, *v_scales;
  int64_t k_scale_head_stride, v_scale_head_stride;
  int64_t k_scale_page_stride, v_scale_page_stride;
};

/* Runs the whole plan. workspace: at least omma_attention_plan_workspace_size(plan,
 * team->n_workers) bytes, aligned to 64, not used by another running call. team NULL: the calling
 * thread alone. Allocates nothing and takes no lock. Errors: ARGUMENT, before anything is read or
 * written. */
OMMA_API enum omma_status omma_attention_run(const struct omma_attention_plan *plan,
                                             const struct omma_attention_tensors *tensors, void *workspace,
                                             size_t workspace_size, const struct omma_team *team, struct omma_error *error);

/* Runs steps [first, first + count) of the plan's n_steps, so that a scheduler can stop in between.
 * Steps must run in order, each once, on the same tensors and the same workspace, whose content
 * must be kept between the calls. The result is that of omma_attention_run, bit for bit. Step 0
 * also clears the rows of out past the last border. */
OMMA_API enum omma_status omma_attention_run_range(const struct omma_attention_plan *plan,
                                                   const struct omma_attention_tensors *tensors, void *workspace,
                                                   size_t workspace_size, const struct omma_team *team, int64_t first,
                                                   int64_t count, struct omma_error *error);

#ifdef __cplusplus
}
#endif

#endif
