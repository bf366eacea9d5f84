/* What mixes tokens in a layer of a decoder: the part through which a token sees the ones before
 * it. Each layer has a mixer and says what it keeps of a sequence (state.h). Prefill, decode and
 * the memory of sequences go through this table and know no mixer by name; each mixer is a file:
 * grouped_attention.c, mla.c, delta_net.c.
 *
 *   layer:  projected = qkv(norm x);  finish_row: q, and what is kept, into pages
 *           prefill or decode: q or projected, what is kept -> mixed;  x += o(mixed) */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Handed on by their pointers alone: so a decoder can stand on this file. */
struct ommai_arena;
struct ommai_decoder;
struct ommai_decoder_config;
struct ommai_kv_cache;
struct ommai_layer_group;
struct ommai_prefill_limits;
struct ommai_decode_mixing;
struct ommai_prefill_mixing;

/* What follows from a model's sizes. A mixer keeps rows in pages, kept_heads of kept_width values
 * for each token as keys; or a snapshot, which replaces itself. */
struct ommai_mixer_shape {
  int64_t projected;      /* outputs of qkv */
  int64_t q_width, mixed; /* what finish_row makes for mixing; inputs of o */
  size_t snapshot_bytes;  /* of a layer, a multiple of 64; 0: pages */
  int64_t kept_heads, kept_width;
  bool values_apart;      /* as many again are kept as values; else the kept rows serve as both */
  int64_t value_width;    /* of a kept row as a value in decode: its first elements */
  int64_t rope_dim;       /* values of a head that are rotated */
  int64_t head_elements;  /* of the matrices that a token goes through between qkv and o */
  int64_t seen_elements;  /* products of a token with each one that it sees */
  int64_t decode_scratch; /* floats that decode needs for a row, in the place of `projected` */
};

struct ommai_mixer {
  struct ommai_mixer_shape (*shape)(const struct ommai_decoder_config *config);
  bool int8_cache;   /* what is kept in pages may be integers with a scale for each row */
  bool head_weights; /* layers have a struct ommai_mla_head for each head */

  /* Norm, rotation (cosine, sine [rope_dim / 2]) and one rounding of a row `projected` f32, which
   * may be overwritten. q dtype [q_width]; what is kept goes to `place`, an offset of
   * ommai_kv_position_offset, in the layer's pages. Thread-safe for different rows. NULL, of mixers
   * that keep snapshots: rows are mixed as they were projected. */
  void (*finish_row)(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache, int64_t layer, float *projected,
                     const float *cosine, const float *sine, void *q, int64_t place);

  /* Decode: bytes for steps of at most max_rows rows in contexts of at most max_context, 0 on
   * overflow; then the plan and memory of a step whose first members are filled in
   * (decode_attention.h), which serve all layers of a group; then a layer's rows. Rows of one
   * sequence stand in order: each sees, or begins from, what those before it leave. Errors:
   * MEMORY, and those of the operator. */
  size_t (*decode_size)(const struct ommai_decoder *decoder, const struct ommai_layer_group *group, int64_t max_rows,
                        int64_t max_context, int n_workers);
  enum omma_status (*place_decode)(struct ommai_decode_mixing *mixing, int n_workers, struct ommai_arena *arena,
                                   struct omma_error *error);
  enum omma_status (*decode)(const struct ommai_decode_mixing *mixing, int64_t layer, const struct omma_team *team,
                             struct omma_error *error);

  /* Prefill: the same for chunks (prefill_attention.h); prefill runs steps [first, first + *count)
   * of a layer's n_steps, within which at most one sort of work is done: *count is made smaller
   * where it ends early. */
  size_t (*prefill_size)(const struct ommai_decoder *decoder, const struct ommai_layer_group *group,
                         const struct ommai_prefill_limits *limits, int n_workers);
  enum omma_status (*place_prefill)(struct ommai_prefill_mixing *mixing, int n_workers, struct ommai_arena *arena,
                                    struct omma_error *error);
  enum omma_status (*prefill)(const struct ommai_prefill_mixing *mixing, int64_t layer, int64_t first, int64_t *count,
                              const struct omma_team *team, struct omma_error *error);
};
