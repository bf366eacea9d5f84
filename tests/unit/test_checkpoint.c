#include <stdlib.h>

#include "base/allocator.h"
#include "support/test.h"
#include "support/weights_files.h"
#include "weights/checkpoint.h"
#include "weights/safetensors.h"

#define SHARDED OMMA_TEST_DATA "/data/weights/sharded"

static const struct omma_allocator *const memory = &ommai_default_allocator;

static void write_text(const struct test_folder *fixture, const char *name, const char *text) {
  char path[TEST_PATH_SIZE];
  test_write_file(test_path(path, fixture->folder, name), text, strlen(text));
}

/* A shard in which every name is a U8 tensor of one element. */
static void write_shard(const struct test_folder *fixture, const char *file_name, const char *const *names, size_t n_names) {
  char header[1000] = "{", path[TEST_PATH_SIZE];
  size_t used = 1;
  for (size_t i = 0; i < n_names; i++) {
    used += (size_t)snprintf(header + used, sizeof header - used,
                             "%s\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}", i ? "," : "", names[i], i,
                             i + 1);
  }
  snprintf(header + used, sizeof header - used, "}");
  test_write_safetensors(test_path(path, fixture->folder, file_name), header, n_names);
}

static struct ommai_checkpoint *open_sharded(struct omma_error *error) {
  struct ommai_checkpoint *checkpoint;
  assert_ok(ommai_checkpoint_open(SHARDED, memory, &checkpoint, error), error);
  return checkpoint;
}

static void reads_official_shards(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_checkpoint *checkpoint = open_sharded(&error);
  static const char *const names[] = {"embed.weight", "layers.0.weight", "layers.1.weight", "norm.weight"};
  static const int64_t counts[] = {8, 4, 4, 2};
  assert_int_equal(ommai_checkpoint_count(checkpoint), 4);
  assert_int_equal(ommai_checkpoint_total_bytes(checkpoint), 36);
  assert_string_equal(ommai_checkpoint_directory(checkpoint), SHARDED);
  for (int t = 0; t < 4; t++) {
    const struct ommai_tensor *tensor = ommai_checkpoint_find(checkpoint, names[t]);
    assert_non_null(tensor);
    assert_ptr_equal(ommai_checkpoint_at(checkpoint, t), tensor);
    assert_int_equal(tensor->n_elements, counts[t]);
    float out[8];
    for (int round = 0; round < 2; round++) {
      assert_true(ommai_tensor_to_f32(tensor, 0, counts[t], out));
      for (int64_t i = 0; i < counts[t]; i++) assert_true(out[i] == (float)(t + i));
      ommai_checkpoint_release(checkpoint, tensor);
    }
  }
  assert_null(ommai_checkpoint_find(checkpoint, "lm_head.weight"));
  assert_null(ommai_checkpoint_find(checkpoint, ""));
  ommai_checkpoint_close(checkpoint);
  ommai_checkpoint_close(NULL);
}

static void require_reports_what_is_wrong(void **state) {
  struct test_folder *fixture = *state;
  struct omma_error *error = &fixture->error;
  struct ommai_checkpoint *checkpoint = open_sharded(error);
  const struct ommai_tensor *tensor = NULL;
  int64_t shape[] = {4, 2};
  assert_ok(ommai_checkpoint_require(checkpoint, "embed.weight", 2, shape, &tensor, error), error);
  assert_string_equal(tensor->name, "embed.weight");
  tensor = NULL;
  assert_fails(ommai_checkpoint_require(checkpoint, "embed.weight", 1, shape, &tensor, error), OMMA_ERROR_FORMAT,
               "model-00001-of-00002.safetensors: tensor \"embed.weight\": expected shape [4], found [4, 2]", error);
  shape[1] = 3;
  assert_fails(ommai_checkpoint_require(checkpoint, "embed.weight", 2, shape, &tensor, error), OMMA_ERROR_FORMAT,
               "expected shape [4, 3], found [4, 2]", error);
  assert_fails(ommai_checkpoint_require(checkpoint, "model.layers.1.weight", 2, shape, &tensor, error), OMMA_ERROR_FORMAT,
               "sharded: tensor \"model.layers.1.weight\" is missing; the most similar is \"layers.1.weight\"", error);
  assert_fails(ommai_checkpoint_require(checkpoint, "lm_head.scale", 2, shape, &tensor, error), OMMA_ERROR_FORMAT,
               "\"lm_head.scale\" is missing (there are 4 others)", error);
  assert_null(tensor);
  ommai_checkpoint_close(checkpoint);
  write_shard(fixture, "model.safetensors", (const char *const[]){"bytes"}, 1);
  assert_ok(ommai_checkpoint_open(fixture->folder, memory, &checkpoint, error), error);
  shape[0] = 1;
  assert_fails(ommai_checkpoint_require(checkpoint, "bytes", 1, shape, &tensor, error), OMMA_ERROR_UNSUPPORTED,
               "expected type F32, BF16 or F16, found U8", error);
  ommai_checkpoint_close(checkpoint);
}

static void single_file_wins_over_index(void **state) {
  struct test_folder *fixture = *state;
  struct ommai_checkpoint *checkpoint;
  write_text(fixture, OMMAI_CHECKPOINT_INDEX, "not even JSON");
  write_shard(fixture, OMMAI_CHECKPOINT_FILE, (const char *const[]){"b", "a"}, 2);
  assert_ok(ommai_checkpoint_open(fixture->folder, memory, &checkpoint, &fixture->error), &fixture->error);
  assert_int_equal(ommai_checkpoint_count(checkpoint), 2);
  assert_string_equal(ommai_checkpoint_at(checkpoint, 0)->name, "a");
  ommai_checkpoint_close(checkpoint);
}

static void an_empty_weight_map_is_an_empty_checkpoint(void **state) {
  struct test_folder *fixture = *state;
  struct ommai_checkpoint *checkpoint;
  write_text(fixture, OMMAI_CHECKPOINT_INDEX, "{\"weight_map\":{}}");
  assert_ok(ommai_checkpoint_open(fixture->folder, memory, &checkpoint, &fixture->error), &fixture->error);
  assert_int_equal(ommai_checkpoint_count(checkpoint), 0);
  const struct ommai_tensor *tensor;
  assert_fails(ommai_checkpoint_require(checkpoint, "a", 0, NULL, &tensor, &fixture->error), OMMA_ERROR_FORMAT, "0 others",
               &fixture->error);
  ommai_checkpoint_close(checkpoint);
}

/* one.safetensors holds a and b, two.safetensors c and d, twice.safetensors c and e. */
static void write_three_shards(const struct test_folder *fixture) {
  write_shard(fixture, "one.safetensors", (const char *const[]){"a", "b"}, 2);
  write_shard(fixture, "two.safetensors", (const char *const[]){"c", "d"}, 2);
  write_shard(fixture, "twice.safetensors", (const char *const[]){"c", "e"}, 2);
  write_text(fixture, "broken.safetensors", "x");
}

static void unlisted_tensors_are_found(void **state) {
  struct test_folder *fixture = *state;
  struct ommai_checkpoint *checkpoint;
  write_three_shards(fixture);
  write_text(fixture, OMMAI_CHECKPOINT_INDEX, "{\"weight_map\":{\"d\":\"two.safetensors\",\"a\":\"one.safetensors\"}}");
  assert_ok(ommai_checkpoint_open(fixture->folder, memory, &checkpoint, &fixture->error), &fixture->error);
  assert_int_equal(ommai_checkpoint_count(checkpoint), 4);
  assert_non_null(ommai_checkpoint_find(checkpoint, "b"));
  assert_null(ommai_checkpoint_find(checkpoint, "e"));
  ommai_checkpoint_close(checkpoint);
}

static const struct bad_index {
  const char *text;
  enum omma_status status;
  const char *message; /* a part of it */
} bad_indexes[] = {
    {"", OMMA_ERROR_FORMAT, "model.safetensors.index.json: invalid JSON"},
    {"[]", OMMA_ERROR_FORMAT, "expected a JSON object"},
    {"{}", OMMA_ERROR_FORMAT, "key \"weight_map\" is missing"},
    {"{\"weight_map\":[]}", OMMA_ERROR_FORMAT, "expected an object, found an array"},
    {"{\"weight_map\":{\"a\":3}}", OMMA_ERROR_FORMAT, "tensor \"a\": expected a plain file name, found another type"},
    {"{\"weight_map\":{\"a\":\"\"}}", OMMA_ERROR_FORMAT, "plain file name, found \"\""},
    {"{\"weight_map\":{\"a\":\".\"}}", OMMA_ERROR_FORMAT, "plain file name, found \".\""},
    {"{\"weight_map\":{\"a\":\"..\"}}", OMMA_ERROR_FORMAT, "plain file name"},
    {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", OMMA_ERROR_FORMAT, "plain file name"},
    {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", OMMA_ERROR_FORMAT, "plain file name, found \"/etc/passwd\""},
    {"{\"weight_map\":{\"a\":\"..\\\\one.safetensors\"}}", OMMA_ERROR_FORMAT, "plain file name"},
    {"{\"weight_map\":{\"a\":\"x\\u0000y\"}}", OMMA_ERROR_FORMAT, "invalid JSON"},
    {"{\"weight_map\":{\"a\":\"one.safetensors\",\"a\":\"two.safetensors\"}}", OMMA_ERROR_FORMAT, "duplicate"},
    {"{\"weight_map\":{\"a\":\"one.safetensors\",\"c\":\"three.safetensors\"}}", OMMA_ERROR_IO,
     "shard \"three.safetensors\" is missing"},
    {"{\"weight_map\":{\"a\":\"one.safetensors\",\"c\":\"one.safetensors\"}}", OMMA_ERROR_FORMAT,
     "tensor \"c\" is listed for shard \"one.safetensors\", which lacks it"},
    {"{\"weight_map\":{\"c\":\"two.safetensors\",\"e\":\"twice.safetensors\"}}", OMMA_ERROR_FORMAT,
     "tensor \"c\" lies in two shards"},
    {"{\"weight_map\":{\"a\":\"broken.safetensors\"}}", OMMA_ERROR_FORMAT, "broken.safetensors: expected at least"},
};

static void refuses_bad_indexes(void **state) {
  struct test_folder *fixture = *state;
  write_three_shards(fixture);
  for (size_t i = 0; i < sizeof bad_indexes / sizeof *bad_indexes; i++) {
    write_text(fixture, OMMAI_CHECKPOINT_INDEX, bad_indexes[i].text);
    struct test_allocator allocator;
    test_allocator_init(&allocator);
    struct ommai_checkpoint *checkpoint = NULL;
    assert_fails(ommai_checkpoint_open(fixture->folder, &allocator.interface, &checkpoint, &fixture->error),
                 bad_indexes[i].status, bad_indexes[i].message, &fixture->error);
    assert_null(checkpoint);
    assert_int_equal(allocator.n_live, 0);
  }
}

static void too_many_shards_are_refused(void **state) {
  struct test_folder *fixture = *state;
  size_t capacity = 200000, used;
  char *text = malloc(capacity);
  used = (size_t)snprintf(text, capacity, "{\"weight_map\":{\"x\":\"s\"");
  for (int i = 0; i < OMMAI_CHECKPOINT_MAX_SHARDS; i++) {
    used += (size_t)snprintf(text + used, capacity - used, ",\"%d\":\"%d.safetensors\"", i, i);
  }
  snprintf(text + used, capacity - used, "}}");
  write_text(fixture, OMMAI_CHECKPOINT_INDEX, text);
  free(text);
  struct ommai_checkpoint *checkpoint;
  assert_fails(ommai_checkpoint_open(fixture->folder, memory, &checkpoint, &fixture->error), OMMA_ERROR_LIMIT,
               "4097 shards, more than the limit of 4096", &fixture->error);
}

static void missing_folders_and_files_are_named(void **state) {
  struct test_folder *fixture = *state;
  struct ommai_checkpoint *checkpoint;
  assert_fails(ommai_checkpoint_open(fixture->folder, memory, &checkpoint, &fixture->error), OMMA_ERROR_IO,
               "found neither model.safetensors nor model.safetensors.index.json", &fixture->error);
  assert_fails(ommai_checkpoint_open("/nonexistent", memory, &checkpoint, &fixture->error), OMMA_ERROR_IO, "/nonexistent",
               &fixture->error);
  char long_path[5000];
  memset(long_path, 'x', sizeof long_path - 1);
  long_path[sizeof long_path - 1] = '\0';
  assert_fails(ommai_checkpoint_open(long_path, memory, &checkpoint, &fixture->error), OMMA_ERROR_IO, "too long",
               &fixture->error);
}

static void survives_every_failing_allocation(void **state) {
  (void)state;
  struct omma_error error;
  for (int64_t n = 0;; n++) {
    struct test_allocator allocator;
    test_allocator_init(&allocator);
    allocator.fail_at = n;
    struct ommai_checkpoint *checkpoint = NULL;
    enum omma_status status = ommai_checkpoint_open(SHARDED, &allocator.interface, &checkpoint, &error);
    if (status == OMMA_OK) {
      assert_true(n >= 10);
      ommai_checkpoint_close(checkpoint);
      assert_int_equal(allocator.n_live, 0);
      break;
    }
    assert_int_equal(status, OMMA_ERROR_MEMORY);
    assert_non_null(strstr(error.message, "sharded"));
    assert_int_equal(allocator.n_live, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_official_shards),
      cmocka_unit_test_setup_teardown(require_reports_what_is_wrong, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(single_file_wins_over_index, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(an_empty_weight_map_is_an_empty_checkpoint, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(unlisted_tensors_are_found, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(refuses_bad_indexes, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(too_many_shards_are_refused, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(missing_folders_and_files_are_named, test_folder_setup, test_folder_teardown),
      cmocka_unit_test(survives_every_failing_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
