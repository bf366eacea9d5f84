/* Numbers between two bounds, as digits. */
#pragma once

#include "grammar/grammar_builder.h"

/* Of numbers with bounds: significant digits, so that no two of them are the same double; after the
 * point, unless a bound has more. */
#define OMMAI_RANGE_MAX_DIGITS 15
#define OMMAI_RANGE_FRACTION_DIGITS 6
#define OMMAI_RANGE_MAX_MULTIPLE 1000

/* A decimal number without its sign: digits without leading zeroes ("0" for none), and those after
 * the point without trailing ones. */
struct ommai_decimal {
  char whole[24], fraction[24];
  bool negative;
};

/* False: more than 18 digits before the point, or more than 20 after it. */
bool ommai_decimal_from_double(double value, struct ommai_decimal *decimal);
void ommai_decimal_from_integer(int64_t value, struct ommai_decimal *decimal);

struct ommai_number_range {
  bool has_low, has_high;
  struct ommai_decimal low, high; /* integers: whole, and not exclusive */
  bool low_exclusive, high_exclusive;
  bool integer;
  int32_t multiple; /* of integers; 1: any */
};

/* Edges for the numbers of the range, without exponents, and integers without a point; -0 is
 * none. */
void ommai_builder_number_range(struct ommai_grammar_builder *builder, int32_t from, const struct ommai_number_range *range,
                                int32_t to);
