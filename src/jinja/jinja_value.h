/* The values of a Jinja template that is being rendered, and what Python does with them: truth,
 * equality, order, text, JSON. */
#pragma once

#include <jansson.h>
#include <omma/status.h>
#include <stdarg.h>

#include "base/scratch.h"

/* Of a call. */
#define OMMAI_JINJA_MAX_ARGUMENTS 8

struct jinja_node;
struct jinja_scope;

enum jinja_kind {
  JINJA_UNDEFINED,
  JINJA_NONE,
  JINJA_BOOLEAN,
  JINJA_WHOLE,
  JINJA_REAL,
  JINJA_TEXT_VALUE, /* text, size */
  JINJA_LIST,       /* of `json`, else items, size; `form` says as what it prints */
  JINJA_DICT,       /* of `json`, else `dict` */
  JINJA_NAMESPACE,  /* `dict`, which can change */
  JINJA_LOOP,       /* `loop` of a for */
  JINJA_MACRO,
  JINJA_FUNCTION, /* one of the environment's, or a method of *self */
};

/* What Python has for a list: a tuple; or a view or generator, whose text says nothing. */
enum jinja_list_form { JINJA_AS_LIST, JINJA_AS_TUPLE, JINJA_AS_VIEW };

/* Texts, items and dicts lie in the scratch, the template or the JSON; nothing is ever changed but
 * namespaces. Texts are UTF-8, but for the bytes that the caller put into them. */
struct jinja_value {
  enum jinja_kind kind;
  enum jinja_list_form form; /* LIST */
  bool safe;                 /* TEXT_VALUE: texts that are added to it are escaped for HTML */
  size_t size;
  union {
    bool truth;
    int64_t whole;
    double real;
    const char *text;
    const struct jinja_value *items;
    struct jinja_dict *dict;
    const struct jinja_loop *loop;
    const struct jinja_macro *macro;
    const struct jinja_function *function;
  };
  const json_t *json;             /* LIST, DICT; a WHOLE that ommai_json_large knows */
  const struct jinja_value *self; /* FUNCTION */
};

struct jinja_pair {
  struct jinja_value key, value;
};

/* Keys are texts or numbers. */
struct jinja_dict {
  struct jinja_pair *pairs; /* [n] */
  size_t n, capacity;
};

struct jinja_loop {
  struct jinja_value list;
  size_t index; /* from 0 */
};

struct jinja_macro {
  const struct jinja_node *node;
  struct jinja_scope *scope; /* that it was made in */
};

/* One rendering. The first failure is kept; then values do not count any more. */
struct jinja_context {
  struct ommai_scratch *scratch;
  int line; /* of the node that is evaluated */
  bool failed;
  enum omma_status status;
  struct omma_error *error;
};

/* Fails with "line N: ...". Gives UNDEFINED, so that `return ommai_jinja_fail(...)` is the usual
 * form. */
struct jinja_value ommai_jinja_fail(struct jinja_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Where the scratch has failed. */
struct jinja_value ommai_jinja_fail_scratch(struct jinja_context *context);

struct jinja_value ommai_jinja_none(void);
struct jinja_value ommai_jinja_boolean(bool truth);
struct jinja_value ommai_jinja_whole(int64_t whole);
struct jinja_value ommai_jinja_real(double real);
/* Not copied. */
struct jinja_value ommai_jinja_text(const char *text, size_t size);
/* A text with bytes of its own, in the scratch. */
struct jinja_value ommai_jinja_copy(struct jinja_context *context, const struct jinja_value *text);
struct jinja_value ommai_jinja_from_json(const json_t *json);
/* [n] items in the scratch; NULL: it failed. */
struct jinja_value *ommai_jinja_take_items(struct jinja_context *context, size_t n);
struct jinja_value ommai_jinja_list(const struct jinja_value *items, size_t n);
struct jinja_value ommai_jinja_tuple(const struct jinja_value *items, size_t n);
/* A LIST as a VIEW. */
struct jinja_value ommai_jinja_view(struct jinja_value list);

/* Members of a LIST. */
size_t ommai_jinja_list_size(const struct jinja_value *list);
struct jinja_value ommai_jinja_list_item(const struct jinja_value *list, size_t index);
/* The value of a DICT's or NAMESPACE's key. False where there is none. */
bool ommai_jinja_dict_get(const struct jinja_value *dict, const char *key, size_t size, struct jinja_value *value);
/* The same of any key. */
bool ommai_jinja_dict_find(struct jinja_context *context, const struct jinja_value *dict, const struct jinja_value *key,
                           struct jinja_value *value);
void ommai_jinja_dict_set(struct jinja_context *context, struct jinja_dict *dict, struct jinja_value key,
                          struct jinja_value value);
size_t ommai_jinja_dict_size(const struct jinja_value *dict);
/* Its pairs, in order, as [n] in the scratch; NULL: it failed. */
const struct jinja_pair *ommai_jinja_dict_pairs(struct jinja_context *context, const struct jinja_value *dict, size_t *n);

bool ommai_jinja_truth(const struct jinja_value *value);
bool ommai_jinja_is_number(const struct jinja_value *value);
/* Of a number. */
double ommai_jinja_to_real(const struct jinja_value *value);
int64_t ommai_jinja_to_whole(const struct jinja_value *value);
bool ommai_jinja_equal(struct jinja_context *context, const struct jinja_value *a, const struct jinja_value *b);
/* -1, 0, 1; fails for what has no order. */
int ommai_jinja_compare(struct jinja_context *context, const struct jinja_value *a, const struct jinja_value *b);
/* b in a. */
bool ommai_jinja_contains(struct jinja_context *context, const struct jinja_value *a, const struct jinja_value *b);
/* What a loop goes through: a list as it is, keys of a dict, characters of a text, nothing of what
 * is undefined. */
struct jinja_value ommai_jinja_iterate(struct jinja_context *context, const struct jinja_value *value);

/* str(value), as a TEXT_VALUE. Views and functions fail. */
struct jinja_value ommai_jinja_to_text(struct jinja_context *context, const struct jinja_value *value);
/* How a value is written. */
struct jinja_format {
  bool python;                           /* as Python's repr, else as JSON */
  bool ascii;                            /* JSON: ensure_ascii */
  bool sorted;                           /* JSON: sort_keys */
  int indent;                            /* JSON: -1 for None */
  struct jinja_value between, after_key; /* JSON: separators, of TEXT_VALUE */
};
struct jinja_value ommai_jinja_write(struct jinja_context *context, const struct jinja_value *value,
                                     const struct jinja_format *format);
/* The value of a JSON text. */
struct jinja_value ommai_jinja_read_json(struct jinja_context *context, const struct jinja_value *text);
/* Sorts items by their keys, equal ones stay in order; `falling`: the other way round. */
void ommai_jinja_sort(struct jinja_context *context, struct jinja_value *items, struct jinja_value *keys, size_t n,
                      bool falling);

/* A number in the form that Python's repr gives it; returns its size. */
enum { JINJA_REAL_SIZE = 40 };
size_t ommai_jinja_write_real(double value, char out[JINJA_REAL_SIZE]);
/* Whatever the process's locale. */
double ommai_jinja_read_float(const char *text);

/* A growing text in the scratch. */
struct jinja_buffer {
  char *data;
  size_t size, capacity;
};

bool ommai_jinja_append(struct jinja_context *context, struct jinja_buffer *buffer, const char *text, size_t size);
