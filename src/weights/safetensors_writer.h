/* Writing a safetensors file: tensors are added first, then the file is written in one go and put
 * in place by rename. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>

#include "weights/tensor.h"

struct ommai_safetensors_writer;

/* A writer of the file at `path`, which is not touched before finish. Not thread-safe. Errors:
 * MEMORY. */
enum omma_status ommai_safetensors_writer_create(const char *path, const struct omma_allocator *allocator,
                                                 struct ommai_safetensors_writer **writer, struct omma_error *error);

/* Adds an entry to __metadata__; a key given twice keeps the last value. Errors: ARGUMENT for text
 * that is not UTF-8. */
enum omma_status ommai_safetensors_writer_metadata(struct ommai_safetensors_writer *writer, const char *key, const char *value,
                                                   struct omma_error *error);

/* Adds a tensor: row-major, little-endian, any alignment. The name is copied. The data is read by
 * finish and must live until then; NULL when it follows by ommai_safetensors_writer_data (an empty
 * tensor needs none). Errors: ARGUMENT for a name that is taken, reserved or not UTF-8 and for a
 * shape without a size; MEMORY. */
enum omma_status ommai_safetensors_writer_add(struct ommai_safetensors_writer *writer, const char *name,
                                              enum ommai_tensor_type type, int n_dims, const int64_t *shape, const void *data,
                                              struct omma_error *error);

/* Gives or replaces the data of a tensor added before. Errors: ARGUMENT for an unknown name. */
enum omma_status ommai_safetensors_writer_data(struct ommai_safetensors_writer *writer, const char *name, const void *data,
                                               struct omma_error *error);

/* Writes everything to a new file next to `path` and renames it to `path`, so that readers see the
 * old file or the whole new one. A link at `path` is replaced, anything else that is not a regular
 * file is refused. Tensors are ordered by falling element size, then by name, as the official
 * writer does, so that each is aligned to its element. On failure the new file is removed and the
 * old one stays. Errors: ARGUMENT for a tensor without data; IO with the path; MEMORY. */
enum omma_status ommai_safetensors_writer_finish(struct ommai_safetensors_writer *writer, struct omma_error *error);

/* NULL is allowed. */
void ommai_safetensors_writer_destroy(struct ommai_safetensors_writer *writer);
