/* Alternatives of oneOf that a member tells apart at once: each requires it, and its value is one
 * of some strings that no other alternative has. What is made for one of these is then not valid
 * for another, whatever else they ask for: the pairs need not be compared. */
#include <string.h>

#include "base/error.h"
#include "grammar/schema_parts.h"

/* Required members of the first alternative that are tried; alternatives below which pairs are
 * soon compared. */
enum { MAX_NAMES = 4, MIN_ALTERNATIVES = 4 };

struct tagging {
  struct schema_context *context;
  const struct schema_path *path;
  const json_t *list;
  struct schema_tags *tags;
  struct ommai_name_set values; /* the alternative that has one, + 1 */
};

/* The values of member `name` in alternative `index`; *good: it is required and has only these
 * strings. */
static enum omma_status list_values(const struct tagging *tagging, size_t index, const char *name, bool *good,
                                    const json_t ***values, size_t *n) {
  struct schema_set valid = {.n = 0}, value = {.n = 0};
  bool required, allowed, found;
  *good = false;
  OMMAI_TRY(ommai_schema_add(tagging->context, &valid, json_array_get(tagging->list, index), tagging->path));
  if (valid.impossible) return OMMA_OK;
  OMMAI_TRY(ommai_schema_member(tagging->context, &valid, name, &value, &required, &allowed));
  if (!required) return OMMA_OK;
  OMMAI_TRY(ommai_schema_values(tagging->context, &value, &found, values, n));
  *good = found;
  for (size_t i = 0; found && i < *n; i++) *good = *good && json_is_string((*values)[i]);
  return OMMA_OK;
}

/* Two that share a value are both left to be compared. */
static enum omma_status tag_alternative(struct tagging *tagging, size_t index, const char *name) {
  struct schema_tags *tags = tagging->tags;
  const json_t **values;
  size_t n;
  OMMAI_TRY(list_values(tagging, index, name, &tags->tagged[index], &values, &n));
  for (size_t i = 0; tags->tagged[index] && i < n; i++) {
    struct ommai_named *named = ommai_name_set_add(&tagging->values, tagging->context->scratch, tags,
                                                   json_string_value(values[i]), json_string_length(values[i]));
    if (!named) return ommai_schema_fail_scratch(tagging->context);
    if (named->value && named->value != index + 1) tags->tagged[index] = tags->tagged[named->value - 1] = false;
    if (!named->value) named->value = index + 1;
  }
  return OMMA_OK;
}

static enum omma_status find_name(const struct tagging *tagging, const char **name) {
  struct schema_set first = {.n = 0};
  int n_tried = 0;
  OMMAI_TRY(ommai_schema_add(tagging->context, &first, json_array_get(tagging->list, 0), tagging->path));
  for (size_t i = 0; i < first.n && !*name; i++) {
    const json_t *required = json_object_get(first.parts[i].schema, "required"), **values;
    for (size_t j = 0; j < json_array_size(required) && !*name && n_tried < MAX_NAMES; j++, n_tried++) {
      const char *tried = json_string_value(json_array_get(required, j));
      bool good;
      size_t n;
      OMMAI_TRY(list_values(tagging, 0, tried, &good, &values, &n));
      if (good) *name = tried;
    }
  }
  return OMMA_OK;
}

static enum omma_status tag_all(struct tagging *tagging) {
  struct schema_tags *tags = tagging->tags;
  const size_t n = json_array_size(tagging->list);
  const char *name = NULL;
  OMMAI_TRY(find_name(tagging, &name));
  if (!name) return OMMA_OK;
  bool *tagged = ommai_scratch_take(tagging->context->scratch, n, sizeof *tagged);
  if (!tagged) return ommai_schema_fail_scratch(tagging->context);
  tags->tagged = tagged;
  for (size_t i = 0; i < n; i++) OMMAI_TRY(tag_alternative(tagging, i, name));
  return OMMA_OK;
}

enum omma_status ommai_schema_tag(struct schema_context *context, const json_t *list, const struct schema_path *path,
                                  struct schema_tags *tags) {
  struct tagging tagging = {.context = context, .path = path, .list = list, .tags = tags};
  *tags = (struct schema_tags){.tagged = NULL};
  if (json_array_size(list) < MIN_ALTERNATIVES) return OMMA_OK;
  enum omma_status status = tag_all(&tagging);
  if (status == OMMA_OK || context->scratch->no_memory || context->scratch->exhausted) return status;
  tags->tagged = NULL; /* whoever compares them, or makes them, says what is wrong */
  return OMMA_OK;
}
