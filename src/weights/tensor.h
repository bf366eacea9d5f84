/* A tensor as it lies in a file: name, element type, shape, and its bytes inside the mapped
 * file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weights/stored_matrix.h"

/* The element types of the safetensors format, of which the three below one byte are packed without
 * gaps; and QUANTISED, a matrix, or several above each other, in a form of its own
 * (weights/stored_matrix.h). */
enum ommai_tensor_type {
  OMMAI_TENSOR_F64,
  OMMAI_TENSOR_F32,
  OMMAI_TENSOR_F16,
  OMMAI_TENSOR_BF16,
  OMMAI_TENSOR_I64,
  OMMAI_TENSOR_I32,
  OMMAI_TENSOR_I16,
  OMMAI_TENSOR_I8,
  OMMAI_TENSOR_U64,
  OMMAI_TENSOR_U32,
  OMMAI_TENSOR_U16,
  OMMAI_TENSOR_U8,
  OMMAI_TENSOR_BOOL,
  OMMAI_TENSOR_C64,
  OMMAI_TENSOR_F8_E4M3,
  OMMAI_TENSOR_F8_E5M2,
  OMMAI_TENSOR_F8_E8M0,
  OMMAI_TENSOR_F8_E4M3FNUZ,
  OMMAI_TENSOR_F8_E5M2FNUZ,
  OMMAI_TENSOR_F6_E2M3,
  OMMAI_TENSOR_F6_E3M2,
  OMMAI_TENSOR_F4,
  OMMAI_TENSOR_TYPE_COUNT, /* that many can be named in a safetensors file */
  OMMAI_TENSOR_QUANTISED = OMMAI_TENSOR_TYPE_COUNT
};

/* The name that the format uses ("BF16"), a constant string; "quantised" and, for other values,
 * "unknown type". */
const char *ommai_tensor_type_name(enum ommai_tensor_type type);

/* Bits per element: 4 to 64; 0 for QUANTISED and for values outside the enum. */
int ommai_tensor_type_bits(enum ommai_tensor_type type);

/* False when the format has no type of that name. */
bool ommai_tensor_type_parse(const char *name, enum ommai_tensor_type *out);

#define OMMAI_TENSOR_MAX_DIMS 8

struct ommai_safetensors;
struct ommai_gguf;

/* Row-major, little-endian. `data` points into the mapped file and has NO alignment, whatever the
 * type: the format allows a header of any length, so values must be read with memcpy. Everything
 * here belongs to the file and lives until it is closed; reading is thread-safe. */
struct ommai_tensor {
  const char *name;
  enum ommai_tensor_type type;
  int n_dims;                           /* 0 for a scalar */
  int64_t shape[OMMAI_TENSOR_MAX_DIMS]; /* shape[0] changes slowest; entries from n_dims on are 0 */
  /* the product of the shape: 1 for a scalar, 0 for an empty tensor */
  int64_t n_elements;
  const void *data;
  uint64_t size_bytes;
  uint64_t file_offset; /* of data, from the start of the file */
  const struct ommai_safetensors *file;
  const struct ommai_gguf *gguf; /* where file is NULL; both NULL: data is in memory */
  /* QUANTISED: the values, whose inputs are the last dimension and whose outputs all others; else
   * NULL. data and size_bytes are then the largest of what it is stored as. */
  const struct ommai_stored_matrix *stored;
};

/* The element count and the size in bytes of a shape. False when n_dims is not in 0..8, a length is
 * negative, a product overflows int64_t, or the elements (types below one byte) do not fill whole
 * bytes. */
bool ommai_tensor_size(enum ommai_tensor_type type, int n_dims, const int64_t *shape, int64_t *n_elements,
                       uint64_t *size_bytes);

/* True when the tensor has exactly this shape. */
bool ommai_tensor_has_shape(const struct ommai_tensor *tensor, int n_dims, const int64_t *shape);

#define OMMAI_SHAPE_TEXT_SIZE 184 /* enough for 8 lengths of 20 characters each */

/* "[2, 3]" for messages, of up to MAX_DIMS lengths; "[]" for a scalar. Returns out. */
const char *ommai_shape_text(char out[OMMAI_SHAPE_TEXT_SIZE], int n_dims, const int64_t *shape);

/* Elements [first, first + count) of an F32, BF16, F16 or QUANTISED tensor as f32 into out[count],
 * exact. False, with out untouched, for other types and for a range outside the tensor. */
bool ommai_tensor_to_f32(const struct ommai_tensor *tensor, int64_t first, int64_t count, float *out);

/* How many elements of an F64, F32, BF16, F16 or QUANTISED tensor are NaN or infinite; 0 for other
 * types. Reads the whole tensor. */
int64_t ommai_tensor_count_nonfinite(const struct ommai_tensor *tensor);
