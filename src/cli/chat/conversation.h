/* The messages of a conversation, with the texts, images and videos in them. */
#pragma once

#include <omma/omma.h>

struct ommai_conversation {
  struct omma_message *messages;
  size_t count, capacity;
};

/* Adds a message: the attachments (cli/chat/attachments.h) first, then the text, which is copied.
 * Takes the attachments over, also when it fails. Returns an exit code. */
int ommai_conversation_add(struct ommai_conversation *conversation, enum omma_role role, struct omma_part *attachments,
                           size_t n_attachments, const char *text, size_t text_size);

/* Removes messages from the end until `count` are left. */
void ommai_conversation_truncate(struct ommai_conversation *conversation, size_t count);

/* Removes the last message, moves its attachments to `attachments`, which has room for them, and
 * returns how many they are. */
size_t ommai_conversation_take_back(struct ommai_conversation *conversation, struct omma_part *attachments);

void ommai_conversation_release(struct ommai_conversation *conversation);
