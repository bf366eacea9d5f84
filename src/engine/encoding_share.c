#include "engine/encoding_share.h"

#include <sodium.h>

#include "base/error.h"

enum omma_status ommai_encoding_share_init(struct ommai_encoding_share *share, const struct omma_encoding_store *store,
                                           const struct ommai_runner *runner, struct omma_error *error) {
  if (!store) return OMMA_OK;
  OMMAI_TRY(runner->functions->name_encoder(runner, share->digest, error));
  share->store = *store;
  return OMMA_OK;
}

static struct omma_encoding_key name_of(const struct ommai_encoding_share *share, const struct ommai_image_key *key) {
  struct omma_encoding_key name;
  crypto_generichash(name.bytes, sizeof name.bytes, key->bytes, sizeof key->bytes, share->digest, sizeof share->digest);
  return name;
}

static size_t n_values(const struct ommai_image_rows *rows) { return ommai_image_rows_size(rows) / OMMAI_IMAGE_VALUE_BYTES; }

/* Whether the store has the rows. What a replica with a fault has left there is not what the tower
 * computes, however well it is kept. */
static bool take(struct ommai_encoding_share *share, const struct ommai_image_key *key, struct ommai_image_rows *rows) {
  struct omma_encoding_key name = name_of(share, key);
  if (!share->store.find(share->store.context, &name, ommai_image_rows_data(rows), n_values(rows))) return false;
  if (ommai_image_rows_finite(rows)) return true;
  atomic_fetch_add(&share->n_not_finite, 1);
  return false;
}

static void find_one(struct ommai_encoding_share *share, struct ommai_encoder_cache *cache, const struct ommai_image_key *key,
                     int64_t n_tokens) {
  struct ommai_image_rows *rows;
  struct omma_error ignored; /* it is encoded then */
  if (ommai_image_rows_create(&cache->shape, n_tokens, &cache->allocator, &rows, &ignored) != OMMA_OK) return;
  if (take(share, key, rows)) {
    atomic_fetch_add(&share->n_hits, 1);
    ommai_encoder_cache_put(cache, key, rows);
  } else {
    atomic_fetch_add(&share->n_misses, 1);
    ommai_image_rows_free(rows);
  }
}

void ommai_encoding_share_find(struct ommai_encoding_share *share, struct ommai_encoder_cache *cache,
                               const struct omma_request *request) {
  for (size_t i = 0; share->store.find && i < request->n_images; i++) {
    if (ommai_encoder_cache_has(cache, &request->keys[i])) continue;
    find_one(share, cache, &request->keys[i], request->images[i].sizes.n_tokens);
  }
}

void ommai_encoding_share_keep(const struct ommai_encoding_share *share, const struct ommai_encoded_image *image) {
  if (!share->store.keep) return;
  struct omma_encoding_key name = name_of(share, &image->key);
  share->store.keep(share->store.context, &name, ommai_image_rows_data(image->rows), n_values(image->rows));
}
