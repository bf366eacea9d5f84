#include "kernels/attention_kernels.h"

#define TILE_ENTRY(kernel) &ommai_attention_tile_##kernel,
#define WINDOW_ENTRY(kernel) &ommai_attention_window_##kernel,
#define DECODE_ENTRY(kernel) &ommai_attention_decode_##kernel,

const struct ommai_attention_tile_kernel *const ommai_attention_tile_kernels[] = {OMMAI_ATTENTION_TILE_KERNELS(TILE_ENTRY)
                                                                                      NULL};
const struct ommai_attention_tile_kernel *const ommai_attention_window_kernels[] = {OMMAI_ATTENTION_WINDOW_KERNELS(WINDOW_ENTRY)
                                                                                        NULL};
const struct ommai_attention_decode_kernel *const ommai_attention_decode_kernels[] = {
    OMMAI_ATTENTION_DECODE_KERNELS(DECODE_ENTRY) NULL};

/* The lists ascend by level and hold one architecture's kernels, so a later entry that the level allows overrides. */
static const struct ommai_attention_tile_kernel *find_tile(const struct ommai_attention_tile_kernel *const *kernels,
                                                           enum ommai_cpu_level level, enum omma_dtype dtype) {
  const struct ommai_attention_tile_kernel *found = NULL;
  for (; *kernels; kernels++) {
    if ((*kernels)->dtype == dtype && (*kernels)->level <= level) found = *kernels;
  }
  return found;
}

const struct ommai_attention_tile_kernel *ommai_attention_tile_kernel_find(enum ommai_cpu_level level, enum omma_dtype dtype) {
  return find_tile(ommai_attention_tile_kernels, level, dtype);
}

const struct ommai_attention_tile_kernel *ommai_attention_window_kernel_find(enum ommai_cpu_level level,
                                                                             enum omma_dtype dtype) {
  return find_tile(ommai_attention_window_kernels, level, dtype);
}

const struct ommai_attention_decode_kernel *ommai_attention_decode_kernel_find(enum ommai_cpu_level level,
                                                                               enum omma_dtype dtype) {
  const struct ommai_attention_decode_kernel *found = NULL;
  for (int i = 0; ommai_attention_decode_kernels[i]; i++) {
    const struct ommai_attention_decode_kernel *kernel = ommai_attention_decode_kernels[i];
    if (kernel->dtype == dtype && kernel->level <= level) found = kernel;
  }
  return found;
}
