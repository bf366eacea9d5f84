/* Text of others on a terminal: nothing that a terminal obeys or that hides what is there gets
 * through, all else does. */
#include "cli/core/plain_text.h"

#include <stdlib.h>

#include "support/test.h"

static void what_terminals_obey_becomes_blanks(void **state) {
  (void)state;
  static const struct {
    const char *text, *expected;
  } cases[] = {
      {"", ""},
      {"model.layers.7.weight", "model.layers.7.weight"},
      {"\x1b[2J\x1b]0;title\x07", " [2J ]0;title "},
      {"a\nb\tc\rd\x7f", "a b c d "},
      {"Stra\xc3\x9f"
       "e \xe6\xa9\x8b \xf0\x9f\x90\x9b",
       "Stra\xc3\x9f"
       "e \xe6\xa9\x8b \xf0\x9f\x90\x9b"},
      {"\xc2\x9b"
       "2J",
       "  2J"}, /* CSI of one character */
      {"\x9b"
       "2J",
       "?2J"}, /* and of one byte */
      {"x\xe2\x80\xae"
       "gpj.exe",
       "x   gpj.exe"}, /* right to left from here */
      {"a\xe2\x80\x8b"
       "b\xef\xbb\xbf"
       "c",
       "a   b   c"}, /* invisible ones */
      /* too long, halves of pairs, too large */
      {"\xc0\xaf \xe0\x80\x80 \xed\xa0\x80 \xf5", "?? ??? ??? ?"},
      {"\xe2\x82", "??"}, /* cut off */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[64];
    strcpy(text, cases[i].text);
    assert_ptr_equal(ommai_plain_text(text), text);
    if (strcmp(text, cases[i].expected) != 0) fail_msg("case %zu: \"%s\"", i, text);
  }
}

static void long_texts_are_printed_whole_and_padded(void **state) {
  (void)state;
  enum { N = 3000 };
  static char text[N + 1], expected[N + 1];
  char *out;
  size_t size;
  for (int i = 0; i < N; i += 3) memcpy(text + i, "\xe6\xa9\x8b", 3);
  memcpy(expected, text, N);
  text[0] = 'a';
  text[1] = '\x1b';
  text[2] = 'b';
  memcpy(expected, "a b", 3);
  FILE *file = open_memstream(&out, &size);
  assert_non_null(file);
  ommai_print_plain(file, text, 10);
  ommai_print_plain(file, "|", 4);
  ommai_print_plain(file, "|", 0);
  fclose(file);
  assert_int_equal(size, N + 5);
  assert_memory_equal(out, expected, N);
  assert_string_equal(out + N, "|   |");
  free(out);
}

/* The whole text at once, and byte by byte, must come out as expected. */
static void check_put(const char *text, size_t size, const char *expected) {
  for (size_t piece = size ? size : 1; piece; piece = piece > 1 ? 1 : 0) {
    struct ommai_terminal_rest rest = {0};
    char *out;
    size_t written;
    FILE *file = open_memstream(&out, &written);
    assert_non_null(file);
    for (size_t at = 0; at < size; at += piece) ommai_terminal_put(file, &rest, text + at, piece);
    ommai_terminal_end(file, &rest);
    fclose(file);
    if (written != strlen(expected) || memcmp(out, expected, written) != 0) {
      fail_msg("\"%s\", in pieces of %zu: \"%s\"", text, piece, out);
    }
    free(out);
  }
}

static void answers_keep_what_can_be_seen(void **state) {
  (void)state;
  static const struct {
    const char *text, *expected;
  } cases[] = {
      {"", ""},
      {"a\n\tb\r\x1b[2J\x7f", "a\n\tb  [2J "},
      {"\xc2\x80 \xc2\x9b"
       "2J\xc2\xa0",
       "   2J\xc2\xa0"}, /* C1; a blank that stays */
      {"\x9b"
       "2J",
       "\xef\xbf\xbd\x32J"}, /* CSI of one byte */
      {"x\xe2\x80\xae"
       "gpj",
       "xgpj"},
      {"\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f\xe2\x81\xa6\xe2\x81\xa9", ""},
      {"\xe2\x80\x8c\xe2\x80\x8d\xef\xb8\x8f", "\xe2\x80\x8c\xe2\x80\x8d\xef\xb8\x8f"},
      {"\xf0\x9f\x90\x9b\xe6\xa9\x8b\xc3\x9f", "\xf0\x9f\x90\x9b\xe6\xa9\x8b\xc3\x9f"},
      {"\xe6\xa9", "\xef\xbf\xbd\xef\xbf\xbd"}, /* cut off */
      {"\xc2\n", "\xef\xbf\xbd\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_put(cases[i].text, strlen(cases[i].text), cases[i].expected);
  check_put("a\0b", 3, "a b");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_terminals_obey_becomes_blanks),
      cmocka_unit_test(long_texts_are_printed_whole_and_padded),
      cmocka_unit_test(answers_keep_what_can_be_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
