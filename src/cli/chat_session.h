/* The interactive conversation of `omma chat`. */
#ifndef OMMAI_CLI_CHAT_SESSION_H
#define OMMAI_CLI_CHAT_SESSION_H

#include "cli/chat_answer.h"

/* Reads questions from standard input, line by line, until its end or /quit. `conversation` may begin with a system message, which
 * /reset keeps. The `n_images` pictures go with the first question; they are taken over. Returns an exit code. */
int ommai_chat_session(struct omma_model *model, struct omma_engine *engine, const struct ommai_answer_options *options,
                       const struct omma_image_options *image_options, struct omma_image *const *images, size_t n_images,
                       struct ommai_conversation *conversation);

#endif
