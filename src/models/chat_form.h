/* The chat form of a family, as strings: what stands around turns and pictures. */
#ifndef OMMAI_MODELS_CHAT_FORM_H
#define OMMAI_MODELS_CHAT_FORM_H

#include "models/prompt_builder.h"

#define OMMAI_CHAT_N_ROLES (OMMA_ROLE_ASSISTANT + 1)

struct ommai_chat_form {
  const char *turn_begin[OMMAI_CHAT_N_ROLES]; /* by role; the assistant's also ends a prompt that asks for an answer */
  const char *turn_end;
  const char *picture_begin, *picture_end; /* around a picture's tokens */
  const char *default_system; /* the first turn where the conversation does not begin with a system message; or NULL */
  bool late_system;           /* system messages may follow others */
  bool pictures_anywhere;     /* not in user messages alone */
};

/* Writes the conversation in this form. continue_final_message: the last message stays open and no answer is asked for. Errors:
 * ARGUMENT (a role or part where the form has no place for it), LIMIT, MEMORY. */
enum omma_status ommai_chat_form_render(const struct ommai_chat_form *form, const struct omma_message *messages,
                                        size_t n_messages, bool continue_final_message, struct ommai_prompt_builder *builder,
                                        struct omma_error *error);

#endif
