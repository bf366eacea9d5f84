#include "language/state.h"

#include "base/assert.h"
#include "base/checked.h"
#include "kernels/dtype.h"
#include "language/mixer.h"

int64_t ommai_state_head_elements(int64_t width, enum omma_dtype kv_type) {
  return OMMA_ATTENTION_PAGE_TOKENS * (width + (kv_type == OMMA_INT8 ? (int64_t)sizeof(float) : 0));
}

/* What one layer adds to a page. */
static size_t layer_bytes(const struct ommai_mixer_shape *shape, enum omma_dtype kv_type) {
  if (shape->snapshot_bytes) return shape->snapshot_bytes;
  int64_t elements = shape->kept_heads * ommai_state_head_elements(shape->kept_width, kv_type);
  return (size_t)elements * ommai_dtype_size(kv_type) * (shape->values_apart ? 2 : 1);
}

/* The layer's group, a new one if need be. */
static int64_t find_group(const struct ommai_layer_config *layer, bool snapshot, struct ommai_state_layout *layout) {
  for (int64_t g = 0; g < layout->n_groups; g++) {
    if (layout->groups[g].mixer == layer->mixer && layout->groups[g].state.window == layer->window) return g;
  }
  OMMAI_ASSERT(layout->n_groups < OMMAI_MAX_STATE_GROUPS);
  struct ommai_layer_group *group = &layout->groups[layout->n_groups];
  *group = (struct ommai_layer_group){.mixer = layer->mixer};
  group->state.window = layer->window;
  group->state.kind = snapshot ? OMMAI_STATE_SNAPSHOT : layer->window ? OMMAI_STATE_WINDOW : OMMAI_STATE_PAGES;
  return layout->n_groups++;
}

void ommai_state_layout_make(const struct ommai_decoder_config *config, enum omma_dtype kv_type,
                             struct ommai_state_layout *layout) {
  layout->n_groups = 0;
  for (int rest = 0; rest < 2; rest++) {
    for (int64_t i = 0; i < ommai_decoder_all_layers(config); i++) {
      const struct ommai_mixer_shape shape = config->layers[i].mixer->shape(config);
      bool snapshot = shape.snapshot_bytes > 0;
      if ((snapshot || config->layers[i].window) != rest) continue;
      int64_t g = find_group(&config->layers[i], snapshot, layout);
      layout->group[i] = (uint8_t)g;
      layout->place[i] = (uint16_t)layout->groups[g].n_layers++;
      layout->groups[g].state.page_bytes += layer_bytes(&shape, kv_type);
    }
  }
}

int64_t ommai_state_read_bytes(const struct ommai_state_layout *layout, int64_t n_positions) {
  int64_t bytes = 0;
  for (int64_t g = 0; g < layout->n_groups; g++) {
    const struct ommai_state_group *group = &layout->groups[g].state;
    int64_t page = (int64_t)group->page_bytes, seen = group->window ? ommai_min_i64(n_positions, group->window) : n_positions;
    bytes += group->kind == OMMAI_STATE_SNAPSHOT ? page : seen * (page / OMMA_ATTENTION_PAGE_TOKENS);
  }
  return bytes;
}
