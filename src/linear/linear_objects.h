/* What the files of this folder know of each other's objects. */
#ifndef OMMAI_LINEAR_LINEAR_OBJECTS_H
#define OMMAI_LINEAR_LINEAR_OBJECTS_H

#include "base/allocator.h"
#include "kernels/few_rows.h"
#include "linear/linear.h"
#include "linear/onednn.h"

#define OMMAI_LADDER_STEPS 15

/* The row counts in use for one layout, rising; the last divides OMMAI_LINEAR_MAX_ROWS, and larger tiles take several. */
struct ommai_ladder {
  int n_steps;
  int64_t rows[OMMAI_LADDER_STEPS];
};

/* The products of one shape for a whole ladder. */
struct ommai_ladder_products {
  struct ommai_ladder_products *next;
  const struct ommai_ladder *ladder;
  struct ommai_onednn_shape shape;                       /* n_rows is 0 */
  size_t scratch_bytes;                                  /* the most that a step takes */
  struct ommai_onednn_matmul *steps[OMMAI_LADDER_STEPS]; /* NULL until they are wanted */
};

struct ommai_linear_scratch {
  void *memory;
  size_t size;
};

/* An int8 layer in one form of call. */
struct ommai_int8_op;

struct ommai_linear_engine {
  struct omma_allocator allocator;
  enum ommai_cpu_level level;
  int n_workers;
  const struct omma_team *packing_team; /* NULL: the caller alone */
  struct ommai_onednn *onednn;
  struct ommai_few_rows_kernels few_rows;
  enum ommai_weight_layout layouts[2]; /* by compute type: OMMA_F32, OMMA_BF16 */
  struct ommai_ladder ladders[2];
  struct ommai_ladder part_ladders[2]; /* of ops over a part of the outputs */
  bool has_int8;
  struct ommai_ladder_products *products;
  struct ommai_linear_scratch *scratch; /* [n_workers] */
};

struct ommai_linear {
  const struct ommai_linear_engine *engine;
  struct ommai_few_rows_weights packed; /* x_type is the compute type */
  void *weights;                        /* what packed.weights points to */
  float *bias;                          /* [n_panels * 64] */
  float *scales;                        /* of int8 weights [n_panels * 64], else NULL */
  int32_t *weight_sums;                 /* of int8 weights [n_panels * 64]: what a zero point of 1 adds to a sum */
  bool has_bias;
  size_t weight_bytes;
  struct ommai_onednn_operand *operand;
};

/* ---- products --------------------------------------------------------------------------------------------------------- */

/* What the engine knows of the products of this shape; found out where it knows nothing, without making them. Errors: MEMORY,
 * UNSUPPORTED, INTERNAL. */
enum omma_status ommai_linear_describe_products(struct ommai_linear_engine *engine, const struct ommai_onednn_shape *shape,
                                                const struct ommai_ladder *ladder, struct ommai_ladder_products **out,
                                                struct omma_error *error);

/* The same, with the products of the ladder's steps made where the engine has none yet. */
enum omma_status ommai_linear_find_products(struct ommai_linear_engine *engine, const struct ommai_onednn_shape *shape,
                                            const struct ommai_ladder *ladder, const struct ommai_ladder_products **out,
                                            struct omma_error *error);

/* The parts of a worker's scratch begin at multiples of OMMAI_ALIGNMENT. */
static inline size_t ommai_linear_align(size_t size) {
  return (size + OMMAI_ALIGNMENT - 1) / OMMAI_ALIGNMENT * OMMAI_ALIGNMENT;
}

/* Gives every worker's scratch at least this size. Errors: MEMORY. */
enum omma_status ommai_linear_grow_scratch(struct ommai_linear_engine *engine, size_t size, struct omma_error *error);

/* Row counts of int8 products, whose sums are exact at any. */
extern const struct ommai_ladder ommai_int8_ladder;

/* The op of an int8 layer in a form that is valid for it. Errors: MEMORY, UNSUPPORTED, INTERNAL. */
enum omma_status ommai_int8_op_create(struct ommai_linear_engine *engine, const struct ommai_linear *linear,
                                      const struct ommai_linear_form *form, struct ommai_int8_op **op,
                                      struct omma_error *error);
void ommai_int8_op_destroy(struct ommai_int8_op *op);

/* What ommai_int8_op_create would have every worker's scratch hold, from the sizes in `packed`. Errors: MEMORY, UNSUPPORTED,
 * INTERNAL. */
enum omma_status ommai_int8_op_scratch(struct ommai_linear_engine *engine, const struct ommai_few_rows_weights *packed,
                                       size_t *bytes, struct omma_error *error);
const char *ommai_int8_op_name(const struct ommai_int8_op *op);

/* n_rows rows, at most the ladder's last step. */
enum omma_status ommai_int8_op_run(const struct ommai_int8_op *op, const void *x, void *y, int64_t n_rows, int worker);

/* ---- packing ---------------------------------------------------------------------------------------------------------- */

/* Elements of the packed weights; false when the sizes are out of bounds. */
bool ommai_linear_packed_elements(enum ommai_weight_layout layout, int64_t n_out, int64_t n_in, size_t *elements);

/* Zeros wherever the packed weights have room that no source fills. */
void ommai_linear_clear_padding(const struct ommai_few_rows_weights *packed, void *weights, size_t weight_bytes);

/* Writes rows first_row .. first_row + source->n_out - 1 of the stacked matrix, and their bias, on `team`. Values round to bf16 where
 * `compute` says so, also in f32 layouts. The weights' padding is cleared and bias holds zeros before the first source. */
void ommai_linear_pack(const struct ommai_linear_source *source, int64_t n_in, enum omma_dtype compute,
                       enum ommai_weight_layout layout, int64_t first_row, const struct omma_team *team, void *weights,
                       float *bias);

/* The same for int8: weights [OMMAI_WEIGHTS_S8_PANELS], scales and weight_sums as in struct ommai_linear. */
void ommai_linear_pack_int8(const struct ommai_linear_source *source, int64_t n_in, int64_t first_row,
                            const struct omma_team *team, int8_t *weights, float *scales, int32_t *weight_sums, float *bias);

#endif
