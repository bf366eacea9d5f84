/* The kernel tester: every kernel of every CPU level that this machine has, against double
 * precision or the scalar code, on random inputs from a printed seed; then with sizes at every edge
 * and all memory against the page behind or in front of it (kernel_size.c). With --bench it also
 * times each kernel, which asserts nothing. */
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kernels/attention_kernels.h"
#include "kernels/kernel_sweep.h"
#include "kernels/kernel_timing.h"

enum { DEFAULT_ROUNDS = 120, SMALL_ROUNDS = 10, DEFAULT_EDGES = 80, SMALL_EDGES = 40, DEFAULT_SEED = 1 };

/* What became of an entry. */
struct outcome {
  const char *state; /* "ok", "no such level", "failed"; NULL: not asked for */
  double worst;      /* share of the allowed error */
  struct kernel_time time;
};

struct tester {
  struct kernel_list list;
  struct outcome outcomes[KERNEL_MAX_ENTRIES];
  uint64_t seed;
  int64_t rounds, edges; /* edges: trials of the sweep */
  int64_t edge;          /* the one trial of it that is asked for, or -1 */
  bool bench, names_only;
  double seconds; /* per kernel */
  const char *pattern, *json;
};

static struct tester tester = {.seed = DEFAULT_SEED, .edge = -1, .seconds = 0.1};

struct kernel_entry *kernel_list_add(struct kernel_list *list, const struct kernel_family *family, const char *operation,
                                     enum ommai_cpu_level level, const void *kernel, int index) {
  assert_true(list->n < KERNEL_MAX_ENTRIES);
  struct kernel_entry *entry = &list->entries[list->n++];
  *entry = (struct kernel_entry){.level = level, .family = family, .kernel = kernel, .index = index};
  snprintf(entry->name, sizeof entry->name, "%s_%s", operation, ommai_cpu_level_name(level));
  snprintf(entry->scalar, sizeof entry->scalar, "%s_%s", operation, ommai_cpu_level_name(OMMAI_CPU_SCALAR));
  return entry;
}

static void run_trial(const struct kernel_entry *entry, uint64_t seed) {
  struct outcome *outcome = &tester.outcomes[entry - tester.list.entries];
  double worst = entry->family->check(entry, seed);
  if (worst > outcome->worst) outcome->worst = worst;
}

/* As many trials as are asked for, spread over all; or all there are. */
static void sweep_edges(const struct kernel_entry *entry) {
  uint64_t n_all = kernel_sweep_count(entry, tester.seed), n = (uint64_t)tester.edges < n_all ? (uint64_t)tester.edges : n_all;
  for (uint64_t i = 0; i < n; i++) {
    kernel_sweep_begin(kernel_sweep_spread(i, n_all));
    run_trial(entry, tester.seed);
  }
  kernel_sweep_end();
}

static void run_entry(void **state) {
  const struct kernel_entry *entry = *state;
  struct outcome *outcome = &tester.outcomes[entry - tester.list.entries];
  outcome->state = "no such level";
  if (!ommai_cpu_has(entry->level)) skip();
  outcome->state = "failed";
  if (tester.edge >= 0) {
    kernel_sweep_begin((uint64_t)tester.edge);
    run_trial(entry, tester.seed);
    kernel_sweep_end();
  } else {
    for (int64_t round = 0; round < tester.rounds; round++) run_trial(entry, tester.seed + (uint64_t)round);
    sweep_edges(entry);
  }
  outcome->state = "ok";
}

/* The lists ascend by level within a type, every type has a scalar kernel, and the tiles are
 * multiples of their steps. */
static void lists_are_in_order(void **state) {
  (void)state;
  const struct ommai_attention_types f32 = {OMMA_F32, OMMA_F32}, bf16 = {OMMA_BF16, OMMA_BF16}, f16 = {OMMA_F16, OMMA_F16};
  const struct ommai_attention_types mixed = {OMMA_F32, OMMA_BF16}, all[] = {f32, bf16, f16, mixed};
  for (int type = 0; type < 4; type++) {
    assert_non_null(ommai_attention_tile_kernel_find(OMMAI_CPU_SCALAR, all[type]));
    enum ommai_cpu_level level = OMMAI_CPU_SCALAR;
    for (int i = 0; ommai_attention_tile_kernels[i]; i++) {
      const struct ommai_attention_tile_kernel *kernel = ommai_attention_tile_kernels[i];
      if (memcmp(&kernel->types, &all[type], sizeof kernel->types) != 0) continue;
      assert_true(kernel->level >= level);
      assert_int_equal(kernel->rows % kernel->row_step, 0);
      level = kernel->level;
    }
  }
  assert_non_null(ommai_attention_decode_kernel_find(OMMAI_CPU_SCALAR, f32));
  assert_non_null(ommai_attention_decode_kernel_find(OMMAI_CPU_SCALAR, bf16));
  assert_non_null(ommai_attention_decode_kernel_find(OMMAI_CPU_SCALAR, mixed));
  assert_null(ommai_attention_decode_kernel_find(OMMAI_CPU_LEVELS - 1, f16));
}

/* A window's block fits where one of the tile kernel's would be. */
static void window_blocks_fit(void **state) {
  (void)state;
  for (int i = 0; ommai_attention_window_kernels[i]; i++) {
    const struct ommai_attention_tile_kernel *window = ommai_attention_window_kernels[i];
    const struct ommai_attention_tile_kernel *tile = ommai_attention_tile_kernel_find(window->level, window->types);
    assert_true(ommai_attention_window_kernel_find(window->level, window->types) == window);
    assert_int_equal(window->rows % window->row_step, 0);
    const struct ommai_attention_tile_kernel *int8 = ommai_attention_int8_kernel_find(window->level, window->types);
    for (int32_t dim = 1; dim <= OMMA_ATTENTION_MAX_HEAD_DIM; dim++) {
      if (int8) assert_true(window->block_bytes(dim, 72) <= int8->block_bytes(dim, 72));
      assert_true(window->block_bytes(dim, 72) <= tile->block_bytes(dim, 72));
      assert_true(window->block_bytes(72, dim) <= tile->block_bytes(72, dim));
    }
  }
}

/* Tiles of AMX hold 32 dimensions of keys and 16 of values, or zeros in their place. */
static void dims_fill_tiles(const struct ommai_attention_tile_kernel *kernel) {
  size_t of_keys = kernel->block_bytes(64, 16) - kernel->block_bytes(32, 16);
  size_t of_values = kernel->block_bytes(32, 32) - kernel->block_bytes(32, 16);
  for (int32_t dim = 1; dim <= OMMA_ATTENTION_MAX_HEAD_DIM; dim++) {
    assert_int_equal(kernel->block_bytes(dim, 16), (size_t)((dim + 31) / 32) * of_keys + of_values);
    assert_int_equal(kernel->block_bytes(32, dim), of_keys + (size_t)((dim + 15) / 16) * of_values);
  }
}

/* No element of a block is padding where the head dimensions go in steps, and none beyond the next
 * step where they do not; but for tiles of AMX. */
static void dims_in_steps_are_exact(const struct ommai_attention_tile_kernel *const *kernels) {
  const int32_t step = OMMAI_ATTENTION_DIM_STEP;
  for (; *kernels; kernels++) {
    if ((*kernels)->level == OMMAI_CPU_AMX) {
      dims_fill_tiles(*kernels);
      continue;
    }
    size_t (*bytes)(int32_t, int32_t) = (*kernels)->block_bytes;
    size_t of_keys = bytes(2 * step, step) - bytes(step, step), of_values = bytes(step, 2 * step) - bytes(step, step);
    assert_int_equal(of_keys, of_values);
    for (int32_t dim = 1; dim <= OMMA_ATTENTION_MAX_HEAD_DIM; dim++) {
      size_t steps = (size_t)((dim + step - 1) / step);
      assert_true(bytes(dim, step) <= steps * of_keys + of_values);
      assert_true(bytes(step, dim) <= of_keys + steps * of_values);
      if (dim % step == 0) assert_int_equal(bytes(dim, dim), steps * (of_keys + of_values));
    }
  }
}

static void blocks_hold_no_padding(void **state) {
  (void)state;
  dims_in_steps_are_exact(ommai_attention_tile_kernels);
  dims_in_steps_are_exact(ommai_attention_window_kernels);
}

/* ---- report ---------------------------------------------------------------------------------- */

/* How many times faster than its scalar kernel, by useful work where calls differ in it; 0 where
 * that was not timed. */
static double times_scalar(size_t index) {
  for (size_t i = 0; i < tester.list.n; i++) {
    const struct kernel_time *scalar = &tester.outcomes[i].time, *own = &tester.outcomes[index].time;
    if (strcmp(tester.list.entries[i].name, tester.list.entries[index].scalar) != 0 || scalar->ns == 0.0) continue;
    return own->gflops > 0.0 ? own->gflops / scalar->gflops : scalar->ns / own->ns;
  }
  return 0.0;
}

/* "-" where there is none. */
static void print_times_scalar(FILE *to, size_t index, int width) {
  double times = times_scalar(index);
  if (times > 0.0) {
    fprintf(to, " %*.1f", width, times);
  } else {
    fprintf(to, " %*s", width, "-");
  }
}

static void time_all(void) {
  for (size_t i = 0; i < tester.list.n; i++) {
    struct outcome *outcome = &tester.outcomes[i];
    if (outcome->state && strcmp(outcome->state, "ok") == 0) {
      outcome->time = kernel_time_entry(&tester.list.entries[i], tester.seconds);
    }
  }
}

static void print_table(FILE *to) {
  fprintf(to, "\n%-38s %-13s %11s", "kernel", "", "of bound");
  if (tester.bench) fprintf(to, " %11s %9s %7s %9s  %s", "ns/call", "GFLOP/s", "% peak", "x scalar", "shape");
  fputc('\n', to);
  for (size_t i = 0; i < tester.list.n; i++) {
    const struct outcome *outcome = &tester.outcomes[i];
    if (!outcome->state) continue;
    fprintf(to, "%-38s %-13s", tester.list.entries[i].name, outcome->state);
    if (outcome->worst > 0.0) fprintf(to, " %9.1f %%", outcome->worst * 100);
    if (outcome->time.ns > 0.0) {
      const struct kernel_time *time = &outcome->time;
      fprintf(to, outcome->worst > 0.0 ? " %11.0f" : " %23.0f", time->ns);
      if (time->gflops > 0.0) fprintf(to, " %9.1f %7.1f", time->gflops, time->gflops / time->peak_gflops * 100);
      print_times_scalar(to, i, time->gflops > 0.0 ? 9 : 27);
      fprintf(to, "  %s", time->shape);
    }
    fputc('\n', to);
  }
}

static int write_json(void) {
  FILE *to = fopen(tester.json, "w");
  if (!to) {
    fprintf(stderr, "test_kernels: %s: %s\n", tester.json, strerror(errno));
    return 1;
  }
  fprintf(to, "{\"seed\": %" PRIu64 ", \"rounds\": %" PRId64 ", \"kernels\": [", tester.seed, tester.rounds);
  const char *separator = "\n";
  for (size_t i = 0; i < tester.list.n; i++) {
    const struct outcome *outcome = &tester.outcomes[i];
    const struct kernel_time *time = &outcome->time;
    if (!outcome->state) continue;
    fprintf(to, "%s  {\"name\": \"%s\", \"level\": \"%s\", \"state\": \"%s\", \"share_of_bound\": %.4g", separator,
            tester.list.entries[i].name, ommai_cpu_level_name(tester.list.entries[i].level), outcome->state, outcome->worst);
    if (time->ns > 0.0) {
      fprintf(to, ", \"shape\": \"%s\", \"ns\": %.1f, \"gflops\": %.3f, \"peak_gflops\": %.3f", time->shape, time->ns,
              time->gflops, time->peak_gflops);
      double times = times_scalar(i);
      if (times > 0.0) fprintf(to, ", \"times_scalar\": %.3f", times);
    }
    fputc('}', to);
    separator = ",\n";
  }
  fputs("\n]}\n", to);
  return fclose(to) != 0;
}

/* ---- command line ---------------------------------------------------------------------------- */

static const char usage[] =
    "usage: test_kernels [--list] [--test PATTERN] [--seed N] [--rounds N] [--edges N] [--edge N] [--bench] [--seconds T]\n"
    "                    [--json FILE]\n"
    "  --list          print the names of the kernels, one per line, and do nothing else\n"
    "  --test PATTERN  only kernels whose name matches (* and ? as in a shell): 'attention_tile_*_avx2'\n"
    "  --seed N        of the first round, later rounds count on; 0 takes one from the clock (default 1)\n"
    "  --rounds N      trials per kernel (default 120)\n"
    "  --edges N       trials with sizes at edges, of all that there are of a kernel (default 80)\n"
    "  --edge N        that one alone, as a failure names it\n"
    "  --bench         also time each kernel: ns per call, GFLOP/s, share of the peak measured next to it, times scalar\n"
    "                  (a window: the scalar tile's)\n"
    "  --seconds T     to time each kernel (default 0.1)\n"
    "  --json FILE     write the table as JSON too\n";

/* The value of an option that takes a number. */
static bool read_number(const char *text, double low, double *value) {
  char *end;
  errno = 0;
  *value = strtod(text, &end);
  return errno == 0 && end != text && *end == '\0' && *value >= low;
}

static bool read_option(const char *name, const char *value) {
  double number = 0.0;
  char *end;
  if (strcmp(name, "--test") == 0) {
    tester.pattern = value;
  } else if (strcmp(name, "--json") == 0) {
    tester.json = value;
  } else if (strcmp(name, "--seed") == 0) {
    tester.seed = strtoull(value, &end, 10);
    return end != value && *end == '\0';
  } else if (strcmp(name, "--rounds") == 0 && read_number(value, 1, &number)) {
    tester.rounds = (int64_t)number;
  } else if (strcmp(name, "--edges") == 0 && read_number(value, 0, &number)) {
    tester.edges = (int64_t)number;
  } else if (strcmp(name, "--edge") == 0 && read_number(value, 0, &number)) {
    tester.edge = (int64_t)number;
  } else if (strcmp(name, "--seconds") == 0 && read_number(value, 0, &number)) {
    tester.seconds = number;
  } else {
    return false;
  }
  return true;
}

static bool takes_value(const char *name) {
  static const char *const names[] = {"--test", "--json", "--seed", "--rounds", "--edges", "--edge", "--seconds"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(name, names[i]) == 0) return true;
  }
  return false;
}

/* What is wrong with an option that needs a value and is no good with this one, which may be
 * NULL. */
static void refuse_option(const char *name, const char *value) {
  if (!takes_value(name)) {
    fprintf(stderr, "test_kernels: no option %s\n", name);
  } else if (!value) {
    fprintf(stderr, "test_kernels: %s: a value is missing\n", name);
  } else {
    fprintf(stderr, "test_kernels: %s: not a value for it: %s\n", name, value);
  }
  fputs(usage, stderr);
}

/* 0, or the program's exit status plus one. */
static int read_options(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
      fputs(usage, stdout);
      return 1;
    }
    if (strcmp(argv[i], "--bench") == 0) {
      tester.bench = true;
    } else if (strcmp(argv[i], "--list") == 0) {
      tester.names_only = true;
    } else if (i + 1 == argc || !read_option(argv[i], argv[i + 1])) {
      refuse_option(argv[i], argv[i + 1]);
      return 3;
    } else {
      i++;
    }
  }
  if (tester.seed == 0) tester.seed = (uint64_t)ommai_clock_ns();
  return 0;
}

static void list_kernels(void) {
  kernel_list_attention_tiles(&tester.list);
  kernel_list_attention_decode(&tester.list);
  kernel_list_row_ops(&tester.list);
  kernel_list_row_panels(&tester.list);
  kernel_list_gemv(&tester.list);
  kernel_list_f32_tiles(&tester.list);
  kernel_list_bf16_tiles(&tester.list);
  kernel_list_integer(&tester.list);
  kernel_list_delta(&tester.list);
  kernel_list_resample(&tester.list);
}

static void print_names(void) {
  for (size_t i = 0; i < tester.list.n; i++) puts(tester.list.entries[i].name);
}

static void choose(struct CMUnitTest test, struct CMUnitTest *chosen, size_t *n) {
  if (!tester.pattern || fnmatch(tester.pattern, test.name, 0) == 0) chosen[(*n)++] = test;
}

/* The tests that the pattern asks for; returns how many. */
static size_t choose_tests(struct CMUnitTest *chosen) {
  size_t n = 0;
  choose((struct CMUnitTest)cmocka_unit_test(lists_are_in_order), chosen, &n);
  choose((struct CMUnitTest)cmocka_unit_test(window_blocks_fit), chosen, &n);
  choose((struct CMUnitTest)cmocka_unit_test(blocks_hold_no_padding), chosen, &n);
  for (size_t i = 0; i < tester.list.n; i++) {
    struct kernel_entry *entry = &tester.list.entries[i];
    if (test_leaves_out(ommai_cpu_level_name(entry->level))) continue;
    choose((struct CMUnitTest){.name = entry->name, .test_func = run_entry, .initial_state = entry}, chosen, &n);
  }
  return n;
}

int main(int argc, char **argv) {
  /* those not chosen stay empty, and are passed over */
  static struct CMUnitTest tests[KERNEL_MAX_ENTRIES + 3];
  tester.rounds = test_small() ? SMALL_ROUNDS : DEFAULT_ROUNDS;
  tester.edges = test_small() ? SMALL_EDGES : DEFAULT_EDGES;
  int stop = read_options(argc, argv);
  if (stop) return stop - 1;
  list_kernels();
  if (tester.names_only) {
    print_names();
    return 0;
  }
  if (choose_tests(tests) == 0) {
    fprintf(stderr, "test_kernels: --test %s: no kernel of that name; --list prints the names\n", tester.pattern);
    return 1;
  }
  printf("seed %" PRIu64 ", %" PRId64 " rounds\n", tester.seed, tester.rounds);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  if (tester.bench) time_all();
  print_table(stdout);
  if (tester.json && write_json() != 0) return 1;
  return failed != 0;
}
