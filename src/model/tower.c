/* <omma/tower.h>: a vision tower without tokenizer, language model and engine. */
#include <omma/team.h>
#include <omma/tower.h>
#include <stdatomic.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/sized.h"
#include "base/team.h"
#include "kernels/dtype.h"
#include "model/network.h"
#include "vision/vision_run.h"

struct omma_tower {
  struct ommai_model_config config;
  struct ommai_network network; /* without a decoder */
  atomic_bool busy;
};

/* ---- opening ---- */

static enum omma_status to_tensor(const struct omma_tower_tensor *given, struct ommai_tensor *tensor,
                                  struct omma_error *error) {
  static const enum ommai_tensor_type types[] = {
      [OMMA_F32] = OMMAI_TENSOR_F32, [OMMA_BF16] = OMMAI_TENSOR_BF16, [OMMA_F16] = OMMAI_TENSOR_F16};
  if (!given->name || (given->type != OMMA_F32 && given->type != OMMA_BF16 && given->type != OMMA_F16)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "tensors", "tensors: %s: expected a name, and f32, bf16 or f16",
                            given->name ? given->name : "(no name)");
  }
  *tensor =
      (struct ommai_tensor){.name = given->name, .type = types[given->type], .n_dims = given->n_dims, .data = given->data};
  if (!given->data || given->n_dims < 1 ||
      !ommai_tensor_size(tensor->type, given->n_dims, given->shape, &tensor->n_elements, &tensor->size_bytes)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "tensors", "tensors: %s: expected data of 1 to 8 dimensions",
                            given->name);
  }
  for (int i = 0; i < given->n_dims; i++) tensor->shape[i] = given->shape[i];
  return OMMA_OK;
}

/* A checkpoint of what the host has in memory; *tensors [n_tensors] must outlive it. */
static enum omma_status gather(const struct omma_tower *tower, const char *directory, const struct omma_tower_options *options,
                               struct ommai_tensor **tensors, struct ommai_checkpoint **checkpoint, struct omma_error *error) {
  const struct omma_allocator *allocator = &tower->network.allocator;
  if (options->n_tensors < 1) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "tensors", "tensors: expected at least one");
  *tensors = ommai_allocate(allocator, options->n_tensors, sizeof **tensors);
  if (!*tensors) return ommai_fail_memory(error, "tensors", options->n_tensors * sizeof **tensors);
  for (size_t i = 0; i < options->n_tensors; i++) OMMAI_TRY(to_tensor(&options->tensors[i], &(*tensors)[i], error));
  return ommai_checkpoint_gather(directory, *tensors, (int64_t)options->n_tensors, allocator, checkpoint, error);
}

static enum omma_status pack_weights(struct omma_tower *tower, const char *directory, const struct omma_tower_options *options,
                                     struct omma_error *error) {
  static const struct omma_model_options silent = {0};
  struct ommai_network *network = &tower->network;
  struct ommai_tensor *tensors = NULL;
  struct ommai_checkpoint *checkpoint = NULL;
  struct ommai_team *team = NULL;
  enum omma_status status = options->tensors ? gather(tower, directory, options, &tensors, &checkpoint, error)
                                             : ommai_quantization_open_checkpoint(network->quantization, directory,
                                                                                  &network->allocator, &checkpoint, error);
  if (status == OMMA_OK) status = ommai_team_create(network->n_threads, false, &network->allocator, &team, error);
  if (status == OMMA_OK) status = ommai_network_pack(network, checkpoint, ommai_team_interface(team), &silent, error);
  ommai_team_destroy(team);
  ommai_checkpoint_close(checkpoint);
  ommai_release(&network->allocator, tensors, options->n_tensors, sizeof *tensors);
  return status;
}

static enum omma_status open_tower(struct omma_tower *tower, const char *directory, const struct omma_tower_options *options,
                                   struct omma_error *error) {
  const struct ommai_documents documents = {.directory = directory};
  /* Patches come from the host's image processor: no file of one is needed. */
  const struct omma_model_options wanted = {.isa = options->isa,
                                            .n_threads = options->n_threads,
                                            .vision_weights = options->weights,
                                            .config_only = true,
                                            .encoder_only = true,
                                            .allocator = options->allocator};
  OMMAI_TRY(ommai_network_read(&tower->network, &documents, &wanted, &tower->config, error));
  OMMAI_TRY(ommai_network_plan(&tower->network, &wanted, NULL, NULL, error));
  return options->config_only ? OMMA_OK : pack_weights(tower, directory, options, error);
}

enum omma_status omma_tower_open(const char *directory, const struct omma_tower_options *options, struct omma_tower **out,
                                 struct omma_error *error) {
  OMMAI_TAKE_OPTIONS(omma_tower_options, options, error);
  if (!directory || !*directory) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "model", "model: no directory given");
  const struct omma_allocator *allocator = options->allocator ? options->allocator : &ommai_default_allocator;
  struct omma_tower *tower = ommai_allocate(allocator, 1, sizeof *tower);
  if (!tower) return ommai_fail_memory(error, "tower", sizeof *tower);
  enum omma_status status = open_tower(tower, directory, options, error);
  if (status != OMMA_OK) {
    omma_tower_close(tower);
    return status;
  }
  *out = tower;
  return OMMA_OK;
}

void omma_tower_close(struct omma_tower *tower) {
  if (!tower) return;
  struct omma_allocator allocator = tower->network.allocator;
  ommai_network_free(&tower->network);
  ommai_release(&allocator, tower, 1, sizeof *tower);
}

void omma_tower_get_info(const struct omma_tower *tower, struct omma_tower_info *info) {
  const struct ommai_vision_config *config = &tower->config.vision;
  *info = (struct omma_tower_info){
      .model_type = tower->config.model_type,
      .isa = ommai_cpu_level_name(tower->network.level),
      .weights = ommai_weight_kind_name(&tower->network.policy.kinds[OMMAI_ROLE_TOWER_QKV]),
      .n_threads = tower->network.n_threads,
      .n_parameters = tower->network.n_parameters,
      .weight_bytes = tower->network.weight_bytes,
      .depth = config->depth,
      .hidden_size = config->hidden_size,
      .n_heads = config->n_heads,
      .patch_size = config->patch_size,
      .temporal_patch_size = config->temporal_patch_size,
      .merge_size = config->merge_size,
      .patch_dim = ommai_vision_patch_dim(config),
      .width = config->out_hidden_size,
      .n_deepstack = config->n_deepstack,
  };
}

/* ---- encoding ---- */

static enum omma_status to_input(const struct omma_tower *tower, const struct omma_tower_input *given,
                                 struct ommai_vision_input *input, struct omma_error *error) {
  const int64_t *grid = given->grid_thw, temporal = tower->config.vision.temporal_patch_size;
  if (grid[0] < 1 || grid[0] > OMMA_ATTENTION_MAX_TOKENS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "grid_thw", "grid_thw: expected a time of 1 to %lld, found %lld",
                            (long long)OMMA_ATTENTION_MAX_TOKENS, (long long)grid[0]);
  }
  *input = (struct ommai_vision_input){.patches = given->patches,
                                       .patch_type = given->type,
                                       .raster_patches = tower->config.image.raster_patches,
                                       .n_frames = grid[0] * temporal,
                                       .grid_rows = grid[1],
                                       .grid_columns = grid[2],
                                       .output = given->output};
  return OMMA_OK;
}

/* The inputs lie in front of the pass's own workspace. */
static size_t inputs_size(size_t n_inputs) {
  return (size_t)ommai_round_up((int64_t)(n_inputs * sizeof(struct ommai_vision_input)), OMMAI_ALIGNMENT);
}

enum omma_status omma_tower_workspace_size(const struct omma_tower *tower, const struct omma_tower_input *inputs,
                                           size_t n_inputs, int n_workers, size_t *size, struct omma_error *error) {
  struct ommai_vision_sizes sizes = {0};
  if (n_inputs < 1 || n_inputs > OMMA_ATTENTION_MAX_TOKENS || n_workers < 1 || n_workers > tower->network.n_threads) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "tower",
                            "tower: expected at least 1 image and 1 to %d workers, found %zu and %d", tower->network.n_threads,
                            n_inputs, n_workers);
  }
  for (size_t i = 0; i < n_inputs; i++) {
    struct ommai_vision_input input;
    enum omma_status status = to_input(tower, &inputs[i], &input, error);
    if (status == OMMA_OK) status = ommai_vision_sizes_add(&tower->config.vision, &input, &sizes, error);
    if (status == OMMA_OK) continue;
    ommai_error_prefix(error, "image %zu", i);
    return status;
  }
  size_t run = ommai_vision_workspace_size(&tower->network.tower, &sizes, n_workers);
  if (!run) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image", "image: %lld patches are too many", (long long)sizes.n_patches);
  }
  *size = inputs_size(n_inputs) + run;
  return OMMA_OK;
}

static enum omma_status check_inputs(const struct omma_tower *tower, const struct omma_tower_input *inputs, size_t n_inputs,
                                     struct omma_error *error) {
  if (!tower->network.packed) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "tower", "tower: opened without its weights");
  for (size_t i = 0; i < n_inputs; i++) {
    if (!inputs[i].patches || !inputs[i].output) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "patches", "image %zu: patches or output missing", i);
    }
    if (inputs[i].type != OMMA_F32 && inputs[i].type != tower->network.tower.dtype) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "patches", "image %zu: patches of another type than f32 and the tower's own, %s", i,
                              ommai_dtype_name(tower->network.tower.dtype));
    }
  }
  return OMMA_OK;
}

static enum omma_status encode(const struct omma_tower *tower, const struct omma_tower_input *inputs, size_t n_inputs,
                               void *workspace, size_t workspace_size, const struct omma_team *team, struct omma_error *error) {
  size_t needed, first = inputs_size(n_inputs);
  struct ommai_vision_input *own = workspace;
  struct ommai_vision_run *run;
  OMMAI_TRY(check_inputs(tower, inputs, n_inputs, error));
  OMMAI_TRY(omma_tower_workspace_size(tower, inputs, n_inputs, team ? team->n_workers : 1, &needed, error));
  if (!workspace || workspace_size < needed) return ommai_fail_memory(error, "tower workspace", needed);
  for (size_t i = 0; i < n_inputs; i++) OMMAI_TRY(to_input(tower, &inputs[i], &own[i], error));
  OMMAI_TRY(ommai_vision_run_start(&tower->network.tower, own, (int64_t)n_inputs, &tower->config.image.patches,
                                   (unsigned char *)workspace + first, workspace_size - first, team, &run, error));
  while (!ommai_vision_run_done(run)) OMMAI_TRY(ommai_vision_run_advance(run, INT64_MAX, error));
  return OMMA_OK;
}

enum omma_status omma_tower_encode(struct omma_tower *tower, const struct omma_tower_input *inputs, size_t n_inputs,
                                   void *workspace, size_t workspace_size, const struct omma_team *team,
                                   struct omma_error *error) {
  if (atomic_exchange(&tower->busy, true)) return ommai_fail(error, OMMA_ERROR_BUSY, "tower: another call is encoding");
  enum omma_status status = encode(tower, inputs, n_inputs, workspace, workspace_size, team, error);
  atomic_store(&tower->busy, false);
  return status;
}
