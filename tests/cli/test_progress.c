/* Progress where stderr is no terminal: long stages write a line now and then. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/core/progress.h"
#include "support/test.h"

static void update_40(struct ommai_progress *progress) { ommai_progress_update(progress, 40, 100); }
static void count_40(struct ommai_progress *progress) { ommai_progress_count(progress, 40, 10, 2, 100); }
static void count_without_end(struct ommai_progress *progress) { ommai_progress_count(progress, 40, 0, 2, -1); }

/* What updates of a stage that began `age` seconds ago print. */
static void print_updates(bool is_long, double age, void (*update)(struct ommai_progress *), char *out, size_t size) {
  struct ommai_progress progress;
  FILE *file = tmpfile();
  assert_non_null(file);
  int saved = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  (is_long ? ommai_progress_begin_long : ommai_progress_begin)(&progress, "loading");
  progress.started -= age;
  progress.last_drawn -= age;
  for (int i = 0; i < 3; i++) update(&progress);
  ommai_progress_end(&progress);
  dup2(saved, STDERR_FILENO);
  close(saved);
  rewind(file);
  out[fread(out, 1, size - 1, file)] = '\0';
  fclose(file);
}

static void long_stages_write_lines(void **state) {
  (void)state;
  char text[512];
  print_updates(true, 12, update_40, text, sizeof text);
  assert_string_equal(text, "omma: loading: 40 %, 12 s\n");
  print_updates(true, 1, update_40, text, sizeof text);
  assert_string_equal(text, "");
}

/* Things that were done before the stage are no part of the rate. */
static void things_are_counted(void **state) {
  (void)state;
  char text[512];
  print_updates(true, 600, count_40, text, sizeof text);
  assert_string_equal(text, "omma: loading: 40 %, 600 s; 40/100, 2 failed, 0.05/s, 1200 s left\n");
  print_updates(true, 600, count_without_end, text, sizeof text);
  assert_string_equal(text, "omma: loading: 600 s; 40, 2 failed, 0.07/s\n");
}

static void short_stages_write_none(void **state) {
  (void)state;
  char text[512];
  print_updates(false, 1000, update_40, text, sizeof text);
  assert_string_equal(text, "");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(long_stages_write_lines), cmocka_unit_test(things_are_counted),
                                     cmocka_unit_test(short_stages_write_none)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
