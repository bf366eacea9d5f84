/* The messages of a conversation, with the texts in them and what is attached to these: images and
 * videos, as parts of a message. */
#pragma once

#include <omma/omma.h>

/* How attachments are prepared. */
struct ommai_attachment_options {
  struct omma_image_options sizes;
  double fps; /* of videos */
};

/* Loads the image that `source` names, as ommai_load_image does. Both return an exit code; the
 * error has been printed. */
int ommai_attach_image(const char *source, const struct ommai_attachment_options *options, struct omma_part *part);

/* Loads the video whose frames `source` names: a folder of image files, taken in the order of their
 * names with numbers counted as numbers, or files with commas between. */
int ommai_attach_video(const char *source, const struct ommai_attachment_options *options, struct omma_part *part);

/* Releases an attachment. A zeroed part is allowed. */
void ommai_attachment_release(struct omma_part *part);

struct ommai_conversation {
  struct omma_message *messages;
  size_t count, capacity;
};

/* Adds a message: the attachments first, then the text, which is copied.
 * Takes the attachments over, also when it fails. Returns an exit code. */
int ommai_conversation_add(struct ommai_conversation *conversation, enum omma_role role, struct omma_part *attachments,
                           size_t n_attachments, const char *text, size_t text_size);

/* Removes messages from the end until `count` are left. */
void ommai_conversation_truncate(struct ommai_conversation *conversation, size_t count);

/* Removes the last message, moves its attachments to `attachments`, which has room for them, and
 * returns how many they are. */
size_t ommai_conversation_take_back(struct ommai_conversation *conversation, struct omma_part *attachments);

void ommai_conversation_release(struct ommai_conversation *conversation);
