#include "families/chat_template.h"

#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "families/family.h"

enum { MAX_WHERE = OMMAI_DOCUMENT_PATH_SIZE + 32 };

/* Whether the template writes a user's text that it gets in this form. Errors: MEMORY. */
static enum omma_status try_form(const struct ommai_jinja *jinja, const struct omma_allocator *allocator, bool as_list,
                                 bool *written, struct omma_error *error) {
  static const char word[] = "omma-probe";
  json_t *content = as_list ? json_pack("[{s:s, s:s}]", "type", "text", "text", word) : json_string(word);
  json_t *variables =
      json_pack("{s:[{s:s, s:o}], s:b}", "messages", "role", "user", "content", content, "add_generation_prompt", 1);
  char *text;
  size_t size;
  *written = false;
  if (!variables) return ommai_fail_memory(error, "chat template", sizeof word);
  enum omma_status status = ommai_jinja_render(jinja, variables, OMMAI_PROMPT_MAX_BYTES, &text, &size, error);
  json_decref(variables);
  if (status == OMMA_OK) {
    *written = strstr(text, word) != NULL;
    ommai_release(allocator, text, size + 1, 1);
  }
  return status == OMMA_ERROR_MEMORY ? status : OMMA_OK;
}

/* One that cannot be rendered is no error yet: another template may be taken in its place. */
enum omma_status ommai_chat_template_take(const char *where, const char *text, size_t size,
                                          const struct omma_allocator *allocator, const struct ommai_family *family,
                                          struct ommai_chat_choice *choice, struct omma_error *error) {
  struct omma_error cause;
  *choice = (struct ommai_chat_choice){.marks = family->marks};
  enum omma_status status = ommai_jinja_create(text, size, allocator, &choice->jinja, &cause);
  if (status == OMMA_ERROR_MEMORY) return ommai_fail(error, status, "%s: %s", where, cause.message);
  if (status != OMMA_OK) {
    snprintf(choice->problem, sizeof choice->problem, "%.400s: %.200s", where, cause.message);
  } else {
    bool strings, lists;
    OMMAI_TRY(try_form(choice->jinja, allocator, false, &strings, error));
    OMMAI_TRY(try_form(choice->jinja, allocator, true, &lists, error));
    choice->lists_alone = lists && !strings;
    choice->strings_alone = strings && !lists;
  }
  return OMMA_OK;
}

void ommai_chat_choice_free(struct ommai_chat_choice *choice) {
  ommai_jinja_destroy(choice->jinja);
  json_decref(choice->special_tokens);
  choice->jinja = NULL;
  choice->special_tokens = NULL;
}

bool ommai_chat_template_variable(const char *name, size_t size) {
  static const char *const names[] = {"messages",  "tools",     "documents", "add_generation_prompt",
                                      "bos_token", "eos_token", "pad_token", "unk_token",
                                      "cls_token", "sep_token", "mask_token"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0) return true;
  }
  return false;
}

/* ---- finding ---- */

struct template_search {
  const struct ommai_documents *documents;
  const struct omma_allocator *allocator;
  const struct ommai_family *family;
  struct ommai_chat_choice *choice;
};

/* The template under "chat_template" of a JSON file: a string, or of a list of {name, template} the
 * one named default. */
static enum omma_status pick_text(const json_t *root, const char *path, bool required, const char **text,
                                  struct omma_error *error) {
  const json_t *value = json_object_get(root, "chat_template"), *entry;
  size_t i;
  *text = NULL;
  if (!json_is_array(value)) return ommai_json_string(root, path, "chat_template", required, text, error);
  json_array_foreach(value, i, entry) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    if (name && strcmp(name, "default") == 0) return ommai_json_string(entry, path, "template", true, text, error);
  }
  return OMMA_OK;
}

static enum omma_status try_json(const struct template_search *search, const char *file, bool required, bool *found,
                                 struct omma_error *error) {
  char path[OMMAI_DOCUMENT_PATH_SIZE], where[MAX_WHERE];
  const char *text;
  json_t *root;
  OMMAI_TRY(ommai_document_find(search->documents, file, search->allocator, path, &root, error));
  *found = root != NULL;
  if (!root) return OMMA_OK;
  enum omma_status status = pick_text(root, path, required, &text, error);
  *found = status == OMMA_OK && text;
  if (*found) {
    snprintf(where, sizeof where, "%s: chat_template", path);
    status = ommai_chat_template_take(where, text, strlen(text), search->allocator, search->family, search->choice, error);
  }
  json_decref(root);
  return status;
}

static enum omma_status try_plain(const struct template_search *search, const char *file, bool *found,
                                  struct omma_error *error) {
  char path[OMMAI_DOCUMENT_PATH_SIZE], *text;
  size_t size;
  if (search->documents->made) return OMMA_OK;
  OMMAI_TRY(ommai_file_find(path, sizeof path, search->documents->directory, file, found, error));
  if (!*found) return OMMA_OK;
  OMMAI_TRY(ommai_file_read(path, OMMAI_DOCUMENT_MAX_BYTES, search->allocator, &text, &size, error));
  enum omma_status status =
      ommai_chat_template_take(path, text, size, search->allocator, search->family, search->choice, error);
  ommai_release(search->allocator, text, size + 1, 1);
  return status;
}

/* A file that was named. */
static enum omma_status take_file(const struct template_search *search, const char *path, struct omma_error *error) {
  char *text;
  size_t size;
  OMMAI_TRY(ommai_file_read(path, OMMAI_DOCUMENT_MAX_BYTES, search->allocator, &text, &size, error));
  enum omma_status status =
      ommai_chat_template_take(path, text, size, search->allocator, search->family, search->choice, error);
  ommai_release(search->allocator, text, size + 1, 1);
  return status;
}

static enum omma_status find_template(const struct template_search *search, struct omma_error *error) {
  bool found = false;
  OMMAI_TRY(try_json(search, "processor_config.json", false, &found, error));
  if (!found) OMMAI_TRY(try_json(search, "chat_template.json", true, &found, error));
  if (!found) OMMAI_TRY(try_plain(search, "chat_template.jinja", &found, error));
  if (!found) OMMAI_TRY(try_json(search, "tokenizer_config.json", false, &found, error));
  if (found) return OMMA_OK;
  snprintf(
      search->choice->problem, sizeof search->choice->problem,
      "%.400s: no chat template: neither chat_template.json nor chat_template.jinja is there, and tokenizer_config.json has "
      "none; a base model has none",
      search->documents->directory);
  return OMMA_OK;
}

/* A token there is a text, or an object with its "content". */
static enum omma_status read_special_tokens(const struct template_search *search, struct omma_error *error) {
  static const char *const names[] = {"bos_token", "eos_token", "pad_token", "unk_token",
                                      "cls_token", "sep_token", "mask_token"};
  char path[OMMAI_DOCUMENT_PATH_SIZE];
  json_t *root, *tokens = json_object();
  bool failed = !tokens;
  search->choice->special_tokens = tokens;
  OMMAI_TRY(ommai_document_find(search->documents, "tokenizer_config.json", search->allocator, path, &root, error));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    json_t *value = json_object_get(root, names[i]);
    if (json_is_object(value)) value = json_object_get(value, "content");
    if (json_is_string(value)) failed |= json_object_set(tokens, names[i], value) != 0;
  }
  json_decref(root);
  return failed ? ommai_fail_memory(error, path, 1) : OMMA_OK;
}

enum omma_status ommai_chat_template_read(const struct ommai_documents *documents, const char *file, bool or_family,
                                          const struct omma_allocator *allocator, const struct ommai_family *family,
                                          struct ommai_chat_choice *choice, struct omma_error *error) {
  const struct template_search search = {documents, allocator, family, choice};
  *choice = (struct ommai_chat_choice){.marks = family->marks};
  OMMAI_TRY(file ? take_file(&search, file, error) : find_template(&search, error));
  if (!choice->jinja && or_family) {
    OMMAI_TRY(ommai_jinja_create(family->chat_template, strlen(family->chat_template), allocator, &choice->jinja, error));
  }
  return read_special_tokens(&search, error);
}
