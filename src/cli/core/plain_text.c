#include "cli/core/plain_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* How many bytes the character at `at` has, its code point in *code; 0: no UTF-8. */
static size_t decode(const unsigned char *at, uint32_t *code) {
  static const uint32_t min_code[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t size = *at < 0x80 ? 1 : *at >> 5 == 6 ? 2 : *at >> 4 == 14 ? 3 : *at >> 3 == 30 ? 4 : 0;
  if (size == 0) return 0;
  *code = size == 1 ? *at : *at & (0x7fu >> size);
  for (size_t i = 1; i < size; i++) {
    if (at[i] >> 6 != 2) return 0; /* the NUL at the end too */
    *code = *code << 6 | (at[i] & 0x3fu);
  }
  return *code < min_code[size] || *code > 0x10ffff || *code >> 11 == 0x1b ? 0 : size;
}

/* Controls, and what is shown as nothing or turns the line around. */
static bool is_unfit(uint32_t code) {
  static const struct {
    uint32_t first, last;
  } ranges[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e}, {0x200b, 0x200f},
                {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    if (code >= ranges[i].first && code <= ranges[i].last) return true;
  }
  return false;
}

char *ommai_plain_text(char *text) {
  for (char *at = text; *at;) {
    uint32_t code;
    size_t size = decode((const unsigned char *)at, &code);
    if (size == 0) {
      *at++ = '?';
      continue;
    }
    if (is_unfit(code)) memset(at, ' ', size);
    at += size;
  }
  return text;
}

void ommai_print_plain(FILE *out, const char *text, int width) {
  enum { PIECE = 512 };
  char piece[PIECE + 1];
  size_t left = strlen(text);
  int written = 0;
  while (left > 0) {
    size_t n = left < PIECE ? left : PIECE;
    /* No character is cut in two where that can be helped. */
    for (int i = 0; i < 3 && n < left && ((unsigned char)text[n] & 0xc0) == 0x80; i++) n--;
    memcpy(piece, text, n);
    piece[n] = '\0';
    fputs(ommai_plain_text(piece), out);
    text += n;
    left -= n;
    written += (int)n;
  }
  if (written < width) fprintf(out, "%*s", width - written, "");
}

/* Marks that turn the direction of writing, so that a line shows other than it is. */
static bool turns(uint32_t code) {
  return code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

/* How many bytes at the end of the text may be the beginning of a character. */
static size_t unfinished(const char *text, size_t size) {
  size_t n = 0;
  while (n < size && n < 3) {
    unsigned char byte = (unsigned char)text[size - ++n];
    if (byte >> 6 == 2) continue; /* the character began before */
    size_t length = byte >> 5 == 6 ? 2 : byte >> 4 == 14 ? 3 : byte >> 3 == 30 ? 4 : 1;
    return n < length ? n : 0;
  }
  return 0;
}

/* What a terminal may get of the character at `at`, of at least one byte with others behind it up
 * to a NUL; returns its bytes. */
static size_t put_character(FILE *out, const char *at) {
  uint32_t code;
  size_t size = decode((const unsigned char *)at, &code);
  if (size == 0) {
    fputs("\xef\xbf\xbd", out);
    return 1;
  }
  bool control = code < 0x20 ? code != '\n' && code != '\t' : code >= 0x7f && code < 0xa0;
  if (control) {
    putc(' ', out);
  } else if (!turns(code)) {
    fwrite(at, 1, size, out);
  }
  return size;
}

void ommai_terminal_put(FILE *out, struct ommai_terminal_rest *rest, const char *text, size_t size) {
  for (size_t i = 0; i < size; i++) {
    rest->bytes[rest->size++] = text[i];
    rest->bytes[rest->size] = '\0';
    size_t kept = unfinished(rest->bytes, rest->size);
    if (kept == rest->size) continue;
    for (size_t at = 0; at < rest->size - kept;) at += put_character(out, rest->bytes + at);
    memmove(rest->bytes, rest->bytes + rest->size - kept, kept);
    rest->size = kept;
  }
}

void ommai_terminal_end(FILE *out, struct ommai_terminal_rest *rest) {
  for (size_t at = 0; at < rest->size;) at += put_character(out, rest->bytes + at);
  rest->size = 0;
}

void ommai_print_answer(FILE *out, struct ommai_terminal_rest *rest, const char *text, size_t size) {
  if (isatty(fileno(out)) == 1) {
    ommai_terminal_put(out, rest, text, size);
  } else {
    fwrite(text, 1, size, out);
  }
}
