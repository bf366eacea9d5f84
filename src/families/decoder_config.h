/* The keys of a text configuration that are named alike in all families. */
#pragma once

#include "base/json.h"
#include "language/decoder.h"

enum { OMMAI_WHERE_SIZE = 4200 };

/* Layers, their windows, widths, heads, vocabulary, positions and rms_norm_eps; refuses another
 * activation than silu. Heads are hidden_size /
 * num_attention_heads wide until the caller changes that. Errors: FORMAT, UNSUPPORTED. */
enum omma_status ommai_decoder_parse_common(const json_t *text, const char *where, double default_eps,
                                            struct ommai_decoder_config *config, struct omma_error *error);

/* For families whose layers all see everything. Errors: UNSUPPORTED. */
enum omma_status ommai_decoder_refuse_windows(const struct ommai_decoder_config *config, const char *where,
                                              struct omma_error *error);

/* A number above 0 and below 1. */
enum omma_status ommai_decoder_parse_eps(const json_t *text, const char *where, const char *key, double fallback, float *out,
                                         struct omma_error *error);

/* tie_word_embeddings of the text part, overruled by the one at the top. */
enum omma_status ommai_decoder_parse_tied(const json_t *text, const char *where, const json_t *root, const char *path,
                                          struct ommai_decoder_config *config, struct omma_error *error);

/* Checks the router's numbers against each other. */
enum omma_status ommai_decoder_check_router(const char *where, const struct ommai_router_config *router,
                                            struct omma_error *error);
