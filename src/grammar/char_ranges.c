#include "grammar/char_ranges.h"

#include <stdlib.h>
#include <string.h>

#include "text/utf8.h"

#define FIRST_SURROGATE 0xD800u
#define LAST_SURROGATE 0xDFFFu

void ommai_chars_add(struct ommai_scratch *scratch, struct ommai_chars *chars, uint32_t low, uint32_t high) {
  if (!ommai_scratch_grow(scratch, (void **)&chars->ranges, &chars->capacity, chars->n, sizeof *chars->ranges)) return;
  chars->ranges[chars->n++] = (struct ommai_char_range){low, high};
}

static int compare_ranges(const void *left, const void *right) {
  const struct ommai_char_range *a = left, *b = right;
  return (a->low > b->low) - (a->low < b->low);
}

static void add_without_surrogates(struct ommai_scratch *scratch, struct ommai_chars *out, uint32_t low, uint32_t high) {
  if (high < FIRST_SURROGATE || low > LAST_SURROGATE) {
    ommai_chars_add(scratch, out, low, high);
    return;
  }
  if (low < FIRST_SURROGATE) ommai_chars_add(scratch, out, low, FIRST_SURROGATE - 1);
  if (high > LAST_SURROGATE) ommai_chars_add(scratch, out, LAST_SURROGATE + 1, high);
}

void ommai_chars_normalise(struct ommai_scratch *scratch, struct ommai_chars *chars) {
  struct ommai_chars out = {0};
  if (chars->n) qsort(chars->ranges, chars->n, sizeof *chars->ranges, compare_ranges);
  for (size_t i = 0; i < chars->n;) {
    uint32_t low = chars->ranges[i].low, high = chars->ranges[i].high;
    for (i++; i < chars->n && chars->ranges[i].low <= high + 1; i++) {
      if (chars->ranges[i].high > high) high = chars->ranges[i].high;
    }
    add_without_surrogates(scratch, &out, low, high);
  }
  *chars = out;
}

void ommai_chars_complement(struct ommai_scratch *scratch, const struct ommai_chars *chars, struct ommai_chars *out) {
  uint32_t next = 0;
  *out = (struct ommai_chars){0};
  for (size_t i = 0; i < chars->n; i++) {
    if (chars->ranges[i].low > next) ommai_chars_add(scratch, out, next, chars->ranges[i].low - 1);
    next = chars->ranges[i].high + 1;
  }
  if (next <= OMMAI_MAX_CODE_POINT) ommai_chars_add(scratch, out, next, OMMAI_MAX_CODE_POINT);
  ommai_chars_normalise(scratch, out);
}

/* ---- bytes ---- */

static bool all_are(const char *bytes, int n, unsigned char value) {
  for (int i = 0; i < n; i++) {
    if ((unsigned char)bytes[i] != value) return false;
  }
  return true;
}

static void add_sequences(struct ommai_grammar_builder *builder, int32_t from, const char *low, const char *high, int n,
                          int32_t to);

/* A node that the sequences of n bytes from low to high lead from to `to`. One that was made lately
 * is taken again: characters of several nodes that lead to the same one have their last bytes in
 * common, so that a walk meets fewer states. */
static int32_t add_tail(struct ommai_grammar_builder *builder, const char *low, const char *high, int n, int32_t to) {
  struct ommai_grammar_tail tail = {.to = to, .n = (uint8_t)n};
  memcpy(tail.low, low, (size_t)n);
  memcpy(tail.high, high, (size_t)n);
  uint32_t hash = (uint32_t)to * 31u + (uint32_t)n * 7u + (unsigned char)low[0] + 3u * (unsigned char)high[0];
  struct ommai_grammar_tail *kept = &builder->tails[hash % OMMAI_GRAMMAR_TAILS];
  tail.node = kept->node;
  if (kept->n && !memcmp(kept, &tail, sizeof tail)) return kept->node;
  tail.node = ommai_builder_node(builder);
  add_sequences(builder, tail.node, low, high, n, to);
  *kept = tail;
  return tail.node;
}

/* All sequences of n bytes from low to high, in the order of UTF-8 of one length. */
static void add_sequences(struct ommai_grammar_builder *builder, int32_t from, const char *low, const char *high, int n,
                          int32_t to) {
  static const char lowest[] = "\x80\x80\x80", highest[] = "\xbf\xbf\xbf";
  int first = (unsigned char)low[0], last = (unsigned char)high[0];
  if (n == 1) {
    ommai_builder_range(builder, from, first, last, to);
    return;
  }
  if (first == last) {
    ommai_builder_range(builder, from, first, first, add_tail(builder, low + 1, high + 1, n - 1, to));
    return;
  }
  if (!all_are(low + 1, n - 1, 0x80)) {
    ommai_builder_range(builder, from, first, first, add_tail(builder, low + 1, highest, n - 1, to));
    first++;
  }
  if (!all_are(high + 1, n - 1, 0xbf)) {
    ommai_builder_range(builder, from, last, last, add_tail(builder, lowest, high + 1, n - 1, to));
    last--;
  }
  if (first <= last) ommai_builder_range(builder, from, first, last, add_tail(builder, lowest, highest, n - 1, to));
}

static void add_utf8(struct ommai_grammar_builder *builder, int32_t from, uint32_t low, uint32_t high, int32_t to) {
  static const uint32_t last_of[] = {0x7f, 0x7ff, FIRST_SURROGATE - 1, 0xffff, OMMAI_MAX_CODE_POINT};
  static const uint32_t first_of[] = {0, 0x80, 0x800, LAST_SURROGATE + 1, 0x10000};
  for (size_t i = 0; i < sizeof last_of / sizeof last_of[0]; i++) {
    uint32_t a = low > first_of[i] ? low : first_of[i], b = high < last_of[i] ? high : last_of[i];
    char first[OMMAI_UTF8_MAX_BYTES], last[OMMAI_UTF8_MAX_BYTES];
    if (a > b) continue;
    int n = (int)ommai_utf8_encode(a, first);
    ommai_utf8_encode(b, last);
    add_sequences(builder, from, first, last, n, to);
  }
}

/* One character that has to be escaped. */
static void add_escape(struct ommai_grammar_builder *builder, int32_t from, uint32_t code, int32_t to) {
  static const char SHORT[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs: the character, its letter */
  int32_t node = ommai_builder_text(builder, from, "\\");
  for (size_t i = 0; i + 1 < sizeof SHORT; i += 2) {
    if ((uint32_t)SHORT[i] != code) continue;
    ommai_builder_range(builder, node, SHORT[i + 1], SHORT[i + 1], to);
    return;
  }
  node = ommai_builder_text(builder, node, code < 0x10 ? "u000" : "u001");
  int digit = (int)code % 16;
  ommai_builder_range(builder, node, "0123456789abcdef"[digit], "0123456789abcdef"[digit], to);
  if (digit >= 10) ommai_builder_range(builder, node, 'A' + digit - 10, 'A' + digit - 10, to);
}

void ommai_builder_chars(struct ommai_grammar_builder *builder, int32_t from, uint32_t low, uint32_t high,
                         enum ommai_char_encoding encoding, int32_t to) {
  static const uint32_t borders[] = {0x1f, '"' - 1, '"', '\\' - 1, '\\', OMMAI_MAX_CODE_POINT};
  uint32_t begin = 0;
  for (size_t i = 0; i < sizeof borders / sizeof borders[0] && encoding == OMMAI_CHARS_JSON; i++) {
    uint32_t a = low > begin ? low : begin, b = high < borders[i] ? high : borders[i];
    bool escaped = i == 0 || begin == borders[i];
    for (uint32_t code = a; escaped && code <= b && a <= b; code++) add_escape(builder, from, code, to);
    if (!escaped && a <= b) add_utf8(builder, from, a, b, to);
    begin = borders[i] + 1;
  }
  if (encoding == OMMAI_CHARS_RAW) add_utf8(builder, from, low, high, to);
}
