/* The decode kernels: a row's keys in blocks, the heads of a group together and one by one. */
#include <math.h>
#include <stdlib.h>

#include "kernels/attention_element.h"
#include "kernels/attention_kernels.h"
#include "kernels/attention_rows.h"

enum { BLOCK = OMMAI_ATTENTION_BLOCK, BENCH_HEADS = 4, BENCH_DIM = 128 };

/* One problem in a few has heads as wide as compressed rows. */
static const struct attention_limits usual = {9, 1, ATTENTION_MAX_KEYS, ATTENTION_MAX_DIM, false, false};
static const struct attention_limits wide = {9, 1, 130, OMMA_ATTENTION_MAX_DECODE_HEAD_DIM, false, false};

typedef const struct ommai_attention_decode_kernel *decode_kernel;

static int64_t state_stride(const struct attention_problem *p) {
  return OMMAI_ATTENTION_STATE_OUT + (p->v_head_dim + 15) / 16 * 16;
}

/* The rows of q are the heads. */
static struct ommai_attention_decode_block block_of(const struct attention_problem *p, int32_t head, int32_t n_heads,
                                                    int32_t key, float *states) {
  return (struct ommai_attention_decode_block){.q = attention_row(&p->q, head),
                                               .k = attention_row(&p->k, key),
                                               .v = attention_row(&p->v, key),
                                               .k_scales = attention_row_scales(&p->k, key),
                                               .v_scales = attention_row_scales(&p->v, key),
                                               .q_head_stride = p->q.stride,
                                               .k_stride = p->k.stride,
                                               .v_stride = p->v.stride,
                                               .n_heads = n_heads,
                                               .n_keys = p->n_keys - key < BLOCK ? p->n_keys - key : BLOCK,
                                               .head_dim = p->head_dim,
                                               .v_head_dim = p->v_head_dim,
                                               .scale = p->scale,
                                               .first = key == 0,
                                               .state = states + head * state_stride(p),
                                               .state_stride = state_stride(p)};
}

/* States of all heads, `at_once` heads in a call. */
static struct guarded run_heads(decode_kernel kernel, const struct attention_problem *p, int32_t at_once) {
  struct guarded states = kernel_memory((size_t)(p->n_rows * state_stride(p)) * sizeof(float));
  for (int32_t head = 0; head < p->n_rows; head += at_once) {
    for (int32_t key = 0; key < p->n_keys; key += BLOCK) {
      struct ommai_attention_decode_block block = block_of(p, head, at_once, key, (float *)(void *)states.data);
      kernel->block(&block);
    }
  }
  guarded_check(&states, "states");
  return states;
}

static double check_decode(const struct kernel_entry *entry, uint64_t seed) {
  struct test_random random = {seed};
  decode_kernel kernel = entry->kernel;
  struct attention_problem p = attention_problem_random(&random, kernel->types, seed % 4 ? &usual : &wide);
  struct attention_problem exact = p;
  if (p.types.kv == OMMA_INT8) exact.types.q = OMMA_F32; /* nothing is rounded to bf16 */
  struct guarded together = run_heads(kernel, &p, p.n_rows), alone = run_heads(kernel, &p, 1);
  double worst = 0.0;
  char name[80];
  attention_problem_name(&p, name, sizeof name);
  for (int32_t head = 0; head < p.n_rows; head++) {
    float *state = (float *)(void *)together.data + head * state_stride(&p), *out = state + OMMAI_ATTENTION_STATE_OUT;
    const float *other = (float *)(void *)alone.data + head * state_stride(&p);
    if (memcmp(state, other, 2 * sizeof *state) != 0 ||
        memcmp(out, other + OMMAI_ATTENTION_STATE_OUT, (size_t)p.v_head_dim * sizeof *out) != 0) {
      kernel_fail(entry, seed, "%s: head %d of %d differs from that alone", name, head, p.n_rows);
    }
    for (int32_t d = 0; d < p.v_head_dim; d++) out[d] /= state[OMMAI_ATTENTION_STATE_SUM];
    double error = attention_row_error(&exact, head, 0, p.n_keys, out, NULL);
    if (!(error <= 1.0)) kernel_fail(entry, seed, "%s: head %d of %d: %.3g of the bound", name, head, p.n_rows, error);
    worst = fmax(worst, error);
  }
  guarded_free(&together);
  guarded_free(&alone);
  attention_problem_free(&p);
  return worst;
}

struct bench {
  decode_kernel kernel;
  struct attention_problem problem;
  struct guarded states;
};

static void bench_block(void *context) {
  struct bench *bench = context;
  struct ommai_attention_decode_block block = block_of(&bench->problem, 0, BENCH_HEADS, 0, (float *)(void *)bench->states.data);
  bench->kernel->block(&block);
}

static void release_bench(void *context) {
  struct bench *bench = context;
  attention_problem_free(&bench->problem);
  guarded_free(&bench->states);
  free(bench);
}

static struct kernel_call decode_call(const struct kernel_entry *entry) {
  struct bench *bench = calloc(1, sizeof *bench);
  bench->kernel = entry->kernel;
  bench->problem = attention_problem_fixed(bench->kernel->types, BENCH_HEADS, BLOCK, BENCH_DIM);
  bench->states = run_heads(bench->kernel, &bench->problem, BENCH_HEADS);
  struct kernel_call call = {.run = bench_block, .release = release_bench, .context = bench};
  call.flops = 4.0 * BENCH_HEADS * BLOCK * BENCH_DIM;
  call.half = bench->kernel->types.q == OMMA_BF16;
  snprintf(call.shape, sizeof call.shape, "%d heads, %d keys, D %d", BENCH_HEADS, BLOCK, BENCH_DIM);
  return call;
}

void kernel_list_attention_decode(struct kernel_list *list) {
  static const struct kernel_family family = {check_decode, decode_call};
  for (int i = 0; ommai_attention_decode_kernels[i]; i++) {
    decode_kernel kernel = ommai_attention_decode_kernels[i];
    char operation[KERNEL_NAME_SIZE];
    snprintf(operation, sizeof operation, "attention_decode_%s", attention_types_name(kernel->types));
    kernel_list_add(list, &family, operation, kernel->level, kernel, 0);
  }
}
