#include "linear/onednn.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/allocator.h"
#include "base/error.h"
#include "linear/onednn_compat.h"
#include "linear/onednn_guard.h"

struct ommai_onednn {
  struct omma_allocator allocator;
  dnnl_engine_t engine;
  dnnl_stream_t *streams; /* [n_workers] */
  int n_workers;
  bool level_refused;
  dnnl_cpu_isa_t isa;
  void (*set_threads)(int); /* of the OpenMP runtime; NULL where oneDNN was built without */
  int (*max_threads)(void);
  atomic_bool gemm_has_run; /* most of gemm's code is there, whatever the shape of the first */
};

struct ommai_onednn_operand {
  const struct ommai_onednn *onednn;
  dnnl_memory_t weights, bias;
};

struct worker_memory {
  dnnl_memory_t x, y, scratch;
  bool has_code; /* runs make none; written by its worker alone */
};

struct ommai_onednn_matmul {
  struct ommai_onednn *onednn;
  dnnl_primitive_desc_t desc;
  dnnl_primitive_t primitive;
  struct worker_memory *workers; /* [n_workers] */
};

/* ---- OpenMP's per-thread setting ------------------------------------------------------------- */

static int enter(const struct ommai_onednn *onednn) {
  if (!onednn->set_threads) return 0;
  int before = onednn->max_threads();
  if (before != 1) onednn->set_threads(1);
  return before;
}

static void leave(const struct ommai_onednn *onednn, int before) {
  if (onednn->set_threads && before != 1) onednn->set_threads(before);
}

/* The runtime is the one that oneDNN itself was linked to, so its symbols are in scope; its name
 * depends on the build. */
static void find_openmp(struct ommai_onednn *onednn) {
  void *set = dlsym(RTLD_DEFAULT, "omp_set_num_threads"), *get = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
  if (!set || !get) return;
  memcpy(&onednn->set_threads, &set, sizeof set);
  memcpy(&onednn->max_threads, &get, sizeof get);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static enum omma_status fail(struct omma_error *error, dnnl_status_t found, const char *what) {
  enum omma_status status = OMMA_ERROR_INTERNAL;
  if (found == dnnl_out_of_memory) status = OMMA_ERROR_MEMORY;
  if (found == dnnl_unimplemented) status = OMMA_ERROR_UNSUPPORTED;
  return ommai_fail(error, status, "oneDNN: %s: %s", what,
                    found == dnnl_out_of_memory       ? "out of memory"
                    : found == dnnl_unimplemented     ? "no implementation for this shape and CPU"
                    : found == dnnl_invalid_arguments ? "refused the arguments"
                                                      : "failed");
}

/* oneDNN reads and writes through some small objects without asking whether there was memory for
 * them (2.6). So before it makes anything, a reserve that is larger than what it makes in one call
 * is mapped and given back: where memory has run out, that fails. Its gemm, which f32 has below
 * AVX-512 (names: gemm:jit), makes most of its code when it is run first, and some for other
 * shapes: 11 MiB in pieces, with a page for each small object where the heap cannot grow, and
 * perhaps the heap of the thread that runs it, for which glibc takes 64 MiB of addresses. */
enum { RESERVE_BYTES = 16 << 20, FIRST_GEMM_BYTES = 96 << 20 };

static bool has_reserve(size_t bytes) {
  void *reserve = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserve == MAP_FAILED) return false;
  munmap(reserve, bytes);
  return true;
}

static dnnl_status_t make(dnnl_status_t (*call)(void *), void *context) {
  return has_reserve(RESERVE_BYTES) ? ommai_onednn_guarded(call, context) : dnnl_out_of_memory;
}

bool ommai_onednn_in_build(void) { return true; }

/* ---- engine ---------------------------------------------------------------------------------- */

static void limit_level(struct ommai_onednn *onednn, enum ommai_cpu_level level) {
#if defined(__x86_64__)
  static const dnnl_cpu_isa_t limits[] = {dnnl_cpu_isa_sse41, dnnl_cpu_isa_avx2, dnnl_cpu_isa_avx2, dnnl_cpu_isa_avx512_core,
                                          dnnl_cpu_isa_avx512_core_bf16};
  if (level < ommai_cpu_best() && level <= OMMAI_CPU_AVX512_BF16) {
    onednn->level_refused =
        dnnl_set_max_cpu_isa(limits[level]) != dnnl_success && dnnl_get_effective_cpu_isa() != limits[level];
  }
#else
  (void)level;
#endif
  onednn->isa = dnnl_get_effective_cpu_isa();
}

struct opening {
  struct ommai_onednn *onednn;
  enum ommai_cpu_level level;
};

static dnnl_status_t open_engine(void *context) {
  const struct opening *opening = context;
  struct ommai_onednn *onednn = opening->onednn;
  limit_level(onednn, opening->level);
  dnnl_status_t found = dnnl_engine_create(&onednn->engine, dnnl_cpu, 0);
  for (int worker = 0; worker < onednn->n_workers && found == dnnl_success; worker++) {
    found = dnnl_stream_create(&onednn->streams[worker], onednn->engine, dnnl_stream_default_flags);
  }
  return found;
}

enum omma_status ommai_onednn_create(enum ommai_cpu_level level, int n_workers, const struct omma_allocator *allocator,
                                     struct ommai_onednn **out, struct omma_error *error) {
  if (!ommai_onednn_guard_ready()) return fail(error, dnnl_out_of_memory, "engine");
  struct ommai_onednn *onednn = ommai_allocate(allocator, 1, sizeof *onednn);
  if (!onednn) return ommai_fail_memory(error, "oneDNN context", sizeof *onednn);
  onednn->allocator = *allocator;
  find_openmp(onednn);
  int before = enter(onednn);
  enum omma_status status = OMMA_OK;
  dnnl_status_t found = dnnl_success;
  onednn->n_workers = n_workers;
  atomic_init(&onednn->gemm_has_run, false);
  onednn->streams = ommai_allocate(allocator, (size_t)n_workers, sizeof *onednn->streams);
  if (!onednn->streams) {
    status = ommai_fail_memory(error, "oneDNN context's streams", sizeof *onednn->streams * (size_t)n_workers);
    goto done;
  }
  found = make(open_engine, &(struct opening){onednn, level});
  if (found != dnnl_success) status = fail(error, found, "engine");
done:
  leave(onednn, before);
  if (status != OMMA_OK) {
    ommai_onednn_destroy(onednn);
    return status;
  }
  *out = onednn;
  return OMMA_OK;
}

void ommai_onednn_destroy(struct ommai_onednn *onednn) {
  if (!onednn) return;
  struct omma_allocator allocator = onednn->allocator;
  int n_workers = onednn->n_workers;
  for (int worker = 0; onednn->streams && worker < n_workers; worker++) {
    if (onednn->streams[worker]) dnnl_stream_destroy(onednn->streams[worker]);
  }
  if (onednn->engine) dnnl_engine_destroy(onednn->engine);
  ommai_release(&allocator, onednn->streams, (size_t)n_workers, sizeof *onednn->streams);
  ommai_release(&allocator, onednn, 1, sizeof *onednn);
}

static const char *isa_name(dnnl_cpu_isa_t isa) {
  switch ((int)isa) {
    case dnnl_cpu_isa_sse41: return "sse41";
    case dnnl_cpu_isa_avx: return "avx";
    case dnnl_cpu_isa_avx2: return "avx2";
    case dnnl_cpu_isa_avx2_vnni: return "avx2_vnni";
    case dnnl_cpu_isa_avx512_core: return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni: return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16: return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_amx: return "avx512_core_amx";
    default: return "other";
  }
}

/* What tests/unit/test_linear.c has seen to hold; anything else runs with one row count only. */
bool ommai_onednn_is_proven(const struct ommai_onednn *onednn) { return onednn->isa == dnnl_cpu_isa_avx512_core_bf16; }

void ommai_onednn_describe(const struct ommai_onednn *onednn, char *out, size_t size) {
  const dnnl_version_t *version = dnnl_version();
  snprintf(out, size, "oneDNN %d.%d.%d, instruction set %s%s%s", version->major, version->minor, version->patch,
           isa_name(onednn->isa), onednn->level_refused ? " (a lower level was asked for after oneDNN's first use)" : "",
           onednn->set_threads ? "" : ", no OpenMP");
}

/* ---- memory descriptors ---------------------------------------------------------------------- */

static dnnl_data_type_t y_type(const struct ommai_onednn_shape *shape) {
  return shape->y_type == OMMA_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* oneDNN sees W^T [n_in][n_out]: a = k, b = n. */
static dnnl_status_t describe_weights(dnnl_memory_desc_t *desc, int64_t n_out, int64_t n_in) {
  const dnnl_dims_t dims = {n_in, n_out};
  return desc_tagged(desc, dims, dnnl_bf16, dnnl_BA16a64b2a);
}

static dnnl_status_t describe_rows(dnnl_memory_desc_t *desc, int64_t n_rows, int64_t n_columns, dnnl_data_type_t type) {
  const dnnl_dims_t dims = {n_rows, n_columns};
  return desc_tagged(desc, dims, type, dnnl_ab);
}

/* ---- operands -------------------------------------------------------------------------------- */

struct naming {
  struct ommai_onednn_operand *operand;
  int64_t n_out, n_in;
  void *weights;
  float *bias;
};

static dnnl_status_t make_operand(void *context) {
  const struct naming *naming = context;
  struct ommai_onednn_operand *operand = naming->operand;
  dnnl_engine_t engine = operand->onednn->engine;
  dnnl_memory_desc_t weights = {0}, bias = {0};
  dnnl_status_t found = describe_weights(&weights, naming->n_out, naming->n_in);
  if (found == dnnl_success) found = dnnl_memory_create(&operand->weights, DESC(weights), engine, naming->weights);
  if (found == dnnl_success && naming->bias) found = describe_rows(&bias, 1, naming->n_out, dnnl_f32);
  if (found == dnnl_success && naming->bias) found = dnnl_memory_create(&operand->bias, DESC(bias), engine, naming->bias);
  desc_release(&weights);
  desc_release(&bias);
  return found;
}

enum omma_status ommai_onednn_operand_create(struct ommai_onednn *onednn, int64_t n_out, int64_t n_in, void *weights,
                                             float *bias, struct ommai_onednn_operand **out, struct omma_error *error) {
  struct ommai_onednn_operand *operand = ommai_allocate(&onednn->allocator, 1, sizeof *operand);
  if (!operand) return ommai_fail_memory(error, "linear layer's operand", sizeof *operand);
  operand->onednn = onednn;
  int before = enter(onednn);
  dnnl_status_t found = make(make_operand, &(struct naming){operand, n_out, n_in, weights, bias});
  leave(onednn, before);
  if (found != dnnl_success) {
    ommai_onednn_operand_destroy(operand);
    return fail(error, found, "weights");
  }
  *out = operand;
  return OMMA_OK;
}

void ommai_onednn_operand_destroy(struct ommai_onednn_operand *operand) {
  if (!operand) return;
  if (operand->weights) dnnl_memory_destroy(operand->weights);
  if (operand->bias) dnnl_memory_destroy(operand->bias);
  ommai_release(&operand->onednn->allocator, operand, 1, sizeof *operand);
}

/* ---- products -------------------------------------------------------------------------------- */

static dnnl_status_t append_activation(dnnl_post_ops_t ops, enum ommai_activation activation) {
  switch (activation) {
    case OMMAI_ACTIVATION_GELU_TANH: return append_eltwise(ops, dnnl_eltwise_gelu_tanh, 0.0f);
    case OMMAI_ACTIVATION_GELU_ERF: return append_eltwise(ops, dnnl_eltwise_gelu_erf, 0.0f);
    case OMMAI_ACTIVATION_SILU: return append_eltwise(ops, dnnl_eltwise_swish, 1.0f);
    case OMMAI_ACTIVATION_QUICK_GELU: return append_eltwise(ops, dnnl_eltwise_swish, 1.702f);
    default: return dnnl_success;
  }
}

static dnnl_status_t make_attributes(const struct ommai_onednn_shape *shape, dnnl_primitive_attr_t *attributes) {
  dnnl_post_ops_t ops = NULL;
  dnnl_status_t found = dnnl_primitive_attr_create(attributes);
  if (found == dnnl_success) found = dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
  if (found == dnnl_success) found = dnnl_post_ops_create(&ops);
  if (found == dnnl_success) found = append_activation(ops, shape->activation);
  if (found == dnnl_success && shape->accumulate) found = append_sum(ops);
  if (found == dnnl_success) found = dnnl_primitive_attr_set_post_ops(*attributes, ops);
  if (ops) dnnl_post_ops_destroy(ops);
  return found;
}

static dnnl_status_t make_workers(struct ommai_onednn_matmul *matmul, const dnnl_memory_desc_t *x,
                                  const dnnl_memory_desc_t *y) {
  dnnl_engine_t engine = matmul->onednn->engine;
  desc_ref scratch = dnnl_primitive_desc_query_md(matmul->desc, dnnl_query_scratchpad_md, 0);
  bool has_scratch = dnnl_memory_desc_get_size(scratch) > 0;
  dnnl_status_t found = dnnl_success;
  for (int worker = 0; worker < matmul->onednn->n_workers && found == dnnl_success; worker++) {
    struct worker_memory *memory = &matmul->workers[worker];
    found = dnnl_memory_create(&memory->x, DESC(*x), engine, DNNL_MEMORY_NONE);
    if (found == dnnl_success) found = dnnl_memory_create(&memory->y, DESC(*y), engine, DNNL_MEMORY_NONE);
    if (found == dnnl_success && has_scratch) {
      found = dnnl_memory_create(&memory->scratch, scratch, engine, DNNL_MEMORY_NONE);
    }
  }
  return found;
}

/* The primitive's description, and those of x and y, which are the caller's to release. */
static dnnl_status_t describe_matmul(const struct ommai_onednn *onednn, const struct ommai_onednn_shape *shape,
                                     dnnl_memory_desc_t *x, dnnl_memory_desc_t *y, dnnl_primitive_desc_t *out) {
  dnnl_memory_desc_t weights = {0}, bias = {0};
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_status_t found = describe_rows(x, shape->n_rows, shape->n_in, dnnl_bf16);
  if (found == dnnl_success) found = describe_rows(y, shape->n_rows, shape->n_out, y_type(shape));
  if (found == dnnl_success) found = describe_weights(&weights, shape->n_out, shape->n_in);
  if (found == dnnl_success && shape->bias) found = describe_rows(&bias, 1, shape->n_out, dnnl_f32);
  if (found == dnnl_success) found = make_attributes(shape, &attributes);
  if (found == dnnl_success) {
    found = matmul_describe(out, onednn->engine, x, &weights, shape->bias ? &bias : NULL, y, attributes);
  }
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  desc_release(&weights);
  desc_release(&bias);
  return found;
}

static size_t scratch_bytes(dnnl_primitive_desc_t desc) {
  return dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0));
}

/* A product to make of a shape; or, without one, to measure. */
struct making {
  const struct ommai_onednn *onednn;
  const struct ommai_onednn_shape *shape;
  struct ommai_onednn_matmul *matmul;
  size_t scratch_bytes;
};

static dnnl_status_t make_primitive(void *context) {
  const struct making *making = context;
  struct ommai_onednn_matmul *matmul = making->matmul;
  dnnl_memory_desc_t x = {0}, y = {0};
  dnnl_status_t found = describe_matmul(making->onednn, making->shape, &x, &y, &matmul->desc);
  if (found == dnnl_success) found = dnnl_primitive_create(&matmul->primitive, matmul->desc);
  if (found == dnnl_success) found = make_workers(matmul, &x, &y);
  desc_release(&x);
  desc_release(&y);
  return found;
}

static dnnl_status_t measure_scratch(void *context) {
  struct making *making = context;
  dnnl_memory_desc_t x = {0}, y = {0};
  dnnl_primitive_desc_t desc = NULL;
  dnnl_status_t found = describe_matmul(making->onednn, making->shape, &x, &y, &desc);
  if (found == dnnl_success) making->scratch_bytes = scratch_bytes(desc);
  desc_release(&x);
  desc_release(&y);
  if (desc) dnnl_primitive_desc_destroy(desc);
  return found;
}

enum omma_status ommai_onednn_scratch_bytes(struct ommai_onednn *onednn, const struct ommai_onednn_shape *shape, size_t *bytes,
                                            struct omma_error *error) {
  struct making making = {.onednn = onednn, .shape = shape};
  int before = enter(onednn);
  dnnl_status_t found = make(measure_scratch, &making);
  leave(onednn, before);
  if (found != dnnl_success) return fail(error, found, "matrix product");
  *bytes = making.scratch_bytes;
  return OMMA_OK;
}

enum omma_status ommai_onednn_matmul_create(struct ommai_onednn *onednn, const struct ommai_onednn_shape *shape,
                                            struct ommai_onednn_matmul **out, struct omma_error *error) {
  struct ommai_onednn_matmul *matmul = ommai_allocate(&onednn->allocator, 1, sizeof *matmul);
  if (!matmul) return ommai_fail_memory(error, "linear layer's product", sizeof *matmul);
  matmul->onednn = onednn;
  matmul->workers = ommai_allocate(&onednn->allocator, (size_t)onednn->n_workers, sizeof *matmul->workers);
  if (!matmul->workers) {
    ommai_onednn_matmul_destroy(matmul);
    return ommai_fail_memory(error, "linear layer's memory objects", sizeof *matmul->workers * (size_t)onednn->n_workers);
  }
  int before = enter(onednn);
  dnnl_status_t found = make(make_primitive, &(struct making){onednn, shape, matmul, 0});
  leave(onednn, before);
  if (found != dnnl_success) {
    ommai_onednn_matmul_destroy(matmul);
    return fail(error, found, "matrix product");
  }
  bool is_gemm = strncmp(ommai_onednn_matmul_name(matmul), "gemm", 4) == 0;
  for (int worker = 0; worker < onednn->n_workers; worker++) matmul->workers[worker].has_code = !is_gemm;
  *out = matmul;
  return OMMA_OK;
}

void ommai_onednn_matmul_destroy(struct ommai_onednn_matmul *matmul) {
  if (!matmul) return;
  int n_workers = matmul->onednn->n_workers;
  for (int worker = 0; matmul->workers && worker < n_workers; worker++) {
    struct worker_memory *memory = &matmul->workers[worker];
    if (memory->x) dnnl_memory_destroy(memory->x);
    if (memory->y) dnnl_memory_destroy(memory->y);
    if (memory->scratch) dnnl_memory_destroy(memory->scratch);
  }
  if (matmul->primitive) dnnl_primitive_destroy(matmul->primitive);
  if (matmul->desc) dnnl_primitive_desc_destroy(matmul->desc);
  ommai_release(&matmul->onednn->allocator, matmul->workers, (size_t)n_workers, sizeof *matmul->workers);
  ommai_release(&matmul->onednn->allocator, matmul, 1, sizeof *matmul);
}

const char *ommai_onednn_matmul_name(const struct ommai_onednn_matmul *matmul) {
  const char *name = NULL;
  dnnl_status_t found = dnnl_primitive_desc_query(matmul->desc, dnnl_query_impl_info_str, 0, (void *)&name);
  return found == dnnl_success && name ? name : "unknown";
}

enum omma_status ommai_onednn_takes(struct ommai_onednn *onednn, bool *taken, struct omma_error *error) {
  struct ommai_onednn_shape shape = {.n_rows = 64, .n_in = 256, .n_out = 256, .y_type = OMMA_F32};
  struct ommai_onednn_matmul *matmul;
  *taken = false;
  enum omma_status status = ommai_onednn_matmul_create(onednn, &shape, &matmul, error);
  if (status == OMMA_ERROR_UNSUPPORTED) return OMMA_OK;
  if (status != OMMA_OK) return status;
  /* Its reference code takes any layout, at a thousandth of the speed. */
  *taken = strncmp(ommai_onednn_matmul_name(matmul), "ref", 3) != 0;
  ommai_onednn_matmul_destroy(matmul);
  return OMMA_OK;
}

struct running {
  const struct ommai_onednn_matmul *matmul;
  const struct ommai_onednn_operand *operand;
  const void *x;
  void *y, *scratch;
  int worker;
};

static dnnl_status_t run_primitive(void *context) {
  const struct running *running = context;
  const struct worker_memory *memory = &running->matmul->workers[running->worker];
  dnnl_exec_arg_t arguments[5] = {
      {DNNL_ARG_SRC, memory->x}, {DNNL_ARG_WEIGHTS, running->operand->weights}, {DNNL_ARG_DST, memory->y}};
  int n_arguments = 3;
  if (running->operand->bias) arguments[n_arguments++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, running->operand->bias};
  if (memory->scratch) arguments[n_arguments++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, memory->scratch};
  /* oneDNN's handles are not const; it only reads x. */
  dnnl_status_t found = dnnl_memory_set_data_handle(memory->x, (void *)(uintptr_t)running->x);
  if (found == dnnl_success) found = dnnl_memory_set_data_handle(memory->y, running->y);
  if (found == dnnl_success && memory->scratch) found = dnnl_memory_set_data_handle(memory->scratch, running->scratch);
  if (found != dnnl_success) return found;
  return dnnl_primitive_execute(running->matmul->primitive, running->matmul->onednn->streams[running->worker], n_arguments,
                                arguments);
}

enum omma_status ommai_onednn_matmul_run(const struct ommai_onednn_matmul *matmul, const struct ommai_onednn_operand *operand,
                                         const void *x, void *y, void *scratch, int worker, struct omma_error *error) {
  struct running running = {matmul, operand, x, y, scratch, worker};
  atomic_bool *gemm_has_run = &matmul->onednn->gemm_has_run;
  bool *has_code = &matmul->workers[worker].has_code;
  int before = enter(matmul->onednn);
  dnnl_status_t found = dnnl_out_of_memory;
  if (*has_code || has_reserve(atomic_load(gemm_has_run) ? RESERVE_BYTES : FIRST_GEMM_BYTES)) {
    found = ommai_onednn_guarded(run_primitive, &running);
  }
  leave(matmul->onednn, before);
  if (!*has_code && found == dnnl_success) {
    *has_code = true;
    atomic_store(gemm_has_run, true);
  }
  return found == dnnl_success ? OMMA_OK : fail(error, found, "matrix product");
}
