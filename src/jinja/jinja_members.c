/* Attributes, items and slices of values. */
#include <stdio.h>
#include <string.h>

#include "jinja/jinja_calls.h"

static struct jinja_value undefined(void) { return (struct jinja_value){.kind = JINJA_UNDEFINED}; }

static struct jinja_value neighbour(const struct jinja_loop *loop, bool next) {
  if (next ? loop->index + 1 >= loop->list.size : loop->index == 0) return undefined();
  return ommai_jinja_list_item(&loop->list, next ? loop->index + 1 : loop->index - 1);
}

static bool is_name(const char *name, size_t size, const char *wanted) {
  return size == strlen(wanted) && memcmp(name, wanted, size) == 0;
}

static struct jinja_value loop_attribute(const struct jinja_loop *loop, const char *name, size_t size) {
  int64_t index = (int64_t)loop->index, n = (int64_t)loop->list.size;
  if (is_name(name, size, "index0")) return ommai_jinja_whole(index);
  if (is_name(name, size, "index")) return ommai_jinja_whole(index + 1);
  if (is_name(name, size, "revindex0")) return ommai_jinja_whole(n - index - 1);
  if (is_name(name, size, "revindex")) return ommai_jinja_whole(n - index);
  if (is_name(name, size, "length")) return ommai_jinja_whole(n);
  if (is_name(name, size, "first")) return ommai_jinja_boolean(index == 0);
  if (is_name(name, size, "last")) return ommai_jinja_boolean(index + 1 == n);
  if (is_name(name, size, "previtem")) return neighbour(loop, false);
  if (is_name(name, size, "nextitem")) return neighbour(loop, true);
  return undefined();
}

static struct jinja_value method_of(struct jinja_context *context, const struct jinja_value *value, const char *name,
                                    size_t size) {
  const struct jinja_function *function = ommai_jinja_find_method(value->kind, name, size);
  if (!function) return undefined();
  struct jinja_value *self = ommai_jinja_take_items(context, 1);
  if (!self) return undefined();
  *self = *value;
  return (struct jinja_value){.kind = JINJA_FUNCTION, .function = function, .self = self};
}

struct jinja_value ommai_jinja_attribute(struct jinja_context *context, const struct jinja_value *value, const char *name,
                                         size_t size) {
  struct jinja_value found;
  switch (value->kind) {
    case JINJA_UNDEFINED: return ommai_jinja_fail(context, "\"%.*s\" is asked of something undefined", (int)size, name);
    case JINJA_LOOP: return loop_attribute(value->loop, name, size);
    case JINJA_NAMESPACE: return ommai_jinja_dict_get(value, name, size, &found) ? found : undefined();
    default: break;
  }
  found = method_of(context, value, name, size);
  if (found.kind == JINJA_UNDEFINED && value->kind == JINJA_DICT) ommai_jinja_dict_get(value, name, size, &found);
  return found;
}

struct jinja_value ommai_jinja_item(struct jinja_context *context, const struct jinja_value *value,
                                    const struct jinja_value *key) {
  struct jinja_value found = undefined(), list = *value;
  bool whole = key->kind == JINJA_WHOLE || key->kind == JINJA_BOOLEAN;
  if (value->kind == JINJA_UNDEFINED) return ommai_jinja_fail(context, "an item is asked of something undefined");
  if (value->kind == JINJA_DICT && ommai_jinja_dict_find(context, value, key, &found)) return found;
  if (key->kind == JINJA_TEXT_VALUE) return ommai_jinja_attribute(context, value, key->text, key->size);
  if (!whole || (value->kind != JINJA_LIST && value->kind != JINJA_TEXT_VALUE)) return found;
  list = ommai_jinja_iterate(context, value);
  int64_t n = (int64_t)list.size, index = ommai_jinja_to_whole(key);
  if (index < 0) index += n;
  return index < 0 || index >= n ? found : ommai_jinja_list_item(&list, (size_t)index);
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) { return value < low ? low : value > high ? high : value; }

/* A bound of a slice over n members, as Python's slice.indices. */
static int64_t bound_of(const struct jinja_value *bound, int64_t n, int64_t step, int64_t standard) {
  if (bound->kind == JINJA_NONE) return standard;
  int64_t at = ommai_jinja_to_whole(bound);
  if (at < 0) at = at < -n ? -1 : at + n;
  if (ommai_jinja_to_whole(bound) < -n) return step < 0 ? -1 : 0;
  return step < 0 ? clamp(at, -1, n - 1) : clamp(at, 0, n);
}

static struct jinja_value join_characters(struct jinja_context *context, const struct jinja_value *items, size_t n) {
  struct jinja_buffer out = {0};
  for (size_t i = 0; i < n; i++) ommai_jinja_append(context, &out, items[i].text, items[i].size);
  return ommai_jinja_text(out.data, out.size);
}

struct jinja_value ommai_jinja_slice(struct jinja_context *context, const struct jinja_value *value,
                                     const struct jinja_value bounds[3]) {
  if (value->kind != JINJA_LIST && value->kind != JINJA_TEXT_VALUE) {
    return ommai_jinja_fail(context, "only lists and texts have slices");
  }
  for (int i = 0; i < 3; i++) {
    if (bounds[i].kind != JINJA_NONE && bounds[i].kind != JINJA_WHOLE)
      return ommai_jinja_fail(context, "a slice is not of integers");
  }
  struct jinja_value list = ommai_jinja_iterate(context, value);
  int64_t n = (int64_t)list.size, step = bounds[2].kind == JINJA_NONE ? 1 : bounds[2].whole;
  if (step == 0) return ommai_jinja_fail(context, "a slice has the step 0");
  step = clamp(step, -n - 1, n + 1);
  int64_t at = bound_of(&bounds[0], n, step, step < 0 ? n - 1 : 0), end = bound_of(&bounds[1], n, step, step < 0 ? -1 : n);
  struct jinja_value *items = ommai_jinja_take_items(context, (size_t)n);
  size_t count = 0;
  for (; items && (step < 0 ? at > end : at < end); at += step) items[count++] = ommai_jinja_list_item(&list, (size_t)at);
  if (value->kind == JINJA_TEXT_VALUE) return join_characters(context, items, count);
  return value->form == JINJA_AS_TUPLE ? ommai_jinja_tuple(items, count) : ommai_jinja_list(items, count);
}
