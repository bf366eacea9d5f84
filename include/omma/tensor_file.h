/* Results as files: tensors in the safetensors format. */
#ifndef OMMA_TENSOR_FILE_H
#define OMMA_TENSOR_FILE_H

#include <omma/host.h>
#include <omma/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum omma_tensor_type { OMMA_TENSOR_F32 = 0, OMMA_TENSOR_I64 = 1 };

/* A tensor to write: name, shape, contiguous data. Owned by the caller. */
struct omma_tensor {
  const char *name;
  enum omma_tensor_type type;
  int n_dims; /* at most 8 */
  int64_t shape[8];
  const void *data;
};
/* Writes a safetensors file, first next to the target, then renamed. So a failing write leaves no
 * partial file at the target. */
OMMA_API enum omma_status omma_save_tensors(const char *path, const struct omma_tensor *tensors, size_t n_tensors,
                                            struct omma_error *error);

/* The same, tensor by tensor, for results that do not fit into memory together. */
struct omma_tensor_file;

/* Begins a file of at most max_tensors tensors with names of at most OMMA_MAX_TENSOR_NAME bytes. It
 * is at `path` after omma_tensor_file_finish; before, it lies next to it under another name. One
 * thread at a time. The caller destroys it. Errors: ARGUMENT, IO, MEMORY. */
#define OMMA_MAX_TENSOR_NAME 60
OMMA_API enum omma_status omma_tensor_file_create(const char *path, size_t max_tensors, struct omma_tensor_file **file,
                                                  struct omma_error *error);
/* Writes a tensor after the others; nothing of it is kept but its name and shape. Errors: ARGUMENT
 * (a name that was added, too many), IO, MEMORY. */
OMMA_API enum omma_status omma_tensor_file_add(struct omma_tensor_file *file, const struct omma_tensor *tensor,
                                               struct omma_error *error);
/* Completes the file and puts it in place. Must be the last call before it is destroyed. Errors:
 * IO, MEMORY. */
OMMA_API enum omma_status omma_tensor_file_finish(struct omma_tensor_file *file, struct omma_error *error);
/* Removes a file that was not finished. NULL is allowed. */
OMMA_API void omma_tensor_file_destroy(struct omma_tensor_file *file);

#ifdef __cplusplus
}
#endif

#endif
