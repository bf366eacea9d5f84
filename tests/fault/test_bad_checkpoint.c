/* Broken checkpoint directories: each gives one clear line and the right status, leaks nothing, and
 * does not disturb an engine that runs on another model. */
#include <stdlib.h>
#include <unistd.h>

#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

static struct omma_model *other;
static struct omma_engine *engine;
static struct omma_request *question;
static struct fixture_answer before;

static int set_up(void **state) {
  (void)state;
  other = fixture_model("qwen3_vl_untied", NULL);
  engine = fixture_engine(other, NULL);
  question = fixture_request(other, NULL, 0, "hello", &(struct omma_sampling){.max_tokens = 10, .logprobs = true});
  fixture_ask(engine, question, &before);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  omma_request_destroy(question);
  omma_engine_destroy(engine);
  omma_model_close(other);
  return 0;
}

static void expect_undisturbed(void) {
  struct fixture_answer after;
  fixture_ask(engine, question, &after);
  fixture_expect_equal(&before, &after);
}

/* Opening must fail with this status and these words, on one line, and leave nothing allocated. */
static void expect_refused(const char *directory, struct omma_model_options options, enum omma_status expected,
                           const char *part) {
  struct test_allocator allocator;
  struct omma_model *model = NULL;
  struct omma_error error = {0};
  test_allocator_init(&allocator);
  options.allocator = &allocator.interface;
  if (!options.n_threads) options.n_threads = 1;
  enum omma_status status = omma_model_open(directory, &options, &model, &error);
  if (status != expected || !strstr(error.message, part)) {
    fail_msg("%s: \"%s\", expected %s with \"%s\"", omma_status_name(status), error.message, omma_status_name(expected), part);
  }
  assert_int_equal(error.status, expected);
  assert_null(strchr(error.message, '\n'));
  assert_null(model);
  assert_int_equal(allocator.n_live, 0);
  assert_int_equal(allocator.bytes_live, 0);
}

static const struct omma_model_options plain = {.weights = OMMA_WEIGHTS_F32};

static void missing_files_are_named(void **state) {
  (void)state;
  static const struct {
    const char *file, *part;
  } cases[] = {{"config.json", "config.json"},
               {"preprocessor_config.json", "preprocessor_config.json: no such file"},
               {"tokenizer.json", "tokenizer.json"},
               {"model.safetensors", "model.safetensors"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
    fixture_copy_checkpoint("qwen3_vl_tied", folder);
    unlink(test_path(path, folder, cases[i].file));
    expect_refused(folder, plain, OMMA_ERROR_IO, cases[i].part);
    test_folder_remove(folder);
  }
  static const char *const shards[] = {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                       "model-00003-of-00003.safetensors"};
  for (size_t i = 0; i < 3; i++) {
    char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
    fixture_copy_checkpoint("qwen3_vl_untied", folder);
    unlink(test_path(path, folder, shards[i]));
    expect_refused(folder, plain, OMMA_ERROR_IO, shards[i]);
    test_folder_remove(folder);
  }
  expect_undisturbed();
}

static void directories_that_are_none_are_refused(void **state) {
  (void)state;
  char file[1024], long_path[6000];
  golden_path("qwen3_vl_tied", "config.json", file, sizeof file);
  memset(long_path, 'x', sizeof long_path - 1);
  long_path[sizeof long_path - 1] = '\0';
  expect_refused(NULL, plain, OMMA_ERROR_ARGUMENT, "no directory given");
  expect_refused("", plain, OMMA_ERROR_ARGUMENT, "no directory given");
  expect_refused("/nowhere/at/all", plain, OMMA_ERROR_IO, "/nowhere/at/all/config.json");
  expect_refused(file, plain, OMMA_ERROR_FORMAT, "config.json: not a GGUF file");
  expect_refused(long_path, plain, OMMA_ERROR_ARGUMENT, "the path is too long");
}

static void options_out_of_range_are_named(void **state) {
  (void)state;
  char path[1024];
  golden_path("qwen3_vl_tied", NULL, path, sizeof path);
  expect_refused(path, (struct omma_model_options){.max_model_len = 32769}, OMMA_ERROR_ARGUMENT,
                 "expected 1 to 32768, the context of this checkpoint, found 32769");
  expect_refused(path, (struct omma_model_options){.max_model_len = -1}, OMMA_ERROR_ARGUMENT, "max_model_len");
  expect_refused(path, (struct omma_model_options){.n_threads = -1}, OMMA_ERROR_ARGUMENT,
                 "threads: expected 1 to 1024, found -1");
  expect_refused(path, (struct omma_model_options){.n_threads = 1025}, OMMA_ERROR_ARGUMENT, "found 1025");
  expect_refused(path, (struct omma_model_options){.isa = "sse9"}, OMMA_ERROR_ARGUMENT, "sse9");
}

static void truncated_weights_are_refused(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
  size_t size;
  uint64_t header;
  fixture_copy_checkpoint("qwen3_vl_tied", folder);
  unsigned char *bytes = fixture_read(test_path(path, folder, "model.safetensors"), &size);
  memcpy(&header, bytes, 8);
  const size_t lengths[] = {0,        1,       7, 8, 9, 8 + header / 2, 7 + header, 8 + header, 9 + header, 100 + header,
                            size / 2, size - 1};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    test_write_file(path, bytes, lengths[i]);
    expect_refused(folder, plain, OMMA_ERROR_FORMAT, "model.safetensors");
  }
  free(bytes);
  test_folder_remove(folder);
  expect_undisturbed();
}

/* Replaces the first `from` in the header of model.safetensors by `to`, of the same length; after
 * the tensor's name where given. */
static void edit_header(const char *folder, const char *tensor, const char *from, const char *to) {
  char path[TEST_PATH_SIZE], quoted[300];
  size_t size;
  uint64_t header;
  unsigned char *bytes = fixture_read(test_path(path, folder, "model.safetensors"), &size);
  memcpy(&header, bytes, 8);
  unsigned char *at = bytes + 8;
  if (tensor) {
    snprintf(quoted, sizeof quoted, "\"%s\"", tensor);
    at = memmem(at, (size_t)header, quoted, strlen(quoted));
    if (!at) fail_msg("no tensor %s", tensor);
  }
  at = memmem(at, (size_t)(bytes + 8 + header - at), from, strlen(from));
  if (!at) fail_msg("no %s in the header", from);
  assert_int_equal(strlen(from), strlen(to));
  memcpy(at, to, strlen(to));
  test_write_file(path, bytes, size);
  free(bytes);
}

static void lying_headers_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *tensor, *from, *to;
    enum omma_status status;
    const char *part;
  } cases[] = {
      /* a tensor is missing under its name */
      {NULL, "model.visual.pos_embed.weight", "model.visual.pos_embed.weighs", OMMA_ERROR_FORMAT,
       "model.visual.pos_embed.weight"},
      {NULL, "layers.2.mlp.down_proj.weight", "layers.9.mlp.down_proj.weight", OMMA_ERROR_FORMAT,
       "model.language_model.layers.2.mlp.down_proj.weight"},
      {NULL, "visual.merger.norm.bias", "visual.merger.norm.bios", OMMA_ERROR_FORMAT, "model.visual.merger.norm.bias"},
      /* another shape */
      {"model.language_model.embed_tokens.weight", "[544,64]", "[64,544]", OMMA_ERROR_FORMAT,
       "model.language_model.embed_tokens.weight"},
      {"model.visual.pos_embed.weight", "[64,72]", "[72,64]", OMMA_ERROR_FORMAT, "model.visual.pos_embed.weight"},
      {"model.language_model.norm.weight", "[64]", "[6,]", OMMA_ERROR_FORMAT, "model.safetensors"},
      /* another type */
      {"model.language_model.norm.weight", "\"BF16\"", "\"I16\" ", OMMA_ERROR_UNSUPPORTED, "model.language_model.norm.weight"},
      {"model.language_model.embed_tokens.weight", "\"BF16\"", "\"U16\" ", OMMA_ERROR_UNSUPPORTED, "embed_tokens.weight"},
      {"model.language_model.norm.weight", "\"BF16\"", "\"F32\" ", OMMA_ERROR_FORMAT, "model.language_model.norm.weight"},
      {"model.language_model.norm.weight", "\"BF16\"", "\"XF16\"", OMMA_ERROR_FORMAT, "XF16"},
      /* no place in the file, no header at all */
      {"model.language_model.norm.weight", "\"data_offsets\"", "\"data_offsetz\"", OMMA_ERROR_FORMAT, "model.safetensors"},
      {NULL, "{", "[", OMMA_ERROR_FORMAT, "model.safetensors"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char folder[TEST_PATH_SIZE];
    fixture_copy_checkpoint("qwen3_vl_tied", folder);
    edit_header(folder, cases[i].tensor, cases[i].from, cases[i].to);
    expect_refused(folder, plain, cases[i].status, cases[i].part);
    test_folder_remove(folder);
  }
  expect_undisturbed();
}

static void header_lengths_that_lie_are_refused(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
  size_t size;
  fixture_copy_checkpoint("qwen3_vl_tied", folder);
  unsigned char *bytes = fixture_read(test_path(path, folder, "model.safetensors"), &size);
  uint64_t header;
  memcpy(&header, bytes, 8);
  const uint64_t lies[] = {0,        1,    header - 1,        header + 1,     size - 8,
                           size - 7, size, (uint64_t)1 << 40, UINT64_MAX - 7, UINT64_MAX};
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    memcpy(bytes, &lies[i], 8);
    test_write_file(path, bytes, size);
    struct omma_model *model = NULL;
    struct omma_error error;
    enum omma_status status = omma_model_open(folder, &plain, &model, &error);
    if (status != OMMA_ERROR_FORMAT && status != OMMA_ERROR_LIMIT) {
      fail_msg("header of %llu bytes: %s", (unsigned long long)lies[i], omma_status_name(status));
    }
    assert_non_null(strstr(error.message, "model.safetensors"));
  }
  free(bytes);
  test_folder_remove(folder);
}

/* config.json and the weights contradict each other: the first tensor that does not fit is
 * named. */
static void configs_that_do_not_fit_the_weights_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *key, *json, *part;
  } cases[] = {
      {"text_config.num_hidden_layers", "4", "layers.3."},
      {"text_config.num_hidden_layers", "1024", "layers.3."},
      {"text_config.intermediate_size", "97", "gate_proj"},
      {"text_config.intermediate_size", "1048576", "gate_proj"},
      {"text_config.num_attention_heads", "4096", "q_proj"},
      {"text_config.num_key_value_heads", "4", "k_proj"},
      {"text_config.vocab_size", "545", "embed_tokens"},
      {"text_config.vocab_size", "16777216", "embed_tokens"},
      {"text_config.vocab_size", "527", "\"video_token_id\": expected 0 to 526, found 527"},
      {"tie_word_embeddings", "false", "lm_head.weight"},
      {"vision_config.depth", "5", "visual.blocks.4."},
      {"vision_config.intermediate_size", "1048576", "linear_fc1"},
      {"vision_config.num_position_embeddings", "81", "pos_embed"},
      {"vision_config.num_position_embeddings", "1048576", "pos_embed"},
      {"vision_config.deepstack_visual_indexes", "[0, 1, 2]", "deepstack_merger_list.2."},
      {"vision_config.hidden_size", "1048576", ""}, /* one head of that many */
  };
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE], golden[1024];
  fixture_copy_checkpoint("qwen3_vl_tied", folder);
  golden_path("qwen3_vl_tied", "config.json", golden, sizeof golden);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture_set_key(folder, "config.json", cases[i].key, cases[i].json);
    expect_refused(folder, plain, OMMA_ERROR_FORMAT, cases[i].part);
    fixture_copy_file(golden, test_path(path, folder, "config.json"));
  }
  fixture_set_key(folder, "config.json", "video_token_id", NULL);
  fixture_set_key(folder, "config.json", "text_config.vocab_size", "527");
  expect_refused(folder, plain, OMMA_ERROR_FORMAT, "tokenizer.json knows token 527, config.json's vocab_size is 527");
  test_folder_remove(folder);
  expect_undisturbed();
}

/* The largest sizes that config.json may state: estimates are made without weights, and nothing
 * overflows. */
static void the_largest_config_can_be_estimated(void **state) {
  (void)state;
  static const struct {
    const char *file, *key, *json;
  } sizes[] = {{"config.json", "text_config.hidden_size", "1048576"},
               {"config.json", "text_config.intermediate_size", "1048576"},
               {"config.json", "text_config.num_hidden_layers", "1024"},
               {"config.json", "text_config.num_attention_heads", "4096"},
               {"config.json", "text_config.num_key_value_heads", "4096"},
               {"config.json", "text_config.head_dim", "256"},
               {"config.json", "text_config.rope_parameters.mrope_section", "[48, 40, 40]"},
               {"config.json", "text_config.vocab_size", "16777216"},
               {"config.json", "text_config.max_position_embeddings", "16777216"},
               {"config.json", "vision_config.out_hidden_size", "1048576"},
               {"config.json", "vision_config.hidden_size", "1048576"},
               {"config.json", "vision_config.num_heads", "4096"},
               {"config.json", "vision_config.intermediate_size", "1048576"},
               {"config.json", "vision_config.depth", "1024"},
               {"config.json", "vision_config.patch_size", "256"},
               {"config.json", "vision_config.temporal_patch_size", "16"},
               {"config.json", "vision_config.spatial_merge_size", "4"},
               {"config.json", "vision_config.num_position_embeddings", "1048576"},
               {"preprocessor_config.json", "patch_size", "256"},
               {"preprocessor_config.json", "temporal_patch_size", "16"},
               {"preprocessor_config.json", "merge_size", "4"}};
  char folder[TEST_PATH_SIZE];
  struct omma_model *model;
  struct omma_error error;
  struct omma_memory_estimate estimate;
  fixture_copy_checkpoint("qwen3_vl_tied", folder);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    fixture_set_key(folder, sizes[i].file, sizes[i].key, sizes[i].json);
  }
  const struct omma_model_options options = {.weights = OMMA_WEIGHTS_F32, .config_only = true, .n_threads = 1024};
  assert_ok(omma_model_open(folder, &options, &model, &error), &error);
  struct omma_model_info info;
  omma_model_get_info(model, &info);
  assert_true(info.n_parameters > 0 && info.weight_bytes > info.n_parameters);
  const int64_t patches[] = {0, 1, 4194304};
  for (int i = 0; i < 3; i++) {
    enum omma_status status = omma_estimate_memory(model, NULL, patches[i], &estimate, &error);
    assert_true(status == OMMA_OK || status == OMMA_ERROR_LIMIT);
    if (status == OMMA_OK) assert_true(estimate.total_bytes > info.weight_bytes);
  }
  omma_model_close(model);
  test_folder_remove(folder);
}

/* Fills a tensor of 16-bit values in model.safetensors with NaN. */
static void fill_with_nan(const char *folder, const char *tensor) {
  char path[TEST_PATH_SIZE], quoted[300];
  size_t size;
  uint64_t header;
  unsigned long long first, end;
  unsigned char *bytes = fixture_read(test_path(path, folder, "model.safetensors"), &size);
  memcpy(&header, bytes, 8);
  snprintf(quoted, sizeof quoted, "\"%s\"", tensor);
  char *at = memmem(bytes + 8, (size_t)header, quoted, strlen(quoted));
  assert_non_null(at);
  at = memmem(at, (size_t)((char *)bytes + 8 + header - at), "\"data_offsets\":[", 16);
  assert_non_null(at);
  assert_int_equal(sscanf(at + 16, "%llu,%llu", &first, &end), 2);
  assert_true(first < end && 8 + header + end <= size);
  memset(bytes + 8 + header + first, 0xff, (size_t)(end - first));
  test_write_file(path, bytes, size);
  free(bytes);
}

/* Weights that are NaN or infinity: found when the first token is drawn, and no engine is
 * harmed. */
static void answers_that_are_no_numbers_are_errors(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE];
  struct omma_error error;
  struct omma_model *model;
  struct omma_result result;
  fixture_copy_checkpoint("qwen3_vl_tied", folder);
  fill_with_nan(folder, "model.language_model.layers.2.mlp.down_proj.weight");
  assert_ok(omma_model_open(folder, &(struct omma_model_options){.n_threads = 1, .max_model_len = 256}, &model, &error),
            &error);
  struct omma_engine *own = fixture_engine(model, NULL);
  struct omma_request *request = fixture_request(model, NULL, 0, "hello", &(struct omma_sampling){.max_tokens = 5});
  for (int i = 0; i < 2; i++) {
    assert_fails(omma_generate(own, request, NULL, &result, &error), OMMA_ERROR_FORMAT, "omma verify --model", &error);
    assert_int_equal(result.n_completion_tokens, 0);
  }
  omma_request_destroy(request);
  omma_engine_destroy(own);
  omma_model_close(model);
  test_folder_remove(folder);
  expect_undisturbed();
}

/* An open model does not need its directory any more. */
static void a_removed_directory_does_not_matter(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE];
  struct omma_error error;
  struct omma_model *model;
  struct fixture_answer answers[2];
  fixture_copy_checkpoint("qwen3_vl_tied", folder);
  assert_ok(omma_model_open(folder, &(struct omma_model_options){.n_threads = 1, .max_model_len = 256}, &model, &error),
            &error);
  struct omma_engine *own = fixture_engine(model, NULL);
  for (int i = 0; i < 2; i++) {
    struct omma_request *request = fixture_request(model, NULL, 0, "hello", &(struct omma_sampling){.max_tokens = 5});
    fixture_ask(own, request, &answers[i]);
    omma_request_destroy(request);
    if (i == 0) test_folder_remove(folder);
  }
  fixture_expect_equal(&answers[0], &answers[1]);
  omma_engine_destroy(own);
  omma_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(missing_files_are_named),
      cmocka_unit_test(directories_that_are_none_are_refused),
      cmocka_unit_test(options_out_of_range_are_named),
      cmocka_unit_test(truncated_weights_are_refused),
      cmocka_unit_test(lying_headers_are_refused),
      cmocka_unit_test(header_lengths_that_lie_are_refused),
      cmocka_unit_test(configs_that_do_not_fit_the_weights_are_refused),
      cmocka_unit_test(the_largest_config_can_be_estimated),
      cmocka_unit_test(answers_that_are_no_numbers_are_errors),
      cmocka_unit_test(a_removed_directory_does_not_matter),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
