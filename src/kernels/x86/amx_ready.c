#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/amx.h"

/* ---- the CPU and the operating system -------------------------------------------------------- */

/* ARCH_REQ_XCOMP_PERM of asm/prctl.h, since Linux 5.16 */
enum { TILE_DATA = 18, REQUEST_PERMISSION = 0x1023 };

static const char *ask_permission(void) {
  if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0) return NULL;
  switch (errno) {
    case ENOSPC: return "alternate signal stacks with room for tiles (arch_prctl: ENOSPC)";
    case EINVAL: return "permission for tiles, which this kernel does not know (arch_prctl: EINVAL)";
    default: return "permission for tiles (arch_prctl refused it)";
  }
}

#ifdef OMMA_AMX_MODEL

bool ommai_amx_in_cpu(void) { return true; }

/* That the CPU has no tiles, which the model does not need, is no refusal. */
static const char *find_missing(void) {
  const char *missing = ask_permission();
  return missing && (errno == EOPNOTSUPP || errno == EINVAL) ? NULL : missing;
}

#else

enum { BF16_BIT = 22, TILE_BIT = 24, INT8_BIT = 25, OSXSAVE_BIT = 27, TILE_STATES = 3 << 17 };

/* Whether the operating system saves tiles and their configuration (XCR0). */
static bool saves_tiles(void) {
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx >> OSXSAVE_BIT & 1)) return false;
  __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return (eax & TILE_STATES) == TILE_STATES;
}

static const char *find_missing_in_cpu(void) {
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(edx >> TILE_BIT & 1)) return "amx_tile";
  if (!(edx >> BF16_BIT & 1)) return "amx_bf16";
  return edx >> INT8_BIT & 1 ? NULL : "amx_int8";
}

bool ommai_amx_in_cpu(void) { return find_missing_in_cpu() == NULL; }

static const char *find_missing(void) {
  const char *missing = find_missing_in_cpu();
  if (missing) return missing;
  if (!saves_tiles()) return "an operating system that saves tiles (XCR0)";
  return ask_permission();
}

#endif

/* ---- the trial ------------------------------------------------------------------------------- */

/* A fault ends this process alone, with no handler of the host's and no core file. */
static void leave_alone(void) {
  static const int faults[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
  const struct rlimit none = {0, 0};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) signal(faults[i], SIG_DFL);
  setrlimit(RLIMIT_CORE, &none);
}

bool ommai_passes_in_child(bool (*trial)(void)) {
  /* fork without the signal to the parent, and without the handlers of libraries */
  pid_t child = (pid_t)syscall(SYS_clone, 0ul, NULL, NULL, NULL, 0ul);
  if (child == 0) {
    leave_alone();
    syscall(SYS_exit_group, trial() ? 0 : 1);
  }
  int result = -1;
  if (child < 0) return false;
  while (waitpid(child, &result, __WALL) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(result) && WEXITSTATUS(result) == 0;
}

const char *ommai_amx_lacks(void) {
  static const char *const unknown = "";
  static const char *_Atomic found = NULL; /* the answer of this process; NULL: not found yet */
  const char *answer = atomic_load(&found);
  if (!answer) {
    answer = find_missing();
    if (!answer && !ommai_passes_in_child(ommai_amx_self_test)) answer = "a self-test of its tiles that passes";
    if (!answer) answer = unknown;
    atomic_store(&found, answer);
  }
  return *answer ? answer : NULL;
}
