#include "support/attention_case.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/attention_element.h"
#include "support/attention_bound.h"
#include "support/guarded.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS, CANARY = 0x5a };
enum { TENSOR_Q, TENSOR_K, TENSOR_V };

static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* Nearly normal: the sum of the hash's four parts of 16 bits, scaled to variance 1. */
static float hashed_normal(uint64_t key) {
  uint64_t hash = mix(key + 1);
  uint32_t sum = (uint32_t)((hash & 0xffff) + (hash >> 16 & 0xffff) + (hash >> 32 & 0xffff) + (hash >> 48));
  return (float)((sum / 65535.0 - 2.0) * 1.7320508);
}

static enum omma_dtype type_of(const struct attention_case *problem, int tensor) {
  if (tensor == TENSOR_Q) return problem->dtype;
  return problem->int8_kv ? OMMA_INT8 : problem->bf16_kv ? OMMA_BF16 : problem->dtype;
}

/* The n values of a row, before they are brought to their type. */
static void raw_values(const struct attention_case *problem, uint32_t content, int tensor, int64_t position, int64_t head,
                       int64_t n, float *out) {
  uint64_t key = ((((uint64_t)content * 3 + (uint64_t)tensor) * 1000003u + (uint64_t)position) * 4099u + (uint64_t)head) * 257u;
  float factor = 1.0f;
  if (problem->values == VALUES_HUGE) factor = tensor == TENSOR_V ? 1000.0f : problem->dtype == OMMA_F16 ? 200.0f : 3000.0f;
  if (problem->values == VALUES_DENORMAL) factor = problem->dtype == OMMA_F16 ? 0x1p-20f : 0x1p-128f;
  for (int64_t d = 0; d < n; d++) {
    if (problem->values == VALUES_EQUAL) {
      out[d] = tensor == TENSOR_V ? 0.75f : 0.5f;
    } else if (problem->values == VALUES_ALTERNATING) {
      out[d] = (position + d) % 2 ? -3.0f : 3.0f;
    } else {
      out[d] = hashed_normal(key + (uint64_t)d) * factor;
    }
  }
}

/* What the integers of a row are multiplied by: some power of two, and up to a half more. */
static float scale_of(const struct attention_case *problem, int tensor, int64_t position, int64_t head) {
  float size = 1.0f;
  if (problem->values == VALUES_HUGE) size = tensor == TENSOR_V ? 1000.0f : 3000.0f;
  if (problem->values == VALUES_DENORMAL) size = 0x1p-128f;
  return size * (1.0f + (float)((position * 3 + head) % 5) / 8.0f) / 32.0f;
}

/* Values to the integers next to them, of which each is a float. Adding and taking away 1.5 * 2^23
 * rounds to the nearest one. */
static void round_to_integers(float *values, int64_t n, float scale) {
  for (int64_t d = 0; d < n; d++) {
    float value = values[d] / scale;
    value = value > 127.0f ? 127.0f : value < -127.0f ? -127.0f : value;
    values[d] = value + 0x1.8p23f - 0x1.8p23f;
  }
}

/* What the operator computes with: products of integers are rounded to bf16 in the CAUSAL mode in
 * bf16. */
static void true_values(const struct attention_case *problem, uint32_t content, int tensor, int64_t position, int64_t head,
                        int64_t n, float *out) {
  enum omma_dtype type = type_of(problem, tensor);
  raw_values(problem, content, tensor, position, head, n, out);
  if (type == OMMA_F32) return;
  float scale = scale_of(problem, tensor, position, head);
  bool rounded = problem->mode == OMMA_ATTENTION_CAUSAL && problem->dtype == OMMA_BF16;
  if (type == OMMA_INT8) round_to_integers(out, n, scale);
  for (int64_t d = 0; d < n; d++) {
    unsigned char stored[4];
    if (type == OMMA_INT8) {
      out[d] *= scale;
      if (rounded) out[d] = ommai_bf16_to_f32(ommai_bf16_from_f32(out[d]));
    } else {
      ommai_attention_store(stored, 0, type, out[d]);
      out[d] = ommai_attention_load(stored, 0, type);
    }
  }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Rows of heads in one of the layouts. */
struct layout {
  int64_t token_stride, head_stride, count;
};

static struct layout layout_of(const struct attention_case *problem, int64_t rows, int64_t heads, int64_t dim) {
  int64_t row = dim + problem->pad;
  if (problem->heads_first) return (struct layout){row, row * rows, row * rows * heads - problem->pad};
  return (struct layout){row * heads, row, row * rows * heads - problem->pad};
}

int64_t attention_case_row(const struct attention_case *problem, int64_t segment) {
  int64_t row = 0;
  for (int64_t i = 0; i < segment; i++) row += problem->segments[i].n_rows;
  return row;
}

static int64_t key_row(const struct attention_case *problem, int64_t segment) {
  int64_t row = 0;
  for (int64_t i = 0; i < segment; i++) row += problem->segments[i].n_keys;
  return row;
}

static int64_t position_of(const struct attention_case *problem, const struct attention_segment *segment, int64_t row) {
  return problem->mode == OMMA_ATTENTION_ENCODER ? row : segment->n_keys - segment->n_rows + row;
}

static void fill_rows(const struct attention_case *problem, const struct attention_segment *segment, int tensor, void *data,
                      int64_t at, int64_t token_stride, int64_t head_stride, int64_t position, int64_t n_rows) {
  if (segment->poison) return;
  int64_t heads = tensor == TENSOR_Q ? problem->n_heads : problem->n_kv_heads;
  int64_t dim = tensor == TENSOR_V ? problem->v_head_dim : problem->head_dim;
  enum omma_dtype type = type_of(problem, tensor);
  float values[OMMA_ATTENTION_MAX_DECODE_HEAD_DIM];
  for (int64_t row = 0; row < n_rows; row++) {
    for (int64_t head = 0; head < heads; head++) {
      int64_t place = at + row * token_stride + head * head_stride;
      raw_values(problem, segment->content, tensor, position + row, head, dim, values);
      if (type == OMMA_INT8) {
        round_to_integers(values, dim, scale_of(problem, tensor, position + row, head));
        for (int64_t d = 0; d < dim; d++) ((int8_t *)data)[place + d] = (int8_t)values[d];
      } else {
        for (int64_t d = 0; d < dim; d++) ommai_attention_store(data, place + d, type, values[d]);
      }
    }
  }
}

/* ---- running --------------------------------------------------------------------------------- */

struct memory {
  struct guarded q, k, v, out, k_scales, v_scales;
  struct omma_attention_tensors tensors;
  int32_t *pages;
  void *borders, *key_borders;
  int64_t *offsets;
  int64_t n_rows, n_keys;
  size_t out_bytes;
};

static void set_border(const struct attention_case *problem, void *array, int64_t index, int64_t value) {
  if (problem->index64) {
    ((int64_t *)array)[index] = value;
  } else {
    ((int32_t *)array)[index] = (int32_t)value;
  }
}

static void make_borders(const struct attention_case *problem, struct memory *memory) {
  size_t count = (size_t)problem->n_segments + 1;
  memory->borders = calloc(count, 8);
  memory->key_borders = calloc(count, 8);
  memory->offsets = calloc(count, 8);
  for (int64_t i = 0; i <= problem->n_segments; i++) {
    set_border(problem, memory->borders, i, attention_case_row(problem, i));
    set_border(problem, memory->key_borders, i, key_row(problem, i));
    if (i < problem->n_segments) memory->offsets[i] = problem->segments[i].n_keys - problem->segments[i].n_rows;
  }
}

/* The scales of n rows of all heads from `row` on; poisoned ones stay NaN. */
static void fill_scales(const struct attention_case *problem, const struct attention_segment *segment, int tensor,
                        struct guarded *scales, int64_t at, int64_t head_stride, int64_t position, int64_t n_rows) {
  float *out = (float *)(void *)scales->data;
  if (!problem->int8_kv || segment->poison) return;
  for (int64_t head = 0; head < problem->n_kv_heads; head++) {
    for (int64_t row = 0; row < n_rows; row++) {
      out[at + head * head_stride + row] = scale_of(problem, tensor, position + row, head);
    }
  }
}

/* Memory of the scales: of `rows` rows of each head, `copies` times, `pad` floats apart. */
static void make_scales(const struct attention_case *problem, struct memory *memory, int64_t rows, int64_t copies) {
  struct omma_attention_tensors *t = &memory->tensors;
  if (!problem->int8_kv) return;
  int64_t head = rows + problem->pad, page = head * problem->n_kv_heads;
  size_t size = (size_t)(page * copies - problem->pad) * sizeof(float);
  memory->k_scales = guarded_new(copies && rows ? size : 0, !problem->in_front);
  memory->v_scales = guarded_new(copies && rows ? size : 0, !problem->in_front);
  memset(memory->k_scales.data, 0xff, memory->k_scales.size);
  memset(memory->v_scales.data, 0xff, memory->v_scales.size);
  t->k_scales = (const float *)(const void *)memory->k_scales.data;
  t->v_scales = (const float *)(const void *)memory->v_scales.data;
  t->k_scale_head_stride = t->v_scale_head_stride = head;
  t->k_scale_page_stride = t->v_scale_page_stride = page;
}

/* Keys [key, key + n) of a segment, and their scales, to the given places. */
static void fill_block(const struct attention_case *problem, const struct attention_segment *segment, struct memory *memory,
                       int64_t k_at, int64_t v_at, int64_t scales_at, int64_t key, int64_t n) {
  const struct omma_attention_tensors *t = &memory->tensors;
  fill_scales(problem, segment, TENSOR_K, &memory->k_scales, scales_at, t->k_scale_head_stride, key, n);
  fill_scales(problem, segment, TENSOR_V, &memory->v_scales, scales_at, t->v_scale_head_stride, key, n);
  fill_rows(problem, segment, TENSOR_K, memory->k.data, k_at, t->k_token_stride, t->k_head_stride, key, n);
  fill_rows(problem, segment, TENSOR_V, memory->v.data, v_at, t->v_token_stride, t->v_head_stride, key, n);
}

static int64_t first_seen(const struct attention_case *problem, int64_t position) {
  return problem->window > 0 && position + 1 > problem->window ? position + 1 - problem->window : 0;
}

/* The first key that the operator may read: that of the first row, or of a block around it. */
static int64_t first_read(const struct attention_case *problem, const struct attention_segment *segment) {
  int64_t key = first_seen(problem, position_of(problem, segment, 0));
  return problem->mode == OMMA_ATTENTION_DECODE ? key : key / PAGE * PAGE;
}

/* Keys and values row after row, or in pages that are given out backward. */
static void make_keys(const struct attention_case *problem, struct memory *memory, size_t size) {
  struct omma_attention_tensors *t = &memory->tensors;
  int64_t rows = memory->n_keys, max_pages = 0, n_pages = 0;
  for (int64_t i = 0; i < problem->n_segments; i++) {
    int64_t pages = (problem->segments[i].n_keys + PAGE - 1) / PAGE;
    n_pages += pages;
    if (pages > max_pages) max_pages = pages;
  }
  if (problem->paged) rows = PAGE;
  struct layout k = layout_of(problem, rows, problem->n_kv_heads, problem->head_dim);
  struct layout v = layout_of(problem, rows, problem->n_kv_heads, problem->v_head_dim);
  int64_t copies = problem->paged ? n_pages : 1;
  t->k_page_stride = k.count + problem->pad;
  t->v_page_stride = v.count + problem->pad;
  memory->k = guarded_new((size_t)(t->k_page_stride * copies) * size, !problem->in_front);
  memory->v = guarded_new((size_t)(t->v_page_stride * copies) * size, !problem->in_front);
  make_scales(problem, memory, rows, copies);
  t->k = memory->k.data;
  t->v = memory->v.data;
  t->k_token_stride = k.token_stride, t->k_head_stride = k.head_stride;
  t->v_token_stride = v.token_stride, t->v_head_stride = v.head_stride;
  memory->pages = calloc((size_t)(max_pages * problem->n_segments + 1), sizeof *memory->pages);
  t->page_table = memory->pages;
  t->page_table_stride = max_pages;
  for (int64_t i = 0; i < problem->n_segments; i++) {
    const struct attention_segment *segment = &problem->segments[i];
    int64_t read = first_read(problem, segment);
    for (int64_t block = 0, end; block < segment->n_keys; block = end) {
      end = block + PAGE < segment->n_keys ? block + PAGE : segment->n_keys;
      int64_t key = block > read ? block : read, row = key_row(problem, i) + key, in_block = key - block;
      if (problem->paged) memory->pages[i * max_pages + block / PAGE] = key < end ? (int32_t)--n_pages : -1;
      if (key >= end) continue;
      int64_t k_at = row * k.token_stride, v_at = row * v.token_stride, scales_at = row;
      if (problem->paged) {
        k_at = n_pages * t->k_page_stride + in_block * k.token_stride;
        v_at = n_pages * t->v_page_stride + in_block * v.token_stride;
        scales_at = n_pages * t->k_scale_page_stride + in_block;
      }
      fill_block(problem, segment, memory, k_at, v_at, scales_at, key, end - key);
    }
  }
}

static void make_queries(const struct attention_case *problem, struct memory *memory, size_t size) {
  struct omma_attention_tensors *t = &memory->tensors;
  int64_t rows = memory->n_rows + problem->tail_rows;
  struct layout q = layout_of(problem, rows, problem->n_heads, problem->head_dim);
  struct layout out = layout_of(problem, rows, problem->n_heads, problem->v_head_dim);
  memory->q = guarded_new((size_t)(q.count > 0 ? q.count : 0) * size, !problem->in_front);
  memory->out_bytes = (size_t)(out.count > 0 ? out.count : 0) * size;
  memory->out = guarded_new(memory->out_bytes + 64, !problem->in_front);
  memset(memory->out.data, CANARY, memory->out_bytes + 64);
  t->q = memory->q.data;
  t->out = memory->out.data + (problem->in_front ? 0 : 64);
  t->q_token_stride = q.token_stride, t->q_head_stride = q.head_stride;
  t->out_token_stride = out.token_stride, t->out_head_stride = out.head_stride;
  for (int64_t i = 0; i < problem->n_segments; i++) {
    const struct attention_segment *segment = &problem->segments[i];
    fill_rows(problem, segment, TENSOR_Q, memory->q.data, attention_case_row(problem, i) * q.token_stride, q.token_stride,
              q.head_stride, position_of(problem, segment, 0), segment->n_rows);
  }
}

static void run_slices(const struct attention_case *problem, const struct omma_attention_plan *plan,
                       const struct omma_attention_tensors *tensors, void *workspace, size_t size) {
  struct omma_error error;
  if (problem->slice == 0) {
    assert_ok(omma_attention_run(plan, tensors, workspace, size, problem->team, &error), &error);
    return;
  }
  struct omma_attention_plan_info info;
  omma_attention_plan_get_info(plan, &info);
  int64_t first = 0;
  do {
    int64_t count = info.n_steps - first < problem->slice ? info.n_steps - first : problem->slice;
    assert_ok(omma_attention_run_range(plan, tensors, workspace, size, problem->team, first, count, &error), &error);
    first += count;
  } while (first < info.n_steps);
}

static void run_plan(const struct omma_attention_context *context, const struct attention_case *problem,
                     struct memory *memory) {
  bool encoder = problem->mode == OMMA_ATTENTION_ENCODER;
  struct omma_attention_spec spec = {.mode = problem->mode,
                                     .dtype = problem->dtype,
                                     .n_heads = problem->n_heads,
                                     .n_kv_heads = problem->n_kv_heads,
                                     .head_dim = problem->head_dim,
                                     .v_head_dim = problem->v_head_dim,
                                     .scale = problem->scale,
                                     .n_tokens = memory->n_rows + problem->tail_rows,
                                     .n_kv_tokens = memory->n_keys,
                                     .index_type = problem->index64 ? OMMA_INDEX_INT64 : OMMA_INDEX_INT32,
                                     .n_segments = problem->n_segments,
                                     .cu_seqlens = memory->borders,
                                     .cu_seqlens_k = problem->paged ? NULL : memory->key_borders,
                                     .q_offsets = encoder ? NULL : memory->offsets,
                                     .window = problem->window,
                                     .paged = problem->paged,
                                     .bf16_kv = problem->bf16_kv,
                                     .int8_kv = problem->int8_kv,
                                     .int8_scores = problem->int8_scores};
  struct omma_error error;
  struct omma_attention_plan *plan;
  assert_ok(omma_attention_plan_create(context, &spec, &plan, &error), &error);
  int n_workers = problem->team ? problem->team->n_workers : 1;
  size_t size = omma_attention_plan_workspace_size(plan, n_workers);
  assert_true(size <= omma_attention_workspace_bound(context, &spec, n_workers));
  struct guarded workspace = guarded_new((size + 63) / 64 * 64, !problem->in_front);
  run_slices(problem, plan, &memory->tensors, workspace.data, size);
  guarded_check(&workspace, "workspace");
  guarded_free(&workspace);
  omma_attention_plan_destroy(plan);
}

/* Copies the rows out, marking what was copied; every other byte of the output must still be the
 * canary. */
static float *collect(const struct attention_case *problem, struct memory *memory, size_t size) {
  int64_t rows = memory->n_rows + problem->tail_rows;
  float *found = malloc((size_t)(rows * problem->n_heads * problem->v_head_dim + 1) * sizeof *found);
  const struct omma_attention_tensors *t = &memory->tensors;
  int64_t next = 0;
  for (int64_t row = 0; row < rows; row++) {
    for (int64_t head = 0; head < problem->n_heads; head++) {
      int64_t at = row * t->out_token_stride + head * t->out_head_stride;
      for (int64_t d = 0; d < problem->v_head_dim; d++) found[next++] = ommai_attention_load(t->out, at + d, problem->dtype);
      memset((unsigned char *)t->out + (size_t)at * size, CANARY, (size_t)problem->v_head_dim * size);
    }
  }
  /* all the same: each like the one before it */
  const unsigned char *bytes = memory->out.data;
  size_t i = 0, n_bytes = memory->out_bytes + 64;
  if (bytes[0] != CANARY || memcmp(bytes, bytes + 1, n_bytes - 1) != 0) {
    while (bytes[i] == CANARY) i++;
    fail_msg("byte %zu of the output was written", i);
  }
  return found;
}

float *attention_case_run(const struct omma_attention_context *context, const struct attention_case *problem) {
  struct memory memory = {.n_rows = attention_case_row(problem, problem->n_segments),
                          .n_keys = key_row(problem, problem->n_segments)};
  size_t size = ommai_attention_element_size(problem->dtype);
  make_borders(problem, &memory);
  make_keys(problem, &memory, ommai_attention_element_size(type_of(problem, TENSOR_K)));
  make_queries(problem, &memory, size);
  run_plan(context, problem, &memory);
  float *found = collect(problem, &memory, size);
  guarded_free(&memory.q);
  guarded_free(&memory.k);
  guarded_free(&memory.v);
  guarded_free(&memory.out);
  if (problem->int8_kv) {
    guarded_free(&memory.k_scales);
    guarded_free(&memory.v_scales);
  }
  free(memory.pages);
  free(memory.borders);
  free(memory.key_borders);
  free(memory.offsets);
  return found;
}

/* ---- the definition in double precision ------------------------------------------------------ */

/* A segment's keys and values under one of their heads, and the weights that a row gives them. */
struct oracle {
  double *keys;    /* [n_keys][head_dim] */
  double *values;  /* [n_keys][v_head_dim] */
  double *weights; /* [n_keys] */
  double *shifts;  /* [n_keys]: what errors of f32 scores may move of a weight */
};

/* A row's result, the L2 of it, and what it may be off by. */
struct expected_row {
  double norm, bound;
  double out[];
};

/* The checked rows of a case, in the order in which they are checked. They are the same at all
 * levels and in all memory, so they are kept from one check to the next. */
struct expected {
  struct expected *next;
  struct attention_case problem;
  struct attention_segment *segments; /* copies of the case's */
  int64_t row_step;
  bool known;
  size_t row_bytes;
  unsigned char *rows;
};

static void oracle_open(const struct attention_case *problem, const struct attention_segment *segment, int64_t kv_head,
                        struct oracle *oracle) {
  size_t n_keys = (size_t)segment->n_keys, dim = (size_t)problem->head_dim, v_dim = (size_t)problem->v_head_dim;
  float values[OMMA_ATTENTION_MAX_DECODE_HEAD_DIM];
  oracle->keys = malloc((n_keys * dim + 1) * sizeof(double));
  oracle->values = malloc((n_keys * v_dim + 1) * sizeof(double));
  oracle->weights = malloc((n_keys + 1) * sizeof(double));
  oracle->shifts = malloc((n_keys + 1) * sizeof(double));
  for (size_t key = 0; key < n_keys; key++) {
    true_values(problem, segment->content, TENSOR_K, (int64_t)key, kv_head, (int64_t)dim, values);
    for (size_t d = 0; d < dim; d++) oracle->keys[key * dim + d] = values[d];
    true_values(problem, segment->content, TENSOR_V, (int64_t)key, kv_head, (int64_t)v_dim, values);
    for (size_t d = 0; d < v_dim; d++) oracle->values[key * v_dim + d] = values[d];
  }
}

static void oracle_close(struct oracle *oracle) {
  free(oracle->keys);
  free(oracle->values);
  free(oracle->weights);
  free(oracle->shifts);
}

/* Weights of keys [begin, n_keys), and their shifts; returns the key of the largest weight, which
 * has no shift. */
static int64_t weigh(const struct attention_case *problem, const double *q, int64_t begin, int64_t n_keys,
                     struct oracle *oracle) {
  double scale = problem->scale != 0.0f ? problem->scale : 1.0 / sqrt(problem->head_dim);
  double score_terms = 0.0, sum = 0.0;
  int64_t first = begin;
  for (int64_t key = begin; key < n_keys; key++) {
    const double *k = oracle->keys + key * problem->head_dim;
    double dot = 0.0, terms = 0.0;
    for (int64_t d = 0; d < problem->head_dim; d++) {
      dot += q[d] * k[d];
      terms += fabs(q[d] * k[d]);
    }
    oracle->weights[key] = dot * scale;
    if (oracle->weights[key] > oracle->weights[first]) first = key;
    score_terms = fmax(score_terms, terms * fabs(scale));
  }
  double largest = oracle->weights[first];
  for (int64_t key = begin; key < n_keys; key++) sum += oracle->weights[key] = exp(oracle->weights[key] - largest);
  for (int64_t key = begin; key < n_keys; key++) {
    oracle->weights[key] /= sum;
    oracle->shifts[key] = key == first ? 0.0 : attention_moved_weight(oracle->weights[key], score_terms);
  }
  return first;
}

/* Rounding of the type and of f32 scores. Denormal inputs may be taken as zeros. */
static double row_bound(const struct attention_case *problem, double magnitude, double moved) {
  double tiny = problem->dtype == OMMA_F16 ? 0x1p-24 : 0x1p-126;
  return magnitude * attention_unit(problem->dtype, problem->v_head_dim) + moved + 2 * tiny * sqrt(problem->v_head_dim);
}

static void oracle_row(const struct attention_case *problem, const struct attention_segment *segment, int64_t row, int64_t head,
                       struct oracle *oracle, struct expected_row *expected) {
  int64_t position = position_of(problem, segment, row), dim = problem->v_head_dim;
  int64_t n_keys = problem->mode == OMMA_ATTENTION_ENCODER ? segment->n_keys : position + 1;
  int64_t begin = first_seen(problem, position);
  float query[OMMA_ATTENTION_MAX_DECODE_HEAD_DIM];
  double q[OMMA_ATTENTION_MAX_DECODE_HEAD_DIM];
  true_values(problem, segment->content, TENSOR_Q, position, head, problem->head_dim, query);
  for (int64_t d = 0; d < problem->head_dim; d++) q[d] = query[d];
  int64_t first = weigh(problem, q, begin, n_keys, oracle);
  /* of each dimension: the sum of |weight * v|, and what errors of f32 scores may move */
  double *out = expected->out, terms[OMMA_ATTENTION_MAX_DECODE_HEAD_DIM], moves[OMMA_ATTENTION_MAX_DECODE_HEAD_DIM];
  for (int64_t d = 0; d < dim; d++) out[d] = terms[d] = moves[d] = 0.0;
  const double *v_first = oracle->values + first * dim;
  for (int64_t key = begin; key < n_keys; key++) {
    const double *v = oracle->values + key * dim, weight = oracle->weights[key], shift = oracle->shifts[key];
    for (int64_t d = 0; d < dim; d++) {
      out[d] += weight * v[d];
      terms[d] += fabs(weight * v[d]);
      moves[d] += shift * fabs(v[d] - v_first[d]);
    }
  }
  double norm = 0.0, magnitude = 0.0, moved = 0.0;
  for (int64_t d = 0; d < dim; d++) {
    norm += out[d] * out[d];
    magnitude += terms[d] * terms[d];
    moved += moves[d] * moves[d];
  }
  expected->norm = sqrt(norm);
  expected->bound = row_bound(problem, sqrt(magnitude), sqrt(moved));
}

static void check_row(const struct attention_case *problem, const struct attention_segment *segment, int64_t row, int64_t head,
                      const float *found, double relative, const struct expected_row *expected, const char *label) {
  double error = 0.0, bound = expected->bound;
  for (int64_t d = 0; d < problem->v_head_dim; d++) error += (found[d] - expected->out[d]) * (found[d] - expected->out[d]);
  error = sqrt(error);
  if (problem->values == VALUES_NORMAL && problem->v_head_dim >= ATTENTION_MANY_DIMS)
    bound = fmin(bound, relative * expected->norm);
  if (error <= bound) return;
  fail_msg(
      "%s: mode %d dtype %d D %d/%d heads %d/%d values %d content %u rows %d keys %d window %d: row %d head %d: error %.3g of "
      "norm %.3g, "
      "allowed %.3g",
      label, (int)problem->mode, (int)problem->dtype, problem->head_dim, problem->v_head_dim, problem->n_heads,
      problem->n_kv_heads, (int)problem->values, segment->content, (int)segment->n_rows, (int)segment->n_keys,
      (int)problem->window, (int)row, (int)head, error, expected->norm, bound);
}

static bool is_checked(int64_t row, int64_t head, int64_t row_step) { return head % row_step == row % row_step; }

/* Every row of a segment under every row_step-th head, of those that share the head kv_head of keys
 * and values; which they are changes from row to row. Returns where the next segment's rows are
 * expected. */
static unsigned char *check_kv_head(const struct attention_case *problem, const struct attention_segment *segment,
                                    int64_t kv_head, const float *rows, double relative, const struct expected *expected,
                                    unsigned char *at, const char *label) {
  int64_t group = problem->n_heads / problem->n_kv_heads, first = kv_head * group;
  struct oracle oracle = {.keys = NULL};
  for (int64_t row = 0; row < segment->n_rows; row++) {
    for (int64_t head = first; head < first + group; head++) {
      const float *values = rows + (row * problem->n_heads + head) * problem->v_head_dim;
      if (!is_checked(row, head, expected->row_step)) continue;
      if (segment->n_keys > 0) {
        struct expected_row *expected_row = (struct expected_row *)(void *)at;
        if (!expected->known) {
          if (!oracle.keys) oracle_open(problem, segment, kv_head, &oracle);
          oracle_row(problem, segment, row, head, &oracle, expected_row);
        }
        check_row(problem, segment, row, head, values, relative, expected_row, label);
        at += expected->row_bytes;
      } else {
        for (int64_t d = 0; d < problem->v_head_dim; d++) assert_true(values[d] == 0.0f);
      }
    }
  }
  oracle_close(&oracle);
  return at;
}

static struct expected *all_expected, *last_expected;

/* Whether two cases have the same results: they differ in memory, teams and slices at most. */
static bool same_results(const struct attention_case *a, const struct attention_case *b) {
  if (a->mode != b->mode || a->dtype != b->dtype || a->bf16_kv != b->bf16_kv || a->int8_kv != b->int8_kv ||
      a->n_heads != b->n_heads || a->n_kv_heads != b->n_kv_heads || a->head_dim != b->head_dim ||
      a->v_head_dim != b->v_head_dim || memcmp(&a->scale, &b->scale, sizeof a->scale) != 0 || a->window != b->window ||
      a->values != b->values || a->n_segments != b->n_segments) {
    return false;
  }
  for (int64_t i = 0; i < a->n_segments; i++) {
    const struct attention_segment *x = &a->segments[i], *y = &b->segments[i];
    if (x->n_rows != y->n_rows || x->n_keys != y->n_keys || x->content != y->content || x->poison != y->poison) return false;
  }
  return true;
}

static size_t count_checked(const struct attention_case *problem, int64_t row_step) {
  size_t n = 0;
  for (int64_t i = 0; i < problem->n_segments; i++) {
    for (int64_t row = 0; row < problem->segments[i].n_rows; row++) {
      for (int64_t head = 0; head < problem->n_heads; head++) n += is_checked(row, head, row_step);
    }
  }
  return n;
}

/* What is expected of a case, with room for it where it is not known yet. Cases come in the same
 * order at each level, so that the one after the last one is looked at first. */
static struct expected *expected_of(const struct attention_case *problem, int64_t row_step) {
  struct expected *first = last_expected && last_expected->next ? last_expected->next : all_expected, *expected = first;
  while (expected) {
    if (expected->row_step == row_step && same_results(&expected->problem, problem)) return last_expected = expected;
    expected = expected->next ? expected->next : all_expected;
    if (expected == first) break;
  }
  size_t n_segments = (size_t)problem->n_segments;
  expected = malloc(sizeof *expected);
  *expected = (struct expected){.problem = *problem, .row_step = row_step};
  expected->segments = malloc((n_segments + 1) * sizeof *expected->segments);
  if (n_segments > 0) memcpy(expected->segments, problem->segments, n_segments * sizeof *expected->segments);
  expected->problem.segments = expected->segments;
  expected->row_bytes = sizeof(struct expected_row) + (size_t)problem->v_head_dim * sizeof(double);
  expected->rows = malloc(count_checked(problem, row_step) * expected->row_bytes + 1);
  struct expected **end = last_expected ? &last_expected->next : &all_expected;
  expected->next = *end;
  *end = expected;
  return last_expected = expected;
}

void attention_case_forget(void) {
  while (all_expected) {
    struct expected *next = all_expected->next;
    free(all_expected->segments);
    free(all_expected->rows);
    free(all_expected);
    all_expected = next;
  }
  last_expected = NULL;
}

void attention_case_check(const struct attention_case *problem, const float *found, double relative, int64_t row_step,
                          const char *label) {
  int64_t width = (int64_t)problem->n_heads * problem->v_head_dim, n_rows = attention_case_row(problem, problem->n_segments);
  struct expected *expected = expected_of(problem, row_step);
  unsigned char *at = expected->rows;
  for (int64_t i = 0; i < problem->n_segments; i++) {
    const struct attention_segment *segment = &problem->segments[i];
    const float *rows = found + attention_case_row(problem, i) * width;
    if (segment->poison) continue;
    for (int64_t kv_head = 0; kv_head < problem->n_kv_heads; kv_head++) {
      at = check_kv_head(problem, segment, kv_head, rows, relative, expected, at, label);
    }
  }
  expected->known = true;
  for (int64_t i = n_rows * width; i < (n_rows + problem->tail_rows) * width; i++) assert_true(found[i] == 0.0f);
}
