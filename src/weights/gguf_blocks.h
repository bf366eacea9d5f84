/* The element types of GGUF tensors: blocks of values with scales of their own, and plain numbers.
 * Source: ggml's ggml-common.h and ggml-quants.c (the block layouts), and the dequantize functions
 * of the Python package `gguf`, whose f32 results these give bit for bit. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "weights/stored_matrix.h"
#include "weights/tensor.h"

/* Up to 32 values with one scale: W = scale * q - minimum. Blocks of several groups have factors of
 * these, too. */
struct ommai_gguf_group {
  int8_t q[32];
  float scale, minimum;
  struct ommai_scale_factors factors;
};

/* How one type is stored. Blocks follow each other without gaps; a row is whole blocks. */
struct ommai_gguf_format {
  const char *name; /* as ggml calls it: "Q4_K" */
  /* F32, F16 or BF16; else QUANTISED, and what stands below is filled in */
  enum ommai_tensor_type plain;
  int64_t block_size;  /* values in a block; 1 for plain numbers */
  int64_t block_bytes; /* at any address */
  int64_t group_size;  /* values with one scale, a divisor of the block */
  /* 4 or 6: q is -8 .. 7 or -32 .. 31, where has_minimums 0 .. 15 or 0 .. 63; 8: any */
  int bits;
  bool has_minimums;    /* else minimum is 0 */
  bool has_half_scales; /* scale and minimum are numbers of f16 */
  void (*read_group)(const unsigned char *block, int64_t group, struct ommai_gguf_group *out);
};

/* The format of a type's number in the file, or NULL: it is not read here. Constant. */
const struct ommai_gguf_format *ommai_gguf_format(uint32_t type);

/* What ggml calls a type, whether it is read here or not; "an unknown type" where the number means
 * none. */
const char *ommai_gguf_type_name(uint32_t type);

/* The names of all types that are read, separated by blanks, for messages. */
#define OMMAI_GGUF_TYPE_LIST "F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4"

/* Rows of blocks in a file. */
struct ommai_gguf_rows {
  const struct ommai_gguf_format *format;
  const unsigned char *data;
  int64_t n_in; /* whole blocks */
};

/* values [first, first + n) of a row into out; any format. */
void ommai_gguf_row_values(const struct ommai_gguf_rows *rows, int64_t row, int64_t first, int64_t n, float *out);

/* The rows as a stored matrix, whose context they are: they must live as long. The format is none
 * of plain numbers. */
struct ommai_stored_matrix ommai_gguf_stored_matrix(const struct ommai_gguf_rows *rows);
