/* A checkpoint's chat template: where it stands, and which of the family's built-in templates
 * renders as it does, if one does. */
#ifndef OMMAI_FAMILIES_CHAT_TEMPLATE_H
#define OMMAI_FAMILIES_CHAT_TEMPLATE_H

#include <omma/host.h>

#include "families/builtin_template.h"
#include "families/documents.h"
#include "families/known_templates.h"
#include "jinja/jinja.h"

struct ommai_family;

/* A known template and the built-in template that renders as it does. A family's list ends in a
 * NULL name; its first is the family's own. */
struct ommai_chat_variant {
  const char *name; /* whose template it is, for messages */
  const struct ommai_known_template *known;
  const struct ommai_builtin_template *template;
};

enum { OMMAI_CHAT_DIFFERENCE_SIZE = 640 };

struct ommai_chat_choice {
  /* that the checkpoint has; else the nearest known, or the family's first */
  const struct ommai_chat_variant *variant;
  /* "" where the checkpoint has the variant's template; else one line about what differs:
   * the file and the first line that differs, or that there is no template. */
  char difference[OMMAI_CHAT_DIFFERENCE_SIZE];
  /* the template; NULL: there is none, or it is none of the known ones and cannot be rendered,
   * that difference names */
  struct ommai_jinja *jinja;
  /* what tokenizer_config.json gives templates: "bos_token" and its like; NULL: nothing */
  json_t *special_tokens;
};

/* Zeroes are allowed. */
void ommai_chat_choice_free(struct ommai_chat_choice *choice);

/* True for the names of variables that a template gets of every request; requests cannot set them
 * as they like. */
bool ommai_chat_template_variable(const char *name, size_t size);

/* Takes the template from `file` where it is not NULL, else looks for it as transformers 5.23 does,
 * then vLLM: chat_template of processor_config.json, chat_template.json, chat_template.jinja,
 * chat_template of tokenizer_config.json (of several there, the one named default). Errors: IO,
 * FORMAT, LIMIT, MEMORY. *choice is to be freed, also after an error. */
enum omma_status ommai_chat_template_read(const struct ommai_documents *documents, const char *file,
                                          const struct omma_allocator *allocator, const struct ommai_family *family,
                                          struct ommai_chat_choice *choice, struct omma_error *error);

/* The same for a text; `where` names it in the difference. */
enum omma_status ommai_chat_template_compare(const char *where, const char *text, size_t size,
                                             const struct omma_allocator *allocator, const struct ommai_family *family,
                                             struct ommai_chat_choice *choice, struct omma_error *error);

#endif
