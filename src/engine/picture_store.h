/* Pictures after the resize, kept by the bytes of their files: one that comes again is neither decoded nor resized.
 *
 * A byte budget; what was not used for longest goes first. What is kept is an owner of the pixels as a request is, so that no request
 * depends on the store: its picture has pixels whatever is given up. Thread-safe. */
#ifndef OMMAI_ENGINE_PICTURE_STORE_H
#define OMMAI_ENGINE_PICTURE_STORE_H

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stdint.h>

#include "image/fit_patches.h"

struct ommai_prepared_picture;
struct ommai_picture_store;

#define OMMAI_DEFAULT_PICTURE_STORE_BYTES ((int64_t)64 << 20)

/* All that the pixels depend on beside the model: the file's bytes, as their 256-bit hash, and the sizes that the options lead to. */
struct ommai_picture_name {
  uint8_t digest[32];
  struct ommai_fitted_size size;
};

/* budget 0: nothing is kept. Errors: MEMORY. */
enum omma_status ommai_picture_store_create(int64_t budget, const struct omma_allocator *allocator,
                                            struct ommai_picture_store **store, struct omma_error *error);
/* NULL is allowed. Pixels that requests own too stay. */
void ommai_picture_store_destroy(struct ommai_picture_store *store);

/* Makes *picture another owner of the kept pixels; false where there are none of this name. */
bool ommai_picture_store_find(struct ommai_picture_store *store, const struct ommai_picture_name *name,
                              struct ommai_prepared_picture *picture);

/* Keeps the picture, where the budget and the memory for the entry suffice and there is none of its name. */
void ommai_picture_store_keep(struct ommai_picture_store *store, const struct ommai_picture_name *name,
                              const struct ommai_prepared_picture *picture);

/* Gives up the picture that was not used for longest; false: there is none. */
bool ommai_picture_store_drop_oldest(struct ommai_picture_store *store);

/* What it may keep at most. */
int64_t ommai_picture_store_budget(const struct ommai_picture_store *store);

#endif
