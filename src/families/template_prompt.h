/* A prompt by a chat template: the conversation as the template's variables, what it renders, and
 * that nothing of the conversation is missing there. */
#pragma once

#include "families/chat_template.h"

/* A conversation and how it is to be rendered. */
struct ommai_conversation {
  const struct omma_message *messages; /* [n_messages] */
  size_t n_messages;
  const char *tools, *kwargs;  /* as in omma_request_options; NULL: none */
  int64_t temporal_patch_size; /* frames that make a temporal patch of a video */
  bool continue_final_message, no_generation_prompt;
};

/* Writes the prompt. choice->jinja must be there. Each image and video stands where the template
 * writes its token; texts of messages that spell these tokens stay texts. Errors: ARGUMENT (also
 * where the template leaves out a text, an image or a video) and UNSUPPORTED with the field
 * ("messages", "tools", "chat_template_kwargs"), FORMAT, LIMIT, MEMORY. */
enum omma_status ommai_conversation_render(const struct ommai_chat_choice *choice,
                                           const struct ommai_conversation *conversation, struct ommai_prompt_builder *builder,
                                           struct omma_error *error);
