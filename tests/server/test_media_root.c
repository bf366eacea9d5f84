/* Files below a directory, and nothing else: links, ways up, and names that change while they are
 * looked at. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/media/media_root.h"
#include "support/test.h"

#define N_OUTCOMES 20000 /* of each kind, so that the two were at it together */

static char folder[64], root_path[80];
static struct ommai_media_root root;

static const char *path_to(const char *directory, const char *name) {
  static _Thread_local char path[4][PATH_MAX];
  static _Thread_local int next;
  char *made = path[next++ % 4];
  snprintf(made, PATH_MAX, "%s/%s", directory, name);
  return made;
}

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state) {
  struct omma_error error;
  (void)state;
  strcpy(folder, "/tmp/omma-media-XXXXXX");
  assert_non_null(mkdtemp(folder));
  snprintf(root_path, sizeof root_path, "%s/allowed", folder);
  mkdir(root_path, 0700);
  mkdir(path_to(root_path, "inner"), 0700);
  mkdir(path_to(folder, "allowed-not"), 0700);
  mkdir(path_to(folder, "outer"), 0700);
  write_file(path_to(root_path, "inner/good"), "good");
  write_file(path_to(folder, "allowed-not/good"), "secret");
  write_file(path_to(folder, "outer/good"), "secret");
  assert_int_equal(symlink("inner/good", path_to(root_path, "inside")), 0);
  assert_int_equal(symlink("../outer/good", path_to(root_path, "outside")), 0);
  assert_int_equal(symlink(path_to(folder, "outer"), path_to(root_path, "way")), 0);
  assert_int_equal(symlink("loop", path_to(root_path, "loop")), 0);
  mkfifo(path_to(root_path, "pipe"), 0600);
  assert_int_equal(symlink(root_path, path_to(folder, "alias")), 0);
  assert_int_equal(ommai_media_root_open(root_path, &root, &error), OMMA_OK);
  return 0;
}

static int remove_folder(void **state) {
  char command[128];
  (void)state;
  ommai_media_root_close(&root);
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  return system(command);
}

typedef int finder(const struct ommai_media_root *root, const char *path);
static finder *const finders[] = {ommai_media_root_find, ommai_media_root_find_by_name};
#define N_FINDERS (sizeof finders / sizeof finders[0])

/* The file's content, "" where it may not be had. */
static const char *content(finder *find, const char *path) {
  static char text[16];
  int descriptor = find(&root, path);
  memset(text, 0, sizeof text);
  if (descriptor < 0) return text;
  assert_true(read(descriptor, text, sizeof text - 1) >= 0);
  close(descriptor);
  return text;
}

static void only_what_lies_below(void **state) {
  (void)state;
  static const char *const refused[] = {
      "outside", "way/good", "loop", "pipe", "inner", "", "none", "..", "inner/../../outer/good", "../allowed-not/good"};
  for (size_t f = 0; f < N_FINDERS; f++) {
    assert_string_equal(content(finders[f], path_to(root_path, "inner/good")), "good");
    assert_string_equal(content(finders[f], path_to(root_path, "inner/../inner//good")), "good");
    assert_string_equal(content(finders[f], path_to(root_path, "inside")), "good");
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
      assert_string_equal(content(finders[f], path_to(root_path, refused[i])), "");
    }
    assert_string_equal(content(finders[f], path_to(folder, "allowed-not/good")), "");
    assert_string_equal(content(finders[f], root_path), "");
    assert_string_equal(content(finders[f], "/etc/passwd"), "");
    assert_string_equal(content(finders[f], "/proc/self/root/etc/passwd"), "");
  }
}

/* The directory may be given by a name that is a link, and with slashes at its end. */
static void the_directory_has_several_names(void **state) {
  (void)state;
  struct ommai_media_root kept = root;
  struct omma_error error;
  assert_int_equal(ommai_media_root_open(path_to(folder, "alias//"), &root, &error), OMMA_OK);
  for (size_t f = 0; f < N_FINDERS; f++) {
    assert_string_equal(content(finders[f], path_to(folder, "alias/inner/good")), "good");
    assert_string_equal(content(finders[f], path_to(root_path, "inner/good")), "good");
    assert_string_equal(content(finders[f], path_to(folder, "outer/good")), "");
  }
  ommai_media_root_close(&root);
  root = kept;
}

static void what_is_no_directory_is_refused(void **state) {
  (void)state;
  struct ommai_media_root none;
  struct omma_error error;
  assert_int_equal(ommai_media_root_open(path_to(root_path, "inner/good"), &none, &error), OMMA_ERROR_ARGUMENT);
  assert_string_equal(error.field, "allowed_local_media_path");
  ommai_media_root_close(&none);
  assert_int_equal(ommai_media_root_open(path_to(folder, "none"), &none, &error), OMMA_ERROR_ARGUMENT);
  ommai_media_root_close(&none);
}

static atomic_bool done;

/* Lets a name and a folder be in turn what they should be, and links to the outside. */
static void *swap(void *unused) {
  (void)unused;
  while (!atomic_load(&done)) {
    (void)!symlink("../outer/good", path_to(root_path, "next"));
    rename(path_to(root_path, "next"), path_to(root_path, "name"));
    (void)!link(path_to(root_path, "inner/good"), path_to(root_path, "next"));
    rename(path_to(root_path, "next"), path_to(root_path, "name"));
    rename(path_to(root_path, "inner"), path_to(root_path, "aside"));
    (void)!symlink("../outer", path_to(root_path, "inner"));
    unlink(path_to(root_path, "inner"));
    rename(path_to(root_path, "aside"), path_to(root_path, "inner"));
  }
  return NULL;
}

static void links_that_are_swapped_lead_nowhere(void **state) {
  (void)state;
  pthread_t thread;
  char name[PATH_MAX], inner[PATH_MAX];
  int n_good = 0, n_refused = 0;
  snprintf(name, sizeof name, "%s/name", root_path);
  snprintf(inner, sizeof inner, "%s/inner/good", root_path);
  atomic_store(&done, false);
  assert_int_equal(pthread_create(&thread, NULL, swap, NULL), 0);
  for (int i = 0; n_good < N_OUTCOMES || n_refused < N_OUTCOMES; i++) {
    const char *text = content(finders[i / 2 % N_FINDERS], i % 2 ? name : inner);
    if (!strcmp(text, "secret")) fail_msg("the file outside was read in try %d", i);
    if (!strcmp(text, "good")) n_good++;
    if (!*text) n_refused++;
  }
  atomic_store(&done, true);
  pthread_join(thread, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_what_lies_below),
      cmocka_unit_test(the_directory_has_several_names),
      cmocka_unit_test(what_is_no_directory_is_refused),
      cmocka_unit_test(links_that_are_swapped_lead_nowhere),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
