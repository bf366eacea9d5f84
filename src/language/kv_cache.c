#include "language/kv_cache.h"

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "kernels/dtype.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS };

/* What one layer keeps of a token: the heads, the width of each, and whether keys and values are
 * apart. */
struct kept {
  int64_t n_heads, width;
  bool values;
};

static struct kept kept_by(const struct ommai_decoder_config *config) {
  if (config->attention == OMMAI_ATTENTION_MLA) return (struct kept){1, ommai_mla_width(config), false};
  return (struct kept){config->n_kv_heads, config->head_dim, true};
}

/* Bytes of keys, or of values, in one page. */
static size_t plane_bytes(const struct ommai_decoder_config *config, enum omma_dtype dtype) {
  struct kept kept = kept_by(config);
  return (size_t)(config->n_layers * kept.n_heads * kept.width * PAGE) * ommai_dtype_size(dtype);
}

size_t ommai_kv_page_bytes(const struct ommai_decoder_config *config, enum omma_dtype dtype) {
  return plane_bytes(config, dtype) * (kept_by(config).values ? 2 : 1);
}

enum omma_status ommai_kv_cache_create(const struct ommai_decoder_config *config, enum omma_dtype dtype, int64_t n_pages,
                                       const struct omma_allocator *allocator, struct ommai_kv_cache **out,
                                       struct omma_error *error) {
  size_t bytes;
  struct kept kept = kept_by(config);
  if (n_pages < 1 || n_pages > INT32_MAX || !ommai_mul_size((size_t)n_pages, plane_bytes(config, dtype), &bytes)) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "kv_cache_bytes", "KV cache of %lld pages", (long long)n_pages);
  }
  struct ommai_kv_cache *cache = ommai_allocate(allocator, 1, sizeof *cache);
  if (!cache) return ommai_fail_memory(error, "KV cache", sizeof *cache);
  *cache = (struct ommai_kv_cache){.allocator = *allocator,
                                   .dtype = dtype,
                                   .n_layers = config->n_layers,
                                   .n_heads = kept.n_heads,
                                   .width = kept.width,
                                   .n_pages = n_pages,
                                   .bytes = bytes};
  cache->keys = ommai_allocate_uninitialised(allocator, bytes, 1);
  if (kept.values) cache->values = ommai_allocate_uninitialised(allocator, bytes, 1);
  if (!cache->keys || (kept.values && !cache->values)) {
    ommai_kv_cache_destroy(cache);
    return ommai_fail_memory(error, "KV cache", (kept.values ? 2 : 1) * bytes);
  }
  *out = cache;
  return OMMA_OK;
}

void ommai_kv_cache_destroy(struct ommai_kv_cache *cache) {
  if (!cache) return;
  struct omma_allocator allocator = cache->allocator;
  ommai_release(&allocator, cache->keys, cache->bytes, 1);
  ommai_release(&allocator, cache->values, cache->bytes, 1);
  ommai_release(&allocator, cache, 1, sizeof *cache);
}

int64_t ommai_kv_head_stride(const struct ommai_kv_cache *cache) { return PAGE * cache->width; }

int64_t ommai_kv_page_stride(const struct ommai_kv_cache *cache) { return cache->n_heads * ommai_kv_head_stride(cache); }

void *ommai_kv_layer_keys(const struct ommai_kv_cache *cache, int64_t layer) {
  return ommai_element(cache->keys, layer * cache->n_pages * ommai_kv_page_stride(cache), cache->dtype);
}

void *ommai_kv_layer_values(const struct ommai_kv_cache *cache, int64_t layer) {
  if (!cache->values) return NULL;
  return ommai_element(cache->values, layer * cache->n_pages * ommai_kv_page_stride(cache), cache->dtype);
}

int64_t ommai_kv_position_offset(const struct ommai_kv_cache *cache, const int32_t *pages, int64_t position) {
  return pages[position / PAGE] * ommai_kv_page_stride(cache) + position % PAGE * cache->width;
}
