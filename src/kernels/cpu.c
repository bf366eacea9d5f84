#include "kernels/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#define HWCAP2_BF16_BIT (1ul << 14)
#endif

static const char *const names[OMMAI_CPU_LEVELS] = {"scalar", "avx2", "avx512", "avx512_bf16", "neon", "neon_bf16"};

const char *ommai_cpu_level_name(enum ommai_cpu_level level) { return names[level]; }

#if defined(__x86_64__)
/* Two features that not every compiler's __builtin_cpu_supports knows by name. */
static bool has_f16c(void) {
  unsigned int eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx >> 29 & 1u);
}

static bool has_avx512_bf16(void) {
  unsigned int eax, ebx, ecx, edx;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 5 & 1u);
}
#endif

bool ommai_cpu_has(enum ommai_cpu_level level) {
  if (level == OMMAI_CPU_SCALAR) return true;
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (level == OMMAI_CPU_AVX2) return avx2;
  if (level == OMMAI_CPU_AVX512) return avx512;
  if (level == OMMAI_CPU_AVX512_BF16) return avx512 && has_avx512_bf16();
#elif defined(__aarch64__)
  if (level == OMMAI_CPU_NEON) return true;
  if (level == OMMAI_CPU_NEON_BF16) return (getauxval(AT_HWCAP2) & HWCAP2_BF16_BIT) != 0;
#endif
  return false;
}

enum ommai_cpu_level ommai_cpu_best(void) {
  enum ommai_cpu_level best = OMMAI_CPU_SCALAR;
  for (int level = 0; level < OMMAI_CPU_LEVELS; level++) {
    if (ommai_cpu_has(level)) best = level;
  }
  return best;
}

/* The levels of this machine in words, "scalar, avx2". */
static void list_levels(char *out, size_t size) {
  size_t at = 0;
  for (int level = 0; level < OMMAI_CPU_LEVELS && at < size; level++) {
    if (!ommai_cpu_has(level)) continue;
    int written = snprintf(out + at, size - at, "%s%s", at ? ", " : "", names[level]);
    if (written > 0) at += (size_t)written;
  }
}

enum omma_status ommai_cpu_select(const char *isa, enum ommai_cpu_level *level, struct omma_error *error) {
  if (!isa) isa = getenv("OMMA_ISA");
  if (!isa || !*isa) {
    *level = ommai_cpu_best();
    return OMMA_OK;
  }
  char available[128];
  list_levels(available, sizeof available);
  for (int candidate = 0; candidate < OMMAI_CPU_LEVELS; candidate++) {
    if (strcmp(isa, names[candidate]) != 0) continue;
    if (!ommai_cpu_has(candidate)) {
      return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "isa", "isa: this machine has no %s; it has %s", isa, available);
    }
    *level = candidate;
    return OMMA_OK;
  }
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "isa", "isa: no CPU level \"%s\"; this machine has %s", isa, available);
}
