#include "jinja/jinja.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "jinja/jinja_render.h"
#include "text/utf8.h"

struct ommai_jinja {
  struct omma_allocator allocator;
  struct ommai_scratch scratch; /* the tree and its texts */
  struct jinja_tree tree;
  char *text;
  size_t size;
};

/* From 1. */
static size_t line_of(const char *text, size_t offset) {
  size_t line = 1;
  for (size_t i = 0; i < offset; i++) line += text[i] == '\n';
  return line;
}

/* No value from outside is a function, so that calls of what the template does not define itself
 * can only fail. */
static enum omma_status check_calls(const struct jinja_tree *tree, struct omma_error *error) {
  for (size_t i = 0; i < tree->n_names; i++) {
    const struct jinja_name *name = &tree->names[i];
    if (!name->called || name->set || name->asked || ommai_jinja_find_global(name->text, name->size)) continue;
    return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "line %d: there is no function %.*s here", name->called,
                      name->size > 40 ? 40 : (int)name->size, name->text);
  }
  return OMMA_OK;
}

enum omma_status ommai_jinja_create(const char *text, size_t size, const struct omma_allocator *allocator,
                                    struct ommai_jinja **jinja, struct omma_error *error) {
  if (size > OMMAI_JINJA_MAX_BYTES) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "at most %zu bytes are allowed, found %zu", OMMAI_JINJA_MAX_BYTES, size);
  }
  size_t wrong;
  if (!ommai_utf8_valid(text, size, &wrong)) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "line %zu: expected UTF-8, found byte 0x%02x", line_of(text, wrong),
                      (unsigned char)text[wrong]);
  }
  struct ommai_jinja *made = ommai_allocate(allocator, 1, sizeof *made);
  if (!made) return ommai_fail_memory(error, "chat template", sizeof *made);
  made->allocator = *allocator;
  ommai_scratch_init(&made->scratch, &made->allocator);
  made->text = ommai_duplicate(allocator, text, size);
  made->size = size;
  enum omma_status status = made->text ? ommai_jinja_parse(text, size, &made->scratch, &made->tree, error)
                                       : ommai_fail_memory(error, "chat template", size);
  if (status == OMMA_OK) status = check_calls(&made->tree, error);
  if (status == OMMA_OK) {
    *jinja = made;
  } else {
    ommai_jinja_destroy(made);
  }
  return status;
}

void ommai_jinja_destroy(struct ommai_jinja *jinja) {
  if (!jinja) return;
  struct omma_allocator allocator = jinja->allocator;
  ommai_scratch_free(&jinja->scratch);
  ommai_release(&allocator, jinja->text, jinja->size + 1, 1);
  ommai_release(&allocator, jinja, 1, sizeof *jinja);
}

static bool is_own(const struct jinja_name *name) {
  return name->set || (name->size == 4 && !memcmp(name->text, "loop", 4)) ||
         ommai_jinja_find_global(name->text, name->size) != NULL;
}

const char *ommai_jinja_next_read(const struct ommai_jinja *jinja, size_t *at, size_t *size) {
  while (*at < jinja->tree.n_names) {
    const struct jinja_name *name = &jinja->tree.names[(*at)++];
    *size = name->size;
    if (name->read && !name->called && !is_own(name)) return name->text;
  }
  return NULL;
}

bool ommai_jinja_reads(const struct ommai_jinja *jinja, const char *name) {
  for (size_t i = 0; i < jinja->tree.n_names; i++) {
    const struct jinja_name *known = &jinja->tree.names[i];
    if (known->size == strlen(name) && !memcmp(known->text, name, known->size)) return known->read && !known->called;
  }
  return false;
}

bool ommai_jinja_mentions(const struct ommai_jinja *jinja, const char *word) {
  return memmem(jinja->text, jinja->size, word, strlen(word)) != NULL;
}

enum omma_status ommai_jinja_render(const struct ommai_jinja *jinja, const json_t *variables, size_t max_bytes, char **text,
                                    size_t *size, struct omma_error *error) {
  struct ommai_scratch scratch;
  struct jinja_buffer out = {0};
  ommai_scratch_init(&scratch, &jinja->allocator);
  enum omma_status status = ommai_jinja_run_tree(&jinja->tree, variables, max_bytes, &scratch, &out, error);
  if (status == OMMA_OK) {
    *text = ommai_duplicate(&jinja->allocator, out.data ? out.data : "", out.size);
    *size = out.size;
    if (!*text) status = ommai_fail_memory(error, "chat template", out.size);
  }
  ommai_scratch_free(&scratch);
  return status;
}
