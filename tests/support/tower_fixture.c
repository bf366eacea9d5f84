#include "support/tower_fixture.h"

#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "support/test.h"

static const struct ommai_vision_config configs[FIXTURE_TOWERS] = {
    [FIXTURE_TOWER_BILINEAR] = {.depth = 3,
                                .hidden_size = 40,
                                .n_heads = 2,
                                .head_dim = 20,
                                .intermediate_size = 51,
                                .patch_size = 4,
                                .temporal_patch_size = 2,
                                .merge_size = 2,
                                .in_channels = 3,
                                .out_hidden_size = 24,
                                .norm_eps = 1e-6f,
                                .merger_norm_eps = 1e-6f,
                                .activation = OMMAI_ACTIVATION_GELU_TANH,
                                .positions = OMMAI_POSITIONS_BILINEAR,
                                .position_rows = 6,
                                .position_columns = 6,
                                .rope_theta = 10000,
                                .n_deepstack = 2,
                                .deepstack_layers = {0, 1}},
    [FIXTURE_TOWER_WINDOWS] = {.depth = 4,
                               .hidden_size = 40,
                               .n_heads = 1,
                               .head_dim = 40,
                               .intermediate_size = 33,
                               .patch_size = 4,
                               .temporal_patch_size = 2,
                               .merge_size = 2,
                               .in_channels = 3,
                               .out_hidden_size = 24,
                               .norm = OMMAI_VISION_RMS_NORM,
                               .norm_eps = 1e-6f,
                               .merger_norm_eps = 1e-5f,
                               .gated = true,
                               .rope_theta = 10000,
                               .window_size = 2,
                               .windowed = {true, false, true, true}},
    [FIXTURE_TOWER_BICUBIC] = {.depth = 2,
                               .hidden_size = 48,
                               .n_heads = 2,
                               .head_dim = 24,
                               .intermediate_size = 70,
                               .patch_size = 4,
                               .temporal_patch_size = 1,
                               .merge_size = 2,
                               .in_channels = 3,
                               .out_hidden_size = 32,
                               .norm_eps = 1e-5f,
                               .merger_norm_eps = 1e-5f,
                               .final_norm = true,
                               .activation = OMMAI_ACTIVATION_GELU_TANH,
                               .positions = OMMAI_POSITIONS_BICUBIC,
                               .position_rows = 5,
                               .position_columns = 7,
                               .rope = OMMAI_ROPE_PAIRS,
                               .rope_theta = 10000},
    [FIXTURE_TOWER_STEPS] = {.depth = 2,
                             .hidden_size = 40,
                             .n_heads = 2,
                             .head_dim = 20,
                             .intermediate_size = 37,
                             .patch_size = 4,
                             .temporal_patch_size = 2,
                             .merge_size = 2,
                             .in_channels = 3,
                             .out_hidden_size = 28,
                             .norm = OMMAI_VISION_RMS_NORM,
                             .norm_eps = 1e-5f,
                             .merger_norm_eps = 1e-5f,
                             .final_norm = true,
                             .qk_norm = true,
                             .gated = true,
                             .rope_theta = 10000,
                             .merger = {.reduced_size = 28, .projected = true, .inner_size = 130, .gated = true}},
    [FIXTURE_TOWER_ENTRY] = {.depth = 2,
                             .hidden_size = 40,
                             .n_heads = 2,
                             .head_dim = 20,
                             .intermediate_size = 37,
                             .patch_size = 4,
                             .temporal_patch_size = 1,
                             .merge_size = 2,
                             .in_channels = 3,
                             .out_hidden_size = 28,
                             .norm = OMMAI_VISION_RMS_NORM,
                             .norm_eps = 1e-5f,
                             .merger_norm_eps = 1e-6f,
                             .entry_norm = true,
                             .gated = true,
                             .rope = OMMAI_ROPE_HALF_SHARED,
                             .rope_theta = 10000,
                             .merger = {.layer_norm = true, .reduced_size = 40, .inner_size = 28}}};

/* Of the tower that is being made. */
struct maker {
  struct test_random random;
  const struct omma_allocator *allocator;
};

static float *random_vector(struct maker *maker, int64_t n, float mean, float spread) {
  float *values = ommai_allocate(maker->allocator, (size_t)n, sizeof *values);
  for (int64_t i = 0; i < n; i++) values[i] = mean + spread * test_random_normal(&maker->random);
  return values;
}

static void make_norm_of(struct maker *maker, enum ommai_vision_norm_kind kind, struct ommai_vision_norm *norm, int64_t n) {
  norm->weight = random_vector(maker, n, 1, 0.2f);
  if (kind == OMMAI_VISION_LAYER_NORM) norm->bias = random_vector(maker, n, 0, 0.2f);
}

static void make_norm(struct maker *maker, struct ommai_vision_norm *norm, const struct ommai_vision_config *config,
                      int64_t n) {
  make_norm_of(maker, config->norm, norm, n);
}

static void make_linear(struct maker *maker, const struct ommai_vision_tower *tower, enum ommai_weight_format format,
                        int64_t n_out, int64_t n_in, struct ommai_linear_call call, struct ommai_vision_linear *out) {
  struct omma_error error;
  float *weight = random_vector(maker, n_out * n_in, 0, 1.0f / sqrtf((float)n_in));
  float *bias = random_vector(maker, n_out, 0, 0.2f);
  const struct ommai_linear_source source = {
      .weight = weight, .type = OMMA_F32, .n_out = n_out, .bias = bias, .bias_type = OMMA_F32};
  const struct ommai_linear_spec spec = {.n_in = n_in, .format = format, .compute = tower->dtype};
  assert_ok(ommai_linear_create(tower->linear_context, &spec, &source, 1, NULL, &out->linear, &error), &error);
  assert_ok(ommai_linear_op_create(tower->linear_context, out->linear, &call, &out->op, &error), &error);
  ommai_release(maker->allocator, weight, (size_t)(n_out * n_in), sizeof *weight);
  ommai_release(maker->allocator, bias, (size_t)n_out, sizeof *bias);
}

static void make_merger(struct maker *maker, const struct ommai_vision_tower *tower, enum ommai_weight_format format,
                        bool norm_after_join, struct ommai_vision_merger *merger) {
  const struct ommai_vision_config *config = &tower->config;
  int64_t joined = config->hidden_size * ommai_vision_joined_patches(config);
  merger->norm_after_join = norm_after_join;
  make_norm_of(maker, config->merger.layer_norm ? OMMAI_VISION_LAYER_NORM : config->norm, &merger->norm,
               norm_after_join ? joined : config->hidden_size);
  int64_t width = ommai_vision_merger_width(config), inner = ommai_vision_merger_inner(config);
  if (config->merger.reduced_size) {
    make_linear(maker, tower, format, width, joined, ommai_vision_call_merger_reduce(config, tower->dtype), &merger->reduce);
  }
  if (config->merger.projected) {
    make_linear(maker, tower, format, width, width, ommai_vision_call_merger_project(config), &merger->project);
    make_norm_of(maker, OMMAI_VISION_LAYER_NORM, &merger->projected_norm, width);
  }
  make_linear(maker, tower, format, config->merger.gated ? 2 * inner : inner, width,
              ommai_vision_call_merger_fc1(config, tower->dtype), &merger->fc1);
  make_linear(maker, tower, format, config->out_hidden_size, inner, ommai_vision_call_merger_fc2(config), &merger->fc2);
}

void fixture_tower_make(struct fixture_tower *fixture, int kind, int type, int n_workers,
                        const struct omma_allocator *allocator) {
  struct maker maker = {{11 + (uint64_t)kind}, allocator};
  struct omma_error error;
  struct omma_attention_context *attention;
  enum ommai_cpu_level level;
  enum omma_dtype dtype = type == FIXTURE_F32 ? OMMA_F32 : OMMA_BF16;
  *fixture = (struct fixture_tower){.tower = {.config = configs[kind], .dtype = dtype}, .allocator = allocator};
  struct ommai_vision_tower *tower = &fixture->tower;
  const struct ommai_vision_config *config = &tower->config;
  enum ommai_weight_format format = ommai_linear_dense_format(dtype);
  int64_t h = config->hidden_size;
  assert_ok(ommai_cpu_select(NULL, &level, &error), &error);
  assert_ok(omma_attention_context_create(&(struct omma_attention_options){.allocator = allocator}, &attention, &error),
            &error);
  assert_ok(ommai_linear_context_create(level, n_workers, allocator, &tower->linear_context, &error), &error);
  tower->attention = attention;
  tower->ops = ommai_row_ops(level);
  tower->blocks = ommai_allocate(allocator, (size_t)config->depth, sizeof *tower->blocks);
  make_linear(&maker, tower, format, h, ommai_vision_patch_dim(config), ommai_vision_call_patch_embed(config),
              &tower->patch_embed);
  if (type == FIXTURE_INT8) format = OMMAI_FORMAT_INT8;
  if (config->positions) {
    tower->position_table = random_vector(&maker, config->position_rows * config->position_columns * h, 0, 1);
  }
  for (int64_t i = 0; i < config->depth; i++) {
    struct ommai_vision_block *block = &tower->blocks[i];
    make_norm(&maker, &block->norm1, config, h);
    make_norm(&maker, &block->norm2, config, h);
    if (config->qk_norm) block->q_norm = random_vector(&maker, config->head_dim, 1, 0.2f);
    if (config->qk_norm) block->k_norm = random_vector(&maker, config->head_dim, 1, 0.2f);
    make_linear(&maker, tower, format, 3 * h, h, ommai_vision_call_qkv(config), &block->qkv);
    make_linear(&maker, tower, format, h, h, ommai_vision_call_proj(config), &block->proj);
    make_linear(&maker, tower, format, ommai_vision_fc1_width(config), h, ommai_vision_call_fc1(config, dtype), &block->fc1);
    make_linear(&maker, tower, format, h, config->intermediate_size, ommai_vision_call_fc2(config), &block->fc2);
  }
  tower->tile_rows = ommai_linear_max_rows(tower->blocks[0].qkv.linear);
  if (config->entry_norm) make_norm(&maker, &tower->entry_norm, config, h);
  if (config->final_norm) make_norm(&maker, &tower->final_norm, config, h);
  make_merger(&maker, tower, format, false, &tower->merger);
  for (int64_t j = 0; j < config->n_deepstack; j++) make_merger(&maker, tower, format, true, &tower->deepstack[j]);
  fixture->patches = (struct ommai_patch_spec){(int32_t)config->patch_size,
                                               (int32_t)config->merge_size,
                                               (int32_t)config->temporal_patch_size,
                                               {0.5f, 0.4f, 0.6f},
                                               {0.5f, 0.3f, 0.2f}};
}

void fixture_tower_free(struct fixture_tower *fixture) {
  struct ommai_linear_context *linear = fixture->tower.linear_context;
  struct omma_attention_context *attention = (struct omma_attention_context *)fixture->tower.attention;
  ommai_vision_tower_free(&fixture->tower, fixture->allocator);
  ommai_linear_context_destroy(linear);
  omma_attention_context_destroy(attention);
}

size_t fixture_pass_output_size(const struct fixture_tower *fixture, const struct fixture_pass *pass, int64_t index) {
  const struct ommai_vision_config *config = &fixture->tower.config;
  const struct ommai_vision_input *input = &pass->inputs[index];
  return (size_t)((1 + config->n_deepstack) * ommai_vision_input_grid_t(config, input) * input->grid_rows *
                  input->grid_columns / ommai_vision_joined_patches(config) * config->out_hidden_size);
}

static uint8_t *random_pixels(const struct ommai_vision_config *config, const int64_t grid[3]) {
  struct test_random random = {(uint64_t)(grid[0] * 10007 + grid[1] * 101 + grid[2])};
  size_t size = (size_t)(grid[0] * grid[1] * grid[2] * config->patch_size * config->patch_size * 3);
  uint8_t *pixels = malloc(size);
  for (size_t i = 0; i < size; i++) pixels[i] = (uint8_t)test_random_u32(&random);
  return pixels;
}

struct fixture_pass fixture_pass_make(const struct fixture_tower *fixture, const int64_t (*grids)[3], int64_t n_inputs,
                                      int n_workers) {
  struct fixture_pass pass = {.inputs = calloc((size_t)n_inputs, sizeof *pass.inputs), .n_inputs = n_inputs};
  struct omma_error error;
  for (int64_t i = 0; i < n_inputs; i++) {
    pass.inputs[i] = (struct ommai_vision_input){.pixels = random_pixels(&fixture->tower.config, grids[i]),
                                                 .n_frames = grids[i][0],
                                                 .grid_rows = grids[i][1],
                                                 .grid_columns = grids[i][2]};
    assert_ok(ommai_vision_sizes_add(&fixture->tower.config, &pass.inputs[i], &pass.sizes, &error), &error);
    pass.n_values += fixture_pass_output_size(fixture, &pass, i);
  }
  pass.values = malloc(pass.n_values * sizeof(float));
  float *output = pass.values;
  for (int64_t i = 0; i < n_inputs; i++) {
    pass.inputs[i].output = output;
    output += fixture_pass_output_size(fixture, &pass, i);
  }
  for (size_t i = 0; i < pass.n_values; i++) pass.values[i] = NAN;
  pass.workspace_size = ommai_vision_workspace_size(&fixture->tower, &pass.sizes, n_workers);
  assert_true(pass.workspace_size > 0);
  pass.workspace = aligned_alloc(64, (pass.workspace_size + 63) / 64 * 64);
  /* NaN, where anything is read that was not written */
  memset(pass.workspace, 0xff, pass.workspace_size);
  return pass;
}

void fixture_pass_free(struct fixture_pass *pass) {
  for (int64_t i = 0; i < pass->n_inputs; i++) free((void *)pass->inputs[i].pixels);
  free(pass->inputs);
  free(pass->values);
  free(pass->workspace);
}

enum omma_status fixture_pass_start(const struct fixture_tower *fixture, struct fixture_pass *pass, size_t workspace_size,
                                    const struct omma_team *team, struct ommai_vision_run **run, struct omma_error *error) {
  return ommai_vision_run_start(&fixture->tower, pass->inputs, pass->n_inputs, &fixture->patches, pass->workspace,
                                workspace_size, team, run, error);
}

void fixture_pass_run(const struct fixture_tower *fixture, struct fixture_pass *pass, int64_t max_tasks,
                      const struct omma_team *team) {
  struct ommai_vision_run *run;
  struct omma_error error;
  int64_t before = 0, done = 0, total = 0;
  assert_ok(fixture_pass_start(fixture, pass, pass->workspace_size, team, &run, &error), &error);
  while (!ommai_vision_run_done(run)) {
    assert_ok(ommai_vision_run_advance(run, max_tasks, &error), &error);
    ommai_vision_run_progress(run, &done, &total);
    assert_true(done >= before && done <= total);
    before = done;
  }
  assert_int_equal(done, total);
  assert_ok(ommai_vision_run_advance(run, max_tasks, &error), &error); /* done stays done */
  assert_true(ommai_vision_run_done(run));
}

int64_t fixture_pass_run_by_time(const struct fixture_tower *fixture, struct fixture_pass *pass, int64_t ns,
                                 const struct omma_team *team) {
  struct ommai_vision_run *run;
  struct omma_error error;
  int64_t n_slices = 0;
  assert_ok(fixture_pass_start(fixture, pass, pass->workspace_size, team, &run, &error), &error);
  for (; !ommai_vision_run_done(run); n_slices++) assert_ok(ommai_vision_run_advance_for(run, ns, &error), &error);
  assert_ok(ommai_vision_run_advance_for(run, ns, &error), &error); /* done stays done */
  return n_slices;
}
