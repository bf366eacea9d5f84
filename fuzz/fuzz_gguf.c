/* A GGUF file: whatever is accepted can be listed, found and read, keys and values. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/allocator.h"
#include "fuzz_input.h"
#include "weights/gguf.h"

/* Keeps the reads. */
static volatile double sink;

static void read_tensors(const struct ommai_gguf *file, size_t size) {
  for (int64_t i = 0; i < ommai_gguf_count(file); i++) {
    const struct ommai_gguf_tensor *tensor = ommai_gguf_at(file, i);
    int64_t n_in = tensor->shape[tensor->n_dims - 1];
    const struct ommai_gguf_rows rows = {tensor->format, tensor->data, n_in};
    FUZZ_CHECK(ommai_gguf_find(file, tensor->name) == tensor);
    FUZZ_CHECK(tensor->size_bytes <= size && tensor->file_offset <= size - tensor->size_bytes);
    for (int64_t at = 0; at < tensor->n_elements; at++) {
      float value;
      ommai_gguf_row_values(&rows, at / n_in, at % n_in, 1, &value);
      sink += (double)value;
    }
    ommai_gguf_release(file, tensor->file_offset, tensor->size_bytes);
  }
}

static void read_key(const struct ommai_gguf *file, const char *name) {
  int64_t integer;
  double number;
  bool flag;
  struct ommai_gguf_text text;
  struct ommai_gguf_array array;
  if (ommai_gguf_integer(file, name, true, 0, INT32_MAX, &integer, NULL) == OMMA_OK) sink += (double)integer;
  if (ommai_gguf_number(file, name, true, &number, NULL) == OMMA_OK) sink += number;
  if (ommai_gguf_boolean(file, name, true, &flag, NULL) == OMMA_OK) sink += flag;
  if (ommai_gguf_string(file, name, true, &text, NULL) == OMMA_OK && text.size) sink += text.bytes[text.size - 1];
  if (ommai_gguf_numbers(file, name, true, &array, NULL) == OMMA_OK) {
    while (array.left) sink += ommai_gguf_next_number(&array);
  }
  if (ommai_gguf_strings(file, name, true, &array, NULL) != OMMA_OK) return;
  while (array.left) {
    text = ommai_gguf_next_string(&array);
    if (text.size) sink += text.bytes[text.size - 1];
  }
}

static void read_keys(const struct ommai_gguf *file) {
  static const char *const names[] = {"key.u8",      "key.i16",      "key.u64",    "key.f32",     "key.f64",
                                      "key.bool",    "key.i8",       "key.string", "key.strings", "key.integers",
                                      "key.numbers", "key.booleans", "key.u16",    "key.i32"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) read_key(file, names[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  int memory = memfd_create("fuzz", 0);
  FUZZ_CHECK(memory >= 0 && write(memory, bytes, size) == (ssize_t)size);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
  struct ommai_gguf *file = NULL;
  struct omma_error error = {.status = OMMA_OK};
  enum omma_status status = ommai_gguf_open(path, &ommai_default_allocator, &file, &error);
  if (status == OMMA_OK) {
    read_tensors(file, size);
    read_keys(file);
  } else {
    FUZZ_CHECK(!file && error.status == status && error.message[0] && memchr(error.message, 0, sizeof error.message));
  }
  ommai_gguf_close(file);
  close(memory);
  return 0;
}
