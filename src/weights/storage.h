/* How the layers of a quantised checkpoint are stored; docs/quantized-checkpoints.md has the
 * formats. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum ommai_storage_format {
  OMMAI_STORAGE_PACKED, /* compressed-tensors' pack-quantized: LAYER.weight_packed */
  OMMAI_STORAGE_INT8,   /* compressed-tensors' int-quantized: LAYER.weight of type I8 */
  OMMAI_STORAGE_FLOAT8, /* LAYER.weight of type F8_E4M3, or a whole layer's experts in LAYER */
  OMMAI_STORAGE_AWQ,    /* AutoAWQ's gemm: LAYER.qweight, packed along the outputs */
  OMMAI_STORAGE_GPTQ    /* LAYER.qweight, packed along the inputs */
};

/* How a layer is stored, as the configuration next to the checkpoint gives it. */
struct ommai_storage {
  enum ommai_storage_format format;
  int bits;            /* of integers: 4 or 8 */
  int64_t group;       /* of integers: inputs that share a scale; 0: all of an output's */
  bool has_zeros;      /* integers: there are zero points */
  bool zeros_less_one; /* GPTQ: the file has them less one */
  /* FLOAT8: outputs and inputs that share a scale; 0: one scale for each output, or for all */
  int64_t block[2];
};
