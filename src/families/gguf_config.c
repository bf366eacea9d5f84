#include "families/gguf_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "families/family.h"
#include "families/gguf_views.h"

enum { KEY_SIZE = OMMAI_GGUF_MAX_NAME + 1 };

/* ---- from keys to JSON ---- */

/* A document under construction: keys of `file`, below `prefix`, go into `object`. The first
 * failure stays, and what follows does nothing. */
struct draft {
  const struct ommai_gguf *file;
  const char *prefix;
  json_t *root, *object;
  enum omma_status status;
  struct omma_error *error;
};

static void set(struct draft *draft, const char *name, json_t *value) {
  if (draft->status != OMMA_OK) {
    json_decref(value);
  } else if (!value || json_object_set_new(draft->object, name, value) != 0) {
    draft->status = ommai_fail_memory(draft->error, name, sizeof(json_t));
  }
}

static const char *full_key(const struct draft *draft, const char *key, char out[KEY_SIZE]) {
  snprintf(out, KEY_SIZE, "%s.%s", draft->prefix, key);
  return out;
}

static int64_t get_integer(struct draft *draft, const char *key, bool required, int64_t otherwise) {
  char full[KEY_SIZE];
  if (draft->status != OMMA_OK) return otherwise;
  draft->status = ommai_gguf_integer(draft->file, full_key(draft, key, full), required, 0, INT32_MAX, &otherwise, draft->error);
  return otherwise;
}

static bool has(const struct draft *draft, const char *key) {
  char full[KEY_SIZE];
  return ommai_gguf_has(draft->file, full_key(draft, key, full));
}

static void fail_key(struct draft *draft, const char *key, const char *expected) {
  char full[KEY_SIZE];
  if (draft->status != OMMA_OK) return;
  draft->status = ommai_fail_field(draft->error, OMMA_ERROR_UNSUPPORTED, key, "%.200s: key \"%s\": expected %s",
                                   ommai_gguf_path(draft->file), full_key(draft, key, full), expected);
}

/* A number of an f32 key as the decimal that it was written from: the shortest one that gives the
 * same f32. */
static double shortest(double value) {
  char text[40];
  for (int digits = 6; digits < 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    double decimal = strtod(text, NULL);
    if ((float)decimal == (float)value) return decimal;
  }
  return value;
}

enum kind { INTEGER, NUMBER, BOOLEAN };

struct copied {
  const char *from, *to;
  enum kind kind;
  bool required;
};

static void copy(struct draft *draft, const struct copied *copied) {
  char full[KEY_SIZE];
  double number = 0;
  bool flag = false;
  if (draft->status != OMMA_OK || (!copied->required && !has(draft, copied->from))) return;
  const char *key = full_key(draft, copied->from, full);
  if (copied->kind == INTEGER) {
    int64_t value = get_integer(draft, copied->from, true, 0);
    set(draft, copied->to, json_integer(value));
  } else if (copied->kind == NUMBER) {
    draft->status = ommai_gguf_number(draft->file, key, true, &number, draft->error);
    set(draft, copied->to, json_real(shortest(number)));
  } else {
    draft->status = ommai_gguf_boolean(draft->file, key, true, &flag, draft->error);
    set(draft, copied->to, json_boolean(flag));
  }
}

static void copy_all(struct draft *draft, const struct copied *list, size_t n) {
  for (size_t i = 0; i < n; i++) copy(draft, &list[i]);
}
#define COPY_ALL(draft, list) copy_all(draft, list, sizeof(list) / sizeof *(list))

/* An array of numbers, at most `limit` of them; nothing where the key is missing. */
static void copy_numbers(struct draft *draft, const char *from, const char *to, uint64_t limit, bool whole) {
  char full[KEY_SIZE];
  struct ommai_gguf_array array;
  if (draft->status != OMMA_OK || !has(draft, from)) return;
  draft->status = ommai_gguf_numbers(draft->file, full_key(draft, from, full), true, &array, draft->error);
  if (array.count > limit) array.left = limit;
  json_t *list = json_array();
  while (draft->status == OMMA_OK && array.left) {
    double value = ommai_gguf_next_number(&array);
    json_t *entry = !(value >= -1e9 && value <= 1e9) ? NULL
                    : whole                          ? json_integer((json_int_t)value)
                                                     : json_real(shortest(value));
    if (!entry) fail_key(draft, from, "numbers");
    if (entry && json_array_append_new(list, entry) != 0) draft->status = ommai_fail_memory(draft->error, to, sizeof(json_t));
  }
  set(draft, to, list);
}

/* A new object inside the document that `draft` then works on; the caller goes back to the old
 * one. */
static json_t *enter(struct draft *draft, const char *name) {
  json_t *outer = draft->object, *inner = json_object();
  set(draft, name, inner);
  if (draft->status == OMMA_OK) draft->object = inner;
  return outer;
}

/* ---- config.json ---- */

/* The length of a tensor's dimension that the model cannot be without. */
static int64_t length_of(struct draft *draft, const struct ommai_gguf_tensor *tensor, const char *name, int dimension) {
  if (draft->status != OMMA_OK) return 0;
  if (tensor && tensor->n_dims == 2) return tensor->shape[dimension];
  draft->status = ommai_fail(draft->error, OMMA_ERROR_FORMAT, "%.200s: tensor \"%s\" is missing or no matrix",
                             ommai_gguf_path(draft->file), name);
  return 0;
}

/* The rotation of the text: its base, its sections for models that have them, and its scaling. */
static void make_rope(struct draft *draft) {
  static const char *const unread[] = {"rope.scaling.attn_factor",     "rope.scaling.yarn_log_multiplier",
                                       "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor",
                                       "rope.scaling.yarn_beta_fast",  "rope.scaling.yarn_beta_slow"};
  static const struct copied keys[] = {
      {"rope.scaling.factor", "factor", NUMBER, true},
      {"rope.scaling.original_context_length", "original_max_position_embeddings", INTEGER, false}};
  struct ommai_gguf_text kind = {"none", 4};
  char full[KEY_SIZE], name[16];
  json_t *outer = enter(draft, "rope_parameters");
  copy(draft, &(const struct copied){"rope.freq_base", "rope_theta", NUMBER, false});
  copy_numbers(draft, "rope.dimension_sections", "mrope_section", 3, true);
  if (draft->status == OMMA_OK) {
    draft->status = ommai_gguf_string(draft->file, full_key(draft, "rope.scaling.type", full), false, &kind, draft->error);
  }
  snprintf(name, sizeof name, "%.*s", (int)(kind.size < sizeof name ? kind.size : sizeof name - 1), kind.bytes);
  bool none = strcmp(name, "none") == 0 || strcmp(name, "") == 0;
  set(draft, "rope_type", json_string(none ? "default" : name));
  for (size_t i = 0; i < sizeof unread / sizeof *unread && !none; i++) {
    if (has(draft, unread[i])) fail_key(draft, unread[i], "no such key: this change of the scaling is not supported");
  }
  if (!none) COPY_ALL(draft, keys);
  draft->object = outer;
}

/* Keys that all language models share. */
static void make_text(struct draft *draft, const struct ommai_gguf_files *files) {
  static const struct copied keys[] = {
      {"block_count", "num_hidden_layers", INTEGER, true},
      {"context_length", "max_position_embeddings", INTEGER, true},
      {"embedding_length", "hidden_size", INTEGER, true},
      {"attention.head_count", "num_attention_heads", INTEGER, true},
      {"attention.layer_norm_rms_epsilon", "rms_norm_eps", NUMBER, true},
      {"expert_feed_forward_length", "moe_intermediate_size", INTEGER, false},
      {"expert_used_count", "num_experts_per_tok", INTEGER, false},
  };
  COPY_ALL(draft, keys);
  /* models whose layers are all routed, with an expert for all rows, have none */
  bool dense = !has(draft, "expert_shared_feed_forward_length");
  copy(draft, &(const struct copied){"feed_forward_length", "intermediate_size", INTEGER, dense});
  set(draft, "vocab_size",
      json_integer(length_of(draft, ommai_gguf_files_find(files, "token_embd.weight"), "token_embd.weight", 0)));
  make_rope(draft);
}

static void append(struct draft *draft, json_t *list, int64_t value) {
  if (draft->status != OMMA_OK || json_array_append_new(list, json_integer(value)) == 0) return;
  draft->status = ommai_fail_memory(draft->error, "a list", sizeof(json_t));
}

static bool has_matrix(const struct ommai_gguf_files *files, int64_t layer, const char *stem) {
  char name[64];
  snprintf(name, sizeof name, "blk.%lld.%s.weight", (long long)layer, stem);
  return ommai_gguf_files_find(files, name);
}

/* Layers of a mixture that have no router. */
static void list_dense_layers(struct draft *draft, const struct ommai_gguf_files *files) {
  json_t *list = json_array();
  int64_t n = ommai_min_i64(get_integer(draft, "block_count", true, 0), OMMAI_CONFIG_MAX_LAYERS);
  for (int64_t i = 0; i < n; i++) {
    if (!has_matrix(files, i, "ffn_gate_inp")) append(draft, list, i);
  }
  set(draft, "mlp_only_layers", list);
}

static void make_grouped_text(struct draft *draft, const struct ommai_gguf_files *files) {
  static const struct copied keys[] = {{"attention.head_count_kv", "num_key_value_heads", INTEGER, true},
                                       {"attention.key_length", "head_dim", INTEGER, false},
                                       {"expert_count", "num_experts", INTEGER, false}};
  make_text(draft, files);
  COPY_ALL(draft, keys);
  if (has(draft, "expert_count")) list_dense_layers(draft, files);
}

/* Norms before and after each branch. The layers counted include those that draft. */
static void make_sandwich_text(struct draft *draft, const struct ommai_gguf_files *files) {
  struct ommai_gguf_heads heads = {0};
  make_grouped_text(draft, files);
  int64_t n_layers = get_integer(draft, "block_count", true, 0) - get_integer(draft, "nextn_predict_layers", false, 0);
  if (draft->status == OMMA_OK) draft->status = ommai_gguf_heads_read(draft->file, &heads, draft->error);
  int64_t rotated = get_integer(draft, "rope.dimension_count", false, heads.head_dim);
  /* of others the pairs lie elsewhere in the file */
  if (rotated != heads.head_dim) fail_key(draft, "rope.dimension_count", "all of a head");
  set(draft, "num_hidden_layers", json_integer(n_layers));
}

/* Which layers are gated delta nets, where the file says so; else full_attention_interval does. */
static void list_layer_types(struct draft *draft, int64_t n_layers) {
  char full[KEY_SIZE];
  struct ommai_gguf_array array;
  if (draft->status != OMMA_OK || !has(draft, "attention.recurrent_layers")) return;
  draft->status =
      ommai_gguf_numbers(draft->file, full_key(draft, "attention.recurrent_layers", full), true, &array, draft->error);
  json_t *list = json_array();
  for (int64_t i = 0; draft->status == OMMA_OK && i < n_layers && array.left; i++) {
    const char *type = ommai_gguf_next_number(&array) != 0 ? "linear_attention" : "full_attention";
    if (json_array_append_new(list, json_string(type)) != 0) {
      draft->status = ommai_fail_memory(draft->error, "layer_types", sizeof(json_t));
    }
  }
  set(draft, "layer_types", list);
}

/* Gated delta nets between layers that see all. The layers counted include those that draft. */
static void make_hybrid_text(struct draft *draft, const struct ommai_gguf_files *files) {
  static const struct copied keys[] = {
      {"attention.head_count_kv", "num_key_value_heads", INTEGER, true},
      {"attention.key_length", "head_dim", INTEGER, true},
      {"full_attention_interval", "full_attention_interval", INTEGER, false},
      {"ssm.conv_kernel", "linear_conv_kernel_dim", INTEGER, true},
      {"ssm.state_size", "linear_key_head_dim", INTEGER, true},
      {"ssm.group_count", "linear_num_key_heads", INTEGER, true},
      {"ssm.time_step_rank", "linear_num_value_heads", INTEGER, true},
      {"expert_count", "num_experts", INTEGER, false},
      {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", INTEGER, false},
  };
  make_text(draft, files);
  COPY_ALL(draft, keys);
  int64_t n_drafting = get_integer(draft, "nextn_predict_layers", false, 0);
  int64_t n_layers = get_integer(draft, "block_count", true, 0) - n_drafting;
  int64_t n_heads = get_integer(draft, "ssm.time_step_rank", true, 0), values = get_integer(draft, "ssm.inner_size", true, 0);
  int64_t head_dim = get_integer(draft, "attention.key_length", true, 0);
  int64_t rotated = get_integer(draft, "rope.dimension_count", true, 0);
  if (n_heads < 1 || values % n_heads) fail_key(draft, "ssm.inner_size", "a multiple of ssm.time_step_rank");
  if (head_dim < 1) fail_key(draft, "attention.key_length", "1 or more");
  set(draft, "num_hidden_layers", json_integer(n_layers));
  if (draft->status != OMMA_OK) return;
  set(draft, "linear_value_head_dim", json_integer(values / n_heads));
  set(draft, "partial_rotary_factor", json_real((double)rotated / (double)head_dim));
  list_layer_types(draft, n_layers);
  bool own = has_matrix(files, n_layers, "nextn.embed_tokens") || has_matrix(files, n_layers, "nextn.shared_head_head");
  set(draft, "mtp_num_hidden_layers", json_integer(n_drafting));
  set(draft, "mtp_use_dedicated_embeddings", json_boolean(own));
}

/* Heads with latent keys and values. Files whose kv_b is in one piece call a head's own lengths
 * key_length and value_length; those that split it call so the lengths of what decoding reads. */
static void make_mla_text(struct draft *draft, const struct ommai_gguf_files *files) {
  enum { SIGMOID = 2 };
  static const struct copied keys[] = {{"attention.q_lora_rank", "q_lora_rank", INTEGER, false},
                                       {"attention.kv_lora_rank", "kv_lora_rank", INTEGER, true},
                                       {"rope.dimension_count", "qk_rope_head_dim", INTEGER, true},
                                       {"expert_count", "n_routed_experts", INTEGER, true},
                                       {"expert_shared_count", "n_shared_experts", INTEGER, false},
                                       {"expert_group_count", "n_group", INTEGER, false},
                                       {"expert_group_used_count", "topk_group", INTEGER, false},
                                       {"leading_dense_block_count", "first_k_dense_replace", INTEGER, false},
                                       {"expert_weights_scale", "routed_scaling_factor", NUMBER, false}};
  bool apart = has(draft, "attention.key_length_mla"), normalise = false;
  make_text(draft, files);
  COPY_ALL(draft, keys);
  int64_t key = get_integer(draft, apart ? "attention.key_length_mla" : "attention.key_length", true, 0);
  int64_t value = get_integer(draft, apart ? "attention.value_length_mla" : "attention.value_length", true, 0);
  set(draft, "qk_nope_head_dim", json_integer(key - get_integer(draft, "rope.dimension_count", true, 0)));
  set(draft, "v_head_dim", json_integer(value));
  char full[KEY_SIZE];
  if (draft->status == OMMA_OK) {
    draft->status =
        ommai_gguf_boolean(draft->file, full_key(draft, "expert_weights_norm", full), false, &normalise, draft->error);
  }
  set(draft, "norm_topk_prob", json_boolean(normalise));
  if (get_integer(draft, "expert_gating_func", true, 0) != SIGMOID) fail_key(draft, "expert_gating_func", "2, sigmoid");
}

/* Sizes that the towers of the Qwen families share. */
static void make_tower(struct draft *draft) {
  static const struct copied keys[] = {{"block_count", "depth", INTEGER, true},
                                       {"embedding_length", "hidden_size", INTEGER, true},
                                       {"feed_forward_length", "intermediate_size", INTEGER, true},
                                       {"attention.head_count", "num_heads", INTEGER, true},
                                       {"patch_size", "patch_size", INTEGER, true},
                                       {"projection_dim", "out_hidden_size", INTEGER, true},
                                       {"spatial_merge_size", "spatial_merge_size", INTEGER, false}};
  COPY_ALL(draft, keys);
}

/* What converters write as feed_forward_length of this tower is the language model's width: the
 * tensors have the true one. */
static void make_ungated_tower(struct draft *draft) {
  static const char name[] = "v.blk.0.ffn_up.weight";
  static const struct copied keys[] = {{"block_count", "depth", INTEGER, true},
                                       {"embedding_length", "embed_dim", INTEGER, true},
                                       {"attention.head_count", "num_heads", INTEGER, true},
                                       {"patch_size", "patch_size", INTEGER, true},
                                       {"projection_dim", "hidden_size", INTEGER, true},
                                       {"spatial_merge_size", "spatial_merge_size", INTEGER, false}};
  COPY_ALL(draft, keys);
  int64_t width = get_integer(draft, "embedding_length", true, 0);
  int64_t intermediate = length_of(draft, ommai_gguf_find(draft->file, name), name, 0);
  if (width > 0) set(draft, "mlp_ratio", json_real((double)intermediate / (double)width));
  set(draft, "hidden_act", json_string("quick_gelu"));
}

/* All blocks stay inside windows but every pattern-th. */
static void make_windowed_tower(struct draft *draft) {
  make_tower(draft);
  int64_t depth = get_integer(draft, "block_count", true, 0), pattern = get_integer(draft, "n_wa_pattern", true, 0);
  if (pattern < 1) fail_key(draft, "n_wa_pattern", "1 or more");
  json_t *full = json_array();
  /* which is refused where the document is read */
  if (depth > OMMAI_VISION_MAX_DEPTH) depth = OMMAI_VISION_MAX_DEPTH;
  for (int64_t i = pattern; pattern > 0 && i <= depth; i += pattern) {
    append(draft, full, i - 1);
  }
  set(draft, "fullatt_block_indexes", full);
  copy(draft, &(const struct copied){"window_size", "window_size", INTEGER, false});
  set(draft, "hidden_act", json_string("silu"));
  set(draft, "tokens_per_second", json_integer(2)); /* of all released checkpoints */
}

static void make_deepstack_tower(struct draft *draft) {
  int64_t layers[OMMAI_VISION_MAX_DEPTH], n = ommai_gguf_merger_layers(draft->file, layers);
  json_t *list = json_array();
  make_tower(draft);
  for (int64_t i = 0; i < n; i++) append(draft, list, layers[i]);
  set(draft, "deepstack_visual_indexes", list);
  set(draft, "num_position_embeddings",
      json_integer(length_of(draft, ommai_gguf_find(draft->file, "v.position_embd.weight"), "v.position_embd.weight", 0)));
  set(draft, "hidden_act", json_string("gelu_pytorch_tanh"));
}

/* The language model says how many of the tower's layers it gets rows of. */
static void check_mergers(struct draft *draft, const struct ommai_gguf_files *files) {
  int64_t layers[OMMAI_VISION_MAX_DEPTH], found = ommai_gguf_merger_layers(files->mmproj, layers);
  int64_t wanted = get_integer(draft, "n_deepstack_layers", false, found);
  if (draft->status != OMMA_OK || wanted == found) return;
  draft->status = ommai_fail(draft->error, OMMA_ERROR_FORMAT,
                             "%.200s: the mmproj %.200s does not belong to this model: n_deepstack_layers is %lld, the mmproj "
                             "has v.deepstack of %lld layers",
                             ommai_gguf_path(draft->file), ommai_gguf_path(files->mmproj), (long long)wanted, (long long)found);
}

/* Sizes of towers whose keys have the names that most models of transformers use. */
static void make_plain_tower(struct draft *draft) {
  static const struct copied keys[] = {{"block_count", "num_hidden_layers", INTEGER, true},
                                       {"embedding_length", "hidden_size", INTEGER, true},
                                       {"feed_forward_length", "intermediate_size", INTEGER, true},
                                       {"attention.head_count", "num_attention_heads", INTEGER, true},
                                       {"patch_size", "patch_size", INTEGER, true}};
  COPY_ALL(draft, keys);
}

/* The side of the square table of positions; that it is a square is checked with the tensor. */
static int64_t position_side(struct draft *draft) {
  int64_t side = 0;
  int64_t rows = length_of(draft, ommai_gguf_find(draft->file, "v.position_embd.weight"), "v.position_embd.weight", 0);
  while (side * side < rows && side < OMMAI_CONFIG_MAX_HEADS) side++;
  return side;
}

static void make_moon_tower(struct draft *draft) {
  make_plain_tower(draft);
  int64_t merge = get_integer(draft, "projector.scale_factor", true, 0), side = position_side(draft);
  set(draft, "init_pos_emb_height", json_integer(side));
  set(draft, "init_pos_emb_width", json_integer(side));
  set(draft, "merge_kernel_size", json_pack("[I, I]", (json_int_t)merge, (json_int_t)merge));
  set(draft, "model_type", json_string("moonvit"));
}

/* Normed heads and a gated merger, whose sizes follow from the widths. */
static void make_normed_tower(struct draft *draft) {
  make_tower(draft);
  copy(draft, &(const struct copied){"attention.layer_norm_epsilon", "rms_norm_eps", NUMBER, false});
  set(draft, "hidden_act", json_string("silu"));
}

/* How many patches are merged stands outside of vision_config. */
static void make_pixtral_tower(struct draft *draft) {
  json_t *inner = draft->object;
  make_plain_tower(draft);
  set(draft, "hidden_act", json_string("silu"));
  draft->object = draft->root;
  copy(draft, &(const struct copied){"spatial_merge_size", "spatial_merge_size", INTEGER, false});
  draft->object = inner;
}

static void make_siglip_tower(struct draft *draft) {
  make_plain_tower(draft);
  copy(draft, &(const struct copied){"attention.layer_norm_epsilon", "layer_norm_eps", NUMBER, false});
  set(draft, "image_size", json_integer(position_side(draft) * get_integer(draft, "patch_size", true, 0)));
  set(draft, "hidden_act", json_string("gelu_pytorch_tanh"));
}

/* What converters write as embedding_length of this tower is the language model's width: the
 * tensors have the true one. */
static void make_trunk_tower(struct draft *draft) {
  static const char name[] = "v.blk.0.attn_out.weight";
  static const struct copied keys[] = {{"block_count", "num_hidden_layers", INTEGER, true},
                                       {"feed_forward_length", "intermediate_size", INTEGER, true},
                                       {"attention.head_count", "num_attention_heads", INTEGER, true},
                                       {"patch_size", "patch_size", INTEGER, true},
                                       {"projection_dim", "hidden_size", INTEGER, true},
                                       {"projector.scale_factor", "spatial_merge_size", INTEGER, false},
                                       {"attention.layer_norm_epsilon", "rms_norm_eps", NUMBER, false}};
  COPY_ALL(draft, keys);
  set(draft, "embed_dim", json_integer(length_of(draft, ommai_gguf_find(draft->file, name), name, 0)));
  set(draft, "post_norm", json_boolean(ommai_gguf_find(draft->file, "mm.post_norm.weight") != NULL));
}

/* ---- tokens ---- */

/* The ids of some tokens; -1 where there is none of that text. */
static enum omma_status find_tokens(const struct ommai_gguf *file, const char *const *texts, int64_t *ids, size_t n,
                                    struct omma_error *error) {
  struct ommai_gguf_array tokens;
  for (size_t i = 0; i < n; i++) ids[i] = -1;
  OMMAI_TRY(ommai_gguf_strings(file, "tokenizer.ggml.tokens", true, &tokens, error));
  while (tokens.left) {
    int64_t id = (int64_t)(tokens.count - tokens.left);
    struct ommai_gguf_text text = ommai_gguf_next_string(&tokens);
    for (size_t i = 0; i < n; i++) {
      if (text.size == strlen(texts[i]) && memcmp(text.bytes, texts[i], text.size) == 0) ids[i] = id;
    }
  }
  return OMMA_OK;
}

/* ---- how the parts of an architecture are made ---- */

/* What a family needs besides its files. */
struct maker {
  const char *model_type;
  void (*text)(struct draft *draft, const struct ommai_gguf_files *files);
  void (*tower)(struct draft *draft);
  struct {
    const char *key, *token;
  } places[2];          /* of images and videos in prompts, by the token's text */
  const char *stops[2]; /* tokens that end an answer, besides what the file calls so */
};

static const struct maker makers[] = {
    {"qwen2_vl",
     make_grouped_text,
     make_ungated_tower,
     {{"image_token_id", "<|image_pad|>"}, {"video_token_id", "<|video_pad|>"}},
     {"<|im_end|>", "<|endoftext|>"}},
    {"qwen2_5_vl",
     make_grouped_text,
     make_windowed_tower,
     {{"image_token_id", "<|image_pad|>"}, {"video_token_id", "<|video_pad|>"}},
     {"<|im_end|>", "<|endoftext|>"}},
    {"qwen3_vl",
     make_grouped_text,
     make_deepstack_tower,
     {{"image_token_id", "<|image_pad|>"}, {"video_token_id", "<|video_pad|>"}},
     {"<|im_end|>", "<|endoftext|>"}},
    {"qwen3_vl_moe",
     make_grouped_text,
     make_deepstack_tower,
     {{"image_token_id", "<|image_pad|>"}, {"video_token_id", "<|video_pad|>"}},
     {"<|im_end|>", "<|endoftext|>"}},
    {"qwen3_5",
     make_hybrid_text,
     make_deepstack_tower,
     {{"image_token_id", "<|image_pad|>"}, {"video_token_id", "<|video_pad|>"}},
     {"<|im_end|>", "<|endoftext|>"}},
    {"qwen3_5_moe",
     make_hybrid_text,
     make_deepstack_tower,
     {{"image_token_id", "<|image_pad|>"}, {"video_token_id", "<|video_pad|>"}},
     {"<|im_end|>", "<|endoftext|>"}},
    {"kimi_vl", make_mla_text, make_moon_tower, {{"media_placeholder_token_id", "<|media_pad|>"}}, {"<|im_end|>", "[EOS]"}},
    {"glm_ocr", make_sandwich_text, make_normed_tower, {{"image_token_id", "<|image|>"}}, {"<|endoftext|>", "<|user|>"}},
    {"lighton_ocr",
     make_grouped_text,
     make_pixtral_tower,
     {{"image_token_id", "<|image_pad|>"}},
     {"<|im_end|>", "<|endoftext|>"}},
    {"dots_ocr",
     make_grouped_text,
     make_trunk_tower,
     {{"image_token_id", "<|imgpad|>"}},
     {"<|endoftext|>", "<|endofassistant|>"}},
    {"paddleocr_vl",
     make_grouped_text,
     make_siglip_tower,
     {{"image_token_id", "<|IMAGE_PLACEHOLDER|>"}},
     {"</s>", "<|end_of_sentence|>"}},
};

static const struct maker *find_maker(const char *model_type) {
  const struct maker *maker = makers;
  while (strcmp(maker->model_type, model_type) != 0) maker++; /* every architecture has one */
  return maker;
}

static void make_places(struct draft *draft, const struct maker *maker) {
  for (size_t i = 0; i < 2 && maker->places[i].key && draft->status == OMMA_OK; i++) {
    int64_t id;
    draft->status = find_tokens(draft->file, &maker->places[i].token, &id, 1, draft->error);
    if (draft->status == OMMA_OK && id < 0) {
      draft->status = ommai_fail(draft->error, OMMA_ERROR_FORMAT, "%.200s: tokenizer.ggml.tokens lacks %s",
                                 ommai_gguf_path(draft->file), maker->places[i].token);
    }
    set(draft, maker->places[i].key, json_integer(id));
  }
}

/* What estimates count with; what the tensors really have is seen when they are described. */
static const char *stored_type(const struct ommai_gguf_files *files) {
  const struct ommai_gguf_tensor *table = ommai_gguf_files_find(files, "token_embd.weight");
  enum ommai_tensor_type type = table ? table->format->plain : OMMAI_TENSOR_F32;
  return type == OMMAI_TENSOR_BF16 ? "bfloat16" : type == OMMAI_TENSOR_F16 ? "float16" : "float32";
}

static json_t *make_config(const struct ommai_gguf_files *files, const struct ommai_gguf_architecture *architecture,
                           enum omma_status *status, struct omma_error *error) {
  const struct maker *maker = find_maker(architecture->model_type);
  json_t *root = json_object();
  struct draft draft = {files->parts[0], architecture->name, root, root, root ? OMMA_OK : OMMA_ERROR_MEMORY, error};
  set(&draft, "model_type", json_string(architecture->model_type));
  set(&draft, "dtype", json_string(stored_type(files)));
  set(&draft, "tie_word_embeddings", json_boolean(!ommai_gguf_files_find(files, "output.weight")));
  if (has(&draft, "pooling_type")) set(&draft, "pooling_type", json_integer(get_integer(&draft, "pooling_type", false, 0)));
  make_places(&draft, maker);
  enter(&draft, "text_config");
  maker->text(&draft, files);
  check_mergers(&draft, files);
  draft.object = root;
  enter(&draft, "vision_config");
  draft.file = files->mmproj;
  draft.prefix = "clip.vision";
  maker->tower(&draft);
  *status = draft.status;
  return root;
}

/* ---- the other documents ---- */

/* The limit of an area as one of patches. */
static void limit_patches(struct draft *draft) {
  int64_t patch = get_integer(draft, "patch_size", true, 0), pixels = get_integer(draft, "image_max_pixels", false, 0);
  if (patch > 0 && pixels > 0) set(draft, "in_token_limit", json_integer(pixels / patch / patch));
}

/* The limit of an image's longer side, which `size` has instead of areas. */
static void limit_edge(struct draft *draft, json_t *size) {
  json_t *outer = draft->object;
  draft->object = size;
  copy(draft, &(const struct copied){"image_size", "longest_edge", INTEGER, false});
  draft->object = outer;
}

/* A published document with the mmproj's values in its place. */
static json_t *make_processor(const struct ommai_gguf_files *files, const char *published, bool images,
                              enum omma_status *status, struct omma_error *error) {
  json_t *root = json_loads(published, 0, NULL);
  struct draft draft = {files->mmproj, "clip.vision", root, root, root ? OMMA_OK : OMMA_ERROR_MEMORY, error};
  static const struct copied limits[] = {{"image_min_pixels", "min_pixels", INTEGER, false},
                                         {"image_max_pixels", "max_pixels", INTEGER, false}};
  copy_numbers(&draft, "image_mean", "image_mean", 3, false);
  copy_numbers(&draft, "image_std", "image_std", 3, false);
  json_t *size = json_object_get(root, "size");
  if (size && !json_object_get(size, "shortest_edge")) {
    limit_edge(&draft, size);
  } else if (images && json_object_get(root, "in_token_limit")) {
    limit_patches(&draft);
  } else if (images) {
    COPY_ALL(&draft, limits);
  }
  *status = draft.status;
  return root;
}

static void add_stop(struct draft *draft, json_t *list, int64_t id) {
  size_t i;
  const json_t *known;
  if (id < 0 || draft->status != OMMA_OK) return;
  json_array_foreach(list, i, known) {
    if (json_integer_value(known) == id) return;
  }
  append(draft, list, id);
}

static json_t *make_generation(const struct ommai_gguf_files *files, const struct maker *maker, enum omma_status *status,
                               struct omma_error *error) {
  static const struct copied sampling[] = {{"sampling.temp", "temperature", NUMBER, false},
                                           {"sampling.top_k", "top_k", INTEGER, false},
                                           {"sampling.top_p", "top_p", NUMBER, false},
                                           {"sampling.min_p", "min_p", NUMBER, false},
                                           {"sampling.penalty_repeat", "repetition_penalty", NUMBER, false}};
  json_t *root = json_object(), *stops = json_array();
  struct draft draft = {files->parts[0], "tokenizer.ggml", root, root, root && stops ? OMMA_OK : OMMA_ERROR_MEMORY, error};
  int64_t ids[2] = {-1, -1};
  int64_t eos = get_integer(&draft, "eos_token_id", false, -1), eot = get_integer(&draft, "eot_token_id", false, -1);
  if (draft.status == OMMA_OK) draft.status = find_tokens(draft.file, maker->stops, ids, 2, error);
  add_stop(&draft, stops, eos);
  add_stop(&draft, stops, eot);
  for (size_t i = 0; i < 2; i++) add_stop(&draft, stops, ids[i]);
  set(&draft, "eos_token_id", stops);
  draft.prefix = "general";
  COPY_ALL(&draft, sampling);
  *status = draft.status;
  return root;
}

/* The chat template. A file without one is as a checkpoint without one. */
static json_t *make_tokenizer_config(const struct ommai_gguf_files *files, enum omma_status *status, struct omma_error *error) {
  static const char key[] = "tokenizer.chat_template";
  const struct ommai_gguf *file = files->parts[0];
  struct ommai_gguf_text text;
  json_t *root = json_object();
  struct draft draft = {file, "", root, root, root ? OMMA_OK : OMMA_ERROR_MEMORY, error};
  if (draft.status == OMMA_OK && ommai_gguf_has(file, key)) {
    draft.status = ommai_gguf_string(file, key, true, &text, error);
    json_t *value = draft.status == OMMA_OK ? json_stringn(text.bytes, text.size) : NULL;
    if (draft.status == OMMA_OK && !value) {
      draft.status = ommai_fail(error, OMMA_ERROR_FORMAT, "%.200s: key \"%s\" is not UTF-8", ommai_gguf_path(file), key);
    }
    set(&draft, "chat_template", value);
  }
  *status = draft.status;
  return root;
}

/* Takes over `document`. */
static enum omma_status put(json_t *documents, const char *name, json_t *document, enum omma_status status,
                            struct omma_error *error) {
  if (status != OMMA_OK) {
    json_decref(document);
    return document ? status : ommai_fail_memory(error, name, sizeof(json_t));
  }
  return json_object_set_new(documents, name, document) == 0 ? OMMA_OK : ommai_fail_memory(error, name, sizeof(json_t));
}

static enum omma_status make_all(const struct ommai_gguf_files *files, const struct ommai_gguf_architecture *architecture,
                                 json_t *documents, struct omma_error *error) {
  const struct ommai_default_processor *published = ommai_family_find(architecture->model_type)->published;
  const struct maker *maker = find_maker(architecture->model_type);
  enum omma_status status;
  json_t *made = make_config(files, architecture, &status, error);
  OMMAI_TRY(put(documents, "config.json", made, status, error));
  made = make_processor(files, published->image, true, &status, error);
  OMMAI_TRY(put(documents, "preprocessor_config.json", made, status, error));
  if (published->video) {
    made = make_processor(files, published->video, false, &status, error);
    OMMAI_TRY(put(documents, "video_preprocessor_config.json", made, status, error));
  }
  made = make_generation(files, maker, &status, error);
  OMMAI_TRY(put(documents, "generation_config.json", made, status, error));
  made = make_tokenizer_config(files, &status, error);
  return put(documents, "tokenizer_config.json", made, status, error);
}

enum omma_status ommai_gguf_documents_make(const struct ommai_gguf_files *files,
                                           const struct ommai_gguf_architecture *architecture, json_t **documents,
                                           struct omma_error *error) {
  json_t *made = json_object();
  if (!made) return ommai_fail_memory(error, "documents", sizeof(json_t));
  enum omma_status status = make_all(files, architecture, made, error);
  if (status != OMMA_OK) {
    json_decref(made);
    return status;
  }
  *documents = made;
  return OMMA_OK;
}
