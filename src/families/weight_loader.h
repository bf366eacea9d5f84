/* Naming and packing a model's weights. A family names each tensor once, with its shape; the loader
 * then does what it was made for:
 *
 *   DESCRIBE  counts parameters and bytes, and shows each tensor to a visitor (which checks it, or
 *             reports on it)
 *   PACK      converts and packs into memory, then lets go of the file's pages
 *
 * so that sizes are known without weights, and every shape is checked before anything is packed. */
#pragma once

#include <omma/omma.h>

#include "families/quantization.h"
#include "families/weight_policy.h"
#include "weights/checkpoint.h"

enum ommai_loader_mode { OMMAI_LOADER_DESCRIBE, OMMAI_LOADER_PACK };

/* A tensor that the model wants. */
typedef enum omma_status (*ommai_tensor_visitor)(void *context, const char *name, int n_dims, const int64_t *shape,
                                                 struct omma_error *error);

struct ommai_weight_loader {
  enum ommai_loader_mode mode;
  struct omma_allocator allocator;
  const struct ommai_checkpoint *checkpoint; /* PACK; may be NULL in DESCRIBE */
  struct ommai_linear_context *linear_context;
  const struct omma_team *team; /* PACK: on which weights are packed; NULL: the caller alone */
  struct ommai_weight_policy policy;
  enum omma_dtype stored_type; /* of tensors that no checkpoint is there to show */
  ommai_tensor_visitor visit;  /* DESCRIBE; may be NULL */
  void *visit_context;
  /* DESCRIBE without a checkpoint: marks the layers that will be integers; may be NULL */
  struct ommai_quantization *quantization;
  struct ommai_linear_spec kept_by_role[OMMAI_WEIGHT_ROLES]; /* as `kept`, of each role */
  /* of the last layer that was packed or described; has_bias only where it was packed */
  struct ommai_linear_spec kept;
  int64_t n_parameters;
  int64_t n_vision_parameters; /* of these, the tower's, once it was loaded */
  int64_t bytes;               /* in memory */
  /* of these, packed weights and their scales, padding not counted */
  int64_t role_bytes[OMMAI_WEIGHT_ROLES];
  /* DESCRIBE: per worker of the linear context, the maximum over the layers */
  size_t scratch_bytes;
  /* of a row prepared for one of the language model's matrices, the maximum over them; and of one
   * of few rows */
  size_t prepared_row_bytes, gemv_row_bytes;
  /* rows that each layer so far takes in a run (ommai_linear_max_rows), 0: there was none; and
   * those of the tower alone, once it was loaded */
  int64_t max_rows, vision_max_rows;
  omma_progress progress; /* PACK: bytes of file read so far */
  void *progress_context;
  int64_t bytes_read, bytes_total;
};

/* A vector or small table as f32 [n_elements]; released with ommai_loader_free_vector. name may not
 * be longer than OMMAI_LOADER_MAX_NAME. */
#define OMMAI_LOADER_MAX_NAME 255
enum omma_status ommai_loader_vector(struct ommai_weight_loader *loader, const char *name, int n_dims, const int64_t *shape,
                                     float **out, struct omma_error *error);

/* One part of a stacked linear layer: weight [n_out, ...] named PREFIX.weight, and PREFIX.bias
 * where has_bias. */
struct ommai_linear_part {
  char prefix[OMMAI_LOADER_MAX_NAME + 1];
  int64_t n_out;
  bool has_bias;
};

/* Packs parts whose weights are [n_out, shape...] (shape's product is n_in; n_dims counts all
 * dimensions) into one layer. */
enum omma_status ommai_loader_linear(struct ommai_weight_loader *loader, enum ommai_weight_role role,
                                     const struct ommai_linear_part *parts, int n_parts, int n_dims, const int64_t *inner_shape,
                                     struct ommai_linear **out, struct omma_error *error);

/* A tensor that several layers take their matrices from: several experts, or the heads of one
 * projection. */
struct ommai_loader_tensor {
  const struct ommai_tensor *tensor; /* NULL without packing */
  const struct ommai_tensor *known;  /* the same where a checkpoint is open, also without packing */
  /* of its values; without packing the checkpoint's where it is open, else what is expected */
  enum omma_dtype type;
};
/* Counts and shows the tensor, or finds it; ommai_loader_close lets go of its pages after the last
 * matrix was packed. */
enum omma_status ommai_loader_open(struct ommai_weight_loader *loader, const char *name, int n_dims, const int64_t *shape,
                                   struct ommai_loader_tensor *out, struct omma_error *error);
void ommai_loader_close(struct ommai_weight_loader *loader, const struct ommai_loader_tensor *tensor);

/* The matrix [n_out][...] that begins `first` elements into the tensor; transposed:
 * [...][n_out]. */
struct ommai_linear_source ommai_loader_matrix(const struct ommai_loader_tensor *tensor, int64_t first, int64_t n_out,
                                               bool transposed);

/* Counts the bytes of, and packs, a layer from matrices of opened tensors. `name` is for
 * messages. */
enum omma_status ommai_loader_pack(struct ommai_weight_loader *loader, enum ommai_weight_role role, const char *name,
                                   const struct ommai_linear_source *sources, int n_sources, int64_t n_in,
                                   struct ommai_linear **out, struct omma_error *error);

/* DESCRIBE: counts the scratch of the layer that was described last, called in `call` or in parts
 * of it (linear_parts.h). Errors: as ommai_linear_op_create. */
enum omma_status ommai_loader_count_scratch(struct ommai_weight_loader *loader, bool has_bias,
                                            const struct ommai_linear_call *call, bool in_parts, struct omma_error *error);

/* The tensor of that name where a checkpoint is open and has it, else NULL: for names and shapes
 * that come in dialects. */
const struct ommai_tensor *ommai_loader_find(const struct ommai_weight_loader *loader, const char *name);

/* A table that stays in the file and is read row by row: *data and *type; or *stored, which is NULL
 * else. */
enum omma_status ommai_loader_mapped(struct ommai_weight_loader *loader, const char *name, int n_dims, const int64_t *shape,
                                     const void **data, enum omma_dtype *type, const struct ommai_stored_matrix **stored,
                                     struct omma_error *error);
