/* The inside of omma_request: everything about a question that can be worked out before the engine
 * takes it up. Immutable. */
#pragma once

#include <omma/omma.h>
#include <stdatomic.h>

#include "base/tokens.h"
#include "model/model.h"
#include "model/prepared_image.h"
#include "request/reasoning_state.h"
#include "request/token_rules.h"

/* Limits of one request; a video counts as an image. */
#define OMMAI_REQUEST_MAX_IMAGES 1024
/* of all images and frames, 1.5 GiB */
#define OMMAI_REQUEST_MAX_RESIZED_PIXELS ((int64_t)512 << 20)
#define OMMAI_REQUEST_MAX_STOP_BYTES 1024
#define OMMAI_REQUEST_MAX_STOP_TOKENS 128

struct omma_request {
  struct omma_allocator allocator;
  const struct omma_model *model;
  enum omma_request_kind kind;       /* never DEFAULT */
  int32_t *ids;                      /* [n_tokens], the prompt as clients see it */
  struct ommai_prompt_token *tokens; /* [n_tokens] */
  size_t n_tokens;
  int32_t next_position;               /* of the first generated token, in all three axes */
  struct ommai_prepared_image *images; /* and videos, in order */
  struct ommai_image_key *keys;        /* [n_images] */
  size_t n_images;
  struct omma_kv_page_key *page_keys; /* [n_page_keys], of the prompt's full pages */
  size_t n_page_keys;
  char *cache_salt; /* NULL: none */
  int64_t priority;
  bool whole; /* the client reads the answer when it is complete */

  struct ommai_reasoning_rules reasoning;
  struct omma_grammar *grammar; /* of what follows the reasoning; or NULL */
  struct ommai_sampler_settings sampler;
  struct ommai_token_rules rules;
  int64_t max_tokens, min_tokens; /* max_tokens 0: what the context leaves */
  bool ignore_eos, include_stop, keep_special_tokens, logprobs;
  int n_top_logprobs;
  bool prompt_logprobs;
  int n_prompt_logprobs;
  int64_t no_repeat_ngram_size;
  struct omma_repetition_detection repetition_detection;
  char *stop[OMMA_MAX_STOP_STRINGS];
  size_t stop_size[OMMA_MAX_STOP_STRINGS];
  size_t n_stop;
  int32_t stop_tokens[OMMAI_REQUEST_MAX_STOP_TOKENS];
  size_t n_stop_tokens;
  double preprocess_seconds;
  atomic_int n_holds; /* owners besides the first */

  /* Of a vector or score: */
  int64_t dimensions; /* of the vector; 0: all */
  bool raw_vectors;
  bool every_token;        /* a vector for each token of the prompt */
  int32_t score_tokens[2]; /* whose logits are compared: for, against */

  /* While it is made: the ids of a text without images that was short enough to be encoded instead
   * of counted. NULL: none. */
  int32_t *text_ids; /* [n_text_ids], a capacity of text_room */
  size_t n_text_ids, text_room;
};

/* Whether its answer is read off its prompt's tokens: vectors or a score. */
static inline bool ommai_request_reads(const struct omma_request *request) {
  return request->kind == OMMA_REQUEST_EMBED || request->kind == OMMA_REQUEST_SCORE;
}

/* Takes room for the ids, tokens and page keys of n_tokens. Errors: MEMORY. */
enum omma_status ommai_request_allocate_prompt(struct omma_request *request, struct omma_error *error);

/* Frees the ids of a text, which are there while the request is made. */
void ommai_request_free_text_ids(struct omma_request *request);

/* Adds an owner, who calls omma_request_destroy when done with it. Returns the request. */
const struct omma_request *ommai_request_hold(const struct omma_request *request);
void ommai_request_let_go(const struct omma_request *request);

/* Whether a prompt of n_tokens and one token of an answer fit into an engine's context_tokens.
 * Errors: LIMIT ("input_tokens"). */
enum omma_status ommai_request_check_context(int64_t context_tokens, size_t n_tokens, struct omma_error *error);

/* Patches of all its images; and bytes that it takes besides their pixels and its grammar, which
 * have budgets of their own. */
int64_t ommai_request_patches(const struct omma_request *request);
size_t ommai_request_bytes(const struct omma_request *request);

/* Checks every value and copies the settings into the request. Errors: ARGUMENT with the field's
 * name and value, MEMORY. */
enum omma_status ommai_request_set_sampling(struct omma_request *request, const struct omma_sampling *sampling,
                                            struct omma_error *error);
