#include "model/network.h"

#include "base/allocator.h"
#include "base/error.h"
#include "base/team.h"
#include "families/model_config_read.h"
#include "families/token_vectors.h"
#include "language/decoder_sizes.h"
#include "language/mixer.h"

/* ---- read ---- */

static enum omma_status check_types(const struct omma_model_options *options, struct omma_error *error) {
  if (options->weights == OMMA_WEIGHTS_INT8) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "weights",
                            "weights: int8 is for the vision tower (vision_weights), and for the language model by "
                            "quantization; expected f32 or bf16");
  }
  if (options->weights < OMMA_WEIGHTS_AUTO || options->weights > OMMA_WEIGHTS_BF16 ||
      options->vision_weights < OMMA_WEIGHTS_AUTO || options->vision_weights > OMMA_WEIGHTS_INT8) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "weights", "weights: no such type: %d, %d", (int)options->weights,
                            (int)options->vision_weights);
  }
  if (options->kv_cache < OMMA_KV_CACHE_AUTO || options->kv_cache > OMMA_KV_CACHE_INT8) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "kv_cache", "kv_cache: no such type: %d", (int)options->kv_cache);
  }
  return OMMA_OK;
}

enum omma_status ommai_network_read(struct ommai_network *network, const struct ommai_documents *documents,
                                    const struct omma_model_options *options, struct ommai_model_config *config,
                                    struct omma_error *error) {
  network->allocator = options->allocator ? *options->allocator : ommai_default_allocator;
  network->large_allocator = options->allocator ? *options->allocator : ommai_huge_page_allocator;
  network->has_decoder = !options->encoder_only;
  network->config = config;
  network->n_threads = options->n_threads ? options->n_threads : ommai_team_cpu_count();
  if (!network->n_teams) network->n_teams = 1;
  OMMAI_TRY(ommai_cpu_select(options->isa, &network->level, error));
  OMMAI_TRY(ommai_model_config_read(documents, options->config_only, &network->allocator, &network->family, config, error));
  if (options->draft_head && network->has_decoder) OMMAI_TRY(ommai_model_config_take_draft_head(config, error));
  OMMAI_TRY(ommai_quantization_read(documents, &network->allocator, &network->quantization, error));
  if (network->n_threads < 1 || network->n_threads > OMMA_TEAM_MAX_THREADS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "threads", "threads: expected 1 to %d, found %d", OMMA_TEAM_MAX_THREADS,
                            options->n_threads);
  }
  return check_types(options, error);
}

void ommai_network_like(const struct ommai_network *other, struct ommai_network *network) {
  *network = (struct ommai_network){.allocator = other->allocator,
                                    .large_allocator = other->large_allocator,
                                    .level = other->level,
                                    .n_threads = other->n_threads,
                                    .n_teams = other->n_teams,
                                    .has_decoder = other->has_decoder,
                                    .text_only = other->text_only,
                                    .family = other->family,
                                    .config = other->config,
                                    .quantization = other->quantization,
                                    .is_copy = true};
}

/* ---- plan ---- */

/* Keys and values are of the type that was named for the arithmetic; where none was, of 16 bits. */
static enum omma_dtype kv_type(const struct omma_model_options *options) {
  if (options->kv_cache == OMMA_KV_CACHE_AUTO) return options->weights == OMMA_WEIGHTS_F32 ? OMMA_F32 : OMMA_BF16;
  if (options->kv_cache == OMMA_KV_CACHE_INT8) return OMMA_INT8;
  return options->kv_cache == OMMA_KV_CACHE_F32 ? OMMA_F32 : OMMA_BF16;
}

static void set_up_tower(struct ommai_network *network, enum omma_weight_type weights) {
  network->tower = (struct ommai_vision_tower){.config = network->config->vision,
                                               .dtype = ommai_weight_type_compute(weights, network->level),
                                               .int8_scores = weights == OMMA_WEIGHTS_INT8,
                                               .ops = ommai_row_ops(network->level),
                                               .attention = network->attention,
                                               .linear_context = network->linear_context};
}

static bool takes_int8(const struct ommai_decoder_config *config) {
  int64_t i = 0;
  while (i < config->n_layers && config->layers[i].mixer->int8_cache) i++;
  return i == config->n_layers;
}

static enum omma_status set_up_decoder(struct ommai_network *network, const struct omma_model_options *options,
                                       struct omma_error *error) {
  const struct ommai_decoder_config *config = &network->config->text;
  network->decoder = (struct ommai_decoder){.config = *config,
                                            .dtype = ommai_weight_type_compute(options->weights, network->level),
                                            .kv_type = kv_type(options),
                                            .ops = ommai_row_ops(network->level),
                                            .attention = network->attention,
                                            .linear_context = network->linear_context};
  ommai_mrope_init(&network->decoder.mrope, ommai_decoder_rope_dim(config), config->rope_theta, &config->rope_scaling,
                   config->mrope_section, config->mrope_interleaved);
  if (network->decoder.dtype == OMMA_BF16 && network->decoder.kv_type == OMMA_F32) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "kv_cache",
                            "kv_cache: keys and values are bf16 where the language model computes in bf16; f32 goes with f32");
  }
  if (network->decoder.kv_type == OMMA_INT8 && network->has_decoder && !takes_int8(config)) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "kv_cache",
                            "kv_cache: %s keeps compressed rows (MLA), which are not kept in int8; expected auto, bf16 or f32",
                            network->config->model_type);
  }
  return OMMA_OK;
}

static enum omma_status choose_weights(struct ommai_network *network, const struct omma_model_options *options,
                                       enum omma_weight_type vision, struct omma_error *error) {
  const struct ommai_weight_kind tower = ommai_weight_kind_of_tower(vision, network->tower.dtype);
  struct ommai_weight_kind text;
  OMMAI_TRY(ommai_weight_kind_quantize(options->quantization, network->declared,
                                       ommai_weight_kind_dense(network->decoder.dtype), &text, error));
  network->policy = ommai_weight_policy_make(tower, network->config->vision.gated, text);
  network->policy.keeps_stored = options->weights != OMMA_WEIGHTS_F32 && text.format == OMMAI_FORMAT_BF16;
  return OMMA_OK;
}

/* How most of the decoder's matrices are kept: as the feed-forward's, or the experts'. */
static struct ommai_linear_spec main_weights(const struct ommai_weight_loader *loader) {
  const struct ommai_linear_spec *dense = &loader->kept_by_role[OMMAI_ROLE_GATE_UP];
  return dense->n_in ? *dense : loader->kept_by_role[OMMAI_ROLE_EXPERT];
}

/* The bytes of the decoder's matrices that a generated token goes through: of an MoE layer the
 * experts that it is sent to; of a head of MLA the two products that have the elements of its
 * expansion. */
static int64_t step_weight_bytes(const struct ommai_network *network, const struct ommai_weight_loader *loader) {
  static const enum ommai_weight_role whole[] = {OMMAI_ROLE_TEXT_QKV, OMMAI_ROLE_TEXT_O, OMMAI_ROLE_GATE_UP,
                                                 OMMAI_ROLE_DOWN,     OMMAI_ROLE_ROUTER, OMMAI_ROLE_LM_HEAD};
  const struct ommai_router_config *router = &network->config->text.experts.router;
  int64_t bytes = loader->role_bytes[OMMAI_ROLE_MLA] / 2;
  if (router->n_experts) bytes += loader->role_bytes[OMMAI_ROLE_EXPERT] / router->n_experts * router->n_chosen;
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) bytes += loader->role_bytes[whole[i]];
  return bytes;
}

static struct ommai_weight_loader make_loader(const struct ommai_network *network, enum ommai_loader_mode mode,
                                              const struct ommai_checkpoint *checkpoint) {
  return (struct ommai_weight_loader){.mode = mode,
                                      .allocator = network->allocator,
                                      .checkpoint = checkpoint,
                                      .linear_context = network->linear_context,
                                      .policy = network->policy,
                                      .quantization = network->quantization,
                                      .stored_type = network->config->stored_type};
}

/* Runs the family's lists over a tower and, where there is to be one, a decoder. */
static enum omma_status load(const struct ommai_network *network, struct ommai_weight_loader *loader,
                             struct ommai_vision_tower *tower, struct ommai_decoder *decoder, struct omma_error *error) {
  const struct ommai_text_family *text = network->family->text;
  if (!network->text_only) OMMAI_TRY(ommai_tower_load(loader, network->family->tower_names, tower, error));
  loader->n_vision_parameters = loader->n_parameters;
  tower->tile_rows = loader->vision_max_rows = loader->max_rows;
  if (!network->has_decoder) return OMMA_OK;
  OMMAI_TRY(text->load(text, loader, decoder, error));
  return ommai_token_vectors_load(loader, decoder, error);
}

enum omma_status ommai_network_describe(const struct ommai_network *network, const struct ommai_checkpoint *checkpoint,
                                        ommai_tensor_visitor visit, void *context, struct ommai_weight_loader *loader,
                                        struct omma_error *error) {
  struct ommai_vision_tower tower = {.config = network->config->vision, .dtype = network->tower.dtype};
  struct ommai_decoder decoder = {.config = network->config->text, .dtype = network->decoder.dtype};
  *loader = make_loader(network, OMMAI_LOADER_DESCRIBE, checkpoint);
  loader->visit = visit;
  loader->visit_context = context;
  return load(network, loader, &tower, &decoder, error);
}

static enum omma_status count_weights(struct ommai_network *network, const struct ommai_checkpoint *checkpoint,
                                      ommai_tensor_visitor visit, void *context, struct omma_error *error) {
  const struct ommai_decoder_config *config = &network->config->text;
  struct ommai_weight_loader loader;
  OMMAI_TRY(ommai_network_describe(network, checkpoint, visit, context, &loader, error));
  network->n_parameters = loader.n_parameters;
  network->n_vision_parameters = loader.n_vision_parameters;
  network->tower.tile_rows = loader.vision_max_rows;
  if (config->tied_embeddings && !config->headless && network->has_decoder)
    network->n_parameters -= config->vocab_size * config->hidden_size;
  network->weight_bytes = loader.bytes;
  network->step_weight_bytes = step_weight_bytes(network, &loader);
  network->main_weights = main_weights(&loader);
  network->linear_scratch_bytes = (int64_t)loader.scratch_bytes * network->n_threads * network->n_teams;
  network->decoder.prepared_row_bytes = loader.prepared_row_bytes;
  network->decoder.gemv_row_bytes = loader.gemv_row_bytes;
  return OMMA_OK;
}

enum omma_status ommai_network_plan(struct ommai_network *network, const struct omma_model_options *options,
                                    const char *declared, const struct ommai_checkpoint *checkpoint, struct omma_error *error) {
  const struct ommai_quantization *quantization = network->quantization;
  enum omma_weight_type vision = options->vision_weights ? options->vision_weights : options->weights;
  network->declared = quantization ? ommai_quantization_description(quantization) : declared;
  const struct omma_attention_options attention = {.isa = ommai_cpu_level_name(network->level),
                                                   .allocator = &network->allocator};
  OMMAI_TRY(omma_attention_context_create(&attention, &network->attention, error));
  OMMAI_TRY(ommai_linear_context_create(network->level, network->n_threads * network->n_teams, &network->large_allocator,
                                        &network->linear_context, error));
  ommai_linear_context_set_teams(network->linear_context, network->n_teams);
  set_up_tower(network, vision);
  OMMAI_TRY(set_up_decoder(network, options, error));
  OMMAI_TRY(choose_weights(network, options, vision, error));
  return count_weights(network, checkpoint, NULL, NULL, error);
}

/* ---- pack ---- */

static enum omma_status require_tensor(void *context, const char *name, int n_dims, const int64_t *shape,
                                       struct omma_error *error) {
  const struct ommai_tensor *tensor;
  return ommai_checkpoint_require(context, name, n_dims, shape, &tensor, error);
}

enum omma_status ommai_network_pack(struct ommai_network *network, struct ommai_checkpoint *checkpoint,
                                    const struct omma_team *team, const struct omma_model_options *options,
                                    struct omma_error *error) {
  size_t depth = (size_t)network->config->vision.depth;
  OMMAI_TRY(count_weights(network, checkpoint, require_tensor, checkpoint, error));
  network->tower.blocks = ommai_allocate(&network->allocator, depth, sizeof *network->tower.blocks);
  if (!network->tower.blocks) return ommai_fail_memory(error, "blocks", depth * sizeof *network->tower.blocks);
  if (network->has_decoder) OMMAI_TRY(ommai_decoder_allocate(&network->decoder, &network->allocator, error));
  struct ommai_weight_loader loader = make_loader(network, OMMAI_LOADER_PACK, checkpoint);
  loader.progress = options->progress;
  loader.progress_context = options->progress_context;
  loader.bytes_total = (int64_t)ommai_checkpoint_total_bytes(checkpoint);
  loader.team = team;
  enum omma_status status = load(network, &loader, &network->tower, &network->decoder, error);
  network->packed = status == OMMA_OK;
  /* Tensors that are only mapped, or that the network has no use for, were not counted. */
  if (network->packed && loader.progress) loader.progress(loader.progress_context, loader.bytes_total, loader.bytes_total);
  return status;
}

void ommai_network_free(struct ommai_network *network) {
  ommai_vision_tower_free(&network->tower, &network->allocator);
  ommai_decoder_free(&network->decoder, &network->allocator);
  if (!network->is_copy) ommai_quantization_destroy(network->quantization);
  ommai_linear_context_destroy(network->linear_context);
  omma_attention_context_destroy(network->attention);
}
