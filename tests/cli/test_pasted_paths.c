/* Paths in a line as terminals paste them. */
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/core/pasted_paths.h"
#include "support/test.h"

static void words_become_paths(void **state) {
  (void)state;
  static const struct {
    const char *line, *words[3];
  } cases[] = {
      {"", {NULL}},
      {" \t ", {NULL}},
      {"a.png", {"a.png"}},
      {"  a.png\tb.png ", {"a.png", "b.png"}},
      {"a.png\r\nb.png\n", {"a.png", "b.png"}},
      {"'my cat.png'", {"my cat.png"}},
      {"\"my 'cat'.png\" b", {"my 'cat'.png", "b"}},
      {"my\\ cat\\'s.png b", {"my cat's.png", "b"}},
      {"'back\\slash'", {"back\\slash"}},
      {"my' 'cat", {"my cat"}},
      {"end\\", {"end\\"}},
      {"file:///a/my%20cat.png", {"/a/my cat.png"}},
      {"FILE://localhost/a", {"/a"}},
      {"file:///a%2", {"/a%2"}},
      {"file:///a%zz%00%e4%B8%96", {"/a%zz%00\xe4\xb8\x96"}},
      {"file://nothing", {"file://nothing"}},
      {"/a%20b", {"/a%20b"}},
      {"~", {"~"}},
      {"'~/a'", {"~/a"}},
      {"''", {""}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *line = cases[i].line;
    char path[64];
    for (size_t word = 0; cases[i].words[word]; word++) {
      assert_int_equal(ommai_pasted_path(&line, path, sizeof path), OMMAI_WORD_FOUND);
      assert_string_equal(path, cases[i].words[word]);
    }
    assert_int_equal(ommai_pasted_path(&line, path, sizeof path), OMMAI_WORD_NONE);
  }
}

static void a_tilde_is_home(void **state) {
  (void)state;
  char path[64], tight[8], open;
  const char *line = "~/my\\ cat.png";
  assert_int_equal(setenv("HOME", "/some/where", 1), 0);
  assert_int_equal(ommai_pasted_path(&line, path, sizeof path), OMMAI_WORD_FOUND);
  assert_string_equal(path, "/some/where/my cat.png");
  assert_true(ommai_last_word("/image ~/my", path, sizeof path, &open));
  assert_string_equal(path, "/some/where/my");
  line = "~/a";
  assert_int_equal(ommai_pasted_path(&line, tight, sizeof tight), OMMAI_WORD_BROKEN);
  assert_int_equal(setenv("HOME", "/some", 1), 0);
  line = "~/a";
  assert_int_equal(ommai_pasted_path(&line, tight, sizeof tight), OMMAI_WORD_FOUND);
}

static void without_home_the_list_of_users_serves(void **state) {
  (void)state;
  const struct passwd *user = getpwuid(getuid());
  if (!user) skip();
  char path[512], expected[512];
  snprintf(expected, sizeof expected, "%s/a", user->pw_dir);
  for (int empty = 0; empty < 2; empty++) {
    const char *line = "~/a";
    assert_int_equal(empty ? setenv("HOME", "", 1) : unsetenv("HOME"), 0);
    assert_int_equal(ommai_pasted_path(&line, path, sizeof path), OMMAI_WORD_FOUND);
    assert_string_equal(path, expected);
  }
}

static void broken_words_are_reported(void **state) {
  (void)state;
  static const char *const lines[] = {"'open", "\"open", "what's", "a''b\"", "12345678"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    const char *line = lines[i];
    char path[8];
    assert_int_equal(ommai_pasted_path(&line, path, sizeof path), OMMAI_WORD_BROKEN);
  }
}

static void lines_of_images_are_distinguished_from_questions(void **state) {
  (void)state;
  char line[2100];
  assert_true(ommai_pasted_images("missing.png"));
  assert_true(ommai_pasted_images(" 'my missing cat.JPEG' "));
  snprintf(line, sizeof line, "%s/data/image/plain.gif '%s/data/image/gray.jpg'", OMMA_TEST_DATA, OMMA_TEST_DATA);
  assert_true(ommai_pasted_images(line));
  snprintf(line, sizeof line, "%s/data/image/plain.gif missing.png", OMMA_TEST_DATA);
  assert_false(ommai_pasted_images(line));
  snprintf(line, sizeof line, "What is in %s/data/image/plain.gif", OMMA_TEST_DATA);
  assert_false(ommai_pasted_images(line));
  static const char *const questions[] = {"", "hello", "What's in cat.png", "cat.png?", "/tmp", "."};
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) assert_false(ommai_pasted_images(questions[i]));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(words_become_paths),
      cmocka_unit_test(a_tilde_is_home),
      cmocka_unit_test(without_home_the_list_of_users_serves),
      cmocka_unit_test(broken_words_are_reported),
      cmocka_unit_test(lines_of_images_are_distinguished_from_questions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
