/* Prompt rows through the decoder: a chunk of one or more sequences, tiles of rows and attention
 * jobs in turn, resumable.
 *
 * A sequence's piece of a chunk begins at any position if the network keeps nothing but pages, else
 * at a multiple of OMMA_ATTENTION_PAGE_TOKENS; a prompt gives the same bits however it is cut,
 * whatever else is in its chunks, and whatever else runs. What the layers keep goes into the
 * sequences' pages. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>

#include "base/pace.h"
#include "language/decoder.h"
#include "language/decoder_rows.h"
#include "language/kv_cache.h"

/* Looks at a finished layer's rows, for tests: layer, residual [n_rows, hidden]. */
typedef void (*ommai_layer_observer)(void *context, int64_t layer, const float *residual, int64_t n_rows, int64_t hidden_size);

/* The pace of slices of prompts, kept from chunk to chunk. Zero-initialised: nothing yet. */
#define OMMAI_PREFILL_PHASES 15
struct ommai_prefill_pace {
  struct ommai_pace phases[OMMAI_PREFILL_PHASES];
};

struct ommai_prefill;

/* Bytes of workspace for chunks of at most max_rows rows in max_pieces pieces, whose pages end
 * after max_context positions in all. 0 on overflow. */
size_t ommai_prefill_workspace_size(const struct ommai_decoder *decoder, int64_t max_rows, int64_t max_pieces,
                                    int64_t max_context, int n_workers);

/* Lays a chunk out: `rows` are those of the pieces, one piece after the other, of different
 * sequences. rows, and what the pieces' pages point to, must outlive the chunk. Errors: MEMORY
 * (workspace too small). */
enum omma_status ommai_prefill_start(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache,
                                     const struct ommai_prefill_piece *pieces, int64_t n_pieces,
                                     const struct ommai_prompt_row *rows, void *workspace, size_t workspace_size,
                                     const struct omma_team *team, struct ommai_prefill **prefill, struct omma_error *error);
/* Nothing goes into a piece's pages any more, and its rows are without meaning: the pages may
 * become somebody else's. The other pieces do not notice. */
void ommai_prefill_drop(struct ommai_prefill *prefill, int64_t piece);
void ommai_prefill_set_observer(struct ommai_prefill *prefill, ommai_layer_observer observer, void *context);

/* Advances by at most max_tasks tiles or attention steps of the present phase. Allocates
 * nothing. */
enum omma_status ommai_prefill_advance(struct ommai_prefill *prefill, int64_t max_tasks, struct omma_error *error);
/* Advances, through several phases if need be, for about `ns` nanoseconds, by the rates recorded in
 * `pace`, which it updates; at least one task on every worker. Results do not depend on where
 * slices end. */
enum omma_status ommai_prefill_advance_for(struct ommai_prefill *prefill, int64_t ns, struct ommai_prefill_pace *pace,
                                           struct omma_error *error);

bool ommai_prefill_done(const struct ommai_prefill *prefill);

/* The residual of row `row` after the last layer [hidden]; valid once done, until the workspace is
 * used again. The row is its piece's first_read or a later one. */
const float *ommai_prefill_residual(const struct ommai_prefill *prefill, int64_t row);
