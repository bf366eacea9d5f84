#include <math.h>

#include "base/checked.h"
#include "base/half.h"
#include "kernels/amx.h"
#include "kernels/attention_kernels.h"
#include "kernels/bf16_tile.h"
#include "kernels/integer_panel.h"

/* Tiles of every shape that kernels set: 53 rows are two full tiles, a full and a part of one; 39
 * end in a part of one alone. Inputs are more than a block of them and end within a product. */
enum { PANEL = OMMAI_PANEL_COLUMNS, ROWS = 53, FEWER_ROWS = 39, GEMV_ROWS = 3, N_K = 295, K_PADDED = 320, PACKED_ROWS = 64 };
enum { MIN_GROUP = OMMAI_INTEGER_GROUP_STEP, MAX_GROUPS = K_PADDED / MIN_GROUP };
enum { QUERIES = 21, FEWER_QUERIES = 9, KEYS = 99, BLOCKS = 2, HEAD_DIM = 72, SPACE = 1 << 19 };

/* -32 .. 31, without a pattern that a permutation would keep. */
static int whole(int64_t i) { return (int)(((uint64_t)i * 2654435761u >> 13 & 63)) - 32; }
static float fraction(int64_t i) { return (float)whole(i) / 37.0f; }

/* ---- products of bf16 ------------------------------------------------------------------------ */

struct bf16_problem {
  _Alignas(64) ommai_bf16 weights[K_PADDED * PANEL], x[ROWS * N_K];
  float bias[PANEL], y[2][PACKED_ROWS * PANEL];
  _Alignas(64) ommai_bf16 packed[PACKED_ROWS * K_PADDED];
};

static double bound_at(const struct bf16_problem *p, int64_t row, int64_t column) {
  double terms = fabs((double)p->bias[column]);
  for (int64_t k = 0; k < N_K; k++) {
    terms += fabs((double)ommai_bf16_to_f32(p->x[row * N_K + k]) *
                  ommai_bf16_to_f32(p->weights[(k / 2 * PANEL + column) * 2 + k % 2]));
  }
  return 2 * (N_K + 3) * 0x1p-24 * terms;
}

static bool compare_bf16(void *space, int64_t n_rows) {
  struct bf16_problem *p = space;
  for (int64_t i = 0; i < K_PADDED * PANEL; i++) p->weights[i] = ommai_bf16_from_f32(fraction(i));
  for (int64_t i = 0; i < ROWS * N_K; i++) p->x[i] = ommai_bf16_from_f32(fraction(3 * i + 1));
  for (int64_t i = 0; i < PANEL; i++) p->bias[i] = fraction(7 * i);
  for (int i = 0; i < 2; i++) {
    const struct ommai_bf16_tile tile = {.weights = p->weights,
                                         .n_panels = 1,
                                         .x = p->x,
                                         .x_stride = N_K,
                                         .n_rows = n_rows,
                                         .n_k = N_K,
                                         .packed = {p->packed, PACKED_ROWS, 0},
                                         .bias = p->bias,
                                         .y = p->y[i],
                                         .y_stride = PANEL,
                                         .y_type = OMMA_F32,
                                         .sums = p->y[i]};
    const struct ommai_bf16_tile_kernel *kernel = i ? &ommai_bf16_tile_amx : &ommai_bf16_tile_avx512_bf16;
    if (kernel->pack) kernel->pack(&tile);
    kernel->run(&tile);
  }
  for (int64_t i = 0; i < n_rows * PANEL; i++) {
    if (!(fabs((double)p->y[0][i] - p->y[1][i]) <= bound_at(p, i / PANEL, i % PANEL))) return false;
  }
  return true;
}

/* Few rows have the bits of tiles, of which y[1] has as many at least. */
static bool compare_gemv(void *space, int n_rows) {
  struct bf16_problem *p = space;
  ommai_gemv_amx.panels_bf16(p->weights, 0, 1, p->x, N_K, n_rows, N_K, p->y[0]);
  for (int64_t i = 0; i < n_rows * PANEL; i++) {
    if (p->y[0][i] + p->bias[i % PANEL] != p->y[1][i]) return false;
  }
  return true;
}

/* ---- integers -------------------------------------------------------------------------------- */

struct integer_problem {
  _Alignas(64) uint8_t weights[K_PADDED * PANEL];
  int8_t x[ROWS * K_PADDED];
  int32_t x_sums[ROWS * MAX_GROUPS];
  float scales[MAX_GROUPS * PANEL], sums[2][ROWS * PANEL];
};

static bool compare_integers(void *space, bool half, int64_t group, int64_t n_rows) {
  struct integer_problem *p = space;
  int64_t n_groups = K_PADDED / group;
  for (int64_t i = 0; i < K_PADDED * PANEL; i++) p->weights[i] = (uint8_t)(4 * whole(i) + whole(5 * i));
  for (int64_t i = 0; i < n_groups * PANEL; i++) p->scales[i] = fraction(3 * i + 2);
  for (int64_t i = 0; i < ROWS * n_groups; i++) p->x_sums[i] = 0;
  for (int64_t i = 0; i < ROWS * K_PADDED; i++) {
    p->x[i] = (int8_t)(3 * whole(7 * i));
    p->x_sums[i / group] += p->x[i];
  }
  const struct ommai_integer_panel panel = {.weights = p->weights,
                                            .scales = p->scales,
                                            .scale_stride = PANEL,
                                            .n_groups = n_groups,
                                            .group = group,
                                            .k_padded = K_PADDED,
                                            .zero = half ? 8 : 0};
  const struct ommai_integer_rows rows = {.x = p->x, .stride = K_PADDED, .sums = p->x_sums, .n_rows = n_rows};
  for (int i = 0; i < 2; i++) {
    const struct ommai_integer_kernels *kernels = i ? &ommai_integer_amx : &ommai_integer_avx512_vnni;
    (half ? kernels->u4 : kernels->s8)(&panel, &rows, p->sums[i]);
  }
  for (int64_t i = 0; i < n_rows * PANEL; i++) {
    if (p->sums[0][i] != p->sums[1][i]) return false;
  }
  return true;
}

/* ---- attention ------------------------------------------------------------------------------- */

struct attention_problem {
  ommai_bf16 q[QUERIES * HEAD_DIM], k[KEYS * HEAD_DIM], v[KEYS * HEAD_DIM], out[2][QUERIES * HEAD_DIM];
  _Alignas(64) unsigned char packed[SPACE / 4], scratch[SPACE / 4];
};

static bool attend(struct attention_problem *p, const struct ommai_attention_tile_kernel *kernel, int32_t n_queries,
                   ommai_bf16 *out) {
  size_t stride = ommai_round_up((int64_t)kernel->block_bytes(HEAD_DIM, HEAD_DIM), 64);
  if (BLOCKS * stride > sizeof p->packed || kernel->scratch_bytes(HEAD_DIM, HEAD_DIM) > sizeof p->scratch) return false;
  for (int32_t first = 0; first < KEYS; first += OMMAI_ATTENTION_BLOCK) {
    const struct ommai_attention_pack job = {.k = p->k + first * HEAD_DIM,
                                             .v = p->v + first * HEAD_DIM,
                                             .k_stride = HEAD_DIM,
                                             .v_stride = HEAD_DIM,
                                             .n_keys = (int32_t)ommai_min_i64(OMMAI_ATTENTION_BLOCK, KEYS - first),
                                             .head_dim = HEAD_DIM,
                                             .v_head_dim = HEAD_DIM,
                                             .packed = p->packed + (size_t)(first / OMMAI_ATTENTION_BLOCK) * stride};
    kernel->pack(&job);
  }
  const struct ommai_attention_tile tile = {.q = p->q,
                                            .out = out,
                                            .q_stride = HEAD_DIM,
                                            .out_stride = HEAD_DIM,
                                            .n_rows = n_queries,
                                            .head_dim = HEAD_DIM,
                                            .v_head_dim = HEAD_DIM,
                                            .packed = p->packed,
                                            .n_keys = KEYS,
                                            .first_visible = KEYS - n_queries + 1,
                                            .window_keys = KEYS,
                                            .scale = 0.125f,
                                            .scratch = p->scratch};
  kernel->attend(&tile);
  return true;
}

static bool compare_attention(void *space, int32_t n_queries) {
  struct attention_problem *p = space;
  double largest = 32.0 / 37.0;
  for (int64_t i = 0; i < QUERIES * HEAD_DIM; i++) p->q[i] = ommai_bf16_from_f32(fraction(i + 5));
  for (int64_t i = 0; i < KEYS * HEAD_DIM; i++) {
    p->k[i] = ommai_bf16_from_f32(fraction(3 * i));
    p->v[i] = ommai_bf16_from_f32(fraction(5 * i + 3));
  }
  if (!attend(p, &ommai_attention_tile_bf16_avx512_bf16, n_queries, p->out[0])) return false;
  if (!attend(p, &ommai_attention_tile_bf16_amx, n_queries, p->out[1])) return false;
  for (int64_t i = 0; i < n_queries * HEAD_DIM; i++) {
    double difference = (double)ommai_bf16_to_f32(p->out[0][i]) - ommai_bf16_to_f32(p->out[1][i]);
    if (!(fabs(difference) <= 0x1p-6 * largest)) return false;
  }
  return true;
}

_Static_assert(sizeof(struct bf16_problem) <= SPACE && sizeof(struct integer_problem) <= SPACE, "the problems fit");
_Static_assert(sizeof(struct attention_problem) <= SPACE, "the problem fits");

/* A product takes 16, 32, 64 inputs, or more than one block of the only group. */
static bool compare_all_integers(void *space) {
  static const int64_t groups[] = {MIN_GROUP, 32, 64, K_PADDED};
  for (int i = 0; i < 4 * 2 * 2; i++) {
    if (!compare_integers(space, i & 1, groups[i / 4], i & 2 ? ROWS : FEWER_ROWS)) return false;
  }
  return true;
}

/* A process's own copy once it is written. No call for memory could fail here: the level, and bits
 * with it, would depend on that. */
bool ommai_amx_self_test(void) {
  static _Alignas(64) unsigned char space[SPACE];
  return compare_bf16(space, ROWS) && compare_bf16(space, FEWER_ROWS) && compare_gemv(space, GEMV_ROWS) &&
         compare_gemv(space, OMMAI_GEMV_WIDE_GROUP) && compare_all_integers(space) && compare_attention(space, QUERIES) &&
         compare_attention(space, FEWER_QUERIES);
}
