/* What goes with a question: images and videos, as parts of a message. */
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
