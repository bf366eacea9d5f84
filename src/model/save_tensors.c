/* omma_save_tensors and omma_tensor_file: results as a safetensors file. */
#include <omma/omma.h>

#include "base/allocator.h"
#include "base/error.h"
#include "weights/safetensors_stream.h"
#include "weights/safetensors_writer.h"

static enum ommai_tensor_type type_of(const struct omma_tensor *tensor) {
  return tensor->type == OMMA_TENSOR_I64 ? OMMAI_TENSOR_I64 : OMMAI_TENSOR_F32;
}

enum omma_status omma_save_tensors(const char *path, const struct omma_tensor *tensors, size_t n_tensors,
                                   struct omma_error *error) {
  struct ommai_safetensors_writer *writer = NULL;
  enum omma_status status;
  OMMAI_TRY_GOTO(ommai_safetensors_writer_create(path, &ommai_default_allocator, &writer, error), done);
  for (size_t i = 0; i < n_tensors; i++) {
    OMMAI_TRY_GOTO(ommai_safetensors_writer_add(writer, tensors[i].name, type_of(&tensors[i]), tensors[i].n_dims,
                                                tensors[i].shape, tensors[i].data, error),
                   done);
  }
  status = ommai_safetensors_writer_finish(writer, error);
done:
  ommai_safetensors_writer_destroy(writer);
  return status;
}

/* The public name of the stream. */
static struct ommai_safetensors_stream *stream_of(struct omma_tensor_file *file) { return (void *)file; }

enum omma_status omma_tensor_file_create(const char *path, size_t max_tensors, struct omma_tensor_file **file,
                                         struct omma_error *error) {
  struct ommai_safetensors_stream *stream;
  OMMAI_TRY(ommai_safetensors_stream_create(path, max_tensors, &ommai_default_allocator, &stream, error));
  *file = (void *)stream;
  return OMMA_OK;
}

enum omma_status omma_tensor_file_add(struct omma_tensor_file *file, const struct omma_tensor *tensor,
                                      struct omma_error *error) {
  return ommai_safetensors_stream_add(stream_of(file), tensor->name, type_of(tensor), tensor->n_dims, tensor->shape,
                                      tensor->data, error);
}

enum omma_status omma_tensor_file_finish(struct omma_tensor_file *file, struct omma_error *error) {
  return ommai_safetensors_stream_finish(stream_of(file), error);
}

void omma_tensor_file_destroy(struct omma_tensor_file *file) { ommai_safetensors_stream_destroy(stream_of(file)); }
