#include "model/prepared_image.h"

#include <sodium.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

#include "base/allocator.h"
#include "base/assert.h"
#include "base/error.h"

void ommai_image_digest(const void *bytes, size_t size, uint8_t *digest) {
  crypto_generichash(digest, 32, bytes, size, NULL, 0);
}

/* The owners' count lies in front of the pixels. */
struct ommai_shared_pixels {
  atomic_int n_owners;
  size_t size; /* of all */
  struct omma_allocator allocator;
  struct ommai_pixel_budget *budget; /* that `size` was taken from */
  alignas(OMMAI_ALIGNMENT) uint8_t pixels[];
};

size_t ommai_frame_bytes(const struct omma_image_sizes *sizes) {
  return (size_t)sizes->resized_width * (size_t)sizes->resized_height * 3;
}

size_t ommai_prepared_image_bytes(const struct ommai_prepared_image *prepared) {
  return (size_t)prepared->n_frames * ommai_frame_bytes(&prepared->sizes);
}

size_t ommai_prepared_image_cost(const struct ommai_prepared_image *image) {
  return sizeof(struct ommai_shared_pixels) + ommai_prepared_image_bytes(image);
}

enum omma_status ommai_prepared_image_create(struct ommai_prepared_image *image, const struct omma_allocator *allocator,
                                             struct ommai_pixel_budget *budget, struct omma_error *error) {
  size_t size = ommai_prepared_image_cost(image);
  struct ommai_shared_pixels *shared = ommai_allocate_uninitialised(allocator, size, 1);
  if (!shared) {
    ommai_pixel_budget_give_back(budget, size);
    return ommai_fail_memory(error, "resized image", size);
  }
  atomic_init(&shared->n_owners, 1);
  shared->size = size;
  shared->allocator = *allocator;
  shared->budget = budget;
  image->pixels = shared->pixels;
  image->shared = shared;
  return OMMA_OK;
}

struct ommai_prepared_image ommai_prepared_image_share(const struct ommai_prepared_image *prepared) {
  OMMAI_ASSERT(atomic_load(&prepared->shared->n_owners) > 0);
  atomic_fetch_add(&prepared->shared->n_owners, 1);
  return *prepared;
}

struct ommai_image_key ommai_prepared_image_key(const struct ommai_prepared_image *prepared, const char *name,
                                                bool name_suffices) {
  struct ommai_image_key key;
  crypto_generichash_state state;
  bool by_name = name && name_suffices;
  unsigned char kind = by_name ? 2 : name ? 1 : 0;
  uint64_t name_size = name ? strlen(name) : 0; /* so that no name goes on into the pixels */
  crypto_generichash_init(&state, NULL, 0, sizeof key.bytes);
  crypto_generichash_update(&state, &kind, sizeof kind);
  crypto_generichash_update(&state, (const unsigned char *)prepared->sizes.grid_thw, sizeof prepared->sizes.grid_thw);
  crypto_generichash_update(&state, (const unsigned char *)&prepared->n_frames, sizeof prepared->n_frames);
  crypto_generichash_update(&state, (const unsigned char *)&name_size, sizeof name_size);
  if (name) crypto_generichash_update(&state, (const unsigned char *)name, name_size);
  if (!by_name) crypto_generichash_update(&state, prepared->digest, sizeof prepared->digest);
  crypto_generichash_final(&state, key.bytes, sizeof key.bytes);
  return key;
}

void ommai_prepared_image_free(struct ommai_prepared_image *prepared) {
  struct ommai_shared_pixels *shared = prepared->shared;
  prepared->shared = NULL;
  prepared->pixels = NULL;
  OMMAI_ASSERT(!shared || atomic_load(&shared->n_owners) > 0);
  if (!shared || atomic_fetch_sub(&shared->n_owners, 1) != 1) return;
  struct omma_allocator allocator = shared->allocator;
  ommai_pixel_budget_give_back(shared->budget, shared->size);
  ommai_release(&allocator, shared, shared->size, 1);
}
