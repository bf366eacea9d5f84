/* A recurrent mixer for tests: what it keeps of a sequence is a snapshot, and rows follow one
 * another.
 *
 *   projected = [q, k, v], shaped as grouped attention's, without rotation
 *   for each head of k and v: S = TOY_DECAY * S + k v^T;   mixed of head h = q_h S / head_dim */
#pragma once

#include "language/mixer.h"

#define TOY_DECAY 0.9f

extern const struct ommai_mixer toy_mixer;
