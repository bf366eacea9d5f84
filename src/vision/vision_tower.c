#include "vision/vision_tower.h"

#include "base/allocator.h"
#include "base/checked.h"

static int64_t joined_size(const struct ommai_vision_config *config) {
  return config->hidden_size * ommai_vision_joined_patches(config);
}

static void free_norm(struct ommai_vision_norm *norm, int64_t n, const struct omma_allocator *allocator) {
  ommai_release(allocator, norm->weight, (size_t)n, sizeof *norm->weight);
  ommai_release(allocator, norm->bias, (size_t)n, sizeof *norm->bias);
}

static void free_linear(struct ommai_vision_linear *layer) {
  ommai_linear_op_destroy(layer->op);
  ommai_linear_destroy(layer->linear);
}

static void free_merger(const struct ommai_vision_config *config, struct ommai_vision_merger *merger,
                        const struct omma_allocator *allocator) {
  free_norm(&merger->norm, merger->norm_after_join ? joined_size(config) : config->hidden_size, allocator);
  free_norm(&merger->projected_norm, ommai_vision_merger_width(config), allocator);
  free_linear(&merger->reduce);
  free_linear(&merger->project);
  free_linear(&merger->fc1);
  free_linear(&merger->fc2);
}

void ommai_vision_tower_free(struct ommai_vision_tower *tower, const struct omma_allocator *allocator) {
  const struct ommai_vision_config *config = &tower->config;
  int64_t h = config->hidden_size;
  free_linear(&tower->patch_embed);
  ommai_release(allocator, tower->position_table, (size_t)(config->position_rows * config->position_columns * h),
                sizeof *tower->position_table);
  for (int64_t i = 0; tower->blocks && i < config->depth; i++) {
    struct ommai_vision_block *block = &tower->blocks[i];
    free_norm(&block->norm1, h, allocator);
    free_norm(&block->norm2, h, allocator);
    ommai_release(allocator, block->q_norm, (size_t)config->head_dim, sizeof *block->q_norm);
    ommai_release(allocator, block->k_norm, (size_t)config->head_dim, sizeof *block->k_norm);
    free_linear(&block->qkv);
    free_linear(&block->proj);
    free_linear(&block->fc1);
    free_linear(&block->fc2);
  }
  ommai_release(allocator, tower->blocks, (size_t)config->depth, sizeof *tower->blocks);
  free_norm(&tower->entry_norm, h, allocator);
  free_norm(&tower->final_norm, h, allocator);
  free_merger(config, &tower->merger, allocator);
  for (int64_t j = 0; j < config->n_deepstack; j++) free_merger(config, &tower->deepstack[j], allocator);
}

struct ommai_linear_call ommai_vision_call_patch_embed(const struct ommai_vision_config *config) {
  return (struct ommai_linear_call){
      .x_stride = ommai_vision_patch_dim(config), .y_stride = config->hidden_size, .y_type = OMMA_F32};
}

struct ommai_linear_call ommai_vision_call_qkv(const struct ommai_vision_config *config) {
  return (struct ommai_linear_call){.x_stride = config->hidden_size, .y_stride = 3 * config->hidden_size, .y_type = OMMA_F32};
}

struct ommai_linear_call ommai_vision_call_proj(const struct ommai_vision_config *config) {
  return (struct ommai_linear_call){
      .x_stride = config->hidden_size, .y_stride = config->hidden_size, .y_type = OMMA_F32, .accumulate = true};
}

struct ommai_linear_call ommai_vision_call_fc1(const struct ommai_vision_config *config, enum omma_dtype dtype) {
  return (struct ommai_linear_call){.x_stride = config->hidden_size,
                                    .y_stride = ommai_vision_fc1_width(config),
                                    .y_type = config->gated ? OMMA_F32 : dtype,
                                    .activation = config->activation};
}

struct ommai_linear_call ommai_vision_call_fc2(const struct ommai_vision_config *config) {
  return (struct ommai_linear_call){
      .x_stride = config->intermediate_size, .y_stride = config->hidden_size, .y_type = OMMA_F32, .accumulate = true};
}

struct ommai_linear_call ommai_vision_call_merger_reduce(const struct ommai_vision_config *config, enum omma_dtype dtype) {
  return (struct ommai_linear_call){.x_stride = joined_size(config), .y_stride = config->merger.reduced_size, .y_type = dtype};
}

struct ommai_linear_call ommai_vision_call_merger_project(const struct ommai_vision_config *config) {
  int64_t width = ommai_vision_merger_width(config);
  return (struct ommai_linear_call){.x_stride = width, .y_stride = width, .y_type = OMMA_F32};
}

struct ommai_linear_call ommai_vision_call_merger_fc1(const struct ommai_vision_config *config, enum omma_dtype dtype) {
  bool gated = config->merger.gated;
  return (struct ommai_linear_call){.x_stride = ommai_vision_merger_width(config),
                                    .y_stride = ommai_vision_merger_inner(config) * (gated ? 2 : 1),
                                    .y_type = gated ? OMMA_F32 : dtype,
                                    .activation = gated ? OMMAI_ACTIVATION_NONE : OMMAI_ACTIVATION_GELU_ERF};
}

struct ommai_linear_call ommai_vision_call_merger_fc2(const struct ommai_vision_config *config) {
  return (struct ommai_linear_call){
      .x_stride = ommai_vision_merger_inner(config), .y_stride = config->out_hidden_size, .y_type = OMMA_F32};
}

/* The sum over the segments of one axis of their squared lengths: n patches in runs of `side`. */
static double squared_runs(int64_t n, int64_t side) {
  double full = (double)(n / side), side_squared = (double)side * (double)side, rest = (double)(n % side);
  return full * side_squared + rest * rest;
}

/* Multiply-adds of a token in a merger. */
static double merger_products(const struct ommai_vision_config *config) {
  double width = (double)ommai_vision_merger_width(config), inner = (double)ommai_vision_merger_inner(config);
  double steps = (double)(joined_size(config) * config->merger.reduced_size) + (config->merger.projected ? width * width : 0);
  return steps + inner * (width * (config->merger.gated ? 2 : 1) + (double)config->out_hidden_size);
}

double ommai_vision_flops(const struct ommai_vision_config *config, int64_t grid_rows, int64_t grid_columns) {
  double h = (double)config->hidden_size, n = (double)grid_rows * (double)grid_columns;
  double linear = 2 * h * (4 * h + (double)(ommai_vision_fc1_width(config) + config->intermediate_size));
  /* pairs of query and key over all blocks: windows are products of runs, and so are their
   * squares */
  double seen = 0;
  for (int64_t block = 0; block < config->depth; block++) {
    int64_t side = config->windowed[block] ? config->window_size * config->merge_size : 0;
    seen += side ? squared_runs(grid_rows, side) * squared_runs(grid_columns, side) : n * n;
  }
  double merger = 2 * merger_products(config);
  double tokens = n / (double)ommai_vision_joined_patches(config);
  return n * (2 * h * (double)ommai_vision_patch_dim(config) + (double)config->depth * linear) + 4 * h * seen +
         tokens * merger * (double)(1 + config->n_deepstack);
}
