/* Requests for vectors and scores: what is particular about their prompts, and from what a runner
 * read to what callers get. */
#pragma once

#include <omma/vectors.h>

#include "request/request.h"

/* Takes what the options say of vectors, for a request of any kind. Errors: ARGUMENT (field
 * "dimensions"), UNSUPPORTED (field "model": a model that no scores can be read off). */
enum omma_status ommai_request_set_vectors(struct omma_request *request, const struct omma_request_options *options,
                                           struct omma_error *error);

/* Cuts a prompt, whose page keys are not made yet, to `limit` tokens. It keeps special tokens,
 * those of images, the last ones that the model's rules protect, and the first of the others.
 * Errors: MEMORY. */
enum omma_status ommai_request_shorten(struct omma_request *request, size_t limit, struct omma_error *error);

/* Of what was read for the request, f32: the state of its last token [width], or the logits of its
 * score_tokens. *vectors lies in the same place. False: there are values that are not finite. */
bool ommai_request_make_vectors(const struct omma_request *request, void *read, struct omma_vectors *vectors);
