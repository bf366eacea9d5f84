#include "jinja/jinja_render.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"

/* A variable that the template has set. */
struct binding {
  int32_t name;
  struct jinja_value value;
  struct binding *next;
};

/* The template's, a loop's round, a macro's call. What is not found is looked for in the one around
 * it. */
struct jinja_scope {
  struct jinja_scope *around;
  struct binding *bindings;
};

enum jump { GO_ON, BREAK, CONTINUE };

struct renderer {
  struct jinja_context context; /* first: it is handed to the calls */
  const struct jinja_tree *tree;
  const json_t *variables;
  struct jinja_buffer *out;
  size_t max_bytes;
  struct jinja_scope *scope;
  enum jump jump;
  int depth;
};

static struct jinja_value evaluate(struct renderer *renderer, const struct jinja_node *node);
static void run_body(struct renderer *renderer, const struct jinja_node *body);

static struct jinja_value undefined(void) { return (struct jinja_value){.kind = JINJA_UNDEFINED}; }

/* ---- variables ---- */

static struct jinja_scope *open_scope(struct renderer *renderer, struct jinja_scope *around) {
  struct jinja_scope *scope = ommai_scratch_take(renderer->context.scratch, 1, sizeof *scope);
  if (!scope) {
    ommai_jinja_fail_scratch(&renderer->context);
    return NULL;
  }
  scope->around = around;
  return scope;
}

static void bind(struct renderer *renderer, int32_t name, struct jinja_value value) {
  for (struct binding *i = renderer->scope->bindings; i; i = i->next) {
    if (i->name != name) continue;
    i->value = value;
    return;
  }
  struct binding *binding = ommai_scratch_take(renderer->context.scratch, 1, sizeof *binding);
  if (!binding) {
    ommai_jinja_fail_scratch(&renderer->context);
    return;
  }
  *binding = (struct binding){name, value, renderer->scope->bindings};
  renderer->scope->bindings = binding;
}

/* One name, or as many as the value has members. */
static void bind_all(struct renderer *renderer, const struct jinja_node *names, struct jinja_value value) {
  if (!names->next) {
    bind(renderer, names->name, value);
    return;
  }
  struct jinja_value list = ommai_jinja_iterate(&renderer->context, &value);
  size_t n = 0;
  for (; names; names = names->next, n++) {
    if (n < list.size) bind(renderer, names->name, ommai_jinja_list_item(&list, n));
  }
  if (n != list.size) ommai_jinja_fail(&renderer->context, "%zu names for %zu values", n, list.size);
}

static struct jinja_value look_up(struct renderer *renderer, const struct jinja_node *node) {
  for (const struct jinja_scope *scope = renderer->scope; scope; scope = scope->around) {
    for (const struct binding *i = scope->bindings; i; i = i->next) {
      if (i->name == node->name) return i->value;
    }
  }
  const json_t *variable = json_object_getn(renderer->variables, node->text, node->size);
  if (variable) return ommai_jinja_from_json(variable);
  const struct jinja_function *function = ommai_jinja_find_global(node->text, node->size);
  return function ? (struct jinja_value){.kind = JINJA_FUNCTION, .function = function} : undefined();
}

/* ---- operators ---- */

static void append_escaped(struct renderer *renderer, struct jinja_buffer *out, const struct jinja_value *text, bool escape) {
  static const char marks[] = "&<>'\"";
  static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  if (!escape) {
    ommai_jinja_append(&renderer->context, out, text->text, text->size);
    return;
  }
  for (size_t i = 0; i < text->size && !renderer->context.failed; i++) {
    const char *mark = text->text[i] ? strchr(marks, text->text[i]) : NULL;
    const char *written = mark ? names[mark - marks] : text->text + i;
    ommai_jinja_append(&renderer->context, out, written, mark ? strlen(written) : 1);
  }
}

/* What is added to a safe text is made one, as jinja2 does. */
static struct jinja_value concatenate(struct renderer *renderer, const struct jinja_value *a, const struct jinja_value *b) {
  struct jinja_buffer out = {0};
  bool safe = a->safe || b->safe;
  append_escaped(renderer, &out, a, safe && !a->safe);
  append_escaped(renderer, &out, b, safe && !b->safe);
  struct jinja_value text = ommai_jinja_text(out.data, out.size);
  text.safe = safe;
  return text;
}

static struct jinja_value join_lists(struct renderer *renderer, const struct jinja_value *a, const struct jinja_value *b) {
  struct jinja_value *items = ommai_jinja_take_items(&renderer->context, a->size + b->size);
  for (size_t i = 0; items && i < a->size; i++) items[i] = ommai_jinja_list_item(a, i);
  for (size_t i = 0; items && i < b->size; i++) items[a->size + i] = ommai_jinja_list_item(b, i);
  size_t n = items ? a->size + b->size : 0;
  return a->form == JINJA_AS_TUPLE ? ommai_jinja_tuple(items, n) : ommai_jinja_list(items, n);
}

static struct jinja_value repeat(struct renderer *renderer, const struct jinja_value *text, const struct jinja_value *times) {
  struct jinja_buffer out = {0};
  int64_t n = ommai_jinja_to_whole(times);
  for (int64_t i = 0; i < n && text->size && ommai_jinja_append(&renderer->context, &out, text->text, text->size); i++)
    continue;
  return ommai_jinja_text(out.data, out.size);
}

static struct jinja_value calculate_real(struct renderer *renderer, char op, double a, double b) {
  double rest;
  if (strchr("/D%", op) && b == 0) return ommai_jinja_fail(&renderer->context, "division by zero");
  switch (op) {
    case '+': return ommai_jinja_real(a + b);
    case '-': return ommai_jinja_real(a - b);
    case '*': return ommai_jinja_real(a * b);
    case '/': return ommai_jinja_real(a / b);
    case 'D': return ommai_jinja_real(floor(a / b));
    default: rest = fmod(a, b); return ommai_jinja_real(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
  }
}

static struct jinja_value calculate_whole(struct renderer *renderer, char op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool fits = true, division = op == 'D' || op == '%';
  if (op == '/') return calculate_real(renderer, op, (double)a, (double)b);
  if (division && b == 0) return ommai_jinja_fail(&renderer->context, "division by zero");
  if (division && b == -1) { /* the one division that may not fit */
    fits = a != INT64_MIN;
    return fits ? ommai_jinja_whole(op == 'D' ? -a : 0) : ommai_jinja_fail(&renderer->context, "a number is too large");
  }
  switch (op) {
    case '+': fits = ommai_add_i64(a, b, &result); break;
    case '-': fits = !__builtin_sub_overflow(a, b, &result); break;
    case '*': fits = ommai_mul_i64(a, b, &result); break;
    case 'D': result = a / b - (a % b != 0 && (a < 0) != (b < 0)); break;
    default: result = a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0); break;
  }
  return fits ? ommai_jinja_whole(result) : ommai_jinja_fail(&renderer->context, "a number is too large");
}

static struct jinja_value calculate(struct renderer *renderer, char op, const struct jinja_value *a,
                                    const struct jinja_value *b) {
  bool text = a->kind == JINJA_TEXT_VALUE, whole = a->kind != JINJA_REAL && b->kind != JINJA_REAL;
  if (op == '~') {
    struct jinja_value left = ommai_jinja_to_text(&renderer->context, a), right = ommai_jinja_to_text(&renderer->context, b);
    left.safe = right.safe = false; /* texts are only put one after the other */
    return concatenate(renderer, &left, &right);
  }
  if (ommai_jinja_is_number(a) && ommai_jinja_is_number(b)) {
    return whole ? calculate_whole(renderer, op, ommai_jinja_to_whole(a), ommai_jinja_to_whole(b))
                 : calculate_real(renderer, op, ommai_jinja_to_real(a), ommai_jinja_to_real(b));
  }
  if (op == '+' && text && b->kind == JINJA_TEXT_VALUE) return concatenate(renderer, a, b);
  if (op == '+' && a->kind == JINJA_LIST && b->kind == JINJA_LIST && a->form == b->form) return join_lists(renderer, a, b);
  if (op == '*' && text && whole && ommai_jinja_is_number(b)) return repeat(renderer, a, b);
  if (op == '*' && b->kind == JINJA_TEXT_VALUE && whole && ommai_jinja_is_number(a)) return repeat(renderer, b, a);
  return ommai_jinja_fail(&renderer->context, "\"%c\" is not for values of these kinds", op == 'D' ? '/' : op);
}

static struct jinja_value evaluate_binary(struct renderer *renderer, const struct jinja_node *node) {
  struct jinja_value a = evaluate(renderer, node->a), b;
  if (node->op == '&') return ommai_jinja_truth(&a) ? evaluate(renderer, node->b) : a;
  if (node->op == '|') return ommai_jinja_truth(&a) ? a : evaluate(renderer, node->b);
  b = evaluate(renderer, node->b);
  return renderer->context.failed ? undefined() : calculate(renderer, node->op, &a, &b);
}

static struct jinja_value evaluate_unary(struct renderer *renderer, const struct jinja_node *node) {
  struct jinja_value value = evaluate(renderer, node->a), zero = ommai_jinja_whole(0);
  if (node->op == '!') return ommai_jinja_boolean(!ommai_jinja_truth(&value));
  if (!ommai_jinja_is_number(&value)) return ommai_jinja_fail(&renderer->context, "only numbers have a sign");
  if (value.kind == JINJA_REAL) return ommai_jinja_real(node->op == '-' ? -value.real : value.real);
  return calculate(renderer, node->op, &zero, &value);
}

static bool holds(struct renderer *renderer, char op, const struct jinja_value *a, const struct jinja_value *b) {
  struct jinja_context *context = &renderer->context;
  switch (op) {
    case '=': return ommai_jinja_equal(context, a, b);
    case '!': return !ommai_jinja_equal(context, a, b);
    case 'i': return ommai_jinja_contains(context, b, a);
    case 'x': return !ommai_jinja_contains(context, b, a);
    case '<': return ommai_jinja_compare(context, a, b) < 0;
    case '>': return ommai_jinja_compare(context, a, b) > 0;
    case 'l': return ommai_jinja_compare(context, a, b) <= 0;
    default: return ommai_jinja_compare(context, a, b) >= 0;
  }
}

static struct jinja_value evaluate_comparison(struct renderer *renderer, const struct jinja_node *node) {
  struct jinja_value left = evaluate(renderer, node->a);
  bool all = true;
  for (const struct jinja_node *i = node->b; i && all && !renderer->context.failed; i = i->next) {
    struct jinja_value right = evaluate(renderer, i->a);
    all = holds(renderer, i->op, &left, &right);
    left = right;
  }
  return ommai_jinja_boolean(all);
}

/* ---- calls ---- */

static void evaluate_arguments(struct renderer *renderer, const struct jinja_node *list, struct jinja_arguments *arguments) {
  for (; list && arguments->n < OMMAI_JINJA_MAX_ARGUMENTS; list = list->next) {
    struct jinja_argument *item = &arguments->items[arguments->n++];
    *item = (struct jinja_argument){evaluate(renderer, list->a), list->name < 0 ? NULL : list->text, list->size};
  }
}

static struct jinja_value evaluate_list(struct renderer *renderer, const struct jinja_node *node) {
  size_t n = 0;
  for (const struct jinja_node *i = node->a; i; i = i->next) n++;
  struct jinja_value *items = ommai_jinja_take_items(&renderer->context, n);
  n = 0;
  for (const struct jinja_node *i = node->a; i && items; i = i->next) items[n++] = evaluate(renderer, i->a);
  return node->op == '(' ? ommai_jinja_tuple(items, n) : ommai_jinja_list(items, n);
}

static struct jinja_value evaluate_dict(struct renderer *renderer, const struct jinja_node *node) {
  struct jinja_value value = {.kind = JINJA_DICT, .dict = ommai_scratch_take(renderer->context.scratch, 1, sizeof *value.dict)};
  if (!value.dict) return ommai_jinja_fail_scratch(&renderer->context);
  for (const struct jinja_node *i = node->a; i && !renderer->context.failed; i = i->next) {
    struct jinja_value key = evaluate(renderer, i->a);
    ommai_jinja_dict_set(&renderer->context, value.dict, key, evaluate(renderer, i->b));
  }
  return value;
}

/* What the body prints, taken off the output again. Names that it sets are its own. */
static struct jinja_value capture(struct renderer *renderer, const struct jinja_node *body) {
  struct jinja_buffer *around = renderer->out, out = {0};
  struct jinja_scope *scope = renderer->scope;
  renderer->scope = open_scope(renderer, scope);
  renderer->out = &out;
  if (renderer->scope) run_body(renderer, body);
  renderer->out = around;
  renderer->scope = scope;
  return ommai_jinja_text(out.data, out.size);
}

static struct jinja_value call_macro(struct renderer *renderer, const struct jinja_macro *macro,
                                     const struct jinja_arguments *arguments) {
  struct jinja_scope *caller = renderer->scope, *scope = open_scope(renderer, macro->scope);
  int place = 0, used = 0;
  if (!scope) return undefined();
  renderer->scope = scope;
  for (const struct jinja_node *i = macro->node->a; i; i = i->next, place++) {
    struct jinja_value value = undefined();
    bool found = false;
    for (int j = 0; j < arguments->n && !found; j++) {
      const struct jinja_argument *item = &arguments->items[j];
      found = item->name ? item->name_size == i->size && !memcmp(item->name, i->text, i->size) : j == place;
      if (found) value = item->value;
    }
    used += found;
    bind(renderer, i->name, found || !i->a ? value : evaluate(renderer, i->a));
  }
  struct jinja_value text = used == arguments->n
                                ? capture(renderer, macro->node->b)
                                : ommai_jinja_fail(&renderer->context, "a macro gets an argument that it does not have");
  renderer->scope = caller;
  return text;
}

static struct jinja_value evaluate_call(struct renderer *renderer, const struct jinja_node *node) {
  struct jinja_value target = evaluate(renderer, node->a);
  struct jinja_arguments arguments = {.n = 0};
  evaluate_arguments(renderer, node->b, &arguments);
  renderer->context.line = node->line;
  if (renderer->context.failed) return undefined();
  if (target.kind == JINJA_MACRO) return call_macro(renderer, target.macro, &arguments);
  if (target.kind == JINJA_FUNCTION) return ommai_jinja_run(&renderer->context, target.function, target.self, &arguments);
  if (node->a->kind == JINJA_NODE_NAME || node->a->kind == JINJA_NODE_ATTRIBUTE) {
    return ommai_jinja_fail(&renderer->context, "there is no function %.*s here", (int)node->a->size, node->a->text);
  }
  return ommai_jinja_fail(&renderer->context, "this value cannot be called");
}

static struct jinja_value evaluate_applied(struct renderer *renderer, const struct jinja_node *node) {
  struct jinja_value self = evaluate(renderer, node->a);
  struct jinja_arguments arguments = {.n = 0};
  evaluate_arguments(renderer, node->b, &arguments);
  renderer->context.line = node->line;
  return ommai_jinja_run(&renderer->context, node->target, &self, &arguments);
}

static struct jinja_value evaluate_slice(struct renderer *renderer, const struct jinja_node *node) {
  const struct jinja_node *const parts[3] = {node->b, node->c, node->d};
  struct jinja_value of = evaluate(renderer, node->a), bounds[3];
  for (int i = 0; i < 3; i++) bounds[i] = parts[i] ? evaluate(renderer, parts[i]) : ommai_jinja_none();
  return renderer->context.failed ? undefined() : ommai_jinja_slice(&renderer->context, &of, bounds);
}

/* ---- expressions ---- */

static struct jinja_value evaluate_member(struct renderer *renderer, const struct jinja_node *node) {
  struct jinja_value of = evaluate(renderer, node->a), key = ommai_jinja_none();
  if (node->kind == JINJA_NODE_ITEM) key = evaluate(renderer, node->b);
  renderer->context.line = node->line;
  if (renderer->context.failed) return undefined();
  return node->kind == JINJA_NODE_ITEM ? ommai_jinja_item(&renderer->context, &of, &key)
                                       : ommai_jinja_attribute(&renderer->context, &of, node->text, node->size);
}

static struct jinja_value evaluate_choice(struct renderer *renderer, const struct jinja_node *node) {
  struct jinja_value condition = evaluate(renderer, node->a);
  if (ommai_jinja_truth(&condition)) return evaluate(renderer, node->b);
  return node->c ? evaluate(renderer, node->c) : undefined();
}

static struct jinja_value evaluate_node(struct renderer *renderer, const struct jinja_node *node) {
  switch (node->kind) {
    case JINJA_NODE_STRING: return ommai_jinja_text(node->text, node->size);
    case JINJA_NODE_INTEGER: return ommai_jinja_whole(node->integer);
    case JINJA_NODE_FLOAT: return ommai_jinja_real(node->number);
    case JINJA_NODE_CONSTANT: return node->op == 'n' ? ommai_jinja_none() : ommai_jinja_boolean(node->op == 't');
    case JINJA_NODE_BODY: return capture(renderer, node->b);
    case JINJA_NODE_NAME: return look_up(renderer, node);
    case JINJA_NODE_LIST: return evaluate_list(renderer, node);
    case JINJA_NODE_DICT: return evaluate_dict(renderer, node);
    case JINJA_NODE_ATTRIBUTE:
    case JINJA_NODE_ITEM: return evaluate_member(renderer, node);
    case JINJA_NODE_SLICE: return evaluate_slice(renderer, node);
    case JINJA_NODE_CALL: return evaluate_call(renderer, node);
    case JINJA_NODE_FILTER:
    case JINJA_NODE_TEST: return evaluate_applied(renderer, node);
    case JINJA_NODE_UNARY: return evaluate_unary(renderer, node);
    case JINJA_NODE_BINARY: return evaluate_binary(renderer, node);
    case JINJA_NODE_COMPARE: return evaluate_comparison(renderer, node);
    case JINJA_NODE_CHOICE: return evaluate_choice(renderer, node);
    default: return undefined();
  }
}

static struct jinja_value evaluate(struct renderer *renderer, const struct jinja_node *node) {
  if (renderer->context.failed) return undefined();
  renderer->context.line = node->line;
  if (!ommai_scratch_work(renderer->context.scratch, 16)) return ommai_jinja_fail_scratch(&renderer->context);
  if (renderer->depth == OMMAI_JINJA_MAX_DEPTH) return ommai_jinja_fail(&renderer->context, "calls are nested too deep");
  renderer->depth++;
  struct jinja_value value = evaluate_node(renderer, node);
  renderer->depth--;
  return value;
}

/* ---- statements ---- */

static void print(struct renderer *renderer, const char *text, size_t size) {
  struct jinja_context *context = &renderer->context;
  if (context->failed || size <= renderer->max_bytes - renderer->out->size) {
    ommai_jinja_append(context, renderer->out, text, size);
    return;
  }
  context->status = ommai_fail_field(context->error, OMMA_ERROR_LIMIT, "messages",
                                     "messages: the prompt is longer than %zu bytes", renderer->max_bytes);
  context->failed = true;
}

static void print_value(struct renderer *renderer, const struct jinja_node *node) {
  struct jinja_value value = evaluate(renderer, node->a), text = value;
  if (!renderer->context.failed) text = ommai_jinja_to_text(&renderer->context, &value);
  if (!renderer->context.failed) print(renderer, text.text, text.size);
}

static void set_attribute(struct renderer *renderer, const struct jinja_node *node) {
  struct jinja_value space = evaluate(renderer, node->a), value = evaluate(renderer, node->b);
  renderer->context.line = node->line;
  if (space.kind == JINJA_NAMESPACE) {
    ommai_jinja_dict_set(&renderer->context, space.dict, ommai_jinja_text(node->text, node->size), value);
  } else {
    ommai_jinja_fail(&renderer->context, "only a namespace's attributes can be set");
  }
}

/* The members for which the loop's own condition holds: they alone count as its rounds. */
static struct jinja_value filter_list(struct renderer *renderer, const struct jinja_node *node, struct jinja_value list) {
  struct jinja_value *items = ommai_jinja_take_items(&renderer->context, list.size);
  size_t n = 0;
  for (size_t i = 0; items && i < list.size && !renderer->context.failed; i++) {
    struct jinja_value item = ommai_jinja_list_item(&list, i);
    bind_all(renderer, node->a, item);
    struct jinja_value condition = evaluate(renderer, node->d);
    if (ommai_jinja_truth(&condition)) items[n++] = item;
  }
  return ommai_jinja_list(items, n);
}

static void run_rounds(struct renderer *renderer, const struct jinja_node *node, struct jinja_scope *around,
                       struct jinja_loop *loop) {
  for (; loop->index < loop->list.size && renderer->jump != BREAK && !renderer->context.failed; loop->index++) {
    renderer->scope = open_scope(renderer, around);
    if (!renderer->scope) return;
    bind(renderer, 0, (struct jinja_value){.kind = JINJA_LOOP, .loop = loop});
    bind_all(renderer, node->a, ommai_jinja_list_item(&loop->list, loop->index));
    run_body(renderer, node->c);
    if (renderer->jump == CONTINUE) renderer->jump = GO_ON;
  }
  renderer->jump = GO_ON;
}

static void run_for(struct renderer *renderer, const struct jinja_node *node) {
  struct jinja_scope *around = renderer->scope;
  struct jinja_loop *loop = ommai_scratch_take(renderer->context.scratch, 1, sizeof *loop);
  struct jinja_value source = evaluate(renderer, node->b);
  if (!loop) ommai_jinja_fail_scratch(&renderer->context);
  renderer->context.line = node->line;
  struct jinja_value list = renderer->context.failed ? source : ommai_jinja_iterate(&renderer->context, &source);
  if (renderer->context.failed) return;
  if (node->d) {
    renderer->scope = open_scope(renderer, around);
    if (renderer->scope) list = filter_list(renderer, node, list);
  }
  *loop = (struct jinja_loop){list, 0};
  if (!renderer->context.failed) run_rounds(renderer, node, around, loop);
  renderer->scope = around;
  if (list.size == 0) run_body(renderer, node->other);
}

static void define_macro(struct renderer *renderer, const struct jinja_node *node) {
  struct jinja_macro *macro = ommai_scratch_take(renderer->context.scratch, 1, sizeof *macro);
  if (!macro) {
    ommai_jinja_fail_scratch(&renderer->context);
    return;
  }
  *macro = (struct jinja_macro){node, renderer->scope};
  bind(renderer, node->name, (struct jinja_value){.kind = JINJA_MACRO, .macro = macro});
}

static void run_if(struct renderer *renderer, const struct jinja_node *node) {
  struct jinja_value condition = evaluate(renderer, node->a);
  run_body(renderer, ommai_jinja_truth(&condition) ? node->b : node->c);
}

static void run_statement(struct renderer *renderer, const struct jinja_node *node) {
  switch (node->kind) {
    case JINJA_NODE_TEXT: print(renderer, node->text, node->size); break;
    case JINJA_NODE_PRINT: print_value(renderer, node); break;
    case JINJA_NODE_SET: bind_all(renderer, node->a, evaluate(renderer, node->b)); break;
    case JINJA_NODE_CAPTURE: bind_all(renderer, node->a, capture(renderer, node->b)); break;
    case JINJA_NODE_SET_ATTRIBUTE: set_attribute(renderer, node); break;
    case JINJA_NODE_IF: run_if(renderer, node); break;
    case JINJA_NODE_FOR: run_for(renderer, node); break;
    case JINJA_NODE_MACRO: define_macro(renderer, node); break;
    case JINJA_NODE_BREAK: renderer->jump = BREAK; break;
    case JINJA_NODE_CONTINUE: renderer->jump = CONTINUE; break;
    default: break;
  }
}

static void run_body(struct renderer *renderer, const struct jinja_node *body) {
  if (renderer->depth == OMMAI_JINJA_MAX_DEPTH) {
    ommai_jinja_fail(&renderer->context, "calls are nested too deep");
    return;
  }
  renderer->depth++;
  for (; body && renderer->jump == GO_ON && !renderer->context.failed; body = body->next) {
    renderer->context.line = body->line;
    if (!ommai_scratch_work(renderer->context.scratch, 16)) ommai_jinja_fail_scratch(&renderer->context);
    run_statement(renderer, body);
  }
  renderer->depth--;
}

enum omma_status ommai_jinja_run_tree(const struct jinja_tree *tree, const json_t *variables, size_t max_bytes,
                                      struct ommai_scratch *scratch, struct jinja_buffer *out, struct omma_error *error) {
  struct renderer renderer = {.context = {.scratch = scratch, .status = OMMA_OK, .error = error},
                              .tree = tree,
                              .variables = variables,
                              .out = out,
                              .max_bytes = max_bytes};
  renderer.scope = open_scope(&renderer, NULL);
  if (renderer.scope) run_body(&renderer, tree->body);
  return renderer.context.status;
}
