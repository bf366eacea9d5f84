/* The model of AMX (tests/amx/tile_model.h) against products by hand; and what the operating system
 * has to do with tiles: the trial of instructions in a child process, permission, children that
 * compute, signals. */
#include "amx/tile_model.h"
#include "amx/tile_products.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/amx.h"
#include "kernels/cpu.h"
#include "support/test.h"

/* What raises an exception on a CPU ends the process here. */
static void without_configuration(void) { ommai_tile_zero(0); }
static void after_release(void) {
  configure(16, 16, 16);
  ommai_tiles_release();
  ommai_tile_zero(0);
}
static void tile_not_configured(void) {
  configure(16, 16, 16);
  ommai_tile_zero(3);
}
static void too_many_rows(void) { configure(17, 16, 16); }
static void shapes_that_differ(void) {
  configure(16, 16, 8);
  ommai_tile_multiply_bf16(0, 2, 1);
}
static void one_tile_twice(void) {
  configure(16, 16, 16);
  ommai_tile_multiply_bf16(0, 1, 1);
}

static void faults_end_the_process(void **state) {
  (void)state;
  static void (*const all[])(void) = {without_configuration, after_release,      tile_not_configured,
                                      too_many_rows,         shapes_that_differ, one_tile_twice};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    int result;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      close(STDERR_FILENO);
      signal(SIGABRT, SIG_DFL);
      all[i]();
      _exit(0);
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFSIGNALED(result) && WTERMSIG(result) == SIGABRT);
  }
}

static bool says_yes(void) { return true; }
static bool says_no(void) { return false; }
static bool is_illegal(void) {
  __asm__ volatile("ud2");
  return true;
}
static bool reads_nothing(void) { return *(volatile int *)NULL == 0; }

static int n_child_signals;
static void count_signal(int signal_number) { n_child_signals += signal_number == SIGCHLD; }

static void trials_in_a_child_end_there(void **state) {
  (void)state;
  signal(SIGCHLD, count_signal);
  assert_true(ommai_passes_in_child(says_yes));
  assert_false(ommai_passes_in_child(says_no));
  assert_false(ommai_passes_in_child(is_illegal));
  assert_false(ommai_passes_in_child(reads_nothing));
  assert_int_equal(n_child_signals, 0);
  signal(SIGCHLD, SIG_IGN);
  assert_true(ommai_passes_in_child(says_yes));
  signal(SIGCHLD, SIG_DFL);
}

/* ---- permission ------------------------------------------------------------------------------ */

enum { REQUEST_PERMISSION = 0x1023 };

/* From here on `action` is what becomes of a request for tiles in this process. */
static bool answer_requests_with(uint32_t action) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, REQUEST_PERMISSION, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* How a child ended that did body(what): its exit status, or 128 and its signal. */
static int status_of_child(int (*body)(const void *what), const void *what) {
  int result;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(body(what));
  assert_int_equal(waitpid(child, &result, 0), child);
  return WIFEXITED(result) ? WEXITSTATUS(result) : 128 + WTERMSIG(result);
}

static int filter_holds(const void *what) {
  (void)what;
  return answer_requests_with(SECCOMP_RET_KILL_PROCESS) ? 0 : 1;
}

static void needs_tiles(void) {
  if (!ommai_amx_in_cpu()) skip_because("this CPU has no tiles (make test-amx has C code in their place)");
}

static void needs_filter(void) {
  needs_tiles();
  if (status_of_child(filter_holds, NULL) != 0) skip_because("no filter of system calls here (seccomp)");
}

struct refusal {
  int error;
  const char *says;
};

/* 0, or the number of the step that went wrong. The answer is kept, so this runs before anything
 * has asked. */
static int starts_without_tiles(const void *what) {
  const struct refusal *refusal = what;
  enum ommai_cpu_level level;
  struct omma_error error;
  char text[200];
  unsetenv("OMMA_ISA");
  if (!answer_requests_with(SECCOMP_RET_ERRNO | (uint32_t)refusal->error)) return 1;
  if (ommai_cpu_select(NULL, &level, &error) != OMMA_OK || level != OMMAI_CPU_AVX512_BF16) return 2;
  const char *note = ommai_cpu_note(NULL, level, text, sizeof text);
  if (!note || !strstr(note, refusal->says) || !strstr(note, "amx") || strchr(note, '\n')) return 3;
  if (ommai_cpu_select("amx", &level, &error) != OMMA_ERROR_UNSUPPORTED || !strstr(error.message, refusal->says)) return 4;
  return 0;
}

static void a_refusal_leaves_the_level_out_with_a_line(void **state) {
  (void)state;
  static const struct refusal all[] = {{ENOSPC, "alternate signal stacks with room for tiles"},
                                       {EPERM, "permission for tiles"},
                                       {EACCES, "permission for tiles"}};
  needs_filter();
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    assert_int_equal(status_of_child(starts_without_tiles, &all[i]), 0);
  }
}

/* A request ends the process. */
static int computes_below(const void *by_variable) {
  enum ommai_cpu_level level;
  struct omma_error error;
  char text[200];
  setenv("OMMA_ISA", by_variable ? "avx512_bf16" : "amx", 1);
  const char *isa = by_variable ? NULL : "avx512_bf16";
  if (!answer_requests_with(SECCOMP_RET_KILL_PROCESS)) return 1;
  if (ommai_cpu_select(isa, &level, &error) != OMMA_OK || level != OMMAI_CPU_AVX512_BF16) return 2;
  return ommai_cpu_note(isa, level, text, sizeof text) ? 3 : 0;
}

static int computes_at_the_best(const void *what) {
  (void)what;
  unsetenv("OMMA_ISA");
  return !answer_requests_with(SECCOMP_RET_KILL_PROCESS) || ommai_cpu_best() >= OMMAI_CPU_SCALAR;
}

static void a_lower_level_asks_for_no_tiles(void **state) {
  (void)state;
  needs_filter();
  assert_int_equal(status_of_child(computes_below, NULL), 0);
  assert_int_equal(status_of_child(computes_below, ""), 0);
  assert_int_equal(status_of_child(computes_at_the_best, NULL), 128 + SIGSYS);
}

/* ---- children and signals -------------------------------------------------------------------- */

static void needs_permission(void) {
  needs_tiles();
  const char *lacks = ommai_cpu_lacks(OMMAI_CPU_AMX);
  if (lacks) skip_because("this machine lacks %s", lacks);
}

/* Of the model; on a CPU with tiles the tests pass that go without it. */
static bool no_tiles_are_left(void) { return !tile_model_is_configured(); }

/* All shapes of tiles that kernels set, in the child of a process that has computed with them. */
static int computes_again(const void *what) {
  (void)what;
  return no_tiles_are_left() && ommai_cpu_has(OMMAI_CPU_AMX) && ommai_amx_self_test() && no_tiles_are_left() ? 0 : 1;
}

static void a_child_computes_with_tiles_too(void **state) {
  (void)state;
  needs_permission();
  for (int i = 0; i < 2; i++) {
    assert_true(ommai_amx_self_test());
    assert_true(no_tiles_are_left());
    assert_int_equal(status_of_child(computes_again, NULL), 0);
  }
}

static volatile sig_atomic_t n_signals, n_live, n_elsewhere;
static char *signal_stack;
static size_t signal_stack_size;

/* A handler that computes with tiles of its own. A kernel saves those of the interrupted code in
 * the signal's frame, lets the handler begin without any, and puts them back: here this does it. */
static void use_tiles(int signal_number) {
  (void)signal_number;
  struct tile_model saved = tile_model;
  static const float ones[16][16] = {{1}};
  char here;
  n_signals++;
  n_live += tile_model_is_configured();
  n_elsewhere += &here < signal_stack || &here >= signal_stack + signal_stack_size;
  ommai_tiles_release();
  configure(16, 16, 16);
  for (int tile = 0; tile < 3; tile++) ommai_tile_load(tile, ones, sizeof *ones);
  ommai_tile_multiply_s8(0, 1, 2);
  ommai_tiles_release();
  tile_model = saved;
}

/* With tiles in use the frame of a signal is some 11 KiB: the alternate stack has what the kernel
 * asks for, and room for what the handler itself calls. */
static void signals_meet_tiles_in_use(void **state) {
  (void)state;
  needs_permission();
  bool is_model = ommai_cpu_caveat(OMMAI_CPU_AMX) != NULL;
  signal_stack_size = getauxval(AT_MINSIGSTKSZ) + (1 << 17);
  signal_stack = malloc(signal_stack_size);
  assert_non_null(signal_stack);
  const stack_t stack = {.ss_sp = signal_stack, .ss_size = signal_stack_size}, none = {.ss_flags = SS_DISABLE};
  const struct sigaction action = {.sa_handler = use_tiles, .sa_flags = SA_ONSTACK | SA_RESTART};
  const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
  assert_int_equal(sigaltstack(&stack, NULL), 0);
  assert_int_equal(sigaction(SIGPROF, &action, NULL), 0);
  assert_int_equal(setitimer(ITIMER_PROF, &often, NULL), 0);
  bool passed = true;
  while (passed && n_signals < 100) passed = ommai_amx_self_test() && no_tiles_are_left();
  assert_int_equal(setitimer(ITIMER_PROF, &never, NULL), 0);
  signal(SIGPROF, SIG_IGN);
  assert_int_equal(sigaltstack(&none, NULL), 0);
  free(signal_stack);
  assert_true(passed);
  if (is_model) assert_true(n_live > 0);
  assert_int_equal(n_elsewhere, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      /* first, before anything has asked for tiles */
      cmocka_unit_test(a_refusal_leaves_the_level_out_with_a_line),
      cmocka_unit_test(a_lower_level_asks_for_no_tiles),
      cmocka_unit_test(products_of_bf16_are_the_manual_s),
      cmocka_unit_test(products_of_bytes_are_exact),
      cmocka_unit_test(faults_end_the_process),
      cmocka_unit_test(trials_in_a_child_end_there),
      cmocka_unit_test(a_child_computes_with_tiles_too),
      cmocka_unit_test(signals_meet_tiles_in_use),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
