/* Late interaction: a vector for each token of a prompt, by one linear layer over the states after
 * the final norm. A query's score for a page is the sum over the query's vectors of the largest
 * product with one of the page's. How such models are recognised, and the form of their prompts. */
#pragma once

#include "families/model_config.h"
#include "families/weight_loader.h"

/* Of a family. */
struct ommai_token_vector_rules {
  int64_t width; /* of a vector, where config.json does not say it */
  /* what stands around an image, and after a query */
  const char *before_image, *after_image, *query_suffix;
  const char *other_query_prefix; /* of checkpoints with their language model in vlm_config */
};

struct ommai_family;

/* The part of config.json (root) that describes the language model with its tower, *inner, and its
 * model_type: root itself, or what it wraps. Errors: FORMAT. */
enum omma_status ommai_token_vectors_unwrap(const json_t *root, const char *path, const json_t **inner, const char **model_type,
                                            struct omma_error *error);

/* Fills config->token_vectors and config->text.projected_state by the root of config.json and
 * processor_config.json. Errors: FORMAT, IO. */
enum omma_status ommai_token_vectors_read(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                          const struct ommai_family *family, const json_t *root, const char *path,
                                          struct ommai_model_config *config, struct omma_error *error);

/* Names the projection's tensors to the loader, where decoder->config has one. */
enum omma_status ommai_token_vectors_load(struct ommai_weight_loader *loader, struct ommai_decoder *decoder,
                                          struct omma_error *error);
