#include "cli/core/pasted_paths.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/text_buffer.h"
#include "cli/core/paths.h"

static const char scheme[] = "file://";
static const char blanks[] = " \t\r\n";

/* Cuts "file://" and a host off and resolves %XX, in place. */
static void resolve_address(char *path) {
  const char *from = strchr(path + sizeof scheme - 1, '/');
  char *to = path;
  if (!from) return;
  while (*from) {
    uint32_t byte = 0;
    bool escaped = from[0] == '%' && ommai_hex_read(from + 1, 2, &byte) && byte;
    *to++ = escaped ? (char)byte : *from;
    from += escaped ? 3 : 1;
  }
  *to = '\0';
}

bool ommai_file_address(const char *word, char *path, size_t size) {
  size_t length = strlen(word);
  if (strncasecmp(word, scheme, sizeof scheme - 1) != 0 || length >= size) return false;
  memcpy(path, word, length + 1);
  resolve_address(path);
  return true;
}

/* False when the path with the user's home before it does not fit. */
static bool enter_home(char *path, size_t size) {
  const char *home = ommai_home_directory();
  if (!home) return true;
  size_t length = strlen(home), rest = strlen(path + 1) + 1;
  if (length + rest > size) return false;
  memmove(path + length, path + 1, rest);
  memcpy(path, home, length);
  return true;
}

/* The word as written, quotes and backslashes resolved. `open` gets the quote that is left open, or
 * 0. False when there is no room. */
static bool take_word(const char **line, char *path, size_t size, char *open) {
  const char *at = *line;
  char quote = 0;
  size_t length = 0;
  for (; *at && (quote || !strchr(blanks, *at)); at++) {
    if (*at == quote) {
      quote = 0;
    } else if (!quote && (*at == '\'' || *at == '"')) {
      quote = *at;
    } else {
      if (*at == '\\' && quote != '\'' && at[1]) at++;
      if (length + 1 >= size) return false;
      path[length++] = *at;
    }
  }
  path[length] = '\0';
  *line = at;
  *open = quote;
  return true;
}

/* What ~/ and file:// stand for, in place. False when the path does not fit. */
static bool resolve(char *path, size_t size, bool home) {
  if (strncasecmp(path, scheme, sizeof scheme - 1) == 0) resolve_address(path);
  return !home || enter_home(path, size);
}

enum ommai_word ommai_pasted_path(const char **line, char *path, size_t size) {
  *line += strspn(*line, blanks);
  if (!**line) return OMMAI_WORD_NONE;
  bool home = strncmp(*line, "~/", 2) == 0;
  char open;
  if (!take_word(line, path, size, &open) || open) return OMMAI_WORD_BROKEN;
  return resolve(path, size, home) ? OMMAI_WORD_FOUND : OMMAI_WORD_BROKEN;
}

bool ommai_literal_path(const char *word, size_t length, char *path, size_t size) {
  if (length >= size) return false;
  memcpy(path, word, length);
  path[length] = '\0';
  return resolve(path, size, strncmp(path, "~/", 2) == 0);
}

bool ommai_last_word(const char *line, char *path, size_t size, char *open) {
  bool home;
  do {
    line += strspn(line, blanks);
    home = strncmp(line, "~/", 2) == 0;
    if (!take_word(&line, path, size, open)) return false;
  } while (*line);
  return !home || enter_home(path, size);
}

bool ommai_ends_as_image(const char *path) {
  static const char *const endings[] = {".jpg", ".jpeg", ".png",  ".webp", ".gif", ".bmp",
                                        ".tif", ".tiff", ".heic", ".heif", ".avif"};
  const char *dot = strrchr(path, '.');
  for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++) {
    if (strcasecmp(dot, endings[i]) == 0) return true;
  }
  return false;
}

bool ommai_pasted_images(const char *line) {
  char path[OMMAI_MAX_PATH];
  size_t n_words = 0, n_files = 0;
  enum ommai_word word;
  while ((word = ommai_pasted_path(&line, path, sizeof path)) == OMMAI_WORD_FOUND) {
    n_words++;
    n_files += strpbrk(path, "/.") && ommai_file_exists(path);
  }
  if (word == OMMAI_WORD_BROKEN || n_words == 0) return false;
  return n_files == n_words || (n_words == 1 && ommai_ends_as_image(path));
}
