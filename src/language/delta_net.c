#include "language/delta_net.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/team.h"
#include "kernels/delta_rule.h"
#include "kernels/dtype.h"
#include "language/decode_attention.h"
#include "language/prefill_attention.h"

enum { BLOCK = OMMAI_DELTA_ROWS, PAGE = OMMA_ATTENTION_PAGE_TOKENS };
_Static_assert(PAGE % BLOCK == 0, "a prompt's pieces begin at a block");

/* ---- shapes ---- */

/* A value head's columns, in whole strips. */
static int64_t padded_values(const struct ommai_delta_config *delta) {
  return ommai_round_up(delta->value_dim, OMMAI_DELTA_COLUMNS);
}

static int64_t matrix_elements(const struct ommai_delta_config *delta) { return delta->key_dim * padded_values(delta); }

static struct ommai_mixer_shape shape(const struct ommai_decoder_config *config) {
  const struct ommai_delta_config *delta = &config->delta;
  int64_t values = delta->n_value_heads * delta->value_dim, channels = ommai_delta_channels(delta);
  int64_t kept = delta->n_value_heads * matrix_elements(delta) + (delta->kernel - 1) * channels;
  return (struct ommai_mixer_shape){.projected = channels + values + 2 * delta->n_value_heads,
                                    .mixed = values,
                                    .snapshot_bytes = (size_t)ommai_round_up(kept * (int64_t)sizeof(float), 64),
                                    .head_elements = 3 * delta->key_dim * values};
}

/* ---- a worker's memory ---- */

struct scratch {
  float *keys_queries, *values, *out; /* as struct ommai_delta_rows has them, of a block */
  float *row;                         /* [the wider of key_dim and value_dim] */
  float *key_scale, *query_scale;     /* [key_dim] what the normed ones are multiplied by */
  float *zeros;                       /* as row, for rows before the first */
};

static struct scratch place_scratch(const struct ommai_delta_config *delta, struct ommai_arena *arena) {
  size_t key = (size_t)delta->key_dim, value = (size_t)padded_values(delta), widest = key > value ? key : value;
  return (struct scratch){.keys_queries = ommai_arena_take(arena, 2 * BLOCK * key, sizeof(float)),
                          .values = ommai_arena_take(arena, BLOCK * value, sizeof(float)),
                          .out = ommai_arena_take(arena, BLOCK * value, sizeof(float)),
                          .row = ommai_arena_take(arena, widest, sizeof(float)),
                          .key_scale = ommai_arena_take(arena, key, sizeof(float)),
                          .query_scale = ommai_arena_take(arena, key, sizeof(float)),
                          .zeros = ommai_arena_take(arena, widest, sizeof(float))};
}

static size_t scratch_bytes(const struct ommai_delta_config *delta) {
  struct ommai_arena arena;
  ommai_arena_measure(&arena);
  place_scratch(delta, &arena);
  return arena.failed ? 0 : (size_t)ommai_round_up((int64_t)arena.used, 64);
}

static size_t size(const struct ommai_decoder *decoder, int n_workers) {
  return scratch_bytes(&decoder->config.delta) * (size_t)n_workers;
}

/* ---- one key head, and the value heads that share it ---- */

struct head {
  const struct ommai_decoder *decoder;
  const struct ommai_kv_cache *cache;
  const struct ommai_delta_weights *weights;
  const struct ommai_delta_kernels *kernels;
  struct ommai_mixer_shape shape;
  struct scratch scratch;
  int64_t layer, index;
};

/* Rows of a sequence that follow one another, and the convolution's inputs before them; NULL:
 * there is nothing before. */
struct span {
  const float *projected, *before;
  void *out;
  int64_t n_rows;
};

static struct head make_head(const struct ommai_decoder *decoder, const struct ommai_kv_cache *cache, int64_t layer,
                             int64_t index, unsigned char *memory, int worker) {
  const struct ommai_delta_config *delta = &decoder->config.delta;
  size_t bytes = scratch_bytes(delta);
  struct ommai_arena arena;
  ommai_arena_init(&arena, memory + bytes * (size_t)worker, bytes);
  struct head head = {.decoder = decoder,
                      .cache = cache,
                      .weights = &decoder->layers[layer].delta,
                      .kernels = ommai_delta_select(decoder->ops->level),
                      .shape = shape(&decoder->config),
                      .scratch = place_scratch(delta, &arena),
                      .layer = layer,
                      .index = index};
  int64_t padded = padded_values(delta), widest = ommai_max_i64(delta->key_dim, padded);
  for (int64_t i = 0; i < delta->key_dim; i++) {
    head.scratch.key_scale[i] = 1.0f / sqrtf((float)delta->key_dim);
    head.scratch.query_scale[i] = 1.0f / (float)delta->key_dim;
  }
  memset(head.scratch.zeros, 0, (size_t)widest * sizeof(float));
  memset(head.scratch.values, 0, (size_t)(BLOCK * padded) * sizeof(float));
  return head;
}

/* Value heads of a key head. */
static int64_t n_shared(const struct ommai_delta_config *delta) { return delta->n_value_heads / delta->n_key_heads; }

/* The matrices of the value heads of a key head, and the convolution's inputs of all channels. */
static float *matrices_of(const struct head *head, int32_t page) {
  const struct ommai_delta_config *delta = &head->decoder->config.delta;
  return (float *)ommai_kv_snapshot(head->cache, head->layer, page) + head->index * n_shared(delta) * matrix_elements(delta);
}

static float *inputs_of(const struct head *head, int32_t page) {
  const struct ommai_delta_config *delta = &head->decoder->config.delta;
  return (float *)ommai_kv_snapshot(head->cache, head->layer, page) + delta->n_value_heads * matrix_elements(delta);
}

/* Row t of the span, from channel `first` on; t may be down to -(kernel - 1). */
static const float *input_row(const struct head *head, const struct span *span, int64_t t, int64_t first) {
  const struct ommai_delta_config *delta = &head->decoder->config.delta;
  if (t >= 0) return span->projected + t * head->shape.projected + first;
  if (!span->before) return head->scratch.zeros;
  return span->before + (delta->kernel - 1 + t) * ommai_delta_channels(delta) + first;
}

/* n values of a row of the next block. A head's are a short piece of each row, so no CPU asks for
 * the next one by itself; if a whole block were asked for at once, its own reads would wait.
 * Always inlined: GCC drops calls of functions that do nothing but ask. */
static inline __attribute__((always_inline)) void ask_for(const float *values, int64_t n) {
  const int64_t line = 64 / sizeof *values;
  for (int64_t i = 0; i < n; i += line) __builtin_prefetch(values + i, 0, 2);
}

/* n channels from `first` on of row t, convolved. */
static void convolve(const struct head *head, const struct span *span, int64_t t, int64_t first, int64_t n, float *out) {
  const struct ommai_delta_config *delta = &head->decoder->config.delta;
  const float *rows[OMMAI_DELTA_MAX_KERNEL], *weights[OMMAI_DELTA_MAX_KERNEL];
  for (int64_t j = 0; j < delta->kernel; j++) {
    rows[j] = input_row(head, span, t - delta->kernel + 1 + j, first);
    weights[j] = head->weights->conv + j * ommai_delta_channels(delta) + first;
  }
  if (t + BLOCK < span->n_rows) ask_for(rows[delta->kernel - 1] + BLOCK * head->shape.projected, n);
  head->decoder->ops->convolve(rows, weights, (int)delta->kernel, n, out);
  head->decoder->ops->silu(out, n);
}

/* Row t's key and query, at place `at` of the block. x / sqrt(sum x^2 + 1e-6) is an RMS norm. */
static void prepare_row(const struct head *head, const struct span *span, int64_t t, int64_t at) {
  const struct ommai_delta_config *delta = &head->decoder->config.delta;
  const struct scratch *scratch = &head->scratch;
  int64_t d = delta->key_dim, query = head->index * d, key = query + delta->n_key_heads * d;
  float eps = 1e-6f / (float)d, *to = scratch->keys_queries + 2 * at * d;
  convolve(head, span, t, key, d, scratch->row);
  head->decoder->ops->rms_norm(scratch->row, scratch->key_scale, eps, d, to, OMMA_F32);
  convolve(head, span, t, query, d, scratch->row);
  head->decoder->ops->rms_norm(scratch->row, scratch->query_scale, eps, d, to + d, OMMA_F32);
}

static float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

/* The block of n rows from t on through value head `value`, from one matrix to another. */
static void run_head(const struct head *head, const struct span *span, int64_t t, int64_t n, int64_t value, const float *from,
                     float *to) {
  const struct ommai_delta_config *delta = &head->decoder->config.delta;
  const struct ommai_delta_weights *weights = head->weights;
  const struct scratch *scratch = &head->scratch;
  int64_t d = delta->value_dim, channels = ommai_delta_channels(delta), padded = padded_values(delta);
  int64_t values = 2 * delta->n_key_heads * delta->key_dim, gates = channels, rates = gates + delta->n_value_heads * d;
  float decay[BLOCK], rate[BLOCK];
  for (int64_t i = 0; i < n; i++) {
    const float *row = span->projected + (t + i) * head->shape.projected + rates + value;
    convolve(head, span, t + i, values + value * d, d, scratch->values + i * padded);
    rate[i] = 1.0f / (1.0f + expf(-row[0]));
    decay[i] = expf(-weights->decay_rates[value] * softplus(row[delta->n_value_heads] + weights->decay_bias[value]));
  }
  const struct ommai_delta_rows rows = {n, delta->key_dim, padded, scratch->keys_queries, scratch->values, decay, rate};
  head->kernels->run(&rows, from, to, scratch->out);
  for (int64_t i = 0; i < n; i++) {
    const float *gate = span->projected + (t + i) * head->shape.projected + gates + value * d;
    void *out = ommai_element(span->out, (t + i) * head->shape.mixed + value * d, head->decoder->dtype);
    if (t + i + BLOCK < span->n_rows) ask_for(gate + BLOCK * head->shape.projected, d);
    head->decoder->ops->rms_norm(scratch->out + i * padded, weights->norm, head->decoder->config.norm_eps, d, scratch->row,
                                 OMMA_F32);
    head->decoder->ops->silu_mul(gate, scratch->row, d, out, head->decoder->dtype);
  }
}

/* A block, from the matrices `from` to `to`. */
static void run_block(const struct head *head, const struct span *span, int64_t t, int64_t n, const float *from, float *to) {
  const struct ommai_delta_config *delta = &head->decoder->config.delta;
  for (int64_t i = 0; i < n; i++) prepare_row(head, span, t + i, i);
  for (int64_t v = 0; v < n_shared(delta); v++) {
    int64_t matrix = v * matrix_elements(delta);
    run_head(head, span, t, n, head->index * n_shared(delta) + v, from + matrix, to + matrix);
  }
}

/* The matrices to begin from: those of `read`, or zeros, which are written to `written`. */
static const float *first_matrices(const struct head *head, int32_t read, int32_t written) {
  const struct ommai_delta_config *delta = &head->decoder->config.delta;
  if (read >= 0) return matrices_of(head, read);
  float *zeros = matrices_of(head, written);
  memset(zeros, 0, (size_t)(n_shared(delta) * matrix_elements(delta)) * sizeof(float));
  return zeros;
}

/* Keeps this head's channels of the inputs before row `end` of the span. In rising order: the rows
 * may be those before the span, moved up. */
static void keep_inputs(const struct head *head, const struct span *span, int64_t end, int32_t page) {
  const struct ommai_delta_config *delta = &head->decoder->config.delta;
  int64_t d = delta->key_dim, shared = n_shared(delta) * delta->value_dim, channels = ommai_delta_channels(delta);
  const int64_t parts[3][2] = {{head->index * d, d},
                               {(delta->n_key_heads + head->index) * d, d},
                               {2 * delta->n_key_heads * d + head->index * shared, shared}};
  for (int part = 0; part < 3; part++) {
    int64_t first = parts[part][0], n = parts[part][1];
    for (int64_t j = 0; j < delta->kernel - 1; j++) {
      float *to = inputs_of(head, page) + j * channels + first;
      int64_t t = end - delta->kernel + 1 + j;
      if (t < 0 && !span->before) {
        memset(to, 0, (size_t)n * sizeof(float));
      } else {
        memmove(to, input_row(head, span, t, first), (size_t)n * sizeof(float));
      }
    }
  }
}

/* ---- decode ---- */

static size_t decode_size(const struct ommai_decoder *decoder, const struct ommai_layer_group *group, int64_t max_rows,
                          int64_t max_context, int n_workers) {
  (void)group, (void)max_rows, (void)max_context;
  return size(decoder, n_workers);
}

static enum omma_status place_decode(struct ommai_decode_mixing *mixing, int n_workers, struct ommai_arena *arena,
                                     struct omma_error *error) {
  mixing->delta = ommai_arena_take(arena, size(mixing->decoder, n_workers), 1);
  return mixing->delta ? OMMA_OK : ommai_fail_memory(error, "decode workspace", arena->used);
}

struct decode_call {
  const struct ommai_decode_mixing *mixing;
  int64_t layer;
};

static void decode_head(void *context, int64_t index, int worker) {
  const struct decode_call *call = context;
  const struct ommai_decode_mixing *mixing = call->mixing;
  const struct head head = make_head(mixing->decoder, mixing->cache, call->layer, index, mixing->delta, worker);
  for (int64_t row = 0; row < mixing->n_rows; row++) {
    const int32_t *pages = mixing->rows[row].pages.of_group[mixing->group];
    int32_t read = pages[OMMAI_SNAPSHOT_READ], written = pages[OMMAI_SNAPSHOT_WRITTEN];
    const struct span span = {.projected = mixing->projected + row * head.shape.projected,
                              .before = read >= 0 ? inputs_of(&head, read) : NULL,
                              .out = ommai_element(mixing->out, row * head.shape.mixed, mixing->decoder->dtype),
                              .n_rows = 1};
    run_block(&head, &span, 0, 1, first_matrices(&head, read, written), matrices_of(&head, written));
    keep_inputs(&head, &span, 1, written);
  }
}

static enum omma_status decode(const struct ommai_decode_mixing *mixing, int64_t layer, const struct omma_team *team,
                               struct omma_error *error) {
  (void)error;
  struct decode_call call = {mixing, layer};
  ommai_team_run(team, mixing->decoder->config.delta.n_key_heads, decode_head, &call);
  return OMMA_OK;
}

/* ---- prefill ---- */

static size_t prefill_size(const struct ommai_decoder *decoder, const struct ommai_layer_group *group,
                           const struct ommai_prefill_limits *limits, int n_workers) {
  (void)group, (void)limits;
  return size(decoder, n_workers);
}

static enum omma_status place_prefill(struct ommai_prefill_mixing *mixing, int n_workers, struct ommai_arena *arena,
                                      struct omma_error *error) {
  mixing->n_steps = mixing->decoder->config.delta.n_key_heads;
  mixing->delta = ommai_arena_take(arena, size(mixing->decoder, n_workers), 1);
  return mixing->delta ? OMMA_OK : ommai_fail_memory(error, "prefill workspace", arena->used);
}

struct prefill_call {
  const struct ommai_prefill_mixing *mixing;
  int64_t layer, first_step;
};

static void copy_border(const struct head *head, const struct span *span, int64_t t, const float *matrices, int32_t border) {
  const struct ommai_delta_config *delta = &head->decoder->config.delta;
  memcpy(matrices_of(head, border), matrices, (size_t)(n_shared(delta) * matrix_elements(delta)) * sizeof(float));
  keep_inputs(head, span, t, border);
}

static void prefill_piece(const struct ommai_prefill_mixing *mixing, const struct head *head, int64_t piece) {
  const struct ommai_chunk_pieces *pieces = mixing->pieces;
  const int32_t *pages = pieces->pages[piece].of_group[mixing->group];
  int32_t read = pages[OMMAI_SNAPSHOT_READ], written = pages[OMMAI_SNAPSHOT_WRITTEN], border = pages[OMMAI_SNAPSHOT_BORDER];
  int64_t begin = pieces->borders[piece], n = pieces->borders[piece + 1] - begin;
  int64_t border_row = ommai_chunk_piece_end(pieces, piece) / PAGE * PAGE - pieces->firsts[piece];
  const struct span span = {.projected = mixing->projected + begin * head->shape.projected,
                            .before = read >= 0 ? inputs_of(head, read) : NULL,
                            .out = ommai_element(mixing->out, begin * head->shape.mixed, mixing->decoder->dtype),
                            .n_rows = n};
  const float *from = first_matrices(head, read, written);
  float *to = matrices_of(head, written);
  for (int64_t t = 0; t < n; t += BLOCK) {
    if (t == border_row && t > 0 && border >= 0) copy_border(head, &span, t, to, border);
    run_block(head, &span, t, ommai_min_i64(BLOCK, n - t), t > 0 ? to : from, to);
  }
  keep_inputs(head, &span, n, written);
}

static void prefill_head(void *context, int64_t task, int worker) {
  const struct prefill_call *call = context;
  const struct ommai_prefill_mixing *mixing = call->mixing;
  const struct head head =
      make_head(mixing->decoder, mixing->cache, call->layer, call->first_step + task, mixing->delta, worker);
  for (int64_t i = 0; i < mixing->pieces->n; i++) {
    if (!mixing->pieces->dropped[i]) prefill_piece(mixing, &head, i);
  }
}

static enum omma_status prefill(const struct ommai_prefill_mixing *mixing, int64_t layer, int64_t first, int64_t *count,
                                const struct omma_team *team, struct omma_error *error) {
  (void)error;
  struct prefill_call call = {mixing, layer, first};
  *count = ommai_min_i64(*count, mixing->n_steps - first);
  ommai_team_run(team, *count, prefill_head, &call);
  return OMMA_OK;
}

const struct ommai_mixer ommai_delta_net = {.shape = shape,
                                            .int8_cache = true,
                                            .decode_size = decode_size,
                                            .place_decode = place_decode,
                                            .decode = decode,
                                            .prefill_size = prefill_size,
                                            .place_prefill = place_prefill,
                                            .prefill = prefill};
