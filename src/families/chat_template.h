/* A checkpoint's chat template: where it stands, and whether it can be rendered. */
#pragma once

#include <omma/host.h>

#include "families/documents.h"
#include "families/prompt_builder.h"
#include "jinja/jinja.h"

struct ommai_family;

enum { OMMAI_CHAT_PROBLEM_SIZE = 640 };

struct ommai_chat_choice {
  const struct ommai_media_marks *marks; /* the family's */
  /* the template; NULL: there is none, or it cannot be rendered, and the family's was not asked
   * for */
  struct ommai_jinja *jinja;
  /* "" where the checkpoint has a template that can be rendered; else one line: the file and what
   * is wrong there, or that there is no template */
  char problem[OMMAI_CHAT_PROBLEM_SIZE];
  /* what tokenizer_config.json gives templates: "bos_token" and its like; NULL: nothing */
  json_t *special_tokens;
  /* the template reads a message's content as a list of parts alone, not as a string; or the other
   * way round */
  bool lists_alone, strings_alone;
};

/* Zeroes are allowed. */
void ommai_chat_choice_free(struct ommai_chat_choice *choice);

/* True for the names of variables that a template gets of every request; requests cannot set them
 * as they like. */
bool ommai_chat_template_variable(const char *name, size_t size);

/* Takes the template from `file` where it is not NULL, else looks for it as transformers 5.23 does,
 * then vLLM: chat_template of processor_config.json, chat_template.json, chat_template.jinja,
 * chat_template of tokenizer_config.json (of several there, the one named default). Where none can
 * be rendered and `or_family` is true, the family's own form is taken. Errors: IO, FORMAT, LIMIT,
 * MEMORY. *choice is to be freed, also after an error. */
enum omma_status ommai_chat_template_read(const struct ommai_documents *documents, const char *file, bool or_family,
                                          const struct omma_allocator *allocator, const struct ommai_family *family,
                                          struct ommai_chat_choice *choice, struct omma_error *error);

/* Takes a text, for models of the family; `where` names it in the problem. Errors: MEMORY. */
enum omma_status ommai_chat_template_take(const char *where, const char *text, size_t size,
                                          const struct omma_allocator *allocator, const struct ommai_family *family,
                                          struct ommai_chat_choice *choice, struct omma_error *error);
