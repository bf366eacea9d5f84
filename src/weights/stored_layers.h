/* Layers that a checkpoint stores quantised, each in several tensors, and what stands for them: one
 * tensor of type QUANTISED, named as a plain layer's, whose values are what the format defines, in
 * f32. docs/quantized-checkpoints.md has the formats. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>

#include "weights/storage.h"
#include "weights/tensor.h"

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
