/* Translation of a split pattern from the dialect of tokenizer.json (Oniguruma, Ruby syntax) to
 * PCRE2.
 *
 * The two agree on most of the syntax and differ in silence on some: \s and U+180E, \p{Han} (script
 * or script extensions), \h, [a&&[^b]], anchors. Only what is known to mean the same, or can be
 * rewritten so, is accepted: literals, escaped punctuation, \r \n \t \s \S, \p{..} and \P{..} of
 * general categories and some scripts, ".", "|", classes, groups (?: (?i: (?= (?! (?<= (?<!, and
 * quantifiers, those without braces also lazy and possessive. A class of general categories less
 * another class, [\p{Lu}\p{Lo}&&[^\p{Han}]], becomes the complement of the other categories and
 * that class. Ranges outside ASCII, and literal characters that stand for others (unicode.h), are
 * refused. */
#pragma once

#include <omma/status.h>
#include <stddef.h>

#define OMMAI_PATTERN_MAX_BYTES 2048
/* A translation is at most that many times as long: the worst case is a class of one category less
 * another class. */
#define OMMAI_PATTERN_MAX_GROWTH 16

/* Translates `size` bytes of valid UTF-8 into out, with a NUL. Errors: LIMIT (size, capacity),
 * UNSUPPORTED with the byte offset in the pattern. */
enum omma_status ommai_pattern_translate(const char *pattern, size_t size, char *out, size_t capacity,
                                         struct omma_error *error);
