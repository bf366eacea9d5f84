/* Layers that a checkpoint stores quantised, each in several tensors, and what stands for them: one
 * tensor of type QUANTISED, named as a plain layer's, whose values are what the format defines, in
 * f32. docs/quantized-checkpoints.md has the formats. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>

#include "weights/tensor.h"

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

/* Looks up how the layer of that name is stored. Errors: FORMAT for one that the configuration does
 * not cover, LIMIT. */
typedef enum omma_status (*ommai_storage_lookup)(void *context, const char *layer, struct ommai_storage *storage,
                                                 struct omma_error *error);

/* The quantised layers of a checkpoint. The tensors they are made of must live as long. */
struct ommai_stored_layers;

/* Finds the quantised layers among `count` tensors sorted by name and checks every tensor of each:
 * type, shape, scales that are numbers, and indices in range. used[i] becomes true for those of a
 * layer, or scales of activations, which nothing here needs. Errors: those of lookup; FORMAT for
 * tensors that are missing, do not fit or are NaN or infinity; UNSUPPORTED; LIMIT for names that
 * are too long; MEMORY. */
enum omma_status ommai_stored_layers_create(const struct ommai_tensor *const *sorted, int64_t count, bool *used,
                                            ommai_storage_lookup lookup, void *context, const struct omma_allocator *allocator,
                                            struct ommai_stored_layers **layers, struct omma_error *error);

/* NULL is allowed. */
void ommai_stored_layers_destroy(struct ommai_stored_layers *layers);

/* What stands for the layers: index in [0, count). They live as long as `layers`. */
int64_t ommai_stored_layers_count(const struct ommai_stored_layers *layers);
const struct ommai_tensor *ommai_stored_layers_at(const struct ommai_stored_layers *layers, int64_t index);
