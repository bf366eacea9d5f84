#include "jinja/jinja_parser.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "jinja/jinja_calls.h"

/* The first error ends the parsing: from then on all functions give NULL, and every token is
 * END. */
struct parser {
  struct ommai_scratch *scratch;
  const struct jinja_token *token; /* the next one */
  struct jinja_tree *tree;
  int depth, loops; /* nesting; of loops in the macro or template */
  enum omma_status status;
  struct omma_error *error;
};

static const struct jinja_token end_token = {.kind = JINJA_END, .text = ""};

/* ---- tokens ---- */

static struct jinja_node *refuse(struct parser *parser, enum omma_status status, const char *what) {
  if (parser->status != OMMA_OK) return NULL;
  const struct jinja_token *token = parser->token;
  /* others may hold anything */
  bool word = token->kind == JINJA_NAME || token->kind == JINJA_OPERATOR;
  parser->status = ommai_fail(parser->error, status, "line %d: %s%s%.*s", token->line, what, word ? " at " : "",
                              !word              ? 0
                              : token->size > 40 ? 40
                                                 : (int)token->size,
                              token->text);
  parser->token = &end_token;
  return NULL;
}

static struct jinja_node *unexpected(struct parser *parser) {
  return refuse(parser, OMMA_ERROR_FORMAT, "unexpected tag or word");
}

static bool is_text(const struct jinja_token *token, enum jinja_token_kind kind, const char *text) {
  return token->kind == kind && token->size == strlen(text) && memcmp(token->text, text, token->size) == 0;
}

static bool is_word(const struct parser *parser, const char *word) { return is_text(parser->token, JINJA_NAME, word); }
static bool is_mark(const struct parser *parser, const char *mark) { return is_text(parser->token, JINJA_OPERATOR, mark); }

static bool take_word(struct parser *parser, const char *word) {
  bool found = is_word(parser, word);
  if (found) parser->token++;
  return found;
}

static bool take_mark(struct parser *parser, const char *mark) {
  bool found = is_mark(parser, mark);
  if (found) parser->token++;
  return found;
}

static void expect_mark(struct parser *parser, const char *mark) {
  if (!take_mark(parser, mark)) unexpected(parser);
}

static void expect_kind(struct parser *parser, enum jinja_token_kind kind) {
  if (parser->token->kind == kind && parser->token != &end_token) {
    parser->token++;
  } else {
    unexpected(parser);
  }
}

/* ---- nodes ---- */

static struct jinja_node *fail_scratch(struct parser *parser) {
  if (parser->status == OMMA_OK) parser->status = ommai_scratch_fail(parser->scratch, parser->error);
  parser->token = &end_token;
  return NULL;
}

static struct jinja_node *add_node(struct parser *parser, enum jinja_node_kind kind) {
  struct jinja_node *node = parser->status == OMMA_OK ? ommai_scratch_take(parser->scratch, 1, sizeof *node) : NULL;
  if (!node) return fail_scratch(parser);
  node->kind = kind;
  node->line = parser->token->line;
  node->name = -1;
  return node;
}

/* A node with a token's text, which is taken. */
static struct jinja_node *add_text_node(struct parser *parser, enum jinja_node_kind kind) {
  struct jinja_node *node = add_node(parser, kind);
  if (!node) return NULL;
  node->text = parser->token->text;
  node->size = parser->token->size;
  parser->token++;
  return node;
}

static struct jinja_node *add_pair(struct parser *parser, enum jinja_node_kind kind, char op, const struct jinja_node *a,
                                   const struct jinja_node *b) {
  struct jinja_node *node = add_node(parser, kind);
  if (!node) return NULL;
  node->op = op;
  node->a = a;
  node->b = b;
  return node;
}

static int32_t intern(struct parser *parser, const char *text, size_t size) {
  struct jinja_tree *tree = parser->tree;
  for (size_t i = 0; i < tree->n_names; i++) {
    if (tree->names[i].size == size && memcmp(tree->names[i].text, text, size) == 0) return (int32_t)i;
  }
  if (tree->n_names == OMMAI_JINJA_MAX_NAMES) {
    refuse(parser, OMMA_ERROR_LIMIT, "too many different names");
    return 0;
  }
  tree->names[tree->n_names] = (struct jinja_name){.text = text, .size = size};
  return (int32_t)tree->n_names++;
}

/* The next token, a name, as a node. */
static struct jinja_node *take_name(struct parser *parser, enum jinja_node_kind kind) {
  if (parser->token->kind != JINJA_NAME) return unexpected(parser);
  struct jinja_node *node = add_text_node(parser, kind);
  if (node) node->name = intern(parser, node->text, node->size);
  return node;
}

static bool enter(struct parser *parser) {
  if (++parser->depth <= OMMAI_JINJA_MAX_NESTING) return true;
  refuse(parser, OMMA_ERROR_LIMIT, "nested too deep");
  return false;
}

/* ---- expressions ---- */

static struct jinja_node *parse_expression(struct parser *parser);
static struct jinja_node *parse_unary(struct parser *parser, bool with_filter);

/* Members up to the closing mark, which is taken. */
static const struct jinja_node *parse_members(struct parser *parser, const char *close) {
  const struct jinja_node *first = NULL, **link = &first;
  while (parser->status == OMMA_OK && !take_mark(parser, close)) {
    if (link != &first) {
      expect_mark(parser, ",");
      if (take_mark(parser, close)) break;
    }
    struct jinja_node *member = add_pair(parser, JINJA_NODE_ARGUMENT, 0, parse_expression(parser), NULL);
    if (!member) return NULL;
    *link = member;
    link = &member->next;
  }
  return first;
}

static struct jinja_node *parse_dict(struct parser *parser) {
  struct jinja_node *dict = add_node(parser, JINJA_NODE_DICT);
  const struct jinja_node **link = dict ? &dict->a : NULL;
  bool first = true;
  while (parser->status == OMMA_OK && !take_mark(parser, "}")) {
    if (!first) {
      expect_mark(parser, ",");
      if (take_mark(parser, "}")) break;
    }
    first = false;
    struct jinja_node *key = parse_expression(parser);
    expect_mark(parser, ":");
    struct jinja_node *pair = add_pair(parser, JINJA_NODE_ARGUMENT, 0, key, parse_expression(parser));
    if (!pair || !link) return NULL;
    *link = pair;
    link = &pair->next;
  }
  return dict;
}

/* After the bracket: an expression, or a tuple. */
static struct jinja_node *parse_parentheses(struct parser *parser) {
  if (take_mark(parser, ")")) return add_pair(parser, JINJA_NODE_LIST, '(', NULL, NULL);
  struct jinja_node *first = parse_expression(parser);
  if (take_mark(parser, ")")) return first;
  struct jinja_node *list = add_pair(parser, JINJA_NODE_LIST, '(', NULL, NULL),
                    *member = add_pair(parser, JINJA_NODE_ARGUMENT, 0, first, NULL);
  expect_mark(parser, ",");
  if (!list || !member) return NULL;
  list->a = member;
  member->next = parse_members(parser, ")");
  return list;
}

/* Strings that stand side by side are one. */
static struct jinja_node *parse_string(struct parser *parser) {
  struct jinja_node *node = add_text_node(parser, JINJA_NODE_STRING);
  while (node && parser->token->kind == JINJA_STRING) {
    char *joined = ommai_scratch_take(parser->scratch, node->size + parser->token->size, 1);
    if (!joined) return fail_scratch(parser);
    memcpy(joined, node->text, node->size);
    memcpy(joined + node->size, parser->token->text, parser->token->size);
    node->text = joined;
    node->size += parser->token->size;
    parser->token++;
  }
  return node;
}

static struct jinja_node *parse_number(struct parser *parser) {
  bool whole = parser->token->kind == JINJA_INTEGER;
  struct jinja_node *node = add_node(parser, whole ? JINJA_NODE_INTEGER : JINJA_NODE_FLOAT);
  char text[64];
  if (!node) return NULL;
  if (parser->token->size >= sizeof text || (whole && parser->token->size > 18)) {
    return refuse(parser, OMMA_ERROR_UNSUPPORTED, "a number has too many digits");
  }
  memcpy(text, parser->token->text, parser->token->size);
  text[parser->token->size] = '\0';
  if (whole) {
    node->integer = strtoll(text, NULL, 10);
  } else {
    node->number = ommai_jinja_read_float(text);
  }
  parser->token++;
  return node;
}

static struct jinja_node *parse_name(struct parser *parser) {
  static const struct {
    const char *word;
    char op;
  } constants[] = {{"true", 't'}, {"True", 't'}, {"false", 'f'}, {"False", 'f'}, {"none", 'n'}, {"None", 'n'}};
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
    if (take_word(parser, constants[i].word)) return add_pair(parser, JINJA_NODE_CONSTANT, constants[i].op, NULL, NULL);
  }
  struct jinja_node *node = take_name(parser, JINJA_NODE_NAME);
  if (node) parser->tree->names[node->name].read = true;
  return node;
}

static struct jinja_node *parse_primary(struct parser *parser) {
  switch (parser->token->kind) {
    case JINJA_NAME: return parse_name(parser);
    case JINJA_STRING: return parse_string(parser);
    case JINJA_INTEGER:
    case JINJA_FLOAT: return parse_number(parser);
    default: break;
  }
  if (take_mark(parser, "(")) return parse_parentheses(parser);
  if (take_mark(parser, "[")) return add_pair(parser, JINJA_NODE_LIST, 0, parse_members(parser, "]"), NULL);
  if (take_mark(parser, "{")) return parse_dict(parser);
  return unexpected(parser);
}

/* Arguments after the opening bracket: by place, then by name. */
static const struct jinja_node *parse_arguments(struct parser *parser) {
  const struct jinja_node *first = NULL, **link = &first;
  int n = 0;
  while (parser->status == OMMA_OK && !take_mark(parser, ")")) {
    if (n++) {
      expect_mark(parser, ",");
      if (take_mark(parser, ")")) break;
    }
    bool named = parser->token->kind == JINJA_NAME && is_text(parser->token + 1, JINJA_OPERATOR, "=");
    struct jinja_node *argument = named ? take_name(parser, JINJA_NODE_ARGUMENT) : add_node(parser, JINJA_NODE_ARGUMENT);
    if (named) parser->token++;
    if (!argument) return NULL;
    argument->a = parse_expression(parser);
    *link = argument;
    link = &argument->next;
    if (n > OMMAI_JINJA_MAX_ARGUMENTS) refuse(parser, OMMA_ERROR_LIMIT, "too many arguments");
  }
  return first;
}

/* a[b], a[b:c:d]. */
static struct jinja_node *parse_subscript(struct parser *parser, struct jinja_node *of) {
  struct jinja_node *part[3] = {NULL, NULL, NULL};
  int n = 0;
  bool slice = false;
  while (parser->status == OMMA_OK && !take_mark(parser, "]")) {
    if (take_mark(parser, ":")) {
      slice = true;
      if (++n > 2) return unexpected(parser);
    } else if (part[n]) {
      return unexpected(parser);
    } else {
      part[n] = parse_expression(parser);
    }
  }
  if (!slice && !part[0]) return unexpected(parser);
  struct jinja_node *node = add_pair(parser, slice ? JINJA_NODE_SLICE : JINJA_NODE_ITEM, 0, of, part[0]);
  if (!node) return NULL;
  node->c = part[1];
  node->d = part[2];
  return node;
}

static struct jinja_node *parse_call(struct parser *parser, struct jinja_node *of) {
  struct jinja_name *name = of->kind == JINJA_NODE_NAME ? &parser->tree->names[of->name] : NULL;
  if (name && !name->called) name->called = of->line;
  return add_pair(parser, JINJA_NODE_CALL, 0, of, parse_arguments(parser));
}

static struct jinja_node *parse_postfix(struct parser *parser, struct jinja_node *node) {
  while (node && parser->status == OMMA_OK) {
    if (take_mark(parser, ".")) {
      if (parser->token->kind != JINJA_NAME) return unexpected(parser);
      struct jinja_node *attribute = add_text_node(parser, JINJA_NODE_ATTRIBUTE);
      if (attribute) attribute->a = node;
      node = attribute;
    } else if (take_mark(parser, "[")) {
      node = parse_subscript(parser, node);
    } else if (take_mark(parser, "(")) {
      node = parse_call(parser, node);
    } else {
      break;
    }
  }
  return node;
}

/* A node with the function that `find` has for the next name, a filter or a test of `of`. */
static struct jinja_node *parse_applied(struct parser *parser, enum jinja_node_kind kind, struct jinja_node *of,
                                        const struct jinja_function *(*find)(const char *name, size_t size),
                                        const char *unknown) {
  if (parser->token->kind != JINJA_NAME) return unexpected(parser);
  const struct jinja_function *target = find(parser->token->text, parser->token->size);
  if (!target) return refuse(parser, OMMA_ERROR_UNSUPPORTED, unknown);
  struct jinja_node *node = add_text_node(parser, kind);
  if (!node) return NULL;
  node->target = target;
  node->a = of;
  return node;
}

static struct jinja_node *parse_filter(struct parser *parser, struct jinja_node *of) {
  struct jinja_node *node =
      parse_applied(parser, JINJA_NODE_FILTER, of, ommai_jinja_find_filter, "this filter is not supported");
  if (node && take_mark(parser, "(")) node->b = parse_arguments(parser);
  return node;
}

/* Whether a test's argument stands here without brackets, as in `is divisibleby 3`. */
static bool begins_argument(const struct parser *parser) {
  static const char *const words[] = {"else", "or", "and", "is", "if"};
  enum jinja_token_kind kind = parser->token->kind;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (is_word(parser, words[i])) return false;
  }
  return kind == JINJA_NAME || kind == JINJA_STRING || kind == JINJA_INTEGER || kind == JINJA_FLOAT || is_mark(parser, "[") ||
         is_mark(parser, "{");
}

/* A template that asks first may call what there is not. */
static void note_question(const struct parser *parser, const struct jinja_node *test) {
  static const char *const words[] = {"defined", "undefined", "callable"};
  if (test->a->kind != JINJA_NODE_NAME) return;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (test->size == strlen(words[i]) && !memcmp(test->text, words[i], test->size)) {
      parser->tree->names[test->a->name].asked = true;
    }
  }
}

static struct jinja_node *parse_test(struct parser *parser, struct jinja_node *of) {
  bool negated = take_word(parser, "not");
  struct jinja_node *node = parse_applied(parser, JINJA_NODE_TEST, of, ommai_jinja_find_test, "this test is not supported");
  if (!node) return NULL;
  note_question(parser, node);
  if (take_mark(parser, "(")) {
    node->b = parse_arguments(parser);
  } else if (begins_argument(parser)) {
    struct jinja_node *argument = add_node(parser, JINJA_NODE_ARGUMENT);
    if (argument) argument->a = parse_postfix(parser, parse_primary(parser));
    node->b = argument;
  }
  return negated ? add_pair(parser, JINJA_NODE_UNARY, '!', node, NULL) : node;
}

static struct jinja_node *parse_unary(struct parser *parser, bool with_filter) {
  struct jinja_node *node;
  if (!enter(parser)) return NULL;
  if (is_mark(parser, "-") || is_mark(parser, "+")) {
    char op = *parser->token++->text;
    node = add_pair(parser, JINJA_NODE_UNARY, op, parse_unary(parser, false), NULL);
  } else {
    node = parse_postfix(parser, parse_primary(parser));
  }
  while (with_filter && node && parser->status == OMMA_OK) {
    if (take_mark(parser, "|")) {
      node = parse_filter(parser, node);
    } else if (take_word(parser, "is")) {
      node = parse_test(parser, node);
    } else if (take_mark(parser, "(")) {
      node = parse_call(parser, node);
    } else {
      break;
    }
  }
  if (is_mark(parser, "**")) return refuse(parser, OMMA_ERROR_UNSUPPORTED, "powers are not supported");
  parser->depth--;
  return node;
}

/* Operators of one rank, from the left. */
struct rank {
  const char *marks[4];
  char ops[4];
};

static struct jinja_node *parse_rank(struct parser *parser, int level) {
  static const struct rank ranks[] = {{{"+", "-"}, {'+', '-'}}, {{"~"}, {'~'}}, {{"*", "//", "/", "%"}, {'*', 'D', '/', '%'}}};
  if (level == (int)(sizeof ranks / sizeof *ranks)) return parse_unary(parser, true);
  struct jinja_node *node = parse_rank(parser, level + 1);
  for (bool found = true; found && parser->status == OMMA_OK;) {
    found = false;
    for (int i = 0; i < 4 && ranks[level].marks[i] && !found; i++) {
      found = take_mark(parser, ranks[level].marks[i]);
      if (found) node = add_pair(parser, JINJA_NODE_BINARY, ranks[level].ops[i], node, parse_rank(parser, level + 1));
    }
  }
  return node;
}

/* The operator of a comparison, taken; NUL where there is none. */
static char take_comparison(struct parser *parser) {
  static const struct {
    const char *mark;
    char op;
  } marks[] = {{"==", '='}, {"!=", '!'}, {"<=", 'l'}, {">=", 'g'}, {"<", '<'}, {">", '>'}};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    if (take_mark(parser, marks[i].mark)) return marks[i].op;
  }
  if (take_word(parser, "in")) return 'i';
  if (!is_word(parser, "not") || !is_text(parser->token + 1, JINJA_NAME, "in")) return '\0';
  parser->token += 2;
  return 'x';
}

static struct jinja_node *parse_comparison(struct parser *parser) {
  struct jinja_node *first = parse_rank(parser, 0), *node = NULL;
  const struct jinja_node **link = NULL;
  for (char op; first && (op = take_comparison(parser));) {
    struct jinja_node *part = add_pair(parser, JINJA_NODE_ARGUMENT, op, parse_rank(parser, 0), NULL);
    if (!part) return NULL;
    if (!node) {
      node = add_pair(parser, JINJA_NODE_COMPARE, 0, first, NULL);
      if (!node) return NULL;
      link = &node->b;
    }
    *link = part;
    link = &part->next;
  }
  return node ? node : first;
}

static struct jinja_node *parse_not(struct parser *parser) {
  if (!take_word(parser, "not")) return parse_comparison(parser);
  if (!enter(parser)) return NULL;
  struct jinja_node *node = add_pair(parser, JINJA_NODE_UNARY, '!', parse_not(parser), NULL);
  parser->depth--;
  return node;
}

static struct jinja_node *parse_and(struct parser *parser) {
  struct jinja_node *node = parse_not(parser);
  while (take_word(parser, "and")) node = add_pair(parser, JINJA_NODE_BINARY, '&', node, parse_not(parser));
  return node;
}

static struct jinja_node *parse_or(struct parser *parser) {
  struct jinja_node *node = parse_and(parser);
  while (take_word(parser, "or")) node = add_pair(parser, JINJA_NODE_BINARY, '|', node, parse_and(parser));
  return node;
}

static struct jinja_node *parse_expression(struct parser *parser) {
  if (!enter(parser)) return NULL;
  struct jinja_node *node = parse_or(parser);
  while (node && take_word(parser, "if")) {
    struct jinja_node *choice = add_pair(parser, JINJA_NODE_CHOICE, 0, parse_or(parser), node);
    if (choice && take_word(parser, "else")) choice->c = parse_expression(parser);
    node = choice;
  }
  parser->depth--;
  return node;
}

/* ---- statements ---- */

static const struct jinja_node *parse_body(struct parser *parser);

static bool at_block(const struct parser *parser, const char *word) {
  return parser->token->kind == JINJA_BLOCK_BEGIN && is_text(parser->token + 1, JINJA_NAME, word);
}

static bool take_block(struct parser *parser, const char *word) {
  bool found = at_block(parser, word);
  if (found) parser->token += 2;
  return found;
}

/* The end of a block, {% endfor %} of `for`; the block begins in `line`. */
static void expect_end(struct parser *parser, const char *word, int line) {
  char end[32];
  snprintf(end, sizeof end, "end%s", word);
  if (take_block(parser, end)) {
    expect_kind(parser, JINJA_BLOCK_END);
  } else if (at_block(parser, "else") || at_block(parser, "elif")) {
    unexpected(parser);
  } else if (parser->status == OMMA_OK) {
    parser->status = ommai_fail(parser->error, OMMA_ERROR_FORMAT, "line %d: {%% %s %%} is not closed: {%% %s %%} is missing",
                                line, word, end);
    parser->token = &end_token;
  }
}

/* One name, or several with commas; they get values. */
static struct jinja_node *parse_targets(struct parser *parser) {
  struct jinja_node *first = NULL, *last = NULL;
  bool bracket = take_mark(parser, "(");
  do {
    struct jinja_node *name = take_name(parser, JINJA_NODE_NAME);
    if (!name) return NULL;
    parser->tree->names[name->name].set = true;
    if (last) last->next = name;
    if (!first) first = name;
    last = name;
  } while (take_mark(parser, ","));
  if (bracket) expect_mark(parser, ")");
  return first;
}

static struct jinja_node *parse_set(struct parser *parser, int line) {
  if (is_text(parser->token + 1, JINJA_OPERATOR, ".")) {
    struct jinja_node *of = take_name(parser, JINJA_NODE_NAME);
    parser->token++;
    if (!of || parser->token->kind != JINJA_NAME) return unexpected(parser);
    struct jinja_node *node = add_text_node(parser, JINJA_NODE_SET_ATTRIBUTE);
    expect_mark(parser, "=");
    if (!node) return NULL;
    node->a = of;
    node->b = parse_expression(parser);
    expect_kind(parser, JINJA_BLOCK_END);
    return node;
  }
  struct jinja_node *node = add_pair(parser, JINJA_NODE_SET, 0, parse_targets(parser), NULL);
  if (!node) return NULL;
  bool has_value = take_mark(parser, "=");
  if (has_value) node->b = parse_expression(parser);
  expect_kind(parser, JINJA_BLOCK_END);
  if (has_value) return node;
  node->kind = JINJA_NODE_CAPTURE;
  node->b = parse_body(parser);
  expect_end(parser, "set", line);
  return node;
}

/* After `if` or `elif`; `line` is that of the `if`. */
static struct jinja_node *parse_if(struct parser *parser, int line) {
  if (!enter(parser)) return NULL;
  struct jinja_node *node = add_pair(parser, JINJA_NODE_IF, 0, parse_expression(parser), NULL);
  if (!node) return NULL;
  expect_kind(parser, JINJA_BLOCK_END);
  node->b = parse_body(parser);
  if (take_block(parser, "elif")) {
    node->c = parse_if(parser, line);
  } else {
    if (take_block(parser, "else")) {
      expect_kind(parser, JINJA_BLOCK_END);
      node->c = parse_body(parser);
    }
    expect_end(parser, "if", line);
  }
  parser->depth--;
  return node;
}

static struct jinja_node *parse_for(struct parser *parser, int line) {
  struct jinja_node *node = add_pair(parser, JINJA_NODE_FOR, 0, parse_targets(parser), NULL);
  if (!node) return NULL;
  if (!take_word(parser, "in")) return unexpected(parser);
  node->b = parse_or(parser);
  if (take_word(parser, "if")) node->d = parse_expression(parser);
  if (is_word(parser, "recursive")) return refuse(parser, OMMA_ERROR_UNSUPPORTED, "recursive loops are not supported");
  expect_kind(parser, JINJA_BLOCK_END);
  parser->loops++;
  node->c = parse_body(parser);
  parser->loops--;
  if (take_block(parser, "else")) {
    expect_kind(parser, JINJA_BLOCK_END);
    node->other = parse_body(parser);
  }
  expect_end(parser, "for", line);
  return node;
}

static struct jinja_node *parse_macro(struct parser *parser, int line) {
  struct jinja_node *macro = take_name(parser, JINJA_NODE_MACRO);
  const struct jinja_node **link = macro ? &macro->a : NULL;
  int loops = parser->loops, n = 0;
  if (!macro) return NULL;
  parser->tree->names[macro->name].set = true;
  expect_mark(parser, "(");
  while (parser->status == OMMA_OK && !take_mark(parser, ")")) {
    if (n++) expect_mark(parser, ",");
    struct jinja_node *name = take_name(parser, JINJA_NODE_NAME);
    if (!name) return NULL;
    parser->tree->names[name->name].set = true;
    if (take_mark(parser, "=")) name->a = parse_expression(parser);
    *link = name;
    link = &name->next;
  }
  if (n > OMMAI_JINJA_MAX_ARGUMENTS) return refuse(parser, OMMA_ERROR_LIMIT, "too many parameters");
  expect_kind(parser, JINJA_BLOCK_END);
  parser->loops = 0;
  macro->b = parse_body(parser);
  parser->loops = loops;
  expect_end(parser, "macro", line);
  return macro;
}

static struct jinja_node *parse_jump(struct parser *parser, enum jinja_node_kind kind) {
  struct jinja_node *node = parser->loops ? add_node(parser, kind) : unexpected(parser);
  expect_kind(parser, JINJA_BLOCK_END);
  return node;
}

/* `filter`; `generation`, by which transformers marks answers. Neither can be left by a jump. */
static struct jinja_node *parse_printed(struct parser *parser, const char *word, bool filtered, int line) {
  struct jinja_node *body = add_node(parser, JINJA_NODE_BODY), *text = body;
  int loops = parser->loops;
  for (bool more = filtered; more && text; more = take_mark(parser, "|")) text = parse_filter(parser, text);
  expect_kind(parser, JINJA_BLOCK_END);
  parser->loops = 0;
  if (text) body->b = parse_body(parser);
  parser->loops = loops;
  expect_end(parser, word, line);
  return add_pair(parser, JINJA_NODE_PRINT, 0, text, NULL);
}

/* After the opening of a block. */
static struct jinja_node *parse_block(struct parser *parser) {
  int line = parser->token->line;
  if (take_word(parser, "set")) return parse_set(parser, line);
  if (take_word(parser, "if")) return parse_if(parser, line);
  if (take_word(parser, "for")) return parse_for(parser, line);
  if (take_word(parser, "macro")) return parse_macro(parser, line);
  if (take_word(parser, "break")) return parse_jump(parser, JINJA_NODE_BREAK);
  if (take_word(parser, "continue")) return parse_jump(parser, JINJA_NODE_CONTINUE);
  if (take_word(parser, "filter")) return parse_printed(parser, "filter", true, line);
  if (take_word(parser, "generation")) return parse_printed(parser, "generation", false, line);
  return refuse(parser, OMMA_ERROR_UNSUPPORTED, "this statement is not supported");
}

static bool at_body_end(const struct parser *parser) {
  static const char *const words[] = {"elif", "else", "endif", "endfor", "endmacro", "endset", "endfilter", "endgeneration"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (at_block(parser, words[i])) return true;
  }
  return parser->token->kind == JINJA_END;
}

static const struct jinja_node *parse_body(struct parser *parser) {
  const struct jinja_node *first = NULL, **link = &first;
  if (!enter(parser)) return NULL;
  while (!at_body_end(parser)) {
    struct jinja_node *node;
    if (parser->token->kind == JINJA_TEXT) {
      node = add_text_node(parser, JINJA_NODE_TEXT);
    } else if (parser->token->kind == JINJA_PRINT_BEGIN) {
      parser->token++;
      node = add_pair(parser, JINJA_NODE_PRINT, 0, parse_expression(parser), NULL);
      expect_kind(parser, JINJA_PRINT_END);
    } else {
      expect_kind(parser, JINJA_BLOCK_BEGIN);
      node = parse_block(parser);
    }
    if (!node || parser->status != OMMA_OK) return NULL;
    *link = node;
    link = &node->next;
  }
  parser->depth--;
  return first;
}

enum omma_status ommai_jinja_parse(const char *text, size_t size, struct ommai_scratch *scratch, struct jinja_tree *tree,
                                   struct omma_error *error) {
  struct jinja_token *tokens;
  struct parser parser = {.scratch = scratch, .tree = tree, .error = error};
  *tree = (struct jinja_tree){.names = ommai_scratch_take(scratch, OMMAI_JINJA_MAX_NAMES, sizeof *tree->names)};
  if (!tree->names) return ommai_scratch_fail(scratch, error);
  OMMAI_TRY(ommai_jinja_lex(text, size, scratch, &tokens, error));
  parser.token = tokens;
  intern(&parser, "loop", 4);
  tree->body = parse_body(&parser);
  if (parser.status == OMMA_OK && parser.token->kind != JINJA_END) unexpected(&parser);
  return parser.status;
}
