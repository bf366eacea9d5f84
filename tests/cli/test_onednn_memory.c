/* oneDNN while memory gives out: every call of malloc fails once, or all from one on, or addresses
 * end. Each in a process of its own, which must go on to its end with a product or with the status
 * for it: an exception that got through to C, or a thread of oneDNN's own that met one, would end
 * it by a signal. */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/allocator.h"
#include "cli/core/end_on_terminate.h"
#include "linear/onednn.h"
#include "support/test.h"

/* LINE: libgomp and, with ommai_end_on_terminate, oneDNN end the process with a line. */
enum { N_ROWS = 64, N_IN = 256, N_OUT = 256, LINE = 1, FAILED_OTHERWISE = 3, NO_MEMORY = 4, MANY = 1 << 30, TEXT_SIZE = 512 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

/* ---- the program's malloc ---- */

static atomic_long n_calls, fail_from, n_failing;

static bool fails(void) {
  long since = atomic_fetch_add(&n_calls, 1) + 1 - atomic_load(&fail_from);
  return since >= 0 && since < atomic_load(&n_failing);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* glibc's own names for what is replaced here. oneDNN's aligned memory, into which it writes
 * without looking (2.6), is left: the reserve that is tried before each call stands for it. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *pointer, size_t size);

static void *no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

__attribute__((visibility("default"))) void *malloc(size_t size) { return fails() ? no_memory() : __libc_malloc(size); }
__attribute__((visibility("default"))) void *calloc(size_t count, size_t size) {
  return fails() ? no_memory() : __libc_calloc(count, size);
}
__attribute__((visibility("default"))) void *realloc(void *pointer, size_t size) {
  return fails() ? no_memory() : __libc_realloc(pointer, size);
}
#endif

/* ---- a product ---- */

static _Alignas(64) ommai_bf16 weights[N_OUT * N_IN], x[N_ROWS * N_IN];
static _Alignas(64) float y[N_ROWS * N_OUT], bias[N_OUT];
static _Alignas(64) char scratch[4 << 20];

static enum omma_status run_product(struct ommai_onednn *onednn, struct omma_error *error) {
  const struct ommai_onednn_shape shape = {.n_rows = N_ROWS, .n_in = N_IN, .n_out = N_OUT, .y_type = OMMA_F32, .bias = true};
  struct ommai_onednn_operand *operand = NULL;
  struct ommai_onednn_matmul *matmul = NULL;
  size_t scratch_bytes;
  bool taken;
  enum omma_status status = ommai_onednn_takes(onednn, &taken, error);
  if (status == OMMA_OK) status = ommai_onednn_operand_create(onednn, N_OUT, N_IN, weights, bias, &operand, error);
  if (status == OMMA_OK) status = ommai_onednn_matmul_create(onednn, &shape, &matmul, error);
  if (status == OMMA_OK) status = ommai_onednn_scratch_bytes(onednn, &shape, &scratch_bytes, error);
  if (status == OMMA_OK && scratch_bytes > sizeof scratch) status = OMMA_ERROR_INTERNAL;
  for (int run = 0; run < 2 && status == OMMA_OK; run++)
    status = ommai_onednn_matmul_run(matmul, operand, x, y, scratch, 0, error);
  ommai_onednn_matmul_destroy(matmul);
  ommai_onednn_operand_destroy(operand);
  return status;
}

/* The child's whole life; its exit status. */
static int live(long from, long failing, long spare_mebibytes) {
  struct ommai_onednn *onednn;
  struct omma_error error = {0};
  if (spare_mebibytes >= 0) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &pages) != 1) return FAILED_OTHERWISE;
    fclose(file);
    rlim_t bytes = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)spare_mebibytes << 20);
    if (setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes})) return FAILED_OTHERWISE;
  }
  atomic_store(&n_calls, 0);
  atomic_store(&fail_from, from);
  atomic_store(&n_failing, failing);
  enum omma_status status = ommai_onednn_create(ommai_cpu_best(), 1, &ommai_default_allocator, &onednn, &error);
  if (status == OMMA_OK) {
    status = run_product(onednn, &error);
    ommai_onednn_destroy(onednn);
  }
  long n = atomic_load(&n_calls);
  atomic_store(&n_failing, 0);
  if (from == 0) printf("%ld\n", n);
  if (status == OMMA_OK) return 0;
  return status == OMMA_ERROR_MEMORY && strstr(error.message, "memory") ? NO_MEMORY : FAILED_OTHERWISE;
}

/* Lives in a process of its own. Returns its exit status; of a signal 128 and more. text: what it
 * printed. */
static int try(long from, long failing, long spare_mebibytes, char text[TEXT_SIZE]) {
  int ends[2], status = 0;
  assert_int_equal(pipe(ends), 0);
  fflush(stdout);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    ommai_end_on_terminate();
    int result = live(from, failing, spare_mebibytes);
    fflush(stdout);
    _exit(result);
  }
  close(ends[1]);
  size_t size = 0;
  for (ssize_t n; (n = read(ends[0], text + size, TEXT_SIZE - 1 - size)) > 0;) size += (size_t)n;
  text[size] = '\0';
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static long count_calls(void) {
  char text[TEXT_SIZE];
  if (sanitized) skip_because("a sanitizer has a malloc of its own");
  int ended = try(0, 0, -1, text);
  if (ended == FAILED_OTHERWISE) skip_because("oneDNN has no product of bf16 for this CPU");
  assert_int_equal(ended, 0);
  return strtol(text, NULL, 10);
}

/* Tries it. Returns whether the caller got the status for it. */
static bool is_refused(long at, const char *what, long from, long failing, long spare_mebibytes) {
  char text[TEXT_SIZE];
  int ended = try(from, failing, spare_mebibytes, text);
  bool said = ended != LINE || strstr(text, "memory");
  if (ended != 0 && ended != NO_MEMORY && (ended != LINE || !said))
    fail_msg("%s %ld: ended with %d: %s", what, at, ended, text);
  return ended == NO_MEMORY;
}

static void each_allocation_fails(void **state) {
  (void)state;
  long n = count_calls(), n_refused = 0;
  for (long at = 1; at <= n; at++) {
    n_refused += is_refused(at, "call", at, 1, -1);
    n_refused += is_refused(at, "all calls from", at, MANY, -1);
  }
  print_message("%ld calls of malloc\n", n);
  assert_true(n > 50);
  assert_true(n_refused > n);
}

static void addresses_end(void **state) {
  (void)state;
  long n_refused = 0;
  count_calls();
  for (long mebibytes = 0; mebibytes <= 192; mebibytes += mebibytes < 32 ? 1 : 8) {
    n_refused += is_refused(mebibytes, "MiB", MANY, 1, mebibytes);
  }
  assert_true(n_refused >= 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_fails), cmocka_unit_test(addresses_end)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
