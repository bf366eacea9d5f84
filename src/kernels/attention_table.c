#include "kernels/attention_kernels.h"

#define TILE_ENTRY(kernel) &ommai_attention_tile_##kernel,
#define WINDOW_ENTRY(kernel) &ommai_attention_window_##kernel,
#define INT8_ENTRY(kernel) &ommai_attention_int8_##kernel,
#define DECODE_ENTRY(kernel) &ommai_attention_decode_##kernel,

const struct ommai_attention_tile_kernel *const ommai_attention_tile_kernels[] = {OMMAI_ATTENTION_TILE_KERNELS(TILE_ENTRY)
                                                                                      NULL};
const struct ommai_attention_tile_kernel *const ommai_attention_window_kernels[] = {OMMAI_ATTENTION_WINDOW_KERNELS(WINDOW_ENTRY)
                                                                                        NULL};
const struct ommai_attention_tile_kernel *const ommai_attention_int8_kernels[] = {OMMAI_ATTENTION_INT8_KERNELS(INT8_ENTRY)
                                                                                      NULL};
const struct ommai_attention_decode_kernel *const ommai_attention_decode_kernels[] = {
    OMMAI_ATTENTION_DECODE_KERNELS(DECODE_ENTRY) NULL};

static bool same_types(struct ommai_attention_types a, struct ommai_attention_types b) { return a.q == b.q && a.kv == b.kv; }

/* The lists ascend by level and hold one architecture's kernels, so a later entry that the level
 * allows overrides. */
static const struct ommai_attention_tile_kernel *find_tile(const struct ommai_attention_tile_kernel *const *kernels,
                                                           enum ommai_cpu_level level, struct ommai_attention_types types) {
  const struct ommai_attention_tile_kernel *found = NULL;
  for (; *kernels; kernels++) {
    if (same_types((*kernels)->types, types) && (*kernels)->level <= level) found = *kernels;
  }
  return found;
}

const struct ommai_attention_tile_kernel *ommai_attention_tile_kernel_find(enum ommai_cpu_level level,
                                                                           struct ommai_attention_types types) {
  return find_tile(ommai_attention_tile_kernels, level, types);
}

const struct ommai_attention_tile_kernel *ommai_attention_window_kernel_find(enum ommai_cpu_level level,
                                                                             struct ommai_attention_types types) {
  const struct ommai_attention_tile_kernel *tile = ommai_attention_tile_kernel_find(level, types);
  const struct ommai_attention_tile_kernel *found = find_tile(ommai_attention_window_kernels, level, types);
  return found && found->level >= tile->level ? found : NULL;
}

bool ommai_attention_int8_supported(const struct ommai_attention_tile_kernel *kernel) {
  return ommai_cpu_has(kernel->level) && (kernel->level != OMMAI_CPU_AVX512_BF16 || ommai_cpu_has_vnni());
}

const struct ommai_attention_tile_kernel *ommai_attention_int8_kernel_find(enum ommai_cpu_level level,
                                                                           struct ommai_attention_types types) {
  const struct ommai_attention_tile_kernel *tile = ommai_attention_tile_kernel_find(level, types);
  const struct ommai_attention_tile_kernel *found = find_tile(ommai_attention_int8_kernels, level, types);
  return found && found->level >= tile->level && ommai_attention_int8_supported(found) ? found : NULL;
}

const struct ommai_attention_decode_kernel *ommai_attention_decode_kernel_find(enum ommai_cpu_level level,
                                                                               struct ommai_attention_types types) {
  const struct ommai_attention_decode_kernel *found = NULL;
  for (int i = 0; ommai_attention_decode_kernels[i]; i++) {
    const struct ommai_attention_decode_kernel *kernel = ommai_attention_decode_kernels[i];
    if (same_types(kernel->types, types) && kernel->level <= level) found = kernel;
  }
  return found;
}
