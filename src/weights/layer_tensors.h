/* The tensors that a quantised layer is stored in, found by name and checked, and what the readers
 * make of them. For stored_layers.c and the readers. */
#pragma once

#include <omma/status.h>

#include "weights/float8_matrix.h"
#include "weights/integer_matrix.h"
#include "weights/storage.h"
#include "weights/tensor.h"

#define OMMAI_LAYER_MAX_NAME 400 /* of the tensors of a quantised layer */

/* A layer on its way from the tensors of the checkpoint. */
struct ommai_layer_tensors {
  const struct ommai_tensor *const *sorted; /* [count], by name */
  int64_t count;
  bool *used; /* [count] */
  const char *name;
  int name_size;                    /* of the layer's name, without what follows it */
  const struct ommai_tensor *codes; /* the tensor that the layer was found by */
  bool is_parameter;                /* the layer's name is that of the tensor itself: its experts */
};

/* What a reader makes: the tensor that stands for the layer, without its name, and the matrix
 * after it. */
struct ommai_stored_layer {
  struct ommai_tensor tensor;
  struct ommai_stored_matrix matrix;
  union {
    struct ommai_integer_matrix integers;
    struct ommai_float8_matrix float8;
  } of;
};

/* The tensor LAYER + suffix, which is marked as used, or NULL. */
const struct ommai_tensor *ommai_layer_tensor_find(const struct ommai_layer_tensors *tensors, const char *suffix);

/* The same, which must be there, of this type and shape. Errors: FORMAT. */
enum omma_status ommai_layer_tensor(const struct ommai_layer_tensors *tensors, const char *suffix, enum ommai_tensor_type type,
                                    int n_dims, const int64_t *shape, const struct ommai_tensor **out,
                                    struct omma_error *error);

/* Scales LAYER + suffix: F32, BF16 or F16, all finite, of this shape but for dimensions of 1.
 * Errors: FORMAT, UNSUPPORTED (the type). */
enum omma_status ommai_layer_scales(const struct ommai_layer_tensors *tensors, const char *suffix, int n_dims,
                                    const int64_t *shape, const struct ommai_tensor **out, struct omma_error *error);

/* FORMAT, beginning with file and name of the tensor, when LAYER + suffix is there. */
enum omma_status ommai_layer_refuse_tensor(const struct ommai_layer_tensors *tensors, const char *suffix, const char *why,
                                           struct omma_error *error);

/* That n_out and n_in are sizes that a matrix can have. Errors: FORMAT. */
enum omma_status ommai_layer_check_sizes(const struct ommai_layer_tensors *tensors, int64_t n_out, int64_t n_in,
                                         struct omma_error *error);

/* The tensor LAYER + suffix, if there is one, as the group of each input of a matrix whose sizes
 * are known: each in range, or -1 throughout, which means none. Where the groups are those of
 * the inputs' places, matrix->group_ids stays NULL. Errors: FORMAT. */
enum omma_status ommai_layer_group_ids(const struct ommai_layer_tensors *tensors, const char *suffix,
                                       struct ommai_integer_matrix *matrix, struct omma_error *error);

/* Makes `layer` a tensor [n_out, n_in] of its matrix of integers, whose members are set, but for
 * the codes, which are those of the tensors. */
void ommai_stored_layer_of_integers(const struct ommai_layer_tensors *tensors, struct ommai_stored_layer *layer);

/* The readers, one file for each family of forms. `layer` comes zeroed and stays where it is, as
 * the matrix points into it; the tensor's name and what follows from its shape are the caller's to
 * fill. Errors: FORMAT, UNSUPPORTED. */
enum omma_status ommai_read_packed_layer(const struct ommai_layer_tensors *tensors, const struct ommai_storage *storage,
                                         struct ommai_stored_layer *layer, struct omma_error *error);
enum omma_status ommai_read_int8_layer(const struct ommai_layer_tensors *tensors, const struct ommai_storage *storage,
                                       struct ommai_stored_layer *layer, struct omma_error *error);
enum omma_status ommai_read_float8_layer(const struct ommai_layer_tensors *tensors, const struct ommai_storage *storage,
                                         struct ommai_stored_layer *layer, struct omma_error *error);
enum omma_status ommai_read_awq_layer(const struct ommai_layer_tensors *tensors, const struct ommai_storage *storage,
                                      struct ommai_stored_layer *layer, struct omma_error *error);
enum omma_status ommai_read_gptq_layer(const struct ommai_layer_tensors *tensors, const struct ommai_storage *storage,
                                       struct ommai_stored_layer *layer, struct omma_error *error);
