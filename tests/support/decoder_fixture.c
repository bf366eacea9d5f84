#include "support/decoder_fixture.h"

#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "language/decoder_sizes.h"
#include "language/experts.h"
#include "language/feed_forward.h"
#include "language/grouped_attention.h"
#include "language/mla.h"
#include "support/test.h"
#include "support/toy_mixer.h"

/* ---- making ---- */

static struct ommai_decoder_config make_config(enum decoder_kind kind) {
  struct ommai_decoder_config config = {.n_layers = 3,
                                        .hidden_size = DECODER_HIDDEN,
                                        .n_heads = 4,
                                        .n_kv_heads = 2,
                                        .head_dim = 16,
                                        .v_head_dim = 16,
                                        .intermediate_size = 70,
                                        .vocab_size = DECODER_VOCAB,
                                        .max_positions = 4096,
                                        .norm_eps = 1e-5f,
                                        .rope_theta = 10000,
                                        .mrope_section = {4, 2, 2}};
  config.qkv_bias = kind == DECODER_BIASED;
  config.qk_norm = kind == DECODER_MOE;
  config.rope_pairs = config.branch_norms = kind == DECODER_BRANCHES;
  ommai_decoder_set_layers(&config, &ommai_grouped_attention, &ommai_ffn_dense);
  if (kind == DECODER_RECURRENT) config.layers[0].mixer = config.layers[2].mixer = &toy_mixer;
  if (kind == DECODER_WINDOW) config.layers[0].window = config.layers[2].window = 100;
  if (kind != DECODER_MOE && kind != DECODER_MLA) return config;
  config.experts = (struct ommai_experts_config){
      .router = {.n_experts = 12, .n_chosen = 3, .n_groups = 1, .n_chosen_groups = 1, .normalise = true, .scale = 1},
      .intermediate_size = 34};
  for (int i = kind == DECODER_MLA; i < 3; i++) config.layers[i].ffn = &ommai_ffn_experts;
  if (kind == DECODER_MOE) return config;
  for (int i = 0; i < 3; i++) config.layers[i].mixer = &ommai_mla_attention;
  config.mla = (struct ommai_mla_config){.kv_rank = 40, .nope_dim = 18, .rope_dim = 10, .norm_eps = 1e-6f};
  config.head_dim = 28;
  config.v_head_dim = 14;
  config.mrope_section[0] = 5;
  config.mrope_section[1] = config.mrope_section[2] = 0;
  config.experts.shared_size = 50;
  config.experts.router.score = OMMAI_ROUTER_SIGMOID;
  config.experts.router.n_groups = 4;
  config.experts.router.n_chosen_groups = 2;
  config.experts.router.scale = 1.7f;
  return config;
}

static float *random_vector(const struct decoder_fixture *fixture, struct test_random *random, int64_t n, float mean,
                            float deviation) {
  float *vector = ommai_allocate(fixture->allocator, (size_t)n, sizeof *vector);
  for (int64_t i = 0; i < n; i++) vector[i] = mean + deviation * test_random_normal(random);
  return vector;
}

/* Remembers a random matrix for the oracle. */
static const struct decoder_matrix *random_matrix(struct decoder_fixture *fixture, struct test_random *random, int64_t n_out,
                                                  int64_t n_in, bool bias) {
  assert_true(fixture->n_matrices < (int)(sizeof fixture->matrices / sizeof *fixture->matrices));
  struct decoder_matrix *matrix = &fixture->matrices[fixture->n_matrices++];
  *matrix = (struct decoder_matrix){.n_out = n_out, .n_in = n_in};
  matrix->weight = random_vector(fixture, random, n_out * n_in, 0, 1.3f / sqrtf((float)n_in));
  if (bias) matrix->bias = random_vector(fixture, random, n_out, 0, 0.3f);
  return matrix;
}

static struct ommai_linear *pack(struct decoder_fixture *fixture, const struct ommai_linear_source *sources, int n,
                                 int64_t n_in, enum omma_dtype compute) {
  struct omma_error error;
  struct ommai_linear *linear;
  const struct ommai_linear_spec spec = {.n_in = n_in, .format = ommai_linear_dense_format(compute), .compute = compute};
  assert_ok(ommai_linear_create(fixture->decoder.linear_context, &spec, sources, n, NULL, &linear, &error), &error);
  size_t prepared = ommai_linear_prepared_row_bytes(fixture->decoder.linear_context, &spec);
  if (prepared > fixture->decoder.prepared_row_bytes) fixture->decoder.prepared_row_bytes = prepared;
  return linear;
}

static struct ommai_linear_op *make_op(struct decoder_fixture *fixture, const struct ommai_linear *linear,
                                       struct ommai_linear_call call) {
  struct omma_error error;
  struct ommai_linear_op *op;
  assert_ok(ommai_linear_op_create(fixture->decoder.linear_context, linear, &call, &op, &error), &error);
  return op;
}

static struct ommai_linear *make_random(struct decoder_fixture *fixture, struct test_random *random, int64_t n_out, bool bias,
                                        struct ommai_linear_call call, enum omma_dtype compute) {
  const struct decoder_matrix *matrix = random_matrix(fixture, random, n_out, call.x_stride, bias);
  const struct ommai_linear_source source = {matrix->weight, OMMA_F32, n_out, matrix->bias, OMMA_F32, false, NULL, 0};
  return pack(fixture, &source, 1, call.x_stride, compute);
}

static struct ommai_decoder_linear make_linear(struct decoder_fixture *fixture, struct test_random *random, int64_t n_out,
                                               bool bias, struct ommai_linear_call call) {
  struct omma_error error;
  struct ommai_decoder_linear made = {make_random(fixture, random, n_out, bias, call, fixture->decoder.dtype), NULL};
  assert_ok(ommai_linear_parts_create(fixture->decoder.linear_context, made.linear, &call, &made.parts, &error), &error);
  return made;
}

static struct ommai_decoder_tile_linear make_tile_linear(struct decoder_fixture *fixture, struct test_random *random,
                                                         int64_t n_out, struct ommai_linear_call call,
                                                         enum omma_dtype compute) {
  struct ommai_linear *linear = make_random(fixture, random, n_out, false, call, compute);
  return (struct ommai_decoder_tile_linear){linear, make_op(fixture, linear, call)};
}

static void make_dense(struct decoder_fixture *fixture, struct test_random *random, int64_t width,
                       struct ommai_decoder_dense *made) {
  const struct ommai_decoder_config *config = &fixture->decoder.config;
  made->gate_up = make_linear(fixture, random, 2 * width, false, ommai_feed_forward_call_gate_up(config, width));
  made->down = make_linear(fixture, random, config->hidden_size, false,
                           ommai_feed_forward_call_down(config, width, !config->branch_norms));
}

static void make_expert(struct decoder_fixture *fixture, struct test_random *random, struct ommai_decoder_expert *made) {
  const struct ommai_decoder_config *config = &fixture->decoder.config;
  enum omma_dtype dtype = fixture->decoder.dtype;
  int64_t width = config->experts.intermediate_size;
  made->gate_up = make_tile_linear(fixture, random, 2 * width, ommai_feed_forward_call_gate_up(config, width), dtype);
  made->down =
      make_tile_linear(fixture, random, config->hidden_size, ommai_feed_forward_call_down(config, width, false), dtype);
}

/* One matrix [n_heads][key, value][kv_rank], as checkpoints hold it, cut into the uses. */
static void make_heads(struct decoder_fixture *fixture, struct test_random *random, struct ommai_mla_head *heads) {
  const struct ommai_decoder_config *config = &fixture->decoder.config;
  enum omma_dtype dtype = fixture->decoder.dtype;
  int64_t rank = config->mla.kv_rank, nope = config->mla.nope_dim, v = config->v_head_dim;
  const struct decoder_matrix *all = random_matrix(fixture, random, config->n_heads * (nope + v), rank, false);
  for (int64_t h = 0; h < config->n_heads; h++) {
    const float *key = all->weight + h * (nope + v) * rank;
    const struct ommai_linear_source both[2] = {{key + nope * rank, OMMA_F32, v, NULL, OMMA_F32, false, NULL, 0},
                                                {key, OMMA_F32, nope, NULL, OMMA_F32, false, NULL, 0}};
    const struct ommai_linear_source turned = {key, OMMA_F32, rank, NULL, OMMA_F32, true, NULL, 0};
    heads[h].expand.linear = pack(fixture, both, 2, rank, dtype);
    heads[h].expand.op = make_op(fixture, heads[h].expand.linear, ommai_mla_call_expand(config, dtype));
    heads[h].absorb = pack(fixture, &turned, 1, nope, dtype);
    heads[h].value = pack(fixture, both, 1, rank, dtype);
  }
}

static void make_layer(struct decoder_fixture *fixture, struct test_random *random, int64_t index) {
  const struct ommai_decoder_config *config = &fixture->decoder.config;
  struct ommai_decoder_layer *layer = &fixture->decoder.layers[index];
  int64_t n_experts = config->experts.router.n_experts, dense = ommai_decoder_dense_size(config, index);
  layer->input_norm = random_vector(fixture, random, config->hidden_size, 1, 0.2f);
  layer->post_norm = random_vector(fixture, random, config->hidden_size, 1, 0.2f);
  if (config->branch_norms) layer->mixed_norm = random_vector(fixture, random, config->hidden_size, 1, 0.2f);
  if (config->branch_norms) layer->ffn_norm = random_vector(fixture, random, config->hidden_size, 1, 0.2f);
  if (config->qk_norm) layer->q_norm = random_vector(fixture, random, config->head_dim, 1, 0.2f);
  if (config->qk_norm) layer->k_norm = random_vector(fixture, random, config->head_dim, 1, 0.2f);
  const struct ommai_linear_call qkv = ommai_decoder_call_qkv(config, index);
  layer->qkv = make_linear(fixture, random, qkv.y_stride, config->qkv_bias, qkv);
  if (layer->mla_heads) layer->mla_norm = random_vector(fixture, random, config->mla.kv_rank, 1, 0.2f);
  if (layer->mla_heads) make_heads(fixture, random, layer->mla_heads);
  layer->o = make_linear(fixture, random, config->hidden_size, false, ommai_decoder_call_o(config, index));
  if (dense) make_dense(fixture, random, dense, &layer->dense);
  if (!config->layers[index].ffn->routed) return;
  layer->router = make_tile_linear(fixture, random, n_experts, ommai_decoder_call_router(config), OMMA_F32);
  if (config->experts.router.score == OMMAI_ROUTER_SIGMOID)
    layer->router_bias = random_vector(fixture, random, n_experts, 0, 0.3f);
  for (int64_t e = 0; e < n_experts; e++) {
    make_expert(fixture, random, &layer->experts[e]);
  }
}

void decoder_fixture_make(struct decoder_fixture *fixture, enum decoder_kind kind, enum omma_dtype dtype, int n_workers,
                          const struct omma_allocator *allocator) {
  struct test_random random = {(uint64_t)kind + 11};
  struct omma_error error;
  enum ommai_cpu_level level;
  memset(fixture, 0, sizeof *fixture);
  fixture->allocator = allocator;
  struct ommai_decoder *decoder = &fixture->decoder;
  decoder->config = make_config(kind);
  decoder->dtype = decoder->kv_type = dtype;
  assert_ok(ommai_cpu_select(NULL, &level, &error), &error);
  assert_ok(omma_attention_context_create(&(struct omma_attention_options){.allocator = allocator}, &fixture->context, &error),
            &error);
  assert_ok(ommai_linear_context_create(level, n_workers, allocator, &decoder->linear_context, &error), &error);
  decoder->attention = fixture->context;
  decoder->ops = ommai_row_ops(level);
  ommai_mrope_init(&decoder->mrope, ommai_decoder_rope_dim(&decoder->config), decoder->config.rope_theta,
                   &decoder->config.rope_scaling, decoder->config.mrope_section, false);
  assert_ok(ommai_decoder_allocate(decoder, allocator, &error), &error);
  fixture->embedding = random_vector(fixture, &random, DECODER_VOCAB * DECODER_HIDDEN, 0, 1);
  decoder->embedding = fixture->embedding;
  decoder->embedding_type = OMMA_F32;
  for (int64_t i = 0; i < decoder->config.n_layers; i++) make_layer(fixture, &random, i);
  decoder->final_norm = random_vector(fixture, &random, DECODER_HIDDEN, 1, 0.2f);
  const struct decoder_matrix *head = random_matrix(fixture, &random, DECODER_VOCAB, DECODER_HIDDEN, false);
  const struct ommai_linear_source source = {head->weight, OMMA_F32, DECODER_VOCAB, NULL, OMMA_F32, false, NULL, 0};
  decoder->lm_head = pack(fixture, &source, 1, DECODER_HIDDEN, dtype);
}

void decoder_fixture_free(struct decoder_fixture *fixture) {
  const struct omma_allocator *allocator = fixture->allocator;
  ommai_decoder_free(&fixture->decoder, allocator);
  ommai_linear_context_destroy(fixture->decoder.linear_context);
  omma_attention_context_destroy(fixture->context);
  for (int i = 0; i < fixture->n_matrices; i++) {
    const struct decoder_matrix *matrix = &fixture->matrices[i];
    ommai_release(allocator, matrix->weight, (size_t)(matrix->n_out * matrix->n_in), sizeof(float));
    ommai_release(allocator, matrix->bias, (size_t)matrix->n_out, sizeof(float));
  }
  ommai_release(allocator, fixture->embedding, DECODER_VOCAB * DECODER_HIDDEN, sizeof(float));
}

/* ---- the same in double precision ---- */

enum { MAX_WIDTH = 256, MAX_TOKENS = 320 };

struct oracle {
  const struct decoder_fixture *fixture;
  int at; /* the next matrix */
  int64_t n;
  double x[MAX_TOKENS][MAX_WIDTH], q[MAX_TOKENS][MAX_WIDTH], k[MAX_TOKENS][MAX_WIDTH], v[MAX_TOKENS][MAX_WIDTH];
};

static const struct decoder_matrix *next(struct oracle *oracle) { return &oracle->fixture->matrices[oracle->at++]; }

static void multiply(const struct decoder_matrix *matrix, int64_t first_row, int64_t n_rows, const double *x, double *y) {
  for (int64_t row = 0; row < n_rows; row++) {
    y[row] = matrix->bias ? matrix->bias[first_row + row] : 0;
    for (int64_t i = 0; i < matrix->n_in; i++) y[row] += matrix->weight[(first_row + row) * matrix->n_in + i] * x[i];
  }
}

static void norm(const double *x, const float *weight, double eps, int64_t n, double *y) {
  double square = 0;
  for (int64_t i = 0; i < n; i++) square += x[i] * x[i] / (double)n;
  for (int64_t i = 0; i < n; i++) y[i] = weight ? x[i] / sqrt(square + eps) * weight[i] : x[i];
}

/* Turns pairs of x: neighbours, or half a head apart. */
static void rotate(double *x, int64_t dim, double theta, int64_t position, bool neighbours) {
  for (int64_t j = 0; j < dim / 2; j++) {
    int64_t a = neighbours ? 2 * j : j, b = neighbours ? 2 * j + 1 : j + dim / 2;
    double angle = (double)position * pow(theta, -2.0 * (double)j / (double)dim), first = x[a];
    x[a] = first * cos(angle) - x[b] * sin(angle);
    x[b] = x[b] * cos(angle) + first * sin(angle);
  }
}

static void project_grouped(struct oracle *oracle, const struct ommai_decoder_layer *layer, const struct decoder_matrix *qkv,
                            int64_t token, const double *normed, bool plain) {
  const struct ommai_decoder_config *config = &oracle->fixture->decoder.config;
  double *q = oracle->q[token], kv[2 * MAX_WIDTH], part[MAX_WIDTH];
  int64_t q_width = config->n_heads * config->head_dim, kv_width = config->n_kv_heads * config->head_dim;
  multiply(qkv, 0, q_width, normed, q);
  multiply(qkv, q_width, 2 * kv_width, normed, kv);
  for (int64_t h = 0; h < config->n_heads; h++) {
    int64_t shared = h / (config->n_heads / config->n_kv_heads), d = config->head_dim;
    norm(q + h * d, layer->q_norm, config->norm_eps, d, part);
    rotate(part, d, config->rope_theta, plain ? 0 : token, config->rope_pairs);
    memcpy(q + h * d, part, (size_t)d * sizeof *part);
    norm(kv + shared * d, layer->k_norm, config->norm_eps, d, oracle->k[token] + h * d);
    rotate(oracle->k[token] + h * d, d, config->rope_theta, plain ? 0 : token, config->rope_pairs);
    memcpy(oracle->v[token] + h * d, kv + kv_width + shared * d, (size_t)d * sizeof *part);
  }
}

static void project_mla(struct oracle *oracle, const struct ommai_decoder_layer *layer, const struct decoder_matrix *qkv,
                        const struct decoder_matrix *heads, int64_t token, const double *normed) {
  const struct ommai_decoder_config *config = &oracle->fixture->decoder.config;
  const struct ommai_mla_config *mla = &config->mla;
  double *q = oracle->q[token], row[MAX_WIDTH], c[MAX_WIDTH];
  int64_t d = config->head_dim, v = config->v_head_dim, nope = mla->nope_dim;
  multiply(qkv, 0, config->n_heads * d, normed, q);
  multiply(qkv, config->n_heads * d, mla->kv_rank + mla->rope_dim, normed, row);
  norm(row, layer->mla_norm, mla->norm_eps, mla->kv_rank, c);
  rotate(row + mla->kv_rank, mla->rope_dim, config->rope_theta, token, true);
  for (int64_t h = 0; h < config->n_heads; h++) {
    rotate(q + h * d + nope, mla->rope_dim, config->rope_theta, token, true);
    multiply(heads, h * (nope + v), nope, c, oracle->k[token] + h * d);
    memcpy(oracle->k[token] + h * d + nope, row + mla->kv_rank, (size_t)mla->rope_dim * sizeof *row);
    multiply(heads, h * (nope + v) + nope, v, c, oracle->v[token] + h * v);
  }
}

/* What toy_mixer sums up, by its definition. */
static void recur(const struct oracle *oracle, int64_t token, double *out) {
  const struct ommai_decoder_config *config = &oracle->fixture->decoder.config;
  int64_t d = config->head_dim, v = config->v_head_dim;
  memset(out, 0, (size_t)(config->n_heads * v) * sizeof *out);
  for (int64_t h = 0; h < config->n_heads; h++) {
    for (int64_t i = 0; i <= token; i++) {
      double dot = 0;
      for (int64_t j = 0; j < d; j++) dot += oracle->q[token][h * d + j] * oracle->k[i][h * d + j];
      dot *= pow(TOY_DECAY, (double)(token - i)) / (double)d;
      for (int64_t j = 0; j < v; j++) out[h * v + j] += dot * oracle->v[i][h * v + j];
    }
  }
}

static void attend(const struct oracle *oracle, int64_t token, int64_t window, double *out) {
  const struct ommai_decoder_config *config = &oracle->fixture->decoder.config;
  int64_t d = config->head_dim, v = config->v_head_dim;
  for (int64_t h = 0; h < config->n_heads; h++) {
    double weights[MAX_TOKENS], sum = 0;
    int64_t first = window && token >= window ? token - window + 1 : 0;
    for (int64_t i = first; i <= token; i++) {
      double dot = 0;
      for (int64_t j = 0; j < d; j++) dot += oracle->q[token][h * d + j] * oracle->k[i][h * d + j];
      weights[i] = exp(dot / sqrt((double)d));
      sum += weights[i];
    }
    for (int64_t j = 0; j < v; j++) {
      out[h * v + j] = 0;
      for (int64_t i = first; i <= token; i++) out[h * v + j] += weights[i] / sum * oracle->v[i][h * v + j];
    }
  }
}

/* x += factor * down(silu(gate) * up)(normed), through a norm where there is a weight. */
static void add_gated(const struct decoder_matrix *gate_up, const struct decoder_matrix *down, const double *normed,
                      double factor, const float *weight, double eps, double *x) {
  double wide[MAX_WIDTH], out[MAX_WIDTH], added[MAX_WIDTH];
  int64_t width = gate_up->n_out / 2;
  multiply(gate_up, 0, 2 * width, normed, wide);
  for (int64_t i = 0; i < width; i++) wide[i] = wide[i] / (1 + exp(-wide[i])) * wide[width + i];
  multiply(down, 0, down->n_out, wide, out);
  norm(out, weight, eps, down->n_out, added);
  for (int64_t i = 0; i < down->n_out; i++) x[i] += factor * added[i];
}

static void feed_forward(const struct oracle *oracle, int64_t index, int at, double *x) {
  const struct ommai_decoder_config *config = &oracle->fixture->decoder.config;
  const struct ommai_decoder_layer *layer = &oracle->fixture->decoder.layers[index];
  const struct decoder_matrix *matrix = &oracle->fixture->matrices[at];
  const struct ommai_router_config *router = &config->experts.router;
  double normed[MAX_WIDTH], logits[MAX_WIDTH];
  norm(x, layer->post_norm, config->norm_eps, config->hidden_size, normed);
  if (ommai_decoder_dense_size(config, index)) {
    add_gated(matrix, matrix + 1, normed, 1, layer->ffn_norm, config->norm_eps, x);
    matrix += 2;
  }
  if (!config->layers[index].ffn->routed) return;
  float rounded[MAX_WIDTH], weights[MAX_WIDTH];
  int32_t chosen[MAX_WIDTH];
  multiply(matrix, 0, router->n_experts, normed, logits);
  for (int64_t e = 0; e < router->n_experts; e++) rounded[e] = (float)logits[e];
  ommai_router_choose(router, rounded, layer->router_bias, chosen, weights);
  for (int64_t j = 0; j < router->n_chosen; j++) {
    add_gated(matrix + 1 + 2 * chosen[j], matrix + 2 + 2 * chosen[j], normed, weights[j], NULL, 0, x);
  }
}

static void run_layer(struct oracle *oracle, int64_t index) {
  const struct ommai_decoder_config *config = &oracle->fixture->decoder.config;
  const struct ommai_decoder_layer *layer = &oracle->fixture->decoder.layers[index];
  bool is_mla = config->layers[index].mixer == &ommai_mla_attention, is_toy = config->layers[index].mixer == &toy_mixer;
  const struct decoder_matrix *qkv = next(oracle), *heads = is_mla ? next(oracle) : NULL, *o = next(oracle);
  double normed[MAX_WIDTH], attended[MAX_WIDTH], out[MAX_WIDTH], added[MAX_WIDTH];
  for (int64_t i = 0; i < oracle->n; i++) {
    norm(oracle->x[i], layer->input_norm, config->norm_eps, config->hidden_size, normed);
    if (is_mla) {
      project_mla(oracle, layer, qkv, heads, i, normed);
    } else {
      project_grouped(oracle, layer, qkv, i, normed, is_toy);
    }
  }
  for (int64_t i = 0; i < oracle->n; i++) {
    if (is_toy) {
      recur(oracle, i, attended);
    } else {
      attend(oracle, i, config->layers[index].window, attended);
    }
    multiply(o, 0, config->hidden_size, attended, out);
    norm(out, layer->mixed_norm, config->norm_eps, config->hidden_size, added);
    for (int64_t j = 0; j < config->hidden_size; j++) oracle->x[i][j] += added[j];
    feed_forward(oracle, index, oracle->at, oracle->x[i]);
  }
  oracle->at += 2 * (ommai_decoder_dense_size(config, index) > 0);
  if (config->layers[index].ffn->routed) oracle->at += (int)(1 + 2 * config->experts.router.n_experts);
}

void decoder_fixture_oracle(const struct decoder_fixture *fixture, const int32_t *tokens, int64_t n, double *logits) {
  const struct ommai_decoder_config *config = &fixture->decoder.config;
  struct oracle *oracle = calloc(1, sizeof *oracle);
  double normed[MAX_WIDTH];
  assert_true(n <= MAX_TOKENS);
  oracle->fixture = fixture;
  oracle->n = n;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < DECODER_HIDDEN; j++) oracle->x[i][j] = fixture->embedding[tokens[i] * DECODER_HIDDEN + j];
  }
  for (int64_t i = 0; i < config->n_layers; i++) run_layer(oracle, i);
  norm(oracle->x[n - 1], fixture->decoder.final_norm, config->norm_eps, DECODER_HIDDEN, normed);
  multiply(next(oracle), 0, DECODER_VOCAB, normed, logits);
  assert_int_equal(oracle->at, fixture->n_matrices);
  free(oracle);
}
