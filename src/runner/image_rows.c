#include "runner/image_rows.h"

#include <math.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/half.h"

/* In one block with the pointers of views and the values behind it. */
struct ommai_image_rows {
  struct omma_allocator allocator;
  struct ommai_image_shape shape;
  int64_t n_tokens;
  const float **deepstack; /* [n_deepstack] */
  float *values;           /* [1 + n_deepstack, n_tokens, width] */
};

size_t ommai_image_rows_bytes(const struct ommai_image_shape *shape, int64_t n_tokens) {
  return (size_t)((1 + shape->n_deepstack) * n_tokens * shape->width) * sizeof(float);
}

/* Bytes before the values. */
static size_t header_bytes(const struct ommai_image_shape *shape) {
  size_t size = sizeof(struct ommai_image_rows) + (size_t)shape->n_deepstack * sizeof(float *);
  return (size_t)ommai_round_up((int64_t)size, OMMAI_ALIGNMENT);
}

enum omma_status ommai_image_rows_create(const struct ommai_image_shape *shape, int64_t n_tokens,
                                         const struct omma_allocator *allocator, struct ommai_image_rows **out,
                                         struct omma_error *error) {
  size_t header = header_bytes(shape), size = header + ommai_image_rows_bytes(shape, n_tokens);
  struct ommai_image_rows *rows = ommai_allocate_uninitialised(allocator, size, 1);
  if (!rows) return ommai_fail_memory(error, "an image's rows", size);
  *rows = (struct ommai_image_rows){.allocator = *allocator, .shape = *shape, .n_tokens = n_tokens};
  rows->deepstack = (const float **)(void *)(rows + 1);
  rows->values = (float *)(void *)((unsigned char *)rows + header);
  for (int64_t i = 0; i < shape->n_deepstack; i++) rows->deepstack[i] = rows->values + (1 + i) * n_tokens * shape->width;
  *out = rows;
  return OMMA_OK;
}

void ommai_image_rows_free(struct ommai_image_rows *rows) {
  if (!rows) return;
  struct omma_allocator allocator = rows->allocator;
  ommai_release(&allocator, rows, header_bytes(&rows->shape) + ommai_image_rows_size(rows), 1);
}

void *ommai_image_rows_data(struct ommai_image_rows *rows) { return rows->values; }

size_t ommai_image_rows_size(const struct ommai_image_rows *rows) {
  return ommai_image_rows_bytes(&rows->shape, rows->n_tokens);
}

bool ommai_image_rows_finite(const struct ommai_image_rows *rows) {
  size_t n = ommai_image_rows_size(rows) / sizeof *rows->values;
  bool finite = true;
  for (size_t i = 0; i < n; i++) finite &= isfinite(rows->values[i]) != 0;
  return finite;
}

int64_t ommai_image_rows_tokens(const struct ommai_image_rows *rows) { return rows->n_tokens; }

void ommai_image_rows_view(const struct ommai_image_rows *rows, struct omma_image_embeddings *view) {
  view->n_tokens = rows->n_tokens;
  view->width = rows->shape.width;
  view->merged = rows->values;
  view->n_deepstack = rows->shape.n_deepstack;
  view->deepstack = rows->deepstack;
}

static void copy_row(const float *values, size_t n, enum omma_dtype type, void *rows, size_t at) {
  if (type == OMMA_F32) {
    memcpy((float *)rows + at, values, n * sizeof *values);
    return;
  }
  for (size_t i = 0; i < n; i++) ((uint16_t *)rows)[at + i] = ommai_bf16_from_f32(values[i]);
}

void ommai_image_view_copy(const struct omma_image_embeddings *view, enum omma_dtype type, void *out) {
  size_t width = (size_t)view->width, n_tensors = 1 + (size_t)view->n_deepstack;
  for (size_t i = 0; i < (size_t)view->n_tokens; i++) {
    for (size_t j = 0; j < n_tensors; j++) {
      const float *values = j ? view->deepstack[j - 1] : view->merged;
      copy_row(values + i * width, width, type, out, (i * n_tensors + j) * width);
    }
  }
}
