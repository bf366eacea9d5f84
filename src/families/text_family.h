/* Families of language models: where their keys stand in config.json, and how their tensors are
 * named. Several model families share one. */
#pragma once

#include "base/json.h"
#include "families/weight_loader.h"
#include "language/decoder.h"

struct ommai_text_family {
  /* Reads the text part of config.json (root; `path` for messages). All but n_deepstack is filled
   * in. Errors: FORMAT, UNSUPPORTED. */
  enum omma_status (*parse)(const struct ommai_text_family *family, const json_t *root, const char *path,
                            struct ommai_decoder_config *config, struct omma_error *error);

  /* Names every tensor to the loader, which fills `decoder` when it packs. */
  enum omma_status (*load)(const struct ommai_text_family *family, struct ommai_weight_loader *loader,
                           struct ommai_decoder *decoder, struct omma_error *error);

  /* of tensors: the release's; and others that are taken where the checkpoint has them */
  const char *prefixes[4];

  /* What follows is read by grouped_decoder.c alone. */
  bool top_level;     /* without text_config the keys are at the top level */
  bool qkv_bias;      /* of q, k and v */
  bool windows;       /* layers may see a window alone */
  bool qk_norm;       /* RMSNorm of each head's q and k */
  bool rope_pairs;    /* neighbours of a head turn together */
  bool branch_norms;  /* what o and down give is normed before it is added */
  bool fused_gate_up; /* gate and up are one tensor */
  bool experts;       /* MoE layers */
  /* most layers are gated delta nets, the others have output gates; norms multiply by 1 + weight,
   * and a shared expert has a gate (hybrid_layers.h) */
  bool hybrid;
  /* heads have a key of their own, head_dim; else they are hidden_size / num_attention_heads
   * wide */
  bool head_dim_key;
  int64_t head_dim;            /* where that key is missing; 0: hidden_size / num_attention_heads */
  double norm_eps, rope_theta; /* where their keys are missing */
  double partial_rotary;       /* likewise; 0: 1, and no other is taken */
  int64_t mrope_section[3];    /* likewise */
  bool mrope_interleaved;      /* likewise */
  bool rope_1d;                /* one axis of positions: no sections */
  bool tied;                   /* the output layer is the table of embeddings; likewise */
};

/* biased q, k, v; contiguous M-RoPE sections */
extern const struct ommai_text_family ommai_text_qwen2;
/* normed q and k, own head_dim, interleaved sections */
extern const struct ommai_text_family ommai_text_qwen3;
extern const struct ommai_text_family ommai_text_qwen3_moe; /* the same with MoE layers */
/* hybrid, with a part of each head rotated */
extern const struct ommai_text_family ommai_text_qwen3_5;
extern const struct ommai_text_family ommai_text_qwen3_5_moe;
/* qwen3's layers and qwen2's, whose positions have one axis */
extern const struct ommai_text_family ommai_text_qwen3_1d;
extern const struct ommai_text_family ommai_text_qwen2_1d;
/* no biases, no norms of q and k; contiguous sections */
extern const struct ommai_text_family ommai_text_ernie;
/* pairs of neighbours, norms after attention and feed-forward part; contiguous sections */
extern const struct ommai_text_family ommai_text_glm;
/* MLA, sigmoid router, shared experts, rope_1d */
extern const struct ommai_text_family ommai_text_deepseek;
