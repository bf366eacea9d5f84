/* MLA: what is kept of a token is one compressed row for all heads.
 *
 *   [q of all heads | c, r] = qkv(x); c = norm(c); r = rope(r), pairs of neighbours; kept: [c | r],
 *   kv_rank + rope_dim values
 *   a head's key is [W_k c | r], its value W_v c, its query [q_nope | rope(q_rope)]
 *
 * Prompts expand the kept rows to keys and values, a group of heads at a time, so that the memory
 * for it is bounded. Decode absorbs W_k into the query instead: q_nope W_k is multiplied with c,
 * and W_v with the weighted sum of c, so that the kept rows are read as they are. Source: arXiv
 * 2405.04434, section 2.1. */
#pragma once

#include "language/decoder.h"
#include "language/mixer.h"

extern const struct ommai_mixer ommai_mla_attention;

/* Elements of a kept row. */
static inline int64_t ommai_mla_width(const struct ommai_decoder_config *config) {
  return config->mla.kv_rank + config->mla.rope_dim;
}

/* How prefill calls a head's expansion. */
struct ommai_linear_call ommai_mla_call_expand(const struct ommai_decoder_config *config, enum omma_dtype dtype);
