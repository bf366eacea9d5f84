/* Generated tokens through the decoder: one row per sequence, always by the kernels for few rows,
 * at any load. So a token's arithmetic does not depend on the sequences that are decoded with
 * it. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>

#include "language/decoder.h"
#include "language/decoder_rows.h"
#include "language/kv_cache.h"

/* Bytes of workspace for steps of at most max_rows rows of at most max_context positions. 0 on
 * overflow. */
size_t ommai_decode_workspace_size(const struct ommai_decoder *decoder, int64_t max_rows, int64_t max_context, int n_workers);

/* Runs the rows through all layers and writes the logits f32 [n_rows, vocab_size], where logits is
 * not NULL. What the layers keep goes into the rows' pages. Rows may belong to one sequence, one
 * after the other at successive indices: a row sees the ones before it, and begins from the
 * snapshot that it names, which may be the one that the row before it leaves. Allocates nothing.
 * Errors: MEMORY (workspace too small). */
enum omma_status ommai_decode_run(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache,
                                  const struct ommai_decode_row *rows, int64_t n_rows, void *workspace, size_t workspace_size,
                                  const struct omma_team *team, float *logits, struct omma_error *error);

/* Rows of a draft head (decoder.h): row i is the token that follows a row whose state, after the
 * final norm or the head's own, is states[i] [hidden], at that row's index and position; what the
 * head keeps goes there. Replaces the states by the head's own. Errors: MEMORY. */
enum omma_status ommai_decode_draft(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache,
                                    const struct ommai_decode_row *rows, float *states, int64_t n_rows, void *workspace,
                                    size_t workspace_size, const struct omma_team *team, struct omma_error *error);

/* Logits f32 [n_rows, vocab_size] of states [n_rows, hidden] of a draft head. Errors: MEMORY. */
enum omma_status ommai_decode_draft_logits(const struct ommai_decoder *decoder, const float *states, int64_t n_rows,
                                           void *workspace, size_t workspace_size, const struct omma_team *team, float *logits,
                                           struct omma_error *error);

/* The residual rows [n_rows, hidden] that a run left in its workspace, until that is used again. */
const float *ommai_decode_residual(const void *workspace);

/* Final norm and logits f32 [n_rows, vocab_size] of n_rows residual rows, each [hidden], at most as
 * many as the workspace is for: the end of a prompt goes the same way as a decode step. */
enum omma_status ommai_decode_logits(const struct ommai_decoder *decoder, const float *const *residuals, int64_t n_rows,
                                     void *workspace, size_t workspace_size, const struct omma_team *team, float *logits,
                                     struct omma_error *error);

/* Of residual rows likewise: final norm, and the projection of states f32 [n_rows,
 * projected_state]. */
enum omma_status ommai_decode_project(const struct ommai_decoder *decoder, const float *const *residuals, int64_t n_rows,
                                      void *workspace, size_t workspace_size, const struct omma_team *team, float *states,
                                      struct omma_error *error);
