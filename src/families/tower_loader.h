/* The vision towers of all families: their sizes in config.json, and their tensors by a table of
 * names. */
#pragma once

#include "base/json.h"
#include "families/weight_loader.h"
#include "vision/vision_tower.h"

/* How a family's vision_config spells the sizes. NULL: it has no such key, the value is the
 * family's own. */
struct ommai_tower_keys {
  const char *depth, *hidden_size, *n_heads;
  const char *intermediate_size; /* NULL: it is hidden_size * mlp_ratio */
  const char *out_hidden_size;   /* NULL: the width of the language model */
  const char *temporal_patch_size, *merge_size, *in_channels[2];
  const char *rope;        /* an object with rope_theta */
  const char *expected[2]; /* a key and the string that it must have where it is given */
  /* sizes that are missing are errors; else they are the official class's defaults */
  bool required;
};

/* As all Qwen families spell them. */
#define OMMAI_QWEN_TOWER_KEYS                                                                                                 \
  .depth = "depth", .n_heads = "num_heads", .temporal_patch_size = "temporal_patch_size", .merge_size = "spatial_merge_size", \
  .in_channels = {"in_channels", "in_chans"}, .rope = "rope_parameters"

/* As most models of transformers spell them. */
#define OMMAI_PLAIN_TOWER_KEYS                                                                  \
  .depth = "num_hidden_layers", .hidden_size = "hidden_size", .n_heads = "num_attention_heads", \
  .intermediate_size = "intermediate_size"

/* Reads the keys of vision_config into `config`, where what is missing stays as it is. Errors:
 * FORMAT, UNSUPPORTED. */
enum omma_status ommai_tower_parse(const json_t *vision, const char *where, const struct ommai_tower_keys *keys,
                                   struct ommai_vision_config *config, struct omma_error *error);

/* Fills head_dim and checks what the tower's code relies on: heads of a multiple of 4, merge sizes
 * that divide every tile of rows. Errors: FORMAT, UNSUPPORTED. */
enum omma_status ommai_tower_check_sizes(const char *where, struct ommai_vision_config *config, struct omma_error *error);

/* Names of a merger's parts, as far as the config has them. */
struct ommai_merger_names {
  const char *norm, *fc1, *fc2;
  const char *up;     /* where it is gated; fc1 is the gate then */
  const char *reduce; /* [.., h, merge, merge], with a bias */
  const char *project, *projected_norm;
  bool unbiased; /* the linear layers but `reduce` have no biases */
  /* `reduce` is [.., h * merge^2] and has no bias */
  bool flat_reduce;
};

/* What a family calls its tensors. Names are without `.weight` and `.bias` and follow a prefix. */
struct ommai_tower_names {
  /* the release's; and others that are taken where the checkpoint has its patch embedding */
  const char *prefixes[4];
  const char *patch_embed;
  int patch_embed_dims; /* of the convolution's weight: 5 with a time axis, 4 without */
  bool patch_embed_bias;
  /* where the config has learned positions */
  const char *position_table;
  /* 2: [rows * columns, h]; 3: [rows, columns, h] */
  int position_dims;
  const char *entry_norm; /* where the config has one */
  /* `.N.` and one of the next nine names follow */
  const char *block;
  bool unbiased; /* the linear layers of blocks have no biases */
  /* up: where the feed-forward is gated; fc1 is the gate then */
  const char *norm1, *norm2, *qkv, *proj, *fc1, *up, *fc2;
  const char *q_norm, *k_norm; /* where the config has them */
  /* q, k and v, where the checkpoint has them and not qkv, or qkv is NULL; NULL: it never has */
  const char *apart[3];
  const char *final_norm; /* where the config has one */
  struct ommai_merger_names merger;
  /* its names with the other prefix, where they differ; NULL: they do not */
  const struct ommai_merger_names *other_merger;
  const char *deepstack; /* `.J.` and a name of deepstack_merger follow */
  struct ommai_merger_names deepstack_merger;
};

/* Names every tensor of the tower to the loader, which fills `tower` when it packs (tower->blocks
 * is allocated then). */
enum omma_status ommai_tower_load(struct ommai_weight_loader *loader, const struct ommai_tower_names *names,
                                  struct ommai_vision_tower *tower, struct omma_error *error);
