/* What a decoder keeps of a sequence, by group (base/state_groups.h): layers with the same mixer
 * and window need the same and form one. The memory is kv_cache.h. */
#pragma once

#include "base/state_groups.h"
#include "language/decoder.h"

struct ommai_layer_group {
  struct ommai_state_group state;
  const struct ommai_mixer *mixer;
  int64_t n_layers;
};

struct ommai_state_layout {
  int64_t n_groups;
  struct ommai_layer_group groups[OMMAI_MAX_STATE_GROUPS];
  /* of each layer: its group, and its place among the group's layers */
  uint8_t group[OMMAI_DECODER_ALL_LAYERS];
  uint16_t place[OMMAI_DECODER_ALL_LAYERS];
};

/* Elements of a page's rows of one head, 64 of `width`, and in int8 the bytes of their scales. */
int64_t ommai_state_head_elements(int64_t width, enum omma_dtype kv_type);

/* Groups that keep pages come first. kv_type: that of pages. Layers have at most
 * OMMAI_MAX_STATE_GROUPS pairs of mixer and window. */
void ommai_state_layout_make(const struct ommai_decoder_config *config, enum omma_dtype kv_type,
                             struct ommai_state_layout *layout);

/* Bytes that a step reads for a sequence of n_positions. */
int64_t ommai_state_read_bytes(const struct ommai_state_layout *layout, int64_t n_positions);
