/* Texts of pages, changed step by step. Each function frees the text that it is given and returns
 * another; NULL stays NULL: memory was out. Texts are UTF-8; their patterns are PCRE2's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All matches replaced. With dot_all a dot takes newlines too; with lines ^ and $ are those of
 * lines. */
enum ommai_pattern_kind { OMMAI_PATTERN_PLAIN, OMMAI_PATTERN_DOT_ALL, OMMAI_PATTERN_LINES };
char *ommai_page_text_replace(char *text, const char *pattern, enum ommai_pattern_kind kind, const char *replacement);

/* Without each occurrence of a part. */
char *ommai_page_text_without(char *text, const char *part);

/* Without the blanks at both ends, those of Unicode; without the bytes of a set at both ends. */
char *ommai_page_text_strip(char *text);
char *ommai_page_text_strip_set(char *text, const char *set);

/* Where a pattern matches first, from a place on: the whole, then its groups, in bytes; SIZE_MAX
 * where a group has no part. */
#define OMMAI_PATTERN_GROUPS 5
struct ommai_pattern_match {
  size_t begin[OMMAI_PATTERN_GROUPS], end[OMMAI_PATTERN_GROUPS];
};
bool ommai_page_text_find(const char *text, size_t from, const char *pattern, enum ommai_pattern_kind kind,
                          struct ommai_pattern_match *match);

/* The number of characters before a byte. */
size_t ommai_page_text_place(const char *text, size_t at);

/* The characters from one to another (not in bytes) become spaces. */
char *ommai_page_text_blank(char *text, size_t from, size_t to);
