/* How a directory's checkpoint is quantised: `quantization_config` of config.json (its own, or its
 * text_config's), or GPTQ's quantize_config.json. What is read is listed in
 * docs/quantized-checkpoints.md; everything else is refused by name. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>

#include "families/documents.h"
#include "weights/checkpoint.h"

struct ommai_quantization;

/* *quantization is NULL where the checkpoint is not quantised. Errors: IO, FORMAT, UNSUPPORTED,
 * LIMIT, MEMORY. */
enum omma_status ommai_quantization_read(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                         struct ommai_quantization **quantization, struct omma_error *error);

/* NULL is allowed. */
void ommai_quantization_destroy(struct ommai_quantization *quantization);

/* "compressed-tensors: 4-bit integers in groups of 128", for people. Lives as long as the
 * object. */
const char *ommai_quantization_description(const struct ommai_quantization *quantization);

/* An ommai_storage_lookup; context is the object, which must not be used by two threads at once. */
enum omma_status ommai_quantization_storage(void *context, const char *layer, struct ommai_storage *storage,
                                            struct omma_error *error);

/* Whether a layer of the language model with n_in inputs will be stored quantised, as far as the
 * configuration states, and what its integers are then: bits 0 for none; without functions. Not for
 * the output layer and routers, which tools leave alone. Errors: LIMIT, MEMORY. */
enum omma_status ommai_quantization_expect(struct ommai_quantization *quantization, const char *layer, int64_t n_in,
                                           bool *is_stored, struct ommai_stored_matrix *out, struct omma_error *error);

/* Opens the checkpoint of the directory with its quantised layers as tensors of values;
 * `quantization` may be NULL. Errors: as ommai_checkpoint_open and
 * ommai_checkpoint_read_quantised. */
enum omma_status ommai_quantization_open_checkpoint(struct ommai_quantization *quantization, const char *directory,
                                                    const struct omma_allocator *allocator,
                                                    struct ommai_checkpoint **checkpoint, struct omma_error *error);
