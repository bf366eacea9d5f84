/* What Tab writes after a half-typed line. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/chat/line_completion.h"
#include "cli/core/pasted_paths.h"
#include "support/test.h"

static const char *const names[] = {"plain.png",       "two words.png", "it's.png",    "a \"quote\".png",
                                    "back\\slash.png", "größe.png",     ".hidden.png", "bell\a.png"};
#define N_NAMES (sizeof names / sizeof *names)
#define N_SHOWN 6

static char folder[] = "/tmp/completion.XXXXXX";

static const char *in_folder(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static int set_up(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  for (size_t i = 0; i < N_NAMES; i++) {
    int file = open(in_folder(names[i]), O_WRONLY | O_CREAT, 0600);
    if (file < 0 || close(file) != 0) return -1;
  }
  return mkdir(in_folder("sub"), 0700);
}

static int tear_down(void **state) {
  (void)state;
  for (size_t i = 0; i < N_NAMES; i++) unlink(in_folder(names[i]));
  rmdir(in_folder("sub"));
  return rmdir(folder);
}

struct taken {
  size_t count;
  char name[64], rest[256];
};

static void take(void *context, const char *name, const char *rest) {
  struct taken *taken = context;
  taken->count++;
  snprintf(taken->name, sizeof taken->name, "%s", name);
  snprintf(taken->rest, sizeof taken->rest, "%s", rest);
}

static struct taken complete(const char *typed) {
  struct taken taken = {0};
  ommai_complete_line(typed, take, &taken);
  return taken;
}

/* Whatever the name and the quote: the completed line is read as the file's path. */
static void completed_paths_are_read_back(void **state) {
  (void)state;
  static const char *const quotes[] = {"", "'", "\""};
  for (size_t i = 0; i < N_SHOWN; i++) {
    for (size_t j = 0; j < sizeof quotes / sizeof *quotes; j++) {
      char line[1024], path[256];
      snprintf(line, sizeof line, "/image %s%s/%.1s", quotes[j], folder, names[i]);
      struct taken taken = complete(line);
      assert_int_equal(taken.count, 1);
      assert_string_equal(taken.name, names[i]);
      strncat(line, taken.rest, sizeof line - strlen(line) - 1);
      const char *rest = line + strlen("/image");
      assert_int_equal(ommai_pasted_path(&rest, path, sizeof path), OMMAI_WORD_FOUND);
      assert_string_equal(path, in_folder(names[i]));
      assert_string_equal(rest, " ");
    }
  }
}

static void what_is_hidden_is_asked_for(void **state) {
  (void)state;
  char line[128];
  snprintf(line, sizeof line, "%s/", folder);
  assert_int_equal(complete(line).count, N_SHOWN + 1);
  snprintf(line, sizeof line, "%s/.", folder);
  assert_string_equal(complete(line).rest, "hidden.png ");
  snprintf(line, sizeof line, "%s/be", folder);
  assert_int_equal(complete(line).count, 0);
}

static void folders_end_in_a_slash(void **state) {
  (void)state;
  char line[128];
  snprintf(line, sizeof line, "'%s/s", folder);
  assert_string_equal(complete(line).rest, "ub/");
}

static void commands_stand_at_the_beginning(void **state) {
  (void)state;
  assert_string_equal(complete("/im").rest, "age ");
  assert_string_equal(complete("/q").rest, "uit");
  assert_int_equal(complete("see /im").count, 0);
  assert_int_equal(complete("/nothing/like/this").count, 0);
}

static void long_words_are_left_alone(void **state) {
  (void)state;
  static char line[3 * OMMAI_MAX_PATH];
  memset(line, 'a', sizeof line - 1);
  assert_int_equal(complete(line).count, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(completed_paths_are_read_back), cmocka_unit_test(what_is_hidden_is_asked_for),
      cmocka_unit_test(folders_end_in_a_slash),        cmocka_unit_test(commands_stand_at_the_beginning),
      cmocka_unit_test(long_words_are_left_alone),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
