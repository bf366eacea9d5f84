#include "model/model.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/plural.h"
#include "base/sized.h"
#include "base/team.h"
#include "families/generation_config.h"
#include "families/gguf_files.h"
#include "grammar/token_trie.h"
#include "kernels/dtype.h"
#include "language/attention_kind.h"
#include "language/decoder_work.h"
#include "language/kv_cache.h"

const char *omma_version(void) { return OMMA_VERSION; }

/* Keys and values are of the type that was named for the arithmetic; where none was, of 16 bits. */
static enum omma_dtype kv_type(const struct omma_model_options *options) {
  if (options->kv_cache == OMMA_KV_CACHE_AUTO) return options->weights == OMMA_WEIGHTS_F32 ? OMMA_F32 : OMMA_BF16;
  if (options->kv_cache == OMMA_KV_CACHE_INT8) return OMMA_INT8;
  return options->kv_cache == OMMA_KV_CACHE_F32 ? OMMA_F32 : OMMA_BF16;
}

static struct ommai_weight_loader make_loader(const struct omma_model *model, enum ommai_loader_mode mode,
                                              const struct ommai_checkpoint *checkpoint) {
  return (struct ommai_weight_loader){.mode = mode,
                                      .allocator = model->allocator,
                                      .checkpoint = checkpoint,
                                      .linear_context = model->linear_context,
                                      .policy = model->policy,
                                      .quantization = model->quantization,
                                      .stored_type = model->config.stored_type};
}

/* Runs the family's lists over a tower and, where there is to be one, a decoder. */
static enum omma_status load(const struct omma_model *model, struct ommai_weight_loader *loader,
                             struct ommai_vision_tower *tower, struct ommai_decoder *decoder, int64_t *n_vision_parameters,
                             struct omma_error *error) {
  OMMAI_TRY(ommai_tower_load(loader, model->family->tower_names, tower, error));
  if (n_vision_parameters) *n_vision_parameters = loader->n_parameters;
  return model->encoder_only ? OMMA_OK : model->family->text->load(model->family->text, loader, decoder, error);
}

enum omma_status ommai_model_describe(const struct omma_model *model, const struct ommai_checkpoint *checkpoint,
                                      struct ommai_weight_loader *loader, ommai_tensor_visitor visit, void *context,
                                      struct omma_error *error) {
  struct ommai_vision_tower tower = {.config = model->config.vision, .dtype = model->tower.dtype};
  struct ommai_decoder decoder = {.config = model->config.text, .dtype = model->decoder.dtype};
  *loader = make_loader(model, OMMAI_LOADER_DESCRIBE, checkpoint);
  loader->visit = visit;
  loader->visit_context = context;
  return load(model, loader, &tower, &decoder, NULL, error);
}

static enum omma_status require_tensor(void *context, const char *name, int n_dims, const int64_t *shape,
                                       struct omma_error *error) {
  const struct ommai_tensor *tensor;
  return ommai_checkpoint_require(context, name, n_dims, shape, &tensor, error);
}

/* How most of the language model's matrices are kept: as the feed-forward's, or the experts'. */
static struct ommai_linear_spec main_weights(const struct ommai_weight_loader *loader) {
  const struct ommai_linear_spec *dense = &loader->kept_by_role[OMMAI_ROLE_GATE_UP];
  return dense->n_in ? *dense : loader->kept_by_role[OMMAI_ROLE_EXPERT];
}

/* The bytes of the language model's matrices that a generated token goes through: of an MoE layer
 * the experts that it is sent to; of a head of MLA the two products that have the elements of its
 * expansion. */
static int64_t step_weight_bytes(const struct omma_model *model, const struct ommai_weight_loader *loader) {
  static const enum ommai_weight_role whole[] = {OMMAI_ROLE_TEXT_QKV, OMMAI_ROLE_TEXT_O, OMMAI_ROLE_GATE_UP,
                                                 OMMAI_ROLE_DOWN,     OMMAI_ROLE_ROUTER, OMMAI_ROLE_LM_HEAD};
  const struct ommai_router_config *router = &model->config.text.experts.router;
  int64_t bytes = loader->role_bytes[OMMAI_ROLE_MLA] / 2;
  if (router->n_experts) bytes += loader->role_bytes[OMMAI_ROLE_EXPERT] / router->n_experts * router->n_chosen;
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) bytes += loader->role_bytes[whole[i]];
  return bytes;
}

static enum omma_status count_weights(struct omma_model *model, struct omma_error *error) {
  struct ommai_vision_tower tower = {.config = model->config.vision, .dtype = model->tower.dtype};
  struct ommai_decoder decoder = {.config = model->config.text, .dtype = model->decoder.dtype};
  struct ommai_weight_loader loader = make_loader(model, OMMAI_LOADER_DESCRIBE, model->checkpoint);
  OMMAI_TRY(load(model, &loader, &tower, &decoder, &model->n_vision_parameters, error));
  model->n_parameters = loader.n_parameters;
  if (model->config.text.tied_embeddings && !model->encoder_only)
    model->n_parameters -= model->config.text.vocab_size * model->config.text.hidden_size;
  model->weight_bytes = loader.bytes;
  model->step_weight_bytes = step_weight_bytes(model, &loader);
  model->main_weights = main_weights(&loader);
  model->linear_scratch_bytes = (int64_t)loader.scratch_bytes * model->n_threads;
  model->decoder.prepared_row_bytes = loader.prepared_row_bytes;
  return OMMA_OK;
}

enum omma_status ommai_model_open_checkpoint(const struct omma_model *model, struct ommai_checkpoint **checkpoint,
                                             struct omma_error *error) {
  struct ommai_quantization *quantization; /* the model's own is not for two threads at once */
  if (model->gguf) return ommai_gguf_model_checkpoint(model->gguf, checkpoint, error);
  OMMAI_TRY(ommai_quantization_read(&model->documents, &model->allocator, &quantization, error));
  enum omma_status status =
      ommai_quantization_open_checkpoint(quantization, model->directory, &model->allocator, checkpoint, error);
  ommai_quantization_destroy(quantization);
  return status;
}

static enum omma_status pack_weights(struct omma_model *model, const struct omma_model_options *options,
                                     struct omma_error *error) {
  struct ommai_weight_loader loader;
  if (!model->checkpoint) OMMAI_TRY(ommai_model_open_checkpoint(model, &model->checkpoint, error));
  OMMAI_TRY(ommai_model_describe(model, model->checkpoint, &loader, require_tensor, model->checkpoint, error));
  model->weight_bytes = loader.bytes; /* of the types that the tensors really have */
  model->step_weight_bytes = step_weight_bytes(model, &loader);
  model->main_weights = main_weights(&loader);
  model->linear_scratch_bytes = (int64_t)loader.scratch_bytes * model->n_threads;
  model->decoder.prepared_row_bytes = loader.prepared_row_bytes;
  size_t depth = (size_t)model->config.vision.depth;
  model->tower.blocks = ommai_allocate(&model->allocator, depth, sizeof *model->tower.blocks);
  if (!model->tower.blocks) return ommai_fail_memory(error, "blocks", depth * sizeof *model->tower.blocks);
  if (!model->encoder_only) OMMAI_TRY(ommai_decoder_allocate(&model->decoder, &model->allocator, error));
  loader = make_loader(model, OMMAI_LOADER_PACK, model->checkpoint);
  loader.progress = options->progress;
  loader.progress_context = options->progress_context;
  loader.bytes_total = (int64_t)ommai_checkpoint_total_bytes(model->checkpoint);
  const struct omma_team *team = ommai_image_team_borrow(model->image_team); /* no images yet */
  ommai_linear_context_pack_on(model->linear_context, team);
  enum omma_status status = load(model, &loader, &model->tower, &model->decoder, NULL, error);
  ommai_linear_context_pack_on(model->linear_context, NULL);
  ommai_image_team_return(model->image_team, team);
  if (status != OMMA_OK) return status;
  if (!model->encoder_only) model->config.stored_type = model->decoder.embedding_type;
  /* Tensors that are only mapped, or that the model has no use for, were not counted. */
  if (loader.progress) loader.progress(loader.progress_context, loader.bytes_total, loader.bytes_total);
  return OMMA_OK;
}

/* An estimate needs no tokens. */
static enum omma_status read_tokenizer(struct omma_model *model, struct omma_error *error) {
  bool found;
  if (model->gguf) {
    OMMAI_TRY(ommai_gguf_model_tokenizer(model->gguf, &model->tokenizer, error));
  } else if (model->config_only) {
    OMMAI_TRY(ommai_tokenizer_present(model->directory, &found, error));
    if (!found) return OMMA_OK;
  }
  if (!model->tokenizer) OMMAI_TRY(ommai_tokenizer_load(model->directory, &model->allocator, &model->tokenizer, error));
  int32_t known = ommai_tokenizer_vocab_size(model->tokenizer);
  if (known > model->config.text.vocab_size) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "vocab_size",
                            "%s: tokenizer.json knows token %d, config.json's vocab_size is %lld", model->directory, known - 1,
                            (long long)model->config.text.vocab_size);
  }
  return OMMA_OK;
}

static enum omma_status read_chat_template(struct omma_model *model, const struct omma_model_options *options,
                                           struct omma_error *error) {
  if (options->chat_template < OMMA_CHAT_TEMPLATE_OWN || options->chat_template > OMMA_CHAT_TEMPLATE_UNUSED) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "chat_template", "chat_template: no such use: %d",
                            (int)options->chat_template);
  }
  model->chat_use = options->chat_template;
  OMMAI_TRY(ommai_chat_template_read(&model->documents, options->chat_template_file, &model->allocator, model->family,
                                     &model->chat, error));
  bool later = model->config_only || model->chat_use == OMMA_CHAT_TEMPLATE_UNUSED;
  return later ? OMMA_OK : ommai_model_require_chat(model, error);
}

static enum omma_status choose_generation(struct omma_model *model, const struct omma_model_options *options,
                                          struct omma_error *error) {
  struct ommai_generation_config *generation = &model->config.generation;
  OMMAI_TRY(ommai_generation_config_choose(options->generation_config, options->override_generation_config, &model->allocator,
                                           model->config.text.vocab_size, generation, error));
  if (!model->tokenizer) return OMMA_OK;
  return ommai_generation_config_add_eos(&model->documents, &model->allocator, model->tokenizer, generation, error);
}

static enum omma_status choose_limits(struct omma_model *model, const struct omma_model_options *options,
                                      struct omma_error *error) {
  int64_t limit = model->config.text.max_positions;
  model->max_model_len = options->max_model_len ? options->max_model_len : limit;
  if (model->max_model_len < 1 || model->max_model_len > limit) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "max_model_len",
                            "max_model_len: expected 1 to %lld, the context of this checkpoint, found %lld", (long long)limit,
                            (long long)options->max_model_len);
  }
  model->n_threads = options->n_threads ? options->n_threads : ommai_team_cpu_count();
  if (model->n_threads < 1 || model->n_threads > 1024) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "threads", "threads: expected 1 to 1024, found %d", options->n_threads);
  }
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
  model->pin_threads = !options->no_pinning;
  model->config_only = options->config_only;
  model->encoder_only = options->encoder_only;
  return OMMA_OK;
}

/* How the checkpoint is quantised; NULL: not. A GGUF file may be, or not. */
static const char *declared_quantization(const struct omma_model *model) {
  if (model->gguf) return ommai_gguf_model_description(model->gguf);
  return model->quantization ? ommai_quantization_description(model->quantization) : NULL;
}

static enum omma_status choose_weights(struct omma_model *model, const struct omma_model_options *options, bool int8_tower,
                                       struct omma_error *error) {
  const char *name = options->quantization, *declared = declared_quantization(model);
  const bool gguf = model->gguf && name && strcmp(name, "gguf") == 0;
  const struct ommai_weight_kind tower = {.format = int8_tower ? OMMAI_FORMAT_INT8 : OMMAI_FORMAT_BF16,
                                          .compute = model->tower.dtype};
  struct ommai_weight_kind text;
  OMMAI_TRY(
      ommai_weight_kind_quantize(name, gguf ? "gguf" : declared, ommai_weight_kind_dense(model->decoder.dtype), &text, error));
  model->policy = ommai_weight_policy_make(tower, model->config.vision.gated, text);
  model->policy.keeps_stored = options->weights != OMMA_WEIGHTS_F32 && text.format == OMMAI_FORMAT_BF16;
  return OMMA_OK;
}

static enum omma_status set_up_networks(struct omma_model *model, const struct omma_model_options *options,
                                        struct omma_error *error) {
  enum omma_weight_type vision = options->vision_weights ? options->vision_weights : options->weights;
  const struct ommai_row_ops *ops = ommai_row_ops(model->level);
  model->tower = (struct ommai_vision_tower){.config = model->config.vision,
                                             .dtype = ommai_weight_type_compute(vision, model->level),
                                             .int8_scores = vision == OMMA_WEIGHTS_INT8,
                                             .ops = ops,
                                             .attention = model->attention,
                                             .linear_context = model->linear_context};
  model->decoder = (struct ommai_decoder){.config = model->config.text,
                                          .dtype = ommai_weight_type_compute(options->weights, model->level),
                                          .kv_type = kv_type(options),
                                          .ops = ops,
                                          .attention = model->attention,
                                          .linear_context = model->linear_context};
  ommai_mrope_init(&model->decoder.mrope, ommai_decoder_rope_dim(&model->config.text), model->config.text.rope_theta,
                   &model->config.text.rope_scaling, model->config.text.mrope_section, model->config.text.mrope_interleaved);
  if (model->decoder.dtype == OMMA_BF16 && model->decoder.kv_type == OMMA_F32) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "kv_cache",
                            "kv_cache: keys and values are bf16 where the language model computes in bf16; f32 goes with f32");
  }
  if (model->decoder.kv_type == OMMA_INT8 && !model->encoder_only && !model->config.text.attention->int8_cache) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "kv_cache",
                            "kv_cache: %s keeps compressed rows (MLA), which are not kept in int8; expected auto, bf16 or f32",
                            model->config.model_type);
  }
  return choose_weights(model, options, vision == OMMA_WEIGHTS_INT8, error);
}

/* GGUF files are opened whole, which takes little time: sizes are counted by the types that their
 * tensors have. */
static enum omma_status open_source(struct omma_model *model, const struct omma_model_options *options,
                                    struct omma_error *error) {
  model->documents.directory = model->directory;
  if (!ommai_gguf_files_meant(model->directory)) {
    if (!options->mmproj) return OMMA_OK;
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "mmproj",
                            "mmproj: %s is not a GGUF file: it has its vision tower itself", model->directory);
  }
  OMMAI_TRY(ommai_gguf_model_open(model->directory, options->mmproj, &model->allocator, &model->gguf, error));
  model->documents = *ommai_gguf_model_documents(model->gguf);
  return ommai_model_open_checkpoint(model, &model->checkpoint, error);
}

/* Before the weights are packed. */
static void debug_plan(const struct omma_model *model) {
  OMMAI_DEBUG(&model->log, "model: %s: %s at level %s, %d thread%s, context of %lld tokens, chat template %s", model->directory,
              model->config.model_type, ommai_cpu_level_name(model->level), model->n_threads, ommai_plural(model->n_threads),
              (long long)model->max_model_len, model->chat.difference[0] ? "of its own" : "known");
  OMMAI_DEBUG(&model->log, "model: %lld parameters, %lld of them of the tower; %lld bytes of weights",
              (long long)model->n_parameters, (long long)model->n_vision_parameters, (long long)model->weight_bytes);
}

static enum omma_status open_model(struct omma_model *model, const struct omma_model_options *options,
                                   struct omma_error *error) {
  if (sodium_init() < 0) return ommai_fail(error, OMMA_ERROR_INTERNAL, "libsodium cannot be initialised");
  OMMAI_TRY(ommai_cpu_select(options->isa, &model->level, error));
  OMMAI_TRY(open_source(model, options, error));
  OMMAI_TRY(ommai_model_config_read(&model->documents, options->config_only, &model->allocator, &model->family, &model->config,
                                    error));
  OMMAI_TRY(ommai_quantization_read(&model->documents, &model->allocator, &model->quantization, error));
  OMMAI_TRY(choose_limits(model, options, error));
  OMMAI_TRY(read_chat_template(model, options, error));
  OMMAI_TRY(read_tokenizer(model, error));
  OMMAI_TRY(choose_generation(model, options, error));
  OMMAI_TRY(ommai_image_team_create(model->n_threads, &model->allocator, &model->image_team, error));
  model->trie = ommai_allocate(&model->allocator, 1, sizeof *model->trie);
  if (!model->trie) return ommai_fail_memory(error, "model", sizeof *model->trie);
  OMMAI_TRY(ommai_pixel_budget_create(options->max_resized_bytes, &model->allocator, &model->pixel_budget, error));
  int64_t store = options->known_image_bytes ? options->known_image_bytes : OMMAI_DEFAULT_IMAGE_STORE_BYTES;
  OMMAI_TRY(ommai_image_store_create(ommai_max_i64(store, 0), &model->allocator, &model->image_store, error));
  const struct omma_attention_options attention = {.isa = ommai_cpu_level_name(model->level), .allocator = &model->allocator};
  OMMAI_TRY(omma_attention_context_create(&attention, &model->attention, error));
  OMMAI_TRY(
      ommai_linear_context_create(model->level, model->n_threads, &model->large_allocator, &model->linear_context, error));
  OMMAI_TRY(set_up_networks(model, options, error));
  OMMAI_TRY(count_weights(model, error));
  debug_plan(model);
  if (options->before_weights) OMMAI_TRY(options->before_weights(options->before_weights_context, model, error));
  if (!model->config_only) OMMAI_TRY(pack_weights(model, options, error));
  model->weights_packed = !model->config_only;
  model->bf16_embeddings = model->config.stored_type == OMMA_BF16 && options->weights != OMMA_WEIGHTS_F32;
  if (model->checkpoint) ommai_checkpoint_fingerprint(model->checkpoint, model->fingerprint);
  ommai_linear_context_describe(model->linear_context, model->linear_description, sizeof model->linear_description);
  OMMAI_DEBUG(&model->log, "model: open%s: %s", model->config_only ? " without weights" : "", model->linear_description);
  return OMMA_OK;
}

enum omma_status ommai_model_require_tokenizer(const struct omma_model *model, struct omma_error *error) {
  if (model->tokenizer) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_IO,
                    "%s: neither tokenizer.json nor tiktoken.model is there: without one text has no tokens", model->directory);
}

enum omma_status ommai_model_require_processor(const struct omma_model *model, struct omma_error *error) {
  if (!model->config.image.published) return OMMA_OK;
  return ommai_fail(
      error, OMMA_ERROR_IO,
      "%s/preprocessor_config.json: no such file; it belongs to the checkpoint, only estimates are made without it",
      model->directory);
}

/* A template that is none of the known ones. */
static bool rendered_as_its_own(const struct omma_model *model) {
  return model->chat.difference[0] && model->chat.jinja && model->chat_use != OMMA_CHAT_TEMPLATE_FAMILY;
}

static bool has_tools(const struct omma_model *model) {
  bool family_template = model->chat.difference[0] && model->chat_use == OMMA_CHAT_TEMPLATE_FAMILY;
  return model->chat.jinja && !family_template && ommai_jinja_reads(model->chat.jinja, "tools");
}

enum omma_status ommai_model_require_chat(const struct omma_model *model, struct omma_error *error) {
  if (!model->chat.difference[0] || model->chat.jinja || model->chat_use == OMMA_CHAT_TEMPLATE_FAMILY) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "chat_template",
                          "%s; prompts in another form than the model's own make it worse", model->chat.difference);
}

enum omma_status omma_model_open(const char *directory, const struct omma_model_options *options, struct omma_model **out,
                                 struct omma_error *error) {
  OMMAI_TAKE_OPTIONS(omma_model_options, options, error);
  if (!directory || !*directory) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "model", "model: no directory given");
  const struct omma_allocator *allocator = options->allocator ? options->allocator : &ommai_default_allocator;
  struct omma_model *model = ommai_allocate(allocator, 1, sizeof *model);
  if (!model) return ommai_fail_memory(error, "model", sizeof *model);
  model->allocator = *allocator;
  if (options->log) model->log = *options->log;
  model->large_allocator = options->allocator ? *options->allocator : ommai_huge_page_allocator;
  model->directory_size = strlen(directory);
  model->directory = ommai_duplicate(allocator, directory, model->directory_size);
  enum omma_status status =
      model->directory ? open_model(model, options, error) : ommai_fail_memory(error, "model", model->directory_size);
  if (status != OMMA_OK) {
    omma_model_close(model);
    return status;
  }
  *out = model;
  return OMMA_OK;
}

void omma_model_close(struct omma_model *model) {
  if (!model) return;
  ommai_vision_tower_free(&model->tower, &model->allocator);
  ommai_decoder_free(&model->decoder, &model->allocator);
  ommai_checkpoint_close(model->checkpoint);
  ommai_gguf_model_close(model->gguf);
  ommai_quantization_destroy(model->quantization);
  ommai_linear_context_destroy(model->linear_context);
  omma_attention_context_destroy(model->attention);
  if (model->trie) ommai_token_trie_destroy(atomic_load(&model->trie->trie));
  ommai_release(&model->allocator, model->trie, 1, sizeof *model->trie);
  ommai_tokenizer_destroy(model->tokenizer);
  ommai_chat_choice_free(&model->chat);
  ommai_image_store_destroy(model->image_store);
  ommai_pixel_budget_destroy(model->pixel_budget);
  ommai_image_team_destroy(model->image_team);
  struct omma_allocator allocator = model->allocator;
  ommai_release(&allocator, model->directory, model->directory_size + 1, 1);
  ommai_release(&allocator, model, 1, sizeof *model);
}

/* How the language model's matrices are kept, all but a few of them. */
static enum ommai_weight_format kept_format(const struct omma_model *model) {
  enum ommai_weight_format wanted = model->main_weights.format;
  if (wanted == OMMAI_FORMAT_INT8 || wanted == OMMAI_FORMAT_INT4) return wanted;
  return model->decoder.dtype == OMMA_BF16 || model->config.stored_type == OMMA_BF16 ? OMMAI_FORMAT_BF16 : OMMAI_FORMAT_F32;
}

static void set_shape_info(const struct omma_model *model, struct omma_model_info *info) {
  const struct ommai_decoder_config *text = &model->config.text;
  const struct ommai_vision_config *vision = &model->config.vision;
  info->vocab_size = text->vocab_size;
  info->hidden_size = text->hidden_size;
  info->n_layers = text->n_layers;
  info->n_heads = text->n_heads;
  info->n_kv_heads = text->n_kv_heads;
  info->head_dim = text->head_dim;
  info->vision_hidden_size = vision->hidden_size;
  info->vision_depth = vision->depth;
  info->vision_n_heads = vision->n_heads;
  info->vision_head_dim = vision->head_dim;
  info->patch_size = vision->patch_size;
  info->merge_size = vision->merge_size;
  info->patch_dim = ommai_vision_patch_dim(vision);
  info->n_deepstack = vision->n_deepstack;
  info->min_pixels = model->config.image.min_pixels;
  info->max_pixels = model->config.image.max_pixels;
}

static void set_sampling_info(const struct ommai_generation_config *generation, struct omma_model_info *info) {
  info->recommended_temperature = generation->temperature;
  info->recommended_top_p = generation->top_p;
  info->recommended_min_p = generation->min_p;
  info->recommended_repetition_penalty = generation->repetition_penalty;
  info->recommended_presence_penalty = generation->presence_penalty;
  info->recommended_frequency_penalty = generation->frequency_penalty;
  info->recommended_top_k = generation->top_k > 0 ? generation->top_k : 0;
  info->recommended_max_tokens = generation->max_tokens;
  info->max_tokens_limit = generation->max_tokens_limit;
}

void omma_model_get_info(const struct omma_model *model, struct omma_model_info *info) {
  bool int8_tower = model->policy.kinds[OMMAI_ROLE_TOWER_QKV].format == OMMAI_FORMAT_INT8;
  *info = (struct omma_model_info){
      .directory = model->directory,
      .model_type = model->config.model_type,
      .isa = ommai_cpu_level_name(model->level),
      .weights = ommai_dtype_name(model->decoder.dtype),
      .vision_weights = int8_tower ? "int8" : ommai_dtype_name(model->tower.dtype),
      .kept_weights = ommai_weight_format_name(kept_format(model)),
      .kept_group = model->main_weights.group,
      .quantization = declared_quantization(model),
      .kv_cache = ommai_dtype_name(model->decoder.kv_type),
      .linear = model->linear_description,
      .n_threads = model->n_threads,
      .encoder_only = model->encoder_only,
      .bf16_embeddings = model->bf16_embeddings,
      .fingerprint = model->fingerprint,
      .n_parameters = model->n_parameters,
      .n_vision_parameters = model->n_vision_parameters,
      .weight_bytes = model->weight_bytes,
      .max_model_len = model->max_model_len,
      .published_values = model->config.image.published ? model->family->published->name : NULL,
      .chat_template = rendered_as_its_own(model) ? "its own" : model->chat.variant->name,
      .chat_template_difference = model->chat.difference[0] && !rendered_as_its_own(model) ? model->chat.difference : NULL,
      .chat_template_has_tools = has_tools(model),
      .box_unit = model->family->box_unit,
  };
  set_shape_info(model, info);
  set_sampling_info(&model->config.generation, info);
}

enum omma_status omma_model_text_cost(const struct omma_model *model, int64_t n_tokens, struct omma_text_cost *cost,
                                      struct omma_error *error) {
  const struct ommai_decoder_config *config = &model->config.text;
  enum omma_dtype dtype = model->decoder.kv_type;
  if (n_tokens < 1 || n_tokens > model->max_model_len) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "n_tokens", "n_tokens: expected 1 to %lld, found %lld",
                            (long long)model->max_model_len, (long long)n_tokens);
  }
  int64_t token_bytes = (int64_t)ommai_kv_page_bytes(config, dtype) / OMMA_ATTENTION_PAGE_TOKENS;
  *cost = (struct omma_text_cost){.prompt_flops = ommai_decoder_prompt_flops(config, n_tokens),
                                  .step_weight_bytes = model->step_weight_bytes,
                                  .step_kv_bytes = n_tokens * token_bytes};
  return OMMA_OK;
}
