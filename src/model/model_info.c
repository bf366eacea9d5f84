/* omma_model_get_info, omma_model_text_cost, omma_model_input_prompt: facts about an open model. */
#include <omma/vectors.h>

#include "base/checked.h"
#include "base/error.h"
#include "families/vector_rules.h"
#include "jinja/jinja.h"
#include "kernels/dtype.h"
#include "language/decoder_sizes.h"
#include "language/kv_cache.h"
#include "model/model.h"

const char *omma_version(void) { return OMMA_VERSION; }

/* How the language model's matrices are kept, all but a few of them. */
static enum ommai_weight_format kept_format(const struct omma_model *model) {
  enum ommai_weight_format wanted = model->network.main_weights.format;
  if (ommai_linear_format(wanted)->quantised) return wanted;
  return model->network.decoder.dtype == OMMA_BF16 || model->config.stored_type == OMMA_BF16 ? OMMAI_FORMAT_BF16
                                                                                             : OMMAI_FORMAT_F32;
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

static int64_t max_input_tokens(const struct omma_model *model) {
  const int64_t room = model->max_model_len - 1;
  if (model->task == OMMA_TASK_GENERATE) return 0;
  return model->config.text.projected_state ? room : ommai_min_i64(model->network.family->vectors->max_tokens, room);
}

void omma_model_get_info(const struct omma_model *model, struct omma_model_info *info) {
  *info = (struct omma_model_info){
      .directory = model->directory,
      .model_type = model->config.model_type,
      .isa = ommai_cpu_level_name(model->network.level),
      .weights = ommai_dtype_name(model->network.decoder.dtype),
      .vision_weights = ommai_weight_kind_name(&model->network.policy.kinds[OMMAI_ROLE_TOWER_QKV]),
      .kept_weights = ommai_linear_format(kept_format(model))->name,
      .kept_group = model->network.main_weights.group,
      .quantization = model->network.declared,
      .kv_cache = ommai_dtype_name(model->network.decoder.kv_type),
      .linear = model->linear_description,
      .n_threads = model->network.n_threads,
      .n_engines = model->n_engines,
      .n_copies = 1 + model->n_copies,
      .encoder_only = !model->network.has_decoder,
      .bf16_embeddings = model->bf16_embeddings,
      .fingerprint = model->fingerprint,
      .n_parameters = model->network.n_parameters,
      .n_vision_parameters = model->network.n_vision_parameters,
      .weight_bytes = model->network.weight_bytes,
      .max_model_len = model->max_model_len,
      .published_values = model->config.image.published ? model->network.family->published->name : NULL,
      .chat_template = model->chat.problem[0] ? model->network.family->chat_name : "its own",
      .chat_template_difference = model->chat.problem[0] ? model->chat.problem : NULL,
      .chat_template_has_tools = model->chat.jinja && ommai_jinja_reads(model->chat.jinja, "tools"),
      .box_unit = model->network.family->box_unit,
      .task = model->task,
      .max_input_tokens = max_input_tokens(model),
      .token_vector_width = model->config.text.projected_state,
  };
  set_shape_info(model, info);
  set_sampling_info(&model->config.generation, info);
}

enum omma_status omma_model_text_cost(const struct omma_model *model, int64_t n_tokens, struct omma_text_cost *cost,
                                      struct omma_error *error) {
  const struct ommai_decoder_config *config = &model->config.text;
  enum omma_dtype dtype = model->network.decoder.kv_type;
  if (n_tokens < 1 || n_tokens > model->max_model_len) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "n_tokens", "n_tokens: expected 1 to %lld, found %lld",
                            (long long)model->max_model_len, (long long)n_tokens);
  }
  struct ommai_state_layout layout;
  ommai_state_layout_make(config, dtype, &layout);
  *cost = (struct omma_text_cost){.prompt_flops = ommai_decoder_prompt_flops(config, n_tokens),
                                  .step_weight_bytes = model->network.step_weight_bytes,
                                  .step_kv_bytes = ommai_state_read_bytes(&layout, n_tokens)};
  return OMMA_OK;
}

/* ---- prompts of vectors ---- */

const char *omma_model_input_prompt(const struct omma_model *model, const char *input_type) {
  return json_string_value(json_object_get(model->input_prompts, input_type));
}

const char *omma_model_input_type(const struct omma_model *model, size_t index) {
  void *member = json_object_iter(model->input_prompts);
  while (member && index-- > 0) member = json_object_iter_next(model->input_prompts, member);
  return member ? json_object_iter_key(member) : NULL;
}
