/* The towers in config.json and in checkpoints: the released sizes, values that are refused, both dialects of tensor names. */
#include <stdlib.h>

#include "base/allocator.h"
#include "base/json.h"
#include "models/kimi_vl.h"
#include "models/qwen2_5_vl.h"
#include "models/tower_loader.h"
#include "support/test.h"
#include "support/weights_files.h"

struct family {
  enum omma_status (*parse)(const json_t *root, const char *path, struct ommai_vision_config *config, struct omma_error *error);
  enum omma_status (*load)(struct ommai_weight_loader *loader, struct ommai_vision_tower *tower, struct omma_error *error);
};

static const struct family qwen2_5_vl = {ommai_qwen2_5_vl_parse_vision, ommai_qwen2_5_vl_load_vision};
static const struct family kimi_vl = {ommai_kimi_vl_parse_vision, ommai_kimi_vl_load_vision};

static json_t *released(const char *name) {
  char path[1024];
  struct omma_error error;
  json_t *root;
  snprintf(path, sizeof path, "%s/data/configs/%s.json", OMMA_TEST_DATA, name);
  assert_ok(ommai_json_load_file(path, 1 << 20, &ommai_default_allocator, &root, &error), &error);
  return root;
}

static struct ommai_vision_config parse_released(const struct family *family, const char *name) {
  struct ommai_vision_config config = {0};
  struct omma_error error;
  json_t *root = released(name);
  assert_ok(family->parse(root, name, &config, &error), &error);
  json_decref(root);
  return config;
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

static int64_t describe(const struct family *family, const struct ommai_vision_config *config,
                        const struct ommai_checkpoint *checkpoint, struct listing *listing) {
  struct omma_error error;
  struct ommai_vision_tower tower = {.config = *config, .dtype = OMMA_F32};
  struct ommai_linear_engine *engine;
  assert_ok(ommai_linear_engine_create(OMMAI_CPU_SCALAR, 1, &ommai_default_allocator, &engine, &error), &error);
  struct ommai_weight_loader loader = {.mode = OMMAI_LOADER_DESCRIBE,
                                       .allocator = ommai_default_allocator,
                                       .checkpoint = checkpoint,
                                       .linear_engine = engine,
                                       .dtype = OMMA_F32,
                                       .visit = list_tensor,
                                       .visit_context = listing};
  assert_ok(family->load(&loader, &tower, &error), &error);
  ommai_linear_engine_destroy(engine);
  assert_true(loader.bytes >= 4 * loader.n_parameters);
  return loader.n_parameters;
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
    struct ommai_vision_config config = parse_released(&qwen2_5_vl, sizes[i].name);
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
    assert_int_equal(describe(&qwen2_5_vl, &config, NULL, &listing), 1176 * h + 32 * block + merger);
    assert_int_equal(listing.n_tensors, 1 + 32 * 12 + 5);
    assert_string_equal(listing.last, "visual.merger.mlp.2.bias");
  }
}

static void released_towers_with_a_projector(void **state) {
  (void)state;
  const char *const names[] = {"kimi-vl-a3b-instruct", "kimi-vl-a3b-thinking-2506"};
  for (size_t i = 0; i < 2; i++) {
    struct ommai_vision_config config = parse_released(&kimi_vl, names[i]);
    struct listing listing = {0};
    assert_int_equal(config.head_dim, 72);
    assert_int_equal(config.out_hidden_size, 2048);
    assert_int_equal(config.position_rows, 64);
    assert_int_equal(config.position_columns, 64);
    assert_int_equal(ommai_vision_patch_dim(&config), 588);
    assert_true(config.final_norm && config.positions == OMMAI_POSITIONS_BICUBIC && config.rope == OMMAI_ROPE_ADJACENT);
    assert_true(config.norm_eps == 1e-5f && config.merger_norm_eps == 1e-5f);
    assert_int_equal(config.window_size, 0);
    assert_int_equal(describe(&kimi_vl, &config, NULL, &listing), 447545840);
    assert_int_equal(listing.n_tensors, 3 + 27 * 12 + 2 + 6);
    assert_string_equal(listing.last, "multi_modal_projector.linear_2.bias");
  }
}

/* ---- one key changed ---- */

struct change {
  const struct family *family;
  const char *key, *json; /* of vision_config; NULL: the key is removed */
  enum omma_status status;
  const char *part; /* of the message */
};

#define FORMAT OMMA_ERROR_FORMAT
#define UNSUPPORTED OMMA_ERROR_UNSUPPORTED

static const struct change refused[] = {
    {&qwen2_5_vl, "depth", NULL, FORMAT, "vision_config: key \"depth\" is missing"},
    {&qwen2_5_vl, "depth", "1025", FORMAT, "expected 1 to 1024, found 1025"},
    {&qwen2_5_vl, "depth", "31", FORMAT, "\"fullatt_block_indexes\""},
    {&qwen2_5_vl, "hidden_size", "1281", FORMAT, "hidden_size 1281 in 16 heads"},
    {&qwen2_5_vl, "num_heads", "640", FORMAT, "expected heads of a multiple of 4"},
    {&qwen2_5_vl, "num_heads", "4", FORMAT, "at most 256"},
    {&qwen2_5_vl, "hidden_act", "\"gelu\"", UNSUPPORTED, "expected \"silu\", found \"gelu\""},
    {&qwen2_5_vl, "intermediate_size", "0", FORMAT, "found 0"},
    {&qwen2_5_vl, "in_chans", "1", FORMAT, "\"in_chans\": expected 3 to 3, found 1"},
    {&qwen2_5_vl, "in_channels", "4", FORMAT, "\"in_channels\": expected 3 to 3, found 4"},
    {&qwen2_5_vl, "patch_size", "0", FORMAT, "\"patch_size\""},
    {&qwen2_5_vl, "temporal_patch_size", "17", FORMAT, "expected 1 to 16, found 17"},
    {&qwen2_5_vl, "spatial_merge_size", "3", UNSUPPORTED, "merging 3 x 3 patches: expected 1, 2 or 4"},
    {&qwen2_5_vl, "out_hidden_size", NULL, FORMAT, "\"out_hidden_size\" is missing"},
    {&qwen2_5_vl, "window_size", NULL, FORMAT, "\"window_size\" is missing"},
    {&qwen2_5_vl, "window_size", "27", FORMAT, "expected at least a merged token of 28 pixels, found 27"},
    {&qwen2_5_vl, "fullatt_block_indexes", NULL, FORMAT, "\"fullatt_block_indexes\" is missing"},
    {&qwen2_5_vl, "fullatt_block_indexes", "[32]", FORMAT, "expected 0 to 31, found 32"},
    {&qwen2_5_vl, "fullatt_block_indexes", "[-1]", FORMAT, "found -1"},
    {&qwen2_5_vl, "fullatt_block_indexes", "7", FORMAT, "expected an array"},
    {&qwen2_5_vl, "rope_parameters", "{\"rope_theta\": 1}", FORMAT, "\"rope_theta\": expected more than 1, found 1"},
    {&kimi_vl, "model_type", "\"siglip\"", UNSUPPORTED, "expected \"moonvit\", found \"siglip\""},
    {&kimi_vl, "num_hidden_layers", NULL, FORMAT, "vision_config: key \"num_hidden_layers\" is missing"},
    {&kimi_vl, "hidden_size", "1153", FORMAT, "hidden_size 1153 in 16 heads"},
    {&kimi_vl, "num_attention_heads", "576", FORMAT, "expected heads of a multiple of 4"},
    {&kimi_vl, "intermediate_size", "\"4304\"", FORMAT, "expected an integer, found a string"},
    {&kimi_vl, "patch_size", "257", FORMAT, "expected 1 to 256, found 257"},
    {&kimi_vl, "init_pos_emb_height", "0", FORMAT, "\"init_pos_emb_height\": expected 1 to 4096, found 0"},
    {&kimi_vl, "init_pos_emb_width", NULL, FORMAT, "\"init_pos_emb_width\" is missing"},
    {&kimi_vl, "merge_kernel_size", "[2, 4]", UNSUPPORTED, "expected two equal sides"},
    {&kimi_vl, "merge_kernel_size", "[2]", UNSUPPORTED, "expected two equal sides"},
    {&kimi_vl, "merge_kernel_size", "[3, 3]", UNSUPPORTED, "merging 3 x 3 patches"},
    {&kimi_vl, "merge_kernel_size", NULL, FORMAT, "\"merge_kernel_size\" is missing"},
};

static void unusable_values_are_named(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    const struct change *change = &refused[i];
    struct ommai_vision_config config = {0};
    struct omma_error error;
    json_t *root = released(change->family == &kimi_vl ? "kimi-vl-a3b-instruct" : "qwen2.5-vl-32b");
    json_t *vision = json_object_get(root, "vision_config");
    if (change->json) {
      json_object_set_new(vision, change->key, json_loads(change->json, JSON_DECODE_ANY, NULL));
    } else {
      json_object_del(vision, change->key);
    }
    assert_fails(change->family->parse(root, "config.json", &config, &error), change->status, change->part, &error);
    json_decref(root);
  }
}

static void whole_parts_must_be_there(void **state) {
  (void)state;
  const char *const parts[] = {"vision_config", "text_config"};
  for (int i = 0; i < 2; i++) {
    struct ommai_vision_config config = {0};
    struct omma_error error;
    json_t *root = released("kimi-vl-a3b-instruct");
    json_object_del(root, parts[i]);
    assert_fails(kimi_vl.parse(root, "config.json", &config, &error), FORMAT, parts[i], &error);
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
  struct ommai_vision_config config = parse_released(&qwen2_5_vl, "qwen2.5-vl-3b");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
    struct omma_error error;
    struct ommai_checkpoint *checkpoint;
    struct listing listing = {.prefix = cases[i].prefix};
    test_folder_create(folder);
    test_write_safetensors(test_path(path, folder, OMMAI_CHECKPOINT_FILE), cases[i].header, 4);
    assert_ok(ommai_checkpoint_open(folder, &ommai_default_allocator, &checkpoint, &error), &error);
    describe(&qwen2_5_vl, &config, checkpoint, &listing);
    assert_int_equal(listing.n_tensors, 1 + 32 * 12 + 5);
    ommai_checkpoint_close(checkpoint);
    test_folder_remove(folder);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(released_towers_with_windows),
      cmocka_unit_test(released_towers_with_a_projector),
      cmocka_unit_test(unusable_values_are_named),
      cmocka_unit_test(whole_parts_must_be_there),
      cmocka_unit_test(the_checkpoint_decides_on_the_prefix),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
