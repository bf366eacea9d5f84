#include "jinja/jinja_lexer.h"

#include <string.h>

#include "base/error.h"
#include "base/text_buffer.h"
#include "text/utf8.h"

struct lexer {
  struct ommai_scratch *scratch;
  const char *text; /* line ends are LF */
  size_t size, at;
  int line;
  bool line_start; /* the last tag took a line end with it */
  struct jinja_token *tokens;
  size_t n_tokens, capacity;
  struct omma_error *error;
};

/* Line ends become LF, and one at the end goes. */
static bool normalise(struct lexer *lexer, const char *text, size_t size) {
  char *out = ommai_scratch_take(lexer->scratch, size + 1, 1);
  if (!out) return false;
  size_t n = 0;
  for (size_t i = 0; i < size; i++) {
    if (text[i] == '\n' && i && text[i - 1] == '\r') continue;
    out[n++] = text[i] == '\r' ? '\n' : text[i];
  }
  if (n && out[n - 1] == '\n') n--;
  lexer->text = out;
  lexer->size = n;
  return true;
}

static enum omma_status add(struct lexer *lexer, enum jinja_token_kind kind, const char *text, size_t size) {
  if (lexer->n_tokens == OMMAI_JINJA_MAX_TOKENS) {
    return ommai_fail(lexer->error, OMMA_ERROR_LIMIT, "more than %d tokens", OMMAI_JINJA_MAX_TOKENS);
  }
  if (!ommai_scratch_grow(lexer->scratch, (void **)&lexer->tokens, &lexer->capacity, lexer->n_tokens, sizeof *lexer->tokens)) {
    return ommai_scratch_fail(lexer->scratch, lexer->error);
  }
  lexer->tokens[lexer->n_tokens++] = (struct jinja_token){kind, text, size, lexer->line};
  return OMMA_OK;
}

static bool is_space(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }
static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }
static bool is_word(char byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
}

/* Byte `ahead` of here; NUL after the end. */
static char peek(const struct lexer *lexer, size_t ahead) {
  return lexer->at + ahead < lexer->size ? lexer->text[lexer->at + ahead] : '\0';
}

static void skip(struct lexer *lexer, size_t n) {
  for (; n && lexer->at < lexer->size; n--) lexer->line += lexer->text[lexer->at++] == '\n';
}

/* ---- text ---- */

/* The length of [begin, begin + size) without the blanks that the tag after it takes away. */
static size_t trimmed(const struct lexer *lexer, size_t begin, size_t size, char sign, bool print) {
  const char *text = lexer->text + begin;
  size_t n = size;
  if (sign == '-') {
    while (n && is_space(text[n - 1])) n--;
  } else if (sign != '+' && !print) {
    while (n && is_space(text[n - 1]) && text[n - 1] != '\n') n--;
    bool whole_line = n ? text[n - 1] == '\n' : lexer->line_start;
    if (!whole_line) n = size;
  }
  return n;
}

/* After a tag: with '-' all blanks go, else a statement or comment takes a line end with it. */
static void end_tag(struct lexer *lexer, char sign, bool print) {
  size_t begin = lexer->at;
  if (sign == '-') {
    while (is_space(peek(lexer, 0)) && lexer->at < lexer->size) skip(lexer, 1);
  } else if (sign != '+' && !print && peek(lexer, 0) == '\n') {
    skip(lexer, 1);
  }
  lexer->line_start = lexer->at > begin && lexer->text[lexer->at - 1] == '\n';
}

static enum omma_status skip_comment(struct lexer *lexer) {
  int line = lexer->line;
  while (lexer->at < lexer->size && !(peek(lexer, 0) == '#' && peek(lexer, 1) == '}')) skip(lexer, 1);
  if (lexer->at >= lexer->size) return ommai_fail(lexer->error, OMMA_ERROR_FORMAT, "line %d: a comment has no end", line);
  char sign = lexer->text[lexer->at - 1];
  skip(lexer, 2);
  end_tag(lexer, sign, false);
  return OMMA_OK;
}

/* ---- tags ---- */

/* \xHH, \uHHHH, \UHHHHHHHH at text[0] = 'x': appends the character; returns the bytes read, 0 where
 * it is none. */
static size_t read_code(const char *text, size_t size, char *out, size_t *n) {
  size_t digits = text[0] == 'x' ? 2 : text[0] == 'u' ? 4 : text[0] == 'U' ? 8 : 0;
  uint32_t code = 0;
  if (!digits || size < digits + 1 || !ommai_hex_read(text + 1, digits, &code)) return 0;
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return 0;
  *n += ommai_utf8_encode(code, out + *n);
  return digits + 1;
}

/* Python's escapes; an unknown one stays as it is. `out` has room for `size`. */
static size_t unescape(const char *text, size_t size, char *out) {
  static const char names[] = "ntr\\'\"abfv", values[] = "\n\t\r\\'\"\a\b\f\v";
  size_t n = 0;
  for (size_t i = 0; i < size; i++) {
    if (text[i] != '\\' || i + 1 == size) {
      out[n++] = text[i];
      continue;
    }
    const char *name = text[i + 1] ? strchr(names, text[i + 1]) : NULL;
    size_t read = name || text[i + 1] == '\n' ? 1 : read_code(text + i + 1, size - i - 1, out, &n);
    if (name) out[n++] = values[name - names];
    if (!read) out[n++] = '\\';
    i += read;
  }
  return n;
}

static enum omma_status take_string(struct lexer *lexer) {
  char quote = peek(lexer, 0);
  int line = lexer->line;
  skip(lexer, 1);
  const char *begin = lexer->text + lexer->at;
  while (lexer->at < lexer->size && peek(lexer, 0) != quote) skip(lexer, peek(lexer, 0) == '\\' ? 2 : 1);
  if (lexer->at >= lexer->size) return ommai_fail(lexer->error, OMMA_ERROR_FORMAT, "line %d: a string has no end", line);
  size_t size = (size_t)(lexer->text + lexer->at - begin);
  char *out = ommai_scratch_take(lexer->scratch, size, 1);
  if (!out) return ommai_scratch_fail(lexer->scratch, lexer->error);
  skip(lexer, 1);
  return add(lexer, JINJA_STRING, out, unescape(begin, size, out));
}

static enum omma_status take_number(struct lexer *lexer) {
  const char *begin = lexer->text + lexer->at;
  enum jinja_token_kind kind = JINJA_INTEGER;
  while (is_digit(peek(lexer, 0))) skip(lexer, 1);
  if (peek(lexer, 0) == '.' && is_digit(peek(lexer, 1))) {
    kind = JINJA_FLOAT;
    skip(lexer, 1);
    while (is_digit(peek(lexer, 0))) skip(lexer, 1);
  }
  if (is_word(peek(lexer, 0))) {
    return ommai_fail(lexer->error, OMMA_ERROR_UNSUPPORTED, "line %d: this way of writing a number is not supported",
                      lexer->line);
  }
  return add(lexer, kind, begin, (size_t)(lexer->text + lexer->at - begin));
}

static enum omma_status take_operator(struct lexer *lexer, int *depth) {
  static const char *const twos[] = {"==", "!=", "<=", ">=", "//", "**"};
  size_t size = 1;
  for (size_t i = 0; i < sizeof twos / sizeof *twos; i++) {
    if (peek(lexer, 0) == twos[i][0] && peek(lexer, 1) == twos[i][1]) size = 2;
  }
  char byte = peek(lexer, 0);
  if (size == 1 && (!byte || !strchr("+-*/%~<>=.,:|()[]{}", byte))) {
    return ommai_fail(lexer->error, OMMA_ERROR_FORMAT, "line %d: unexpected byte 0x%02x in a tag", lexer->line,
                      (unsigned char)byte);
  }
  if (strchr("([{", byte)) ++*depth;
  if (strchr(")]}", byte)) --*depth;
  OMMAI_TRY(add(lexer, JINJA_OPERATOR, lexer->text + lexer->at, size));
  skip(lexer, size);
  return OMMA_OK;
}

/* True at the tag's end, which is skipped. Inside of brackets there is none. */
static bool at_end(struct lexer *lexer, bool print, int depth) {
  char sign = peek(lexer, 0), mark = print ? '}' : '%';
  bool has_sign = sign == '-' || (sign == '+' && !print);
  if (depth > 0 || peek(lexer, has_sign) != mark || peek(lexer, (size_t)has_sign + 1) != '}') return false;
  skip(lexer, (size_t)has_sign + 2);
  return true;
}

static enum omma_status take_tag(struct lexer *lexer, bool print) {
  int depth = 0, line = lexer->line;
  OMMAI_TRY(add(lexer, print ? JINJA_PRINT_BEGIN : JINJA_BLOCK_BEGIN, "", 0));
  while (lexer->at < lexer->size) {
    char byte = peek(lexer, 0);
    size_t begin = lexer->at;
    if (is_space(byte)) {
      skip(lexer, 1);
    } else if (at_end(lexer, print, depth)) {
      OMMAI_TRY(add(lexer, print ? JINJA_PRINT_END : JINJA_BLOCK_END, "", 0));
      end_tag(lexer, byte, print);
      return OMMA_OK;
    } else if (byte == '\'' || byte == '"') {
      OMMAI_TRY(take_string(lexer));
    } else if (is_digit(byte)) {
      OMMAI_TRY(take_number(lexer));
    } else if (is_word(byte)) {
      while (is_word(peek(lexer, 0))) skip(lexer, 1);
      OMMAI_TRY(add(lexer, JINJA_NAME, lexer->text + begin, lexer->at - begin));
    } else {
      OMMAI_TRY(take_operator(lexer, &depth));
    }
  }
  return ommai_fail(lexer->error, OMMA_ERROR_FORMAT, "line %d: a tag has no end", line);
}

/* Text up to the next tag, and the tag. */
static enum omma_status take_next(struct lexer *lexer) {
  size_t begin = lexer->at, end = begin;
  while (end < lexer->size &&
         !(lexer->text[end] == '{' && end + 1 < lexer->size && lexer->text[end + 1] && strchr("{%#", lexer->text[end + 1]))) {
    end++;
  }
  char mark = end < lexer->size ? lexer->text[end + 1] : '\0', sign = end + 2 < lexer->size ? lexer->text[end + 2] : '\0';
  size_t size = mark ? trimmed(lexer, begin, end - begin, sign, mark == '{') : end - begin;
  if (size) OMMAI_TRY(add(lexer, JINJA_TEXT, lexer->text + begin, size));
  skip(lexer, end - begin);
  if (!mark) return OMMA_OK;
  skip(lexer, sign == '-' || sign == '+' ? 3 : 2);
  return mark == '#' ? skip_comment(lexer) : take_tag(lexer, mark == '{');
}

enum omma_status ommai_jinja_lex(const char *text, size_t size, struct ommai_scratch *scratch, struct jinja_token **tokens,
                                 struct omma_error *error) {
  struct lexer lexer = {.scratch = scratch, .line = 1, .line_start = true, .error = error};
  if (!normalise(&lexer, text, size)) return ommai_scratch_fail(scratch, error);
  while (lexer.at < lexer.size) OMMAI_TRY(take_next(&lexer));
  OMMAI_TRY(add(&lexer, JINJA_END, "", 0));
  *tokens = lexer.tokens;
  return OMMA_OK;
}
