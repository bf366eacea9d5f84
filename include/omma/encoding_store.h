/* Where engines share outputs of the tower: what omma_engine_options.encoding_store is. */
#ifndef OMMA_ENCODING_STORE_H
#define OMMA_ENCODING_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names the tower's output for an image: the same image, checkpoint, settings, CPU level and
 * version of this library, the same name. */
struct omma_encoding_key {
  uint8_t bytes[32];
};

/* A place that several engines share for outputs of the tower, so that each image is encoded once:
 * a second level of the encoder's cache. All of them must run the same build of this library, as
 * bits may differ between builds. */
struct omma_encoding_store {
  void *context;
  /* Fills values [n_values] and returns true where it has them, complete and as they were kept.
   * Called by threads that submit requests, by several at once, before the request waits for the
   * engine: it may wait for a network, a little. */
  bool (*find)(void *context, const struct omma_encoding_key *key, float *values, size_t n_values);
  /* Gets values [n_values] that were just computed, which live during the call. Called by the
   * engine's thread: it must be quick. */
  void (*keep)(void *context, const struct omma_encoding_key *key, const float *values, size_t n_values);
};

#endif
