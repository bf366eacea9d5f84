/* Outputs of the tower that a request leaves to its caller. */
#pragma once

#include "engine/encoder_cache.h"
#include "request/request.h"

/* Embeddings that are users of the request's complete outputs (encoded [n_images]) in the cache,
 * without copying any. They may be destroyed by any thread, before the cache is. Errors:
 * MEMORY. */
enum omma_status ommai_embeddings_share(const struct omma_request *request, struct ommai_encoder_cache *cache,
                                        struct ommai_encoded_image *const *encoded, struct omma_embeddings **embeddings,
                                        struct omma_error *error);
