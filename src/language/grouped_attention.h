/* Grouped-query attention: keys and values of n_kv_heads heads are kept, and each serves a group of
 * query heads.
 *
 *   q [n_heads, head_dim], k and v [n_kv_heads, head_dim] = qkv(x); q, k = rope(norm(q)),
 *   rope(norm(k)), the norms per head where the model has them
 *
 * An int8 cache takes k and v from f32. Prefill and decode read keys and values from the pages, all
 * heads with one plan. */
#pragma once

#include "language/mixer.h"

extern const struct ommai_mixer ommai_grouped_attention;
