/* Sets of characters (Unicode code points without surrogates), and how their bytes are written into
 * a grammar: as they are, or as they stand between the quotation marks of a JSON string. */
#pragma once

#include "base/scratch.h"
#include "grammar/grammar_builder.h"

#define OMMAI_MAX_CODE_POINT 0x10FFFFu

struct ommai_char_range {
  uint32_t low, high;
};

/* Sorted, without overlaps, after ommai_chars_normalise. */
struct ommai_chars {
  struct ommai_char_range *ranges;
  size_t n, capacity;
};

/* RAW: UTF-8. JSON: in a string, each character in one way only: escaped where it must be, in the
 * short form where there is one. */
enum ommai_char_encoding { OMMAI_CHARS_RAW, OMMAI_CHARS_JSON };

/* Where the scratch fails, as it then does for good, characters are missing: the caller looks at it
 * when the set is complete. */
void ommai_chars_add(struct ommai_scratch *scratch, struct ommai_chars *chars, uint32_t low, uint32_t high);
/* Sorts, merges, leaves surrogates out. */
void ommai_chars_normalise(struct ommai_scratch *scratch, struct ommai_chars *chars);
/* All characters that are not in a normalised set. */
void ommai_chars_complement(struct ommai_scratch *scratch, const struct ommai_chars *chars, struct ommai_chars *out);

/* Edges for one character from low to high. */
void ommai_builder_chars(struct ommai_grammar_builder *builder, int32_t from, uint32_t low, uint32_t high,
                         enum ommai_char_encoding encoding, int32_t to);
