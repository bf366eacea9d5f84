/* The towers in config.json and in checkpoints: the released sizes, values that are refused, both
 * dialects of tensor names. */
#include <stdlib.h>

#include "base/allocator.h"
#include "base/json.h"
#include "families/family.h"
#include "support/test.h"
#include "support/weights_files.h"

#define QWEN2_VL &ommai_family_qwen2_vl
#define QWEN2_5_VL &ommai_family_qwen2_5_vl
#define KIMI_VL &ommai_family_kimi_vl
#define PADDLEOCR_VL &ommai_family_paddleocr_vl
#define GLM_OCR &ommai_family_glm_ocr
#define LIGHTON_OCR &ommai_family_lighton_ocr
#define DOTS_OCR &ommai_family_dots_ocr

/* A released file of the family. */
static const char *file_of(const struct ommai_family *family) {
  static const struct {
    const struct ommai_family *family;
    const char *name;
  } files[] = {{KIMI_VL, "kimi-vl-a3b-instruct"},
               {PADDLEOCR_VL, "paddleocr-vl-0.9b"},
               {GLM_OCR, "glm-ocr"},
               {LIGHTON_OCR, "lighton-ocr-2-1b"},
               {DOTS_OCR, "dots-ocr"},
               {QWEN2_VL, "qwen2-vl-2b"}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    if (files[i].family == family) return files[i].name;
  }
  return "qwen2.5-vl-32b";
}

static json_t *released(const char *name) {
  char path[1024];
  struct omma_error error;
  json_t *root;
  snprintf(path, sizeof path, "%s/data/configs/%s.json", OMMA_TEST_DATA, name);
  assert_ok(ommai_json_load_file(path, 1 << 20, &ommai_default_allocator, &root, &error), &error);
  return root;
}

static struct ommai_vision_config parse_released(const struct ommai_family *family, const char *name) {
  struct ommai_model_config config = {0};
  struct omma_error error;
  json_t *root = released(name);
  assert_ok(ommai_family_parse(family, root, name, &config, &error), &error);
  json_decref(root);
  return config.vision;
}

/* ---- describing ---- */

struct listing {
  const char *prefix; /* that every name must have; NULL: any */
  int64_t n_tensors;
  char last[OMMAI_LOADER_MAX_NAME + 1];
};

static enum omma_status list_tensor(void *context, const char *name, int n_dims, const int64_t *shape,
                                    struct omma_error *error) {
  struct listing *listing = context;
  (void)error;
  assert_true(n_dims >= 1 && shape[0] >= 1);
  if (listing->prefix) assert_memory_equal(name, listing->prefix, strlen(listing->prefix));
  snprintf(listing->last, sizeof listing->last, "%s", name);
  listing->n_tensors++;
  return OMMA_OK;
}

static int64_t describe(const struct ommai_family *family, const struct ommai_vision_config *config,
                        const struct ommai_checkpoint *checkpoint, struct listing *listing) {
  struct omma_error error;
  struct ommai_vision_tower tower = {.config = *config, .dtype = OMMA_F32};
  const struct ommai_weight_kind plain = ommai_weight_kind_dense(OMMA_F32);
  struct ommai_linear_context *linear_context;
  assert_ok(ommai_linear_context_create(OMMAI_CPU_SCALAR, 1, &ommai_default_allocator, &linear_context, &error), &error);
  struct ommai_weight_loader loader = {.mode = OMMAI_LOADER_DESCRIBE,
                                       .allocator = ommai_default_allocator,
                                       .checkpoint = checkpoint,
                                       .linear_context = linear_context,
                                       .policy = ommai_weight_policy_make(plain, config->gated, plain),
                                       .visit = list_tensor,
                                       .visit_context = listing};
  assert_ok(ommai_tower_load(&loader, family->tower_names, &tower, &error), &error);
  ommai_linear_context_destroy(linear_context);
  assert_true(loader.bytes >= 4 * loader.n_parameters);
  return loader.n_parameters;
}

static void released_towers_without_windows(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t out;
  } sizes[] = {{"qwen2-vl-2b", 1536}, {"qwen2-vl-7b", 3584}, {"qwen2-vl-72b", 8192}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct ommai_vision_config config = parse_released(QWEN2_VL, sizes[i].name);
    struct listing listing = {.prefix = "visual."};
    int64_t h = 1280;
    assert_int_equal(config.hidden_size, h);
    assert_int_equal(config.intermediate_size, 4 * h);
    assert_int_equal(config.out_hidden_size, sizes[i].out);
    assert_int_equal(config.head_dim, 80);
    assert_int_equal(config.window_size, 0);
    assert_true(!config.gated && config.norm == OMMAI_VISION_LAYER_NORM && config.positions == OMMAI_POSITIONS_NONE);
    assert_int_equal(config.activation, OMMAI_ACTIVATION_QUICK_GELU);
    int64_t block = 4 * h + (3 * h * h + 3 * h) + (h * h + h) + (4 * h * h + 4 * h) + (4 * h * h + h);
    int64_t merger = 2 * h + (16 * h * h + 4 * h) + (4 * h + 1) * sizes[i].out;
    assert_int_equal(describe(QWEN2_VL, &config, NULL, &listing), 1176 * h + 32 * block + merger);
    assert_int_equal(listing.n_tensors, 1 + 32 * 12 + 6);
    assert_string_equal(listing.last, "visual.merger.mlp.2.bias");
  }
}

static void released_towers_with_windows(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t intermediate, out;
  } sizes[] = {{"qwen2.5-vl-3b", 3420, 2048},
               {"qwen2.5-vl-7b", 3420, 3584},
               {"qwen2.5-vl-32b", 3456, 5120},
               {"qwen2.5-vl-72b", 3456, 8192}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct ommai_vision_config config = parse_released(QWEN2_5_VL, sizes[i].name);
    struct listing listing = {.prefix = "visual."};
    int64_t h = 1280, n_full = 0;
    assert_int_equal(config.intermediate_size, sizes[i].intermediate);
    assert_int_equal(config.out_hidden_size, sizes[i].out);
    assert_int_equal(config.head_dim, 80);
    assert_int_equal(config.window_size, 4);
    for (int block = 0; block < 32; block++) n_full += !config.windowed[block];
    assert_int_equal(n_full, 4);
    assert_false(config.windowed[7] || config.windowed[15] || config.windowed[23] || config.windowed[31] ||
                 config.windowed[32]);
    assert_true(config.gated && config.norm == OMMAI_VISION_RMS_NORM && config.positions == OMMAI_POSITIONS_NONE);
    int64_t block = 2 * h + (3 * h * h + 3 * h) + (h * h + h) + 3 * sizes[i].intermediate * h + 2 * sizes[i].intermediate + h;
    int64_t merger = h + (16 * h * h + 4 * h) + (4 * h + 1) * sizes[i].out;
    assert_int_equal(describe(QWEN2_5_VL, &config, NULL, &listing), 1176 * h + 32 * block + merger);
    assert_int_equal(listing.n_tensors, 1 + 32 * 12 + 5);
    assert_string_equal(listing.last, "visual.merger.mlp.2.bias");
  }
}

static void released_towers_with_a_projector(void **state) {
  (void)state;
  const char *const names[] = {"kimi-vl-a3b-instruct", "kimi-vl-a3b-thinking-2506"};
  for (size_t i = 0; i < 2; i++) {
    struct ommai_vision_config config = parse_released(KIMI_VL, names[i]);
    struct listing listing = {0};
    assert_int_equal(config.head_dim, 72);
    assert_int_equal(config.out_hidden_size, 2048);
    assert_int_equal(config.position_rows, 64);
    assert_int_equal(config.position_columns, 64);
    assert_int_equal(ommai_vision_patch_dim(&config), 588);
    assert_true(config.final_norm && config.positions == OMMAI_POSITIONS_BICUBIC && config.rope == OMMAI_ROPE_PAIRS);
    assert_true(config.norm_eps == 1e-5f && config.merger_norm_eps == 1e-5f);
    assert_int_equal(config.window_size, 0);
    assert_int_equal(describe(KIMI_VL, &config, NULL, &listing), 447545840);
    assert_int_equal(listing.n_tensors, 3 + 27 * 12 + 2 + 6);
    assert_string_equal(listing.last, "multi_modal_projector.linear_2.bias");
  }
}

/* Flat as released, and as transformers nests it, with what equals the class's defaults left
 * out. */
static void a_flat_and_a_nested_configuration_are_the_same(void **state) {
  (void)state;
  struct ommai_model_config flat = {0}, nested = {0};
  struct omma_error error;
  struct listing listing = {0};
  json_t *root = released("paddleocr-vl-0.9b"), *text = json_object();
  const char *const moved[] = {"hidden_size",         "intermediate_size", "max_position_embeddings", "num_attention_heads",
                               "num_hidden_layers",   "vocab_size",        "num_key_value_heads",     "rope_scaling",
                               "tie_word_embeddings", "rope_theta"};
  assert_ok(ommai_family_parse(PADDLEOCR_VL, root, "config.json", &flat, &error), &error);
  for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
    json_object_set(text, moved[i], json_object_get(root, moved[i]));
    json_object_del(root, moved[i]);
  }
  json_object_set_new(root, "text_config", text);
  json_object_set_new(root, "vision_config", json_pack("{s:s}", "model_type", "paddleocr_vl_vision"));
  assert_ok(ommai_family_parse(PADDLEOCR_VL, root, "config.json", &nested, &error), &error);
  assert_memory_equal(&flat.vision, &nested.vision, sizeof flat.vision);
  assert_memory_equal(&flat.text, &nested.text, sizeof flat.text);
  json_object_del(text, "tie_word_embeddings");
  assert_ok(ommai_family_parse(PADDLEOCR_VL, root, "config.json", &nested, &error), &error);
  assert_true(nested.text.tied_embeddings && !flat.text.tied_embeddings);
  json_object_set_new(text, "use_bias", json_true());
  assert_fails(ommai_family_parse(PADDLEOCR_VL, root, "config.json", &nested, &error), OMMA_ERROR_UNSUPPORTED, "use_bias",
               &error);
  assert_int_equal(flat.vision.position_rows, 27);
  assert_true(flat.vision.final_norm && flat.vision.positions == OMMAI_POSITIONS_BILINEAR_CENTRES);
  assert_int_equal(describe(PADDLEOCR_VL, &flat.vision, NULL, &listing), 438947440);
  assert_string_equal(listing.last, "mlp_AR.linear_2.bias");
  json_decref(root);
}

/* The released file, and the class's defaults where it has no sizes: another language model. */
static void released_sizes_differ_from_the_classs(void **state) {
  (void)state;
  struct ommai_model_config config = {0};
  struct ommai_vision_config expected = parse_released(GLM_OCR, "glm-ocr");
  struct omma_error error;
  struct listing listing = {0};
  json_t *root = released("glm-ocr");
  assert_int_equal(expected.merger.reduced_size, 1536);
  assert_int_equal(expected.merger.inner_size, 4608);
  assert_int_equal(describe(GLM_OCR, &expected, NULL, &listing), 434120192);
  assert_string_equal(listing.last, "model.visual.merger.down_proj.weight");
  json_object_set_new(root, "vision_config", json_pack("{s:s}", "model_type", "glm_ocr_vision"));
  assert_ok(ommai_family_parse(GLM_OCR, root, "config.json", &config, &error), &error);
  assert_memory_equal(&config.vision, &expected, sizeof expected);
  assert_int_equal(config.text.head_dim, 128);
  json_t *text = json_object_get(root, "text_config");
  json_object_del(text, "head_dim");
  json_object_del(text, "rope_parameters");
  assert_fails(ommai_family_parse(GLM_OCR, root, "config.json", &config, &error), OMMA_ERROR_FORMAT, "[8, 12, 12], sums to 32",
               &error);
  json_object_set_new(text, "num_attention_heads", json_integer(24));
  assert_ok(ommai_family_parse(GLM_OCR, root, "config.json", &config, &error), &error);
  assert_int_equal(config.text.head_dim, 64);
  json_decref(root);
}

/* What the projector takes from outside of vision_config. */
static void a_projector_is_as_wide_as_the_language_model(void **state) {
  (void)state;
  struct ommai_model_config config = {0};
  struct ommai_vision_config expected = parse_released(LIGHTON_OCR, "lighton-ocr-2-1b");
  struct omma_error error;
  struct listing listing = {0};
  json_t *root = released("lighton-ocr-2-1b");
  assert_int_equal(describe(LIGHTON_OCR, &expected, NULL, &listing), 409597952);
  assert_int_equal(listing.n_tensors, 2 + 24 * 9 + 4);
  assert_string_equal(listing.last, "model.vision_projection.linear_2.weight");
  json_object_set_new(root, "spatial_merge_size", json_integer(1));
  json_object_set_new(json_object_get(root, "text_config"), "hidden_size", json_integer(512));
  json_object_set_new(json_object_get(root, "text_config"), "rms_norm_eps", json_real(1e-4));
  assert_ok(ommai_family_parse(LIGHTON_OCR, root, "config.json", &config, &error), &error);
  assert_int_equal(config.vision.merger.inner_size, 512);
  assert_int_equal(config.vision.merger.reduced_size, 1024);
  assert_int_equal(config.vision.out_hidden_size, 512);
  assert_true(config.vision.merge_size == 1 && config.vision.merger_norm_eps == 1e-4f);
  assert_true(config.text.rope_1d && config.text.tied_embeddings && config.text.mrope_section[0] == 64);
  json_object_set_new(root, "spatial_merge_size", json_integer(3));
  assert_fails(ommai_family_parse(LIGHTON_OCR, root, "config.json", &config, &error), OMMA_ERROR_UNSUPPORTED,
               "merging 3 x 3 patches", &error);
  json_decref(root);
}

/* hidden_size is the width of merged tokens; the last norm may be missing. */
static void a_width_has_a_name_of_its_own(void **state) {
  (void)state;
  struct ommai_vision_config config = parse_released(DOTS_OCR, "dots-ocr");
  struct listing listing = {0};
  assert_true(config.hidden_size == 1536 && config.out_hidden_size == 1536 && config.head_dim == 128);
  assert_true(config.entry_norm && config.final_norm && config.merger.layer_norm && config.norm_eps == 1e-5f);
  assert_int_equal(describe(DOTS_OCR, &config, NULL, &listing), 1262091264);
  assert_int_equal(listing.n_tensors, 3 + 42 * 7 + 1 + 6);
  assert_string_equal(listing.last, "vision_tower.merger.mlp.2.bias");
  struct ommai_model_config whole = {0};
  struct omma_error error;
  json_t *root = released("dots-ocr");
  json_object_set_new(json_object_get(root, "vision_config"), "post_norm", json_false());
  assert_ok(ommai_family_parse(DOTS_OCR, root, "config.json", &whole, &error), &error);
  assert_true(!whole.vision.final_norm && whole.text.rope_1d && whole.text.qkv_bias && !whole.text.tied_embeddings);
  json_decref(root);
}

/* ---- one key changed ---- */

struct change {
  const struct ommai_family *family;
  const char *key, *json; /* of vision_config; NULL: the key is removed */
  enum omma_status status;
  const char *part; /* of the message */
};

#define FORMAT OMMA_ERROR_FORMAT
#define UNSUPPORTED OMMA_ERROR_UNSUPPORTED

static const struct change refused[] = {
    {QWEN2_VL, "embed_dim", "1281", FORMAT, "hidden_size 1281 in 16 heads"},
    {QWEN2_VL, "embed_dim", "\"1280\"", FORMAT, "\"embed_dim\": expected an integer, found a string"},
    {QWEN2_VL, "hidden_size", NULL, FORMAT, "vision_config: hidden_size 3584 differs from text_config's hidden_size 1536"},
    {QWEN2_VL, "hidden_act", "\"gelu\"", UNSUPPORTED, "expected \"quick_gelu\", found \"gelu\""},
    {QWEN2_VL, "mlp_ratio", "0", FORMAT, "\"mlp_ratio\": 0 times 1280: expected 1 to 1048576 outputs"},
    {QWEN2_VL, "mlp_ratio", "1e300", FORMAT, "\"mlp_ratio\": 1e+300 times 1280"},
    {QWEN2_VL, "mlp_ratio", "-4", FORMAT, "\"mlp_ratio\": -4 times 1280"},
    {QWEN2_VL, "mlp_ratio", "\"4\"", FORMAT, "\"mlp_ratio\": expected a number, found a string"},
    {QWEN2_VL, "rope_parameters", "{\"rope_theta\": 1}", FORMAT, "\"rope_theta\": expected more than 1, found 1"},
    {QWEN2_5_VL, "depth", "1025", FORMAT, "expected 1 to 1024, found 1025"},
    {QWEN2_5_VL, "depth", "31", FORMAT, "\"fullatt_block_indexes\""},
    {QWEN2_5_VL, "hidden_size", "1281", FORMAT, "hidden_size 1281 in 16 heads"},
    {QWEN2_5_VL, "num_heads", "640", FORMAT, "expected heads of a multiple of 4"},
    {QWEN2_5_VL, "num_heads", "4", FORMAT, "at most 256"},
    {QWEN2_5_VL, "hidden_act", "\"gelu\"", UNSUPPORTED, "expected \"silu\", found \"gelu\""},
    {QWEN2_5_VL, "intermediate_size", "0", FORMAT, "found 0"},
    {QWEN2_5_VL, "in_chans", "1", FORMAT, "\"in_chans\": expected 3 to 3, found 1"},
    {QWEN2_5_VL, "in_channels", "4", FORMAT, "\"in_channels\": expected 3 to 3, found 4"},
    {QWEN2_5_VL, "patch_size", "0", FORMAT, "\"patch_size\""},
    {QWEN2_5_VL, "temporal_patch_size", "17", FORMAT, "expected 1 to 16, found 17"},
    {QWEN2_5_VL, "spatial_merge_size", "3", UNSUPPORTED, "merging 3 x 3 patches: expected 1, 2 or 4"},
    {QWEN2_5_VL, "out_hidden_size", NULL, FORMAT, "out_hidden_size 3584 differs from text_config's hidden_size 5120"},
    {QWEN2_5_VL, "window_size", "27", FORMAT, "expected at least a merged token of 28 pixels, found 27"},
    {QWEN2_5_VL, "fullatt_block_indexes", "[32]", FORMAT, "expected 0 to 31, found 32"},
    {QWEN2_5_VL, "fullatt_block_indexes", "[-1]", FORMAT, "found -1"},
    {QWEN2_5_VL, "fullatt_block_indexes", "7", FORMAT, "expected an array"},
    {QWEN2_5_VL, "rope_parameters", "{\"rope_theta\": 1}", FORMAT, "\"rope_theta\": expected more than 1, found 1"},
    {KIMI_VL, "model_type", "\"siglip\"", UNSUPPORTED, "expected \"moonvit\", found \"siglip\""},
    {KIMI_VL, "num_hidden_layers", NULL, FORMAT, "vision_config: key \"num_hidden_layers\" is missing"},
    {KIMI_VL, "hidden_size", "1153", FORMAT, "hidden_size 1153 in 16 heads"},
    {KIMI_VL, "num_attention_heads", "576", FORMAT, "expected heads of a multiple of 4"},
    {KIMI_VL, "intermediate_size", "\"4304\"", FORMAT, "expected an integer, found a string"},
    {KIMI_VL, "patch_size", "257", FORMAT, "expected 1 to 256, found 257"},
    {KIMI_VL, "init_pos_emb_height", "0", FORMAT, "\"init_pos_emb_height\": expected 1 to 4096, found 0"},
    {KIMI_VL, "init_pos_emb_width", NULL, FORMAT, "\"init_pos_emb_width\" is missing"},
    {KIMI_VL, "merge_kernel_size", "[2, 4]", UNSUPPORTED, "expected two equal sides"},
    {KIMI_VL, "merge_kernel_size", "[2]", UNSUPPORTED, "expected two equal sides"},
    {KIMI_VL, "merge_kernel_size", "[3, 3]", UNSUPPORTED, "merging 3 x 3 patches"},
    {KIMI_VL, "merge_kernel_size", NULL, FORMAT, "\"merge_kernel_size\" is missing"},
    {PADDLEOCR_VL, "hidden_act", "\"gelu\"", UNSUPPORTED, "expected \"gelu_pytorch_tanh\", found \"gelu\""},
    {PADDLEOCR_VL, "image_size", "13", FORMAT, "\"image_size\": expected 14 to 1048576, found 13"},
    {PADDLEOCR_VL, "layer_norm_eps", "0", FORMAT, "\"layer_norm_eps\""},
    {PADDLEOCR_VL, "num_channels", "4", FORMAT, "\"num_channels\": expected 3 to 3, found 4"},
    {PADDLEOCR_VL, "num_attention_heads", "7", FORMAT, "hidden_size 1152 in 7 heads"},
    {PADDLEOCR_VL, "spatial_merge_size", "3", UNSUPPORTED, "merging 3 x 3 patches"},
    {GLM_OCR, "hidden_act", "\"gelu\"", UNSUPPORTED, "expected \"silu\", found \"gelu\""},
    {GLM_OCR, "attention_bias", "false", UNSUPPORTED, "\"attention_bias\": expected true, found false"},
    {GLM_OCR, "rms_norm_eps", "1", FORMAT, "\"rms_norm_eps\""},
    {GLM_OCR, "out_hidden_size", "1024", FORMAT, "out_hidden_size 1024 differs from text_config's hidden_size 1536"},
    {GLM_OCR, "num_heads", "7", FORMAT, "hidden_size 1024 in 7 heads"},
    {LIGHTON_OCR, "hidden_act", "\"gelu\"", UNSUPPORTED, "expected \"silu\", found \"gelu\""},
    {LIGHTON_OCR, "rope_theta", "0", FORMAT, "rope_theta"},
    {LIGHTON_OCR, "num_attention_heads", "7", FORMAT, "hidden_size 1024 in 7 heads"},
    {DOTS_OCR, "use_bias", "true", UNSUPPORTED, "\"use_bias\""},
    {DOTS_OCR, "is_causal", "true", UNSUPPORTED, "\"is_causal\""},
    {DOTS_OCR, "temporal_patch_size", "2", UNSUPPORTED, "\"temporal_patch_size\": expected 1, found 2"},
    {DOTS_OCR, "model_type", "\"vit\"", UNSUPPORTED, "expected \"dots_vit\""},
    {DOTS_OCR, "hidden_size", "1024", FORMAT, "hidden_size 1024 differs from text_config's hidden_size 1536"},
};

static void unusable_values_are_named(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    const struct change *change = &refused[i];
    struct ommai_model_config config = {0};
    struct omma_error error;
    json_t *root = released(file_of(change->family));
    json_t *vision = json_object_get(root, "vision_config");
    if (change->json) {
      json_object_set_new(vision, change->key, json_loads(change->json, JSON_DECODE_ANY, NULL));
    } else {
      json_object_del(vision, change->key);
    }
    assert_fails(ommai_family_parse(change->family, root, "config.json", &config, &error), change->status, change->part,
                 &error);
    json_decref(root);
  }
}

/* What transformers 4.49 leaves out of a saved vision_config: all that equals the class's default,
 * of the 7B's everything but the width. */
static void class_defaults_stand_for_what_is_missing(void **state) {
  (void)state;
  struct ommai_vision_config expected = parse_released(QWEN2_5_VL, "qwen2.5-vl-7b");
  struct ommai_model_config config = {0};
  struct omma_error error;
  json_t *root = released("qwen2.5-vl-7b");
  json_object_set_new(root, "vision_config",
                      json_pack("{s:s, s:i, s:f}", "model_type", "qwen2_5_vl", "hidden_size", 1280, "tokens_per_second", 2.0));
  assert_ok(ommai_family_parse(&ommai_family_qwen2_5_vl, root, "config.json", &config, &error), &error);
  assert_memory_equal(&config.vision, &expected, sizeof expected);
  json_decref(root);
  root = released("qwen2-vl-7b");
  expected = parse_released(QWEN2_VL, "qwen2-vl-7b");
  memset(&config, 0, sizeof config);
  json_object_set_new(root, "vision_config", json_pack("{s:s}", "model_type", "qwen2_vl"));
  assert_ok(ommai_family_parse(&ommai_family_qwen2_vl, root, "config.json", &config, &error), &error);
  assert_memory_equal(&config.vision, &expected, sizeof expected);
  json_decref(root);
  root = released("qwen3-vl-8b");
  expected = parse_released(&ommai_family_qwen3_vl, "qwen3-vl-8b");
  memset(&config, 0, sizeof config);
  json_object_set_new(root, "vision_config", json_pack("{s:i}", "out_hidden_size", 4096));
  assert_ok(ommai_family_parse(&ommai_family_qwen3_vl, root, "config.json", &config, &error), &error);
  assert_memory_equal(&config.vision, &expected, sizeof expected);
  json_decref(root);
}

/* transformers takes the outputs in the order of blocks, and the merger of a block by its first
 * place in the list. */
static void deepstack_goes_by_blocks_and_mergers_by_the_list(void **state) {
  (void)state;
  static const struct {
    const char *list;
    int64_t count, blocks[3], mergers[3];
  } cases[] = {{"[5, 11, 17]", 3, {5, 11, 17}, {0, 1, 2}},
               {"[17, 5, 11]", 3, {5, 11, 17}, {1, 2, 0}},
               {"[7, 3, 7]", 2, {3, 7}, {1, 0}},
               {"[]", 0, {0}, {0}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct ommai_model_config config = {0};
    struct omma_error error;
    json_t *root = released("qwen3-vl-8b");
    json_object_set_new(json_object_get(root, "vision_config"), "deepstack_visual_indexes", json_loads(cases[i].list, 0, NULL));
    assert_ok(ommai_family_parse(&ommai_family_qwen3_vl, root, "config.json", &config, &error), &error);
    assert_int_equal(config.vision.n_deepstack, cases[i].count);
    for (int64_t j = 0; j < cases[i].count; j++) {
      assert_int_equal(config.vision.deepstack_layers[j], cases[i].blocks[j]);
      assert_int_equal(config.vision.deepstack_mergers[j], cases[i].mergers[j]);
    }
    json_decref(root);
  }
}

static void whole_parts_must_be_there(void **state) {
  (void)state;
  const char *const parts[] = {"vision_config", "text_config"};
  for (int i = 0; i < 2; i++) {
    struct ommai_model_config config = {0};
    struct omma_error error;
    json_t *root = released("kimi-vl-a3b-instruct");
    json_object_del(root, parts[i]);
    assert_fails(ommai_family_parse(&ommai_family_kimi_vl, root, "config.json", &config, &error), FORMAT, parts[i], &error);
    json_decref(root);
  }
}

/* ---- dialects of names ---- */

/* A checkpoint with one tensor, the patch embedding, decides by its name. */
static void the_checkpoint_decides_on_the_prefix(void **state) {
  (void)state;
  static const struct {
    const char *header, *prefix;
  } cases[] = {
      {"{\"visual.patch_embed.proj.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "visual."},
      {"{\"model.visual.patch_embed.proj.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "model.visual."},
      {"{\"other\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "visual."}};
  struct ommai_vision_config config = parse_released(QWEN2_5_VL, "qwen2.5-vl-3b");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
    struct omma_error error;
    struct ommai_checkpoint *checkpoint;
    struct listing listing = {.prefix = cases[i].prefix};
    test_folder_create(folder);
    test_write_safetensors(test_path(path, folder, OMMAI_CHECKPOINT_FILE), cases[i].header, 4);
    assert_ok(ommai_checkpoint_open(folder, &ommai_default_allocator, &checkpoint, &error), &error);
    describe(QWEN2_5_VL, &config, checkpoint, &listing);
    assert_int_equal(listing.n_tensors, 1 + 32 * 12 + 5);
    ommai_checkpoint_close(checkpoint);
    test_folder_remove(folder);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(released_towers_without_windows),
      cmocka_unit_test(released_towers_with_windows),
      cmocka_unit_test(released_towers_with_a_projector),
      cmocka_unit_test(a_flat_and_a_nested_configuration_are_the_same),
      cmocka_unit_test(released_sizes_differ_from_the_classs),
      cmocka_unit_test(a_projector_is_as_wide_as_the_language_model),
      cmocka_unit_test(a_width_has_a_name_of_its_own),
      cmocka_unit_test(unusable_values_are_named),
      cmocka_unit_test(class_defaults_stand_for_what_is_missing),
      cmocka_unit_test(deepstack_goes_by_blocks_and_mergers_by_the_list),
      cmocka_unit_test(whole_parts_must_be_there),
      cmocka_unit_test(the_checkpoint_decides_on_the_prefix),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
