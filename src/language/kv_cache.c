#include "language/kv_cache.h"

#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "kernels/dtype.h"
#include "language/mixer.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS };

static enum omma_status make_group(struct ommai_kv_cache *cache, const struct ommai_decoder_config *config, int64_t index,
                                   int64_t n_pages, struct omma_error *error) {
  const struct ommai_layer_group *layout = &cache->layout.groups[index];
  const struct ommai_mixer_shape shape = layout->mixer->shape(config);
  struct ommai_kv_group *group = &cache->groups[index];
  size_t planes = shape.values_apart ? 2 : 1;
  if (n_pages < 1 || n_pages > INT32_MAX ||
      !ommai_mul_size((size_t)n_pages, layout->state.page_bytes / planes, &group->bytes)) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "kv_cache_bytes", "KV cache of %lld pages", (long long)n_pages);
  }
  group->n_pages = n_pages;
  group->n_heads = shape.kept_heads;
  group->width = shape.kept_width;
  group->keys = ommai_allocate_uninitialised(&cache->allocator, group->bytes, 1);
  if (shape.values_apart) group->values = ommai_allocate_uninitialised(&cache->allocator, group->bytes, 1);
  if (group->keys && (group->values || !shape.values_apart)) return OMMA_OK;
  return ommai_fail_memory(error, "KV cache", planes * group->bytes);
}

enum omma_status ommai_kv_cache_create(const struct ommai_decoder_config *config, enum omma_dtype dtype, const int64_t *n_pages,
                                       const struct omma_allocator *allocator, struct ommai_kv_cache **out,
                                       struct omma_error *error) {
  enum omma_status status;
  struct ommai_kv_cache *cache = ommai_allocate(allocator, 1, sizeof *cache);
  if (!cache) return ommai_fail_memory(error, "KV cache", sizeof *cache);
  *cache = (struct ommai_kv_cache){.allocator = *allocator, .dtype = dtype};
  ommai_state_layout_make(config, dtype, &cache->layout);
  for (int64_t g = 0; g < cache->layout.n_groups; g++) {
    OMMAI_TRY_GOTO(make_group(cache, config, g, n_pages[g], error), failed);
  }
  *out = cache;
  return OMMA_OK;
failed:
  ommai_kv_cache_destroy(cache);
  return status;
}

void ommai_kv_cache_destroy(struct ommai_kv_cache *cache) {
  if (!cache) return;
  struct omma_allocator allocator = cache->allocator;
  for (int64_t g = 0; g < cache->layout.n_groups; g++) {
    ommai_release(&allocator, cache->groups[g].keys, cache->groups[g].bytes, 1);
    ommai_release(&allocator, cache->groups[g].values, cache->groups[g].bytes, 1);
  }
  ommai_release(&allocator, cache, 1, sizeof *cache);
}

void ommai_kv_cache_discard(struct ommai_kv_cache *cache) {
  for (int64_t g = 0; cache && g < cache->layout.n_groups; g++) {
    ommai_discard(cache->groups[g].keys, cache->groups[g].bytes);
    ommai_discard(cache->groups[g].values, cache->groups[g].bytes);
  }
}

static const struct ommai_kv_group *group_of(const struct ommai_kv_cache *cache, int64_t layer) {
  return &cache->groups[cache->layout.group[layer]];
}

int64_t ommai_kv_head_stride(const struct ommai_kv_cache *cache, int64_t layer) {
  return ommai_state_head_elements(group_of(cache, layer)->width, cache->dtype);
}

/* Elements of one layer's part of a page. */
static int64_t layer_stride(const struct ommai_kv_cache *cache, int64_t layer) {
  return group_of(cache, layer)->n_heads * ommai_kv_head_stride(cache, layer);
}

int64_t ommai_kv_page_stride(const struct ommai_kv_cache *cache, int64_t layer) {
  return cache->layout.groups[cache->layout.group[layer]].n_layers * layer_stride(cache, layer);
}

static void *layer_base(const struct ommai_kv_cache *cache, int64_t layer, void *memory) {
  if (!memory) return NULL;
  return ommai_element(memory, cache->layout.place[layer] * layer_stride(cache, layer), cache->dtype);
}

void *ommai_kv_layer_keys(const struct ommai_kv_cache *cache, int64_t layer) {
  return layer_base(cache, layer, group_of(cache, layer)->keys);
}

void *ommai_kv_layer_values(const struct ommai_kv_cache *cache, int64_t layer) {
  return layer_base(cache, layer, group_of(cache, layer)->values);
}

int64_t ommai_kv_position_offset(const struct ommai_kv_cache *cache, int64_t layer, const int32_t *pages, int64_t position) {
  return pages[position / PAGE] * ommai_kv_page_stride(cache, layer) + position % PAGE * group_of(cache, layer)->width;
}

void *ommai_kv_snapshot(const struct ommai_kv_cache *cache, int64_t layer, int32_t page) {
  const struct ommai_layer_group *group = &cache->layout.groups[cache->layout.group[layer]];
  size_t one = group->state.page_bytes / (size_t)group->n_layers;
  return (unsigned char *)group_of(cache, layer)->keys + (size_t)page * group->state.page_bytes +
         cache->layout.place[layer] * one;
}

/* The scales of a head lie behind its rows. */
static void copy_rows_of(const struct ommai_kv_cache *cache, const struct ommai_kv_group *group, const void *from, void *to,
                         int64_t n) {
  size_t row = (size_t)group->width * ommai_dtype_size(cache->dtype), rows = (size_t)n * row;
  memcpy(to, from, rows);
  if (cache->dtype != OMMA_INT8) return;
  memcpy((char *)to + PAGE * row, (const char *)from + PAGE * row, (size_t)n * sizeof(float));
}

void ommai_kv_copy_rows(const struct ommai_kv_cache *cache, int64_t index, int32_t from, int32_t to, int64_t n) {
  const struct ommai_kv_group *group = &cache->groups[index];
  int64_t n_heads = cache->layout.groups[index].n_layers * group->n_heads;
  int64_t head = ommai_state_head_elements(group->width, cache->dtype);
  void *const planes[] = {group->keys, group->values};
  for (int plane = 0; plane < 2 && planes[plane]; plane++) {
    for (int64_t i = 0; i < n_heads; i++) {
      copy_rows_of(cache, group, ommai_element(planes[plane], (from * n_heads + i) * head, cache->dtype),
                   ommai_element(planes[plane], (to * n_heads + i) * head, cache->dtype), n);
    }
  }
}

/* ---- int8 ---- */

static float *scales_of(const struct ommai_kv_cache *cache, int64_t layer, void *rows) {
  if (cache->dtype != OMMA_INT8 || !rows) return NULL;
  return (float *)(void *)((unsigned char *)rows + PAGE * group_of(cache, layer)->width);
}

float *ommai_kv_layer_key_scales(const struct ommai_kv_cache *cache, int64_t layer) {
  return scales_of(cache, layer, ommai_kv_layer_keys(cache, layer));
}

float *ommai_kv_layer_value_scales(const struct ommai_kv_cache *cache, int64_t layer) {
  return scales_of(cache, layer, ommai_kv_layer_values(cache, layer));
}

int64_t ommai_kv_scale_page_stride(const struct ommai_kv_cache *cache, int64_t layer) {
  return ommai_kv_page_stride(cache, layer) / (int64_t)sizeof(float);
}

int64_t ommai_kv_scale_head_stride(const struct ommai_kv_cache *cache, int64_t layer) {
  return ommai_kv_head_stride(cache, layer) / (int64_t)sizeof(float);
}

void ommai_kv_write_int8(const struct ommai_kv_cache *cache, const struct ommai_row_ops *ops, int64_t layer, int64_t place,
                         const float *keys, const float *values) {
  const struct ommai_kv_group *group = group_of(cache, layer);
  int64_t page_stride = ommai_kv_page_stride(cache, layer), width = group->width;
  int64_t scale = place / page_stride * ommai_kv_scale_page_stride(cache, layer) + place % page_stride / width;
  int8_t *k = ommai_kv_layer_keys(cache, layer), *v = ommai_kv_layer_values(cache, layer);
  float *k_scales = ommai_kv_layer_key_scales(cache, layer), *v_scales = ommai_kv_layer_value_scales(cache, layer);
  for (int64_t h = 0; h < group->n_heads; h++) {
    int64_t at = place + h * ommai_kv_head_stride(cache, layer),
            scale_at = scale + h * ommai_kv_scale_head_stride(cache, layer);
    ops->quantise_symmetric(keys + h * width, OMMA_F32, width, k + at, k_scales + scale_at);
    ops->quantise_symmetric(values + h * width, OMMA_F32, width, v + at, v_scales + scale_at);
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
  tensors->k_page_stride = tensors->v_page_stride = ommai_kv_page_stride(cache, layer);
  tensors->k_head_stride = tensors->v_head_stride = ommai_kv_head_stride(cache, layer);
  if (cache->dtype != OMMA_INT8) return;
  tensors->k_scales = ommai_kv_layer_key_scales(cache, layer);
  tensors->v_scales = ommai_kv_layer_value_scales(cache, layer);
  tensors->k_scale_page_stride = tensors->v_scale_page_stride = ommai_kv_scale_page_stride(cache, layer);
  tensors->k_scale_head_stride = tensors->v_scale_head_stride = ommai_kv_scale_head_stride(cache, layer);
}
