#include "vision/vision_tower.h"

struct ommai_linear_form ommai_vision_form_patch_embed(const struct ommai_vision_config *config) {
  return (struct ommai_linear_form){
      .x_stride = ommai_vision_patch_dim(config), .y_stride = config->hidden_size, .y_type = OMMA_F32};
}

struct ommai_linear_form ommai_vision_form_qkv(const struct ommai_vision_config *config) {
  return (struct ommai_linear_form){.x_stride = config->hidden_size, .y_stride = 3 * config->hidden_size, .y_type = OMMA_F32};
}

struct ommai_linear_form ommai_vision_form_proj(const struct ommai_vision_config *config) {
  return (struct ommai_linear_form){
      .x_stride = config->hidden_size, .y_stride = config->hidden_size, .y_type = OMMA_F32, .accumulate = true};
}

struct ommai_linear_form ommai_vision_form_fc1(const struct ommai_vision_config *config, enum omma_dtype dtype) {
  return (struct ommai_linear_form){.x_stride = config->hidden_size,
                                    .y_stride = config->intermediate_size,
                                    .y_type = dtype,
                                    .activation = config->activation};
}

struct ommai_linear_form ommai_vision_form_fc2(const struct ommai_vision_config *config) {
  return (struct ommai_linear_form){
      .x_stride = config->intermediate_size, .y_stride = config->hidden_size, .y_type = OMMA_F32, .accumulate = true};
}

static int64_t joined_size(const struct ommai_vision_config *config) {
  return config->hidden_size * config->merge_size * config->merge_size;
}

struct ommai_linear_form ommai_vision_form_merger_fc1(const struct ommai_vision_config *config, enum omma_dtype dtype) {
  return (struct ommai_linear_form){.x_stride = joined_size(config),
                                    .y_stride = joined_size(config),
                                    .y_type = dtype,
                                    .activation = OMMAI_ACTIVATION_GELU_ERF};
}

struct ommai_linear_form ommai_vision_form_merger_fc2(const struct ommai_vision_config *config) {
  return (struct ommai_linear_form){.x_stride = joined_size(config), .y_stride = config->out_hidden_size, .y_type = OMMA_F32};
}

double ommai_vision_flops(const struct ommai_vision_config *config, int64_t n_patches) {
  double h = (double)config->hidden_size, n = (double)n_patches, joined = (double)joined_size(config);
  double block = 2 * h * (4 * h + 2 * (double)config->intermediate_size) + 4 * n * h;
  double merger = 2 * joined * (joined + (double)config->out_hidden_size);
  double tokens = n / (double)(config->merge_size * config->merge_size);
  return n * (2 * h * (double)ommai_vision_patch_dim(config) + (double)config->depth * block) +
         tokens * merger * (double)(1 + config->n_deepstack);
}
