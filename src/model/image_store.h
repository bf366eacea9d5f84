/* Images after the resize, kept by the bytes of their files: one that comes again is neither
 * decoded nor resized.
 *
 * It has a byte budget and evicts the least recently used entry first. An entry is one owner of the
 * pixels, as a request is. So no request depends on the store: its image keeps its pixels when the
 * entry is evicted. Thread-safe. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stdint.h>

#include "image/fit_patches.h"

struct ommai_prepared_image;
struct ommai_image_store;

#define OMMAI_DEFAULT_IMAGE_STORE_BYTES ((int64_t)64 << 20)

/* All that the pixels depend on besides the model: the file's bytes, as their 256-bit hash, and the
 * sizes that the options lead to. */
struct ommai_image_name {
  uint8_t digest[32];
  struct ommai_fitted_size size;
};

/* budget 0: nothing is kept. Errors: MEMORY. */
enum omma_status ommai_image_store_create(int64_t budget, const struct omma_allocator *allocator,
                                          struct ommai_image_store **store, struct omma_error *error);
/* NULL is allowed. Pixels that requests own too stay. */
void ommai_image_store_destroy(struct ommai_image_store *store);

/* Makes *image another owner of the kept pixels; false where there are none of this name. */
bool ommai_image_store_find(struct ommai_image_store *store, const struct ommai_image_name *name,
                            struct ommai_prepared_image *image);

/* Keeps the image, where the budget and the memory for the entry suffice and there is none of its
 * name. */
void ommai_image_store_keep(struct ommai_image_store *store, const struct ommai_image_name *name,
                            const struct ommai_prepared_image *image);

/* Gives up the image that was not used for longest; false: there is none. */
bool ommai_image_store_evict_oldest(struct ommai_image_store *store);

/* Gives up all images, and keeps none until it is opened again. */
void ommai_image_store_close(struct ommai_image_store *store);
void ommai_image_store_open(struct ommai_image_store *store);

/* What it may keep at most. */
int64_t ommai_image_store_budget(const struct ommai_image_store *store);
