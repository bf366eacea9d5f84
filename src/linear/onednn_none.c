/* In a build without oneDNN (OMMA_ONEDNN=OFF): no context has one, and nothing else is called. */
#include <string.h>

#include "base/error.h"
#include "linear/onednn.h"

static enum omma_status refuse(struct omma_error *error) {
  return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "oneDNN: this build has none");
}

bool ommai_onednn_in_build(void) { return false; }

enum omma_status ommai_onednn_create(enum ommai_cpu_level level, int n_workers, const struct omma_allocator *allocator,
                                     struct ommai_onednn **onednn, struct omma_error *error) {
  (void)level, (void)n_workers, (void)allocator, (void)onednn;
  return refuse(error);
}

void ommai_onednn_destroy(struct ommai_onednn *onednn) { (void)onednn; }

enum omma_status ommai_onednn_takes(struct ommai_onednn *onednn, bool *taken, struct omma_error *error) {
  (void)onednn, (void)taken;
  return refuse(error);
}

bool ommai_onednn_is_proven(const struct ommai_onednn *onednn) {
  (void)onednn;
  return false;
}

void ommai_onednn_describe(const struct ommai_onednn *onednn, char *out, size_t size) {
  (void)onednn;
  memset(out, 0, size);
}

enum omma_status ommai_onednn_operand_create(struct ommai_onednn *onednn, int64_t n_out, int64_t n_in, void *weights,
                                             float *bias, struct ommai_onednn_operand **operand, struct omma_error *error) {
  (void)onednn, (void)n_out, (void)n_in, (void)weights, (void)bias, (void)operand;
  return refuse(error);
}

void ommai_onednn_operand_destroy(struct ommai_onednn_operand *operand) { (void)operand; }

enum omma_status ommai_onednn_scratch_bytes(struct ommai_onednn *onednn, const struct ommai_onednn_shape *shape, size_t *bytes,
                                            struct omma_error *error) {
  (void)onednn, (void)shape, (void)bytes;
  return refuse(error);
}

enum omma_status ommai_onednn_matmul_create(struct ommai_onednn *onednn, const struct ommai_onednn_shape *shape,
                                            struct ommai_onednn_matmul **matmul, struct omma_error *error) {
  (void)onednn, (void)shape, (void)matmul;
  return refuse(error);
}

void ommai_onednn_matmul_destroy(struct ommai_onednn_matmul *matmul) { (void)matmul; }

const char *ommai_onednn_matmul_name(const struct ommai_onednn_matmul *matmul) {
  (void)matmul;
  return "none";
}

enum omma_status ommai_onednn_matmul_run(const struct ommai_onednn_matmul *matmul, const struct ommai_onednn_operand *operand,
                                         const void *x, void *y, void *scratch, int worker, struct omma_error *error) {
  (void)matmul, (void)operand, (void)x, (void)y, (void)scratch, (void)worker;
  return refuse(error);
}
