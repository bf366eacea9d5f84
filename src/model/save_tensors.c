/* omma_save_tensors: results as a safetensors file. */
#include <omma/omma.h>

#include "base/allocator.h"
#include "base/error.h"
#include "weights/safetensors_writer.h"

enum omma_status omma_save_tensors(const char *path, const struct omma_tensor *tensors, size_t n_tensors,
                                   struct omma_error *error) {
  struct ommai_safetensors_writer *writer = NULL;
  enum omma_status status;
  OMMAI_TRY_GOTO(ommai_safetensors_writer_create(path, &ommai_default_allocator, &writer, error), done);
  for (size_t i = 0; i < n_tensors; i++) {
    enum ommai_tensor_type type = tensors[i].type == OMMA_TENSOR_I64 ? OMMAI_TENSOR_I64 : OMMAI_TENSOR_F32;
    OMMAI_TRY_GOTO(ommai_safetensors_writer_add(writer, tensors[i].name, type, tensors[i].n_dims, tensors[i].shape,
                                                tensors[i].data, error),
                   done);
  }
  status = ommai_safetensors_writer_finish(writer, error);
done:
  ommai_safetensors_writer_destroy(writer);
  return status;
}
