/* The messages of a conversation, with the texts and pictures in them. */
#ifndef OMMAI_CLI_CONVERSATION_H
#define OMMAI_CLI_CONVERSATION_H

#include <omma/omma.h>

struct ommai_conversation {
  struct omma_message *messages;
  size_t count, capacity;
};

/* Adds a message: the pictures first, then the text, which is copied. Takes the pictures over, also when it fails. `image_options`
 * may be NULL when there are none. Returns an exit code. */
int ommai_conversation_add(struct ommai_conversation *conversation, enum omma_role role, struct omma_image *const *images,
                           size_t n_images, const struct omma_image_options *image_options, const char *text, size_t text_size);

/* Removes messages from the end until `count` are left. */
void ommai_conversation_truncate(struct ommai_conversation *conversation, size_t count);

void ommai_conversation_release(struct ommai_conversation *conversation);

#endif
