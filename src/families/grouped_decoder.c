/* The language models with grouped attention, which are made of the same parts: those of Qwen2-VL,
 * Qwen2.5-VL, Qwen3-VL and Qwen3-VL MoE, Qwen3.5 and its MoE, PaddleOCR-VL, GLM-OCR, LightOnOCR and
 * dots.ocr. Source: transformers' modeling_qwen2_vl.py, modeling_qwen2_5_vl.py,
 * modeling_qwen3_vl.py, modeling_qwen3_vl_moe.py, modeling_qwen3_5.py, modeling_qwen3_5_moe.py,
 * modeling_paddleocr_vl.py, modeling_glm_ocr.py, modeling_qwen3.py, modeling_qwen2.py and the
 * released checkpoints. */

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "families/config_keys.h"
#include "families/decoder_config.h"
#include "families/decoder_loader.h"
#include "families/hybrid_layers.h"
#include "families/rope_config.h"
#include "families/text_family.h"
#include "language/decoder_sizes.h"
#include "language/delta_net.h"
#include "language/experts.h"
#include "language/grouped_attention.h"

enum { NAME_SIZE = OMMAI_LOADER_MAX_NAME + 1 };

/* ---- config.json ---- */

static enum omma_status parse_rope(const struct ommai_text_family *family, const json_t *text, const char *where,
                                   struct ommai_decoder_config *config, struct omma_error *error) {
  int64_t *section = config->mrope_section;
  json_t *rope;
  size_t count = 3;
  OMMAI_TRY(ommai_rope_parse(text, where, family->rope_theta, family->partial_rotary, config, &rope, error));
  int64_t pairs = (config->rotary_dim ? config->rotary_dim : config->head_dim) / 2;
  const char *pairs_are = config->rotary_dim ? "head_dim * partial_rotary_factor / 2" : "head_dim / 2";
  if (family->rope_1d) {
    config->rope_1d = true;
    section[0] = pairs;
    return OMMA_OK;
  }
  memcpy(section, family->mrope_section, sizeof family->mrope_section);
  config->mrope_interleaved = family->mrope_interleaved;
  if (rope) {
    OMMAI_TRY(ommai_json_integers(rope, where, "mrope_section", false, 0, OMMAI_MROPE_MAX_PAIRS, section, 3, &count, error));
    OMMAI_TRY(ommai_json_boolean(rope, where, "mrope_interleaved", false, &config->mrope_interleaved, error));
  }
  int64_t sum = section[0] + section[1] + section[2];
  const json_t *given = json_object_get(rope, "mrope_section");
  if (sum != pairs && (!given || json_is_null(given))) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "mrope_section",
                            "%s: key \"mrope_section\" is missing, and its default, [%lld, %lld, %lld], sums to %lld, not to "
                            "%s = %lld",
                            where, (long long)section[0], (long long)section[1], (long long)section[2], (long long)sum,
                            pairs_are, (long long)pairs);
  }
  if (count != 3 || sum != pairs) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "mrope_section",
                            "%s: key \"mrope_section\": expected 3 entries that sum to %s = %lld, found %s", where, pairs_are,
                            (long long)pairs, count == 3 ? "another sum" : "another number of them");
  }
  return OMMA_OK;
}

static enum omma_status parse_heads(const struct ommai_text_family *family, const json_t *text, const char *where,
                                    struct ommai_decoder_config *config, struct omma_error *error) {
  if (!family->head_dim_key) {
    if (config->hidden_size % config->n_heads || config->head_dim > OMMA_ATTENTION_MAX_HEAD_DIM) {
      return ommai_fail_field(error, OMMA_ERROR_FORMAT, "num_attention_heads",
                              "%s: hidden_size %lld in %lld heads: expected equal heads of at most %d", where,
                              (long long)config->hidden_size, (long long)config->n_heads, OMMA_ATTENTION_MAX_HEAD_DIM);
    }
  } else {
    if (family->head_dim) config->head_dim = family->head_dim;
    OMMAI_TRY(ommai_json_integer(text, where, "head_dim", false, 2, OMMA_ATTENTION_MAX_HEAD_DIM, &config->head_dim, error));
  }
  if (config->n_heads % config->n_kv_heads || config->head_dim % 2) {
    return ommai_fail_field(
        error, OMMA_ERROR_FORMAT, "num_key_value_heads",
        "%s: expected num_attention_heads %lld to be a multiple of num_key_value_heads %lld and head_dim %lld even", where,
        (long long)config->n_heads, (long long)config->n_kv_heads, (long long)config->head_dim);
  }
  config->v_head_dim = config->head_dim;
  return OMMA_OK;
}

/* Layer i is routed where (i + 1) % decoder_sparse_step is 0 and mlp_only_layers does not list
 * it. */
static enum omma_status parse_experts(const json_t *text, const char *where, struct ommai_decoder_config *config,
                                      struct omma_error *error) {
  struct ommai_router_config *router = &config->experts.router;
  int64_t step = 1, dense[OMMAI_DECODER_MAX_LAYERS];
  size_t n_dense = 0;
  *router = (struct ommai_router_config){
      .n_groups = 1, .n_chosen_groups = 1, .score = OMMAI_ROUTER_SOFTMAX, .normalise = true, .scale = 1};
  /* Files written by transformers 5 call it num_local_experts. */
  const char *count = json_object_get(text, "num_local_experts") ? "num_local_experts" : "num_experts";
  OMMAI_TRY(ommai_json_integer(text, where, count, true, 1, OMMAI_ROUTER_MAX_EXPERTS, &router->n_experts, error));
  OMMAI_TRY(
      ommai_json_integer(text, where, "num_experts_per_tok", true, 1, OMMAI_ROUTER_MAX_EXPERTS, &router->n_chosen, error));
  OMMAI_TRY(
      ommai_json_integer(text, where, "moe_intermediate_size", true, 1, 1 << 20, &config->experts.intermediate_size, error));
  OMMAI_TRY(ommai_json_boolean(text, where, "norm_topk_prob", false, &router->normalise, error));
  OMMAI_TRY(ommai_json_integer(text, where, "decoder_sparse_step", false, 1, OMMAI_DECODER_MAX_LAYERS, &step, error));
  OMMAI_TRY(ommai_json_integers(text, where, "mlp_only_layers", false, 0, config->n_layers - 1, dense, OMMAI_DECODER_MAX_LAYERS,
                                &n_dense, error));
  for (int64_t i = 0; i < config->n_layers; i++) {
    config->layers[i].ffn = (i + 1) % step == 0 ? &ommai_ffn_experts : &ommai_ffn_dense;
  }
  for (size_t i = 0; i < n_dense; i++) config->layers[dense[i]].ffn = &ommai_ffn_dense;
  return ommai_decoder_check_router(where, router, error);
}

/* An expert for every row, with a gate. */
static enum omma_status parse_shared(const json_t *text, const char *where, struct ommai_experts_config *experts,
                                     struct omma_error *error) {
  experts->router.shared_gate = true;
  return ommai_json_integer(text, where, "shared_expert_intermediate_size", true, 1, 1 << 20, &experts->shared_size, error);
}

static enum omma_status parse(const struct ommai_text_family *family, const json_t *root, const char *path,
                              struct ommai_decoder_config *config, struct omma_error *error) {
  json_t *nested;
  char where[OMMAI_WHERE_SIZE];
  OMMAI_TRY(ommai_json_object(root, path, "text_config", !family->top_level, &nested, error));
  const json_t *text = nested ? nested : root;
  snprintf(where, sizeof where, "%s%s", path, nested ? ": text_config" : "");
  config->qkv_bias = family->qkv_bias;
  config->qk_norm = family->qk_norm;
  config->rope_pairs = family->rope_pairs;
  config->branch_norms = family->branch_norms;
  OMMAI_TRY(ommai_decoder_parse_common(text, where, family->norm_eps, config, error));
  if (!family->windows) OMMAI_TRY(ommai_decoder_refuse_windows(config, where, error));
  ommai_decoder_set_layers(config, &ommai_grouped_attention, &ommai_ffn_dense);
  OMMAI_TRY(parse_heads(family, text, where, config, error));
  if (family->experts) OMMAI_TRY(parse_experts(text, where, config, error));
  if (family->hybrid) OMMAI_TRY(ommai_hybrid_parse(text, where, config, error));
  if (family->hybrid && family->experts) OMMAI_TRY(parse_shared(text, where, &config->experts, error));
  OMMAI_TRY(parse_rope(family, text, where, config, error));
  config->tied_embeddings = family->tied;
  return ommai_decoder_parse_tied(text, where, root, path, config, error);
}

/* ---- tensors ---- */

/* A tensor [n_experts, rows, columns] with all experts' matrices, which are [n_out, n_in] or, as
 * released, [n_in, n_out]: the file's shape decides, and where both fit it is [n_out, n_in], as
 * in the official loader. */
static enum omma_status open_fused(struct ommai_weight_loader *loader, const char *name, int64_t n_experts, int64_t n_out,
                                   int64_t n_in, struct ommai_loader_tensor *tensor, bool *transposed,
                                   struct omma_error *error) {
  const struct ommai_tensor *found = ommai_loader_find(loader, name);
  const int64_t straight[3] = {n_experts, n_out, n_in}, turned[3] = {n_experts, n_in, n_out};
  *transposed = !found || !ommai_tensor_has_shape(found, 3, straight);
  return ommai_loader_open(loader, name, 3, *transposed ? turned : straight, tensor, error);
}

static enum omma_status load_fused(struct ommai_weight_loader *loader, const char *name, int64_t n_experts, int64_t n_out,
                                   int64_t n_in, struct ommai_linear_call call, struct ommai_decoder_expert *experts, bool down,
                                   struct omma_error *error) {
  struct ommai_loader_tensor tensor;
  bool transposed;
  OMMAI_TRY(open_fused(loader, name, n_experts, n_out, n_in, &tensor, &transposed, error));
  for (int64_t e = 0; e < n_experts; e++) {
    struct ommai_decoder_tile_linear described = {0}, *out = &described;
    const struct ommai_linear_source source = ommai_loader_matrix(&tensor, e * n_out * n_in, n_out, transposed);
    if (experts) out = down ? &experts[e].down : &experts[e].gate_up;
    OMMAI_TRY(ommai_decoder_pack_tile_linear(loader, OMMAI_ROLE_EXPERT, name, &source, 1, n_in, call, out, error));
  }
  ommai_loader_close(loader, &tensor);
  return OMMA_OK;
}

/* The released files hold all experts of a layer in two tensors, others one by one. */
static enum omma_status load_experts(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                     const char *prefix, struct ommai_decoder_layer *layer, struct omma_error *error) {
  char name[NAME_SIZE];
  int64_t n = config->experts.router.n_experts, h = config->hidden_size, intermediate = config->experts.intermediate_size;
  OMMAI_TRY(ommai_decoder_load_router(loader, config, prefix, &layer->router, error));
  if (config->experts.shared_size > 0) {
    snprintf(name, sizeof name, "%s.shared_expert", prefix);
    OMMAI_TRY(ommai_decoder_load_dense(loader, config, name, config->experts.shared_size, false, &layer->dense, error));
  }
  snprintf(name, sizeof name, "%s.experts.0.gate_proj.weight", prefix);
  if (ommai_loader_find(loader, name)) return ommai_decoder_load_experts(loader, config, prefix, layer, error);
  snprintf(name, sizeof name, "%s.experts.gate_up_proj", prefix);
  OMMAI_TRY(load_fused(loader, name, n, 2 * intermediate, h, ommai_feed_forward_call_gate_up(config, intermediate),
                       layer->experts, false, error));
  snprintf(name, sizeof name, "%s.experts.down_proj", prefix);
  return load_fused(loader, name, n, h, intermediate, ommai_feed_forward_call_down(config, intermediate, false), layer->experts,
                    true, error);
}

static enum omma_status load_norm(const struct ommai_text_family *family, struct ommai_weight_loader *loader,
                                  const char *prefix, const char *name, int64_t n, float **out, struct omma_error *error) {
  OMMAI_TRY(ommai_decoder_load_vector(loader, prefix, name, n, out, error));
  if (family->hybrid) ommai_hybrid_finish_norm(loader, *out, n);
  return OMMA_OK;
}

static enum omma_status load_attention(const struct ommai_text_family *family, struct ommai_weight_loader *loader,
                                       const struct ommai_decoder_config *config, const char *prefix, int64_t index,
                                       struct ommai_decoder_layer *layer, struct omma_error *error) {
  int64_t h = config->hidden_size, q = ommai_decoder_q_width(config), kv = ommai_decoder_kv_width(config);
  const struct ommai_linear_part qkv[3] = {ommai_decoder_part(prefix, "self_attn.q_proj", q, config->qkv_bias),
                                           ommai_decoder_part(prefix, "self_attn.k_proj", kv, config->qkv_bias),
                                           ommai_decoder_part(prefix, "self_attn.v_proj", kv, config->qkv_bias)};
  const struct ommai_linear_part o = ommai_decoder_part(prefix, "self_attn.o_proj", h, false);
  if (config->qk_norm) {
    OMMAI_TRY(load_norm(family, loader, prefix, "self_attn.q_norm.weight", config->head_dim, &layer->q_norm, error));
    OMMAI_TRY(load_norm(family, loader, prefix, "self_attn.k_norm.weight", config->head_dim, &layer->k_norm, error));
  }
  OMMAI_TRY(config->output_gate ? ommai_hybrid_load_qkv(loader, config, prefix, index, layer, error)
                                : ommai_decoder_load_linear(loader, OMMAI_ROLE_TEXT_QKV, qkv, 3, h,
                                                            ommai_decoder_call_qkv(config, index), &layer->qkv, error));
  return ommai_decoder_load_linear(loader, OMMAI_ROLE_TEXT_O, &o, 1, q, ommai_decoder_call_o(config, index), &layer->o, error);
}

static enum omma_status load_layer(const struct ommai_text_family *family, struct ommai_weight_loader *loader,
                                   const struct ommai_decoder_config *config, const char *prefix, int64_t index,
                                   struct ommai_decoder_layer *layer, struct omma_error *error) {
  char mlp[OMMAI_DECODER_PREFIX_SIZE + 8];
  int64_t h = config->hidden_size;
  snprintf(mlp, sizeof mlp, "%s.mlp", prefix);
  OMMAI_TRY(load_norm(family, loader, prefix, "input_layernorm.weight", h, &layer->input_norm, error));
  OMMAI_TRY(load_norm(family, loader, prefix, "post_attention_layernorm.weight", h, &layer->post_norm, error));
  if (config->branch_norms) {
    OMMAI_TRY(load_norm(family, loader, prefix, "post_self_attn_layernorm.weight", h, &layer->mixed_norm, error));
    OMMAI_TRY(load_norm(family, loader, prefix, "post_mlp_layernorm.weight", h, &layer->ffn_norm, error));
  }
  if (config->layers[index].mixer == &ommai_delta_net) {
    OMMAI_TRY(ommai_hybrid_load_delta(loader, config, prefix, index, layer, error));
  } else {
    OMMAI_TRY(load_attention(family, loader, config, prefix, index, layer, error));
  }
  if (config->layers[index].ffn->routed) return load_experts(loader, config, mlp, layer, error);
  return ommai_decoder_load_dense(loader, config, mlp, config->intermediate_size, family->fused_gate_up, &layer->dense, error);
}

/* Of the places where the language model's tensors may lie, the one that the checkpoint uses. */
static const char *find_prefix(const struct ommai_text_family *family, const struct ommai_weight_loader *loader) {
  char name[NAME_SIZE];
  for (size_t i = 1; i < sizeof family->prefixes / sizeof *family->prefixes && family->prefixes[i]; i++) {
    snprintf(name, sizeof name, "%s.embed_tokens.weight", family->prefixes[i]);
    if (ommai_loader_find(loader, name)) return family->prefixes[i];
  }
  return family->prefixes[0];
}

/* Where the draft head's layer is: numbered from 0, or, in GGUF files, after the model's own. */
static void find_draft_layer(const struct ommai_weight_loader *loader, const char *model, int64_t n_layers,
                             char prefix[OMMAI_DECODER_PREFIX_SIZE]) {
  char name[NAME_SIZE];
  snprintf(name, sizeof name, "%s.layers.%lld.input_layernorm.weight", model, (long long)n_layers);
  if (ommai_loader_find(loader, name)) {
    snprintf(prefix, OMMAI_DECODER_PREFIX_SIZE, "%s.layers.%lld", model, (long long)n_layers);
  } else {
    snprintf(prefix, OMMAI_DECODER_PREFIX_SIZE, "mtp.layers.0");
  }
}

/* MTP: embeddings and output layer are the model's. */
static enum omma_status load_draft_head(const struct ommai_text_family *family, struct ommai_weight_loader *loader,
                                        const char *model, struct ommai_decoder *decoder, struct omma_error *error) {
  const struct ommai_decoder_config *config = &decoder->config;
  struct ommai_draft_head *head = &decoder->draft;
  struct ommai_decoder_layer described = {0};
  char prefix[OMMAI_DECODER_PREFIX_SIZE];
  int64_t h = config->hidden_size, layer = config->n_layers;
  const struct ommai_linear_part fc = ommai_decoder_part("mtp", "fc", h, false);
  OMMAI_TRY(load_norm(family, loader, "mtp", "pre_fc_norm_embedding.weight", h, &head->embedding_norm, error));
  OMMAI_TRY(load_norm(family, loader, "mtp", "pre_fc_norm_hidden.weight", h, &head->state_norm, error));
  OMMAI_TRY(load_norm(family, loader, "mtp", "norm.weight", h, &head->norm, error));
  OMMAI_TRY(
      ommai_decoder_load_linear(loader, OMMAI_ROLE_TEXT_O, &fc, 1, 2 * h, ommai_decoder_call_draft(config), &head->fc, error));
  find_draft_layer(loader, model, layer, prefix);
  return load_layer(family, loader, config, prefix, layer, decoder->layers ? &decoder->layers[layer] : &described, error);
}

static enum omma_status load(const struct ommai_text_family *family, struct ommai_weight_loader *loader,
                             struct ommai_decoder *decoder, struct omma_error *error) {
  const char *model = find_prefix(family, loader);
  for (int64_t i = 0; i < decoder->config.n_layers; i++) {
    char prefix[OMMAI_DECODER_PREFIX_SIZE];
    struct ommai_decoder_layer described = {0};
    snprintf(prefix, sizeof prefix, "%s.layers.%lld", model, (long long)i);
    OMMAI_TRY(
        load_layer(family, loader, &decoder->config, prefix, i, decoder->layers ? &decoder->layers[i] : &described, error));
  }
  if (decoder->config.n_draft_layers) OMMAI_TRY(load_draft_head(family, loader, model, decoder, error));
  OMMAI_TRY(ommai_decoder_load_ends(loader, model, "lm_head", decoder, error));
  if (family->hybrid) ommai_hybrid_finish_norm(loader, decoder->final_norm, decoder->config.hidden_size);
  return OMMA_OK;
}

/* ---- the families ---- */

/* Defaults are those of the official classes. */

const struct ommai_text_family ommai_text_qwen2 = {
    .parse = parse,
    .load = load,
    .prefixes = {"model", "model.language_model", "language_model", "vlm.model.language_model"},
    .top_level = true,
    .qkv_bias = true,
    .windows = true,
    .norm_eps = 1e-5,
    .rope_theta = 1e6,
    .mrope_section = {16, 24, 24},
};

#define QWEN3_TEXT                                                                                                           \
  .parse = parse, .load = load, .prefixes = {"model.language_model", "model", "language_model", "vlm.model.language_model"}, \
  .qk_norm = true, .head_dim_key = true, .norm_eps = 1e-6, .rope_theta = 5e5, .mrope_section = {24, 20, 20},                 \
  .mrope_interleaved = true

const struct ommai_text_family ommai_text_qwen3 = {QWEN3_TEXT, .head_dim = 128};

const struct ommai_text_family ommai_text_qwen3_moe = {QWEN3_TEXT, .experts = true};

const struct ommai_text_family ommai_text_qwen3_1d = {
    .parse = parse,
    .load = load,
    .prefixes = {"model.language_model", "model"},
    .qk_norm = true,
    .head_dim_key = true,
    .head_dim = 128,
    .norm_eps = 1e-6,
    .rope_theta = 1e6,
    .rope_1d = true,
    .tied = true,
};

const struct ommai_text_family ommai_text_qwen2_1d = {
    .parse = parse,
    .load = load,
    .prefixes = {"model", "model.language_model"},
    .top_level = true,
    .qkv_bias = true,
    .windows = true,
    .norm_eps = 1e-6,
    .rope_theta = 1e4,
    .rope_1d = true,
};

#define QWEN3_5_TEXT                                                                                                           \
  .parse = parse, .load = load, .prefixes = {"model.language_model", "model"}, .qk_norm = true, .head_dim_key = true,          \
  .head_dim = 256, .hybrid = true, .norm_eps = 1e-6, .rope_theta = 1e4, .partial_rotary = 0.25, .mrope_section = {11, 11, 10}, \
  .mrope_interleaved = true

const struct ommai_text_family ommai_text_qwen3_5 = {QWEN3_5_TEXT};

const struct ommai_text_family ommai_text_qwen3_5_moe = {QWEN3_5_TEXT, .experts = true};

const struct ommai_text_family ommai_text_ernie = {
    .parse = parse,
    .load = load,
    .prefixes = {"model", "model.language_model"},
    .top_level = true,
    .head_dim_key = true,
    .head_dim = 128,
    .norm_eps = 1e-5,
    .rope_theta = 5e5,
    .mrope_section = {16, 24, 24},
    .tied = true,
};

const struct ommai_text_family ommai_text_glm = {
    .parse = parse,
    .load = load,
    .prefixes = {"model.language_model", "model"},
    .rope_pairs = true,
    .branch_norms = true,
    .fused_gate_up = true,
    .head_dim_key = true,
    .norm_eps = 1e-5,
    .rope_theta = 1e4,
    .mrope_section = {8, 12, 12},
};
