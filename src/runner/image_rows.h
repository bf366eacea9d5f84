/* An image's rows as a runner's tower made them, on their way to prompts and to callers: an opaque
 * block of bytes with an owner, of which only runners and the readers of embeddings know that they
 * are numbers. */
#pragma once

#include <omma/omma.h>

struct ommai_image_rows;

/* What the rows of all images of a network are: f32 [1 + n_deepstack, tokens, width]. */
struct ommai_image_shape {
  int64_t width, n_deepstack;
};

/* Bytes of the rows of n_tokens tokens. */
size_t ommai_image_rows_bytes(const struct ommai_image_shape *shape, int64_t n_tokens);

/* Rows of unknown content. They know their allocator, so that they may outlive everything else;
 * any thread may free them. Errors: MEMORY. */
enum omma_status ommai_image_rows_create(const struct ommai_image_shape *shape, int64_t n_tokens,
                                         const struct omma_allocator *allocator, struct ommai_image_rows **rows,
                                         struct omma_error *error);
/* NULL is allowed. */
void ommai_image_rows_free(struct ommai_image_rows *rows);

/* The rows as stores of encodings have them: ommai_image_rows_size(rows) bytes, 64-aligned, in
 * values of OMMAI_IMAGE_VALUE_BYTES. */
#define OMMAI_IMAGE_VALUE_BYTES 4
void *ommai_image_rows_data(struct ommai_image_rows *rows);
size_t ommai_image_rows_size(const struct ommai_image_rows *rows);
int64_t ommai_image_rows_tokens(const struct ommai_image_rows *rows);

/* Whether all values are numbers. */
bool ommai_image_rows_finite(const struct ommai_image_rows *rows);

/* The rows as callers of the library see them; grid_thw is the caller's to set. The view lives as
 * long as the rows. */
void ommai_image_rows_view(const struct ommai_image_rows *rows, struct omma_image_embeddings *view);
/* omma_embeddings_copy_rows of a view. */
void ommai_image_view_copy(const struct omma_image_embeddings *view, enum omma_dtype type, void *out);
