/* Linear layers: y = act(x W^T + b) or y += x W^T + b, over weights that are packed once.
 *
 * Two paths read the same packed copy: tiles of rows (encoders, prefill), and few rows (decoding).
 * In both, the bits of a row depend on the row and the layer alone: not on the number of rows, the
 * row's place, the worker, or what else runs. The two paths give the same bits.
 *
 * How a computation in f32 rounds: x is f32, W is f32 or bf16, which is exact in f32; each sum is
 * one chain over k.
 *
 * How a computation in bf16 rounds: x and W are bf16; products and sums are f32
 * (kernels/bf16_tile.h); bias, activation and the old y are applied in f32; a bf16 y is rounded
 * once, at the end. Where the CPU has no bf16 products, x and W are expanded to f32 block by block
 * (W stays 16 bits in memory); the points of rounding are the same.
 *
 * How a computation over int8 or int4 weights rounds: weights are whole multiples of a scale, less
 * a minimum where the layer has minimums, with one of each for an output or for a group of an
 * output's inputs; each row of x is whole multiples of max|x| / 127 or of (max x - min x) / 255,
 * to nearest even (kernels/int8.h). Within a group the sum of products is an exact integer, hence
 * the same whatever computes it; groups are added in f32 in a fixed order
 * (kernels/integer_panel.h); the row's scale, bias, activation and the old y are applied in f32; a
 * bf16 y is rounded once, at the end. So tiles, parts and few rows give the same bits, and all CPU
 * levels do. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu.h"
#include "linear/linear_spec.h"

/* Kernels and scratch per worker. Made once per model; must outlive its linears and ops. Creating
 * and destroying linears and ops must not overlap with any other call on the same context. */
struct ommai_linear_context;

/* Errors: ARGUMENT (n_workers), MEMORY. */
enum omma_status ommai_linear_context_create(enum ommai_cpu_level level, int n_workers, const struct omma_allocator *allocator,
                                             struct ommai_linear_context **context, struct omma_error *error);
void ommai_linear_context_destroy(struct ommai_linear_context *context);

/* The context's workers are those of n_teams teams of the same size, each of which has indices from
 * 0 on and calls at the same time as the others; n_workers is a multiple of n_teams. Before the
 * first run. */
void ommai_linear_context_set_teams(struct ommai_linear_context *context, int n_teams);

/* One line for people: which kernels serve what. */
void ommai_linear_context_describe(const struct ommai_linear_context *context, char *out, size_t size);

/* ---- weights --------------------------------------------------------------------------------- */

/* Where all sources are stored as integers: makes spec's format, group, has_minimums, shared,
 * has_half_scales and inputs those of a layer that takes them as they are, in the fewest bits that
 * this CPU has kernels for; or, where none does (groups that have no common divisor), of one that
 * loses next to nothing. Else changes nothing and returns false. */
bool ommai_linear_spec_for_stored(const struct ommai_linear_context *context, const struct ommai_linear_source *sources,
                                  int n_sources, struct ommai_linear_spec *spec);

/* A packed layer. Immutable; shared by any number of threads. */
struct ommai_linear;

/* Packs n_sources matrices [n_out_i][n_in], stacked along their outputs (q, k and v; gate and up);
 * weights round to nearest even. spec's n_out and has_bias are not looked at: they follow from the
 * sources, of which those without bias count as bias 0. Integer weights: stored integers that fit
 * the spec (ommai_linear_spec_for_stored) are taken as they are; all else is quantised from its
 * values, which int4 needs a group for and neither int6 nor minimums can have: int8 with scale
 * max|w| / 127, int4 as row_ops.h's fit_int4. The work is done on `team`, whatever its size; NULL:
 * by the caller alone. Needs no memory besides the result. Errors: ARGUMENT (also a group that is
 * none, or minimums that cannot be), LIMIT (also for more than OMMAI_LINEAR_MAX_INT8_INPUTS inputs
 * of integer weights), UNSUPPORTED (int6 where the CPU has no kernels for it), MEMORY, INTERNAL. */
enum omma_status ommai_linear_create(struct ommai_linear_context *context, const struct ommai_linear_spec *spec,
                                     const struct ommai_linear_source *sources, int n_sources, const struct omma_team *team,
                                     struct ommai_linear **linear, struct omma_error *error);
void ommai_linear_destroy(struct ommai_linear *linear);

int64_t ommai_linear_n_in(const struct ommai_linear *linear);
int64_t ommai_linear_n_out(const struct ommai_linear *linear);
enum omma_dtype ommai_linear_compute(const struct ommai_linear *linear);

/* Bytes of the packed weights and bias, and the same before there are weights; 0 for what would be
 * refused. */
size_t ommai_linear_bytes(const struct ommai_linear *linear);
size_t ommai_linear_bytes_for(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec);

/* Bytes of a layer's weights and their scales, without padding. */
int64_t ommai_linear_read_bytes(const struct ommai_linear_spec *spec);

/* The value that stands for W[output][input] in the packed layer: for tests. */
float ommai_linear_weight(const struct ommai_linear *linear, int64_t output, int64_t input);

/* ---- tiles of rows --------------------------------------------------------------------------- */

/* A layer and how it is called. Immutable; runs for different workers may overlap. Destroy before
 * its linear. */
struct ommai_linear_op;

/* May enlarge the context's scratch. Errors: ARGUMENT, MEMORY. */
enum omma_status ommai_linear_op_create(struct ommai_linear_context *context, const struct ommai_linear *linear,
                                        const struct ommai_linear_call *call, struct ommai_linear_op **op,
                                        struct omma_error *error);
void ommai_linear_op_destroy(struct ommai_linear_op *op);

/* Bytes of a worker's scratch that ommai_linear_op_create makes sure of for such a layer, which
 * need not exist. Errors: ARGUMENT. */
enum omma_status ommai_linear_scratch_for(struct ommai_linear_context *context, const struct ommai_linear_spec *spec,
                                          const struct ommai_linear_call *call, size_t *bytes, struct omma_error *error);

/* Bytes of scratch that the context holds by now, all workers together. */
size_t ommai_linear_context_scratch_bytes(const struct ommai_linear_context *context);

/* The most rows of one run, OMMAI_LINEAR_MAX_ROWS or more: with them weights are read least often.
 * And the same before there is a layer. */
int64_t ommai_linear_max_rows(const struct ommai_linear *linear);
int64_t ommai_linear_max_rows_for(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec);

/* y = act(x W^T + b) or y += x W^T + b for n_rows (1 .. ommai_linear_max_rows) rows. x is
 * [n_rows][x_stride] of the compute type, y is [n_rows][y_stride] of y_type. x and y must not
 * overlap. Calls for different workers may run at the same time. Allocates nothing. Errors:
 * ARGUMENT (n_rows, worker). */
enum omma_status ommai_linear_run(const struct ommai_linear_op *op, const void *x, void *y, int64_t n_rows, int worker,
                                  struct omma_error *error);

/* ---- few rows -------------------------------------------------------------------------------- */

/* Panels of 64 outputs: what few-row calls are cut into for a team. */
int64_t ommai_linear_n_panels(const struct ommai_linear *linear);

/* How many panels of each piece of the layer a team's task of few rows takes. n_pieces: of equal
 * size, which go together (gate and up); n_panels: of a piece, or of that piece of several layers
 * of the same sizes. */
int64_t ommai_linear_task_panels(const struct ommai_linear *linear, int n_pieces, int64_t n_panels, int n_workers);

/* The outputs of panels first_panel .. first_panel + n_panels - 1: y[r][n] = sum_k x[r][k] W[n][k]
 * + bias[n], or += that. x is [n_rows][x_stride] of the compute type, y f32 [n_rows][y_stride]; no
 * padding rows. Any n_rows; meant for 1 to 16. Thread-safe; allocates nothing. */
void ommai_linear_gemv(const struct ommai_linear *linear, const void *x, int64_t x_stride, int64_t n_rows, float *y,
                       int64_t y_stride, bool accumulate, int64_t first_panel, int64_t n_panels);

/* ---- prepared rows --------------------------------------------------------------------------- */

/* Prepared rows are run from multiples of this on, except few of them. */
#define OMMAI_LINEAR_PREPARED_ROWS OMMAI_BF16_PACKED_ROWS

/* Bytes of memory for each prepared row of such a layer, a multiple of 64; 0: none are needed, or
 * it would be refused. */
size_t ommai_linear_prepared_row_bytes(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec);
/* The same where they are few: 0 also where few rows are taken as they lie. */
size_t ommai_linear_gemv_row_bytes(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec);

/* Lays n_rows rows of x out in `memory`: n_rows, up to a multiple of OMMAI_LINEAR_PREPARED_ROWS
 * except where they are few, times that many bytes at a multiple of 64; not looked at where none
 * are needed. */
struct ommai_linear_rows ommai_linear_rows_place(const struct ommai_linear *linear, const void *x, int64_t x_stride,
                                                 int64_t n_rows, void *memory);

/* Whether rows of this layer have to be prepared at all; and where they are few. */
bool ommai_linear_prepares_rows(const struct ommai_linear *linear);
bool ommai_linear_gemv_prepares_rows(const struct ommai_linear *linear);

/* Prepares rows first .. first + n_rows - 1, of which x is there by now. Calls for different rows
 * may run at the same time. */
void ommai_linear_prepare_rows(const struct ommai_linear *linear, const struct ommai_linear_rows *rows, int64_t first,
                               int64_t n_rows);

/* ommai_linear_gemv and ommai_linear_run over prepared rows from `first` on; the same bits. x has
 * the op's x_stride. Without `bytes` running prepares the rows itself. */
void ommai_linear_few_prepared_rows(const struct ommai_linear *linear, const struct ommai_linear_rows *rows, int64_t first,
                                    int64_t n_rows, float *y, int64_t y_stride, bool accumulate, int64_t first_panel,
                                    int64_t n_panels);
enum omma_status ommai_linear_run_prepared(const struct ommai_linear_op *op, const struct ommai_linear_rows *rows,
                                           int64_t first, void *y, int64_t n_rows, int worker, struct omma_error *error);
