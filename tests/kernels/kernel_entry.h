/* What the kernel tester knows of a kernel. Each family of kernels adds its entries, made from the
 * list or table that the library itself chooses from, so that no kernel exists untested. */
#pragma once

#include <inttypes.h>

#include "kernels/cpu.h"
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
  /* One trial on random inputs; fails the test. Returns the largest error as a share of what is
   * allowed. */
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

void kernel_list_attention_tiles(struct kernel_list *list);
void kernel_list_attention_decode(struct kernel_list *list);
void kernel_list_row_ops(struct kernel_list *list);
void kernel_list_gemv(struct kernel_list *list);
void kernel_list_f32_tiles(struct kernel_list *list);
void kernel_list_bf16_tiles(struct kernel_list *list);
void kernel_list_integer(struct kernel_list *list);
void kernel_list_delta(struct kernel_list *list);
void kernel_list_resample(struct kernel_list *list);

/* Fails the test in the name of an entry and a seed: the line is the command that repeats the
 * trial. */
#define kernel_fail(entry, seed, format, ...) \
  fail_msg("--test %s --seed %" PRIu64 " --rounds 1: " format, (entry)->name, (uint64_t)(seed), __VA_ARGS__)
