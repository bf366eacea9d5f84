/* What every test program needs: cmocka in its include order, and helpers for messages and
 * allocation counting. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "support/random.h"

/* Fails the test with the library's message when `call` does not return OMMA_OK. `error` is the
 * object that was passed. */
#define assert_ok(call, error)                                                                          \
  do {                                                                                                  \
    enum omma_status status_ = (call);                                                                  \
    if (status_ != OMMA_OK) fail_msg("%s: %s: %s", #call, omma_status_name(status_), (error)->message); \
  } while (0)

/* The call must fail with `expected`, and its message must contain `part`. */
#define assert_fails(call, expected, part, error)                                                            \
  do {                                                                                                       \
    enum omma_status status_ = (call);                                                                       \
    if (status_ != (expected))                                                                               \
      fail_msg("%s: expected %s, got %s", #call, omma_status_name(expected), omma_status_name(status_));     \
    if (!strstr((error)->message, part)) fail_msg("%s: \"%s\" lacks \"%s\"", #call, (error)->message, part); \
  } while (0)

/* Skips the test and states why, as printf does: what the machine, the CPU level or the build
 * lacks. */
#define skip_because(...)       \
  do {                          \
    print_message("skipped: "); \
    print_message(__VA_ARGS__); \
    print_message("\n");        \
    skip();                     \
  } while (0)

/* Whether to run fewer cases of the same kinds: in builds in which everything takes many times
 * longer (ThreadSanitizer), and where the environment has OMMA_TEST_SMALL (emulated processors;
 * lower CPU levels and sanitizers in `make test`). */
bool test_small(void);

/* Whether the program runs under an emulator of another kind of processor (OMMA_TEST_EMULATED in
 * the environment): the process's memory is the emulator's, and it cannot start itself. */
bool test_emulated(void);

/* Whether OMMA_TEST_LEVEL in the environment names another CPU level than `level`. Tests that go
 * through all levels of the machine leave such a level out; they must fail where none is left. */
bool test_leaves_out(const char *level);

/* An allocator that counts, and fails the n-th allocation when asked to. Thread-safe. */
struct test_allocator {
  struct omma_allocator interface;
  int64_t n_allocations; /* so far */
  int64_t n_live;
  int64_t bytes_live;
  int64_t bytes_peak;
  int64_t fail_at; /* the allocation with this number (from 0) and all later ones fail; -1: none */
  bool fails_once; /* later ones do not */
};
void test_allocator_init(struct test_allocator *allocator);

/* Calls `make`, which makes something and destroys what there is of it, with all allocations from
 * the n-th on failing, for n = 0, 1, ... until a call succeeds. Each of the others must give
 * MEMORY, none may leave anything behind, and n stays below `limit`. Then the same with the n-th
 * allocation alone, without which a call may also do. */
void test_fail_every_allocation(enum omma_status (*make)(const struct omma_allocator *allocator, struct omma_error *error),
                                int64_t limit);
