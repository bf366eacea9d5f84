/* CPU levels: what the machine can do, and which level was asked for. */
#pragma once

#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>

/* Each level of a family includes those before it, but that CPUs with AVX-512 may lack AVX-VNNI. */
enum ommai_cpu_level {
  OMMAI_CPU_SCALAR = 0,
  OMMAI_CPU_AVX2,        /* AVX2, FMA, F16C */
  OMMAI_CPU_AVX2_VNNI,   /* with AVX-VNNI: VPDPBUSD on 32 bytes */
  OMMAI_CPU_AVX512,      /* AVX-512 F, BW, DQ, VL */
  OMMAI_CPU_AVX512_BF16, /* with VDPBF16PS */
  OMMAI_CPU_AMX,         /* with AVX-512 VNNI and tiles of bf16 and int8 (kernels/amx.h) */
  OMMAI_CPU_NEON,
  OMMAI_CPU_NEON_DOTPROD, /* with SDOT */
  OMMAI_CPU_NEON_BF16,    /* with products of matrices: BFMMLA (and BFDOT), SMMLA */
  OMMAI_CPU_LEVELS
};

/* "scalar", "avx2", "avx2_vnni", "avx512", "avx512_bf16", "amx", "neon", "neon_dotprod",
 * "neon_bf16". */
const char *ommai_cpu_level_name(enum ommai_cpu_level level);

/* The best level of this machine, and whether it can run `level`. */
enum ommai_cpu_level ommai_cpu_best(void);
bool ommai_cpu_has(enum ommai_cpu_level level);

/* Whether it has AVX-512 VNNI, which CPUs of level avx512 may have, and all of avx512_bf16 do. */
bool ommai_cpu_has_vnni(void);

/* Whether this is a CPU of AMD whose first level of cache for data is known to have less than 48
 * KiB, as Zen 4 and those before have (32 KiB). Which kernels are the faster ones depends on it, no
 * bit of their results. Intel's CPUs before Ice Lake have 32 KiB too, but other prefetchers, and
 * nobody has measured these kernels on them. */
bool ommai_cpu_small_l1(void);

/* What keeps this machine from running `level`: the first feature that the CPU lacks, in
 * /proc/cpuinfo's word; what ommai_amx_lacks says; or "another architecture". NULL where it can run
 * it. */
const char *ommai_cpu_lacks(enum ommai_cpu_level level);

/* The level to use: `isa` where given, else the environment variable OMMA_ISA where set, else the
 * best. Where a level is named no other is looked at: a lower one than amx asks the operating
 * system for no tiles. Errors: UNSUPPORTED (a level this machine lacks), ARGUMENT (no such level);
 * the message lists the levels that would do. */
enum omma_status ommai_cpu_select(const char *isa, enum ommai_cpu_level *level, struct omma_error *error);

/* The same for code that has nothing of its own for the level amx: it asks the operating system for
 * no tiles, and amx becomes the best of the others. */
enum omma_status ommai_cpu_select_without_tiles(enum ommai_cpu_level *level, struct omma_error *error);

/* What is printed about `level` wherever it is shown; NULL: nothing. */
const char *ommai_cpu_caveat(enum ommai_cpu_level level);

/* What to tell users who start with `isa` and get `level`: its caveat, or why amx is left out on a
 * CPU that has it. Fills and returns `out`, which 200 bytes are enough for; NULL: nothing. */
const char *ommai_cpu_note(const char *isa, enum ommai_cpu_level level, char *out, size_t size);

/* Why ommai_cpu_select gave `level` for `isa`: what forced it, or what this machine lacks for the
 * highest one, and the caveat. Fills and returns `out`, which 160 bytes are enough for. */
const char *ommai_cpu_reason(const char *isa, enum ommai_cpu_level level, char *out, size_t size);

/* Kernels are chosen from lists of tables that have a member `level`: pointers by rising level, and
 * NULL. This defines the choice among them, the last one that a level allows. */
#define OMMAI_CHOOSE_BY_LEVEL(choose, table, list)                                       \
  const struct table *choose(enum ommai_cpu_level level) {                               \
    const struct table *best = (list)[0];                                                \
    for (int i = 1; (list)[i]; i++) best = (list)[i]->level <= level ? (list)[i] : best; \
    return best;                                                                         \
  }

/* Levels above scalar for which code over vectors is compiled once: X(level). */
#if defined(__x86_64__)
#define OMMAI_VECTOR_LEVELS(X) X(avx2) X(avx512)
#elif defined(__aarch64__)
#define OMMAI_VECTOR_LEVELS(X) X(neon)
#else
#define OMMAI_VECTOR_LEVELS(X)
#endif
