/* What a template can call: filters, tests, methods of texts and dicts, the environment's
 * functions. */
#pragma once

#include "jinja/jinja_value.h"

struct jinja_argument {
  struct jinja_value value;
  const char *name; /* NULL: by its place */
  size_t name_size;
};

struct jinja_arguments {
  struct jinja_argument items[OMMAI_JINJA_MAX_ARGUMENTS];
  int n;
};

struct jinja_function {
  const char *name;
  /* `self`: what is filtered or tested, or whose method it is; NULL of the environment's. A test
   * gives a BOOLEAN. */
  struct jinja_value (*run)(struct jinja_context *context, const struct jinja_value *self,
                            const struct jinja_arguments *arguments);
  int max_arguments;
};

/* NULL: not supported. */
const struct jinja_function *ommai_jinja_find_filter(const char *name, size_t size);
const struct jinja_function *ommai_jinja_find_test(const char *name, size_t size);
const struct jinja_function *ommai_jinja_find_global(const char *name, size_t size);
const struct jinja_function *ommai_jinja_find_method(enum jinja_kind kind, const char *name, size_t size);
/* In a list that ends in a NULL name. */
const struct jinja_function *ommai_jinja_find(const struct jinja_function *list, const char *name, size_t size);

/* Calls it, if it takes that many arguments. */
struct jinja_value ommai_jinja_run(struct jinja_context *context, const struct jinja_function *function,
                                   const struct jinja_value *self, const struct jinja_arguments *arguments);

/* The argument at this place among those without names, or with this name (NULL: it has none);
 * NULL: not given. */
const struct jinja_value *ommai_jinja_argument(const struct jinja_arguments *arguments, int place, const char *name);
/* An integer as argument; `standard` where it is not given. */
int64_t ommai_jinja_whole_argument(struct jinja_context *context, const struct jinja_arguments *arguments, int place,
                                   const char *name, int64_t standard);

/* value.name, value[key], value[from:to:step]; UNDEFINED where there is none, a failure on what is
 * undefined itself. */
struct jinja_value ommai_jinja_attribute(struct jinja_context *context, const struct jinja_value *value, const char *name,
                                         size_t size);
struct jinja_value ommai_jinja_item(struct jinja_context *context, const struct jinja_value *value,
                                    const struct jinja_value *key);
struct jinja_value ommai_jinja_slice(struct jinja_context *context, const struct jinja_value *value,
                                     const struct jinja_value bounds[3]);

/* Python's str.strip and its like: of these characters, or of blanks where `characters` is NULL. */
struct jinja_value ommai_jinja_strip(struct jinja_context *context, const struct jinja_value *text,
                                     const struct jinja_value *characters, bool left, bool right);
struct jinja_value ommai_jinja_replace(struct jinja_context *context, const struct jinja_value *text,
                                       const struct jinja_value *from, const struct jinja_value *to, int64_t max_count);
/* str.upper, lower, title, capitalize ('u', 'l', 't', 'c') and jinja2's filter title ('w') of
 * ASCII; other letters fail. */
struct jinja_value ommai_jinja_change_case(struct jinja_context *context, const struct jinja_value *text, char how);
struct jinja_value ommai_jinja_join(struct jinja_context *context, const struct jinja_value *list,
                                    const struct jinja_value *between);
/* A dict's items, keys or values ('i', 'k', 'v') as a list. */
struct jinja_value ommai_jinja_dict_list(struct jinja_context *context, const struct jinja_value *dict, char what);
