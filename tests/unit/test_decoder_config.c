/* Text configurations: the published sizes and what they weigh, both dialects, and one key changed
 * at a time. */
#include <stdlib.h>

#include "base/allocator.h"
#include "families/text_family.h"
#include "language/delta_net.h"
#include "language/experts.h"
#include "language/grouped_attention.h"
#include "language/kv_cache.h"
#include "language/mla.h"
#include "support/test.h"

#define DEEPSEEK &ommai_text_deepseek

static enum omma_status parse(const char *json, const struct ommai_text_family *family, struct ommai_decoder_config *config,
                              struct omma_error *error) {
  json_error_t reason;
  json_t *root = json_loads(json, 0, &reason);
  if (!root) fail_msg("%s: %s", json, reason.text);
  memset(config, 0, sizeof *config);
  enum omma_status status = family->parse(family, root, "config.json", config, error);
  json_decref(root);
  return status;
}

/* Parameters of the text part, and the bytes that it takes packed in bf16 where the CPU has
 * products for that. */
static struct ommai_weight_loader weigh(const struct ommai_decoder_config *config, const struct ommai_text_family *family) {
  struct omma_error error;
  enum ommai_cpu_level level;
  struct ommai_linear_context *linear_context;
  struct ommai_decoder decoder = {.config = *config, .dtype = OMMA_BF16};
  assert_ok(ommai_cpu_select(NULL, &level, &error), &error);
  assert_ok(ommai_linear_context_create(level, 1, &ommai_default_allocator, &linear_context, &error), &error);
  const struct ommai_weight_kind plain = ommai_weight_kind_dense(OMMA_BF16);
  struct ommai_weight_loader loader = {.mode = OMMAI_LOADER_DESCRIBE,
                                       .allocator = ommai_default_allocator,
                                       .linear_context = linear_context,
                                       .policy = ommai_weight_policy_make(plain, false, plain)};
  assert_ok(family->load(family, &loader, &decoder, &error), &error);
  ommai_linear_context_destroy(linear_context);
  return loader;
}

#define QWEN2(h, layers, heads, kv, inter, vocab, tied)                                                                       \
  "{\"hidden_size\":" #h ",\"num_hidden_layers\":" #layers ",\"num_attention_heads\":" #heads ",\"num_key_value_heads\":" #kv \
  ",\"intermediate_size\":" #inter ",\"vocab_size\":" #vocab ",\"tie_word_embeddings\":" #tied                                \
  ",\"max_position_embeddings\":128000,\"rms_norm_eps\":1e-6,\"rope_theta\":1000000.0,\"sliding_window\":32768,"              \
  "\"use_sliding_window\":false,\"max_window_layers\":70,\"hidden_act\":\"silu\","                                            \
  "\"rope_scaling\":{\"type\":\"mrope\",\"mrope_section\":[16,24,24]}}"
#define QWEN3_TEXT(h, layers, heads, kv, inter, more)                                                              \
  "{\"text_config\":{\"hidden_size\":" #h ",\"num_hidden_layers\":" #layers ",\"num_attention_heads\":" #heads     \
  ",\"num_key_value_heads\":" #kv ",\"intermediate_size\":" #inter                                                 \
  ",\"head_dim\":128,\"vocab_size\":151936,"                                                                       \
  "\"max_position_embeddings\":262144,\"rms_norm_eps\":1e-6,\"rope_theta\":5000000,\"attention_bias\":false," more \
  "\"rope_scaling\":{\"rope_type\":\"default\",\"mrope_section\":[24,20,20],\"mrope_interleaved\":true}}"
#define MOE(width)                                                                  \
  "\"num_experts\":128,\"num_experts_per_tok\":8,\"moe_intermediate_size\":" #width \
  ",\"norm_topk_prob\":true,"                                                       \
  "\"decoder_sparse_step\":1,\"mlp_only_layers\":[],"
#define KIMI                                                                                                          \
  "{\"text_config\":{\"vocab_size\":163840,\"hidden_size\":2048,\"num_hidden_layers\":27,\"num_attention_heads\":16," \
  "\"num_key_value_heads\":16,\"intermediate_size\":11264,\"moe_intermediate_size\":1408,\"n_routed_experts\":64,"    \
  "\"num_experts_per_tok\":6,\"n_shared_experts\":2,\"first_k_dense_replace\":1,\"routed_scaling_factor\":2.446,"     \
  "\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\",\"n_group\":1,\"topk_group\":1,\"norm_topk_prob\":true," \
  "\"moe_layer_freq\":1,\"kv_lora_rank\":512,\"q_lora_rank\":null,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,"  \
  "\"v_head_dim\":128,\"rms_norm_eps\":1e-5,\"rope_theta\":800000.0,\"rope_scaling\":null,\"attention_bias\":false,"  \
  "\"hidden_act\":\"silu\",\"max_position_embeddings\":131072,\"tie_word_embeddings\":false}}"

static void published_sizes_are_known(void **state) {
  (void)state;
  static const struct {
    const char *json;
    const struct ommai_text_family *family;
    int64_t n_parameters, kv_bytes; /* of the text part; a token, bf16 */
  } sizes[] = {
      {QWEN2(2048, 36, 16, 2, 11008, 151936, true), &ommai_text_qwen2, 3397103616, 36864},
      {QWEN2(3584, 28, 28, 4, 18944, 152064, false), &ommai_text_qwen2, 7615616512, 57344},
      {QWEN2(5120, 64, 40, 8, 27648, 152064, false), &ommai_text_qwen2, 32763876352, 262144},
      {QWEN2(8192, 80, 64, 8, 29568, 152064, false), &ommai_text_qwen2, 72706203648, 327680},
      {QWEN3_TEXT(2048, 28, 16, 8, 6144, "") ",\"tie_word_embeddings\":true}", &ommai_text_qwen3, 2031739904, 114688},
      {QWEN3_TEXT(2560, 36, 32, 8, 9728, "") ",\"tie_word_embeddings\":true}", &ommai_text_qwen3, 4411424256, 147456},
      {QWEN3_TEXT(4096, 36, 32, 8, 12288, "") "}", &ommai_text_qwen3, 8190735360, 147456},
      {QWEN3_TEXT(5120, 64, 64, 8, 25600, "") "}", &ommai_text_qwen3, 32762123264, 262144},
      {QWEN3_TEXT(2048, 48, 32, 4, 6144, MOE(768)) "}", &ommai_text_qwen3_moe, 30532122624, 98304},
      {QWEN3_TEXT(4096, 94, 64, 4, 12288, MOE(1536)) "}", &ommai_text_qwen3_moe, 235093634560, 192512},
      {KIMI, DEEPSEEK, 15960110208, 31104},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct ommai_decoder_config config;
    struct omma_error error;
    assert_ok(parse(sizes[i].json, sizes[i].family, &config, &error), &error);
    struct ommai_weight_loader loader = weigh(&config, sizes[i].family);
    assert_int_equal(loader.n_parameters, sizes[i].n_parameters);
    assert_true(loader.bytes >= 2 * (loader.n_parameters - config.vocab_size * config.hidden_size));
    struct ommai_state_layout layout;
    ommai_state_layout_make(&config, OMMA_BF16, &layout);
    assert_int_equal(layout.n_groups, 1);
    assert_int_equal(layout.groups[0].state.page_bytes, OMMA_ATTENTION_PAGE_TOKENS * sizes[i].kv_bytes);
  }
}

static void keys_become_properties(void **state) {
  (void)state;
  struct ommai_decoder_config config;
  struct omma_error error;
  assert_ok(parse(QWEN2(2048, 36, 16, 2, 11008, 151936, true), &ommai_text_qwen2, &config, &error), &error);
  assert_true(config.qkv_bias && !config.qk_norm && !config.mrope_interleaved && config.tied_embeddings);
  assert_int_equal(config.head_dim, 128);
  assert_false(config.rope_1d);
  assert_ok(parse(QWEN3_TEXT(2048, 4, 32, 4, 6144, MOE(768) "\"mlp_only_layers\":[2],\"decoder_sparse_step\":1,") "}",
                  &ommai_text_qwen3, &config, &error),
            &error);
  assert_ptr_equal(config.layers[0].ffn, &ommai_ffn_dense); /* no look at experts */
  assert_ok(parse(KIMI, DEEPSEEK, &config, &error), &error);
  assert_ptr_equal(config.layers[0].mixer, &ommai_mla_attention);
  assert_int_equal(config.head_dim, 192);
  assert_int_equal(config.v_head_dim, 128);
  assert_int_equal(config.experts.shared_size, 2816);
  assert_true(config.rope_1d);
  for (int i = 0; i < 27; i++) assert_ptr_equal(config.layers[i].ffn, i ? &ommai_ffn_experts : &ommai_ffn_dense);
  assert_true(config.mla.norm_eps == 1e-6f && config.norm_eps == 1e-5f);
  assert_true(config.experts.router.scale == 2.446f && config.experts.router.score == OMMAI_ROUTER_SIGMOID);
}

/* A key of text_config replaced, in a copy of the document. NULL: removed. */
static char *changed(const char *json, const char *key, const char *value) {
  json_error_t reason;
  json_t *root = json_loads(json, 0, &reason), *text = json_object_get(root, "text_config");
  if (!text) text = root;
  if (value) {
    json_object_set_new(text, key, json_loads(value, JSON_DECODE_ANY, &reason));
  } else {
    json_object_del(text, key);
  }
  char *out = json_dumps(root, 0);
  json_decref(root);
  return out;
}

static void layers_with_experts_are_listed(void **state) {
  (void)state;
  struct ommai_decoder_config config;
  struct omma_error error;
  char *stepped = changed(QWEN3_TEXT(2048, 6, 32, 4, 6144, MOE(768)) "}", "decoder_sparse_step", "2");
  char *json = changed(stepped, "mlp_only_layers", "[3]");
  static const bool routed[6] = {false, true, false, false, false, true};
  assert_ok(parse(json, &ommai_text_qwen3_moe, &config, &error), &error);
  for (int i = 0; i < 6; i++) assert_int_equal(config.layers[i].ffn->routed, routed[i]);
  free(stepped);
  free(json);
}

#define HYBRID &ommai_text_qwen3_5
#define QWEN3_5                                                                                                         \
  "{\"text_config\":{\"hidden_size\":1024,\"num_hidden_layers\":6,\"num_attention_heads\":8,\"num_key_value_heads\":2," \
  "\"intermediate_size\":3584,\"vocab_size\":248320,\"max_position_embeddings\":262144}}"

/* Without their keys: every fourth layer sees all, 16 and 32 heads of 128, 64 of 256 values are
 * rotated. */
static void hybrids_have_the_classes_defaults(void **state) {
  (void)state;
  struct ommai_decoder_config config;
  struct omma_error error;
  assert_ok(parse(QWEN3_5, HYBRID, &config, &error), &error);
  for (int i = 0; i < 6; i++) assert_true(config.layers[i].mixer == (i == 3 ? &ommai_grouped_attention : &ommai_delta_net));
  assert_int_equal(config.delta.n_key_heads, 16);
  assert_int_equal(config.delta.n_value_heads, 32);
  assert_int_equal(config.delta.key_dim, 128);
  assert_int_equal(config.delta.value_dim, 128);
  assert_int_equal(config.delta.kernel, 4);
  assert_int_equal(config.head_dim, 256);
  assert_int_equal(config.rotary_dim, 64);
  assert_true(config.output_gate && config.qk_norm && config.mrope_interleaved);
  char *json = changed(QWEN3_5, "full_attention_interval", "2");
  assert_ok(parse(json, HYBRID, &config, &error), &error);
  for (int i = 0; i < 6; i++) assert_true(config.layers[i].mixer == (i % 2 ? &ommai_grouped_attention : &ommai_delta_net));
  free(json);
}

/* Qwen3.6 and 3.8 have the same model_type, three value heads to a key head, and a key more. */
static void later_releases_of_hybrids_are_known(void **state) {
  (void)state;
  struct ommai_decoder_config config;
  struct omma_error error;
  for (int i = 0; i < 2; i++) {
    char *heads = changed(QWEN3_5, "linear_num_value_heads", "48"),
         *json = changed(heads, "output_gate_type", i ? "\"silu\"" : "\"swish\"");
    assert_ok(parse(json, HYBRID, &config, &error), &error);
    assert_int_equal(config.delta.n_value_heads, 48);
    free(heads);
    free(json);
  }
}

static void what_cannot_be_honoured_is_refused_by_name(void **state) {
  (void)state;
  static const struct {
    const struct ommai_text_family *family;
    const char *key, *value, *part;
    enum omma_status status;
  } cases[] = {
      {DEEPSEEK, "q_lora_rank", "1536", "q_lora_rank", OMMA_ERROR_UNSUPPORTED},
      {DEEPSEEK, "rope_scaling", "{\"type\":\"yarn\"}", "\"factor\" is missing", OMMA_ERROR_FORMAT},
      {DEEPSEEK, "rope_scaling", "{\"type\":\"longrope\"}", "longrope", OMMA_ERROR_UNSUPPORTED},
      {DEEPSEEK, "routed_scaling_factor", "0", "routed_scaling_factor", OMMA_ERROR_FORMAT},
      {DEEPSEEK, "scoring_func", "\"softmax\"", "scoring_func", OMMA_ERROR_UNSUPPORTED},
      {DEEPSEEK, "topk_method", "\"greedy\"", "topk_method", OMMA_ERROR_UNSUPPORTED},
      {DEEPSEEK, "kv_lora_rank", NULL, "\"kv_lora_rank\" is missing", OMMA_ERROR_FORMAT},
      {DEEPSEEK, "kv_lora_rank", "1000", "at most 1024", OMMA_ERROR_UNSUPPORTED},
      {DEEPSEEK, "qk_nope_head_dim", "200", "at most 256", OMMA_ERROR_UNSUPPORTED},
      {DEEPSEEK, "qk_rope_head_dim", "63", "even", OMMA_ERROR_UNSUPPORTED},
      {DEEPSEEK, "n_group", "7", "n_group", OMMA_ERROR_FORMAT},
      {DEEPSEEK, "topk_group", "2", "n_group", OMMA_ERROR_FORMAT},
      {DEEPSEEK, "num_experts_per_tok", "65", "at most the 64 experts", OMMA_ERROR_FORMAT},
      {DEEPSEEK, "n_routed_experts", "2000", "n_routed_experts", OMMA_ERROR_FORMAT},
      {DEEPSEEK, "first_k_dense_replace", "28", "first_k_dense_replace", OMMA_ERROR_FORMAT},
      {DEEPSEEK, "moe_layer_freq", "2", "moe_layer_freq", OMMA_ERROR_FORMAT},
      {DEEPSEEK, "rope_theta", "1", "rope_theta", OMMA_ERROR_FORMAT},
      {DEEPSEEK, "attention_bias", "true", "attention_bias", OMMA_ERROR_UNSUPPORTED},
      {&ommai_text_qwen2, "num_attention_heads", "15", "15 heads", OMMA_ERROR_FORMAT},
      {&ommai_text_qwen2, "num_attention_heads", "4", "at most 256", OMMA_ERROR_FORMAT},
      {&ommai_text_qwen2, "num_key_value_heads", "3", "num_key_value_heads", OMMA_ERROR_FORMAT},
      {&ommai_text_qwen2, "rope_scaling", "{\"type\":\"llama3\",\"mrope_section\":[16,24,24]}", "llama3",
       OMMA_ERROR_UNSUPPORTED},
      {&ommai_text_qwen2, "rms_norm_eps", "0", "rms_norm_eps", OMMA_ERROR_FORMAT},
      {&ommai_text_qwen3_moe, "num_experts", NULL, "\"num_experts\" is missing", OMMA_ERROR_FORMAT},
      {&ommai_text_qwen3_moe, "num_experts_per_tok", "129", "at most the 128 experts", OMMA_ERROR_FORMAT},
      {&ommai_text_qwen3_moe, "mlp_only_layers", "[48]", "mlp_only_layers", OMMA_ERROR_FORMAT},
      {&ommai_text_qwen3_moe, "moe_intermediate_size", "0", "moe_intermediate_size", OMMA_ERROR_FORMAT},
      {HYBRID, "attn_output_gate", "false", "attn_output_gate", OMMA_ERROR_UNSUPPORTED},
      {HYBRID, "attn_output_gate", "\"swish\"", "attn_output_gate", OMMA_ERROR_FORMAT},
      {HYBRID, "output_gate_type", "\"sigmoid\"", "\"output_gate_type\": expected \"swish\", found \"sigmoid\"",
       OMMA_ERROR_UNSUPPORTED},
      {HYBRID, "hidden_act", "\"gelu\"", "hidden_act", OMMA_ERROR_UNSUPPORTED},
      {HYBRID, "attention_bias", "true", "attention_bias", OMMA_ERROR_UNSUPPORTED},
      {HYBRID, "rope_parameters", "{\"rope_type\":\"longrope\"}", "longrope", OMMA_ERROR_UNSUPPORTED},
      {HYBRID, "linear_num_key_heads", "0", "linear_num_key_heads", OMMA_ERROR_FORMAT},
      {HYBRID, "layer_types", "[\"sliding_attention\",\"a\",\"a\",\"a\",\"a\",\"a\"]", "found \"sliding_attention\"",
       OMMA_ERROR_UNSUPPORTED},
      {HYBRID, "layer_types", "[\"linear_attention\"]", "num_hidden_layers = 6", OMMA_ERROR_FORMAT},
      {HYBRID, "layer_types", "[\"full_attention\",\"a\",\"a\",\"a\",\"a\",\"a\"]", "layer 1, found \"a\"",
       OMMA_ERROR_UNSUPPORTED},
      {HYBRID, "full_attention_interval", "0", "full_attention_interval", OMMA_ERROR_FORMAT},
      {HYBRID, "linear_num_value_heads", "24", "multiple of linear_num_key_heads 16", OMMA_ERROR_FORMAT},
      {HYBRID, "linear_key_head_dim", "257", "linear_key_head_dim", OMMA_ERROR_FORMAT},
      {HYBRID, "linear_conv_kernel_dim", "9", "linear_conv_kernel_dim", OMMA_ERROR_FORMAT},
      {HYBRID, "partial_rotary_factor", "0.001", "partial_rotary_factor", OMMA_ERROR_UNSUPPORTED},
      {HYBRID, "partial_rotary_factor", "0.5", "head_dim * partial_rotary_factor / 2 = 64", OMMA_ERROR_FORMAT},
      {&ommai_text_qwen3_5_moe, "num_experts", NULL, "\"num_experts\" is missing", OMMA_ERROR_FORMAT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *base = cases[i].family == DEEPSEEK                                               ? KIMI
                       : cases[i].family == HYBRID || cases[i].family == &ommai_text_qwen3_5_moe ? QWEN3_5
                       : cases[i].family == &ommai_text_qwen2 ? QWEN2(2048, 36, 16, 2, 11008, 151936, true)
                                                              : QWEN3_TEXT(2048, 48, 32, 4, 6144, MOE(768)) "}";
    struct ommai_decoder_config config;
    struct omma_error error;
    char *json = changed(base, cases[i].key, cases[i].value);
    assert_fails(parse(json, cases[i].family, &config, &error), cases[i].status, cases[i].part, &error);
    free(json);
  }
}

/* Layers from max_window_layers on see a window, or those that layer_types names, where
 * use_sliding_window and sliding_window say so. Families without windows refuse them. */
static void layers_slide_as_the_config_says(void **state) {
  (void)state;
  enum { LAYERS = 3 };
  static const struct {
    const char *key, *value;
    int64_t windows[LAYERS]; /* {-1}: refused */
  } cases[] = {{"max_window_layers", "3", {0}},
               {"max_window_layers", "2", {0, 0, 32768}},
               {"max_window_layers", "0", {32768, 32768, 32768}},
               {"max_window_layers", NULL, {0}}, /* 80 */
               {"sliding_window", "null", {0}},
               {"layer_types", "[\"full_attention\",\"full_attention\",\"full_attention\"]", {0}},
               {"layer_types", "[\"sliding_attention\",\"full_attention\",\"sliding_attention\"]", {32768, 0, 32768}},
               {"layer_types", "[\"full_attention\",\"sliding_attention\"]", {-1}},
               {"layer_types", "[\"full_attention\",\"chunked_attention\",\"full_attention\"]", {-1}},
               {"layer_types", "[7,7,7]", {-1}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct ommai_decoder_config config;
    struct omma_error error;
    char *sliding = changed(QWEN2(2048, 3, 16, 2, 11008, 151936, true), "use_sliding_window", "true");
    char *json = changed(sliding, cases[i].key, cases[i].value);
    enum omma_status status = parse(json, &ommai_text_qwen2, &config, &error);
    if (cases[i].windows[0] < 0) {
      if (status == OMMA_OK || !strstr(error.message, "layer_types")) fail_msg("%s", json);
    } else {
      assert_ok(status, &error);
      for (int j = 0; j < LAYERS; j++) assert_int_equal(config.layers[j].window, cases[i].windows[j]);
    }
    free(sliding);
    free(json);
  }
  struct ommai_decoder_config config;
  struct omma_error error;
  char *json = changed(QWEN3_TEXT(2048, 3, 32, 4, 6144, "\"max_window_layers\":2,") "}", "use_sliding_window", "true");
  assert_fails(parse(json, &ommai_text_qwen3, &config, &error), OMMA_ERROR_UNSUPPORTED,
               "sliding windows are not supported for this family", &error);
  free(json);
}

/* Without head_dim, or with null, routed models divide the width; dense ones have 128. */
static void heads_have_the_classes_width(void **state) {
  (void)state;
  static const char *const values[] = {NULL, "null"};
  for (int i = 0; i < 4; i++) {
    struct ommai_decoder_config config;
    struct omma_error error;
    char *json = changed(QWEN3_TEXT(4096, 6, 16, 4, 6144, MOE(768)) "}", "head_dim", values[i % 2]);
    char *other = changed(json, "rope_scaling", i < 2 ? "{\"mrope_section\":[48,40,40]}" : "null");
    assert_ok(parse(other, i < 2 ? &ommai_text_qwen3_moe : &ommai_text_qwen3, &config, &error), &error);
    assert_int_equal(config.head_dim, i < 2 ? 256 : 128);
    assert_int_equal(config.mrope_section[1], i < 2 ? 40 : 20);
    free(json);
    free(other);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(published_sizes_are_known),           cmocka_unit_test(keys_become_properties),
      cmocka_unit_test(layers_with_experts_are_listed),      cmocka_unit_test(layers_slide_as_the_config_says),
      cmocka_unit_test(hybrids_have_the_classes_defaults),   cmocka_unit_test(heads_have_the_classes_width),
      cmocka_unit_test(later_releases_of_hybrids_are_known), cmocka_unit_test(what_cannot_be_honoured_is_refused_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
