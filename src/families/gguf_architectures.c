#include "families/gguf_architectures.h"

#include <string.h>

#include "base/error.h"

/* ---- names ---- */

#define QWEN_LAYER(name) "model.layers.#." name

/* Dense and routed. */
#define QWEN_FEED_FORWARD                                                                                             \
  {.file = "blk.#.ffn_gate", .shown = QWEN_LAYER("mlp.gate_proj")},                                                   \
      {.file = "blk.#.ffn_up", .shown = QWEN_LAYER("mlp.up_proj")},                                                   \
      {.file = "blk.#.ffn_down", .shown = QWEN_LAYER("mlp.down_proj")},                                               \
      {.file = "blk.#.ffn_gate_inp", .shown = QWEN_LAYER("mlp.gate")},                                                \
      {.file = "blk.#.ffn_gate_exps", .shown = QWEN_LAYER("mlp.experts.*.gate_proj"), .showing = OMMAI_GGUF_EXPERTS}, \
      {.file = "blk.#.ffn_up_exps", .shown = QWEN_LAYER("mlp.experts.*.up_proj"), .showing = OMMAI_GGUF_EXPERTS},     \
      {.file = "blk.#.ffn_gate_up_exps",                                                                              \
       .shown = QWEN_LAYER("mlp.experts.*.gate_proj"),                                                                \
       .showing = OMMAI_GGUF_FUSED_EXPERTS,                                                                           \
       .second = QWEN_LAYER("mlp.experts.*.up_proj")},                                                                \
  {                                                                                                                   \
    .file = "blk.#.ffn_down_exps", .shown = QWEN_LAYER("mlp.experts.*.down_proj"), .showing = OMMAI_GGUF_EXPERTS      \
  }

static const struct ommai_gguf_name qwen_text[] = {
    {.file = "token_embd", .shown = "model.embed_tokens"},
    {.file = "output_norm", .shown = "model.norm"},
    {.file = "output", .shown = "lm_head"},
    {.file = "blk.#.attn_norm", .shown = QWEN_LAYER("input_layernorm")},
    {.file = "blk.#.attn_q", .shown = QWEN_LAYER("self_attn.q_proj")},
    {.file = "blk.#.attn_k", .shown = QWEN_LAYER("self_attn.k_proj")},
    {.file = "blk.#.attn_v", .shown = QWEN_LAYER("self_attn.v_proj")},
    {.file = "blk.#.attn_output", .shown = QWEN_LAYER("self_attn.o_proj")},
    {.file = "blk.#.attn_q_norm", .shown = QWEN_LAYER("self_attn.q_norm")},
    {.file = "blk.#.attn_k_norm", .shown = QWEN_LAYER("self_attn.k_norm")},
    {.file = "blk.#.ffn_norm", .shown = QWEN_LAYER("post_attention_layernorm")},
    QWEN_FEED_FORWARD,
    {.file = NULL},
};

static const struct ommai_gguf_name hybrid_text[] = {
    {.file = "token_embd", .shown = "model.embed_tokens"},
    {.file = "output_norm", .shown = "model.norm", .showing = OMMAI_GGUF_NORM},
    {.file = "output", .shown = "lm_head"},
    {.file = "blk.#.attn_norm", .shown = QWEN_LAYER("input_layernorm"), .showing = OMMAI_GGUF_NORM},
    {.file = "blk.#.post_attention_norm", .shown = QWEN_LAYER("post_attention_layernorm"), .showing = OMMAI_GGUF_NORM},
    {.file = "blk.#.attn_q", .shown = QWEN_LAYER("self_attn.q_proj")},
    {.file = "blk.#.attn_k", .shown = QWEN_LAYER("self_attn.k_proj")},
    {.file = "blk.#.attn_v", .shown = QWEN_LAYER("self_attn.v_proj")},
    {.file = "blk.#.attn_output", .shown = QWEN_LAYER("self_attn.o_proj")},
    {.file = "blk.#.attn_q_norm", .shown = QWEN_LAYER("self_attn.q_norm"), .showing = OMMAI_GGUF_NORM},
    {.file = "blk.#.attn_k_norm", .shown = QWEN_LAYER("self_attn.k_norm"), .showing = OMMAI_GGUF_NORM},
    {.file = "blk.#.attn_qkv", .shown = QWEN_LAYER("linear_attn.in_proj_qkv"), .showing = OMMAI_GGUF_QKV},
    {.file = "blk.#.attn_gate", .shown = QWEN_LAYER("linear_attn.in_proj_z"), .showing = OMMAI_GGUF_VALUE_HEADS},
    {.file = "blk.#.ssm_beta", .shown = QWEN_LAYER("linear_attn.in_proj_b"), .showing = OMMAI_GGUF_VALUE_HEADS},
    {.file = "blk.#.ssm_alpha", .shown = QWEN_LAYER("linear_attn.in_proj_a"), .showing = OMMAI_GGUF_VALUE_HEADS},
    {.file = "blk.#.ssm_conv1d", .shown = QWEN_LAYER("linear_attn.conv1d"), .showing = OMMAI_GGUF_CONVOLUTION},
    {.file = "blk.#.ssm_a", .shown = QWEN_LAYER("linear_attn.A_log"), .showing = OMMAI_GGUF_DECAYS},
    {.file = "blk.#.ssm_dt.bias", .shown = QWEN_LAYER("linear_attn.dt_bias"), .showing = OMMAI_GGUF_VALUE_HEADS},
    {.file = "blk.#.ssm_norm", .shown = QWEN_LAYER("linear_attn.norm")},
    {.file = "blk.#.ssm_out", .shown = QWEN_LAYER("linear_attn.out_proj"), .showing = OMMAI_GGUF_VALUE_COLUMNS},
    QWEN_FEED_FORWARD,
    {.file = "blk.#.ffn_gate_shexp", .shown = QWEN_LAYER("mlp.shared_expert.gate_proj")},
    {.file = "blk.#.ffn_up_shexp", .shown = QWEN_LAYER("mlp.shared_expert.up_proj")},
    {.file = "blk.#.ffn_down_shexp", .shown = QWEN_LAYER("mlp.shared_expert.down_proj")},
    {.file = "blk.#.ffn_gate_inp_shexp", .shown = QWEN_LAYER("mlp.shared_expert_gate")},
    {.file = "blk.#.nextn.eh_proj", .shown = "mtp.fc"},
    {.file = "blk.#.nextn.enorm", .shown = "mtp.pre_fc_norm_embedding", .showing = OMMAI_GGUF_NORM},
    {.file = "blk.#.nextn.hnorm", .shown = "mtp.pre_fc_norm_hidden", .showing = OMMAI_GGUF_NORM},
    {.file = "blk.#.nextn.shared_head_norm", .shown = "mtp.norm", .showing = OMMAI_GGUF_NORM},
    {.file = NULL},
};

#define MLA "language_model.model."
#define MLA_LAYER(name) MLA "layers.#." name

static const struct ommai_gguf_name mla_text[] = {
    {.file = "token_embd", .shown = MLA "embed_tokens"},
    {.file = "output_norm", .shown = MLA "norm"},
    {.file = "output", .shown = "language_model.lm_head"},
    {.file = "blk.#.attn_norm", .shown = MLA_LAYER("input_layernorm")},
    {.file = "blk.#.attn_q", .shown = MLA_LAYER("self_attn.q_proj")},
    {.file = "blk.#.attn_kv_a_mqa", .shown = MLA_LAYER("self_attn.kv_a_proj_with_mqa")},
    {.file = "blk.#.attn_kv_a_norm", .shown = MLA_LAYER("self_attn.kv_a_layernorm")},
    {.file = "blk.#.attn_kv_b", .shown = MLA_LAYER("self_attn.kv_b_proj")},
    {.file = "blk.#.attn_k_b", .shown = MLA_LAYER("self_attn.kv_b_proj"), .showing = OMMAI_GGUF_KEYS_VALUES},
    {.file = "blk.#.attn_v_b", .shown = NULL},
    {.file = "blk.#.attn_output", .shown = MLA_LAYER("self_attn.o_proj")},
    {.file = "blk.#.ffn_norm", .shown = MLA_LAYER("post_attention_layernorm")},
    {.file = "blk.#.ffn_gate", .shown = MLA_LAYER("mlp.gate_proj")},
    {.file = "blk.#.ffn_up", .shown = MLA_LAYER("mlp.up_proj")},
    {.file = "blk.#.ffn_down", .shown = MLA_LAYER("mlp.down_proj")},
    {.file = "blk.#.ffn_gate_inp", .shown = MLA_LAYER("mlp.gate")},
    {.file = "blk.#.exp_probs_b.bias", .shown = MLA_LAYER("mlp.gate.e_score_correction_bias")},
    {.file = "blk.#.ffn_gate_exps", .shown = MLA_LAYER("mlp.experts.*.gate_proj"), .showing = OMMAI_GGUF_EXPERTS},
    {.file = "blk.#.ffn_up_exps", .shown = MLA_LAYER("mlp.experts.*.up_proj"), .showing = OMMAI_GGUF_EXPERTS},
    {.file = "blk.#.ffn_gate_up_exps",
     .shown = MLA_LAYER("mlp.experts.*.gate_proj"),
     .showing = OMMAI_GGUF_FUSED_EXPERTS,
     .second = MLA_LAYER("mlp.experts.*.up_proj")},
    {.file = "blk.#.ffn_down_exps", .shown = MLA_LAYER("mlp.experts.*.down_proj"), .showing = OMMAI_GGUF_EXPERTS},
    {.file = "blk.#.ffn_gate_shexp", .shown = MLA_LAYER("mlp.shared_experts.gate_proj")},
    {.file = "blk.#.ffn_up_shexp", .shown = MLA_LAYER("mlp.shared_experts.up_proj")},
    {.file = "blk.#.ffn_down_shexp", .shown = MLA_LAYER("mlp.shared_experts.down_proj")},
    {.file = NULL},
};

static const struct ommai_gguf_name qwen2_tower[] = {
    {.file = "v.patch_embd", .shown = "visual.patch_embed.proj"},
    {.file = "v.blk.#.ln1", .shown = "visual.blocks.#.norm1"},
    {.file = "v.blk.#.ln2", .shown = "visual.blocks.#.norm2"},
    {.file = "v.blk.#.attn_qkv", .shown = "visual.blocks.#.attn.qkv"},
    {.file = "v.blk.#.attn_q", .shown = "visual.blocks.#.attn.q"},
    {.file = "v.blk.#.attn_k", .shown = "visual.blocks.#.attn.k"},
    {.file = "v.blk.#.attn_v", .shown = "visual.blocks.#.attn.v"},
    {.file = "v.blk.#.attn_out", .shown = "visual.blocks.#.attn.proj"},
    {.file = "v.blk.#.ffn_up", .shown = "visual.blocks.#.mlp.fc1"},
    {.file = "v.blk.#.ffn_down", .shown = "visual.blocks.#.mlp.fc2"},
    {.file = "v.post_ln", .shown = "visual.merger.ln_q"},
    {.file = "mm.0", .shown = "visual.merger.mlp.0"},
    {.file = "mm.2", .shown = "visual.merger.mlp.2"},
    {.file = NULL},
};

static const struct ommai_gguf_name qwen2_5_tower[] = {
    {.file = "v.patch_embd", .shown = "visual.patch_embed.proj"},
    {.file = "v.blk.#.ln1", .shown = "visual.blocks.#.norm1"},
    {.file = "v.blk.#.ln2", .shown = "visual.blocks.#.norm2"},
    {.file = "v.blk.#.attn_qkv", .shown = "visual.blocks.#.attn.qkv"},
    {.file = "v.blk.#.attn_q", .shown = "visual.blocks.#.attn.q"},
    {.file = "v.blk.#.attn_k", .shown = "visual.blocks.#.attn.k"},
    {.file = "v.blk.#.attn_v", .shown = "visual.blocks.#.attn.v"},
    {.file = "v.blk.#.attn_out", .shown = "visual.blocks.#.attn.proj"},
    {.file = "v.blk.#.ffn_gate", .shown = "visual.blocks.#.mlp.gate_proj"},
    {.file = "v.blk.#.ffn_up", .shown = "visual.blocks.#.mlp.up_proj"},
    {.file = "v.blk.#.ffn_down", .shown = "visual.blocks.#.mlp.down_proj"},
    {.file = "v.post_ln", .shown = "visual.merger.ln_q"},
    {.file = "mm.0", .shown = "visual.merger.mlp.0"},
    {.file = "mm.2", .shown = "visual.merger.mlp.2"},
    {.file = NULL},
};

static const struct ommai_gguf_name qwen3_tower[] = {
    {.file = "v.patch_embd", .shown = "model.visual.patch_embed.proj"},
    {.file = "v.position_embd", .shown = "model.visual.pos_embed"},
    {.file = "v.blk.#.ln1", .shown = "model.visual.blocks.#.norm1"},
    {.file = "v.blk.#.ln2", .shown = "model.visual.blocks.#.norm2"},
    {.file = "v.blk.#.attn_qkv", .shown = "model.visual.blocks.#.attn.qkv"},
    {.file = "v.blk.#.attn_q", .shown = "model.visual.blocks.#.attn.q"},
    {.file = "v.blk.#.attn_k", .shown = "model.visual.blocks.#.attn.k"},
    {.file = "v.blk.#.attn_v", .shown = "model.visual.blocks.#.attn.v"},
    {.file = "v.blk.#.attn_out", .shown = "model.visual.blocks.#.attn.proj"},
    {.file = "v.blk.#.ffn_up", .shown = "model.visual.blocks.#.mlp.linear_fc1"},
    {.file = "v.blk.#.ffn_down", .shown = "model.visual.blocks.#.mlp.linear_fc2"},
    {.file = "v.post_ln", .shown = "model.visual.merger.norm"},
    {.file = "mm.0", .shown = "model.visual.merger.linear_fc1"},
    {.file = "mm.2", .shown = "model.visual.merger.linear_fc2"},
    {.file = "v.deepstack.#.norm", .shown = "model.visual.deepstack_merger_list.#.norm", .showing = OMMAI_GGUF_MERGER},
    {.file = "v.deepstack.#.fc1", .shown = "model.visual.deepstack_merger_list.#.linear_fc1", .showing = OMMAI_GGUF_MERGER},
    {.file = "v.deepstack.#.fc2", .shown = "model.visual.deepstack_merger_list.#.linear_fc2", .showing = OMMAI_GGUF_MERGER},
    {.file = NULL},
};

static const struct ommai_gguf_name moon_tower[] = {
    {.file = "v.patch_embd", .shown = "vision_tower.patch_embed.proj"},
    {.file = "v.position_embd", .shown = "vision_tower.patch_embed.pos_emb", .showing = OMMAI_GGUF_GRID},
    {.file = "v.blk.#.ln1", .shown = "vision_tower.encoder.blocks.#.norm0"},
    {.file = "v.blk.#.ln2", .shown = "vision_tower.encoder.blocks.#.norm1"},
    {.file = "v.blk.#.attn_qkv", .shown = "vision_tower.encoder.blocks.#.wqkv"},
    {.file = "v.blk.#.attn_q", .shown = "vision_tower.encoder.blocks.#.wq"},
    {.file = "v.blk.#.attn_k", .shown = "vision_tower.encoder.blocks.#.wk"},
    {.file = "v.blk.#.attn_v", .shown = "vision_tower.encoder.blocks.#.wv"},
    {.file = "v.blk.#.attn_out", .shown = "vision_tower.encoder.blocks.#.wo"},
    {.file = "v.blk.#.ffn_up", .shown = "vision_tower.encoder.blocks.#.mlp.fc0"},
    {.file = "v.blk.#.ffn_down", .shown = "vision_tower.encoder.blocks.#.mlp.fc1"},
    {.file = "v.post_ln", .shown = "vision_tower.encoder.final_layernorm"},
    {.file = "mm.input_norm", .shown = "multi_modal_projector.pre_norm"},
    {.file = "mm.1", .shown = "multi_modal_projector.linear_1"},
    {.file = "mm.2", .shown = "multi_modal_projector.linear_2"},
    {.file = NULL},
};

/* With norms around each branch, and gates and ups in one matrix. */
static const struct ommai_gguf_name glm_text[] = {
    {.file = "token_embd", .shown = "model.embed_tokens"},
    {.file = "output_norm", .shown = "model.norm"},
    {.file = "output", .shown = "lm_head"},
    {.file = "blk.#.attn_norm", .shown = QWEN_LAYER("input_layernorm")},
    {.file = "blk.#.attn_q", .shown = QWEN_LAYER("self_attn.q_proj"), .showing = OMMAI_GGUF_PAIRED_ROWS},
    {.file = "blk.#.attn_k", .shown = QWEN_LAYER("self_attn.k_proj"), .showing = OMMAI_GGUF_PAIRED_ROWS},
    {.file = "blk.#.attn_v", .shown = QWEN_LAYER("self_attn.v_proj")},
    {.file = "blk.#.attn_output", .shown = QWEN_LAYER("self_attn.o_proj")},
    {.file = "blk.#.post_attention_norm", .shown = QWEN_LAYER("post_self_attn_layernorm")},
    {.file = "blk.#.ffn_norm", .shown = QWEN_LAYER("post_attention_layernorm")},
    {.file = "blk.#.ffn_up", .shown = QWEN_LAYER("mlp.gate_up_proj")},
    {.file = "blk.#.ffn_down", .shown = QWEN_LAYER("mlp.down_proj")},
    {.file = "blk.#.post_ffw_norm", .shown = QWEN_LAYER("post_mlp_layernorm")},
    {.file = NULL},
};

static const struct ommai_gguf_name glm_tower[] = {
    {.file = "v.patch_embd", .shown = "model.visual.patch_embed.proj"},
    {.file = "v.blk.#.ln1", .shown = "model.visual.blocks.#.norm1"},
    {.file = "v.blk.#.ln2", .shown = "model.visual.blocks.#.norm2"},
    {.file = "v.blk.#.attn_qkv", .shown = "model.visual.blocks.#.attn.qkv"},
    {.file = "v.blk.#.attn_q_norm", .shown = "model.visual.blocks.#.attn.q_norm"},
    {.file = "v.blk.#.attn_k_norm", .shown = "model.visual.blocks.#.attn.k_norm"},
    {.file = "v.blk.#.attn_out", .shown = "model.visual.blocks.#.attn.proj"},
    {.file = "v.blk.#.ffn_gate", .shown = "model.visual.blocks.#.mlp.gate_proj"},
    {.file = "v.blk.#.ffn_up", .shown = "model.visual.blocks.#.mlp.up_proj"},
    {.file = "v.blk.#.ffn_down", .shown = "model.visual.blocks.#.mlp.down_proj"},
    {.file = "v.post_ln", .shown = "model.visual.post_layernorm"},
    {.file = "mm.patch_merger", .shown = "model.visual.downsample"},
    {.file = "mm.model.fc", .shown = "model.visual.merger.proj"},
    {.file = "mm.post_norm", .shown = "model.visual.merger.post_projection_norm"},
    {.file = "mm.gate", .shown = "model.visual.merger.gate_proj"},
    {.file = "mm.up", .shown = "model.visual.merger.up_proj"},
    {.file = "mm.down", .shown = "model.visual.merger.down_proj"},
    {.file = NULL},
};

#define PIXTRAL "model.vision_encoder."
#define PIXTRAL_LAYER(name) PIXTRAL "transformer.layers.#." name

static const struct ommai_gguf_name pixtral_tower[] = {
    {.file = "v.patch_embd", .shown = PIXTRAL "patch_conv"},
    {.file = "v.pre_ln", .shown = PIXTRAL "ln_pre"},
    {.file = "v.blk.#.ln1", .shown = PIXTRAL_LAYER("attention_norm")},
    {.file = "v.blk.#.ln2", .shown = PIXTRAL_LAYER("ffn_norm")},
    {.file = "v.blk.#.attn_q", .shown = PIXTRAL_LAYER("attention.q_proj"), .showing = OMMAI_GGUF_HALVED_ROWS},
    {.file = "v.blk.#.attn_k", .shown = PIXTRAL_LAYER("attention.k_proj"), .showing = OMMAI_GGUF_HALVED_ROWS},
    {.file = "v.blk.#.attn_v", .shown = PIXTRAL_LAYER("attention.v_proj")},
    {.file = "v.blk.#.attn_out", .shown = PIXTRAL_LAYER("attention.o_proj")},
    {.file = "v.blk.#.ffn_gate", .shown = PIXTRAL_LAYER("feed_forward.gate_proj")},
    {.file = "v.blk.#.ffn_up", .shown = PIXTRAL_LAYER("feed_forward.up_proj")},
    {.file = "v.blk.#.ffn_down", .shown = PIXTRAL_LAYER("feed_forward.down_proj")},
    {.file = "mm.input_norm", .shown = "model.vision_projection.norm"},
    {.file = "mm.patch_merger", .shown = "model.vision_projection.patch_merger.merging_layer"},
    {.file = "mm.1", .shown = "model.vision_projection.linear_1"},
    {.file = "mm.2", .shown = "model.vision_projection.linear_2"},
    {.file = NULL},
};

#define SIGLIP "visual.vision_model."
#define SIGLIP_LAYER(name) SIGLIP "encoder.layers.#." name

static const struct ommai_gguf_name siglip_tower[] = {
    {.file = "v.patch_embd", .shown = SIGLIP "embeddings.patch_embedding"},
    {.file = "v.position_embd", .shown = SIGLIP "embeddings.position_embedding"},
    {.file = "v.blk.#.ln1", .shown = SIGLIP_LAYER("layer_norm1")},
    {.file = "v.blk.#.ln2", .shown = SIGLIP_LAYER("layer_norm2")},
    {.file = "v.blk.#.attn_q", .shown = SIGLIP_LAYER("self_attn.q_proj")},
    {.file = "v.blk.#.attn_k", .shown = SIGLIP_LAYER("self_attn.k_proj")},
    {.file = "v.blk.#.attn_v", .shown = SIGLIP_LAYER("self_attn.v_proj")},
    {.file = "v.blk.#.attn_out", .shown = SIGLIP_LAYER("self_attn.out_proj")},
    {.file = "v.blk.#.ffn_up", .shown = SIGLIP_LAYER("mlp.fc1")},
    {.file = "v.blk.#.ffn_down", .shown = SIGLIP_LAYER("mlp.fc2")},
    {.file = "v.post_ln", .shown = SIGLIP "post_layernorm"},
    {.file = "mm.input_norm", .shown = "mlp_AR.pre_norm"},
    {.file = "mm.1", .shown = "mlp_AR.linear_1"},
    {.file = "mm.2", .shown = "mlp_AR.linear_2"},
    {.file = NULL},
};

static const struct ommai_gguf_name dots_tower[] = {
    {.file = "v.patch_embd", .shown = "vision_tower.patch_embed.patchifier.proj"},
    {.file = "v.pre_ln", .shown = "vision_tower.patch_embed.patchifier.norm"},
    {.file = "v.blk.#.ln1", .shown = "vision_tower.blocks.#.norm1"},
    {.file = "v.blk.#.ln2", .shown = "vision_tower.blocks.#.norm2"},
    {.file = "v.blk.#.attn_qkv", .shown = "vision_tower.blocks.#.attn.qkv"},
    {.file = "v.blk.#.attn_out", .shown = "vision_tower.blocks.#.attn.proj"},
    {.file = "v.blk.#.ffn_gate", .shown = "vision_tower.blocks.#.mlp.fc1"},
    {.file = "v.blk.#.ffn_up", .shown = "vision_tower.blocks.#.mlp.fc3"},
    {.file = "v.blk.#.ffn_down", .shown = "vision_tower.blocks.#.mlp.fc2"},
    {.file = "mm.post_norm", .shown = "vision_tower.post_trunk_norm"},
    {.file = "mm.input_norm", .shown = "vision_tower.merger.ln_q"},
    {.file = "mm.0", .shown = "vision_tower.merger.mlp.0"},
    {.file = "mm.2", .shown = "vision_tower.merger.mlp.2"},
    {.file = NULL},
};

/* ---- the architectures ---- */

static const struct ommai_gguf_architecture architectures[] = {
    {"qwen2vl", "qwen2vl_merger", "qwen2_vl", qwen_text, qwen2_tower, "qwen2vl"},
    {"qwen2vl", "qwen2.5vl_merger", "qwen2_5_vl", qwen_text, qwen2_5_tower, "qwen25vl"},
    {"qwen3vl", "qwen3vl_merger", "qwen3_vl", qwen_text, qwen3_tower, "qwen3vl"},
    {"qwen3vlmoe", "qwen3vl_merger", "qwen3_vl_moe", qwen_text, qwen3_tower, "qwen3vl"},
    {"qwen35", "qwen3vl_merger", "qwen3_5", hybrid_text, qwen3_tower, "qwen35"},
    {"qwen35moe", "qwen3vl_merger", "qwen3_5_moe", hybrid_text, qwen3_tower, "qwen35"},
    {"deepseek2", "kimivl", "kimi_vl", mla_text, moon_tower, "kimivl"},
    {"glm4", "glm4v", "glm_ocr", glm_text, glm_tower, "glmocr"},
    {"qwen3", "lightonocr", "lighton_ocr", qwen_text, pixtral_tower, "lightonocr"},
    {"qwen2", "dots_ocr", "dots_ocr", qwen_text, dots_tower, "dotsocr"},
    {"paddleocr", "paddleocr", "paddleocr_vl", qwen_text, siglip_tower, "paddleocr"},
};
#define KNOWN                                                                                                                  \
  "qwen2vl with qwen2vl_merger or qwen2.5vl_merger, qwen3vl, qwen3vlmoe, qwen35 and qwen35moe with qwen3vl_merger, deepseek2 " \
  "with kimivl, glm4 with glm4v, qwen3 with lightonocr, qwen2 with dots_ocr, paddleocr with paddleocr"

static bool is_text(struct ommai_gguf_text text, const char *expected) {
  return text.size == strlen(expected) && memcmp(text.bytes, expected, text.size) == 0;
}

/* The name that the converter gave the language model, in small letters and digits. */
static enum omma_status read_name(const struct ommai_gguf *file, char out[64], struct omma_error *error) {
  struct ommai_gguf_text text = {0};
  size_t n = 0;
  OMMAI_TRY(ommai_gguf_string(file, "general.name", false, &text, error));
  OMMAI_TRY(ommai_gguf_string(file, "general.basename", false, &text, error));
  for (size_t i = 0; i < text.size && n < 63; i++) {
    char letter = text.bytes[i] >= 'A' && text.bytes[i] <= 'Z' ? (char)(text.bytes[i] | 0x20) : text.bytes[i];
    if ((letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9')) out[n++] = letter;
  }
  out[n] = '\0';
  return OMMA_OK;
}

/* Two series may share an architecture, and towers of equal widths: then the language model's name
 * tells them apart, where it says its series. */
static enum omma_status check_series(const struct ommai_gguf_files *files, const struct ommai_gguf_architecture *found,
                                     struct omma_error *error) {
  char name[64];
  OMMAI_TRY(read_name(files->parts[0], name, error));
  for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
    const struct ommai_gguf_architecture *other = &architectures[i];
    if (strcmp(other->name, found->name) != 0 || strcmp(other->series, found->series) == 0) continue;
    if (!strstr(name, other->series) || strstr(name, found->series)) continue;
    return ommai_fail(error, OMMA_ERROR_FORMAT,
                      "%.200s: the mmproj %.200s does not belong to this model: by its name it needs a tower of %s, found %s",
                      ommai_gguf_path(files->parts[0]), ommai_gguf_path(files->mmproj), other->projector, found->projector);
  }
  return OMMA_OK;
}

enum omma_status ommai_gguf_architecture_find(const struct ommai_gguf_files *files,
                                              const struct ommai_gguf_architecture **architecture, struct omma_error *error) {
  struct ommai_gguf_text name = {0}, projector = {0};
  const char *key = "clip.projector_type";
  OMMAI_TRY(ommai_gguf_string(files->parts[0], "general.architecture", true, &name, error));
  /* of files that hear as well */
  if (!ommai_gguf_has(files->mmproj, key)) key = "clip.vision.projector_type";
  OMMAI_TRY(ommai_gguf_string(files->mmproj, key, true, &projector, error));
  for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
    *architecture = &architectures[i];
    if (is_text(name, architectures[i].name) && is_text(projector, architectures[i].projector)) {
      return check_series(files, *architecture, error);
    }
  }
  return ommai_fail(error, OMMA_ERROR_UNSUPPORTED,
                    "%.200s: architecture \"%.*s\" with projector \"%.*s\" is not supported; known: " KNOWN,
                    ommai_gguf_path(files->parts[0]), (int)(name.size < 40 ? name.size : 40), name.bytes,
                    (int)(projector.size < 40 ? projector.size : 40), projector.bytes);
}
