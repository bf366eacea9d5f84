/* The only interface to oneDNN: single-threaded matrix products of fixed shape over bf16 weights in
 * a layout of ours.
 *
 * oneDNN's OpenMP build reads the number of threads from a setting of the calling thread. Every
 * call here sets it to one, and gives the old value back before it returns, so that no OpenMP team
 * ever starts and a host program keeps its setting. */
#pragma once

#include <omma/host.h>
#include <stdbool.h>

#include "kernels/cpu.h"
#include "kernels/gemv.h"
#include "linear/activation.h"

struct ommai_onednn;         /* engine, one stream per worker */
struct ommai_onednn_operand; /* weights and bias of one layer */
struct ommai_onednn_matmul;  /* one primitive, memory objects per worker */

/* Whether this build has oneDNN at all. */
bool ommai_onednn_in_build(void);

/* Opens oneDNN for workers 0 .. n_workers - 1. Where `level` is below the machine's best, oneDNN is
 * set so; that works only before its first use in the process (see ommai_onednn_describe).
 * Errors: MEMORY, INTERNAL. */
enum omma_status ommai_onednn_create(enum ommai_cpu_level level, int n_workers, const struct omma_allocator *allocator,
                                     struct ommai_onednn **onednn, struct omma_error *error);
void ommai_onednn_destroy(struct ommai_onednn *onednn);

/* Whether oneDNN has a fast product of bf16 on this CPU. Errors: MEMORY, INTERNAL. */
enum omma_status ommai_onednn_takes(struct ommai_onednn *onednn, bool *taken, struct omma_error *error);

/* True where products were seen, on this instruction set, to give a row the same bits for each of
 * its row steps. */
bool ommai_onednn_is_proven(const struct ommai_onednn *onednn);

/* "oneDNN 2.6.3, instruction set avx512_core_bf16". Says so when the level came too late. */
void ommai_onednn_describe(const struct ommai_onednn *onednn, char *out, size_t size);

/* Names `weights` [OMMAI_WEIGHTS_BF16_PANELS] and `bias` [n_out] (NULL: none) to oneDNN; both stay
 * the caller's and must outlive the operand. May write zeros over the padding. Shared by all
 * workers. Errors: MEMORY, INTERNAL. */
enum omma_status ommai_onednn_operand_create(struct ommai_onednn *onednn, int64_t n_out, int64_t n_in, void *weights,
                                             float *bias, struct ommai_onednn_operand **operand, struct omma_error *error);
void ommai_onednn_operand_destroy(struct ommai_onednn_operand *operand);

/* x [n_rows][n_in] bf16, y [n_rows][n_out]: without gaps between rows, for which oneDNN 2.6 has no
 * fast code over packed weights. */
struct ommai_onednn_shape {
  int64_t n_rows, n_in, n_out;
  enum omma_dtype y_type;           /* f32 or bf16 */
  enum ommai_activation activation; /* NONE with accumulate */
  bool bias, accumulate;
};

/* The scratch that a run of such a product takes; makes nothing. Errors: MEMORY, UNSUPPORTED,
 * INTERNAL. */
enum omma_status ommai_onednn_scratch_bytes(struct ommai_onednn *onednn, const struct ommai_onednn_shape *shape, size_t *bytes,
                                            struct omma_error *error);

/* Errors: MEMORY, UNSUPPORTED (oneDNN has no such product), INTERNAL. */
enum omma_status ommai_onednn_matmul_create(struct ommai_onednn *onednn, const struct ommai_onednn_shape *shape,
                                            struct ommai_onednn_matmul **matmul, struct omma_error *error);
void ommai_onednn_matmul_destroy(struct ommai_onednn_matmul *matmul);

/* oneDNN's name for the code it chose, "brg:avx512_core_bf16". Valid as long as the matmul. */
const char *ommai_onednn_matmul_name(const struct ommai_onednn_matmul *matmul);

/* y = act(x W^T + b), or y += x W^T + b. scratch: 64-aligned, of the stated size. Calls for
 * different workers may run at the same time. Allocates nothing of ours. Errors: MEMORY,
 * INTERNAL. */
enum omma_status ommai_onednn_matmul_run(const struct ommai_onednn_matmul *matmul, const struct ommai_onednn_operand *operand,
                                         const void *x, void *y, void *scratch, int worker, struct omma_error *error);
