/* A Jinja template as a tree. The subset: text, {{ }}, {# #}, set (also with a body, and of a
 * namespace's attribute), if, for (with if and else, break and continue), macro, filter,
 * generation; all expressions but the power operator. The rest of Jinja is refused with its
 * line. */
#pragma once

#include "jinja/jinja_lexer.h"

/* Tags inside tags and brackets inside brackets; each costs C stack. */
#define OMMAI_JINJA_MAX_NESTING 100
/* Different names in one template. */
#define OMMAI_JINJA_MAX_NAMES 1024

enum jinja_node_kind {
  /* statements */
  JINJA_NODE_TEXT,          /* text */
  JINJA_NODE_PRINT,         /* a */
  JINJA_NODE_SET,           /* names a = b */
  JINJA_NODE_CAPTURE,       /* names a = what the body b prints */
  JINJA_NODE_SET_ATTRIBUTE, /* a.text = b */
  JINJA_NODE_IF,            /* a ? body b : body c */
  JINJA_NODE_FOR,           /* names a in b, where d: body c, else body `other` */
  JINJA_NODE_MACRO,         /* name(parameters a): body b */
  JINJA_NODE_BREAK,
  JINJA_NODE_CONTINUE,
  /* expressions */
  JINJA_NODE_STRING,   /* text */
  JINJA_NODE_INTEGER,  /* integer */
  JINJA_NODE_FLOAT,    /* number */
  JINJA_NODE_CONSTANT, /* op: 't', 'f', 'n' */
  JINJA_NODE_BODY,     /* what the body b prints */
  /* name; of a parameter with its default a, of an argument with its value a */
  JINJA_NODE_NAME,
  JINJA_NODE_LIST,      /* members a */
  JINJA_NODE_DICT,      /* pairs a: keys a and values b */
  JINJA_NODE_ATTRIBUTE, /* a.text */
  JINJA_NODE_ITEM,      /* a[b] */
  JINJA_NODE_SLICE,     /* a[b:c:d], each of which may be NULL */
  JINJA_NODE_CALL,      /* a(arguments b) */
  JINJA_NODE_FILTER,    /* a | text(arguments b) */
  JINJA_NODE_TEST,      /* a is text(arguments b) */
  JINJA_NODE_ARGUMENT,  /* value a; name -1: by its place */
  JINJA_NODE_UNARY,     /* op a: '!' not, '-', '+' */
  JINJA_NODE_BINARY,    /* a op b: + - * / % ~, 'D' floor division, '&' and, '|' or */
  /* a, then links b: op and operand a; op: = ! < > 'l' <= 'g' >= 'i' in 'x' not in */
  JINJA_NODE_COMPARE,
  JINJA_NODE_CHOICE /* a ? b : c, which may be NULL */
};

struct jinja_node {
  enum jinja_node_kind kind;
  char op;
  int line;
  int32_t name;
  const char *text;
  size_t size;
  int64_t integer;
  double number;
  const void *target; /* FILTER and TEST: which, found when it is parsed */
  const struct jinja_node *a, *b, *c, *d, *other;
  const struct jinja_node *next; /* of a list: statements, members, arguments */
};

struct jinja_name {
  const char *text;
  size_t size;
  bool read;  /* its value is asked for somewhere */
  bool set;   /* the template gives it a value somewhere */
  bool asked; /* whether it is defined is asked somewhere */
  int called; /* the first line that calls it; 0: none */
};

struct jinja_tree {
  const struct jinja_node *body;
  struct jinja_name *names; /* [n_names]; the first is "loop" */
  size_t n_names;
};

/* Nodes and names lie in the scratch. Errors: FORMAT and UNSUPPORTED with the line, LIMIT,
 * MEMORY. */
enum omma_status ommai_jinja_parse(const char *text, size_t size, struct ommai_scratch *scratch, struct jinja_tree *tree,
                                   struct omma_error *error);
