/* What attention keeps of all layers, in pages of 64 token positions: the memory and where things
 * lie in it. Who uses which page is engine/page_pool.h.
 *
 * Layout per layer: K and V each [n_pages, n_heads, 64, width], with n_heads and width the model's
 * n_kv_heads and head_dim; or, for MLA, K alone with one head of the compressed row. A page number
 * is valid in every layer. */
#ifndef OMMAI_LANGUAGE_KV_CACHE_H
#define OMMAI_LANGUAGE_KV_CACHE_H

#include <omma/attention.h>
#include <omma/host.h>

#include "language/decoder.h"

struct ommai_kv_cache {
  struct omma_allocator allocator;
  enum omma_dtype dtype;
  int64_t n_layers, n_heads, width;
  int64_t n_pages;
  void *keys, *values; /* [n_layers, n_pages, n_heads, 64, width]; values NULL for MLA */
  size_t bytes;        /* of keys and of values, each */
};

/* Bytes of one page, all layers. */
size_t ommai_kv_page_bytes(const struct ommai_decoder_config *config, enum omma_dtype dtype);

/* Makes a cache of n_pages. Errors: MEMORY, with the size. */
enum omma_status ommai_kv_cache_create(const struct ommai_decoder_config *config, enum omma_dtype dtype, int64_t n_pages,
                                       const struct omma_allocator *allocator, struct ommai_kv_cache **cache,
                                       struct omma_error *error);
void ommai_kv_cache_destroy(struct ommai_kv_cache *cache);

/* Elements from a page to the next, from a head to the next, and the base of a layer (values: NULL
 * for MLA). */
int64_t ommai_kv_page_stride(const struct ommai_kv_cache *cache);
int64_t ommai_kv_head_stride(const struct ommai_kv_cache *cache);
void *ommai_kv_layer_keys(const struct ommai_kv_cache *cache, int64_t layer);
void *ommai_kv_layer_values(const struct ommai_kv_cache *cache, int64_t layer);

/* Element offset, from a layer's base, of head 0 of a position in a sequence with the given
 * pages. */
int64_t ommai_kv_position_offset(const struct ommai_kv_cache *cache, const int32_t *pages, int64_t position);

#endif
