#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "kernels/cpu.h"
#include "support/test.h"

static const char *reason_for(const char *isa, char *out, size_t size) {
  enum ommai_cpu_level level;
  struct omma_error error;
  assert_ok(ommai_cpu_select(isa, &level, &error), &error);
  return ommai_cpu_reason(isa, level, out, size);
}

static void best_level_is_the_last_that_lacks_nothing(void **state) {
  (void)state;
  enum ommai_cpu_level best = ommai_cpu_best();
  for (int level = 0; level < OMMAI_CPU_LEVELS; level++) {
    assert_int_equal(ommai_cpu_has(level), ommai_cpu_lacks(level) == NULL);
    if (level > (int)best) assert_non_null(ommai_cpu_lacks(level));
  }
  assert_null(ommai_cpu_lacks(OMMAI_CPU_SCALAR));
  assert_null(ommai_cpu_lacks(best));
}

static void missing_level_is_refused_with_what_it_needs(void **state) {
  (void)state;
  for (int wanted = 0; wanted < OMMAI_CPU_LEVELS; wanted++) {
    enum ommai_cpu_level level;
    struct omma_error error;
    if (ommai_cpu_has(wanted)) continue;
    const char *name = ommai_cpu_level_name(wanted);
    assert_fails(ommai_cpu_select(name, &level, &error), OMMA_ERROR_UNSUPPORTED, ommai_cpu_lacks(wanted), &error);
  }
}

static void reason_names_what_decided(void **state) {
  (void)state;
  char text[160];
  unsetenv("OMMA_ISA");
  const char *best = ommai_cpu_level_name(ommai_cpu_best());
  reason_for(NULL, text, sizeof text);
  assert_true(strstr(text, "the highest there is") || strstr(text, "this machine lacks "));
  assert_non_null(strstr(reason_for("scalar", text, sizeof text), "forced by isa"));
  assert_non_null(strstr(text, best));
  setenv("OMMA_ISA", "scalar", 1);
  assert_non_null(strstr(reason_for(NULL, text, sizeof text), "forced by OMMA_ISA"));
  assert_non_null(strstr(text, best));
  assert_non_null(strstr(reason_for(best, text, sizeof text), "forced by isa"));
  assert_null(strstr(reason_for("", text, sizeof text), "forced"));
  unsetenv("OMMA_ISA");
}

/* Page faults of the child processes that have ended: each has some. */
static long child_faults(void) {
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
  return usage.ru_minflt;
}

/* Tiles are tried in a child process: there is none before the level amx is asked for. First of the
 * tests, since the answer is kept. */
static void a_lower_level_does_not_try_tiles(void **state) {
  (void)state;
  enum ommai_cpu_level level;
  struct omma_error error;
  char text[200];
  long before = child_faults();
  unsetenv("OMMA_ISA");
  for (int i = 0; i < OMMAI_CPU_AMX; i++) {
    if (!ommai_cpu_has(i)) continue;
    const char *name = ommai_cpu_level_name(i);
    assert_ok(ommai_cpu_select(name, &level, &error), &error);
    assert_int_equal(level, i);
    assert_null(ommai_cpu_note(name, level, text, sizeof text));
  }
  assert_ok(ommai_cpu_select_without_tiles(&level, &error), &error);
  setenv("OMMA_ISA", "scalar", 1);
  assert_ok(ommai_cpu_select(NULL, &level, &error), &error);
  assert_int_equal(level, OMMAI_CPU_SCALAR);
  assert_ok(ommai_cpu_select_without_tiles(&level, &error), &error);
  assert_int_equal(level, OMMAI_CPU_SCALAR);
  unsetenv("OMMA_ISA");
  assert_int_equal(child_faults(), before);
  if (ommai_cpu_has(OMMAI_CPU_AMX)) assert_true(child_faults() > before);
}

/* The build that has C code in place of AMX says so wherever the level is shown; others have
 * nothing to say of a level that is used. */
static void only_a_model_of_amx_has_a_caveat(void **state) {
  (void)state;
  char text[200];
  unsetenv("OMMA_ISA");
  for (int level = 0; level < OMMAI_CPU_AMX; level++) assert_null(ommai_cpu_caveat(level));
  const char *caveat = ommai_cpu_caveat(OMMAI_CPU_AMX);
  const char *note = ommai_cpu_note("amx", OMMAI_CPU_AMX, text, sizeof text);
  if (!caveat) {
    assert_null(note);
    assert_null(ommai_cpu_note(NULL, OMMAI_CPU_AMX, text, sizeof text));
    return;
  }
  assert_non_null(strstr(note, caveat));
  assert_non_null(strstr(note, "--isa avx512_bf16"));
  if (ommai_cpu_best() != OMMAI_CPU_AMX) return;
  assert_non_null(strstr(reason_for(NULL, text, sizeof text), caveat));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_lower_level_does_not_try_tiles),
      cmocka_unit_test(only_a_model_of_amx_has_a_caveat),
      cmocka_unit_test(best_level_is_the_last_that_lacks_nothing),
      cmocka_unit_test(missing_level_is_refused_with_what_it_needs),
      cmocka_unit_test(reason_names_what_decided),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
