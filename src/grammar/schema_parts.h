/* The inside of the schema compiler: what its files share.
 *
 * A rule is made for a conjunction: a set of schemas of which all must hold. $ref and allOf add to
 * the set; anyOf and oneOf become one rule for each alternative, with it in the set; then what the
 * set requires of each type becomes the rule's graph. Rules are made from a queue, so that nesting
 * takes no stack. */
#pragma once

#include "grammar/char_dfa.h"
#include "grammar/json_text.h"
#include "grammar/name_set.h"
#include "grammar/schema.h"

/* Where a schema stands in the document. */
struct schema_path {
  const struct schema_path *above; /* NULL: the document */
  const char *key;                 /* NULL: `index` of an array */
  size_t index;
};

/* Steps that finding a key among the known ones is worth; making a set of schemas, or finding what
 * one says about a member. */
#define OMMAI_SCHEMA_KEY_WORK 16
#define OMMAI_SCHEMA_SET_WORK 32

/* Keys that the set has taken up already, as bits. */
enum { SCHEMA_DONE_ANY_OF = 1, SCHEMA_DONE_ONE_OF = 2, SCHEMA_DONE_ALL_OF = 4 };

struct schema_part {
  const json_t *schema; /* an object */
  const struct schema_path *path;
  unsigned done;
};

struct schema_set {
  struct schema_part parts[OMMAI_SCHEMA_MAX_PARTS];
  size_t n;
  bool impossible; /* one of them is false */
};

enum schema_type {
  SCHEMA_NULL = 1,
  SCHEMA_BOOLEAN = 2,
  SCHEMA_STRING = 4,
  SCHEMA_INTEGER = 8,
  SCHEMA_FRACTION = 16, /* numbers that are not integers; "number" is both */
  SCHEMA_ARRAY = 32,
  SCHEMA_OBJECT = 64,
  SCHEMA_ALL_TYPES = 127,
  SCHEMA_NUMBER = SCHEMA_INTEGER | SCHEMA_FRACTION
};

struct schema_context {
  const json_t *document;
  struct ommai_schema_options options;
  struct ommai_grammar_builder *builder;
  struct ommai_scratch *scratch;
  struct ommai_json_text json;
  struct schema_rule *rules; /* made or to be made, in order */
  size_t n_rules, rules_capacity;
  int32_t *buckets;
  struct ommai_name_set required; /* of long lists of required members */
  struct ommai_name_set checked;  /* schemas whose keys are, without names */
  const struct schema_path *at;   /* of the rule that is being built */
  json_t *made;                   /* schemas that schema_not.c has made; NULL: none */
  struct omma_error *error;
};

/* ---- schema_paths.c ---- */

/* The path of path[key] or, with key NULL, path[index]; NULL: the scratch has failed. */
const struct schema_path *ommai_schema_path(struct schema_context *context, const struct schema_path *above, const char *key,
                                            size_t index);
/* Fails with "#/path/key: message". key may be NULL. */
enum omma_status ommai_schema_fail(struct schema_context *context, enum omma_status status, const struct schema_path *path,
                                   const char *key, const char *format, ...) __attribute__((format(printf, 5, 6)));
enum omma_status ommai_schema_fail_scratch(struct schema_context *context);
/* Puts "#/path/key: " before the message that is there. */
enum omma_status ommai_schema_prefix(struct schema_context *context, enum omma_status status, const struct schema_path *path,
                                     const char *key);
/* The schema that a "$ref" names. */
enum omma_status ommai_schema_resolve(struct schema_context *context, const struct schema_part *part, const char *reference,
                                      const json_t **schema, const struct schema_path **path);

/* ---- schema_keys.c ---- */

/* Checks a schema's keys and the kinds of their values. */
enum omma_status ommai_schema_check_keys(struct schema_context *context, const struct schema_part *part);
/* Whether a name is a known one with one letter added, left out, changed or swapped, or but for
 * case, hyphens and underscores. */
bool ommai_schema_is_slip(const char *name, const char *known);
/* The types that `type` allows, or all. */
unsigned ommai_schema_types(const struct schema_part *part);
/* Whether a known key constrains values. */
bool ommai_schema_is_constraint(const char *key);
/* The types that its keys speak of; 0: none in particular. */
unsigned ommai_schema_implied_types(const struct schema_part *part);
/* An integer key, or what it is without. */
int64_t ommai_schema_count(const struct schema_part *part, const char *key, int64_t otherwise);

/* ---- schema.c ---- */

/* Adds a schema with all that it refers to; booleans too. */
enum omma_status ommai_schema_add(struct schema_context *context, struct schema_set *set, const json_t *schema,
                                  const struct schema_path *path);
/* The schema itself, without what it refers to. */
enum omma_status ommai_schema_add_plain(struct schema_context *context, struct schema_set *set, const json_t *schema,
                                        const struct schema_path *path);
/* The rule of a set. */
enum omma_status ommai_schema_rule(struct schema_context *context, const struct schema_set *set, int32_t *rule);
unsigned ommai_schema_set_types(const struct schema_set *set);

/* ---- schema_values.c ---- */

/* Whether the set has const or enum; then *values are those that all of it allows. */
enum omma_status ommai_schema_values(struct schema_context *context, const struct schema_set *set, bool *found,
                                     const json_t ***values, size_t *n);
/* Whether a value is one that the set allows. */
enum omma_status ommai_schema_fits(struct schema_context *context, const struct schema_set *set, const json_t *value,
                                   bool *good);
/* Refuses values below `not` that no grammar here leaves out: numbers, arrays and objects, where
 * these types may be made. */
enum omma_status ommai_schema_check_not_values(struct schema_context *context, const struct schema_set *set, unsigned types);
/* Whether no text made for `made` can be valid for `valid`, as far as can be seen. */
enum omma_status ommai_schema_exclude(struct schema_context *context, const struct schema_set *made,
                                      const struct schema_set *valid, int depth, bool *exclude);

/* ---- schema_tags.c ---- */

/* Of the alternatives of a oneOf: those that exclude each other by a member, where they are made
 * for objects alone. */
struct schema_tags {
  bool *tagged; /* [alternatives], in the scratch; NULL: none are */
};
enum omma_status ommai_schema_tag(struct schema_context *context, const json_t *list, const struct schema_path *path,
                                  struct schema_tags *tags);

/* ---- schema_not.c ---- */

/* What a part's `not` is about: the member that is required, the values of const or enum, types.
 * OTHER: none of these, and the set has equivalent schemas; or there is none. *negated:
 * what must not hold. */
enum ommai_schema_negation { SCHEMA_NOT_OTHER, SCHEMA_NOT_MEMBER, SCHEMA_NOT_VALUES, SCHEMA_NOT_TYPES };
enum ommai_schema_negation ommai_schema_negation(const struct schema_part *part, const json_t **negated);
/* Whether it forbids member `name`. */
bool ommai_schema_forbids(const struct schema_part *part, const char *name);
/* The types that it leaves to be made. */
unsigned ommai_schema_types_left(const struct schema_part *part);
/* Adds what `not`, dependencies and `if` of a part come to. */
enum omma_status ommai_schema_add_conditions(struct schema_context *context, struct schema_set *set,
                                             const struct schema_part *part);
/* Adds that member `name` is there, or not. */
enum omma_status ommai_schema_demand(struct schema_context *context, struct schema_set *set, const char *name, bool there,
                                     const struct schema_path *path);

/* ---- schema_formats.c ---- */

struct schema_format {
  const char *name, *pattern; /* of the whole text */
  int64_t max;                /* characters, besides what the pattern says; 0: none */
};
/* *format: NULL where there is none, as names that JSON Schema does not have are annotations.
 * Refuses misspelt names, and "regex". */
enum omma_status ommai_schema_format(struct schema_context *context, const struct schema_part *part, const char *name,
                                     const struct schema_format **format);

/* ---- one type each; edges from `from` to `to` ---- */

enum omma_status ommai_schema_object(struct schema_context *context, const struct schema_set *set, int32_t from, int32_t to);
enum omma_status ommai_schema_array(struct schema_context *context, const struct schema_set *set, int32_t from, int32_t to);
enum omma_status ommai_schema_string(struct schema_context *context, const struct schema_set *set, int32_t from, int32_t to);
enum omma_status ommai_schema_number(struct schema_context *context, const struct schema_set *set, unsigned types, int32_t from,
                                     int32_t to);

/* What a set requires of strings, as an automaton; *any: nothing. */
enum omma_status ommai_schema_string_dfa(struct schema_context *context, const struct schema_set *set, bool *any,
                                         struct ommai_char_dfa *dfa);
/* What a set requires of numbers. *possible: there are any. */
struct ommai_number_range;
enum omma_status ommai_schema_range(struct schema_context *context, const struct schema_set *set, bool integer,
                                    struct ommai_number_range *range, bool *possible);
/* What a set requires of member `name`: *required, and the set of its value's schemas; *allowed:
 * such a member is made. */
enum omma_status ommai_schema_member(struct schema_context *context, const struct schema_set *set, const char *name,
                                     struct schema_set *value, bool *required, bool *allowed);
