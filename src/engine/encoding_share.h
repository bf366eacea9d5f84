/* The second level of the encoder's cache: outputs of the tower that engines share through a store
 * of the host's (omma_engine_options.encoding_store).
 *
 * An output is named by a hash of the image's key and of all that it depends on besides the image:
 * checkpoint, configuration, how the tower computes, and this library's version. Replicas with the
 * same names make the same bits as long as they are the same build. */
#pragma once

#include <stdatomic.h>

#include "engine/encoder_cache.h"
#include "request/request.h"
#include "runner/runner.h"

struct ommai_encoding_share {
  struct omma_encoding_store store; /* without functions: there is none */
  uint8_t digest[32];               /* of what outputs depend on besides the image */
  /* n_not_finite: of the misses, what the store had with NaN or infinities in it */
  atomic_int_least64_t n_hits, n_misses, n_not_finite;
};

/* store NULL: none. Errors: as name_encoder of the runner. */
enum omma_status ommai_encoding_share_init(struct ommai_encoding_share *share, const struct omma_encoding_store *store,
                                           const struct ommai_runner *runner, struct omma_error *error);

/* Puts those of the request's images into the cache that the store has and the cache has not. Waits
 * for the store. Any thread. */
void ommai_encoding_share_find(struct ommai_encoding_share *share, struct ommai_encoder_cache *cache,
                               const struct omma_request *request);

/* Hands an output to the store. */
void ommai_encoding_share_keep(const struct ommai_encoding_share *share, const struct ommai_encoded_image *image);
