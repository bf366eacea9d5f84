/* A safetensors file: whatever is accepted can be listed, found and read. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/allocator.h"
#include "fuzz_input.h"
#include "weights/safetensors.h"

/* Keeps the reads. */
static volatile unsigned char sink;

static void read_all(const struct ommai_safetensors *file, size_t size) {
  uint64_t end = 0;
  for (int64_t i = 0; i < ommai_safetensors_count(file); i++) {
    const struct ommai_tensor *tensor = ommai_safetensors_at(file, i);
    FUZZ_CHECK(ommai_safetensors_find(file, tensor->name) == tensor);
    FUZZ_CHECK(tensor->n_dims >= 0 && tensor->n_dims <= OMMAI_TENSOR_MAX_DIMS && tensor->n_elements >= 0);
    FUZZ_CHECK(tensor->file_offset >= end && tensor->size_bytes <= size && tensor->file_offset <= size - tensor->size_bytes);
    for (uint64_t at = 0; at < tensor->size_bytes; at++) sink ^= ((const unsigned char *)tensor->data)[at];
    end = tensor->file_offset + tensor->size_bytes;
    ommai_safetensors_release(tensor);
  }
  (void)ommai_safetensors_metadata(file, "format");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  int memory = memfd_create("fuzz", 0);
  FUZZ_CHECK(memory >= 0 && write(memory, bytes, size) == (ssize_t)size);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
  struct ommai_safetensors *file = NULL;
  struct omma_error error = {.status = OMMA_OK};
  enum omma_status status = ommai_safetensors_open(path, &ommai_default_allocator, &file, &error);
  if (status == OMMA_OK) {
    read_all(file, size);
  } else {
    FUZZ_CHECK(!file && error.status == status && error.message[0] && memchr(error.message, 0, sizeof error.message));
  }
  ommai_safetensors_close(file);
  close(memory);
  return 0;
}
