/* Reads the configuration documents of a model. */
#pragma once

#include "families/model_config.h"

struct ommai_family;

/* Reads the configuration documents. Every key that matters is checked; values that this program
 * cannot honour are refused by name. *family is the registry's entry for config.json's model_type.
 * Where preprocessor_config.json is missing, the family's published values are taken if
 * `may_assume`, as config->image.published then shows. Errors: IO, FORMAT, UNSUPPORTED. */
enum omma_status ommai_model_config_read(const struct ommai_documents *documents, bool may_assume,
                                         const struct omma_allocator *allocator, const struct ommai_family **family,
                                         struct ommai_model_config *config, struct omma_error *error);

/* Has the checkpoint's draft head loaded with the model. Errors: UNSUPPORTED (field "draft_head":
 * it has none, or one of another kind). */
enum omma_status ommai_model_config_take_draft_head(struct ommai_model_config *config, struct omma_error *error);
