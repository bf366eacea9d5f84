/* Which tokens of a row top-k and top-p leave, found without sorting the vocabulary.
 *
 * Tokens stand in falling order of value, equal ones in rising order of id; weights are integers
 * (row_ops.weigh), so that sums are exact in any order. Top-k leaves the first k; then top-p the
 * shortest beginning whose weights sum to at least its share of what was left. The value at which
 * the sums pass what is wanted is searched for: seven thresholds at a time, each with the sum from
 * it on, until the tokens between two thresholds are few enough to be taken out and put in order.
 * A search is a few looks at all parts, which threads share:
 *
 *     ommai_token_cut_begin(cut, ...);
 *     while (cut->open) {
 *       ommai_token_cut_look(cut, part) for every part;
 *       ommai_token_cut_narrow(cut);
 *     }
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "kernels/row_ops.h"

/* Tokens of a part; the last part may be shorter. */
#define OMMAI_TOKEN_PART 8192
/* Tokens that are taken out at most. */
#define OMMAI_TOKEN_CUT_LISTED 16384

struct ommai_token_cut_settings {
  float highest; /* the largest value, finite */
  float floor;   /* no token below it is left; finite */
  float scale;   /* a token weighs exp((value - highest) * scale) */
  int64_t top_k; /* 0: no limit */
  double top_p;  /* (0, 1], 1: no limit */
};

struct ommai_token_cut_part {
  uint64_t weight; /* of the tokens that are left */

  struct ommai_row_share shares[OMMAI_ROW_MAX_THRESHOLDS];
  int64_t n_above;    /* tokens at `high` and above */
  int64_t n_excluded; /* tokens of the value `floor` after `last` */
  int64_t listed;     /* where its tokens end in the list */
};

enum ommai_token_cut_stage { OMMAI_TOP_K, OMMAI_TOP_P };

struct ommai_token_cut {
  /* Left are the tokens above `floor`, and those equal to it up to id `last`. */
  float floor;
  int32_t last;
  struct ommai_token_cut_part *parts; /* [n_parts] */
  bool open;                          /* not done yet */

  const struct ommai_row_ops *ops;
  int64_t vocab_size;
  const float *values; /* [vocab] */
  struct ommai_token_cut_settings settings;
  enum ommai_token_cut_stage stage;
  int n_guesses; /* looks at samples that are still to come */
  int n_rounds;  /* of this stage */
  /* the token at which the sum passes `wanted` is at low or above, and below high */
  float low, high;
  /* tokens or weight: of the beginning; of all from high on, less than wanted */
  uint64_t wanted, above;
  float thresholds[OMMAI_ROW_MAX_THRESHOLDS];

  bool listing; /* the next look takes out what lies between */
  int64_t n_listed;
  int32_t *listed_tokens; /* [OMMAI_TOKEN_CUT_LISTED], in rising order of ids */
  float *listed_values;
  uint32_t *listed_weights;
};

/* Takes the tables of a row from the arena. */
struct ommai_token_cut ommai_token_cut_place(struct ommai_arena *arena, int64_t vocab_size, const struct ommai_row_ops *ops);

/* `values` [vocab] stay in place until the cut is done. */
void ommai_token_cut_begin(struct ommai_token_cut *cut, const float *values, const struct ommai_token_cut_settings *settings);

/* Looks at one part. Parts may be looked at by several threads at once. */
void ommai_token_cut_look(struct ommai_token_cut *cut, int64_t part);

/* Draws the conclusions when all parts have been looked at. */
void ommai_token_cut_narrow(struct ommai_token_cut *cut);

static inline bool ommai_token_cut_leaves(const struct ommai_token_cut *cut, int32_t token) {
  return cut->values[token] > cut->floor || (cut->values[token] == cut->floor && token <= cut->last);
}
