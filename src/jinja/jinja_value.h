/* The values of a Jinja template that is being rendered, and what Python does with them: truth,
 * equality, order, text, JSON. */
#pragma once

#include <jansson.h>
#include <omma/status.h>
#include <stdarg.h>

#include "base/scratch.h"

struct jinja_node;
struct jinja_scope;

enum jinja_kind {
  JINJA_UNDEFINED,
  JINJA_NONE,
  JINJA_BOOLEAN,
  JINJA_WHOLE,
  JINJA_REAL,
  JINJA_TEXT_VALUE, /* text, size */
  JINJA_LIST,       /* a list or tuple: of `json`, else items, size */
  JINJA_DICT,       /* of `json`, else `dict` */
  JINJA_NAMESPACE,  /* `dict`, which can change */
  JINJA_LOOP,       /* `loop` of a for */
  JINJA_MACRO,
  JINJA_FUNCTION, /* one of the environment's, or a method of *self */
};

/* Texts, items and dicts lie in the scratch, the template or the JSON; nothing is ever changed but
 * namespaces. Texts are UTF-8, but for the bytes that the caller put into them. */
struct jinja_value {
  enum jinja_kind kind;
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

/* Keys are texts. */
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
struct jinja_value ommai_jinja_from_json(const json_t *json);
/* [n] items in the scratch; NULL: it failed. */
struct jinja_value *ommai_jinja_take_items(struct jinja_context *context, size_t n);
struct jinja_value ommai_jinja_list(const struct jinja_value *items, size_t n);

/* Members of a LIST. */
size_t ommai_jinja_list_size(const struct jinja_value *list);
struct jinja_value ommai_jinja_list_item(const struct jinja_value *list, size_t index);
/* The value of a DICT's or NAMESPACE's key. False where there is none. */
bool ommai_jinja_dict_get(const struct jinja_value *dict, const char *key, size_t size, struct jinja_value *value);
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

/* str(value), as a TEXT_VALUE. Lists and dicts fail: a template that prints them means tojson. */
struct jinja_value ommai_jinja_to_text(struct jinja_context *context, const struct jinja_value *value);
/* json.dumps(value, ensure_ascii=ascii, indent=indent), as a TEXT_VALUE; indent -1: None. */
struct jinja_value ommai_jinja_to_json(struct jinja_context *context, const struct jinja_value *value, int indent, bool ascii);

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
