/* The language model of DeepSeek-V3's kind, as in Kimi-VL: MLA, sigmoid router, shared experts.
 * Source: transformers' modeling_deepseek_v3.py and the released checkpoints. */

#include <stdio.h>

#include "base/error.h"
#include "families/config_keys.h"
#include "families/decoder_config.h"
#include "families/decoder_loader.h"
#include "families/rope_config.h"
#include "families/text_family.h"
#include "language/decoder_sizes.h"
#include "language/experts.h"
#include "language/mla.h"

enum { NAME_SIZE = OMMAI_LOADER_MAX_NAME + 1, MAX_RANK = 1 << 16, MAX_WIDTH = 1 << 20 };

/* ---- config.json ---- */

static enum omma_status refuse_present(const json_t *text, const char *where, const char *key, struct omma_error *error) {
  const json_t *value = json_object_get(text, key);
  if (!value || json_is_null(value)) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, key, "%s: key \"%s\": expected null; a value is not supported", where,
                          key);
}

/* Heads: a key is nope_dim + rope_dim wide; what decoding reads, kv_rank + rope_dim. The norm of
 * the compressed values has the official class's own epsilon, not rms_norm_eps. */
static enum omma_status parse_mla(const json_t *text, const char *where, struct ommai_decoder_config *config,
                                  struct omma_error *error) {
  struct ommai_mla_config *mla = &config->mla;
  int64_t limit = OMMA_ATTENTION_MAX_HEAD_DIM;
  OMMAI_TRY(refuse_present(text, where, "q_lora_rank", error));
  OMMAI_TRY(ommai_json_integer(text, where, "kv_lora_rank", true, 1, MAX_RANK, &mla->kv_rank, error));
  OMMAI_TRY(ommai_json_integer(text, where, "qk_nope_head_dim", true, 1, limit, &mla->nope_dim, error));
  OMMAI_TRY(ommai_json_integer(text, where, "qk_rope_head_dim", true, 2, limit, &mla->rope_dim, error));
  OMMAI_TRY(ommai_json_integer(text, where, "v_head_dim", true, 1, limit, &config->v_head_dim, error));
  ommai_decoder_set_layers(config, &ommai_mla_attention, &ommai_ffn_dense);
  config->head_dim = mla->nope_dim + mla->rope_dim;
  mla->norm_eps = 1e-6f;
  if (config->head_dim > limit || mla->rope_dim % 2 || ommai_mla_width(config) > OMMA_ATTENTION_MAX_DECODE_HEAD_DIM) {
    return ommai_fail_field(
        error, OMMA_ERROR_UNSUPPORTED, "kv_lora_rank",
        "%s: heads of %lld + %lld over a rank of %lld: expected qk_rope_head_dim even, heads of at most %lld "
        "and kv_lora_rank + qk_rope_head_dim at most %d",
        where, (long long)mla->nope_dim, (long long)mla->rope_dim, (long long)mla->kv_rank, (long long)limit,
        OMMA_ATTENTION_MAX_DECODE_HEAD_DIM);
  }
  return OMMA_OK;
}

static enum omma_status parse_rope(const json_t *text, const char *where, struct ommai_decoder_config *config,
                                   struct omma_error *error) {
  json_t *rope;
  OMMAI_TRY(ommai_rope_parse(text, where, 10000, 0, config, &rope, error));
  OMMAI_TRY(ommai_rope_score_factor(rope, where, &config->rope_scaling, &config->attention_factor, error));
  /* One axis: images' tokens are counted one by one. */
  config->mrope_section[0] = config->mla.rope_dim / 2;
  config->rope_1d = true;
  return OMMA_OK;
}

static enum omma_status parse_router(const json_t *text, const char *where, struct ommai_router_config *router,
                                     struct omma_error *error) {
  double scale = 1;
  *router = (struct ommai_router_config){.n_groups = 1, .n_chosen_groups = 1, .score = OMMAI_ROUTER_SIGMOID, .normalise = true};
  OMMAI_TRY(ommai_json_integer(text, where, "n_routed_experts", true, 1, OMMAI_ROUTER_MAX_EXPERTS, &router->n_experts, error));
  OMMAI_TRY(
      ommai_json_integer(text, where, "num_experts_per_tok", true, 1, OMMAI_ROUTER_MAX_EXPERTS, &router->n_chosen, error));
  OMMAI_TRY(ommai_json_integer(text, where, "n_group", false, 1, router->n_experts, &router->n_groups, error));
  OMMAI_TRY(ommai_json_integer(text, where, "topk_group", false, 1, router->n_experts, &router->n_chosen_groups, error));
  OMMAI_TRY(ommai_json_boolean(text, where, "norm_topk_prob", false, &router->normalise, error));
  OMMAI_TRY(ommai_config_positive(text, where, "routed_scaling_factor", 1e6, &scale, error));
  OMMAI_TRY(ommai_config_expect_string(text, where, "scoring_func", "sigmoid", error));
  OMMAI_TRY(ommai_config_expect_string(text, where, "topk_method", "noaux_tc", error));
  router->scale = (float)scale;
  return ommai_decoder_check_router(where, router, error);
}

/* Layers from first_k_dense_replace on are routed. */
static enum omma_status parse_experts(const json_t *text, const char *where, struct ommai_decoder_config *config,
                                      struct omma_error *error) {
  struct ommai_experts_config *experts = &config->experts;
  int64_t n_shared = 0, first = 0, every = 1;
  OMMAI_TRY(parse_router(text, where, &experts->router, error));
  OMMAI_TRY(ommai_json_integer(text, where, "moe_intermediate_size", true, 1, MAX_WIDTH, &experts->intermediate_size, error));
  OMMAI_TRY(
      ommai_json_integer(text, where, "n_shared_experts", false, 0, MAX_WIDTH / experts->intermediate_size, &n_shared, error));
  OMMAI_TRY(ommai_json_integer(text, where, "first_k_dense_replace", false, 0, config->n_layers, &first, error));
  OMMAI_TRY(ommai_json_integer(text, where, "moe_layer_freq", false, 1, 1, &every, error));
  experts->shared_size = n_shared * experts->intermediate_size;
  for (int64_t i = first; i < config->n_layers; i++) config->layers[i].ffn = &ommai_ffn_experts;
  return OMMA_OK;
}

static enum omma_status parse(const struct ommai_text_family *family, const json_t *root, const char *path,
                              struct ommai_decoder_config *config, struct omma_error *error) {
  (void)family;
  json_t *text;
  char where[OMMAI_WHERE_SIZE];
  OMMAI_TRY(ommai_json_object(root, path, "text_config", true, &text, error));
  snprintf(where, sizeof where, "%s: text_config", path);
  OMMAI_TRY(ommai_decoder_parse_common(text, where, 1e-6, config, error));
  OMMAI_TRY(ommai_decoder_refuse_windows(config, where, error));
  OMMAI_TRY(parse_mla(text, where, config, error));
  OMMAI_TRY(parse_experts(text, where, config, error));
  OMMAI_TRY(parse_rope(text, where, config, error));
  return ommai_decoder_parse_tied(text, where, root, path, config, error);
}

/* ---- tensors ---- */

/* kv_b_proj [n_heads, nope + v, kv_rank]: a head's key rows, then its value rows, in the three
 * uses. */
static enum omma_status load_head(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                  const char *name, const struct ommai_loader_tensor *tensor, int64_t head,
                                  struct ommai_mla_head *out, struct omma_error *error) {
  int64_t rank = config->mla.kv_rank, nope = config->mla.nope_dim;
  int64_t key_at = head * (nope + config->v_head_dim) * rank, value_at = key_at + nope * rank;
  const struct ommai_linear_source value = ommai_loader_matrix(tensor, value_at, config->v_head_dim, false);
  const struct ommai_linear_source both[2] = {value, ommai_loader_matrix(tensor, key_at, nope, false)};
  /* The key rows [nope, rank], read as the transposed matrix of a layer from nope to rank. */
  const struct ommai_linear_source absorb = ommai_loader_matrix(tensor, key_at, rank, true);
  const enum ommai_weight_role role = OMMAI_ROLE_MLA;
  const struct ommai_linear_call call = ommai_mla_call_expand(config, loader->policy.kinds[role].compute);
  OMMAI_TRY(ommai_decoder_pack_tile_linear(loader, role, name, both, 2, rank, call, &out->expand, error));
  OMMAI_TRY(ommai_loader_pack(loader, role, name, &absorb, 1, nope, &out->absorb, error));
  return ommai_loader_pack(loader, role, name, &value, 1, rank, &out->value, error);
}

static enum omma_status load_heads(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                   const char *prefix, struct ommai_mla_head *heads, struct omma_error *error) {
  char name[NAME_SIZE];
  const int64_t shape[2] = {config->n_heads * (config->mla.nope_dim + config->v_head_dim), config->mla.kv_rank};
  struct ommai_loader_tensor tensor;
  snprintf(name, sizeof name, "%s.self_attn.kv_b_proj.weight", prefix);
  OMMAI_TRY(ommai_loader_open(loader, name, 2, shape, &tensor, error));
  for (int64_t h = 0; h < config->n_heads; h++) {
    struct ommai_mla_head described = {0};
    OMMAI_TRY(load_head(loader, config, name, &tensor, h, heads ? &heads[h] : &described, error));
  }
  ommai_loader_close(loader, &tensor);
  return OMMA_OK;
}

static enum omma_status load_attention(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                       const char *prefix, int64_t index, struct ommai_decoder_layer *layer,
                                       struct omma_error *error) {
  int64_t h = config->hidden_size;
  const struct ommai_linear_part qkv[2] = {
      ommai_decoder_part(prefix, "self_attn.q_proj", ommai_decoder_q_width(config), false),
      ommai_decoder_part(prefix, "self_attn.kv_a_proj_with_mqa", ommai_mla_width(config), false)};
  const struct ommai_linear_part o = ommai_decoder_part(prefix, "self_attn.o_proj", h, false);
  OMMAI_TRY(ommai_decoder_load_vector(loader, prefix, "self_attn.kv_a_layernorm.weight", config->mla.kv_rank, &layer->mla_norm,
                                      error));
  OMMAI_TRY(ommai_decoder_load_linear(loader, OMMAI_ROLE_TEXT_QKV, qkv, 2, h, ommai_decoder_call_qkv(config, index),
                                      &layer->qkv, error));
  OMMAI_TRY(load_heads(loader, config, prefix, layer->mla_heads, error));
  return ommai_decoder_load_linear(loader, OMMAI_ROLE_TEXT_O, &o, 1, ommai_decoder_attended_width(config),
                                   ommai_decoder_call_o(config, index), &layer->o, error);
}

static enum omma_status load_feed_forward(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                          const char *prefix, int64_t index, struct ommai_decoder_layer *layer,
                                          struct omma_error *error) {
  char name[NAME_SIZE];
  int64_t width = ommai_decoder_dense_size(config, index);
  snprintf(name, sizeof name, "%s.mlp", prefix);
  if (!config->layers[index].ffn->routed)
    return ommai_decoder_load_dense(loader, config, name, width, false, &layer->dense, error);
  OMMAI_TRY(ommai_decoder_load_vector(loader, name, "gate.e_score_correction_bias", config->experts.router.n_experts,
                                      &layer->router_bias, error));
  OMMAI_TRY(ommai_decoder_load_router(loader, config, name, &layer->router, error));
  OMMAI_TRY(ommai_decoder_load_experts(loader, config, name, layer, error));
  if (width == 0) return OMMA_OK;
  snprintf(name, sizeof name, "%s.mlp.shared_experts", prefix);
  return ommai_decoder_load_dense(loader, config, name, width, false, &layer->dense, error);
}

static enum omma_status load(const struct ommai_text_family *family, struct ommai_weight_loader *loader,
                             struct ommai_decoder *decoder, struct omma_error *error) {
  const struct ommai_decoder_config *config = &decoder->config;
  char model[OMMAI_DECODER_PREFIX_SIZE], head[OMMAI_DECODER_PREFIX_SIZE], name[OMMAI_DECODER_PREFIX_SIZE + 32];
  snprintf(model, sizeof model, "%s.model", family->prefixes[0]);
  snprintf(head, sizeof head, "%s.lm_head", family->prefixes[0]);
  for (int64_t i = 0; i < config->n_layers; i++) {
    struct ommai_decoder_layer described = {0}, *layer = decoder->layers ? &decoder->layers[i] : &described;
    int64_t h = config->hidden_size;
    snprintf(name, sizeof name, "%s.layers.%lld", model, (long long)i);
    OMMAI_TRY(ommai_decoder_load_vector(loader, name, "input_layernorm.weight", h, &layer->input_norm, error));
    OMMAI_TRY(ommai_decoder_load_vector(loader, name, "post_attention_layernorm.weight", h, &layer->post_norm, error));
    OMMAI_TRY(load_attention(loader, config, name, i, layer, error));
    OMMAI_TRY(load_feed_forward(loader, config, name, i, layer, error));
  }
  return ommai_decoder_load_ends(loader, model, head, decoder, error);
}

const struct ommai_text_family ommai_text_deepseek = {.parse = parse, .load = load, .prefixes = {"language_model"}};
