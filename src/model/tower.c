/* <omma/tower.h>: a vision tower without tokenizer, language model and engine. */
#include <omma/team.h>
#include <omma/tower.h>
#include <stdatomic.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/sized.h"
#include "base/team.h"
#include "families/family.h"
#include "families/tower_loader.h"
#include "kernels/cpu.h"
#include "kernels/dtype.h"
#include "vision/vision_run.h"

struct omma_tower {
  struct omma_allocator allocator, large_allocator;
  enum ommai_cpu_level level;
  int n_threads;
  bool int8, packed;
  const struct ommai_family *family;
  struct ommai_model_config config;
  struct ommai_quantization *quantization; /* NULL where the checkpoint is not quantised */
  struct omma_attention_context *attention;
  struct ommai_linear_context *linear_context;
  struct ommai_weight_policy policy;
  struct ommai_vision_tower tower;
  int64_t n_parameters, weight_bytes;
  atomic_bool busy;
};

/* ---- opening ---- */

static struct ommai_weight_loader make_loader(const struct omma_tower *tower, enum ommai_loader_mode mode,
                                              const struct ommai_checkpoint *checkpoint) {
  return (struct ommai_weight_loader){.mode = mode,
                                      .allocator = tower->allocator,
                                      .checkpoint = checkpoint,
                                      .linear_context = tower->linear_context,
                                      .policy = tower->policy,
                                      .quantization = tower->quantization,
                                      .stored_type = tower->config.stored_type};
}

static enum omma_status require_tensor(void *context, const char *name, int n_dims, const int64_t *shape,
                                       struct omma_error *error) {
  const struct ommai_tensor *tensor;
  return ommai_checkpoint_require(context, name, n_dims, shape, &tensor, error);
}

/* Counts parameters and bytes, and with a checkpoint checks that it has every tensor in its
 * shape. */
static enum omma_status describe(struct omma_tower *tower, struct ommai_checkpoint *checkpoint, struct omma_error *error) {
  struct ommai_vision_tower described = {.config = tower->config.vision, .dtype = tower->tower.dtype};
  struct ommai_weight_loader loader = make_loader(tower, OMMAI_LOADER_DESCRIBE, checkpoint);
  if (checkpoint) loader.visit = require_tensor;
  loader.visit_context = checkpoint;
  OMMAI_TRY(ommai_tower_load(&loader, tower->family->tower_names, &described, error));
  tower->n_parameters = loader.n_parameters;
  tower->weight_bytes = loader.bytes;
  return OMMA_OK;
}

static enum omma_status pack(struct omma_tower *tower, struct ommai_checkpoint *checkpoint, struct omma_error *error) {
  struct ommai_weight_loader loader = make_loader(tower, OMMAI_LOADER_PACK, checkpoint);
  size_t depth = (size_t)tower->config.vision.depth;
  struct ommai_team *team;
  OMMAI_TRY(describe(tower, checkpoint, error));
  tower->tower.blocks = ommai_allocate(&tower->allocator, depth, sizeof *tower->tower.blocks);
  if (!tower->tower.blocks) return ommai_fail_memory(error, "blocks", depth * sizeof *tower->tower.blocks);
  OMMAI_TRY(ommai_team_create(tower->n_threads, false, &tower->allocator, &team, error));
  ommai_linear_context_pack_on(tower->linear_context, ommai_team_interface(team));
  enum omma_status status = ommai_tower_load(&loader, tower->family->tower_names, &tower->tower, error);
  ommai_linear_context_pack_on(tower->linear_context, NULL);
  ommai_team_destroy(team);
  tower->packed = status == OMMA_OK;
  return status;
}

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

/* Packs what the host has in memory. */
static enum omma_status pack_given(struct omma_tower *tower, const char *directory, const struct omma_tower_options *options,
                                   struct omma_error *error) {
  struct ommai_checkpoint *checkpoint = NULL;
  enum omma_status status = OMMA_OK;
  if (options->n_tensors < 1) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "tensors", "tensors: expected at least one");
  struct ommai_tensor *tensors = ommai_allocate(&tower->allocator, options->n_tensors, sizeof *tensors);
  if (!tensors) return ommai_fail_memory(error, "tensors", options->n_tensors * sizeof *tensors);
  for (size_t i = 0; i < options->n_tensors && status == OMMA_OK; i++) {
    status = to_tensor(&options->tensors[i], &tensors[i], error);
  }
  if (status == OMMA_OK) {
    status = ommai_checkpoint_gather(directory, tensors, (int64_t)options->n_tensors, &tower->allocator, &checkpoint, error);
  }
  if (status == OMMA_OK) status = pack(tower, checkpoint, error);
  ommai_checkpoint_close(checkpoint);
  ommai_release(&tower->allocator, tensors, options->n_tensors, sizeof *tensors);
  return status;
}

static enum omma_status pack_directory(struct omma_tower *tower, const char *directory, struct omma_error *error) {
  struct ommai_checkpoint *checkpoint;
  OMMAI_TRY(ommai_quantization_open_checkpoint(tower->quantization, directory, &tower->allocator, &checkpoint, error));
  enum omma_status status = pack(tower, checkpoint, error);
  ommai_checkpoint_close(checkpoint);
  return status;
}

static enum omma_status choose_weights(struct omma_tower *tower, enum omma_weight_type weights, struct omma_error *error) {
  if (weights < OMMA_WEIGHTS_AUTO || weights > OMMA_WEIGHTS_INT8) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "weights", "weights: no such type: %d", (int)weights);
  }
  tower->int8 = weights == OMMA_WEIGHTS_INT8;
  tower->tower = (struct ommai_vision_tower){.config = tower->config.vision,
                                             .int8_scores = tower->int8,
                                             .dtype = ommai_weight_type_compute(weights, tower->level),
                                             .ops = ommai_row_ops(tower->level),
                                             .attention = tower->attention,
                                             .linear_context = tower->linear_context};
  const struct ommai_weight_kind kind = {.format = tower->int8 ? OMMAI_FORMAT_INT8 : OMMAI_FORMAT_BF16,
                                         .compute = tower->tower.dtype};
  tower->policy = ommai_weight_policy_make(kind, tower->config.vision.gated, ommai_weight_kind_dense(tower->tower.dtype));
  return OMMA_OK;
}

static enum omma_status open_tower(struct omma_tower *tower, const char *directory, const struct omma_tower_options *options,
                                   struct omma_error *error) {
  const struct ommai_documents documents = {.directory = directory};
  OMMAI_TRY(ommai_cpu_select(options->isa, &tower->level, error));
  OMMAI_TRY(ommai_model_config_read(&documents, true, &tower->allocator, &tower->family, &tower->config, error));
  OMMAI_TRY(ommai_quantization_read(&documents, &tower->allocator, &tower->quantization, error));
  tower->n_threads = options->n_threads ? options->n_threads : ommai_team_cpu_count();
  if (tower->n_threads < 1 || tower->n_threads > OMMA_TEAM_MAX_THREADS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "threads", "threads: expected 1 to %d, found %d", OMMA_TEAM_MAX_THREADS,
                            options->n_threads);
  }
  const struct omma_attention_options attention = {.isa = ommai_cpu_level_name(tower->level), .allocator = &tower->allocator};
  OMMAI_TRY(omma_attention_context_create(&attention, &tower->attention, error));
  OMMAI_TRY(
      ommai_linear_context_create(tower->level, tower->n_threads, &tower->large_allocator, &tower->linear_context, error));
  OMMAI_TRY(choose_weights(tower, options->weights, error));
  if (options->config_only) return describe(tower, NULL, error);
  return options->tensors ? pack_given(tower, directory, options, error) : pack_directory(tower, directory, error);
}

enum omma_status omma_tower_open(const char *directory, const struct omma_tower_options *options, struct omma_tower **out,
                                 struct omma_error *error) {
  OMMAI_TAKE_OPTIONS(omma_tower_options, options, error);
  if (!directory || !*directory) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "model", "model: no directory given");
  const struct omma_allocator *allocator = options->allocator ? options->allocator : &ommai_default_allocator;
  struct omma_tower *tower = ommai_allocate(allocator, 1, sizeof *tower);
  if (!tower) return ommai_fail_memory(error, "tower", sizeof *tower);
  tower->allocator = *allocator;
  tower->large_allocator = options->allocator ? *options->allocator : ommai_huge_page_allocator;
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
  struct omma_allocator allocator = tower->allocator;
  ommai_vision_tower_free(&tower->tower, &allocator);
  ommai_quantization_destroy(tower->quantization);
  ommai_linear_context_destroy(tower->linear_context);
  omma_attention_context_destroy(tower->attention);
  ommai_release(&allocator, tower, 1, sizeof *tower);
}

void omma_tower_get_info(const struct omma_tower *tower, struct omma_tower_info *info) {
  const struct ommai_vision_config *config = &tower->config.vision;
  *info = (struct omma_tower_info){
      .model_type = tower->config.model_type,
      .isa = ommai_cpu_level_name(tower->level),
      .weights = tower->int8 ? "int8" : ommai_dtype_name(tower->tower.dtype),
      .n_threads = tower->n_threads,
      .n_parameters = tower->n_parameters,
      .weight_bytes = tower->weight_bytes,
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
  if (n_inputs < 1 || n_inputs > OMMA_ATTENTION_MAX_TOKENS || n_workers < 1 || n_workers > tower->n_threads) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "tower",
                            "tower: expected at least 1 image and 1 to %d workers, found %zu and %d", tower->n_threads,
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
  size_t run = ommai_vision_workspace_size(&tower->tower, &sizes, n_workers);
  if (!run) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image", "image: %lld patches are too many", (long long)sizes.n_patches);
  }
  *size = inputs_size(n_inputs) + run;
  return OMMA_OK;
}

static enum omma_status check_inputs(const struct omma_tower *tower, const struct omma_tower_input *inputs, size_t n_inputs,
                                     struct omma_error *error) {
  if (!tower->packed) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "tower", "tower: opened without its weights");
  for (size_t i = 0; i < n_inputs; i++) {
    if (!inputs[i].patches || !inputs[i].output) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "patches", "image %zu: patches or output missing", i);
    }
    if (inputs[i].type != OMMA_F32 && inputs[i].type != tower->tower.dtype) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "patches", "image %zu: patches of type %d in a tower of %s", i,
                              (int)inputs[i].type, ommai_dtype_name(tower->tower.dtype));
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
  OMMAI_TRY(ommai_vision_run_start(&tower->tower, own, (int64_t)n_inputs, &tower->config.image.patches,
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
