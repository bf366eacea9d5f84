/* What makes one kind of attention of a decoder. Prefill, decode and the KV cache go through this
 * table and know no kind by name; each kind is a file: grouped_attention.c, mla.c.
 *
 *   layer:  projected = qkv(norm x);  finish_row: q, and what is kept, into the KV cache
 *           attend_prefill or attend_decode: q, KV cache -> attended;  x += o(attended) */
#ifndef OMMAI_LANGUAGE_ATTENTION_KIND_H
#define OMMAI_LANGUAGE_ATTENTION_KIND_H

#include "base/arena.h"
#include "language/decoder.h"
#include "language/kv_cache.h"

struct ommai_prefill_attention;
struct ommai_decode_attention;

/* What follows from a model's sizes. A layer keeps kept_heads rows of kept_width values of a token
 * as keys. */
struct ommai_attention_shape {
  int64_t kept_heads, kept_width;
  bool values_apart;      /* as many again are kept as values; else the kept rows serve as both */
  int64_t value_width;    /* of a kept row as a value in decode: its first elements */
  int64_t rope_dim;       /* values of a head that are rotated */
  int64_t head_elements;  /* of the matrices that a token goes through between qkv and o */
  int64_t decode_scratch; /* floats that attend_decode needs for a row */
};

struct ommai_attention_kind {
  struct ommai_attention_shape (*shape)(const struct ommai_decoder_config *config);
  bool int8_cache;   /* what is kept may be integers with a scale for each row */
  bool head_weights; /* layers have a struct ommai_mla_head for each head */

  /* Norm, rotation (cosine, sine [rope_dim / 2]) and one rounding of a row `projected` f32
   * [qkv_width], which may be overwritten. q dtype [q_width]; what is kept goes to `place`, an
   * offset of ommai_kv_position_offset, in the layer's pages. Thread-safe for different rows. */
  void (*finish_row)(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache, int64_t layer, float *projected,
                     const float *cosine, const float *sine, void *q, int64_t place);

  /* Decode: takes memory for n_rows rows, or measures it; then a layer's attention of all rows
   * (decode_attention.h). Errors of attend_decode: those of the operator. */
  void (*place_decode)(struct ommai_decode_attention *attention, const struct ommai_decoder *decoder, int64_t n_rows,
                       struct ommai_arena *arena);
  enum omma_status (*attend_decode)(const struct ommai_decode_attention *attention, int64_t layer, const struct omma_team *team,
                                    struct omma_error *error);

  /* Prefill: bytes for chunks of at most max_rows in contexts of at most max_context, 0 on
   * overflow; then the plan and memory of a chunk whose first seven members are filled in
   * (prefill_attention.h). Errors: MEMORY. */
  size_t (*prefill_size)(const struct ommai_decoder *decoder, int64_t max_rows, int64_t max_context, int n_workers);
  enum omma_status (*place_prefill)(struct ommai_prefill_attention *attention, int n_workers, struct ommai_arena *arena,
                                    struct omma_error *error);
  /* Steps [first, first + *count) of a layer's n_steps, within which at most one sort of work is
   * done: *count is made smaller where it ends early. Errors: MEMORY, and those of the operator. */
  enum omma_status (*attend_prefill)(const struct ommai_prefill_attention *attention, int64_t layer, int64_t first,
                                     int64_t *count, const struct omma_team *team, struct omma_error *error);
};

#endif
