/* Reading one GGUF file: mapped, with every statement before its data checked before anything is
 * handed out.
 *
 * Format (github.com/ggml-org/ggml, docs/gguf.md), version 3, and 2, which is laid out alike;
 * little-endian: "GGUF", u32 version, u64 numbers of tensors and of keys; keys: string, u32 type,
 * value; an array is a u32 type, u64 length, elements; a string u64 length, bytes. Then tensors:
 * string, u32 dimensions, u64 lengths with the fastest first, u32 type, u64 offset from the data,
 * which begins at the next multiple of the key general.alignment (32 without). */
#pragma once

#include <omma/host.h>
#include <omma/status.h>

#include "weights/gguf_blocks.h"
#include "weights/tensor.h"

#define OMMAI_GGUF_MAX_KEYS 65536
#define OMMAI_GGUF_MAX_TENSORS 65536
#define OMMAI_GGUF_MAX_NAME 255 /* bytes in the name of a key or a tensor */
#define OMMAI_GGUF_MAX_DIMS 4
#define OMMAI_GGUF_MAX_ARRAY (1 << 24) /* elements of one array */
#define OMMAI_GGUF_MAX_ALIGNMENT (1 << 20)

/* Text in the file, without a NUL. */
struct ommai_gguf_text {
  const char *bytes;
  size_t size;
};

/* A tensor as the file has it. Lives as long as the file. */
struct ommai_gguf_tensor {
  const char *name;
  uint32_t type;
  const struct ommai_gguf_format *format;
  int n_dims; /* 1 to OMMAI_GGUF_MAX_DIMS */
  /* shape[0] changes slowest: the file's order turned round */
  int64_t shape[OMMAI_TENSOR_MAX_DIMS];
  int64_t n_elements; /* at least 1 */
  const unsigned char *data;
  uint64_t size_bytes, file_offset;
};

struct ommai_gguf;

/* Maps the file and checks everything before its data: names of printable ASCII, each once;
 * lengths; types that are read here; tensors that lie in the file, aligned, and not in each other.
 * The notes on mapped files in safetensors.h hold here too. Errors: IO; FORMAT; UNSUPPORTED
 * for a version or a tensor's type, by name; LIMIT; MEMORY. */
enum omma_status ommai_gguf_open(const char *path, const struct omma_allocator *allocator, struct ommai_gguf **file,
                                 struct omma_error *error);
/* NULL is allowed. */
void ommai_gguf_close(struct ommai_gguf *file);

const char *ommai_gguf_path(const struct ommai_gguf *file);

/* The tensors in the order of their names: index in [0, count). Thread-safe, as are all calls
 * below. */
int64_t ommai_gguf_count(const struct ommai_gguf *file);
const struct ommai_gguf_tensor *ommai_gguf_at(const struct ommai_gguf *file, int64_t index);
/* The tensor of that name, or NULL. O(log n). */
const struct ommai_gguf_tensor *ommai_gguf_find(const struct ommai_gguf *file, const char *name);

/* Gives the pages of a part of the file back to the kernel; it can still be read. */
void ommai_gguf_release(const struct ommai_gguf *file, uint64_t offset, uint64_t size);

/* ---- keys ---- */

/* Whether the key is there, whatever its type. */
bool ommai_gguf_has(const struct ommai_gguf *file, const char *key);

/* Typed reads, as in base/json.h: a missing key leaves *out and is an error only when `required`.
 * Integers may have any of the file's whole types. Errors: FORMAT. */
enum omma_status ommai_gguf_integer(const struct ommai_gguf *file, const char *key, bool required, int64_t low, int64_t high,
                                    int64_t *out, struct omma_error *error);
enum omma_status ommai_gguf_number(const struct ommai_gguf *file, const char *key, bool required, double *out,
                                   struct omma_error *error);
enum omma_status ommai_gguf_boolean(const struct ommai_gguf *file, const char *key, bool required, bool *out,
                                    struct omma_error *error);
enum omma_status ommai_gguf_string(const struct ommai_gguf *file, const char *key, bool required, struct ommai_gguf_text *out,
                                   struct omma_error *error);

/* An array, read from its beginning: of strings, or of integers, numbers and booleans alike as f64.
 * A missing key gives count 0. */
struct ommai_gguf_array {
  const unsigned char *at;
  uint32_t type; /* of the elements */
  uint64_t count, left;
};
enum omma_status ommai_gguf_strings(const struct ommai_gguf *file, const char *key, bool required, struct ommai_gguf_array *out,
                                    struct omma_error *error);
enum omma_status ommai_gguf_numbers(const struct ommai_gguf *file, const char *key, bool required, struct ommai_gguf_array *out,
                                    struct omma_error *error);
/* The next element; only while array->left is not 0. */
struct ommai_gguf_text ommai_gguf_next_string(struct ommai_gguf_array *array);
double ommai_gguf_next_number(struct ommai_gguf_array *array);
