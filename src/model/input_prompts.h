/* The texts that a checkpoint of vectors has for kinds of inputs (omma_model_input_prompt). */
#pragma once

#include "families/documents.h"

/* An object, name -> text, which the caller decrefs; *prompts is NULL where there are none. Members
 * that are no texts are left out. Errors: those of documents. */
enum omma_status ommai_input_prompts_read(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                          json_t **prompts, struct omma_error *error);
