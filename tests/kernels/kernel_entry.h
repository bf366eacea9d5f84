/* What the kernel tester knows of a kernel. Each family of kernels adds its entries, made from the
 * list or table that the library itself chooses from, so that no kernel exists untested. */
#pragma once

#include <inttypes.h>

#include "kernels/cpu.h"
#include "support/guarded.h"
#include "support/test.h"

enum { KERNEL_MAX_ENTRIES = 200, KERNEL_NAME_SIZE = 48 };

struct kernel_entry;

/* One call to be timed, on inputs that `release` gives back. */
struct kernel_call {
  void (*run)(void *context);
  void (*release)(void *context);
  void *context;
  double flops;   /* useful ones; 0 where operations are not what the kernel is about */
  bool half;      /* compared with the peak of bf16 products where the level has them */
  char shape[40]; /* of the inputs, for people */
};

struct kernel_family {
  /* One trial on random inputs, whose sizes are of kernel_size and whose buffers are of
   * kernel_memory; fails the test. Returns the largest error as a share of what is allowed. */
  double (*check)(const struct kernel_entry *entry, uint64_t seed);
  struct kernel_call (*call)(const struct kernel_entry *entry);
};

struct kernel_entry {
  char name[KERNEL_NAME_SIZE];   /* operation, types and level */
  char scalar[KERNEL_NAME_SIZE]; /* the kernel whose speed its own is compared with */
  enum ommai_cpu_level level;
  const struct kernel_family *family;
  const void *kernel;
  int index; /* among several in one table */
};

struct kernel_list {
  struct kernel_entry entries[KERNEL_MAX_ENTRIES];
  size_t n;
};

/* Adds "operation_level", to be compared with "operation_scalar"; returns the entry. */
struct kernel_entry *kernel_list_add(struct kernel_list *list, const struct kernel_family *family, const char *operation,
                                     enum ommai_cpu_level level, const void *kernel, int index);

/* A size of a trial, in [low, high]: at random one at an edge of `step` (1, less than a step, a
 * step, more, ..., the largest), or any; in the sweep over edges each of them in turn, combined
 * with all that the trial's other calls give. */
int64_t kernel_size(struct test_random *random, int64_t low, int64_t high, int64_t step);

/* Whether this trial is one of the sweep. */
bool kernel_is_sweeping(void);

/* Memory between pages that cannot be touched, against the one behind it; in the sweep against the
 * one in front of it too. */
struct guarded kernel_memory(size_t size);

void kernel_list_attention_tiles(struct kernel_list *list);
void kernel_list_attention_decode(struct kernel_list *list);
void kernel_list_row_ops(struct kernel_list *list);
void kernel_list_row_panels(struct kernel_list *list);
void kernel_list_gemv(struct kernel_list *list);
void kernel_list_f32_tiles(struct kernel_list *list);
void kernel_list_bf16_tiles(struct kernel_list *list);
void kernel_list_integer(struct kernel_list *list);
void kernel_list_delta(struct kernel_list *list);
void kernel_list_resample(struct kernel_list *list);

/* "", or in the sweep the option that repeats this trial of it. */
const char *kernel_sweep_option(void);

/* Fails the test in the name of an entry and a seed: the line is the command that repeats the
 * trial. */
#define kernel_fail(entry, seed, format, ...)                                                                            \
  fail_msg("--test %s --seed %" PRIu64 " --rounds 1%s: " format, (entry)->name, (uint64_t)(seed), kernel_sweep_option(), \
           __VA_ARGS__)
