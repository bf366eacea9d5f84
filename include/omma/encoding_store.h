/* A store of the tower's outputs that several engines share: omma_engine_options.encoding_store. */
#ifndef OMMA_ENCODING_STORE_H
#define OMMA_ENCODING_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names the tower's output for an image. It is the same for the same image, checkpoint, settings,
 * CPU level and version of this library. */
struct omma_encoding_key {
  uint8_t bytes[32];
};

/* A store of the tower's outputs that several engines share, so that each image is encoded once: a
 * second level of the encoder cache. All engines must run the same build of this library, as bits
 * may differ between builds. The caller owns the store and its context. */
struct omma_encoding_store {
  void *context;
  /* Looks an output up. Where the store has it, complete and unchanged, fills values [n_values] and
   * returns true; else returns false. Called by the threads that submit requests, by several at
   * once, before a request waits for the engine. So it may wait for a network for a short time. */
  bool (*find)(void *context, const struct omma_encoding_key *key, float *values, size_t n_values);
  /* Stores values [n_values] that were just computed; they live during the call. Called by the
   * engine's thread, so it must be quick. */
  void (*keep)(void *context, const struct omma_encoding_key *key, const float *values, size_t n_values);
};

#endif
