/* Outputs of the tower that a request leaves to its caller. */
#pragma once

#include "engine/encode_call.h"
#include "engine/encoder_cache.h"
#include "request/request.h"

/* Embeddings that are users of the request's complete outputs (encoded [n_images]) in the cache,
 * without copying any. They may be destroyed by any thread, before the cache is. Errors:
 * MEMORY. */
enum omma_status ommai_embeddings_share(const struct omma_request *request, struct ommai_encoder_cache *cache,
                                        struct ommai_encoded_image *const *encoded, struct omma_embeddings **embeddings,
                                        struct omma_error *error);

/* Embeddings of images that are yet to be encoded: sizes and prepares them, makes room for their
 * rows, and lets the call name both. Errors: those of omma_encode before the engine is asked. */
enum omma_status ommai_embeddings_prepare(const struct omma_model *model, const struct ommai_image_shape *shape,
                                          const struct omma_image *const *images, size_t n_images,
                                          const struct omma_image_options *options, struct ommai_encode_call *call,
                                          struct omma_embeddings **embeddings, struct omma_error *error);
/* What omma_embeddings_get_timings gives. */
void ommai_embeddings_set_timings(struct omma_embeddings *embeddings, const struct omma_encode_timings *timings);
