#include "base/option.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/growing.h"

#define BLANKS " \t\n\r\f\v"

bool ommai_strings_add(struct ommai_strings *list, const char *word) {
  void *items = list->items;
  if (!ommai_grow(&items, &list->capacity, list->count, 1, sizeof *list->items, &ommai_default_allocator)) return false;
  list->items = items;
  list->items[list->count++] = word;
  return true;
}

void ommai_strings_release(struct ommai_strings *list) {
  ommai_release(&ommai_default_allocator, list->items, list->capacity, sizeof *list->items);
  *list = (struct ommai_strings){0};
}

static bool unit_factor(const char *unit, int64_t *factor) {
  static const char letters[] = "kmgt";
  *factor = 1;
  if (!*unit) return true;
  if (unit[1]) return false;
  for (int power = 0; letters[power]; power++) {
    bool decimal = *unit == letters[power], binary = *unit == letters[power] - 'a' + 'A';
    if (!decimal && !binary) continue;
    for (int i = 0; i <= power; i++) *factor *= decimal ? 1000 : 1024;
    return true;
  }
  return false;
}

bool ommai_parse_integer(const char *text, bool with_unit, int64_t *out) {
  if (!*text || strchr(BLANKS, *text)) return false;
  char *end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  int64_t factor = 1;
  if (end == text || errno) return false;
  if (*end && (!with_unit || !unit_factor(end, &factor))) return false;
  return ommai_mul_i64((int64_t)number, factor, out);
}

static void *member_of(const struct ommai_option *option, const void *values) { return (char *)values + option->offset; }

static int64_t factor_of(const struct ommai_option *option) { return option->factor ? option->factor : 1; }

static void put_integer(const struct ommai_option *option, int64_t number, void *values) {
  void *member = member_of(option, values);
  number *= factor_of(option);
  switch (option->member) {
    case OMMAI_MEMBER_INT: *(int *)member = (int)number; break;
    case OMMAI_MEMBER_OPTIONAL_INTEGER:
      *(struct ommai_optional_integer *)member = (struct ommai_optional_integer){true, number};
      break;
    default: *(int64_t *)member = number;
  }
}

static enum omma_status wrong(const struct ommai_option *option, struct omma_error *error, const char *why) {
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, option->name, "%s", why);
}

/* Whether the number is in the range; else `why` says which that is. */
static bool integer_fits(const struct ommai_option *option, int64_t number, char *why, size_t size) {
  if (number >= option->low && number <= option->high) return true;
  if (number < option->low && option->high >= INT32_MAX) {
    snprintf(why, size, "must be %" PRId64 " or more", option->low);
  } else {
    snprintf(why, size, "must be from %" PRId64 " to %" PRId64, option->low, option->high);
  }
  return false;
}

static bool number_fits(const struct ommai_option *option, double number, char *why, size_t size) {
  bool low = option->above_minimum ? number <= option->minimum : number < option->minimum;
  if (!low && number <= option->maximum) return true;
  if (isinf(option->maximum)) {
    snprintf(why, size, option->above_minimum ? "must be above %g" : "must be %g or more", option->minimum);
  } else {
    snprintf(why, size, option->above_minimum ? "must be above %g and at most %g" : "must be from %g to %g", option->minimum,
             option->maximum);
  }
  return false;
}

static enum omma_status read_integer(const struct ommai_option *option, const char *text, void *values,
                                     struct omma_error *error) {
  char why[128];
  int64_t number;
  bool with_unit = option->type == OMMAI_OPTION_SIZE;
  for (const char *const *word = option->unset_words; word && *word; word++) {
    if (strcmp(*word, text) != 0) continue;
    ommai_option_set_default(option, values);
    return OMMA_OK;
  }
  if (!ommai_parse_integer(text, with_unit, &number)) {
    return wrong(option, error,
                 with_unit ? "must be an integer, with a unit (k, K, m, M, g, G) or without" : "must be an integer");
  }
  if (!integer_fits(option, number, why, sizeof why)) return wrong(option, error, why);
  put_integer(option, number, values);
  return OMMA_OK;
}

static enum omma_status read_number(const struct ommai_option *option, const char *text, void *values,
                                    struct omma_error *error) {
  char why[128];
  char *end;
  void *member = member_of(option, values);
  double number = strtod(text, &end);
  if (end == text || *end || isnan(number) || (isinf(number) && isfinite(option->maximum)) || strchr(BLANKS, *text)) {
    return wrong(option, error, "must be a number");
  }
  if (!number_fits(option, number, why, sizeof why)) return wrong(option, error, why);
  number *= (double)factor_of(option);
  switch (option->member) {
    case OMMAI_MEMBER_INT64: *(int64_t *)member = (int64_t)number; break;
    case OMMAI_MEMBER_OPTIONAL_NUMBER:
      *(struct ommai_optional_number *)member = (struct ommai_optional_number){true, number};
      break;
    default: *(double *)member = number;
  }
  return OMMA_OK;
}

static enum omma_status read_choice(const struct ommai_option *option, const char *text, void *values,
                                    struct omma_error *error) {
  char why[256] = "must be one of";
  const char *choice;
  for (int i = 0; (choice = ommai_option_choice(option, i)); i++) {
    if (strcmp(choice, text) == 0) return put_integer(option, i, values), OMMA_OK;
    size_t used = strlen(why);
    snprintf(why + used, sizeof why - used, "%s %s", i ? "," : "", choice);
  }
  return wrong(option, error, why);
}

static enum omma_status read_flag(const struct ommai_option *option, const char *text, void *values, struct omma_error *error) {
  bool off = strcmp(text, "false") == 0 || strcmp(text, "off") == 0;
  if (!off && strcmp(text, "true") != 0 && strcmp(text, "on") != 0) return wrong(option, error, "must be true or false");
  *(bool *)member_of(option, values) = !off;
  return OMMA_OK;
}

enum omma_status ommai_option_read(const struct ommai_option *option, const char *text, void *values,
                                   struct omma_error *error) {
  switch (option->type) {
    case OMMAI_OPTION_FLAG: return read_flag(option, text, values, error);
    case OMMAI_OPTION_STRING: *(const char **)member_of(option, values) = text; return OMMA_OK;
    case OMMAI_OPTION_INTEGER:
    case OMMAI_OPTION_SIZE: return read_integer(option, text, values, error);
    case OMMAI_OPTION_NUMBER: return read_number(option, text, values, error);
    case OMMAI_OPTION_CHOICE: return read_choice(option, text, values, error);
    case OMMAI_OPTION_STRINGS:
    case OMMAI_OPTION_WORDS: break;
  }
  struct ommai_strings *list = member_of(option, values);
  return ommai_strings_add(list, text) ? OMMA_OK : ommai_fail_memory(error, option->name, sizeof *list->items);
}

size_t ommai_option_member_size(const struct ommai_option *option) {
  static const size_t sizes[] = {[OMMAI_MEMBER_BOOL] = sizeof(bool),
                                 [OMMAI_MEMBER_STRING] = sizeof(const char *),
                                 [OMMAI_MEMBER_STRINGS] = sizeof(struct ommai_strings),
                                 [OMMAI_MEMBER_INT] = sizeof(int),
                                 [OMMAI_MEMBER_INT64] = sizeof(int64_t),
                                 [OMMAI_MEMBER_DOUBLE] = sizeof(double),
                                 [OMMAI_MEMBER_OPTIONAL_INTEGER] = sizeof(struct ommai_optional_integer),
                                 [OMMAI_MEMBER_OPTIONAL_NUMBER] = sizeof(struct ommai_optional_number)};
  return sizes[option->member];
}

void ommai_option_set_default(const struct ommai_option *option, void *values) {
  memset(member_of(option, values), 0, ommai_option_member_size(option));
  if (option->initial) ommai_option_read(option, option->initial, values, NULL);
}

/* An integer member's value; false where it is left open. */
static bool get_integer(const struct ommai_option *option, const void *values, int64_t *number) {
  const void *member = member_of(option, values);
  const struct ommai_optional_integer *optional = member;
  switch (option->member) {
    case OMMAI_MEMBER_INT: *number = *(const int *)member; break;
    case OMMAI_MEMBER_INT64: *number = *(const int64_t *)member; break;
    case OMMAI_MEMBER_OPTIONAL_INTEGER: *number = optional->value; break;
    default: return false;
  }
  *number /= factor_of(option);
  return option->member != OMMAI_MEMBER_OPTIONAL_INTEGER || optional->given;
}

enum omma_status ommai_option_check(const struct ommai_option *option, const void *values, struct omma_error *error) {
  char why[128];
  int64_t number;
  bool ranged = option->type == OMMAI_OPTION_INTEGER || option->type == OMMAI_OPTION_SIZE;
  if (!ranged || !get_integer(option, values, &number) || integer_fits(option, number, why, sizeof why)) return OMMA_OK;
  const char *name = ommai_option_member_name(option);
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, name, "%s: %s, found %" PRId64, name, why, number);
}

void ommai_option_show(const struct ommai_option *option, const void *values, char *text, size_t size) {
  const void *member = member_of(option, values);
  const struct ommai_optional_number *optional = member;
  int64_t number;
  snprintf(text, size, "none");
  switch (option->member) {
    case OMMAI_MEMBER_BOOL: snprintf(text, size, "%s", *(const bool *)member ? "true" : "false"); break;
    case OMMAI_MEMBER_DOUBLE: snprintf(text, size, "%g", *(const double *)member); break;
    case OMMAI_MEMBER_OPTIONAL_NUMBER:
      if (optional->given) snprintf(text, size, "%g", optional->value);
      break;
    case OMMAI_MEMBER_STRING:
      if (*(const char *const *)member) snprintf(text, size, "%s", *(const char *const *)member);
      break;
    case OMMAI_MEMBER_STRINGS: break;
    case OMMAI_MEMBER_INT:
    case OMMAI_MEMBER_INT64:
    case OMMAI_MEMBER_OPTIONAL_INTEGER:
      if (!get_integer(option, values, &number)) break;
      if (option->initial || number || option->member == OMMAI_MEMBER_OPTIONAL_INTEGER)
        snprintf(text, size, "%" PRId64, number);
  }
}

const char *ommai_option_member_name(const struct ommai_option *option) {
  const char *dot = strrchr(option->member_name, '.');
  return dot ? dot + 1 : option->member_name;
}
