/* A prompt by the checkpoint's own chat template, run by the renderer in src/jinja: for templates
 * that no built-in template stands for, and for what built-in templates have no place for, which
 * are tools, their calls and responses, and the template's own switches. */
#ifndef OMMAI_FAMILIES_TEMPLATE_PROMPT_H
#define OMMAI_FAMILIES_TEMPLATE_PROMPT_H

#include "families/chat_template.h"

/* A conversation and how it is to be rendered. */
struct ommai_conversation {
  const struct omma_message *messages; /* [n_messages] */
  size_t n_messages;
  const char *tools, *kwargs;  /* as in omma_request_options; NULL: none */
  int64_t temporal_patch_size; /* frames that make a temporal patch of a video */
  bool continue_final_message;
};

/* Writes the prompt: by a built-in template where the template is a known one (or `family_template`
 * is true) and the template has a place for everything, else by the template. Each image and video
 * stands where the template writes its token; texts of messages that spell these tokens stay texts.
 * Errors: ARGUMENT and UNSUPPORTED with the field ("messages", "tools", "chat_template_kwargs"),
 * FORMAT, LIMIT, MEMORY. */
enum omma_status ommai_conversation_render(const struct ommai_chat_choice *choice, bool family_template,
                                           const struct ommai_conversation *conversation, struct ommai_prompt_builder *builder,
                                           struct omma_error *error);

#endif
