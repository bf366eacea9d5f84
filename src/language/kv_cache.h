/* The memory of what a decoder keeps of its sequences, by group (state.h), and where things lie in
 * it. Who uses which page is the engine's to know.
 *
 * Layout of pages: K and V each [n_pages, layers of the group, n_heads, 64, width], with n_heads
 * and width the model's n_kv_heads and head_dim; or, for MLA, K alone with one head of the
 * compressed row. All layers of a page lie together, so that the first write of a page makes the
 * system clear memory for that page, and not a huge page in each layer. Of snapshots:
 * [n_snapshots, layers of the group, snapshot bytes].
 *
 * In int8, a row is integers in -127 .. 127 and one scale, max|x| / 127 as f32, for each token and
 * head. The 64 scales of a page's head lie behind its 64 rows, so that attention reads both in one
 * stream and all begin at a multiple of 64 bytes. */
#pragma once

#include <omma/attention.h>
#include <omma/host.h>

#include "language/decoder.h"
#include "language/state.h"

struct ommai_kv_group {
  int64_t n_pages, n_heads, width;
  /* pages: [n_pages, n_layers, n_heads, 64, width], in int8 with the scales [64] after each head's
   * rows; values NULL for MLA. Snapshots: in keys alone */
  void *keys, *values;
  size_t bytes; /* of keys and of values, each */
};

struct ommai_kv_cache {
  struct omma_allocator allocator;
  enum omma_dtype dtype; /* of pages */
  struct ommai_state_layout layout;
  struct ommai_kv_group groups[OMMAI_MAX_STATE_GROUPS];
};

/* Makes a cache with n_pages[g] pages of each group. Errors: LIMIT; MEMORY, with the size. */
enum omma_status ommai_kv_cache_create(const struct ommai_decoder_config *config, enum omma_dtype dtype, const int64_t *n_pages,
                                       const struct omma_allocator *allocator, struct ommai_kv_cache **cache,
                                       struct omma_error *error);
void ommai_kv_cache_destroy(struct ommai_kv_cache *cache);
/* What pages and snapshots hold is lost, and their memory is the system's until it is written
 * again. NULL is allowed. */
void ommai_kv_cache_discard(struct ommai_kv_cache *cache);

/* Elements from a page of a layer to the next, from a head to the next (in int8 those that the
 * scales' bytes would be are among them), and the base of the layer (values: NULL for MLA). */
int64_t ommai_kv_page_stride(const struct ommai_kv_cache *cache, int64_t layer);
int64_t ommai_kv_head_stride(const struct ommai_kv_cache *cache, int64_t layer);
void *ommai_kv_layer_keys(const struct ommai_kv_cache *cache, int64_t layer);
void *ommai_kv_layer_values(const struct ommai_kv_cache *cache, int64_t layer);

/* Element offset, from the layer's base, of head 0 of a position in a sequence with the given
 * pages. */
int64_t ommai_kv_position_offset(const struct ommai_kv_cache *cache, int64_t layer, const int32_t *pages, int64_t position);

/* The rows of a page's first n positions, in all layers of a group of pages, become those of
 * another page. */
void ommai_kv_copy_rows(const struct ommai_kv_cache *cache, int64_t group, int32_t from, int32_t to, int64_t n);

/* A layer's part of a snapshot. */
void *ommai_kv_snapshot(const struct ommai_kv_cache *cache, int64_t layer, int32_t page);

/* int8: the scales of a layer's keys and values, for the operator's tensors, and floats from a page
 * to the next and from a head to the next. NULL and without meaning for other types. */
float *ommai_kv_layer_key_scales(const struct ommai_kv_cache *cache, int64_t layer);
float *ommai_kv_layer_value_scales(const struct ommai_kv_cache *cache, int64_t layer);
int64_t ommai_kv_scale_page_stride(const struct ommai_kv_cache *cache, int64_t layer);
int64_t ommai_kv_scale_head_stride(const struct ommai_kv_cache *cache, int64_t layer);

/* int8: writes the keys and values of a position, f32 [n_heads, width] each, to `place`, an
 * offset of ommai_kv_position_offset. Every key and value comes here, so its integers depend on it
 * alone. A row with a value that is not finite has no finite value. Thread-safe for different
 * positions. */
void ommai_kv_write_int8(const struct ommai_kv_cache *cache, const struct ommai_row_ops *ops, int64_t layer, int64_t place,
                         const float *keys, const float *values);

/* The operator's flags and tensors for a layer of the cache. */
void ommai_kv_set_types(enum omma_dtype kv_type, struct omma_attention_spec *spec);
void ommai_kv_set_tensors(const struct ommai_kv_cache *cache, int64_t layer, struct omma_attention_tensors *tensors);
