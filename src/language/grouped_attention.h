/* The row-local half of grouped-query attention: from one row of fused projections to the q, k and
 * v that attention reads.
 *
 *   q [n_heads, head_dim], k and v [n_kv_heads, head_dim] = qkv(x); q, k = rope(norm(q)),
 *   rope(norm(k)), the norms per head where the
 *   model has them */
#ifndef OMMAI_LANGUAGE_GROUPED_ATTENTION_H
#define OMMAI_LANGUAGE_GROUPED_ATTENTION_H

#include "language/decoder.h"
#include "language/kv_cache.h"

/* Norms, rotation by the row's angles (cosine, sine [head_dim / 2]) and one rounding of a row qkv
 * f32 [qkv_width], whose q and k are overwritten. q_out [n_heads * head_dim]; k and v go to
 * `place`, an offset of ommai_kv_position_offset, in the layer's pages. */
void ommai_grouped_finish_row(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache, int64_t layer,
                              float *qkv, const float *cosine, const float *sine, void *q_out, int64_t place);

#endif
