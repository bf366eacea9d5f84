#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "base/file.h"
#include "support/test.h"
#include "support/weights_files.h"
#include "weights/safetensors.h"

#define FIXTURE(name) OMMA_TEST_DATA "/data/weights/" name

static const struct omma_allocator *const memory = &ommai_default_allocator;

static void check_tensor(const struct ommai_safetensors *file, const char *name, enum ommai_tensor_type type, int n_dims,
                         const int64_t *shape) {
  const struct ommai_tensor *tensor = ommai_safetensors_find(file, name);
  if (!tensor) fail_msg("%s is missing", name);
  assert_string_equal(tensor->name, name);
  assert_string_equal(ommai_tensor_type_name(tensor->type), ommai_tensor_type_name(type));
  assert_true(ommai_tensor_has_shape(tensor, n_dims, shape));
  assert_ptr_equal(tensor->file, file);
}

static void reads_official_file_of_all_common_types(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_safetensors *file;
  assert_ok(ommai_safetensors_open(FIXTURE("types.safetensors"), memory, &file, &error), &error);
  assert_int_equal(ommai_safetensors_count(file), 15);
  assert_string_equal(ommai_safetensors_metadata(file, "note"), "made by the official package");
  assert_null(ommai_safetensors_metadata(file, "other"));
  check_tensor(file, "f64", OMMAI_TENSOR_F64, 2, (int64_t[]){2, 3});
  check_tensor(file, "f32", OMMAI_TENSOR_F32, 2, (int64_t[]){2, 3});
  check_tensor(file, "f16", OMMAI_TENSOR_F16, 2, (int64_t[]){3, 2});
  check_tensor(file, "bf16", OMMAI_TENSOR_BF16, 2, (int64_t[]){1, 6});
  check_tensor(file, "i64", OMMAI_TENSOR_I64, 1, (int64_t[]){2});
  check_tensor(file, "i32", OMMAI_TENSOR_I32, 1, (int64_t[]){2});
  check_tensor(file, "i16", OMMAI_TENSOR_I16, 1, (int64_t[]){2});
  check_tensor(file, "i8", OMMAI_TENSOR_I8, 1, (int64_t[]){2});
  check_tensor(file, "u8", OMMAI_TENSOR_U8, 1, (int64_t[]){2});
  check_tensor(file, "bool", OMMAI_TENSOR_BOOL, 1, (int64_t[]){3});
  check_tensor(file, "f8", OMMAI_TENSOR_F8_E4M3, 1, (int64_t[]){6});
  check_tensor(file, "complex", OMMAI_TENSOR_C64, 1, (int64_t[]){1});
  check_tensor(file, "scalar", OMMAI_TENSOR_F32, 0, NULL);
  check_tensor(file, "empty", OMMAI_TENSOR_F32, 2, (int64_t[]){0, 4});
  check_tensor(file, "name with \"quotes\" \xc3\xa9", OMMAI_TENSOR_F32, 1, (int64_t[]){1});
  assert_null(ommai_safetensors_find(file, "__metadata__"));
  int64_t big;
  memcpy(&big, (const char *)ommai_safetensors_find(file, "i64")->data + 8, sizeof big);
  assert_true(big == INT64_C(1) << 40);
  for (int64_t i = 1; i < ommai_safetensors_count(file); i++) {
    const struct ommai_tensor *before = ommai_safetensors_at(file, i - 1);
    assert_true(before->file_offset + before->size_bytes == ommai_safetensors_at(file, i)->file_offset);
  }
  ommai_safetensors_close(file);
  ommai_safetensors_close(NULL);
}

static void converts_float_types_exactly(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_safetensors *file;
  assert_ok(ommai_safetensors_open(FIXTURE("types.safetensors"), memory, &file, &error), &error);
  static const char *const names[] = {"f32", "f16", "bf16"};
  for (int n = 0; n < 3; n++) {
    const struct ommai_tensor *tensor = ommai_safetensors_find(file, names[n]);
    for (int64_t first = 0; first <= 6; first++) {
      for (int64_t count = 0; count <= 6 - first; count++) {
        float out[7] = {99, 99, 99, 99, 99, 99, 99};
        assert_true(ommai_tensor_to_f32(tensor, first, count, out));
        for (int64_t i = 0; i < 7; i++) assert_true(out[i] == (i < count ? (float)(first + i - 3) / 4.0f : 99.0f));
      }
    }
    float none;
    assert_false(ommai_tensor_to_f32(tensor, -1, 1, &none));
    assert_false(ommai_tensor_to_f32(tensor, 0, -1, &none));
    assert_false(ommai_tensor_to_f32(tensor, 6, 1, &none));
    assert_false(ommai_tensor_to_f32(tensor, 2, INT64_MAX, &none));
  }
  float none;
  assert_false(ommai_tensor_to_f32(ommai_safetensors_find(file, "f64"), 0, 1, &none));
  assert_false(ommai_tensor_to_f32(ommai_safetensors_find(file, "i8"), 0, 1, &none));
  ommai_safetensors_close(file);
}

static void counts_nonfinite_values(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_safetensors *file;
  assert_ok(ommai_safetensors_open(FIXTURE("nonfinite.safetensors"), memory, &file, &error), &error);
  for (int64_t i = 0; i < ommai_safetensors_count(file); i++) {
    assert_int_equal(ommai_tensor_count_nonfinite(ommai_safetensors_at(file, i)), 2);
  }
  assert_int_equal(ommai_safetensors_count(file), 4);
  ommai_safetensors_close(file);
  assert_ok(ommai_safetensors_open(FIXTURE("types.safetensors"), memory, &file, &error), &error);
  for (int64_t i = 0; i < ommai_safetensors_count(file); i++) {
    assert_int_equal(ommai_tensor_count_nonfinite(ommai_safetensors_at(file, i)), 0);
  }
  ommai_safetensors_close(file);
}

/* What follows a tensor's last element is not its own. */
static void counts_no_value_beyond_the_last(void **state) {
  (void)state;
  static const enum ommai_tensor_type types[] = {OMMAI_TENSOR_F64, OMMAI_TENSOR_F32, OMMAI_TENSOR_F16, OMMAI_TENSOR_BF16};
  unsigned char bytes[64];
  memset(bytes, 0xff, sizeof bytes);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    size_t size = (size_t)ommai_tensor_type_bits(types[i]) / 8;
    for (int64_t n = 0; n <= 4; n++) {
      struct ommai_tensor tensor = {.type = types[i], .n_dims = 1, .shape = {n}, .n_elements = n, .data = bytes + 8};
      memset(bytes + 8, 0xff, 5 * size);
      assert_int_equal(ommai_tensor_count_nonfinite(&tensor), n);
      memset(bytes + 8, 0, (size_t)n * size);
      assert_int_equal(ommai_tensor_count_nonfinite(&tensor), 0);
    }
  }
}

/* A header of odd length puts every value at an odd address; UBSan watches the loads. */
static void reads_unaligned_data(void **state) {
  struct test_folder *fixture = *state;
  static const char *const types[] = {"F32", "F16", "BF16", "F64"};
  static const size_t sizes[] = {4, 2, 2, 8};
  for (size_t t = 0; t < 4; t++) {
    for (int padding = 0; padding < 9; padding++) {
      char header[200];
      snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[4],\"data_offsets\":[0,%zu]}}%*s", types[t],
               4 * sizes[t], padding, "");
      test_write_safetensors(fixture->path, header, 4 * sizes[t]);
      struct ommai_safetensors *file;
      assert_ok(ommai_safetensors_open(fixture->path, memory, &file, &fixture->error), &fixture->error);
      const struct ommai_tensor *tensor = ommai_safetensors_find(file, "t");
      assert_int_equal((uintptr_t)tensor->data % 8, (8 + strlen(header)) % 8);
      float out[4];
      assert_int_equal(ommai_tensor_to_f32(tensor, 0, 4, out), t < 3);
      assert_int_equal(ommai_tensor_count_nonfinite(tensor), 0);
      ommai_safetensors_close(file);
    }
  }
}

static void accepts_what_the_format_allows(void **state) {
  struct test_folder *fixture = *state;
  static const struct {
    const char *header;
    size_t data_size;
    int64_t count;
  } cases[] = {
      {"{}", 0, 0},
      {"{\"__metadata__\":{}}", 0, 0},
      {"{\"__metadata__\":null}", 0, 0},
      {"{}      ", 0, 0},
      /* an empty tensor at the border of two others, listed out of order */
      {"{\"c\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]},\"e\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_"
       "offsets\":[3,3]},"
       "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}",
       5, 3},
      {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3,2],\"data_offsets\":[0,3]},\"b\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],"
       "\"data_offsets\":[3,6]}}",
       6, 2},
      {"{\"\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1],\"more\":[{}]}}", 1, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    test_write_safetensors(fixture->path, cases[i].header, cases[i].data_size);
    struct ommai_safetensors *file;
    assert_ok(ommai_safetensors_open(fixture->path, memory, &file, &fixture->error), &fixture->error);
    assert_int_equal(ommai_safetensors_count(file), cases[i].count);
    ommai_safetensors_close(file);
  }
}

/* One entry "t" with these three values, as JSON text. */
#define ENTRY(dtype, shape, offsets) "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define U8_ENTRY(name, begin, end, size) \
  "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" #size "],\"data_offsets\":[" #begin "," #end "]}"

static const struct lie {
  const char *header;
  size_t data_size;
  const char *message; /* a part of it */
} lies[] = {
    {"", 0, "expected a header that starts with '{'"},
    {" {}", 0, "expected a header that starts with '{'"},
    {"[]", 0, "expected a header that starts with '{'"},
    {"{", 0, "invalid JSON"},
    {"{}x", 0, "invalid JSON"},
    {"{\"a\\u0000b\":{}}", 0, "invalid JSON"},
    {"{\"a\xff\":{}}", 0, "invalid JSON"},
    {"{" U8_ENTRY("t", 0, 1, 1) "," U8_ENTRY("t", 1, 2, 1) "}", 2, "duplicate"},
    {"{\"t\":3}", 0, "tensor \"t\": expected a JSON object"},
    {"{\"t\":{}}", 0, "\"dtype\" is missing"},
    {"{\"a\\nb\\u001b[2J\":{}}", 0, "tensor \"a?b?[2J\": key \"dtype\" is missing"},
    {"{\"t\":{\"dtype\":\"U8\"}}", 0, "\"shape\" is missing"},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "data_offsets"},
    {"{\"__metadata__\":3}", 0, "__metadata__"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "key \"a\": expected a string, found an integer"},
    {"{\"__metadata__\":{\"a\":null}}", 0, "key \"a\" is missing"},
    {ENTRY("3", "[1]", "[0,1]"), 1, "key \"dtype\": expected a string"},
    {ENTRY("\"F33\"", "[1]", "[0,4]"), 4, "tensor \"t\": unknown dtype \"F33\""},
    {ENTRY("\"f32\"", "[1]", "[0,4]"), 4, "unknown dtype \"f32\""},
    {ENTRY("\"U8\"", "1", "[0,1]"), 1, "key \"shape\": expected an array"},
    {ENTRY("\"U8\"", "[-1]", "[0,1]"), 1, "key \"shape\": entry 0"},
    {ENTRY("\"U8\"", "[1.5]", "[0,1]"), 1, "key \"shape\": expected integers"},
    {ENTRY("\"U8\"", "[\"1\"]", "[0,1]"), 1, "key \"shape\": expected integers"},
    {ENTRY("\"U8\"", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, "at most 8 entries, found 9"},
    {ENTRY("\"U8\"", "[9223372036854775808]", "[0,1]"), 1, "invalid JSON"},
    {ENTRY("\"U8\"", "[4294967296,4294967296]", "[0,0]"), 0, "U8 [4294967296, 4294967296] is too large"},
    {ENTRY("\"F32\"", "[2305843009213693952]", "[0,0]"), 0, "is too large"},
    {ENTRY("\"F64\"", "[288230376151711744]", "[0,0]"), 0, "is too large"},
    {ENTRY("\"F64\"", "[9223372036854775807]", "[0,0]"), 0, "is too large"},
    {ENTRY("\"F4\"", "[3]", "[0,1]"), 1, "does not fill whole bytes"},
    {ENTRY("\"F6_E3M2\"", "[3]", "[0,2]"), 2, "does not fill whole bytes"},
    {ENTRY("\"U8\"", "[1]", "1"), 1, "key \"data_offsets\": expected an array"},
    {ENTRY("\"U8\"", "[1]", "[0]"), 1, "[begin, end]"},
    {ENTRY("\"U8\"", "[1]", "[0,1,1]"), 1, "at most 2 entries, found 3"},
    {ENTRY("\"U8\"", "[1]", "[-1,0]"), 1, "key \"data_offsets\": entry 0"},
    {ENTRY("\"U8\"", "[1]", "[1,0]"), 1, "begin <= end"},
    {ENTRY("\"U8\"", "[2]", "[0,2]"), 1, "[0, 2] exceed the 1 bytes of data"},
    {ENTRY("\"U8\"", "[0]", "[2,2]"), 1, "[2, 2] exceed the 1 bytes of data"},
    {ENTRY("\"U8\"", "[9223372036854775807]", "[0,9223372036854775807]"), 1, "is too large"},
    {ENTRY("\"U8\"", "[1]", "[0,9223372036854775807]"), 1, "exceed the 1 bytes of data"},
    {ENTRY("\"F32\"", "[2,3]", "[0,23]"), 24, "expected 24 bytes for F32 [2, 3], found 23 in data_offsets [0, 23]"},
    {"{" U8_ENTRY("a", 0, 1, 1) ",\"t\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[1,24]}}", 24,
     "expected 24 bytes for F32 [6], found 23 in data_offsets [1, 24]"},
    {ENTRY("\"F32\"", "[]", "[0,2]"), 2, "expected 4 bytes for F32 [], found 2"},
    {ENTRY("\"U8\"", "[0]", "[0,1]"), 1, "expected 0 bytes"},
    {ENTRY("\"U8\"", "[2]", "[1,3]"), 3, "tensor \"t\": hole: its data starts at 1, expected 0"},
    {ENTRY("\"U8\"", "[2]", "[0,2]"), 3, "the last 1 bytes belong to no tensor"},
    {"{}", 4, "the last 4 bytes belong to no tensor"},
    {"{" U8_ENTRY("a", 0, 2, 2) "," U8_ENTRY("b", 1, 3, 2) "}", 3, "tensor \"b\": overlap: its data starts at 1, expected 2"},
    {"{" U8_ENTRY("a", 0, 2, 2) "," U8_ENTRY("b", 0, 2, 2) "}", 2, "tensor \"b\": overlap"},
    {"{" U8_ENTRY("a", 0, 4, 4) "," U8_ENTRY("e", 2, 2, 0) "}", 4, "tensor \"e\": overlap"},
    {"{" U8_ENTRY("a", 0, 1, 1) "," U8_ENTRY("b", 2, 3, 1) "}", 3, "tensor \"b\": hole"},
};

static void refuses_lying_headers(void **state) {
  struct test_folder *fixture = *state;
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    test_write_safetensors(fixture->path, lies[i].header, lies[i].data_size);
    struct test_allocator allocator;
    test_allocator_init(&allocator);
    struct ommai_safetensors *file = NULL;
    assert_fails(ommai_safetensors_open(fixture->path, &allocator.interface, &file, &fixture->error), OMMA_ERROR_FORMAT,
                 lies[i].message, &fixture->error);
    assert_non_null(strstr(fixture->error.message, "t.safetensors"));
    assert_null(file);
    assert_int_equal(allocator.n_live, 0);
    assert_int_equal(ommai_safetensors_open(fixture->path, memory, &file, NULL), OMMA_ERROR_FORMAT);
  }
}

static void refuses_lying_lengths(void **state) {
  struct test_folder *fixture = *state;
  struct ommai_safetensors *file;
  static const uint64_t lengths[] = {3, 4, 100, INT64_MAX, UINT64_MAX - 8, UINT64_MAX - 7, UINT64_MAX};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    unsigned char bytes[10] = "........{}";
    memcpy(bytes, &lengths[i], 8);
    test_write_file(fixture->path, bytes, sizeof bytes);
    assert_fails(ommai_safetensors_open(fixture->path, memory, &file, &fixture->error), OMMA_ERROR_FORMAT,
                 "but only 2 bytes follow", &fixture->error);
  }
  char lfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
  test_write_file(fixture->path, lfs, sizeof lfs - 1);
  assert_fails(ommai_safetensors_open(fixture->path, memory, &file, &fixture->error), OMMA_ERROR_FORMAT, "git lfs pull",
               &fixture->error);
  assert_fails(ommai_safetensors_open(fixture->folder, memory, &file, &fixture->error), OMMA_ERROR_IO, "not a regular file",
               &fixture->error);
  assert_fails(ommai_safetensors_open("/nonexistent/x", memory, &file, &fixture->error), OMMA_ERROR_IO, "/nonexistent/x",
               &fixture->error);
}

/* A file with a hole instead of 100 MB of header: refused before a byte of it is parsed. */
static void refuses_a_header_over_the_limit(void **state) {
  struct test_folder *fixture = *state;
  uint64_t length = OMMAI_SAFETENSORS_MAX_HEADER_BYTES + 1;
  FILE *sparse = fopen(fixture->path, "wb");
  assert_int_equal(fwrite(&length, 1, 8, sparse), 8);
  assert_int_equal(fseek(sparse, (long)length, SEEK_CUR), 0);
  assert_int_equal(fputc('}', sparse), '}');
  assert_int_equal(fclose(sparse), 0);
  struct ommai_safetensors *file;
  assert_fails(ommai_safetensors_open(fixture->path, memory, &file, &fixture->error), OMMA_ERROR_LIMIT, "100000000 bytes",
               &fixture->error);
}

static void refuses_every_truncation(void **state) {
  struct test_folder *fixture = *state;
  char *bytes;
  size_t size;
  assert_ok(ommai_file_read(FIXTURE("types.safetensors"), 10000, memory, &bytes, &size, &fixture->error), &fixture->error);
  struct ommai_safetensors *file;
  for (size_t length = 0; length < size; length++) {
    test_write_file(fixture->path, bytes, length);
    assert_fails(ommai_safetensors_open(fixture->path, memory, &file, &fixture->error), OMMA_ERROR_FORMAT, "t.safetensors",
                 &fixture->error);
  }
  ommai_release(memory, bytes, size + 1, 1);
}

/* Any single byte of the header changed: opened or refused, never a read outside the file (under
 * ASan). */
static void survives_changed_bytes(void **state) {
  struct test_folder *fixture = *state;
  char *bytes;
  size_t size;
  assert_ok(ommai_file_read(FIXTURE("types.safetensors"), 10000, memory, &bytes, &size, &fixture->error), &fixture->error);
  struct test_random random = {20240611};
  for (int i = 0; i < 1500; i++) {
    size_t at = (size_t)test_random_range(&random, 0, (int64_t)size - 1);
    char before = bytes[at];
    bytes[at] = (char)test_random_range(&random, 0, 255);
    test_write_file(fixture->path, bytes, size);
    struct ommai_safetensors *file;
    if (ommai_safetensors_open(fixture->path, memory, &file, &fixture->error) == OMMA_OK) {
      for (int64_t k = 0; k < ommai_safetensors_count(file); k++) ommai_tensor_count_nonfinite(ommai_safetensors_at(file, k));
      ommai_safetensors_close(file);
    }
    bytes[at] = before;
  }
  ommai_release(memory, bytes, size + 1, 1);
}

static void survives_every_failing_allocation(void **state) {
  (void)state;
  struct omma_error error;
  for (int64_t n = 0;; n++) {
    struct test_allocator allocator;
    test_allocator_init(&allocator);
    allocator.fail_at = n;
    struct ommai_safetensors *file = NULL;
    enum omma_status status = ommai_safetensors_open(FIXTURE("types.safetensors"), &allocator.interface, &file, &error);
    if (status == OMMA_OK) {
      assert_true(n >= 4);
      ommai_safetensors_close(file);
      assert_int_equal(allocator.n_live, 0);
      break;
    }
    assert_int_equal(status, OMMA_ERROR_MEMORY);
    assert_non_null(strstr(error.message, "types.safetensors"));
    assert_int_equal(allocator.n_live, 0);
  }
}

static void released_tensors_can_be_read_again(void **state) {
  struct test_folder *fixture = *state;
  const size_t size = 100000;
  test_write_safetensors(fixture->path, ENTRY("\"U8\"", "[100000]", "[0,100000]"), size);
  struct ommai_safetensors *file;
  assert_ok(ommai_safetensors_open(fixture->path, memory, &file, &fixture->error), &fixture->error);
  const struct ommai_tensor *tensor = ommai_safetensors_find(file, "t");
  ommai_safetensors_release(tensor);
  const unsigned char *bytes = tensor->data;
  for (size_t i = 0; i < size; i++) assert_int_equal(bytes[i], (unsigned char)i);
  ommai_safetensors_close(file);
}

static void sizes_of_shapes_are_checked(void **state) {
  (void)state;
  int64_t n;
  uint64_t bytes;
  assert_true(ommai_tensor_size(OMMAI_TENSOR_BF16, 2, (int64_t[]){3, 5}, &n, &bytes));
  assert_int_equal(n, 15);
  assert_int_equal(bytes, 30);
  assert_true(ommai_tensor_size(OMMAI_TENSOR_F64, 0, NULL, &n, &bytes));
  assert_int_equal(bytes, 8);
  assert_false(ommai_tensor_size(OMMAI_TENSOR_U8, 9, (int64_t[9]){0}, &n, &bytes));
  assert_false(ommai_tensor_size(OMMAI_TENSOR_U8, -1, NULL, &n, &bytes));
  assert_false(ommai_tensor_size(OMMAI_TENSOR_TYPE_COUNT, 0, NULL, &n, &bytes));
  char text[OMMAI_SHAPE_TEXT_SIZE];
  int64_t longest[8] = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
  assert_string_equal(strrchr(ommai_shape_text(text, 8, longest), ' '), " -9223372036854775808]");
  assert_string_equal(ommai_shape_text(text, 0, NULL), "[]");
  assert_string_equal(ommai_shape_text(text, 2, (int64_t[]){2, 0}), "[2, 0]");
  for (int type = 0; type < OMMAI_TENSOR_TYPE_COUNT; type++) {
    enum ommai_tensor_type parsed;
    assert_true(ommai_tensor_type_parse(ommai_tensor_type_name((enum ommai_tensor_type)type), &parsed));
    assert_int_equal(parsed, type);
    assert_in_range(ommai_tensor_type_bits(parsed), 4, 64);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_official_file_of_all_common_types),
      cmocka_unit_test(converts_float_types_exactly),
      cmocka_unit_test(counts_nonfinite_values),
      cmocka_unit_test(counts_no_value_beyond_the_last),
      cmocka_unit_test_setup_teardown(reads_unaligned_data, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(accepts_what_the_format_allows, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(refuses_lying_headers, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(refuses_lying_lengths, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(refuses_a_header_over_the_limit, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(refuses_every_truncation, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(survives_changed_bytes, test_folder_setup, test_folder_teardown),
      cmocka_unit_test(survives_every_failing_allocation),
      cmocka_unit_test_setup_teardown(released_tensors_can_be_read_again, test_folder_setup, test_folder_teardown),
      cmocka_unit_test(sizes_of_shapes_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
