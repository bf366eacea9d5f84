#include "language/kv_cache.h"

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "kernels/dtype.h"
#include "language/attention_kind.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS };

/* Elements of a page's head: its rows, and in int8 the bytes of their scales. */
static int64_t head_elements(int64_t width, enum omma_dtype dtype) {
  return PAGE * (width + (dtype == OMMA_INT8 ? (int64_t)sizeof(float) : 0));
}

/* Bytes of keys, or of values, in one page. */
static size_t plane_bytes(const struct ommai_decoder_config *config, enum omma_dtype dtype) {
  const struct ommai_attention_shape shape = config->attention->shape(config);
  return (size_t)(config->n_layers * shape.kept_heads * head_elements(shape.kept_width, dtype)) * ommai_dtype_size(dtype);
}

size_t ommai_kv_page_bytes(const struct ommai_decoder_config *config, enum omma_dtype dtype) {
  return plane_bytes(config, dtype) * (config->attention->shape(config).values_apart ? 2 : 1);
}

enum omma_status ommai_kv_cache_create(const struct ommai_decoder_config *config, enum omma_dtype dtype, int64_t n_pages,
                                       const struct omma_allocator *allocator, struct ommai_kv_cache **out,
                                       struct omma_error *error) {
  size_t bytes;
  const struct ommai_attention_shape shape = config->attention->shape(config);
  if (n_pages < 1 || n_pages > INT32_MAX || !ommai_mul_size((size_t)n_pages, plane_bytes(config, dtype), &bytes)) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "kv_cache_bytes", "KV cache of %lld pages", (long long)n_pages);
  }
  struct ommai_kv_cache *cache = ommai_allocate(allocator, 1, sizeof *cache);
  if (!cache) return ommai_fail_memory(error, "KV cache", sizeof *cache);
  *cache = (struct ommai_kv_cache){.allocator = *allocator,
                                   .dtype = dtype,
                                   .n_layers = config->n_layers,
                                   .n_heads = shape.kept_heads,
                                   .width = shape.kept_width,
                                   .n_pages = n_pages,
                                   .bytes = bytes};
  cache->keys = ommai_allocate_uninitialised(allocator, bytes, 1);
  if (shape.values_apart) cache->values = ommai_allocate_uninitialised(allocator, bytes, 1);
  if (!cache->keys || (shape.values_apart && !cache->values)) {
    ommai_kv_cache_destroy(cache);
    return ommai_fail_memory(error, "KV cache", (shape.values_apart ? 2 : 1) * bytes);
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

int64_t ommai_kv_head_stride(const struct ommai_kv_cache *cache) { return head_elements(cache->width, cache->dtype); }

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

/* ---- int8 ---- */

static float *scales_of(const struct ommai_kv_cache *cache, void *rows) {
  if (cache->dtype != OMMA_INT8 || !rows) return NULL;
  return (float *)(void *)((unsigned char *)rows + PAGE * cache->width);
}

float *ommai_kv_layer_key_scales(const struct ommai_kv_cache *cache, int64_t layer) {
  return scales_of(cache, ommai_kv_layer_keys(cache, layer));
}

float *ommai_kv_layer_value_scales(const struct ommai_kv_cache *cache, int64_t layer) {
  return scales_of(cache, ommai_kv_layer_values(cache, layer));
}

int64_t ommai_kv_scale_page_stride(const struct ommai_kv_cache *cache) {
  return ommai_kv_page_stride(cache) / (int64_t)sizeof(float);
}

int64_t ommai_kv_scale_head_stride(const struct ommai_kv_cache *cache) {
  return ommai_kv_head_stride(cache) / (int64_t)sizeof(float);
}

void ommai_kv_write_int8(const struct ommai_kv_cache *cache, const struct ommai_row_ops *ops, int64_t layer, int64_t place,
                         const float *keys, const float *values) {
  int64_t page = place / ommai_kv_page_stride(cache), row = place % ommai_kv_page_stride(cache) / cache->width;
  int64_t scale = page * ommai_kv_scale_page_stride(cache) + row;
  int8_t *k = ommai_kv_layer_keys(cache, layer), *v = ommai_kv_layer_values(cache, layer);
  float *k_scales = ommai_kv_layer_key_scales(cache, layer), *v_scales = ommai_kv_layer_value_scales(cache, layer);
  for (int64_t h = 0; h < cache->n_heads; h++) {
    int64_t at = place + h * ommai_kv_head_stride(cache), scale_at = scale + h * ommai_kv_scale_head_stride(cache);
    ops->quantise_symmetric(keys + h * cache->width, OMMA_F32, cache->width, k + at, k_scales + scale_at);
    ops->quantise_symmetric(values + h * cache->width, OMMA_F32, cache->width, v + at, v_scales + scale_at);
  }
}

/* ---- what the operator gets ---- */

void ommai_kv_set_types(enum omma_dtype kv_type, struct omma_attention_spec *spec) {
  spec->bf16_kv = kv_type == OMMA_BF16;
  spec->int8_kv = kv_type == OMMA_INT8;
}

void ommai_kv_set_tensors(const struct ommai_kv_cache *cache, int64_t layer, struct omma_attention_tensors *tensors) {
  tensors->k = ommai_kv_layer_keys(cache, layer);
  tensors->v = ommai_kv_layer_values(cache, layer);
  tensors->k_page_stride = tensors->v_page_stride = ommai_kv_page_stride(cache);
  tensors->k_head_stride = tensors->v_head_stride = ommai_kv_head_stride(cache);
  if (cache->dtype != OMMA_INT8) return;
  tensors->k_scales = ommai_kv_layer_key_scales(cache, layer);
  tensors->v_scales = ommai_kv_layer_value_scales(cache, layer);
  tensors->k_scale_page_stride = tensors->v_scale_page_stride = ommai_kv_scale_page_stride(cache);
  tensors->k_scale_head_stride = tensors->v_scale_head_stride = ommai_kv_scale_head_stride(cache);
}
