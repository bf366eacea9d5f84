#include "kernels/integer_panel.h"

#include <stddef.h>

#define INTEGER_ENTRY(level) &ommai_integer_##level,
const struct ommai_integer_kernels *const ommai_integer_kernels[] = {OMMAI_INTEGER_KERNELS(INTEGER_ENTRY) NULL};

bool ommai_integer_runs(const struct ommai_integer_kernels *kernels) {
  bool needs_more = kernels->uses_vnni && kernels->level == OMMAI_CPU_AVX512;
  return ommai_cpu_has(kernels->level) && (!needs_more || ommai_cpu_has_vnni());
}

const struct ommai_integer_kernels *ommai_integer_select(enum ommai_cpu_level level) {
  const struct ommai_integer_kernels *best = &ommai_integer_scalar;
  for (int i = 0; ommai_integer_kernels[i]; i++) {
    const struct ommai_integer_kernels *kernels = ommai_integer_kernels[i];
    if (kernels->level <= level && ommai_integer_runs(kernels)) best = kernels;
  }
  return best;
}
