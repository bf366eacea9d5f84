/* The inputs of `omma embed` and the documents of `omma rerank`, one after the other: images of the
 * command line, texts of it, and the lines of a file. */
#pragma once

#include <jansson.h>
#include <omma/omma.h>

#include "cli/core/options.h"
#include "cli/core/text_lines.h"

/* Images and frames of one input. */
#define OMMAI_VECTOR_MAX_IMAGES 64

/* Set the sources, zero the rest; release in every case. */
struct ommai_vector_items {
  struct ommai_strings images, texts;
  const char *file; /* of JSON lines, "-": standard input; NULL: none */
  size_t at;        /* of the words that are over */
  int64_t n;        /* inputs so far */
  struct ommai_text_lines lines;
  bool opened;
  int64_t size; /* of the file; 0: a pipe */
};

/* An input. Strings live until the next one; release in every case. */
struct ommai_vector_item {
  char name[96];           /* for messages */
  const char *instruction; /* NULL: none of its own */
  struct omma_part parts[OMMAI_VECTOR_MAX_IMAGES + 2];
  size_t n_parts;
  struct omma_image *images[OMMAI_VECTOR_MAX_IMAGES];
  size_t n_images;
  struct omma_video video;
  json_t *line;
};

/* Whether there may be any. */
bool ommai_vector_items_exist(const struct ommai_vector_items *items);

/* How many there are. As a file is not read before its time, it is estimated from the length of the
 * lines so far; -1: of a pipe, not known. */
int64_t ommai_vector_items_count(const struct ommai_vector_items *items);

enum ommai_vector_next { OMMAI_VECTOR_ITEM, OMMAI_VECTOR_BAD_ITEM, OMMAI_VECTOR_END, OMMAI_VECTOR_FAILED };

/* The next one. BAD_ITEM: it cannot be used, which has been reported; FAILED: nor can what follows.
 * END also when an interrupt ends the wait for a line. */
enum ommai_vector_next ommai_vector_items_next(struct ommai_vector_items *items, struct ommai_vector_item *item);
void ommai_vector_items_release(struct ommai_vector_items *items);
void ommai_vector_item_release(struct ommai_vector_item *item);

/* Loads one more image into the item. Returns an exit code; the error has been printed. */
int ommai_vector_item_add_image(struct ommai_vector_item *item, const char *source);
void ommai_vector_item_add_text(struct ommai_vector_item *item, const char *text, size_t size);
