/* Models of which only config.json is there: every released size is estimated, and what needs
 * another file is reported so. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

#define CONFIG "config.json"

static const struct omma_model_options config_only = {.config_only = true, .n_threads = 1, .weights = OMMA_WEIGHTS_F32};

/* A folder with a released config.json and nothing else. */
static void make_folder(const char *name, char folder[TEST_PATH_SIZE]) {
  char from[1024], to[TEST_PATH_SIZE];
  snprintf(from, sizeof from, "%s/data/configs/%s.json", OMMA_TEST_DATA, name);
  test_folder_create(folder);
  fixture_copy_file(from, test_path(to, folder, CONFIG));
}

static struct omma_model *open_folder(const char *folder) {
  struct omma_model *model;
  struct omma_error error;
  assert_ok(omma_model_open(folder, &config_only, &model, &error), &error);
  return model;
}

/* ---- every released size ---- */

struct released {
  const char *name, *model_type;
  double published; /* billions of parameters, as the checkpoint's index has them */
  int64_t n_parameters, n_vision_parameters;
  int64_t n_layers, vision_depth;
  int64_t n_embeddings; /* that stay in their file: those of untied models */
  int64_t n_tokens, n_windows;
  int64_t min_pixels, max_pixels;
  const char *values;
};

#define QWEN2 "Qwen2-VL's published values"
#define QWEN2_5 "Qwen2.5-VL's published values"
#define QWEN3 "Qwen3-VL's published values"
#define PADDLE "PaddleOCR-VL's published values"
#define GLM "GLM-OCR's published values"
#define LIGHTON "LightOnOCR's published values"
#define DOTS "dots.ocr's published values"
#define KIMI "Kimi-VL-A3B-Instruct's published values (Thinking-2506 has in_token_limit 16384 instead of 4096)"

/* Parameters: summed by hand from the shapes in docs/models. An image of 1000 x 700 becomes 1008 x
 * 700 where a token is 28 pixels wide, 36 x 25 tokens in 9 x 7 windows of 4 x 4 or padded to that,
 * and 992 x 704 where it is 32, 31 x 22 tokens. */
static const struct released released[] = {
    {"qwen2-vl-2b", "qwen2_vl", 2.21, 2208985600, 665271296, 28, 32, 0, 900, 0, 3136, 12845056, QWEN2},
    {"qwen2-vl-7b", "qwen2_vl", 8.29, 8291375616, 675759104, 28, 32, 152064 * 3584, 900, 0, 3136, 12845056, QWEN2},
    {"qwen2-vl-72b", "qwen2_vl", 73.4, 73405560320, 699356672, 80, 32, 152064 * 8192, 900, 0, 3136, 12845056, QWEN2},
    {"qwen2.5-vl-3b", "qwen2_5_vl", 3.75, 3754622976, 668684288, 36, 32, 0, 900, 63, 3136, 12845056, QWEN2_5},
    {"qwen2.5-vl-7b", "qwen2_5_vl", 8.29, 8292166656, 676550144, 28, 32, 152064 * 3584, 900, 63, 3136, 12845056, QWEN2_5},
    {"qwen2.5-vl-32b", "qwen2_5_vl", 33.5, 33452718336, 688841984, 64, 32, 152064 * 5120, 900, 63, 3136, 12845056, QWEN2_5},
    {"qwen2.5-vl-72b", "qwen2_5_vl", 73.4, 73410777344, 704573696, 80, 32, 152064 * 8192, 900, 63, 3136, 12845056, QWEN2_5},
    {"qwen3-vl-2b", "qwen3_vl", 2.13, 2127532032, 406957056, 28, 24, 0, 682, 0, 65536, 16777216, QWEN3},
    {"qwen3-vl-4b", "qwen3_vl", 4.44, 4437815808, 415347712, 36, 24, 0, 682, 0, 65536, 16777216, QWEN3},
    {"qwen3-vl-8b", "qwen3_vl", 8.77, 8767123696, 576388336, 36, 27, 151936 * 4096, 682, 0, 65536, 16777216, QWEN3},
    {"qwen3-vl-32b", "qwen3_vl", 33.4, 33357390064, 595266800, 64, 27, 151936 * 5120, 682, 0, 65536, 16777216, QWEN3},
    {"qwen3-vl-30b-a3b", "qwen3_vl_moe", 31.1, 31070754032, 538631408, 48, 27, 151936 * 2048, 682, 0, 65536, 16777216, QWEN3},
    {"qwen3-vl-235b-a22b", "qwen3_vl_moe", 236, 235670022896, 576388336, 94, 27, 151936 * 4096, 682, 0, 65536, 16777216, QWEN3},
    {"qwen3.5-0.8b", "qwen3_5", 0.853, 852985920, 100592896, 24, 12, 0, 682, 0, 65536, 16777216, QWEN3},
    {"kimi-vl-a3b-instruct", "kimi_vl", 16.4, 16407656048, 447545840, 27, 27, 163840 * 2048, 900, 0, 0, 802816, KIMI},
    {"kimi-vl-a3b-thinking-2506", "kimi_vl", 16.4, 16407656048, 447545840, 27, 27, 163840 * 2048, 900, 0, 0, 802816, KIMI},
    {"paddleocr-vl-0.9b", "paddleocr_vl", 0.9, 905601648, 438947440, 18, 27, 103424 * 1024, 900, 0, 112896, 1003520, PADDLE},
    {"glm-ocr", "glm_ocr", 1.11, 1107405824, 434120192, 16, 24, 59392 * 1536, 900, 0, 12544, 9633792, GLM},
    {"lighton-ocr-2-1b", "lighton_ocr", 1.01, 1005647872, 409597952, 28, 24, 0, 900, 0, 0, 1540 * 1540, LIGHTON},
    {"dots-ocr", "dots_ocr", 3.04, 3039179264, 1262091264, 28, 42, 151936 * 1536, 900, 0, 3136, 11289600, DOTS},
};

static void expect_model(const struct released *size, const struct omma_model_info *info) {
  assert_string_equal(info->model_type, size->model_type);
  assert_int_equal(info->n_layers, size->n_layers);
  assert_int_equal(info->vision_depth, size->vision_depth);
  assert_int_equal(info->n_parameters, size->n_parameters);
  assert_int_equal(info->n_vision_parameters, size->n_vision_parameters);
  assert_true(fabs((double)info->n_parameters * 1e-9 - size->published) < 0.01 * size->published);
  assert_int_equal(info->min_pixels, size->min_pixels);
  assert_int_equal(info->max_pixels, size->max_pixels);
  assert_string_equal(info->published_values, size->values);
}

/* Of matrices in bf16, which released files have: two bytes a parameter, and what panels, vectors
 * and f32 tables take besides. */
static void expect_sums(const struct released *size, const struct omma_memory_estimate *memory) {
  double min_bytes = 2 * (double)(size->n_parameters - size->n_embeddings);
  assert_true((double)memory->weight_bytes >= min_bytes && (double)memory->weight_bytes < 1.02 * min_bytes);
  assert_int_equal(memory->total_bytes, memory->weight_bytes + memory->kv_cache_bytes + memory->vision_workspace_bytes +
                                            memory->language_workspace_bytes + memory->linear_scratch_bytes +
                                            memory->table_bytes + memory->max_sequences * memory->text_request_bytes +
                                            memory->max_image_sequences * (memory->request_bytes - memory->text_request_bytes));
}

static void released_sizes_are_estimated(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof released / sizeof *released; i++) {
    const struct released *size = &released[i];
    char folder[TEST_PATH_SIZE];
    struct omma_error error;
    struct omma_model_info info;
    struct omma_image_sizes sizes;
    struct omma_memory_estimate memory;
    make_folder(size->name, folder);
    struct omma_model *model = open_folder(folder);
    omma_model_get_info(model, &info);
    expect_model(size, &info);
    assert_ok(omma_model_image_sizes(model, 1000, 700, NULL, &sizes, &error), &error);
    assert_int_equal(sizes.n_tokens, size->n_tokens);
    assert_int_equal(sizes.n_segments, 1);
    assert_int_equal(sizes.n_windows, size->n_windows);
    assert_ok(omma_estimate_memory(model, NULL, sizes.n_patches, &memory, &error), &error);
    expect_sums(size, &memory);
    omma_model_close(model);
    test_folder_remove(folder);
  }
}

static void videos_have_published_limits(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE];
  struct omma_error error;
  struct omma_image_sizes sizes;
  make_folder("qwen3-vl-2b", folder);
  struct omma_model *model = open_folder(folder);
  /* All frames together: 25,165,824 pixels are 6 of 2048 x 2048. */
  assert_ok(omma_model_video_sizes(model, 2048, 2048, 6, NULL, &sizes, &error), &error);
  assert_int_equal(sizes.resized_width, 2048);
  assert_int_equal(sizes.n_segments, 3);
  assert_ok(omma_model_video_sizes(model, 2048, 2048, 8, NULL, &sizes, &error), &error);
  assert_int_equal(sizes.resized_width, 1760);
  omma_model_close(model);
  test_folder_remove(folder);
  make_folder("qwen2.5-vl-7b", folder);
  model = open_folder(folder);
  /* each frame as an image */
  assert_ok(omma_model_video_sizes(model, 5600, 5600, 4, NULL, &sizes, &error), &error);
  assert_int_equal(sizes.resized_width, 3584);
  assert_int_equal(sizes.n_windows, 2 * 32 * 32);
  omma_model_close(model);
  test_folder_remove(folder);
}

/* ---- files that are there, and files that are needed ---- */

static void a_file_wins_over_published_values(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
  static const char text[] =
      "{\"patch_size\": 16, \"image_mean\": [0.5, 0.5, 0.5], \"image_std\": [0.5, 0.5, 0.5],"
      " \"size\": {\"shortest_edge\": 4096, \"longest_edge\": 40000}}";
  struct omma_model_info info;
  struct omma_error error;
  struct omma_model *model;
  make_folder("qwen3-vl-2b", folder);
  test_write_file(test_path(path, folder, "preprocessor_config.json"), text, sizeof text - 1);
  model = open_folder(folder);
  omma_model_get_info(model, &info);
  assert_null(info.published_values);
  assert_int_equal(info.max_pixels, 40000);
  omma_model_close(model);
  fixture_set_key(folder, "preprocessor_config.json", "patch_size", "14");
  assert_fails(omma_model_open(folder, &config_only, &model, &error), OMMA_ERROR_FORMAT, "\"patch_size\"", &error);
  test_folder_remove(folder);
}

/* Of sizes that no release has: published values limit how large images may be, config.json how
 * they are cut. */
static void other_sizes_are_estimated(void **state) {
  (void)state;
  for (size_t m = 0; golden_models[m]; m++) {
    char folder[TEST_PATH_SIZE], from[1024], to[TEST_PATH_SIZE];
    struct omma_error error;
    struct omma_image_sizes sizes;
    struct omma_model_info info;
    test_folder_create(folder);
    golden_path(golden_models[m], CONFIG, from, sizeof from);
    fixture_copy_file(from, test_path(to, folder, CONFIG));
    struct omma_model *model = open_folder(folder);
    omma_model_get_info(model, &info);
    assert_ok(omma_model_image_sizes(model, 640, 480, NULL, &sizes, &error), &error);
    assert_int_equal(sizes.n_patches, sizes.resized_width / info.patch_size * (sizes.resized_height / info.patch_size));
    omma_model_close(model);
    test_folder_remove(folder);
  }
}

/* Most of a sequence's memory is its request's own: 256 of them would have 540 MiB of tables if
 * each had logits and counts of its own. */
static void sequences_that_are_not_running_take_little(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE];
  struct omma_error error;
  struct omma_memory_estimate few, many;
  make_folder("qwen3-vl-2b", folder);
  struct omma_model *model = open_folder(folder);
  assert_ok(omma_estimate_memory(model, &(struct omma_engine_options){.max_sequences = 32}, 4, &few, &error), &error);
  assert_ok(omma_estimate_memory(model, &(struct omma_engine_options){.max_sequences = 256}, 4, &many, &error), &error);
  assert_true(many.table_bytes <= (int64_t)60 << 20);
  assert_true(many.table_bytes - few.table_bytes < 224 * (int64_t)(32 << 10));
  assert_true(many.request_bytes > 5 * 151936 + 151936 / 8);
  omma_model_close(model);
  test_folder_remove(folder);
}

/* The default is as many as fit: pages and images are planned for few, what each request needs for
 * many. */
static void sequences_are_as_many_as_fit(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE];
  struct omma_error error;
  struct omma_memory_estimate few, standard, tight, small;
  const struct omma_engine_options eight = {.max_sequences = OMMA_DEFAULT_FULL_SEQUENCES, .kv_cache_bytes = (int64_t)4 << 30},
                                   by_default = {.kv_cache_bytes = (int64_t)4 << 30};
  make_folder("qwen3-vl-2b", folder);
  struct omma_model *model = open_folder(folder);
  assert_ok(omma_estimate_memory(model, &eight, 0, &few, &error), &error);
  assert_true(few.sequence_bound == OMMA_SEQUENCES_GIVEN && few.max_sequences == 8 && few.max_image_sequences == 8);
  assert_ok(omma_estimate_memory(model, &by_default, 0, &standard, &error), &error);
  if (standard.sequence_bound == OMMA_SEQUENCES_DEFAULT) {
    assert_int_equal(standard.max_sequences, OMMA_DEFAULT_MAX_SEQUENCES);
  } else {
    assert_int_equal(standard.sequence_bound, OMMA_SEQUENCES_MEMORY); /* of this machine */
  }
  assert_int_equal(standard.max_image_sequences, 8);
  assert_int_equal(standard.kv_cache_bytes, few.kv_cache_bytes);
  assert_true(standard.total_bytes - few.total_bytes < standard.max_sequences * (int64_t)(2 << 20));
  assert_ok(omma_estimate_memory(model, &by_default, 1024, &small, &error), &error);
  assert_int_equal(small.max_image_sequences, small.max_sequences);
  const struct omma_engine_options few_pages = {.kv_cache_bytes = 20 * few.kv_page_bytes};
  assert_ok(omma_estimate_memory(model, &few_pages, 0, &tight, &error), &error);
  assert_true(tight.sequence_bound == OMMA_SEQUENCES_KV_CACHE && tight.max_sequences == 16);
  omma_model_close(model);
  test_folder_remove(folder);
}

static void a_run_needs_the_files(void **state) {
  (void)state;
  const struct omma_model_options run = {.n_threads = 1};
  char folder[TEST_PATH_SIZE];
  struct omma_error error;
  struct omma_model *model;
  make_folder("qwen3-vl-2b", folder);
  assert_fails(omma_model_open(folder, &run, &model, &error), OMMA_ERROR_IO, "preprocessor_config.json: no such file", &error);
  test_folder_remove(folder);
}

static void what_an_estimate_lacks_is_named(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE], text[16];
  int32_t token = 1;
  size_t count;
  struct omma_error error;
  struct omma_request *request;
  const struct omma_part part = {.text = "x", .text_size = 1};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1};
  struct omma_image *image = fixture_image("tile_64x64.png");
  make_folder("qwen3-vl-2b", folder);
  struct omma_model *model = open_folder(folder);
  assert_fails(omma_tokenize(model, "x", 1, NULL, 0, &count, &error), OMMA_ERROR_IO, "neither tokenizer.json", &error);
  assert_fails(omma_detokenize(model, &token, 1, false, text, sizeof text, &count, &error), OMMA_ERROR_IO,
               "neither tokenizer.json", &error);
  assert_fails(omma_request_create(model, &message, 1, NULL, &request, &error), OMMA_ERROR_IO, "neither tokenizer.json",
               &error);
  assert_fails(omma_preprocess(model, image, NULL, NULL, 0, &error), OMMA_ERROR_IO, "preprocessor_config.json: no such file",
               &error);
  omma_image_destroy(image);
  omma_model_close(model);
  test_folder_remove(folder);
}

static void count_missing(void *context, bool ok, const char *what, const char *details) {
  int *n_missing = context;
  if (ok) return;
  assert_true(strcmp(what, "tokenizer.json") == 0 || strcmp(what, "preprocessor_config.json") == 0);
  assert_non_null(strstr(details, what));
  ++*n_missing;
}

static void a_check_of_the_files_reports_them(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
  int n_missing = 0;
  struct omma_error error;
  fixture_copy_checkpoint("qwen3_vl_tied", folder);
  unlink(test_path(path, folder, "tokenizer.json"));
  unlink(test_path(path, folder, "preprocessor_config.json"));
  struct omma_model *model = open_folder(folder);
  assert_fails(omma_model_verify(model, count_missing, &n_missing, &error), OMMA_ERROR_FORMAT, "2 tensors or files are wrong",
               &error);
  assert_int_equal(n_missing, 2);
  omma_model_close(model);
  test_folder_remove(folder);
}

/* ---- a broken config.json ---- */

static void broken_configs_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *key, *json;
    enum omma_status status;
    const char *part;
  } cases[] = {{"model_type", "\"llava\"", OMMA_ERROR_UNSUPPORTED, CONFIG ": model_type \"llava\" is not supported"},
               {"text_config.num_hidden_layers", NULL, OMMA_ERROR_FORMAT, "key \"num_hidden_layers\" is missing"},
               {"vision_config.out_hidden_size", "64", OMMA_ERROR_FORMAT, "out_hidden_size 64 differs from"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char folder[TEST_PATH_SIZE];
    struct omma_error error;
    struct omma_model *model;
    make_folder("qwen3-vl-8b", folder);
    fixture_set_key(folder, CONFIG, cases[i].key, cases[i].json);
    assert_fails(omma_model_open(folder, &config_only, &model, &error), cases[i].status, cases[i].part, &error);
    test_folder_remove(folder);
  }
}

static void cut_configs_are_refused(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
  struct omma_error error;
  struct omma_model *model;
  size_t size;
  make_folder("kimi-vl-a3b-instruct", folder);
  unsigned char *bytes = fixture_read(test_path(path, folder, CONFIG), &size);
  for (size_t length = 0; length + 2 < size; length += 97) {
    test_write_file(path, bytes, length);
    assert_fails(omma_model_open(folder, &config_only, &model, &error), OMMA_ERROR_FORMAT, CONFIG, &error);
  }
  free(bytes);
  test_folder_remove(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(released_sizes_are_estimated),
      cmocka_unit_test(videos_have_published_limits),
      cmocka_unit_test(a_file_wins_over_published_values),
      cmocka_unit_test(other_sizes_are_estimated),
      cmocka_unit_test(sequences_that_are_not_running_take_little),
      cmocka_unit_test(sequences_are_as_many_as_fit),
      cmocka_unit_test(a_run_needs_the_files),
      cmocka_unit_test(what_an_estimate_lacks_is_named),
      cmocka_unit_test(a_check_of_the_files_reports_them),
      cmocka_unit_test(broken_configs_are_refused),
      cmocka_unit_test(cut_configs_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
