/* Times the encoder and causal forms on one segmentation beside the machine's peak, measured in the same run by a loop that
 * touches registers only. One JSON line per case.
 *
 *   attention_bench [--dtype bf16|f32|f16] [--head-dim D] [--heads H] [--segments 4096 | 64x256 | 2146,2072] [--form encoder|
 *                   causal|decode] [--threads N] [--isa LEVEL] [--seconds S]
 *
 * Built by hand: cc -O2 -D_GNU_SOURCE -Isrc -Iinclude bench/attention_bench.c src/base/team.c libomma-attention.a -lm -lpthread */
#include <omma/attention.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/half.h"
#include "base/team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define PEAK_LOOP(name, target_isa, instruction)                                                                          \
  __attribute__((target(target_isa))) static void name(int64_t rounds) {                                                  \
    for (int64_t i = 0; i < rounds; i++) {                                                                                \
      __asm__ volatile(instruction " %%zmm30, %%zmm31, %%zmm0\n" instruction " %%zmm30, %%zmm31, %%zmm1\n" instruction    \
                                   " %%zmm30, %%zmm31, %%zmm2\n" instruction " %%zmm30, %%zmm31, %%zmm3\n" instruction    \
                                   " %%zmm30, %%zmm31, %%zmm4\n" instruction " %%zmm30, %%zmm31, %%zmm5\n" instruction    \
                                   " %%zmm30, %%zmm31, %%zmm6\n" instruction " %%zmm30, %%zmm31, %%zmm7\n" instruction    \
                                   " %%zmm30, %%zmm31, %%zmm8\n" instruction " %%zmm30, %%zmm31, %%zmm9\n" ::             \
                                       : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9"); \
    }                                                                                                                     \
  }
PEAK_LOOP(peak_f32, "avx512f", "vfmadd231ps")
PEAK_LOOP(peak_bf16, "avx512f", "vdpbf16ps")
#endif

enum { PEAK_ROUNDS = 1000000, PEAK_INSTRUCTIONS = 10, MAX_SEGMENTS = 1 << 20 };

struct settings {
  enum omma_dtype dtype;
  enum omma_attention_form form;
  int32_t head_dim, n_heads, n_kv_heads;
  int threads;
  const char *isa;
  double seconds;
  int64_t n_segments;
  int32_t *borders; /* [n_segments + 1] */
};

static void peak_task(void *context, int64_t task, int worker) {
  (void)task;
  (void)worker;
#if defined(__x86_64__)
  if (*(bool *)context) {
    peak_bf16(PEAK_ROUNDS);
  } else {
    peak_f32(PEAK_ROUNDS);
  }
#else
  (void)context;
#endif
}

/* GFLOP/s of the team; 0 where this machine has no such loop. The best of a few runs. */
static double measure_peak(const struct omma_team *team, bool bf16) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512f") || (bf16 && !__builtin_cpu_supports("avx512bf16"))) return 0.0;
#else
  return 0.0;
#endif
  double best = 1e30;
  for (int round = 0; round < 5; round++) {
    double start = ommai_clock_seconds();
    ommai_team_run(team, team->n_workers, peak_task, &bf16);
    double taken = ommai_clock_seconds() - start;
    if (taken < best) best = taken;
  }
  double per_instruction = bf16 ? 64.0 : 32.0;
  return (double)PEAK_ROUNDS * PEAK_INSTRUCTIONS * per_instruction * team->n_workers / best * 1e-9;
}

/* "4096", "64x256" (256 segments of 64), "2146,2072,1332". */
static bool parse_segments(const char *text, struct settings *settings) {
  settings->borders = calloc(MAX_SEGMENTS + 1, sizeof *settings->borders);
  settings->n_segments = 0;
  while (*text) {
    char *end;
    long length = strtol(text, &end, 10), count = 1;
    if (end == text || length < 0) return false;
    if (*end == 'x') count = strtol(end + 1, &end, 10);
    for (long i = 0; i < count && settings->n_segments < MAX_SEGMENTS; i++) {
      settings->borders[settings->n_segments + 1] = settings->borders[settings->n_segments] + (int32_t)length;
      settings->n_segments++;
    }
    text = *end == ',' ? end + 1 : end;
    if (*end && *end != ',') return false;
  }
  return settings->n_segments > 0;
}

static bool parse_option(const char *name, const char *value, struct settings *settings) {
  if (strcmp(name, "--dtype") == 0) {
    settings->dtype = strcmp(value, "f32") == 0 ? OMMA_F32 : strcmp(value, "f16") == 0 ? OMMA_F16 : OMMA_BF16;
  } else if (strcmp(name, "--form") == 0) {
    settings->form = strcmp(value, "causal") == 0   ? OMMA_ATTENTION_CAUSAL
                     : strcmp(value, "decode") == 0 ? OMMA_ATTENTION_DECODE
                                                    : OMMA_ATTENTION_ENCODER;
  } else if (strcmp(name, "--head-dim") == 0) {
    settings->head_dim = atoi(value);
  } else if (strcmp(name, "--heads") == 0) {
    settings->n_heads = atoi(value);
  } else if (strcmp(name, "--kv-heads") == 0) {
    settings->n_kv_heads = atoi(value);
  } else if (strcmp(name, "--threads") == 0) {
    settings->threads = atoi(value);
  } else if (strcmp(name, "--isa") == 0) {
    settings->isa = value;
  } else if (strcmp(name, "--seconds") == 0) {
    settings->seconds = atof(value);
  } else if (strcmp(name, "--segments") == 0) {
    return parse_segments(value, settings);
  } else {
    return false;
  }
  return true;
}

static void fill(unsigned char *data, int64_t count, enum omma_dtype dtype) {
  uint32_t state = 1;
  for (int64_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    float value = (float)(state >> 8) * 0x1p-22f - 2.0f;
    uint16_t half = dtype == OMMA_BF16 ? ommai_bf16_from_f32(value) : ommai_f16_from_f32(value);
    if (dtype == OMMA_F32) {
      memcpy(data + i * 4, &value, 4);
    } else {
      memcpy(data + i * 2, &half, 2);
    }
  }
}

/* The whole operator on a fused q/k/v row, as a vision tower calls it. When decoding, each segment is one row behind so many
 * keys in pages. */
struct problem {
  struct omma_attention_plan *plan;
  struct omma_attention_tensors tensors;
  unsigned char *qkv, *out;
  int32_t *pages; /* NULL: not paged */
  void *workspace;
  size_t workspace_size;
  double plan_us;
};

/* Pages of keys, then of values, then the query rows; every segment has as many pages as the longest. */
static void make_pages(const struct settings *settings, struct problem *problem, size_t size) {
  int64_t most = 0, dim = settings->head_dim, page = OMMA_ATTENTION_PAGE_TOKENS * settings->n_kv_heads * dim;
  for (int64_t i = 0; i < settings->n_segments; i++) {
    int64_t length = settings->borders[i + 1] - settings->borders[i];
    int64_t pages = (length + OMMA_ATTENTION_PAGE_TOKENS - 1) / OMMA_ATTENTION_PAGE_TOKENS;
    if (pages > most) most = pages;
  }
  int64_t n_pages = most * settings->n_segments, n_queries = settings->n_segments * settings->n_heads * dim;
  problem->qkv = malloc((size_t)(2 * n_pages * page + n_queries) * size);
  fill(problem->qkv, 2 * n_pages * page + n_queries, settings->dtype);
  problem->pages = calloc((size_t)n_pages, sizeof *problem->pages);
  for (int64_t i = 0; i < n_pages; i++) problem->pages[i] = (int32_t)i;
  problem->tensors = (struct omma_attention_tensors){.k = problem->qkv,
                                                     .v = problem->qkv + (size_t)(n_pages * page) * size,
                                                     .q = problem->qkv + (size_t)(2 * n_pages * page) * size,
                                                     .page_table = problem->pages,
                                                     .page_table_stride = most};
}

static enum omma_status make_problem(const struct settings *settings, const struct omma_attention_context *context,
                                     struct problem *problem, struct omma_error *error) {
  bool decode = settings->form == OMMA_ATTENTION_DECODE;
  int64_t n_kv = settings->borders[settings->n_segments], n_rows = decode ? settings->n_segments : n_kv;
  int64_t dim = settings->head_dim, width = (settings->n_heads + 2 * settings->n_kv_heads) * dim;
  size_t size = settings->dtype == OMMA_F32 ? 4 : 2;
  int32_t *rows = calloc((size_t)settings->n_segments + 1, sizeof *rows);
  int64_t *offsets = calloc((size_t)settings->n_segments + 1, sizeof *offsets);
  for (int64_t i = 0; i < settings->n_segments; i++) {
    rows[i + 1] = (int32_t)i + 1;
    offsets[i] = settings->borders[i + 1] - settings->borders[i] - 1;
  }
  struct omma_attention_spec spec = {.form = settings->form,
                                     .dtype = settings->dtype,
                                     .n_heads = settings->n_heads,
                                     .n_kv_heads = settings->n_kv_heads,
                                     .head_dim = settings->head_dim,
                                     .n_tokens = n_rows,
                                     .n_kv_tokens = n_kv,
                                     .n_segments = settings->n_segments,
                                     .cu_seqlens = decode ? rows : settings->borders,
                                     .cu_seqlens_k = settings->borders,
                                     .q_offsets = decode ? offsets : NULL,
                                     .paged = decode};
  double start = ommai_clock_seconds();
  enum omma_status status = omma_attention_plan_create(context, &spec, &problem->plan, error);
  problem->plan_us = (ommai_clock_seconds() - start) * 1e6;
  free(rows);
  free(offsets);
  if (status != OMMA_OK) return status;
  if (decode) {
    make_pages(settings, problem, size);
  } else {
    problem->qkv = malloc((size_t)(n_kv * width) * size);
    fill(problem->qkv, n_kv * width, settings->dtype);
    problem->tensors =
        (struct omma_attention_tensors){.q = problem->qkv,
                                        .k = problem->qkv + (size_t)(settings->n_heads * dim) * size,
                                        .v = problem->qkv + (size_t)((settings->n_heads + settings->n_kv_heads) * dim) * size,
                                        .q_token_stride = width,
                                        .k_token_stride = width,
                                        .v_token_stride = width};
  }
  problem->out = malloc((size_t)(n_rows * settings->n_heads * dim) * size);
  problem->tensors.out = problem->out;
  problem->workspace_size = omma_attention_plan_workspace_size(problem->plan, settings->threads);
  problem->workspace = ommai_allocate(&ommai_default_allocator, problem->workspace_size, 1);
  return OMMA_OK;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static enum omma_status time_problem(const struct settings *settings, const struct omma_team *team, struct problem *problem,
                                     struct omma_error *error) {
  enum { MOST = 10000 };
  static double times[MOST];
  int count = 0;
  double total = 0.0;
  while (count < 3 || (total < settings->seconds && count < MOST)) {
    double start = ommai_clock_seconds();
    OMMAI_TRY(omma_attention_run(problem->plan, &problem->tensors, problem->workspace, problem->workspace_size, team, error));
    times[count] = ommai_clock_seconds() - start;
    total += times[count++];
  }
  qsort(times, (size_t)count, sizeof *times, compare_doubles);
  struct omma_attention_plan_info info;
  omma_attention_plan_get_info(problem->plan, &info);
  bool bf16 = strstr(info.kernel, "avx512_bf16") != NULL;
  double peak = measure_peak(team, bf16), best = times[0], median = times[count / 2];
  printf(
      "{\"kernel\":\"%s\",\"head_dim\":%d,\"threads\":%d,\"runs\":%d,\"ms_min\":%.3f,\"ms_median\":%.3f,\"gflops\":%.1f,"
      "\"gflops_median\":%.1f,\"peak_gflops\":%.1f,\"fraction_of_peak\":%.3f,\"workspace_bytes\":%zu,\"plan_us\":%.1f,"
      "\"kv_gb_per_s\":%.1f}\n",
      info.kernel, settings->head_dim, settings->threads, count, best * 1e3, median * 1e3, info.flops / best * 1e-9,
      info.flops / median * 1e-9, peak, peak > 0 ? info.flops / best * 1e-9 / peak : 0.0, problem->workspace_size,
      problem->plan_us,
      (double)settings->borders[settings->n_segments] * settings->n_kv_heads * settings->head_dim * 2 *
          (settings->dtype == OMMA_F32 ? 4 : 2) / best * 1e-9);
  return OMMA_OK;
}

int main(int argc, char **argv) {
  struct settings settings = {.dtype = OMMA_BF16, .head_dim = 72, .n_heads = 16, .threads = 1, .seconds = 1.0};
  struct omma_error error = {0};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!parse_option(argv[i], argv[i + 1], &settings)) return fprintf(stderr, "wrong option %s %s\n", argv[i], argv[i + 1]), 2;
  }
  if (!settings.borders) parse_segments("4096", &settings);
  if (settings.n_kv_heads == 0) settings.n_kv_heads = settings.n_heads;
  struct omma_attention_context *context = NULL;
  struct ommai_team *team = NULL;
  struct problem problem = {0};
  struct omma_attention_options options = {.isa = settings.isa};
  enum omma_status status = omma_attention_context_create(&options, &context, &error);
  if (status == OMMA_OK) status = ommai_team_create(settings.threads, true, &ommai_default_allocator, &team, &error);
  if (status == OMMA_OK) status = make_problem(&settings, context, &problem, &error);
  if (status == OMMA_OK) status = time_problem(&settings, ommai_team_interface(team), &problem, &error);
  if (status != OMMA_OK) fprintf(stderr, "%s\n", error.message);
  omma_attention_plan_destroy(problem.plan);
  omma_attention_context_destroy(context);
  ommai_team_destroy(team);
  ommai_release(&ommai_default_allocator, problem.workspace, problem.workspace_size, 1);
  free(problem.qkv);
  free(problem.out);
  free(problem.pages);
  free(settings.borders);
  return status == OMMA_OK ? 0 : 1;
}
