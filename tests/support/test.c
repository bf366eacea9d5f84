#include "support/test.h"

#include <stdlib.h>
#include <string.h>

bool test_small(void) {
#ifdef OMMA_TEST_SMALL
  return true;
#else
  return getenv("OMMA_TEST_SMALL") != NULL;
#endif
}

bool test_emulated(void) { return getenv("OMMA_TEST_EMULATED") != NULL; }

bool test_leaves_out(const char *level) {
  const char *only = getenv("OMMA_TEST_LEVEL");
  return only && strcmp(only, level) != 0;
}

static void *counting_allocate(void *context, size_t size, size_t alignment) {
  struct test_allocator *self = context;
  int64_t number = __atomic_fetch_add(&self->n_allocations, 1, __ATOMIC_SEQ_CST);
  if (self->fail_at >= 0 && (self->fails_once ? number == self->fail_at : number >= self->fail_at)) return NULL;
  void *pointer = aligned_alloc(alignment, size);
  if (!pointer) return NULL;
  /* NaN, and not the zeroes of a new page: what is read before it is written shows */
  memset(pointer, 0xff, size);
  __atomic_fetch_add(&self->n_live, 1, __ATOMIC_SEQ_CST);
  int64_t live = __atomic_add_fetch(&self->bytes_live, (int64_t)size, __ATOMIC_SEQ_CST);
  int64_t peak = __atomic_load_n(&self->bytes_peak, __ATOMIC_SEQ_CST);
  while (live > peak &&
         !__atomic_compare_exchange_n(&self->bytes_peak, &peak, live, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return pointer;
}

static void counting_release(void *context, void *pointer, size_t size) {
  struct test_allocator *self = context;
  __atomic_fetch_sub(&self->n_live, 1, __ATOMIC_SEQ_CST);
  __atomic_fetch_sub(&self->bytes_live, (int64_t)size, __ATOMIC_SEQ_CST);
  free(pointer);
}

void test_allocator_init(struct test_allocator *allocator) {
  *allocator = (struct test_allocator){.fail_at = -1};
  allocator->interface = (struct omma_allocator){allocator, counting_allocate, counting_release};
}

static enum omma_status fail_allocation(enum omma_status (*make)(const struct omma_allocator *allocator,
                                                                 struct omma_error *error),
                                        int64_t n, bool once) {
  struct test_allocator failing;
  struct omma_error error = {0};
  test_allocator_init(&failing);
  failing.fail_at = n;
  failing.fails_once = once;
  enum omma_status status = make(&failing.interface, &error);
  assert_int_equal(failing.n_live, 0);
  assert_int_equal(failing.bytes_live, 0);
  assert_true(status == OMMA_OK || status == OMMA_ERROR_MEMORY);
  return status;
}

void test_fail_every_allocation(enum omma_status (*make)(const struct omma_allocator *allocator, struct omma_error *error),
                                int64_t limit) {
  int64_t n = 0;
  while (fail_allocation(make, n, false) != OMMA_OK) assert_true(++n < limit);
  for (int64_t i = 0; i < n; i++) (void)fail_allocation(make, i, true);
}
