/* What the files of this folder know of each other's objects. */
#pragma once

#include <stdatomic.h>

#include "base/allocator.h"
#include "kernels/bf16_tile.h"
#include "kernels/f32_tile.h"
#include "kernels/integer_panel.h"
#include "kernels/row_ops.h"
#include "linear/linear_spec.h"

/* `taken`: by a run, where several teams have the same workers. */
struct ommai_linear_scratch {
  _Alignas(64) void *memory;
  size_t size;
  atomic_bool taken;
};

struct ommai_linear_context {
  struct omma_allocator allocator;
  enum ommai_cpu_level level;
  int n_workers; /* of all teams together */
  int n_teams;
  const struct ommai_gemv_kernels *gemv;
  const struct ommai_bf16_tile_kernel *bf16_tile; /* NULL where the CPU has no products of bf16 */
  const struct ommai_f32_tile_kernels *f32_tile;
  const struct ommai_integer_kernels *integer;
  const struct ommai_row_ops *row_ops;
  struct ommai_linear_scratch *scratch; /* [n_workers] */
};

/* A layer: what all have. */
struct ommai_linear {
  const struct ommai_linear_context *context;
  const struct ommai_linear_code *code;
  struct ommai_linear_spec spec;
  struct ommai_gemv_weights packed; /* the sizes again, and the layout */
  void *weights;                    /* what packed.weights points to */
  float *bias;                      /* [n_panels * 64] */
  size_t weight_bytes;
  void *own; /* the code's */
};

/* A layer as it is called. */
struct ommai_linear_op {
  const struct ommai_linear_context *context;
  const struct ommai_linear *linear;
  struct ommai_linear_call call;
  int64_t first_column, n_columns;
};

/* ---- code ------------------------------------------------------------------------------------ */

/* What linear.c and linear_op.c, which check and share out, call: the code that packs and
 * multiplies the weights of a format on a CPU. */
struct ommai_linear_code {
  int64_t max_rows; /* of a run */
  /* Refuses what this CPU or format has not; NULL: nothing. Errors: UNSUPPORTED, LIMIT. */
  enum omma_status (*check)(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec,
                            struct omma_error *error);
  /* of what there is besides weights and bias; NULL: nothing */
  size_t (*more_bytes)(const struct ommai_linear_spec *spec);

  /* Packs into weights and bias, whose padding is zero, and makes `own`. Errors: MEMORY,
   * INTERNAL. */
  enum omma_status (*pack)(struct ommai_linear *linear, const struct ommai_linear_source *sources, int n_sources,
                           const struct omma_team *team, struct omma_error *error);
  void (*release)(struct ommai_linear *linear); /* `own`, which may be NULL; NULL: there is none */
  float (*weight)(const struct ommai_linear *linear, int64_t output, int64_t input);

  /* Few rows (linear.h); NULL: tiles only. */
  void (*gemv)(const struct ommai_linear *linear, const void *x, int64_t x_stride, int64_t n_rows, float *y, int64_t y_stride,
               bool accumulate, int64_t first_panel, int64_t n_panels);

  /* Whether few rows, or one, pass over OMMAI_GEMV_PANELS panels side by side; NULL: no. */
  bool (*side_by_side)(const struct ommai_linear *linear);

  /* Prepared rows (linear.h), whose part in `rows` begins with the first row meant; NULL: x
   * serves. */
  size_t (*prepared_row_bytes)(const struct ommai_linear *linear); /* which need not have weights */
  void (*place_rows)(const struct ommai_linear *linear, int64_t n_rows, void *memory, struct ommai_linear_rows *rows);
  void (*prepare_rows)(const struct ommai_linear *linear, const struct ommai_linear_rows *rows, int64_t n_rows);
  /* NULL: few rows are taken as they lie. */
  void (*few_prepared_rows)(const struct ommai_linear *linear, const struct ommai_linear_rows *rows, int64_t n_rows, float *y,
                            int64_t y_stride, bool accumulate, int64_t first_panel, int64_t n_panels);
  /* Any n_rows up to max_rows; y points at the op's first output. */
  void (*op_run_prepared)(const struct ommai_linear_op *op, const struct ommai_linear_rows *rows, void *y, int64_t n_rows,
                          int worker);

  /* Ops, of which the call is valid. */
  /* The bytes of a worker's scratch; the layer need not have weights. */
  size_t (*op_scratch)(const struct ommai_linear_op *op);
  /* Any n_rows up to max_rows; y points at the op's first output. None of today's fails. */
  enum omma_status (*op_run)(const struct ommai_linear_op *op, const void *x, void *y, int64_t n_rows, int worker,
                             struct omma_error *error);
};

extern const struct ommai_linear_code ommai_linear_f32, ommai_linear_bf16, ommai_linear_bf16_packed, ommai_linear_integer,
    ommai_linear_integer_wide;

/* What serves such layers on this CPU. */
const struct ommai_linear_code *ommai_linear_code_for(const struct ommai_linear_context *context,
                                                      const struct ommai_linear_spec *spec);

/* The code's check. */
enum omma_status ommai_linear_check(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec,
                                    struct omma_error *error);

/* A layer of these sizes in which nothing is made. */
struct ommai_linear ommai_linear_without_weights(const struct ommai_linear_context *context,
                                                 const struct ommai_linear_spec *spec);

/* Rows that are activated before they are written: few, so that what is written is on its way to
 * memory while the next ones are computed. */
enum { OMMAI_LINEAR_FINISHED_ROWS = 8 };

/* A panel's sums [n_rows][64], bias included: activates them, and writes or adds the first n of
 * each row to y. */
void ommai_linear_finish_sums(const struct ommai_linear_context *context, const struct ommai_linear_call *call, int64_t n_rows,
                              int64_t n, float *sums, void *y);

/* Members of struct ommai_linear_code for dense weights. */
float ommai_linear_dense_weight(const struct ommai_linear *linear, int64_t output, int64_t input);
bool ommai_linear_dense_side_by_side(const struct ommai_linear *linear);
void ommai_linear_dense_gemv(const struct ommai_linear *linear, const void *x, int64_t x_stride, int64_t n_rows, float *y,
                             int64_t y_stride, bool accumulate, int64_t first_panel, int64_t n_panels);

/* Errors: ARGUMENT. */
enum omma_status ommai_linear_check_run(const struct ommai_linear_op *op, int64_t n_rows, int worker, struct omma_error *error);

/* The worker that a run is for the code, and its scratch: of those of all teams one that is not in
 * use. To be left after the run. */
int ommai_linear_take_place(const struct ommai_linear_context *context, int worker);
void ommai_linear_leave_place(const struct ommai_linear_context *context, int place);

/* The rows from `first` on. */
struct ommai_linear_rows ommai_linear_rows_from(const struct ommai_linear *linear, const struct ommai_linear_rows *rows,
                                                int64_t first);

/* ---- scratch --------------------------------------------------------------------------------- */

/* The parts of a worker's scratch begin at multiples of OMMAI_ALIGNMENT. */
static inline size_t ommai_linear_align(size_t size) {
  return (size + OMMAI_ALIGNMENT - 1) / OMMAI_ALIGNMENT * OMMAI_ALIGNMENT;
}

/* Gives every worker's scratch at least this size. Errors: MEMORY. */
enum omma_status ommai_linear_grow_scratch(struct ommai_linear_context *context, size_t size, struct omma_error *error);

/* ---- packing --------------------------------------------------------------------------------- */

/* Bytes of the packed weights; false when the sizes are out of bounds. */
bool ommai_linear_packed_bytes(enum ommai_weight_layout layout, int64_t n_out, int64_t n_in, size_t *bytes);

/* Zeros wherever the packed weights have room that no source fills. */
void ommai_linear_clear_padding(const struct ommai_gemv_weights *packed, void *weights, size_t weight_bytes);

/* Rows first .. end - 1 of a source, which lie in one panel of the layer, from `column` on. */
struct ommai_panel_rows {
  const struct ommai_linear_source *source;
  int64_t panel, first, end, column;
};

/* Packs stacked sources, a task for each panel that one touches, and their bias. The weights'
 * padding is cleared and bias holds zeros before. */
void ommai_linear_pack_panels(struct ommai_linear *linear, const struct ommai_linear_source *sources, int n_sources,
                              const struct omma_team *team,
                              void (*pack)(const struct ommai_linear *linear, const struct ommai_panel_rows *rows));

/* `pack` of it for f32 and bf16 panels. */
void ommai_linear_pack_dense(const struct ommai_linear *linear, const struct ommai_panel_rows *rows);

/* n values of row `row` of the source, from input k on, in f32; n at most OMMAI_LINEAR_CHUNK. */
void ommai_linear_load_values(const struct ommai_linear_source *source, int64_t n_in, int64_t row, int64_t k, int n,
                              float *values);

#define OMMAI_LINEAR_CHUNK 64

/* ---- integer weights ------------------------------------------------------------------------- */

/* What an integer format has of its own (linear_int8.c, _int6.c, _int4.c); the rest is shared. */
struct ommai_integer_traits {
  int zero; /* of weights without minimums: scale * (q - zero) */
  /* The largest magnitude of weights that are made with one scale for each output; 0: they are made
   * in groups of inputs only. */
  int max;
  /* NULL: the CPU has none */
  ommai_integer_kernel (*kernel)(const struct ommai_integer_kernels *kernels);
  ommai_integer_row_kernel (*row_kernel)(const struct ommai_integer_kernels *kernels);
  /* n values that share a scale, at most OMMAI_LINEAR_MAX_GROUP, to integers; NULL: weights are not
   * made, only taken from a file. */
  void (*fit)(const struct ommai_row_ops *ops, const float *values, int64_t n, int8_t *q, float *scale);
  /* Overwrites n integers of a column of a panel from input k on, a multiple of 16, and with
   * zero what pads the last of them. Reads one. */
  void (*store)(const int8_t *q, int64_t k, int64_t n, int64_t column, uint8_t *panel);
  int (*load)(const uint8_t *panel, int64_t k, int64_t column);
};

/* Next to the weights. */
struct ommai_integer_weights {
  /* [n_panels][n_groups][1, or 2 with the minimums second][64]; where there are codes, of
   * spec.shared inputs in place of groups; NULL where there are halves */
  float *scales;
  ommai_f16 *halves;    /* the same in f16; or NULL */
  int8_t *codes;        /* [n_panels][n_groups][1 or 2][64], to multiply scales by; or NULL */
  int32_t *weight_sums; /* [n_panels * 64] sums of an output's integers; NULL without zero points */
};

static inline const struct ommai_integer_traits *ommai_integer_traits(const struct ommai_linear_spec *spec) {
  return ommai_linear_format(spec->format)->integer;
}

/* Groups of an output's inputs. */
int64_t ommai_integer_n_groups(const struct ommai_linear_spec *spec);

/* Of a panel: its scales and minimums, or codes of these; those that are kept as f32 or f16. */
int64_t ommai_integer_panel_scales(const struct ommai_linear_spec *spec);
int64_t ommai_integer_kept_scales(const struct ommai_linear_spec *spec);

/* Groups that have factors of their scales in common: a power of two, whose exponent this is; -1:
 * another number. */
int ommai_integer_shared_log2(const struct ommai_linear_spec *spec);

/* What q is less by. */
int ommai_integer_zero(const struct ommai_linear_spec *spec);

/* `scale_bytes` and `code` of struct ommai_linear_format. */
int64_t ommai_integer_scale_bytes(const struct ommai_linear_spec *spec);
const struct ommai_linear_code *ommai_integer_code(const struct ommai_linear_context *context,
                                                   const struct ommai_linear_spec *spec);

/* `store` and `load` of S8_PANELS. */
void ommai_integer_store_s8(const int8_t *q, int64_t k, int64_t n, int64_t column, uint8_t *panel);
int ommai_integer_load_s8(const uint8_t *panel, int64_t k, int64_t column);

/* Members of struct ommai_linear_code. */
enum omma_status ommai_integer_check(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec,
                                     struct omma_error *error);
size_t ommai_integer_more_bytes(const struct ommai_linear_spec *spec);
enum omma_status ommai_integer_pack(struct ommai_linear *linear, const struct ommai_linear_source *sources, int n_sources,
                                    const struct omma_team *team, struct omma_error *error);
void ommai_integer_release(struct ommai_linear *linear);
