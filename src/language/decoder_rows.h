/* What goes through a decoder: prompt rows in pieces (prefill.h), and rows of generated tokens
 * (decode.h). */
#pragma once

#include <stdint.h>

#include "base/state_groups.h"

/* One prompt row: a token, or an image's row where `image` is set. */
struct ommai_prompt_row {
  int32_t token;
  int32_t position[3];
  /* [hidden] merged tower output; deepstack output j is at image + (1 + j) * image_stride */
  const float *image;
  int64_t image_stride;
};

/* n_rows rows of a chunk: positions from `first` on of the sequence whose pages these are. They
 * cover the rows and what they see. */
struct ommai_prefill_piece {
  int64_t first, n_rows;
  struct ommai_state_pages pages;
  struct ommai_prompt_row next; /* what follows, for a draft head; token -1: it is not there yet */
  int64_t first_read;           /* of the rows: nothing asks for the residuals of those before it */
};

/* The most pieces that a chunk has. */
#define OMMAI_PREFILL_MAX_PIECES 64

/* The most that the chunks of a workspace have: rows, pieces, and positions up to the ends of their
 * pages in all. */
struct ommai_prefill_limits {
  int64_t rows, pieces, context;
};

/* One sequence's next token: its id, its rotary position, the place in the sequence, and where the
 * sequence's state lies. */
struct ommai_decode_row {
  int32_t token;
  int32_t position[3];
  int64_t index;
  struct ommai_state_pages pages;
};

/* The most rows that a step has. */
#define OMMAI_DECODE_MAX_ROWS 4096
