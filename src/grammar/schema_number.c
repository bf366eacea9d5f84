#include <math.h>
#include <string.h>

#include "base/error.h"
#include "grammar/number_range.h"
#include "grammar/schema_parts.h"

/* Beyond these integers have no exact double, or too many digits. */
#define MAX_BOUND 1e18

struct bound {
  const struct schema_part *part;
  const char *key;
  const json_t *value; /* NULL: none */
  bool exclusive;
};

/* The stricter one of two lower (sign 1) or upper (sign -1) bounds. Those beyond all numbers that
 * are made have none. */
static void take_bound(struct bound *bound, struct bound other, double sign) {
  if (json_number_value(other.value) * sign <= -MAX_BOUND) return;
  double old = bound->value ? json_number_value(bound->value) * sign : -INFINITY, new = json_number_value(other.value) * sign;
  if (new > old || (new == old &&other.exclusive)) *bound = other;
}

/* Draft 4 has exclusiveMinimum true besides minimum. */
static void take_bounds(const struct schema_part *part, const char *plain, const char *exclusive, double sign,
                        struct bound *bound) {
  const json_t *value = json_object_get(part->schema, plain), *other = json_object_get(part->schema, exclusive);
  if (value) take_bound(bound, (struct bound){part, plain, value, json_is_true(other)}, sign);
  if (json_is_number(other)) take_bound(bound, (struct bound){part, exclusive, other, true}, sign);
}

static enum omma_status fail_bound(struct schema_context *context, const struct bound *bound) {
  return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, bound->part->path, bound->key,
                           "bounds of at most 18 digits before the point and 20 after it are supported");
}

/* The smallest (sign 1) or largest (sign -1) integer that is within the bound. */
static enum omma_status integer_bound(struct schema_context *context, const struct bound *bound, int sign, int64_t *out) {
  double number = json_number_value(bound->value);
  if (!(fabs(number) < MAX_BOUND)) return fail_bound(context, bound);
  if (json_is_integer(bound->value)) {
    *out = json_integer_value(bound->value) + (bound->exclusive ? sign : 0);
    return OMMA_OK;
  }
  double whole = sign * ceil(sign * number);
  *out = (int64_t)whole + (bound->exclusive && whole == number ? sign : 0);
  return OMMA_OK;
}

static enum omma_status decimal_bound(struct schema_context *context, const struct bound *bound, struct ommai_decimal *out) {
  bool good;
  if (json_is_integer(bound->value)) {
    good = fabs(json_number_value(bound->value)) < MAX_BOUND;
    ommai_decimal_from_integer(json_integer_value(bound->value), out);
  } else {
    good = ommai_decimal_from_double(json_real_value(bound->value), out);
  }
  return good ? OMMA_OK : fail_bound(context, bound);
}

/* The product of all multiples has to divide, so one of them must be it. */
static enum omma_status take_multiple(struct schema_context *context, const struct schema_part *part,
                                      struct ommai_number_range *range) {
  const json_t *value = json_object_get(part->schema, "multipleOf");
  double number = json_number_value(value);
  if (!value) return OMMA_OK;
  bool other = range->multiple != 1 && number != 1 && number != range->multiple;
  if (number != floor(number) || number < 1 || number > OMMAI_RANGE_MAX_MULTIPLE || other) {
    return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, part->path, "multipleOf",
                             "only one integer from 1 to %d is supported", OMMAI_RANGE_MAX_MULTIPLE);
  }
  if (number != 1) range->multiple = (int32_t)number;
  range->integer = true;
  return OMMA_OK;
}

static enum omma_status set_integers(struct schema_context *context, const struct bound *low, const struct bound *high,
                                     struct ommai_number_range *range, bool *possible) {
  int64_t min = INT64_MIN, max = INT64_MAX;
  if (low->value) OMMAI_TRY(integer_bound(context, low, 1, &min));
  if (high->value) OMMAI_TRY(integer_bound(context, high, -1, &max));
  *possible = min <= max;
  range->low_exclusive = range->high_exclusive = false;
  ommai_decimal_from_integer(min, &range->low);
  ommai_decimal_from_integer(max, &range->high);
  return OMMA_OK;
}

enum omma_status ommai_schema_range(struct schema_context *context, const struct schema_set *set, bool integer,
                                    struct ommai_number_range *range, bool *possible) {
  struct bound low = {0}, high = {0};
  *range = (struct ommai_number_range){.integer = integer, .multiple = 1};
  for (size_t i = 0; i < set->n; i++) {
    take_bounds(&set->parts[i], "minimum", "exclusiveMinimum", 1, &low);
    take_bounds(&set->parts[i], "maximum", "exclusiveMaximum", -1, &high);
    OMMAI_TRY(take_multiple(context, &set->parts[i], range));
  }
  range->has_low = low.value;
  range->has_high = high.value;
  if (range->integer) return set_integers(context, &low, &high, range, possible);
  *possible = !low.value || !high.value || json_number_value(low.value) <= json_number_value(high.value);
  if (low.value) OMMAI_TRY(decimal_bound(context, &low, &range->low));
  if (high.value) OMMAI_TRY(decimal_bound(context, &high, &range->high));
  range->low_exclusive = low.exclusive;
  range->high_exclusive = high.exclusive;
  return OMMA_OK;
}

enum omma_status ommai_schema_number(struct schema_context *context, const struct schema_set *set, unsigned types, int32_t from,
                                     int32_t to) {
  struct ommai_number_range range;
  bool possible, integer = !(types & SCHEMA_FRACTION);
  OMMAI_TRY(ommai_schema_range(context, set, integer, &range, &possible));
  if (!possible) return OMMA_OK;
  if (range.has_low || range.has_high || range.multiple > 1) {
    ommai_builder_number_range(context->builder, from, &range, to);
    return OMMA_OK;
  }
  enum ommai_json_piece piece = range.integer ? OMMAI_JSON_INTEGER : OMMAI_JSON_NUMBER;
  ommai_builder_call(context->builder, from, ommai_json_rule(&context->json, piece), to);
  return OMMA_OK;
}
