/* Writing a safetensors file tensor by tensor: nothing of a tensor is kept once it is written. The
 * bytes of the header are set aside at the beginning and filled at the end. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>

#include "weights/tensor.h"

struct ommai_safetensors_stream;

/* Creates a new file next to `path` with room for `max_tensors` names of at most
 * OMMAI_STREAM_NAME_BYTES each. Errors: ARGUMENT (more tensors than a header may have), IO,
 * MEMORY. */
#define OMMAI_STREAM_NAME_BYTES 64
enum omma_status ommai_safetensors_stream_create(const char *path, size_t max_tensors, const struct omma_allocator *allocator,
                                                 struct ommai_safetensors_stream **stream, struct omma_error *error);

/* Writes a tensor (row-major, little-endian) after the others. Errors: ARGUMENT (a name that was
 * added before or is too long, a shape without a size, more than max_tensors), IO, MEMORY. */
enum omma_status ommai_safetensors_stream_add(struct ommai_safetensors_stream *stream, const char *name,
                                              enum ommai_tensor_type type, int n_dims, const int64_t *shape, const void *data,
                                              struct omma_error *error);

/* Writes the header and renames the file to `path`. Errors: IO, MEMORY; the new file is removed
 * then. */
enum omma_status ommai_safetensors_stream_finish(struct ommai_safetensors_stream *stream, struct omma_error *error);

/* Removes a file that was not finished. NULL is allowed. */
void ommai_safetensors_stream_destroy(struct ommai_safetensors_stream *stream);
