#include "families/name_list.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"

/* A match first gets FIRST_STEPS and then twice as many each time that it runs out; what it was
 * given is taken from the account. */
enum { FIRST_STEPS = 128, HEAP_KIB = 4096, MAX_NESTING = 32, MAX_COMPILED = 1 << 18, FIRST_CAPACITY = 16 };

struct entry {
  char *text;
  size_t size; /* without the NUL */
  int value;
  int order; /* in which it was added */
  pcre2_code *code;
};

struct entries {
  struct entry *items;
  int count, capacity;
  bool sorted;
};

struct ommai_name_list {
  struct omma_allocator allocator;
  struct entries names, expressions;
  pcre2_compile_context *compile_context;
  pcre2_match_context *match_context;
  pcre2_match_data *match_data;
  int64_t steps_left;
};

enum omma_status ommai_name_list_create(const struct omma_allocator *allocator, struct ommai_name_list **list,
                                        struct omma_error *error) {
  struct ommai_name_list *self = ommai_allocate(allocator, 1, sizeof *self);
  if (!self) return ommai_fail_memory(error, "the list of layers", sizeof *self);
  self->allocator = *allocator;
  self->steps_left = OMMAI_NAME_LIST_STEPS;
  self->compile_context = pcre2_compile_context_create(NULL);
  self->match_context = pcre2_match_context_create(NULL);
  self->match_data = pcre2_match_data_create(1, NULL);
  if (!self->compile_context || !self->match_context || !self->match_data) {
    ommai_name_list_destroy(self);
    return ommai_fail_memory(error, "the list of layers", 0);
  }
  pcre2_set_newline(self->compile_context, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(self->compile_context, MAX_NESTING);
  pcre2_set_heap_limit(self->match_context, HEAP_KIB);
  *list = self;
  return OMMA_OK;
}

static void release_entries(const struct omma_allocator *allocator, struct entries *entries) {
  for (int i = 0; i < entries->count; i++) {
    pcre2_code_free(entries->items[i].code);
    ommai_release(allocator, entries->items[i].text, entries->items[i].size + 1, 1);
  }
  ommai_release(allocator, entries->items, (size_t)entries->capacity, sizeof *entries->items);
}

void ommai_name_list_destroy(struct ommai_name_list *list) {
  if (!list) return;
  struct omma_allocator allocator = list->allocator;
  release_entries(&allocator, &list->names);
  release_entries(&allocator, &list->expressions);
  pcre2_match_data_free(list->match_data);
  pcre2_match_context_free(list->match_context);
  pcre2_compile_context_free(list->compile_context);
  ommai_release(&allocator, list, 1, sizeof *list);
}

static enum omma_status compile(const struct ommai_name_list *list, const char *where, const char *text, pcre2_code **out,
                                struct omma_error *error) {
  int reason;
  PCRE2_SIZE offset;
  size_t compiled = 0;
  if (strlen(text) > OMMAI_NAME_LIST_MAX_PATTERN) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "%s: \"re:%.40s...\": an expression of more than the limit of %d bytes", where,
                      text, OMMAI_NAME_LIST_MAX_PATTERN);
  }
  /* Names are text without structure to the matcher; Python's and PCRE2's syntax agree on what is
   * used for them. */
  uint32_t options = PCRE2_ANCHORED | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE | PCRE2_DOLLAR_ENDONLY;
  pcre2_code *code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, options, &reason, &offset, list->compile_context);
  if (!code) {
    PCRE2_UCHAR message[128];
    pcre2_get_error_message(reason, message, sizeof message);
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: \"re:%.200s\" is not a regular expression: %s (at byte %zu)", where, text,
                      (const char *)message, (size_t)offset);
  }
  pcre2_pattern_info(code, PCRE2_INFO_SIZE, &compiled);
  if (compiled <= MAX_COMPILED) {
    *out = code;
    return OMMA_OK;
  }
  pcre2_code_free(code);
  return ommai_fail(error, OMMA_ERROR_LIMIT, "%s: \"re:%.200s\" becomes larger than the limit of %d bytes", where, text,
                    MAX_COMPILED);
}

static enum omma_status reserve(const struct omma_allocator *allocator, struct entries *entries, struct omma_error *error) {
  if (entries->count < entries->capacity) return OMMA_OK;
  int capacity = entries->capacity ? 2 * entries->capacity : FIRST_CAPACITY;
  struct entry *items = ommai_allocate(allocator, (size_t)capacity, sizeof *items);
  if (!items) return ommai_fail_memory(error, "the list of layers", (size_t)capacity * sizeof *items);
  if (entries->count) memcpy(items, entries->items, (size_t)entries->count * sizeof *items);
  ommai_release(allocator, entries->items, (size_t)entries->capacity, sizeof *items);
  entries->items = items;
  entries->capacity = capacity;
  return OMMA_OK;
}

enum omma_status ommai_name_list_add(struct ommai_name_list *list, const char *where, const char *text, bool is_expression,
                                     int value, struct omma_error *error) {
  struct entries *entries = is_expression ? &list->expressions : &list->names;
  struct entry entry = {.size = strlen(text), .value = value, .order = entries->count};
  int limit = is_expression ? OMMAI_NAME_LIST_MAX_EXPRESSIONS : OMMAI_NAME_LIST_MAX_NAMES;
  if (entries->count == limit) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "%s: more than the limit of %d %s", where, limit,
                      is_expression ? "regular expressions" : "names");
  }
  OMMAI_TRY(reserve(&list->allocator, entries, error));
  if (is_expression) OMMAI_TRY(compile(list, where, text, &entry.code, error));
  entry.text = ommai_duplicate(&list->allocator, text, entry.size);
  if (!entry.text) {
    pcre2_code_free(entry.code);
    return ommai_fail_memory(error, "the list of layers", entry.size + 1);
  }
  entries->items[entries->count++] = entry;
  entries->sorted = false;
  return OMMA_OK;
}

static int compare_entries(const void *a, const void *b) {
  const struct entry *left = a, *right = b;
  int order = strcmp(left->text, right->text);
  return order ? order : (left->order > right->order) - (left->order < right->order);
}

static void sort(struct entries *entries) {
  if (!entries->sorted && entries->count)
    qsort(entries->items, (size_t)entries->count, sizeof *entries->items, compare_entries);
  entries->sorted = true;
}

int ommai_name_list_find(struct ommai_name_list *list, const char *name) {
  const struct entries *entries = &list->names;
  int low = 0, high = entries->count;
  sort(&list->names);
  while (low < high) { /* the first that is not before the name */
    int middle = low + (high - low) / 2;
    if (strcmp(entries->items[middle].text, name) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < entries->count && strcmp(entries->items[low].text, name) == 0 ? entries->items[low].value : -1;
}

static enum omma_status match_one(struct ommai_name_list *list, const struct entry *entry, const char *name, bool *matches,
                                  struct omma_error *error) {
  int found = PCRE2_ERROR_MATCHLIMIT;
  for (int64_t steps = FIRST_STEPS; found == PCRE2_ERROR_MATCHLIMIT; steps *= 2) {
    list->steps_left -= steps;
    if (list->steps_left < 0) break;
    pcre2_set_match_limit(list->match_context, (uint32_t)steps);
    found = pcre2_match(entry->code, (PCRE2_SPTR)name, strlen(name), 0, 0, list->match_data, list->match_context);
  }
  *matches = found >= 0;
  if (found >= 0 || found == PCRE2_ERROR_NOMATCH) return OMMA_OK;
  return ommai_fail(error, found == PCRE2_ERROR_NOMEMORY ? OMMA_ERROR_MEMORY : OMMA_ERROR_LIMIT,
                    "quantization_config: \"re:%.200s\": more steps or memory than the limit to match \"%.200s\"", entry->text,
                    name);
}

enum omma_status ommai_name_list_match(struct ommai_name_list *list, const char *name, int *value, struct omma_error *error) {
  sort(&list->expressions);
  *value = -1;
  for (int i = 0; i < list->expressions.count; i++) {
    bool matches;
    OMMAI_TRY(match_one(list, &list->expressions.items[i], name, &matches, error));
    if (!matches) continue;
    *value = list->expressions.items[i].value;
    return OMMA_OK;
  }
  return OMMA_OK;
}
