/* config.json, preprocessor_config.json and generation_config.json: one key changed at a time, the
 * status and the words of the message; both dialects; what the values become. */
#include "families/model_config.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocator.h"
#include "families/family.h"
#include "families/generation_config.h"
#include "families/model_config_read.h"
#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

static enum omma_status read_folder(const char *folder, struct ommai_model_config *config, struct omma_error *error) {
  const struct ommai_family *family;
  return ommai_model_config_read(&(struct ommai_documents){.directory = folder}, false, &ommai_default_allocator, &family,
                                 config, error);
}

static void golden_config(const char *model, struct ommai_model_config *config) {
  char path[1024];
  struct omma_error error;
  golden_path(model, NULL, path, sizeof path);
  assert_ok(read_folder(path, config, &error), &error);
}

static void both_dialects_are_read(void **state) {
  (void)state;
  struct ommai_model_config config;
  golden_config("qwen3_vl_tied", &config); /* rope_parameters */
  assert_string_equal(config.model_type, "qwen3_vl");
  assert_true(config.text.rope_theta == 5e6 && config.text.mrope_interleaved && config.text.tied_embeddings);
  assert_int_equal(config.text.mrope_section[0], 6);
  assert_int_equal(config.text.n_layers, 3);
  assert_int_equal(config.text.n_kv_heads, 2);
  assert_int_equal(config.text.n_deepstack, 2);
  assert_int_equal(config.vision.head_dim, 72);
  assert_int_equal(config.vision.position_rows, 8);
  assert_int_equal(config.vision.deepstack_layers[1], 2);
  assert_int_equal(config.image.min_pixels, 4096);
  assert_int_equal(config.image.max_pixels, 40000);
  assert_int_equal(config.generation.n_stop_tokens, 2);
  assert_int_equal(config.generation.stop_tokens[0], 522);
  assert_int_equal(config.image_token, 526);
  golden_config("qwen3_vl_untied", &config); /* rope_theta besides rope_scaling */
  assert_true(config.text.rope_theta == 5e6 && config.text.mrope_interleaved && !config.text.tied_embeddings);
  assert_int_equal(config.text.mrope_section[1], 10);
  assert_int_equal(config.vision.n_deepstack, 1);
}

/* ---- one key changed ---- */

struct change {
  const char *file, *key, *json; /* NULL: the key is removed */
  enum omma_status status;
  const char *part; /* of the message */
};

#define CONFIG "config.json"
#define IMAGE "preprocessor_config.json"
#define GENERATION "generation_config.json"
#define FORMAT OMMA_ERROR_FORMAT
#define UNSUPPORTED OMMA_ERROR_UNSUPPORTED

static const struct change refused[] = {
    {CONFIG, "model_type", NULL, FORMAT, "key \"model_type\" is missing"},
    {CONFIG, "model_type", "3", FORMAT, "expected a string, found an integer"},
    {CONFIG, "model_type", "\"llava\"", UNSUPPORTED,
     "model_type \"llava\" is not supported; known: qwen2_vl qwen2_5_vl qwen3_vl"},
    {CONFIG, "model_type", "\"qwen3_vl_moe\"", FORMAT, "\"num_experts\" is missing"},
    {CONFIG, "text_config", NULL, FORMAT, "key \"text_config\" is missing"},
    {CONFIG, "text_config", "[1]", FORMAT, "expected an object, found an array"},
    {CONFIG, "vision_config", NULL, FORMAT, "key \"vision_config\" is missing"},
    {CONFIG, "vision_config", "\"x\"", FORMAT, "expected an object, found a string"},
    {CONFIG, "image_token_id", NULL, FORMAT, "key \"image_token_id\" is missing"},
    {CONFIG, "image_token_id", "544", FORMAT, "expected 0 to 543, found 544"},
    {CONFIG, "image_token_id", "-1", FORMAT, "found -1"},
    {CONFIG, "tie_word_embeddings", "1", FORMAT, "expected true or false, found an integer"},
    /* text */
    {CONFIG, "text_config.num_hidden_layers", NULL, FORMAT, "text_config: key \"num_hidden_layers\" is missing"},
    {CONFIG, "text_config.num_hidden_layers", "null", FORMAT, "is missing"},
    {CONFIG, "text_config.num_hidden_layers", "0", FORMAT, "expected 1 to 1024, found 0"},
    {CONFIG, "text_config.num_hidden_layers", "2.5", FORMAT, "expected an integer, found a number"},
    {CONFIG, "text_config.num_hidden_layers", "\"3\"", FORMAT, "expected an integer, found a string"},
    {CONFIG, "text_config.num_hidden_layers", "true", FORMAT, "expected an integer, found a boolean"},
    {CONFIG, "text_config.num_hidden_layers", "9000000000000000000", FORMAT, "found 9000000000000000000"},
    {CONFIG, "text_config.num_hidden_layers", "1e300", FORMAT, "expected an integer, found a number"},
    {CONFIG, "text_config.hidden_size", NULL, FORMAT, "\"hidden_size\" is missing"},
    {CONFIG, "text_config.hidden_size", "-64", FORMAT, "found -64"},
    {CONFIG, "text_config.hidden_size", "2097152", FORMAT, "expected 1 to 1048576"},
    {CONFIG, "text_config.hidden_size", "65", FORMAT, "out_hidden_size 64 differs from text_config's hidden_size 65"},
    {CONFIG, "text_config.num_attention_heads", NULL, FORMAT, "\"num_attention_heads\" is missing"},
    {CONFIG, "text_config.num_attention_heads", "3", FORMAT, "num_attention_heads 3 to be a multiple of num_key_value_heads 2"},
    {CONFIG, "text_config.num_attention_heads", "8192", FORMAT, "expected 1 to 4096"},
    {CONFIG, "text_config.num_key_value_heads", "0", FORMAT, "expected 1 to 4, found 0"},
    {CONFIG, "text_config.num_key_value_heads", "5", FORMAT, "expected 1 to 4, found 5"},
    {CONFIG, "text_config.num_key_value_heads", "3", FORMAT, "multiple of num_key_value_heads 3"},
    {CONFIG, "text_config.head_dim", "31", FORMAT, "head_dim 31 even"},
    {CONFIG, "text_config.head_dim", "1", FORMAT, "expected 2 to 256"},
    {CONFIG, "text_config.head_dim", "258", FORMAT, "expected 2 to 256, found 258"},
    {CONFIG, "text_config.head_dim", "64", FORMAT, "sum to head_dim / 2 = 32"},
    /* the default is 128 */
    {CONFIG, "text_config.head_dim", NULL, FORMAT, "sum to head_dim / 2 = 64"},
    {CONFIG, "text_config.intermediate_size", NULL, FORMAT, "\"intermediate_size\" is missing"},
    {CONFIG, "text_config.intermediate_size", "0", FORMAT, "found 0"},
    {CONFIG, "text_config.vocab_size", NULL, FORMAT, "\"vocab_size\" is missing"},
    {CONFIG, "text_config.vocab_size", "16777217", FORMAT, "expected 1 to 16777216"},
    {CONFIG, "text_config.vocab_size", "500", FORMAT, "\"image_token_id\": expected 0 to 499, found 526"},
    {CONFIG, "text_config.max_position_embeddings", NULL, FORMAT, "\"max_position_embeddings\" is missing"},
    {CONFIG, "text_config.max_position_embeddings", "0", FORMAT, "found 0"},
    {CONFIG, "text_config.rms_norm_eps", "0", FORMAT, "\"rms_norm_eps\": found 0"},
    {CONFIG, "text_config.rms_norm_eps", "-1e-6", FORMAT, "\"rms_norm_eps\": found -1e-06"},
    {CONFIG, "text_config.rms_norm_eps", "1e9", FORMAT, "found 1e+09"},
    {CONFIG, "text_config.rms_norm_eps", "\"1e-6\"", FORMAT, "expected a number, found a string"},
    {CONFIG, "text_config.attention_bias", "true", UNSUPPORTED, "\"attention_bias\": true is not supported"},
    {CONFIG, "text_config.hidden_act", "\"gelu\"", UNSUPPORTED, "expected \"silu\", found \"gelu\""},
    {CONFIG, "text_config.tie_word_embeddings", "\"yes\"", FORMAT, "expected true or false, found a string"},
    {CONFIG, "text_config.rope_parameters", NULL, FORMAT,
     "\"mrope_section\" is missing, and its default, [24, 20, 20], sums to 64, not to head_dim / 2 = 16"},
    {CONFIG, "text_config.rope_parameters", "[]", FORMAT, "expected an object, found an array"},
    {CONFIG, "text_config.rope_parameters.rope_type", "\"yarn\"", FORMAT, "key \"factor\" is missing"},
    {CONFIG, "text_config.rope_parameters.rope_type", "\"dynamic\"", UNSUPPORTED,
     "\"dynamic\" is not supported; known: default, mrope, linear, yarn"},
    {CONFIG, "text_config.rope_parameters.rope_theta", "1e40", FORMAT, "at most 1e30, found 1e+40"},
    {CONFIG, "text_config.rope_parameters.partial_rotary_factor", "0.5", UNSUPPORTED, "expected 1, found 0.5"},
    {CONFIG, "text_config.rope_parameters", "{\"rope_type\": \"linear\", \"factor\": 0, \"mrope_section\": [6, 5, 5]}", FORMAT,
     "\"factor\": expected more than 0"},
    {CONFIG, "text_config.rope_parameters", "{\"rope_type\": \"linear\", \"factor\": -2, \"mrope_section\": [6, 5, 5]}", FORMAT,
     "expected 0 to 1e+06, found -2"},
    {CONFIG, "text_config.rope_parameters", "{\"rope_type\": \"linear\", \"factor\": 1e5, \"mrope_section\": [6, 5, 5]}",
     FORMAT, "expected 1 to 16777216 of them"},
    {CONFIG, "text_config.rope_parameters", "{\"rope_type\": \"linear\", \"factor\": null, \"mrope_section\": [6, 5, 5]}",
     FORMAT, "key \"factor\" is missing"},
    {CONFIG, "text_config.rope_parameters",
     "{\"rope_type\": \"yarn\", \"factor\": 2, \"beta_fast\": -1, \"mrope_section\": [6, 5, 5]}", FORMAT,
     "\"beta_fast\": expected 0 to"},
    {CONFIG, "text_config.rope_parameters",
     "{\"rope_type\": \"yarn\", \"factor\": 2, \"attention_factor\": 0, \"mrope_section\": [6, 5, 5]}", FORMAT,
     "\"attention_factor\": expected more than 0"},
    {CONFIG, "text_config.rope_parameters",
     "{\"rope_type\": \"yarn\", \"factor\": 2, \"truncate\": 1, \"mrope_section\": [6, 5, 5]}", FORMAT,
     "expected true or false"},
    {CONFIG, "text_config.rope_parameters.rope_theta", "1", FORMAT, "expected more than 1, found 1"},
    {CONFIG, "text_config.rope_parameters.rope_theta", "-5e6", FORMAT, "found -5e+06"},
    {CONFIG, "text_config.rope_parameters.mrope_section", NULL, FORMAT, "sums to 64, not to head_dim / 2 = 16"},
    {CONFIG, "text_config.rope_parameters.mrope_section", "[6, 5, 4]", FORMAT, "3 entries that sum to head_dim / 2 = 16"},
    {CONFIG, "text_config.rope_parameters.mrope_section", "[8, 8]", FORMAT, "3 entries that sum to"},
    {CONFIG, "text_config.rope_parameters.mrope_section", "[4, 4, 4, 4]", FORMAT, "at most 3 entries, found 4"},
    {CONFIG, "text_config.rope_parameters.mrope_section", "[18, -1, -1]", FORMAT, "entry 1: expected 0 to 128, found -1"},
    {CONFIG, "text_config.rope_parameters.mrope_section", "[6, 5, \"5\"]", FORMAT, "expected integers, found a string"},
    {CONFIG, "text_config.rope_parameters.mrope_interleaved", "0", FORMAT, "expected true or false"},
    /* vision */
    {CONFIG, "vision_config.depth", "2", FORMAT, "\"deepstack_visual_indexes\": entry 1: expected 0 to 1, found 2"},
    {CONFIG, "vision_config.depth", "4096", FORMAT, "expected 1 to 1024"},
    {CONFIG, "vision_config.hidden_size", "74", FORMAT, "hidden_size 74 in 1 heads: expected heads of a multiple of 4"},
    {CONFIG, "vision_config.num_heads", "5", FORMAT, "hidden_size 72 in 5 heads"},
    {CONFIG, "vision_config.num_heads", "144", FORMAT, "hidden_size 72 in 144 heads"},
    {CONFIG, "vision_config.hidden_size", "512", FORMAT, "at most 256"},
    {CONFIG, "vision_config.patch_size", "257", FORMAT, "expected 1 to 256"},
    {CONFIG, "vision_config.patch_size", "14", FORMAT, "\"patch_size\": expected 14 as in config.json, found 16"},
    {CONFIG, "vision_config.temporal_patch_size", "1", FORMAT, "expected 1 as in config.json, found 2"},
    {CONFIG, "vision_config.spatial_merge_size", "0", FORMAT, "expected 1 to 8"},
    {CONFIG, "vision_config.spatial_merge_size", "1", FORMAT, "\"merge_size\": expected 1 as in config.json, found 2"},
    {CONFIG, "vision_config.in_channels", "1", FORMAT, "expected 3 to 3, found 1"},
    {CONFIG, "vision_config.in_chans", "4", FORMAT, "expected 3 to 3, found 4"},
    {CONFIG, "vision_config.out_hidden_size", "128", FORMAT, "out_hidden_size 128 differs"},
    {CONFIG, "vision_config.num_position_embeddings", "63", FORMAT, "expected a square, found 63"},
    {CONFIG, "vision_config.num_position_embeddings", "-64", FORMAT, "found -64"},
    {CONFIG, "vision_config.hidden_act", "\"silu\"", UNSUPPORTED, "expected \"gelu_pytorch_tanh\""},
    {CONFIG, "vision_config.rope_parameters", "7", FORMAT, "expected an object"},
    {CONFIG, "vision_config.rope_parameters.rope_theta", "\"x\"", FORMAT, "expected a number"},
    {CONFIG, "vision_config.rope_parameters.rope_theta", "0", FORMAT, "\"rope_theta\": expected more than 1, found 0"},
    {CONFIG, "vision_config.rope_parameters.rope_theta", "-10000", FORMAT, "found -10000"},
    {CONFIG, "vision_config.deepstack_visual_indexes", "[0, 4]", FORMAT, "entry 1: expected 0 to 3, found 4"},
    {CONFIG, "vision_config.deepstack_visual_indexes", "[-1]", FORMAT, "entry 0: expected 0 to 3, found -1"},
    {CONFIG, "vision_config.deepstack_visual_indexes", "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", FORMAT, "at most 16"},
    {CONFIG, "vision_config.deepstack_visual_indexes", "3", FORMAT, "expected an array"},
    /* images */
    {IMAGE, "patch_size", "14", FORMAT, "expected 16 as in config.json, found 14"},
    {IMAGE, "patch_size", "\"16\"", FORMAT, "expected an integer"},
    {IMAGE, "temporal_patch_size", "3", FORMAT, "expected 2 as in config.json, found 3"},
    {IMAGE, "merge_size", "4", FORMAT, "expected 2 as in config.json, found 4"},
    {IMAGE, "do_resize", "false", UNSUPPORTED, "\"do_resize\": false is not supported"},
    {IMAGE, "do_rescale", "false", UNSUPPORTED, "\"do_rescale\""},
    {IMAGE, "do_normalize", "false", UNSUPPORTED, "\"do_normalize\""},
    {IMAGE, "do_convert_rgb", "false", UNSUPPORTED, "\"do_convert_rgb\""},
    {IMAGE, "do_resize", "1", FORMAT, "expected true or false"},
    {IMAGE, "rescale_factor", "0.5", UNSUPPORTED, "expected 1/255, found 0.5"},
    {IMAGE, "rescale_factor", "0", UNSUPPORTED, "found 0"},
    {IMAGE, "resample", "2", UNSUPPORTED, "expected 3 (bicubic), found 2"},
    {IMAGE, "resample", "6", FORMAT, "expected 0 to 5"},
    {IMAGE, "size", "448", FORMAT, "expected an object"},
    {IMAGE, "size", "{\"height\": 448, \"width\": 448}", FORMAT, "shortest_edge <= longest_edge"},
    {IMAGE, "size.shortest_edge", "40001", FORMAT, "found 40001 and 40000"},
    {IMAGE, "size.shortest_edge", "0", FORMAT, "expected 1 to"},
    {IMAGE, "size.longest_edge", "-1", FORMAT, "found -1"},
    {IMAGE, "size.longest_edge", "2000000000000", FORMAT, "expected 1 to 1073741824"},
    {IMAGE, "max_pixels", "100", FORMAT, "found 4096 and 100"},
    {IMAGE, "image_mean", "[0.5, 0.5]", FORMAT, "expected 3 numbers, found 2"},
    {IMAGE, "image_mean", "[0.5, 0.5, null]", FORMAT, "entry 2 is not a sensible number"},
    {IMAGE, "image_mean", "[0.5, 1e30, 0.5]", FORMAT, "entry 1 is not a sensible number"},
    {IMAGE, "image_mean", "0.5", FORMAT, "expected an array"},
    {IMAGE, "image_std", "[0.5, 0, 0.5]", FORMAT, "\"image_std\": expected positive numbers"},
    {IMAGE, "image_std", "[0.5, -0.5, 0.5]", FORMAT, "expected positive numbers"},
    {IMAGE, "image_std", "[0.5, 1e-300, 0.5]", FORMAT, "expected positive numbers"},
    /* generation */
    {GENERATION, "eos_token_id", "544", FORMAT, "expected 0 to 543, found 544"},
    {GENERATION, "eos_token_id", "[522, -1]", FORMAT, "entry 1: expected 0 to 543, found -1"},
    {GENERATION, "eos_token_id", "\"522\"", FORMAT, "expected an integer, found a string"},
    {GENERATION, "eos_token_id", "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", FORMAT, "at most 16 entries, found 17"},
    {GENERATION, "temperature", "2.5", FORMAT, "\"temperature\": expected 0 to 2, found 2.5"},
    {GENERATION, "temperature", "-1", FORMAT, "expected 0 to 2, found -1"},
    {GENERATION, "top_p", "1.1", FORMAT, "\"top_p\": expected 0 to 1"},
    {GENERATION, "min_p", "-0.1", FORMAT, "\"min_p\": expected 0 to 1"},
    {GENERATION, "top_k", "-2", FORMAT, "found -2"},
    {GENERATION, "top_k", "2.5", FORMAT, "expected an integer"},
    {GENERATION, "presence_penalty", "3", FORMAT, "expected -2 to 2, found 3"},
    {GENERATION, "frequency_penalty", "[]", FORMAT, "expected a number"},
    {GENERATION, "max_new_tokens", "0", FORMAT, "\"max_new_tokens\": expected 1 to"},
    {GENERATION, "repetition_penalty", "\"1\"", FORMAT, "expected a number"},
    {GENERATION, "repetition_penalty", "-1", FORMAT, "expected 0 to 100, found -1"},
};

static void wrong_keys_are_refused_by_name(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE];
  fixture_copy_config("qwen3_vl_tied", folder);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    const struct change *change = &refused[i];
    char path[TEST_PATH_SIZE], golden[1024];
    struct ommai_model_config config;
    struct omma_error error = {0};
    fixture_set_key(folder, change->file, change->key, change->json);
    enum omma_status status = read_folder(folder, &config, &error);
    if (status != change->status || !strstr(error.message, change->part) || strchr(error.message, '\n')) {
      fail_msg("%s = %s: %s: \"%s\", expected %s with \"%s\"", change->key, change->json ? change->json : "nothing",
               omma_status_name(status), error.message, omma_status_name(change->status), change->part);
    }
    assert_non_null(strstr(error.message, folder));
    golden_path("qwen3_vl_tied", change->file, golden, sizeof golden);
    fixture_copy_file(golden, test_path(path, folder, change->file));
  }
  test_folder_remove(folder);
}

static const struct change accepted[] = {
    {CONFIG, "text_config.use_sliding_window", "true", OMMA_OK, ""}, /* from layer 80 on */
    {CONFIG, "text_config.rope_scaling", "{}", OMMA_OK, ""},
    {CONFIG, "vision_config.depth", NULL, OMMA_OK, ""},
    {CONFIG, "vision_config.num_position_embeddings", NULL, OMMA_OK, ""},
    {CONFIG, "vision_config.deepstack_visual_indexes", NULL, OMMA_OK, ""},
    {CONFIG, "vision_config.deepstack_visual_indexes", "[2, 0]", OMMA_OK, ""},
    {IMAGE, "size", NULL, OMMA_OK, ""},
    {CONFIG, "text_config.num_key_value_heads", NULL, OMMA_OK, ""},
    {CONFIG, "text_config.num_hidden_layers", "3.0", OMMA_OK, ""},
    {CONFIG, "text_config.rms_norm_eps", NULL, OMMA_OK, ""},
    {CONFIG, "text_config.attention_bias", "null", OMMA_OK, ""},
    {CONFIG, "text_config.hidden_act", NULL, OMMA_OK, ""},
    {CONFIG, "text_config.rope_parameters.rope_theta", NULL, OMMA_OK, ""},
    {CONFIG, "text_config.rope_parameters.mrope_interleaved", "false", OMMA_OK, ""},
    {CONFIG, "text_config.max_position_embeddings", "16777216", OMMA_OK, ""},
    {CONFIG, "vision_config.rope_parameters", NULL, OMMA_OK, ""},
    {CONFIG, "vision_config.deepstack_visual_indexes", "[]", OMMA_OK, ""},
    {CONFIG, "vision_config.deepstack_visual_indexes", "[1, 2, 3]", OMMA_OK, ""},
    /* one more than decoder layers */
    {CONFIG, "vision_config.deepstack_visual_indexes", "[0, 1, 2, 3]", OMMA_OK, ""},
    {CONFIG, "vision_config.num_position_embeddings", "1", OMMA_OK, ""},
    {CONFIG, "vision_config.unknown_key", "{\"a\": [1, 2]}", OMMA_OK, ""},
    {IMAGE, "patch_size", NULL, OMMA_OK, ""},
    {IMAGE, "resample", NULL, OMMA_OK, ""},
    {IMAGE, "min_pixels", "1", OMMA_OK, ""},
    {IMAGE, "size.shortest_edge", "40000", OMMA_OK, ""},
    {GENERATION, "eos_token_id", "522", OMMA_OK, ""},
    {GENERATION, "eos_token_id", NULL, OMMA_OK, ""},
    {GENERATION, "eos_token_id", "[]", OMMA_OK, ""},
};

static void unusual_but_valid_keys_are_taken(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE];
  fixture_copy_config("qwen3_vl_tied", folder);
  for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
    const struct change *change = &accepted[i];
    char path[TEST_PATH_SIZE], golden[1024];
    struct ommai_model_config config;
    struct omma_error error = {0};
    fixture_set_key(folder, change->file, change->key, change->json);
    if (read_folder(folder, &config, &error) != OMMA_OK) fail_msg("%s: %s", change->key, error.message);
    assert_true(config.text.n_deepstack <= config.text.n_layers && config.text.n_deepstack <= config.vision.n_deepstack);
    golden_path("qwen3_vl_tied", change->file, golden, sizeof golden);
    fixture_copy_file(golden, test_path(path, folder, change->file));
  }
  test_folder_remove(folder);
}

/* ---- whole files ---- */

static void broken_files_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *part;
  } broken[] = {
      {"", "invalid JSON"},
      {"{", "invalid JSON"},
      {"[]", "expected a JSON object, found an array"},
      {"{\"a\": NaN}", "invalid JSON"},
      {"{\"a\": Infinity}", "invalid JSON"},
      {"{\"a\": 1e999}", "invalid JSON"},
      {"{\"a\": 99999999999999999999}", "invalid JSON"},
      {"{\"a\": 1, \"a\": 1}", "duplicate"},
      {"{\"a\": \"\xff\"}", "invalid JSON"},
      {"\xef\xbb\xbf{}", "invalid JSON"},
  };
  static const char *const files[] = {CONFIG, IMAGE, GENERATION};
  for (size_t f = 0; f < 3; f++) {
    char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
    fixture_copy_config("qwen3_vl_tied", folder);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
      struct ommai_model_config config;
      struct omma_error error;
      test_write_file(test_path(path, folder, files[f]), broken[i].text, strlen(broken[i].text));
      assert_fails(read_folder(folder, &config, &error), OMMA_ERROR_FORMAT, broken[i].part, &error);
      assert_non_null(strstr(error.message, path));
    }
    test_folder_remove(folder);
  }
}

/* config.json cut at every byte: refused with a message, never read past its end. */
static void truncated_files_are_refused(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
  size_t size;
  fixture_copy_config("qwen3_vl_tied", folder);
  unsigned char *bytes = fixture_read(test_path(path, folder, CONFIG), &size);
  while (size > 0 && bytes[size - 1] != '}') size--;
  for (size_t length = 0; length < size; length += 1 + length / 16) {
    struct ommai_model_config config;
    struct omma_error error;
    test_write_file(path, bytes, length);
    assert_fails(read_folder(folder, &config, &error), OMMA_ERROR_FORMAT, "config.json: invalid JSON", &error);
  }
  free(bytes);
  test_folder_remove(folder);
}

static void missing_files_are_named(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
  struct ommai_model_config config;
  struct omma_error error;
  fixture_copy_config("qwen3_vl_untied", folder);
  unlink(test_path(path, folder, GENERATION)); /* then the text part gives where to stop */
  assert_ok(read_folder(folder, &config, &error), &error);
  assert_int_equal(config.generation.n_stop_tokens, 1);
  assert_int_equal(config.generation.stop_tokens[0], 522);
  fixture_set_key(folder, CONFIG, "text_config.eos_token_id", "600");
  assert_fails(read_folder(folder, &config, &error), OMMA_ERROR_FORMAT, "\"eos_token_id\": expected 0 to 543, found 600",
               &error);
  fixture_set_key(folder, CONFIG, "text_config.eos_token_id", NULL);
  assert_ok(read_folder(folder, &config, &error), &error);
  assert_int_equal(config.generation.n_stop_tokens, 0);
  unlink(test_path(path, folder, IMAGE));
  assert_fails(read_folder(folder, &config, &error), OMMA_ERROR_IO, "preprocessor_config.json: no such file", &error);
  unlink(test_path(path, folder, CONFIG));
  assert_fails(read_folder(folder, &config, &error), OMMA_ERROR_IO, "config.json", &error);
  test_folder_remove(folder);
  assert_fails(read_folder(folder, &config, &error), OMMA_ERROR_IO, "config.json", &error);
}

/* Newer writers keep the image settings inside processor_config.json. */
static void processor_config_serves_as_well(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
  struct ommai_model_config config, expected;
  struct omma_error error;
  size_t size;
  golden_config("qwen3_vl_tied", &expected);
  fixture_copy_config("qwen3_vl_tied", folder);
  char *inner = (char *)fixture_read(test_path(path, folder, IMAGE), &size);
  inner[size] = '\0';
  unlink(path);
  test_write_file(test_path(path, folder, "processor_config.json"), "{}", 2);
  assert_fails(read_folder(folder, &config, &error), OMMA_ERROR_FORMAT, "processor_config.json: key \"image_processor\"",
               &error);
  fixture_set_key(folder, "processor_config.json", "image_processor", inner);
  assert_ok(read_folder(folder, &config, &error), &error);
  assert_memory_equal(&config.image, &expected.image, sizeof expected.image);
  fixture_set_key(folder, "processor_config.json", "image_processor.image_mean", "[1]");
  assert_fails(read_folder(folder, &config, &error), OMMA_ERROR_FORMAT,
               "/processor_config.json: image_processor: key \"image_mean\": expected 3 numbers", &error);
  free(inner);
  test_folder_remove(folder);
}

/* As in transformers: the part of processor_config.json, then the file of its own, for videos then
 * that of images. */
static void parts_of_processor_config_go_first(void **state) {
  (void)state;
  static const char nested[] =
      "{\"image_processor\": {\"size\": {\"shortest_edge\": 5000, \"longest_edge\": 6000}}, \"video_processor\": "
      "{\"size\": {\"shortest_edge\": 7000, \"longest_edge\": 8000}, \"image_mean\": [0.48145466, 0.4578275, 0.40821073], "
      "\"image_std\": [0.26862954, 0.26130258, 0.27577711]}}";
  static const char own[] = "{\"size\": {\"shortest_edge\": 9000, \"longest_edge\": 10000}}";
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
  struct ommai_model_config config;
  struct omma_error error;
  fixture_copy_config("qwen3_vl_tied", folder);
  fixture_set_key(folder, CONFIG, "video_token_id", "527");
  /* as the class's default for videos is */
  fixture_set_key(folder, IMAGE, "image_mean", "[0.5, 0.5, 0.5]");
  fixture_set_key(folder, IMAGE, "image_std", "[0.5, 0.5, 0.5]");
  assert_ok(read_folder(folder, &config, &error), &error);
  assert_int_equal(config.video.max_pixels, 40000); /* that of images */
  test_write_file(test_path(path, folder, "video_preprocessor_config.json"), own, sizeof own - 1);
  assert_ok(read_folder(folder, &config, &error), &error);
  assert_int_equal(config.video.max_pixels, 10000);
  test_write_file(test_path(path, folder, "processor_config.json"), nested, sizeof nested - 1);
  assert_ok(read_folder(folder, &config, &error), &error);
  assert_int_equal(config.image.max_pixels, 6000);
  assert_int_equal(config.video.max_pixels, 8000);
  assert_true(config.image.patches.mean[0] == 0.48145466f && config.image.patches.std[2] == 0.27577711f);
  test_folder_remove(folder);
}

/* The classes' own limits, mean and std: tools/make_config_fixtures.py has them from
 * transformers. */
static void class_defaults_stand_in_processor_files(void **state) {
  (void)state;
  static const struct {
    const char *model;
    int64_t min_pixels, max_pixels;
    float mean, std;
  } cases[] = {{"qwen2_vl_untied", 3136, 1003520, 0.48145466f, 0.26862954f},
               {"qwen2_5_vl_untied", 3136, 1003520, 0.48145466f, 0.26862954f},
               {"qwen3_vl_tied", 3136, 1003520, 0.48145466f, 0.26862954f},
               {"kimi_vl", 0, 4096 * 14 * 14, 0.5f, 0.5f}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
    struct ommai_model_config config;
    struct omma_error error;
    const char *text = i == 3 ? "{\"pad_input\": true}" : "{}";
    fixture_copy_config(cases[i].model, folder);
    if (i < 3) fixture_set_key(folder, CONFIG, "video_token_id", NULL);
    test_write_file(test_path(path, folder, IMAGE), text, strlen(text));
    assert_ok(read_folder(folder, &config, &error), &error);
    assert_int_equal(config.image.min_pixels, cases[i].min_pixels);
    assert_int_equal(config.image.max_pixels, cases[i].max_pixels);
    assert_true(config.image.patches.mean[0] == cases[i].mean && config.image.patches.std[0] == cases[i].std);
    test_folder_remove(folder);
  }
}

/* An optional file that is a directory, a named pipe or a link that leads nowhere was meant to be
 * read. */
static void what_is_no_file_is_not_missing(void **state) {
  (void)state;
  static const char *const files[] = {GENERATION, IMAGE, "processor_config.json", "video_preprocessor_config.json"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    for (int kind = 0; kind < 3; kind++) {
      char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
      struct ommai_model_config config;
      struct omma_error error;
      fixture_copy_config("qwen3_vl_tied", folder);
      unlink(test_path(path, folder, files[i]));
      if (kind == 0) assert_int_equal(mkdir(path, 0700), 0);
      if (kind == 1) assert_int_equal(mkfifo(path, 0600), 0);
      if (kind == 2) assert_int_equal(symlink("nowhere", path), 0);
      assert_fails(read_folder(folder, &config, &error), OMMA_ERROR_IO, files[i], &error);
      if (kind == 0) assert_int_equal(rmdir(path), 0);
      test_folder_remove(folder);
    }
  }
}

/* ---- generation_config.json ---- */

static void write_text(const char *folder, const char *file, const char *text) {
  char path[TEST_PATH_SIZE];
  test_write_file(test_path(path, folder, file), text, strlen(text));
}

static const char all_values[] =
    "{\"eos_token_id\": [1], \"temperature\": 0.7, \"top_p\": 0.8, \"top_k\": 20, \"min_p\": 0.05, \"max_new_tokens\": 300,"
    " \"repetition_penalty\": 1.05, \"presence_penalty\": 1.5, \"frequency_penalty\": -0.5, \"num_beams\": 4}";

static void expect_all_values(const struct ommai_generation_config *g) {
  assert_true(g->temperature == 0.7 && g->top_p == 0.8 && g->min_p == 0.05 && g->repetition_penalty == 1.05);
  assert_true(g->presence_penalty == 1.5 && g->frequency_penalty == -0.5);
  assert_int_equal(g->top_k, 20);
  assert_int_equal(g->max_tokens, 300);
  assert_int_equal(g->max_tokens_limit, 0);
}

static void expect_nothing(const struct ommai_generation_config *g) {
  assert_true(g->temperature == -1 && g->top_p == 0 && g->min_p == 0 && g->repetition_penalty == 0);
  assert_true(g->presence_penalty == 0 && g->frequency_penalty == 0);
  assert_true(g->top_k == 0 && g->max_tokens == 0 && g->max_tokens_limit == 0);
}

static void sampling_counts_regardless_of_do_sample(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE];
  struct ommai_model_config config;
  struct omma_error error;
  fixture_copy_config("qwen3_vl_tied", folder);
  assert_ok(read_folder(folder, &config, &error), &error);
  expect_nothing(&config.generation);
  write_text(folder, GENERATION, all_values);
  assert_ok(read_folder(folder, &config, &error), &error);
  expect_all_values(&config.generation);
  static const char *const do_sample[] = {"false", "true", "null"};
  for (size_t i = 0; i < sizeof do_sample / sizeof *do_sample; i++) {
    fixture_set_key(folder, GENERATION, "do_sample", do_sample[i]);
    assert_ok(read_folder(folder, &config, &error), &error);
    expect_all_values(&config.generation);
  }
  fixture_set_key(folder, GENERATION, "temperature", "0"); /* greedy, which is something */
  fixture_set_key(folder, GENERATION, "top_k", "null");
  assert_ok(read_folder(folder, &config, &error), &error);
  assert_true(config.generation.temperature == 0 && config.generation.top_k == 0);
  test_folder_remove(folder);
}

/* The root's eos_token_id goes before that of text_config, as in transformers. */
static void without_a_file_config_gives_where_to_stop(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
  struct ommai_model_config config;
  struct omma_error error;
  fixture_copy_config("qwen3_vl_tied", folder);
  unlink(test_path(path, folder, GENERATION));
  fixture_set_key(folder, CONFIG, "temperature", "0.3"); /* means nothing there */
  fixture_set_key(folder, CONFIG, "eos_token_id", "[7, 9]");
  fixture_set_key(folder, CONFIG, "text_config.eos_token_id", "8");
  assert_ok(read_folder(folder, &config, &error), &error);
  assert_int_equal(config.generation.n_stop_tokens, 2);
  assert_int_equal(config.generation.stop_tokens[1], 9);
  expect_nothing(&config.generation);
  fixture_set_key(folder, CONFIG, "eos_token_id", "null");
  assert_ok(read_folder(folder, &config, &error), &error);
  assert_int_equal(config.generation.n_stop_tokens, 1);
  assert_int_equal(config.generation.stop_tokens[0], 8);
  test_folder_remove(folder);
}

static enum omma_status choose(const char *source, const char *overrides, struct ommai_generation_config *g,
                               struct omma_error *error) {
  return ommai_generation_config_choose(source, overrides, &ommai_default_allocator, 544, g, error);
}

static void another_source_may_be_chosen(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE];
  struct ommai_model_config config;
  struct omma_error error;
  fixture_copy_config("qwen3_vl_tied", folder);
  write_text(folder, GENERATION, all_values);
  assert_ok(read_folder(folder, &config, &error), &error);
  struct ommai_generation_config g = config.generation;
  assert_ok(choose("auto", NULL, &g, &error), &error);
  expect_all_values(&g);
  assert_ok(choose("vllm", NULL, &g, &error), &error);
  expect_nothing(&g);
  assert_int_equal(g.n_stop_tokens, 1);
  g = (struct ommai_generation_config){.n_stop_tokens = 1, .stop_tokens = {5}, .top_p = 0.1};
  assert_ok(choose(folder, NULL, &g, &error), &error);
  assert_int_equal(g.max_tokens_limit, 300);
  assert_int_equal(g.stop_tokens[0], 1);
  g.max_tokens_limit = 0;
  expect_all_values(&g);
  fixture_set_key(folder, GENERATION, "eos_token_id", NULL);
  g.stop_tokens[0] = 5;
  assert_ok(choose(folder, "{\"max_new_tokens\": null}", &g, &error), &error);
  assert_int_equal(g.stop_tokens[0], 5);
  assert_int_equal(g.max_tokens_limit, 0);
  test_folder_remove(folder);
  assert_fails(choose(folder, NULL, &g, &error), OMMA_ERROR_ARGUMENT, "expected auto, vllm, or a directory with", &error);
}

static void overrides_go_before_the_file(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_generation_config g = {.temperature = 0.7, .top_k = 20, .top_p = 0.8, .n_stop_tokens = 1, .stop_tokens = {5}};
  const char overrides[] = "{\"temperature\": 0.5, \"top_k\": null, \"eos_token_id\": 3, \"num_beams\": 2}";
  assert_ok(choose(NULL, overrides, &g, &error), &error);
  assert_true(g.temperature == 0.5 && g.top_k == 0 && g.top_p == 0.8 && g.stop_tokens[0] == 5 && g.max_tokens_limit == 0);
  assert_ok(choose("vllm", "{\"min_p\": 0.1, \"max_new_tokens\": 9, \"temperature\": null}", &g, &error), &error);
  assert_true(g.temperature == -1 && g.top_p == 0 && g.min_p == 0.1 && g.max_tokens == 9 && g.max_tokens_limit == 9);
  assert_fails(choose(NULL, "{\"min_p\": 2}", &g, &error), OMMA_ERROR_FORMAT,
               "override_generation_config: key \"min_p\": expected 0 to 1, found 2", &error);
  assert_fails(choose(NULL, "[1]", &g, &error), OMMA_ERROR_FORMAT, "override_generation_config", &error);
  assert_fails(choose(NULL, "{\"min_p\"", &g, &error), OMMA_ERROR_FORMAT, "override_generation_config", &error);
}

static void the_tokenizers_eos_ends_answers_too(void **state) {
  (void)state;
  char path[1024], folder[TEST_PATH_SIZE];
  struct omma_error error;
  struct ommai_tokenizer *tokenizer;
  int32_t end, other;
  golden_path("qwen3_vl_tied", NULL, path, sizeof path);
  assert_ok(ommai_tokenizer_load(path, &ommai_default_allocator, &tokenizer, &error), &error);
  assert_true(ommai_tokenizer_find(tokenizer, "<|im_end|>", &end) && ommai_tokenizer_find(tokenizer, "<|endoftext|>", &other));
  struct ommai_generation_config g = {0};
  fixture_copy_config("qwen3_vl_tied", folder); /* without tokenizer_config.json */
  assert_ok(ommai_generation_config_add_eos(&(struct ommai_documents){.directory = folder}, &ommai_default_allocator, tokenizer,
                                            &g, &error),
            &error);
  assert_int_equal(g.n_stop_tokens, 0);
  static const char *const texts[] = {"{\"eos_token\": \"<|im_end|>\"}", "{\"eos_token\": {\"content\": \"<|im_end|>\"}}",
                                      "{\"eos_token\": \"no such\"}", "{\"eos_token\": 3}", "{\"eos_token\": null}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    g = (struct ommai_generation_config){.n_stop_tokens = 1, .stop_tokens = {other}};
    write_text(folder, "tokenizer_config.json", texts[i]);
    for (int twice = 0; twice < 2; twice++) {
      assert_ok(ommai_generation_config_add_eos(&(struct ommai_documents){.directory = folder}, &ommai_default_allocator,
                                                tokenizer, &g, &error),
                &error);
      assert_int_equal(g.n_stop_tokens, i < 2 ? 2 : 1);
      assert_int_equal(g.stop_tokens[g.n_stop_tokens - 1], i < 2 ? end : other);
    }
  }
  write_text(folder, "tokenizer_config.json", "{");
  assert_fails(ommai_generation_config_add_eos(&(struct ommai_documents){.directory = folder}, &ommai_default_allocator,
                                               tokenizer, &g, &error),
               OMMA_ERROR_FORMAT, "tokenizer_config.json", &error);
  test_folder_remove(folder);
  ommai_tokenizer_destroy(tokenizer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_dialects_are_read),
      cmocka_unit_test(wrong_keys_are_refused_by_name),
      cmocka_unit_test(unusual_but_valid_keys_are_taken),
      cmocka_unit_test(broken_files_are_refused),
      cmocka_unit_test(truncated_files_are_refused),
      cmocka_unit_test(missing_files_are_named),
      cmocka_unit_test(parts_of_processor_config_go_first),
      cmocka_unit_test(class_defaults_stand_in_processor_files),
      cmocka_unit_test(what_is_no_file_is_not_missing),
      cmocka_unit_test(processor_config_serves_as_well),
      cmocka_unit_test(sampling_counts_regardless_of_do_sample),
      cmocka_unit_test(without_a_file_config_gives_where_to_stop),
      cmocka_unit_test(another_source_may_be_chosen),
      cmocka_unit_test(overrides_go_before_the_file),
      cmocka_unit_test(the_tokenizers_eos_ends_answers_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
