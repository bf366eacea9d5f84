#include "kernels/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "kernels/amx.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
/* Bits of the kernel's interface, which not every C library's headers name. */
#define HWCAP_ASIMDDP_BIT (1ul << 20)
#define HWCAP2_I8MM_BIT (1ul << 13)
#define HWCAP2_BF16_BIT (1ul << 14)
#endif

#define VARIABLE "OMMA_ISA"

static const char *const names[OMMAI_CPU_LEVELS] = {"scalar", "avx2", "avx2_vnni",    "avx512",   "avx512_bf16",
                                                    "amx",    "neon", "neon_dotprod", "neon_bf16"};

static const char another[] = "another architecture";

const char *ommai_cpu_level_name(enum ommai_cpu_level level) { return names[level]; }

/* The build for tests of AMX computes products of bf16 in other instructions (tests/amx). */
#ifdef OMMA_AMX_MODEL
enum { MODELLED = true };
#else
enum { MODELLED = false };
#endif

#if defined(__x86_64__)
/* Features that not every compiler's __builtin_cpu_supports knows by name. */
static bool has_f16c(void) {
  unsigned int eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx >> 29 & 1u);
}

static bool has_leaf_7_1(int bit) {
  unsigned int eax, ebx, ecx, edx;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> bit & 1u);
}
#endif

#if defined(__x86_64__)
#define HIGHEST OMMAI_CPU_AMX
const char *ommai_cpu_lacks(enum ommai_cpu_level level) {
  __builtin_cpu_init();
  const struct {
    enum ommai_cpu_level level; /* the first that needs it; later ones do too, but for AVX-VNNI */
    const char *name;
    bool present;
  } features[] = {
      {OMMAI_CPU_AVX2, "avx2", __builtin_cpu_supports("avx2")},
      {OMMAI_CPU_AVX2, "fma", __builtin_cpu_supports("fma")},
      {OMMAI_CPU_AVX2, "f16c", has_f16c()},
      {OMMAI_CPU_AVX2_VNNI, "avx_vnni", has_leaf_7_1(4)},
      {OMMAI_CPU_AVX512, "avx512f", __builtin_cpu_supports("avx512f")},
      {OMMAI_CPU_AVX512, "avx512bw", __builtin_cpu_supports("avx512bw")},
      {OMMAI_CPU_AVX512, "avx512dq", __builtin_cpu_supports("avx512dq")},
      {OMMAI_CPU_AVX512, "avx512vl", __builtin_cpu_supports("avx512vl")},
      {OMMAI_CPU_AVX512_BF16, "avx512_bf16", MODELLED || has_leaf_7_1(5)},
      {OMMAI_CPU_AMX, "avx512_vnni", __builtin_cpu_supports("avx512vnni")},
  };
  if (level > HIGHEST) return another;
  for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
    bool needed = features[i].level == OMMAI_CPU_AVX2_VNNI ? level == OMMAI_CPU_AVX2_VNNI : features[i].level <= level;
    if (needed && !features[i].present) return features[i].name;
  }
  return level == OMMAI_CPU_AMX ? ommai_amx_lacks() : NULL;
}
#elif defined(__aarch64__)
#define HIGHEST OMMAI_CPU_NEON_BF16
const char *ommai_cpu_lacks(enum ommai_cpu_level level) {
  const struct {
    enum ommai_cpu_level level; /* the first that needs it; later ones do too */
    const char *name;
    bool present;
  } features[] = {
      {OMMAI_CPU_NEON_DOTPROD, "asimddp", getauxval(AT_HWCAP) & HWCAP_ASIMDDP_BIT},
      {OMMAI_CPU_NEON_BF16, "i8mm", getauxval(AT_HWCAP2) & HWCAP2_I8MM_BIT},
      {OMMAI_CPU_NEON_BF16, "bf16", getauxval(AT_HWCAP2) & HWCAP2_BF16_BIT},
  };
  if (level == OMMAI_CPU_SCALAR) return NULL;
  if (level < OMMAI_CPU_NEON) return another;
  for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
    if (features[i].level <= level && !features[i].present) return features[i].name;
  }
  return NULL;
}
#else
#define HIGHEST OMMAI_CPU_SCALAR
const char *ommai_cpu_lacks(enum ommai_cpu_level level) { return level == OMMAI_CPU_SCALAR ? NULL : another; }
#endif

bool ommai_cpu_has_vnni(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

bool ommai_cpu_small_l1(void) {
#if defined(__x86_64__) && defined(_SC_LEVEL1_DCACHE_SIZE)
  __builtin_cpu_init();
  if (!__builtin_cpu_is("amd")) return false;
  long bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  return bytes > 0 && bytes < 48 * 1024;
#else
  return false;
#endif
}

bool ommai_cpu_has(enum ommai_cpu_level level) { return ommai_cpu_lacks(level) == NULL; }

const char *ommai_cpu_caveat(enum ommai_cpu_level level) {
  return level == OMMAI_CPU_AMX && MODELLED ? "C code in place of AMX, for tests" : NULL;
}

/* The best level but one, at which this does not look. */
static enum ommai_cpu_level best_but(enum ommai_cpu_level left_out) {
  enum ommai_cpu_level best = OMMAI_CPU_SCALAR;
  for (int level = 0; level < OMMAI_CPU_LEVELS; level++) {
    if (level != (int)left_out && ommai_cpu_has(level)) best = level;
  }
  return best;
}

enum ommai_cpu_level ommai_cpu_best(void) { return best_but(OMMAI_CPU_LEVELS); }

/* The levels of this machine in words, "scalar, avx2". */
static void list_levels(char *out, size_t size) {
  size_t at = 0;
  for (int level = 0; level < OMMAI_CPU_LEVELS && at < size; level++) {
    if (!ommai_cpu_has(level)) continue;
    int written = snprintf(out + at, size - at, "%s%s", at ? ", " : "", names[level]);
    if (written > 0) at += (size_t)written;
  }
}

/* Looks at no other level than the one that is named. */
static enum omma_status select_named(const char *isa, enum ommai_cpu_level *level, struct omma_error *error) {
  char available[128];
  for (int candidate = 0; candidate < OMMAI_CPU_LEVELS; candidate++) {
    if (strcmp(isa, names[candidate]) != 0) continue;
    const char *lacks = ommai_cpu_lacks(candidate);
    *level = candidate;
    if (!lacks) return OMMA_OK;
    list_levels(available, sizeof available);
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "isa", "isa: this machine has no %s (it needs %s); it has %s", isa,
                            lacks, available);
  }
  list_levels(available, sizeof available);
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "isa", "isa: no CPU level \"%s\"; this machine has %s", isa, available);
}

enum omma_status ommai_cpu_select(const char *isa, enum ommai_cpu_level *level, struct omma_error *error) {
  if (!isa) isa = getenv(VARIABLE);
  if (isa && *isa) return select_named(isa, level, error);
  *level = ommai_cpu_best();
  return OMMA_OK;
}

enum omma_status ommai_cpu_select_without_tiles(enum ommai_cpu_level *level, struct omma_error *error) {
  const char *isa = getenv(VARIABLE);
  if (isa && *isa && strcmp(isa, names[OMMAI_CPU_AMX]) != 0) return select_named(isa, level, error);
  *level = best_but(OMMAI_CPU_AMX);
  return OMMA_OK;
}

const char *ommai_cpu_reason(const char *isa, enum ommai_cpu_level level, char *out, size_t size) {
  const char *by = isa ? "isa" : VARIABLE, *caveat = ommai_cpu_caveat(level);
  int used;
  if (!isa) isa = getenv(VARIABLE);
  if (isa && *isa) {
    used = snprintf(out, size, "forced by %s; the best here is %s", by, names[ommai_cpu_best()]);
  } else if (level == HIGHEST) {
    used = snprintf(out, size, "the highest there is, and this CPU has it");
  } else {
    used = snprintf(out, size, "the best here: this machine lacks %s", ommai_cpu_lacks(HIGHEST));
  }
  if (caveat && used >= 0 && (size_t)used < size) snprintf(out + used, size - (size_t)used, "; %s", caveat);
  return out;
}

const char *ommai_cpu_note(const char *isa, enum ommai_cpu_level level, char *out, size_t size) {
  const char *caveat = ommai_cpu_caveat(level);
  if (!isa) isa = getenv(VARIABLE);
  if (caveat) {
    snprintf(out, size, "CPU level %s: %s; --isa %s does without it", names[level], caveat, names[level - 1]);
    return out;
  }
#if defined(__x86_64__)
  if ((isa && *isa) || level == OMMAI_CPU_AMX || !ommai_amx_in_cpu()) return NULL;
  snprintf(out, size, "CPU level %s: %s, though the CPU has it, is left out: this machine lacks %s", names[level],
           names[OMMAI_CPU_AMX], ommai_cpu_lacks(OMMAI_CPU_AMX));
  return out;
#else
  return NULL;
#endif
}
