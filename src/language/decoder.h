/* A decoder-only language model: what it is made of. Filled by the code of a model family,
 * read-only afterwards.
 *
 *   residual [n, hidden] = embedding rows, or the tower's tokens at image positions
 *   per layer: residual += o(mixer(norm residual)); residual += feed_forward(norm residual),
 *     each sum perhaps normed before it is added
 *   the tower's deepstack output j is added to image rows after layer j
 *   logits = lm_head(norm residual)
 *
 * Each layer has a mixer (mixer.h): grouped attention (q, k, v projected, k and v kept;
 * grouped_attention.h), perhaps within a window, MLA (k and v kept compressed; mla.h), or a gated
 * delta net (a matrix kept for each head; delta_net.h). A layer's feed-forward part
 * (feed_forward.h) is dense, down(silu(gate) * up), or routed: a few of many such experts per row
 * (router.h, experts.h), next to a shared expert that every row takes, where there is one. RMSNorm
 * everywhere. Source: the text models of Hugging Face transformers named in docs/models/. */
#pragma once

#include <omma/attention.h>
#include <omma/host.h>

#include "kernels/row_ops.h"
#include "language/mrope.h"
#include "language/router.h"
#include "linear/linear_parts.h"

#define OMMAI_DECODER_MAX_LAYERS 1024
#define OMMAI_DECODER_ALL_LAYERS (OMMAI_DECODER_MAX_LAYERS + 1) /* and a draft head's */

struct ommai_mixer;
struct ommai_decoder_config;

/* What a layer's feed-forward part is, one for each of its kinds (feed_forward.h, experts.h). */
struct ommai_ffn {
  bool routed; /* a router sends each row to some experts, besides the shared one */
  /* Intermediate widths: of the MLP that every row takes, a dense layer's or the shared expert (0:
   * there is none), and of a row's own experts together. */
  int64_t (*dense_size)(const struct ommai_decoder_config *config);
  int64_t (*chosen_size)(const struct ommai_decoder_config *config);
};

/* MLA: a token keeps kv_rank normalised values and one rotated key part of rope_dim for all heads.
 * A head's query and key are nope_dim values without and rope_dim values with rotation. */
struct ommai_mla_config {
  int64_t kv_rank, nope_dim, rope_dim;
  float norm_eps;
};

/* Gated delta net: heads of queries and keys, and a multiple of them of values; rows that the
 * convolution sees. */
#define OMMAI_DELTA_MAX_KERNEL 8
struct ommai_delta_config {
  int64_t n_key_heads, n_value_heads, key_dim, value_dim, kernel;
};

/* Channels of the convolution: queries, keys, values. */
static inline int64_t ommai_delta_channels(const struct ommai_delta_config *delta) {
  return 2 * delta->n_key_heads * delta->key_dim + delta->n_value_heads * delta->value_dim;
}

/* Feed-forward parts by experts. */
struct ommai_experts_config {
  struct ommai_router_config router; /* n_experts 0: no layer is routed */
  int64_t intermediate_size;         /* of one expert */
  /* intermediate width of the shared expert; 0: none */
  int64_t shared_size;
};

/* What a layer computes with. */
struct ommai_layer_config {
  const struct ommai_mixer *mixer;
  const struct ommai_ffn *ffn;
  int64_t window; /* grouped attention: a token sees itself and the window - 1 before it; 0: all */
};

/* The draft head of a checkpoint: how many layers, and whether it embeds tokens by a table of its
 * own. */
struct ommai_draft_offer {
  int64_t n_layers;
  bool own_embeddings;
};

struct ommai_decoder_config {
  int64_t n_layers, hidden_size, n_heads, n_kv_heads, head_dim, v_head_dim, intermediate_size, vocab_size, max_positions;
  float norm_eps;
  /* Grouped attention. output_gate: qkv projects as many gates as queries besides, after v; heads
   * are multiplied by their sigmoids. rotary_dim: values of a head that are rotated, its first; 0:
   * all */
  bool qkv_bias, qk_norm, output_gate;
  int64_t rotary_dim;
  /* values 2j and 2j + 1 of a head turn together; else j and j + half of those that are rotated */
  bool rope_pairs;
  /* what o and down give is normed before it is added to the residual; dense layers alone */
  bool branch_norms;
  struct ommai_mla_config mla;     /* MLA */
  struct ommai_delta_config delta; /* gated delta net */
  struct ommai_experts_config experts;
  double rope_theta;
  struct ommai_rope_scaling rope_scaling;
  double attention_factor; /* of the scores, besides 1 / sqrt(head_dim); 0: 1 */
  int64_t mrope_section[3];
  bool mrope_interleaved;
  bool rope_1d; /* an image's tokens are counted one by one, as text */
  bool tied_embeddings;
  bool headless; /* without an output layer: it gives vectors alone */
  /* A draft head: layers after the others, of which a row goes through one. 0: there is none, or it
   * is not loaded. draft_offer: what the checkpoint has. */
  int64_t n_draft_layers;
  struct ommai_draft_offer draft_offer;
  int64_t n_deepstack;     /* layers 0 .. n_deepstack - 1 take one output of the tower each */
  int64_t projected_state; /* width of what states are projected to, for vectors; 0: they are not */
  struct ommai_layer_config layers[OMMAI_DECODER_ALL_LAYERS]; /* the draft head's come last */
};

static inline int64_t ommai_decoder_all_layers(const struct ommai_decoder_config *config) {
  return config->n_layers + config->n_draft_layers;
}

/* Gives all layers the same mixer and feed-forward part. */
void ommai_decoder_set_layers(struct ommai_decoder_config *config, const struct ommai_mixer *mixer,
                              const struct ommai_ffn *ffn);

/* Widths of the queries, keys and attended values of grouped attention and MLA. */
static inline int64_t ommai_decoder_q_width(const struct ommai_decoder_config *config) {
  return config->n_heads * config->head_dim;
}
static inline int64_t ommai_decoder_kv_width(const struct ommai_decoder_config *config) {
  return config->n_kv_heads * config->head_dim;
}
static inline int64_t ommai_decoder_attended_width(const struct ommai_decoder_config *config) {
  return config->n_heads * config->v_head_dim;
}
/* Of what is read of a row's state for vectors. */
static inline int64_t ommai_decoder_state_width(const struct ommai_decoder_config *config) {
  return config->projected_state ? config->projected_state : config->hidden_size;
}
/* What scores are multiplied by. */
float ommai_decoder_attention_scale(const struct ommai_decoder_config *config);

/* A layer that all rows of a chunk go through, in parts along its outputs; `linear` itself for the
 * few rows of a decode step. */
struct ommai_decoder_linear {
  struct ommai_linear *linear;
  struct ommai_linear_parts *parts;
};

/* A layer for one task's rows at a time. */
struct ommai_decoder_tile_linear {
  struct ommai_linear *linear;
  struct ommai_linear_op *op;
};

/* feed_forward.h: the part of a layer that every row takes, and an expert. */
struct ommai_decoder_dense {
  struct ommai_decoder_linear gate_up, down;
};
struct ommai_decoder_expert {
  struct ommai_decoder_tile_linear gate_up, down;
};

/* One head of MLA, by what becomes of the compressed values c:
 *   expand: [value, key] = c W   for prompts    absorb: q_c = q_nope W, so that q_c . c = q_nope .
 *           key; value alone   for decoding */
struct ommai_mla_head {
  struct ommai_decoder_tile_linear expand;
  struct ommai_linear *absorb, *value;
};

/* Gated delta net. */
struct ommai_delta_weights {
  float *conv;                     /* [kernel, channels] */
  float *decay_rates, *decay_bias; /* [n_value_heads]; exp(A_log) */
  float *norm;                     /* [value_dim] */
};

/* Draft head: drafts the token after the next one from a row's state h (after the final norm) and
 * the next token.
 *
 *   x = fc([norm(embedding of the next token), norm(h)]), through the draft layer; h' = norm(x) is
 *   the state from which lm_head drafts, and the head goes on from a draft token */
struct ommai_draft_head {
  float *embedding_norm, *state_norm, *norm; /* [hidden] */
  struct ommai_decoder_linear fc;            /* [2 hidden] -> [hidden] */
};

struct ommai_decoder_layer {
  float *input_norm, *post_norm; /* [hidden] */
  float *mixed_norm, *ffn_norm;  /* [hidden]: of what o and down give; NULL: none */
  float *q_norm, *k_norm;        /* [head_dim]; NULL: none */
  float *mla_norm;               /* [kv_rank]; MLA */
  /* qkv: q, k, v stacked, or q and the compressed row, or what a gated delta net takes */
  struct ommai_decoder_linear qkv, o;
  struct ommai_delta_weights delta; /* gated delta net */
  struct ommai_mla_head *mla_heads; /* [n_heads]; MLA */
  struct ommai_decoder_dense dense; /* where ommai_decoder_dense_size is not 0 */
  /* f32 [hidden] -> [ommai_router_outputs]; MoE layers, as the two below */
  struct ommai_decoder_tile_linear router;
  float *router_bias;                   /* [n_experts]; NULL: none */
  struct ommai_decoder_expert *experts; /* [n_experts] */
};

struct ommai_decoder {
  struct ommai_decoder_config config;
  enum omma_dtype dtype;   /* of linear layers and q: f32 or bf16 */
  enum omma_dtype kv_type; /* of the KV cache: as dtype, bf16 next to f32, or int8 */
  const struct ommai_row_ops *ops;
  const struct omma_attention_context *attention;
  struct ommai_linear_context *linear_context;
  struct ommai_mrope mrope;
  /* Embedding rows, read straight from the mapped file: [vocab, hidden]. */
  const void *embedding;
  enum omma_dtype embedding_type;
  /* where the file has its own form of them, which counts then; else NULL */
  const struct ommai_stored_matrix *embedding_stored;
  struct ommai_decoder_layer *layers; /* [ommai_decoder_all_layers] */
  struct ommai_draft_head draft;      /* where n_draft_layers is not 0 */
  float *final_norm;                  /* [hidden] */
  struct ommai_linear *lm_head;
  struct ommai_linear *state_projection; /* f32 [hidden] -> [projected_state]; NULL: none */
  /* of a row of x prepared for a layer (linear.h), the maximum over the layers; and of one of few
   * rows, for decoding */
  size_t prepared_row_bytes, gemv_row_bytes;
};

/* Allocates the tables that the loading code fills: layers, their experts and heads. Errors:
 * MEMORY; what was made stays for ommai_decoder_free. */
enum omma_status ommai_decoder_allocate(struct ommai_decoder *decoder, const struct omma_allocator *allocator,
                                        struct omma_error *error);
/* Gives back the tables and every weight in them; takes half-filled decoders. */
void ommai_decoder_free(struct ommai_decoder *decoder, const struct omma_allocator *allocator);

/* One row of the embedding table as f32 [hidden]. token in [0, vocab_size). */
void ommai_decoder_embed(const struct ommai_decoder *decoder, int32_t token, float *out);

/* residual += RMSNorm of branch, both [hidden]; branch is overwritten. */
void ommai_decoder_add_normed(const struct ommai_decoder *decoder, const float *weight, float *branch, float *residual);
