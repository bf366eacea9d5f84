/* const and enum, and whether two alternatives of oneOf can be distinguished. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "grammar/number_range.h"
#include "grammar/schema_parts.h"

enum { MAX_DEPTH = 4 };

static unsigned type_of(const json_t *value) {
  static const unsigned types[] = {
      [JSON_OBJECT] = SCHEMA_OBJECT,   [JSON_ARRAY] = SCHEMA_ARRAY,  [JSON_STRING] = SCHEMA_STRING, [JSON_NULL] = SCHEMA_NULL,
      [JSON_INTEGER] = SCHEMA_INTEGER, [JSON_TRUE] = SCHEMA_BOOLEAN, [JSON_FALSE] = SCHEMA_BOOLEAN};
  if (ommai_json_large(value)) return SCHEMA_INTEGER;
  if (!json_is_real(value)) return types[json_typeof(value)];
  double number = json_real_value(value);
  return number == floor(number) ? SCHEMA_INTEGER : SCHEMA_FRACTION;
}

/* Numbers are equal by value. */
static bool equal(const json_t *a, const json_t *b) {
  if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
  return json_equal(a, b);
}

/* `from`: a list that the value comes from. */
static bool is_listed(const struct schema_part *part, const json_t *value, const json_t *from) {
  const json_t *constant = json_object_get(part->schema, "const"), *list = json_object_get(part->schema, "enum");
  bool found = !list || list == from;
  for (size_t i = 0; i < json_array_size(list) && !found; i++) found = equal(json_array_get(list, i), value);
  return found && (!constant || equal(constant, value));
}

/* Whether the part's `not` forbids the value. */
static bool is_negated(const struct schema_part *part, const json_t *value, unsigned type) {
  const json_t *negated;
  enum ommai_schema_negation negation = ommai_schema_negation(part, &negated);
  const struct schema_part inner = {.schema = negated};
  if (negation == SCHEMA_NOT_OTHER || !(ommai_schema_types(&inner) & type)) return false;
  if (negation == SCHEMA_NOT_VALUES) return is_listed(&inner, value, NULL);
  const char *name = json_string_value(json_array_get(json_object_get(negated, "required"), 0));
  return negation == SCHEMA_NOT_TYPES || !json_is_object(value) || json_object_get(value, name);
}

static bool in_bounds(const struct schema_part *part, double value) {
  const json_t *low = json_object_get(part->schema, "minimum"), *high = json_object_get(part->schema, "maximum");
  const json_t *above = json_object_get(part->schema, "exclusiveMinimum"),
               *below = json_object_get(part->schema, "exclusiveMaximum");
  const json_t *multiple = json_object_get(part->schema, "multipleOf");
  if (low && !(json_is_true(above) ? value > json_number_value(low) : value >= json_number_value(low))) return false;
  if (high && !(json_is_true(below) ? value < json_number_value(high) : value <= json_number_value(high))) return false;
  if (json_is_number(above) && !(value > json_number_value(above))) return false;
  if (json_is_number(below) && !(value < json_number_value(below))) return false;
  return !multiple || fmod(value, json_number_value(multiple)) == 0;
}

/* What a set requires of strings, worked out once for several values. */
struct string_check {
  bool made, any;
  struct ommai_char_dfa dfa;
};

/* Steps of looking for a value in the set's lists, but for the one that it comes from. */
static int64_t list_work(const struct schema_set *set, const json_t *from) {
  int64_t work = 1 + (int64_t)set->n;
  for (size_t i = 0; i < set->n; i++) {
    const json_t *list = json_object_get(set->parts[i].schema, "enum"), *negated;
    if (list != from) work += (int64_t)json_array_size(list);
    (void)ommai_schema_negation(&set->parts[i], &negated);
    work += (int64_t)json_array_size(json_object_get(negated, "enum"));
  }
  return work;
}

static enum omma_status fits(struct schema_context *context, const struct schema_set *set, const json_t *value,
                             const json_t *from, struct string_check *strings, bool *good) {
  unsigned type = type_of(value);
  *good = !set->impossible;
  if (!ommai_scratch_work(context->scratch, list_work(set, from))) return ommai_schema_fail_scratch(context);
  for (size_t i = 0; i < set->n && *good; i++) {
    const struct schema_part *part = &set->parts[i];
    *good = (ommai_schema_types(part) & type) && is_listed(part, value, from);
    if (*good) *good = !is_negated(part, value, type);
    const char *large = ommai_json_large(value);
    if (*good && large) *good = in_bounds(part, strtod(large, NULL));
    if (*good && json_is_number(value)) *good = in_bounds(part, json_number_value(value));
    if (*good && (type & (SCHEMA_OBJECT | SCHEMA_ARRAY)) && (ommai_schema_implied_types(part) & type)) {
      return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, part->path, NULL,
                               "const or enum with arrays or objects besides keys that constrain these");
    }
  }
  if (!*good || type != SCHEMA_STRING) return OMMA_OK;
  if (!strings->made) OMMAI_TRY(ommai_schema_string_dfa(context, set, &strings->any, &strings->dfa));
  strings->made = true;
  *good = strings->any || ommai_dfa_accepts(&strings->dfa, json_string_value(value), json_string_length(value));
  return OMMA_OK;
}

enum omma_status ommai_schema_fits(struct schema_context *context, const struct schema_set *set, const json_t *value,
                                   bool *good) {
  struct string_check strings = {0};
  return fits(context, set, value, NULL, &strings, good);
}

enum omma_status ommai_schema_check_not_values(struct schema_context *context, const struct schema_set *set, unsigned types) {
  for (size_t i = 0; i < set->n; i++) {
    const json_t *negated, *list;
    if (ommai_schema_negation(&set->parts[i], &negated) != SCHEMA_NOT_VALUES) continue;
    const json_t *constant = json_object_get(negated, "const");
    list = json_object_get(negated, "enum");
    for (size_t j = 0; j < (constant ? 1 : json_array_size(list)); j++) {
      unsigned type = type_of(constant ? constant : json_array_get(list, j));
      if (!(type & types & (SCHEMA_NUMBER | SCHEMA_ARRAY | SCHEMA_OBJECT))) continue;
      return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, set->parts[i].path, "not",
                               "numbers, arrays and objects are supported besides const or enum alone");
    }
  }
  return OMMA_OK;
}

/* The list of the first part that has one. */
static bool find_list(const struct schema_set *set, const json_t **constant, const json_t **list) {
  for (size_t i = 0; i < set->n; i++) {
    *constant = json_object_get(set->parts[i].schema, "const");
    *list = json_object_get(set->parts[i].schema, "enum");
    if (*constant || *list) return true;
  }
  return false;
}

enum omma_status ommai_schema_values(struct schema_context *context, const struct schema_set *set, bool *found,
                                     const json_t ***values, size_t *n) {
  const json_t *constant, *list;
  struct string_check strings = {0};
  *n = 0;
  *found = find_list(set, &constant, &list);
  if (!*found) return OMMA_OK;
  size_t n_candidates = constant ? 1 : json_array_size(list);
  *values = ommai_scratch_take(context->scratch, n_candidates, sizeof **values);
  if (!*values) return ommai_schema_fail_scratch(context);
  for (size_t i = 0; i < n_candidates; i++) {
    const json_t *value = constant ? constant : json_array_get(list, i);
    bool good;
    OMMAI_TRY(fits(context, set, value, list, &strings, &good));
    if (good) (*values)[(*n)++] = value;
  }
  return OMMA_OK;
}

/* ---- alternatives that exclude each other ---- */

static enum omma_status values_exclude(struct schema_context *context, const struct schema_set *made,
                                       const struct schema_set *valid, bool *exclude) {
  const json_t **values;
  struct string_check strings = {0};
  size_t n;
  bool found;
  OMMAI_TRY(ommai_schema_values(context, made, &found, &values, &n));
  *exclude = found;
  for (size_t i = 0; i < n && *exclude; i++) {
    bool good;
    OMMAI_TRY(fits(context, valid, values[i], NULL, &strings, &good));
    *exclude = !good;
  }
  return OMMA_OK;
}

static double bound_of(const struct schema_set *set, bool low) {
  double bound = low ? -INFINITY : INFINITY;
  for (size_t i = 0; i < set->n; i++) {
    static const char *const keys[2][2] = {{"maximum", "exclusiveMaximum"}, {"minimum", "exclusiveMinimum"}};
    for (int j = 0; j < 2; j++) {
      const json_t *value = json_object_get(set->parts[i].schema, keys[low][j]);
      if (json_is_number(value)) bound = low ? fmax(bound, json_number_value(value)) : fmin(bound, json_number_value(value));
    }
  }
  return bound;
}

static enum omma_status member_excludes(struct schema_context *context, const struct schema_set *made,
                                        const struct schema_set *valid, const char *name, int depth, bool *exclude) {
  struct schema_set made_value = {.n = 0}, valid_value = {.n = 0};
  bool made_required, made_allowed, valid_required, valid_allowed;
  OMMAI_TRY(ommai_schema_member(context, made, name, &made_value, &made_required, &made_allowed));
  OMMAI_TRY(ommai_schema_member(context, valid, name, &valid_value, &valid_required, &valid_allowed));
  *exclude = valid_required && !made_allowed;
  if (*exclude || !(made_required || valid_required)) return OMMA_OK;
  return ommai_schema_exclude(context, &made_value, &valid_value, depth + 1, exclude);
}

/* By a member that one of them must have. */
static enum omma_status objects_exclude(struct schema_context *context, const struct schema_set *made,
                                        const struct schema_set *valid, int depth, bool *exclude) {
  const struct schema_set *sets[2] = {made, valid};
  for (int i = 0; i < 2; i++) {
    for (size_t j = 0; j < sets[i]->n; j++) {
      const json_t *required = json_object_get(sets[i]->parts[j].schema, "required");
      for (size_t k = 0; k < json_array_size(required) && !*exclude; k++) {
        const char *name = json_string_value(json_array_get(required, k));
        OMMAI_TRY(member_excludes(context, made, valid, name, depth, exclude));
      }
    }
  }
  return OMMA_OK;
}

/* Whether the set asks for a format: of these only some texts are known. */
static bool has_format(const struct schema_set *set) {
  bool found = false;
  for (size_t i = 0; i < set->n; i++) found = found || json_object_get(set->parts[i].schema, "format");
  return found;
}

/* By what both require of strings. */
static enum omma_status strings_exclude(struct schema_context *context, const struct schema_set *made,
                                        const struct schema_set *valid, bool *exclude) {
  struct ommai_char_dfa left, right, both;
  bool any_left, any_right;
  if (has_format(valid)) return OMMA_OK;
  OMMAI_TRY(ommai_schema_string_dfa(context, made, &any_left, &left));
  OMMAI_TRY(ommai_schema_string_dfa(context, valid, &any_right, &right));
  if (any_left || any_right) return OMMA_OK;
  if (!ommai_dfa_intersect(context->scratch, &left, &right, &both)) return ommai_schema_fail_scratch(context);
  *exclude = true;
  for (size_t i = 0; i < both.n_states; i++) *exclude = *exclude && !both.states[i].accepts;
  return OMMA_OK;
}

enum omma_status ommai_schema_exclude(struct schema_context *context, const struct schema_set *made,
                                      const struct schema_set *valid, int depth, bool *exclude) {
  unsigned types = ommai_schema_set_types(made);
  *exclude = made->impossible || valid->impossible;
  for (size_t i = 0; i < valid->n; i++) types &= ommai_schema_types(&valid->parts[i]);
  if (*exclude || types == 0) return *exclude = true, OMMA_OK;
  if (depth == MAX_DEPTH || !ommai_scratch_work(context->scratch, OMMAI_SCHEMA_SET_WORK)) return OMMA_OK;
  OMMAI_TRY(values_exclude(context, made, valid, exclude));
  if (*exclude) return OMMA_OK;
  if (!(types & ~(unsigned)SCHEMA_NUMBER)) {
    *exclude = bound_of(made, false) < bound_of(valid, true) || bound_of(made, true) > bound_of(valid, false);
  }
  if (types == SCHEMA_STRING) return strings_exclude(context, made, valid, exclude);
  return types == SCHEMA_OBJECT ? objects_exclude(context, made, valid, depth, exclude) : OMMA_OK;
}
