/* Paths of images in a question: which words are images, which are missing, and what is asked. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/chat/mentioned_images.h"
#include "cli/core/diagnostics.h"
#include "support/test.h"

#define IMAGES OMMA_TEST_DATA "/data/image/"

/* A folder that is the current one, with a.png, "my cat.png", "it's (1).jpg", photo (an image),
 * text, doc (a PDF) and sub/b.png. */
static int make_folder(void **state) {
  static char folder[] = "/tmp/omma_mentioned_XXXXXX";
  *state = folder;
  if (!mkdtemp(folder) || chdir(folder) != 0 || mkdir("sub", 0700) != 0) return -1;
  char command[4096];
  snprintf(command, sizeof command,
           "for name in a.png 'my cat.png' \"it's (1).jpg\" photo sub/b.png; do cp %splain.gif \"$name\" || exit 1; done; "
           "echo text > text; printf '%%%%PDF-1.7' > doc",
           IMAGES);
  return system(command) == 0 ? setenv("HOME", folder, 1) : -1;
}

static int remove_folder(void **state) {
  char command[256];
  snprintf(command, sizeof command, "rm -r %s", (char *)*state);
  return system(command);
}

/* Replaces @ by the folder. */
static const char *in_folder(const char *text, const char *folder, char *out, size_t size) {
  size_t used = 0;
  for (; *text && used + strlen(folder) + 1 < size; text++) {
    used +=
        (size_t)snprintf(out + used, size - used, "%.*s", *text == '@' ? (int)strlen(folder) : 1, *text == '@' ? folder : text);
  }
  return out;
}

static void images_are_found(void **state) {
  static const struct {
    const char *line, *question, *images[3];
  } cases[] = {
      {"What is this?", "What is this?", {NULL}},
      {"'@/a.png' What is this?", "What is this?", {"@/a.png"}},
      {"@/a.png: What is this?", "What is this?", {"@/a.png"}},
      {"\"@/my cat.png\" What is this?", "What is this?", {"@/my cat.png"}},
      {"@/my\\ cat.png What is this?", "What is this?", {"@/my cat.png"}},
      {"@/my cat.png What is this?", "What is this?", {"@/my cat.png"}},
      {"~/my cat.png What is this?", "What is this?", {"@/my cat.png"}},
      {"'@/it'\\''s (1).jpg' What's this?", "What's this?", {"@/it's (1).jpg"}},
      {"@/it\\'s\\ \\(1\\).jpg What is this?", "What is this?", {"@/it's (1).jpg"}},
      {"file://@/my%20cat.png What is this?", "What is this?", {"@/my cat.png"}},
      {"~/a.png What is this?", "What is this?", {"@/a.png"}},
      {"./a.png sub/b.png Which?", "Which?", {"./a.png", "sub/b.png"}},
      {"a.png What is this?", "What is this?", {"a.png"}},
      {"What is this? @/a.png", "What is this?", {"@/a.png"}},
      {"What is this?\n@/a.png\n'@/my cat.png'\n", "What is this?", {"@/a.png", "@/my cat.png"}},
      {"@/a.png\n@/sub/b.png\nWhich?", "Which?", {"@/a.png", "@/sub/b.png"}},
      {"What's in @/a.png?", "What's in a.png?", {"@/a.png"}},
      {"What's in (@/a.png), and '@/my cat.png'!", "What's in (a.png), and my cat.png!", {"@/a.png", "@/my cat.png"}},
      {"'@/a.png' or '@/sub/b.png': which is red?", "or b.png: which is red?", {"@/a.png", "@/sub/b.png"}},
      {"\"What is in @/a.png?\"", "\"What is in a.png?\"", {"@/a.png"}},
      {"@/photo What is this?", "What is this?", {"@/photo"}},
      {"@/doc What is this?", "What is this?", {"@/doc"}}, /* loading it says what it is */
      {"@/a.png @/a.png", "", {"@/a.png", "@/a.png"}},
  };
  char line[512], path[512];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct ommai_mentioned found;
    in_folder(cases[i].line, *state, line, sizeof line);
    assert_int_equal(ommai_mentioned_images("test", "way out", line, &found), OMMAI_EXIT_DONE);
    assert_string_equal(found.question, cases[i].question);
    size_t n = 0;
    for (; cases[i].images[n]; n++) {
      assert_true(n < found.n_images);
      assert_string_equal(found.images[n], in_folder(cases[i].images[n], *state, path, sizeof path));
    }
    assert_int_equal(found.n_images, n);
    assert_int_equal(ommai_mentions_image(line, path, sizeof path), n > 0);
    ommai_mentioned_release(&found);
  }
}

static void words_stay_words(void **state) {
  static const char *const lines[] = {
      "Is it a cat and/or a dog?",
      "1/2 of it",
      "TCP/IP, I/O, km/h",
      "/",
      "What is in /etc?",
      "Is /usr/bin/no-such there?",
      "/etc/no-such.conf and ./configure",
      "a .png or a .jpg?",
      "*.png and *.jpeg",
      "convert .jpg/.png",
      "What's it's 'name",
      "it is 'so called' and \"this\"",
      "see http://example.org/ or https://example.org/page.html",
      "C:\\cat",
      "...",
      "@/text",
      "cat.png?",
      "sub/none.png",
      "photo",
      "e.g. v1.0/v2.0",
      "~",
      "~/",
      "a@b.png",
  };
  char line[512], path[512];
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    struct ommai_mentioned found;
    in_folder(lines[i], *state, line, sizeof line);
    assert_int_equal(ommai_mentioned_images("test", "way out", line, &found), OMMAI_EXIT_DONE);
    assert_string_equal(found.question, line);
    assert_int_equal(found.n_images, 0);
    assert_false(ommai_mentions_image(line, path, sizeof path));
    ommai_mentioned_release(&found);
  }
}

static void missing_images_are_refused(void **state) {
  static const char *const lines[] = {
      "/none/such.png What is this?",
      "'/none/my cat.jpeg' What is this?",
      "/none/my\\ cat.webp What is this?",
      "file:///none What is this?",
      "~/none.png?",
      "./none.png",
      "../none.gif what",
      "What is in /none/such.png?",
      "@/a.png @/none.png Which?",
      "What is https://example.org/cat.jpg?",
      "\"What is in /none/such.png?\"",
  };
  char line[512];
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    struct ommai_mentioned found;
    in_folder(lines[i], *state, line, sizeof line);
    assert_int_equal(ommai_mentioned_images("test", "way out", line, &found), OMMAI_EXIT_FAILED);
    ommai_mentioned_release(&found);
  }
}

static void a_question_has_a_limited_number(void **state) {
  (void)state;
  char line[8 * (OMMAI_MAX_MENTIONED + 1) + 1] = "";
  struct ommai_mentioned found;
  for (int i = 0; i < OMMAI_MAX_MENTIONED; i++) strcat(line, "./a.png ");
  assert_int_equal(ommai_mentioned_images("test", "way out", line, &found), OMMAI_EXIT_DONE);
  assert_int_equal(found.n_images, OMMAI_MAX_MENTIONED);
  ommai_mentioned_release(&found);
  strcat(line, "./a.png");
  assert_int_equal(ommai_mentioned_images("test", "way out", line, &found), OMMAI_EXIT_FAILED);
  ommai_mentioned_release(&found);
}

static void long_lines_are_read(void **state) {
  (void)state;
  enum { SIZE = 40000 };
  char *line = malloc(SIZE + 1);
  assert_non_null(line);
  struct ommai_mentioned found;
  for (int kind = 0; kind < 3; kind++) {
    for (int i = 0; i < SIZE; i++) line[i] = kind == 0 ? '/' : kind == 1 ? "./ "[i % 3] : "/a.png!"[i % 7];
    line[SIZE] = '\0';
    ommai_mentioned_images("test", "way out", line, &found);
    ommai_mentioned_release(&found);
  }
  free(line);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(images_are_found),           cmocka_unit_test(words_stay_words),
      cmocka_unit_test(missing_images_are_refused), cmocka_unit_test(a_question_has_a_limited_number),
      cmocka_unit_test(long_lines_are_read),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
