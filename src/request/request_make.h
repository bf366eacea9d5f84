/* Making requests; omma_request_create and its like are here too. */
#pragma once

#include "families/prompt_builder.h"
#include "request/request.h"

/* Makes a request from a prompt that was rendered before; `messages` is what it was rendered from.
 * Errors: as omma_request_create. */
enum omma_status ommai_request_create_prompt(const struct omma_model *model, const struct omma_message *messages,
                                             size_t n_messages, const struct ommai_prompt_builder *prompt,
                                             const struct omma_request_options *options, struct omma_request **out,
                                             struct omma_error *error);
