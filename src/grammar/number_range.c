/* Digits are compared with those of the bounds from the left: a number that equals a bound's
 * beginning so far is "tight" to it and may only go on on the right side of it; once it differs,
 * any digit may follow. Numbers of each length before the point have nodes of their own. */
#include "grammar/number_range.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOW = 1, HIGH = 2 }; /* tight to */

/* "12345e-2" in parts. */
static bool split_digits(const char *digits, int exponent, struct ommai_decimal *decimal) {
  int n = (int)strlen(digits), point = n + exponent; /* digits before the point */
  if (point > 18 || -exponent > 20) return false;
  for (int i = 0; i < point; i++) decimal->whole[i] = i < n ? digits[i] : '0';
  decimal->whole[point > 0 ? point : 0] = '\0';
  if (point <= 0) memcpy(decimal->whole, "0", 2);
  int at = 0;
  for (int i = point; i < 0; i++) decimal->fraction[at++] = '0';
  for (int i = point > 0 ? point : 0; i < n; i++) decimal->fraction[at++] = digits[i];
  while (at > 0 && decimal->fraction[at - 1] == '0') at--;
  decimal->fraction[at] = '\0';
  return true;
}

bool ommai_decimal_from_double(double value, struct ommai_decimal *decimal) {
  char text[40], digits[40];
  for (int precision = 14; precision <= 16; precision++) {
    snprintf(text, sizeof text, "%.*e", precision, value);
    if (strtod(text, NULL) == value) break;
  }
  int n = 0;
  const char *at = text + (text[0] == '-');
  for (; *at && *at != 'e'; at++) {
    if (*at != '.') digits[n++] = *at;
  }
  int exponent = *at ? (int)strtol(at + 1, NULL, 10) : 0;
  while (n > 1 && digits[n - 1] == '0') n--;
  digits[n] = '\0';
  *decimal = (struct ommai_decimal){.negative = value < 0};
  return split_digits(value == 0 ? "0" : digits, value == 0 ? 0 : exponent - (n - 1), decimal);
}

void ommai_decimal_from_integer(int64_t value, struct ommai_decimal *decimal) {
  uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  *decimal = (struct ommai_decimal){.negative = value < 0};
  snprintf(decimal->whole, sizeof decimal->whole, "%llu", (unsigned long long)magnitude);
}

/* Numbers without sign from low to high. */
struct span {
  struct ommai_grammar_builder *builder;
  struct ommai_decimal low, high;
  bool low_exclusive, high_exclusive, integer;
  int32_t multiple;
  int length;       /* digits before the point */
  int max_fraction; /* digits after it */
  int32_t to;
};

/* The digit `at` of a bound, 0 after its end. */
static int digit_of(const char *digits, int at) { return at < (int)strlen(digits) ? digits[at] - '0' : 0; }

/* What is tight after `digit`, or -1 where it is on the wrong side. */
static int next_tight(int tight, int digit, int low, int high) {
  if (((tight & LOW) && digit < low) || ((tight & HIGH) && digit > high)) return -1;
  if ((tight & LOW) && digit > low) tight &= ~LOW;
  if ((tight & HIGH) && digit < high) tight &= ~HIGH;
  return tight;
}

/* Whether the number may end with n digits after the point. */
static bool may_end(const struct span *span, int tight, int n_fraction) {
  bool low_is_over = n_fraction >= (int)strlen(span->low.fraction),
       high_is_over = n_fraction >= (int)strlen(span->high.fraction);
  if ((tight & LOW) && (!low_is_over || span->low_exclusive)) return false;
  return !((tight & HIGH) && high_is_over && span->high_exclusive);
}

/* Edges of the digits from `from` that lead to nodes[tight], which are made when needed. */
static void add_digits(const struct span *span, int32_t from, int tight, int first, int low, int high, int32_t nodes[4]) {
  for (int digit = first; digit <= 9; digit++) {
    int next = next_tight(tight, digit, low, high);
    if (next < 0) continue;
    if (!nodes[next]) nodes[next] = ommai_builder_node(span->builder);
    ommai_builder_range(span->builder, from, '0' + digit, '0' + digit, nodes[next]);
  }
}

/* After the point, from the nodes of the whole part. */
static void add_fraction(const struct span *span, const int32_t whole[4]) {
  int32_t nodes[4] = {0};
  for (int tight = 0; tight < 4; tight++) {
    if (whole[tight]) nodes[tight] = ommai_builder_text(span->builder, whole[tight], ".");
  }
  for (int at = 0; at < span->max_fraction; at++) {
    int32_t next[4] = {0};
    int low = digit_of(span->low.fraction, at), high = digit_of(span->high.fraction, at);
    for (int tight = 0; tight < 4; tight++) {
      if (nodes[tight]) add_digits(span, nodes[tight], tight, 0, low, high, next);
    }
    for (int tight = 0; tight < 4; tight++) {
      nodes[tight] = next[tight];
      if (nodes[tight] && may_end(span, tight, at + 1)) ommai_builder_empty(span->builder, nodes[tight], span->to);
    }
  }
}

/* Nodes of one position: by tightness and remainder. */
struct row {
  int32_t nodes[4][OMMAI_RANGE_MAX_MULTIPLE];
};

static void add_position(const struct span *span, const struct row *row, int at, struct row *next) {
  int first = at == 0 && span->length > 1;
  int low = digit_of(span->low.whole, at), high = digit_of(span->high.whole, at);
  for (int tight = 0; tight < 4; tight++) {
    for (int32_t rest = 0; rest < span->multiple; rest++) {
      if (!row->nodes[tight][rest]) continue;
      for (int digit = first; digit <= 9; digit++) {
        int after = next_tight(tight, digit, low, high);
        if (after < 0) continue;
        int32_t *node = &next->nodes[after][(rest * 10 + digit) % span->multiple];
        if (!*node) *node = ommai_builder_node(span->builder);
        ommai_builder_range(span->builder, row->nodes[tight][rest], '0' + digit, '0' + digit, *node);
      }
    }
  }
}

/* All numbers with `length` digits before the point. */
static void add_length(struct span *span, int32_t from) {
  struct row rows[2] = {0};
  int tight =
      (span->length == (int)strlen(span->low.whole) ? LOW : 0) | (span->length == (int)strlen(span->high.whole) ? HIGH : 0);
  int32_t whole[4];
  rows[0].nodes[tight][0] = ommai_builder_node(span->builder);
  ommai_builder_empty(span->builder, from, rows[0].nodes[tight][0]);
  for (int at = 0; at < span->length; at++) {
    struct row *next = &rows[(at + 1) % 2];
    memset(next, 0, sizeof *next);
    add_position(span, &rows[at % 2], at, next);
  }
  for (int i = 0; i < 4; i++) {
    whole[i] = rows[span->length % 2].nodes[i][0];
    if (whole[i] && may_end(span, i, 0)) ommai_builder_empty(span->builder, whole[i], span->to);
  }
  if (span->max_fraction > 0) add_fraction(span, whole);
}

static int larger(int a, int b) { return a > b ? a : b; }

static void add_span(struct span *span, int32_t from) {
  int shortest = (int)strlen(span->low.whole), longest = (int)strlen(span->high.whole);
  int wanted = larger(OMMAI_RANGE_FRACTION_DIGITS, larger((int)strlen(span->low.fraction), (int)strlen(span->high.fraction)));
  for (span->length = shortest; span->length <= longest; span->length++) {
    int room = OMMAI_RANGE_MAX_DIGITS - span->length;
    span->max_fraction = span->integer ? 0 : wanted < room ? wanted : room;
    add_length(span, from);
  }
}

static bool is_zero(const struct ommai_decimal *decimal) { return decimal->whole[0] == '0' && !decimal->fraction[0]; }

void ommai_builder_number_range(struct ommai_grammar_builder *builder, int32_t from, const struct ommai_number_range *range,
                                int32_t to) {
  struct ommai_decimal largest = {0}, zero = {.whole = "0"};
  memset(largest.whole, '9', range->integer ? 18 : OMMAI_RANGE_MAX_DIGITS);
  struct span span = {.builder = builder, .integer = range->integer, .multiple = range->multiple, .to = to};
  bool low_negative = !range->has_low || (range->low.negative && !is_zero(&range->low));
  bool high_negative = range->has_high && range->high.negative && !is_zero(&range->high);
  if (!high_negative) {
    span.low = low_negative ? zero : range->low;
    span.low_exclusive = !low_negative && range->low_exclusive;
    span.high = range->has_high ? range->high : largest;
    span.high_exclusive = range->has_high && range->high_exclusive;
    add_span(&span, from);
  }
  if (!low_negative) return;
  span.low = high_negative ? range->high : zero;
  span.low_exclusive = !high_negative || range->high_exclusive;
  span.high = range->has_low ? range->low : largest;
  span.high_exclusive = range->has_low && range->low_exclusive;
  add_span(&span, ommai_builder_text(builder, from, "-"));
}
