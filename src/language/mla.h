/* MLA: what is kept of a token is one compressed row for all heads.
 *
 *   [q of all heads | c, r] = qkv(x); c = norm(c); r = rope(r), pairs of neighbours; kept: [c | r],
 *   kv_rank + rope_dim values
 *   a head's key is [W_k c | r], its value W_v c, its query [q_nope | rope(q_rope)]
 *
 * Prompts expand the kept rows to keys and values, a group of heads at a time, so that the memory
 * for it is bounded. Decoding turns it round: q_nope W_k is multiplied with c itself, and W_v with
 * the weighted sum of c, so that the kept rows are read as they are. Source: arXiv 2405.04434,
 * section 2.1. */
#ifndef OMMAI_LANGUAGE_MLA_H
#define OMMAI_LANGUAGE_MLA_H

#include "language/decoder.h"
#include "language/kv_cache.h"

/* Norm, rotation (cosine, sine [rope_dim / 2]) and one rounding of a row `projected` f32
 * [qkv_width]. q_out [n_heads * head_dim]; the compressed row goes to `place`, an offset of
 * ommai_kv_position_offset, in the layer's pages. */
void ommai_mla_finish_row(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache, int64_t layer,
                          const float *projected, const float *cosine, const float *sine, void *q_out, int64_t place);

/* Elements of an expanded row of one head: value, then key. */
static inline int64_t ommai_mla_expanded_width(const struct ommai_decoder_config *config) {
  return config->v_head_dim + config->head_dim;
}

/* Expands n_rows (at most a page) kept rows of `page` for one head into out dtype [64,
 * expanded_width]. widened: memory of ommai_mla_widened_size bytes. False where the linear layer
 * refuses, which sizes fixed at load exclude. */
bool ommai_mla_expand(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache, int64_t layer, int64_t head,
                      int32_t page, int64_t n_rows, float *widened, void *out, int worker);

/* Bytes that a worker needs to widen a page's kept rows; 0 where they are of the type that linear
 * layers take. */
size_t ommai_mla_widened_size(const struct ommai_decoder *decoder);

/* Decoding, n_rows rows, heads shared out over the team. q dtype [n_rows, n_heads * head_dim] to
 * absorbed dtype [n_rows, n_heads, kv_rank + rope_dim]; sums dtype [n_rows, n_heads, kv_rank] to
 * values dtype [n_rows, n_heads * v_head_dim]. scratch f32 [n_rows, n_heads * max(kv_rank,
 * v_head_dim)]. */
void ommai_mla_absorb(const struct ommai_decoder *decoder, int64_t layer, const void *q, int64_t n_rows, float *scratch,
                      void *absorbed, const struct omma_team *team);
void ommai_mla_values(const struct ommai_decoder *decoder, int64_t layer, const void *sums, int64_t n_rows, float *scratch,
                      void *values, const struct omma_team *team);

struct ommai_linear_call ommai_mla_call_expand(const struct ommai_decoder_config *config, enum omma_dtype dtype);

#endif
