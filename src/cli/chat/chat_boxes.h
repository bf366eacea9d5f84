/* What an answer locates on its images: as JSON, and drawn. */
#pragma once

#include <omma/omma.h>

#include "cli/chat/box_find.h"

/* Fails when the model's family gives no boxes. */
int ommai_chat_boxes_check(const struct omma_model *model);

/* Checks, before anything is asked, what --boxes names: a PNG by its ending, whose files (of every
 * image, ommai_chat_boxes_save) can be written as far as can be known, and are none that an image
 * comes from. Returns an exit code. */
int ommai_chat_boxes_check_path(const char *path, const char *const *images, size_t n_images);

/* Finds the boxes of an answer about images, which are parts of the question. A model whose family
 * gives no boxes has none. Returns an exit code; release the boxes in every case. */
int ommai_chat_boxes(const struct omma_model *model, const struct omma_part *images, size_t n_images, const char *text,
                     size_t size, struct ommai_boxes *boxes);

/* Draws them: the first image to `path`, any other with -2, -3, ... before the ending; images
 * without a box are not written. No box at all is a failure. */
int ommai_chat_boxes_save(const struct ommai_boxes *boxes, const struct omma_part *images, size_t n_images, const char *path);
