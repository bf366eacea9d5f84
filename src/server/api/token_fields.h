/* The fields of a request that set which tokens its answer may have: logit_bias, allowed_token_ids,
 * bad_words, no_repeat_ngram_size (also inside vllm_xargs); when it ends because it repeats itself:
 * repetition_detection; and how much of its prompt counts: truncate_prompt_tokens. Form and meaning
 * are vLLM's. */
#pragma once

#include <jansson.h>
#include <omma/omma.h>

#include "base/text_buffer.h"
#include "server/core/api_error.h"

struct ommai_server_config;

/* Zero-initialised: nothing to free. Words belong to the JSON document. */
struct ommai_token_fields {
  struct omma_logit_bias *biases; /* [n_biases] */
  size_t n_biases;
  int32_t *allowed; /* [n_allowed] */
  size_t n_allowed;
  const char *bad_words[OMMA_MAX_BAD_WORDS];
};

/* Reads all but the last; the first three into `fields`, to which the sampling then points. False
 * with *error filled; free in any case. */
bool ommai_token_fields_read(const struct ommai_server_config *config, const json_t *root, struct ommai_token_fields *fields,
                             struct omma_sampling *sampling, struct ommai_api_error *error);
void ommai_token_fields_free(struct ommai_token_fields *fields, const struct omma_allocator *allocator);

/* Reads truncate_prompt_tokens, and truncation_side. `room` is what the context leaves for a
 * prompt, which -1 stands for. */
bool ommai_truncation_read(const json_t *root, int64_t room, struct omma_truncation *truncation, struct ommai_api_error *error);

/* ---- between texts and token ids ---- */

/* *tokens are in the server's memory, to be released with *n_tokens (also when there are none).
 * False with *error filled. A text of more than `max_tokens` tokens is refused before more of it is
 * read than that takes. */
bool ommai_text_tokenize(const struct ommai_server_config *config, const json_t *text, size_t max_tokens, int32_t **tokens,
                         size_t *n_tokens, struct ommai_api_error *error);
/* `field` names the array in errors. The former has room for its entries. */
bool ommai_token_ids_read(const struct ommai_server_config *config, const json_t *array, const char *field, int32_t *ids,
                          struct ommai_api_error *error);
bool ommai_token_array_read(const struct ommai_server_config *config, const json_t *array, const char *field, int32_t **tokens,
                            size_t *n_tokens, struct ommai_api_error *error);

/* Appends the text of tokens. */
bool ommai_token_text_add(const struct ommai_server_config *config, const int32_t *tokens, size_t n_tokens,
                          struct ommai_text *out, struct ommai_api_error *error);
