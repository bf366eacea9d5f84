#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "base/file.h"
#include "base/half.h"
#include "support/test.h"
#include "support/weights_files.h"
#include "weights/gguf.h"

#define TYPES OMMA_TEST_DATA "/data/gguf/types.gguf"

static const struct omma_allocator *const memory = &ommai_default_allocator;

static struct ommai_gguf *open_types(void) {
  struct omma_error error;
  struct ommai_gguf *file;
  assert_ok(ommai_gguf_open(TYPES, memory, &file, &error), &error);
  return file;
}

/* ---- keys ---- */

static void reads_keys_of_every_type(void **state) {
  (void)state;
  static const struct {
    const char *key;
    int64_t value;
  } integers[] = {{"key.u8", 250},
                  {"key.i8", -4},
                  {"key.u16", 65000},
                  {"key.i16", -300},
                  {"key.u32", 4000000000},
                  {"key.i32", -2000000000},
                  {"key.u64", INT64_C(1) << 40},
                  {"key.i64", -(INT64_C(1) << 40)}};
  struct omma_error error;
  struct ommai_gguf *file = open_types();
  for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
    int64_t value;
    double number;
    assert_ok(ommai_gguf_integer(file, integers[i].key, true, INT64_MIN, INT64_MAX, &value, &error), &error);
    assert_int_equal(value, integers[i].value);
    assert_ok(ommai_gguf_number(file, integers[i].key, true, &number, &error), &error);
    assert_true(number == (double)integers[i].value);
  }
  double number;
  bool flag = false;
  struct ommai_gguf_text text;
  assert_ok(ommai_gguf_number(file, "key.f32", true, &number, &error), &error);
  assert_true(number == 0.25);
  assert_ok(ommai_gguf_number(file, "key.f64", true, &number, &error), &error);
  assert_true(number == 0.1);
  assert_ok(ommai_gguf_boolean(file, "key.bool", true, &flag, &error), &error);
  assert_true(flag);
  assert_ok(ommai_gguf_string(file, "key.string", true, &text, &error), &error);
  assert_int_equal(text.size, 7);
  assert_memory_equal(text.bytes, "text \xc3\xa9", 7);
  ommai_gguf_close(file);
}

static void reads_arrays(void **state) {
  (void)state;
  static const char *const strings[] = {"a", "", "long enough"};
  static const struct {
    const char *key;
    double values[3];
    uint64_t count;
  } numbers[] = {{"key.integers", {1, -2, 3}, 3}, {"key.numbers", {0.5, 1.5}, 2}, {"key.booleans", {1, 0}, 2}};
  struct omma_error error;
  struct ommai_gguf *file = open_types();
  struct ommai_gguf_array array;
  assert_ok(ommai_gguf_strings(file, "key.strings", true, &array, &error), &error);
  assert_int_equal(array.count, 3);
  for (size_t i = 0; array.left; i++) {
    struct ommai_gguf_text text = ommai_gguf_next_string(&array);
    assert_int_equal(text.size, strlen(strings[i]));
    assert_memory_equal(text.bytes, strings[i], text.size);
  }
  for (size_t k = 0; k < 3; k++) {
    assert_ok(ommai_gguf_numbers(file, numbers[k].key, true, &array, &error), &error);
    assert_int_equal(array.left, numbers[k].count);
    for (size_t i = 0; array.left; i++) assert_true(ommai_gguf_next_number(&array) == numbers[k].values[i]);
  }
  ommai_gguf_close(file);
}

static void refuses_keys_of_other_types(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_gguf *file = open_types();
  struct ommai_gguf_array array;
  struct ommai_gguf_text text;
  int64_t integer = 5;
  double number = 5;
  bool flag = true;
  assert_fails(ommai_gguf_integer(file, "key.f32", true, 0, 9, &integer, &error), OMMA_ERROR_FORMAT,
               "\"key.f32\": expected an integer, found f32", &error);
  assert_fails(ommai_gguf_integer(file, "key.u8", true, 0, 249, &integer, &error), OMMA_ERROR_FORMAT,
               "from 0 to 249, found 250", &error);
  assert_fails(ommai_gguf_integer(file, "key.i8", true, -3, 9, &integer, &error), OMMA_ERROR_FORMAT, "from -3 to 9, found -4",
               &error);
  assert_fails(ommai_gguf_integer(file, "none", true, 0, 9, &integer, &error), OMMA_ERROR_FORMAT, "key \"none\" is missing",
               &error);
  assert_fails(ommai_gguf_number(file, "key.bool", true, &number, &error), OMMA_ERROR_FORMAT, "expected a number", &error);
  assert_fails(ommai_gguf_boolean(file, "key.u8", true, &flag, &error), OMMA_ERROR_FORMAT, "expected a boolean", &error);
  assert_fails(ommai_gguf_string(file, "key.strings", true, &text, &error), OMMA_ERROR_FORMAT, "found an array of a string",
               &error);
  assert_fails(ommai_gguf_strings(file, "key.integers", true, &array, &error), OMMA_ERROR_FORMAT, "an array of strings",
               &error);
  assert_fails(ommai_gguf_numbers(file, "key.string", true, &array, &error), OMMA_ERROR_FORMAT, "an array of numbers", &error);
  assert_ok(ommai_gguf_integer(file, "none", false, 0, 9, &integer, &error), &error);
  assert_ok(ommai_gguf_number(file, "none", false, &number, &error), &error);
  assert_ok(ommai_gguf_boolean(file, "none", false, &flag, &error), &error);
  assert_ok(ommai_gguf_strings(file, "none", false, &array, &error), &error);
  assert_int_equal(integer, 5);
  assert_true(number == 5 && flag);
  assert_int_equal(array.left, 0);
  /* what need not be there is read where it is */
  assert_ok(ommai_gguf_integer(file, "key.u8", false, 0, 250, &integer, &error), &error);
  assert_ok(ommai_gguf_number(file, "key.f32", false, &number, &error), &error);
  assert_ok(ommai_gguf_numbers(file, "key.integers", false, &array, &error), &error);
  assert_true(integer == 250 && number == 0.25 && array.left == 3);
  assert_fails(ommai_gguf_number(file, "key.string", false, &number, &error), OMMA_ERROR_FORMAT, "expected a number", &error);
  assert_fails(ommai_gguf_boolean(file, "key.u8", false, &flag, &error), OMMA_ERROR_FORMAT, "expected a boolean", &error);
  ommai_gguf_close(file);
}

/* ---- blocks ---- */

static void same_bits(float a, float b, const char *what, int64_t at) {
  if (isnan(a) && isnan(b)) return;
  if (ommai_bits_from_f32(a) != ommai_bits_from_f32(b)) fail_msg("%s: value %lld: %a, expected %a", what, (long long)at, a, b);
}

static const char *const quantised[] = {"Q8_0", "Q4_0", "Q4_1", "Q5_0",   "Q5_1",   "Q2_K", "Q3_K",
                                        "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"};
enum { N_QUANTISED = sizeof quantised / sizeof *quantised };

static struct ommai_gguf_rows rows_of(const struct ommai_gguf *file, const char *type, const float **values) {
  char name[32];
  snprintf(name, sizeof name, "%s.blocks", type);
  const struct ommai_gguf_tensor *blocks = ommai_gguf_find(file, name);
  snprintf(name, sizeof name, "%s.values", type);
  const struct ommai_gguf_tensor *expected = ommai_gguf_find(file, name);
  assert_non_null(blocks);
  assert_non_null(expected);
  assert_string_equal(blocks->format->name, type);
  assert_int_equal(blocks->n_elements, expected->n_elements);
  *values = (const float *)(const void *)expected->data; /* this file is aligned */
  return (struct ommai_gguf_rows){blocks->format, blocks->data, blocks->shape[1]};
}

static void values_are_the_official_ones(void **state) {
  (void)state;
  struct ommai_gguf *file = open_types();
  float out[3 * 256];
  for (int t = 0; t < N_QUANTISED; t++) {
    const float *expected;
    const struct ommai_gguf_rows rows = rows_of(file, quantised[t], &expected);
    for (int64_t row = 0; row < 2; row++) {
      for (int64_t first = 0; first < rows.n_in; first += 37) {
        int64_t n = rows.n_in - first < 75 ? rows.n_in - first : 75;
        ommai_gguf_row_values(&rows, row, first, n, out);
        for (int64_t i = 0; i < n; i++) same_bits(out[i], expected[row * rows.n_in + first + i], quantised[t], first + i);
      }
    }
  }
  ommai_gguf_close(file);
}

/* scale * (q - zero) - minimum is the value, up to the sign of a zero. */
static void integers_make_the_values(void **state) {
  (void)state;
  struct ommai_gguf *file = open_types();
  for (int t = 0; t < N_QUANTISED; t++) {
    const float *expected;
    const struct ommai_gguf_rows rows = rows_of(file, quantised[t], &expected);
    const struct ommai_stored_matrix matrix = ommai_gguf_stored_matrix(&rows);
    assert_int_equal(rows.n_in % matrix.group, 0);
    for (int64_t row = 0; row < 2; row++) {
      for (int64_t g = 0; g < rows.n_in / matrix.group; g++) {
        int8_t q[32];
        float scale, minimum;
        matrix.integers(matrix.context, row, g, q, &scale, &minimum);
        if (!matrix.has_minimums) assert_true(minimum == 0);
        for (int64_t i = 0; i < matrix.group; i++) {
          if (matrix.bits < 8) assert_in_range(q[i], 0, (1 << matrix.bits) - 1);
          float product = scale * (float)(q[i] - matrix.zero), value = product - minimum;
          same_bits(value + 0.0f, expected[row * rows.n_in + g * matrix.group + i] + 0.0f, quantised[t], i);
        }
      }
    }
  }
  ommai_gguf_close(file);
}

static void reads_plain_numbers(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int n_dims;
    int64_t shape[3];
  } plain[] = {{"f32", 2, {2, 3}}, {"f16", 3, {1, 3, 2}}, {"bf16", 1, {6}}};
  struct ommai_gguf *file = open_types();
  for (int t = 0; t < 3; t++) {
    const struct ommai_gguf_tensor *tensor = ommai_gguf_find(file, plain[t].name);
    float out[6];
    assert_non_null(tensor);
    assert_int_equal(tensor->n_dims, plain[t].n_dims);
    for (int d = 0; d < plain[t].n_dims; d++) assert_int_equal(tensor->shape[d], plain[t].shape[d]);
    ommai_gguf_release(file, tensor->file_offset, tensor->size_bytes);
    const struct ommai_gguf_rows rows = {tensor->format, tensor->data, tensor->shape[tensor->n_dims - 1]};
    for (int64_t i = 0; i < 6; i++) ommai_gguf_row_values(&rows, i / rows.n_in, i % rows.n_in, 1, out + i);
    for (int i = 0; i < 6; i++) assert_true(out[i] == (float)(i - 3) / 4);
  }
  assert_null(ommai_gguf_find(file, "f64"));
  for (int64_t i = 1; i < ommai_gguf_count(file); i++) {
    assert_true(strcmp(ommai_gguf_at(file, i - 1)->name, ommai_gguf_at(file, i)->name) < 0);
  }
  ommai_gguf_close(file);
}

/* ---- broken files ---- */

/* A file under construction. */
struct draft {
  unsigned char bytes[1024];
  size_t size;
};

static void put(struct draft *draft, const void *bytes, size_t size) {
  memcpy(draft->bytes + draft->size, bytes, size);
  draft->size += size;
}
static void put_u32(struct draft *draft, uint32_t value) { put(draft, &value, sizeof value); }
static void put_u64(struct draft *draft, uint64_t value) { put(draft, &value, sizeof value); }
static void put_text(struct draft *draft, const char *text) {
  put_u64(draft, strlen(text));
  put(draft, text, strlen(text));
}
static void begin(struct draft *draft, uint32_t version, uint64_t n_tensors, uint64_t n_keys) {
  draft->size = 0;
  put(draft, "GGUF", 4);
  put_u32(draft, version);
  put_u64(draft, n_tensors);
  put_u64(draft, n_keys);
}
static void put_tensor(struct draft *draft, const char *name, uint64_t n_in, uint64_t n_out, uint32_t type, uint64_t offset) {
  put_text(draft, name);
  put_u32(draft, 2);
  put_u64(draft, n_in);
  put_u64(draft, n_out);
  put_u32(draft, type);
  put_u64(draft, offset);
}
static void pad(struct draft *draft, size_t data) {
  while (draft->size % 32) draft->bytes[draft->size++] = 0;
  memset(draft->bytes + draft->size, 0, data);
  draft->size += data;
}

static void expect(const struct test_folder *fixture, const struct draft *draft, enum omma_status status, const char *message) {
  struct ommai_gguf *file = NULL;
  struct omma_error error;
  test_write_file(fixture->path, draft->bytes, draft->size);
  if (status == OMMA_OK) {
    assert_ok(ommai_gguf_open(fixture->path, memory, &file, &error), &error);
  } else {
    assert_fails(ommai_gguf_open(fixture->path, memory, &file, &error), status, message, &error);
    assert_null(file);
  }
  ommai_gguf_close(file);
}

static void checks_the_header(void **state) {
  const struct test_folder *fixture = *state;
  struct draft draft;
  begin(&draft, 3, 0, 0);
  expect(fixture, &draft, OMMA_OK, NULL);
  draft.size = 23;
  expect(fixture, &draft, OMMA_ERROR_FORMAT, "ends inside its header");
  draft.size = 3;
  expect(fixture, &draft, OMMA_ERROR_FORMAT, "not a GGUF file");
  begin(&draft, 2, 0, 0);
  expect(fixture, &draft, OMMA_OK, NULL);
  begin(&draft, 1, 0, 0);
  expect(fixture, &draft, OMMA_ERROR_UNSUPPORTED, "GGUF version 1 is not supported; versions 2 and 3 are");
  begin(&draft, 3u << 24, 0, 0);
  expect(fixture, &draft, OMMA_ERROR_UNSUPPORTED, "big-endian GGUF is not supported: take");
  begin(&draft, 3, UINT64_MAX, 0);
  expect(fixture, &draft, OMMA_ERROR_LIMIT, "more than the limits");
  begin(&draft, 3, 0, OMMAI_GGUF_MAX_KEYS);
  expect(fixture, &draft, OMMA_ERROR_FORMAT, "ends inside its tables");
  begin(&draft, 3, 1, 0); /* the smallest tensor takes 33 bytes: there are 32, then as many */
  put(&draft, (char[8]){0}, 8);
  expect(fixture, &draft, OMMA_ERROR_FORMAT, "ends inside its tables");
  put(&draft, "", 1);
  expect(fixture, &draft, OMMA_ERROR_LIMIT, "expected 1 to");
}

static void checks_keys(void **state) {
  const struct test_folder *fixture = *state;
  struct draft draft;
  begin(&draft, 3, 0, 1);
  put_text(&draft, "key");
  put_u32(&draft, 13);
  expect(fixture, &draft, OMMA_ERROR_FORMAT, "value of type 13");
  begin(&draft, 3, 0, 1);
  put_text(&draft, "a key");
  put_u32(&draft, 0);
  put(&draft, "", 1);
  expect(fixture, &draft, OMMA_ERROR_FORMAT, "byte 0x20 in the name of a key");
  begin(&draft, 3, 0, 1);
  put_text(&draft, "");
  put_u64(&draft, 0);
  expect(fixture, &draft, OMMA_ERROR_LIMIT, "expected 1 to 255");
  begin(&draft, 3, 0, 1);
  put_u64(&draft, UINT64_MAX);
  put_u64(&draft, 0);
  expect(fixture, &draft, OMMA_ERROR_FORMAT, "ends inside a key");
  begin(&draft, 3, 0, 2);
  for (int i = 0; i < 2; i++) {
    put_text(&draft, "key");
    put_u32(&draft, 0);
    put(&draft, "", 1);
  }
  expect(fixture, &draft, OMMA_ERROR_FORMAT, "key \"key\" is there twice");
  begin(&draft, 3, 0, 1);
  put_text(&draft, "general.alignment");
  put_u32(&draft, 4);
  put_u32(&draft, 12);
  expect(fixture, &draft, OMMA_ERROR_FORMAT, "not a multiple of 8");
}

static void the_largest_integers_are_distinguished(void **state) {
  const struct test_folder *fixture = *state;
  static const uint64_t values[] = {INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX};
  for (int i = 0; i < 3; i++) {
    struct draft draft;
    struct ommai_gguf *file;
    struct omma_error error;
    int64_t integer = 0;
    double number;
    begin(&draft, 3, 0, 1);
    put_text(&draft, "key");
    put_u32(&draft, 10);
    put_u64(&draft, values[i]);
    test_write_file(fixture->path, draft.bytes, draft.size);
    assert_ok(ommai_gguf_open(fixture->path, memory, &file, &error), &error);
    assert_ok(ommai_gguf_number(file, "key", true, &number, &error), &error);
    assert_true(number == (double)values[i]);
    enum omma_status status = ommai_gguf_integer(file, "key", true, INT64_MIN, INT64_MAX, &integer, &error);
    assert_int_equal(status, i ? OMMA_ERROR_FORMAT : OMMA_OK);
    assert_int_equal(integer, i ? 0 : INT64_MAX);
    if (i) assert_non_null(strstr(error.message, "found more than 9223372036854775807"));
    ommai_gguf_close(file);
  }
}

static void checks_arrays(void **state) {
  const struct test_folder *fixture = *state;
  static const struct {
    uint32_t type;
    uint64_t count;
    enum omma_status status;
    const char *message;
  } wrong[] = {{9, 1, OMMA_ERROR_FORMAT, "value of type 9"},
               {0, UINT64_MAX, OMMA_ERROR_LIMIT, "more than the limit"},
               {10, OMMAI_GGUF_MAX_ARRAY, OMMA_ERROR_FORMAT, "ends inside a key"},
               {8, 2, OMMA_ERROR_FORMAT, "ends inside a key"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct draft draft;
    begin(&draft, 3, 0, 1);
    put_text(&draft, "key");
    put_u32(&draft, 9);
    put_u32(&draft, wrong[i].type);
    put_u64(&draft, wrong[i].count);
    put_text(&draft, "one");
    expect(fixture, &draft, wrong[i].status, wrong[i].message);
  }
}

static void checks_tensors(void **state) {
  const struct test_folder *fixture = *state;
  static const struct {
    uint64_t n_in, n_out;
    uint32_t type;
    uint64_t offset;
    enum omma_status status;
    const char *message;
  } wrong[] = {{4, 2, 0, 0, OMMA_OK, NULL},
               {4, 2, 16, 0, OMMA_ERROR_UNSUPPORTED, "type IQ2_XXS (16) is not supported"},
               {4, 2, 99, 0, OMMA_ERROR_UNSUPPORTED, "type an unknown type (99)"},
               {48, 1, 8, 0, OMMA_ERROR_FORMAT, "rows of 48 values are not whole blocks of Q8_0, which have 32"},
               {0, 2, 0, 0, OMMA_ERROR_FORMAT, "a length of 0"},
               {UINT64_C(1) << 40, UINT64_C(1) << 40, 0, 0, OMMA_ERROR_FORMAT, "can be counted"},
               {UINT64_C(1) << 31, UINT64_C(1) << 31, 0, 0, OMMA_ERROR_FORMAT, "can be counted"},
               {UINT64_C(1) << 63, 1, 0, 0, OMMA_ERROR_FORMAT, "can be counted"},
               {4, 3, 0, 0, OMMA_ERROR_FORMAT, "after the end of the file"},
               {4, 2, 0, UINT64_MAX - 31, OMMA_ERROR_FORMAT, "after the end of the file"},
               {4, 2, 0, 8, OMMA_ERROR_FORMAT, "not aligned"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct draft draft;
    begin(&draft, 3, 1, 0);
    put_tensor(&draft, "a", wrong[i].n_in, wrong[i].n_out, wrong[i].type, wrong[i].offset);
    pad(&draft, 32);
    expect(fixture, &draft, wrong[i].status, wrong[i].message);
  }
}

static void checks_several_tensors(void **state) {
  const struct test_folder *fixture = *state;
  struct draft draft;
  begin(&draft, 3, 2, 0);
  put_tensor(&draft, "a", 16, 1, 0, 0);
  put_tensor(&draft, "b", 8, 1, 0, 32);
  pad(&draft, 64);
  expect(fixture, &draft, OMMA_ERROR_FORMAT, "\"b\": its data lies in another tensor's");
  begin(&draft, 3, 2, 0);
  put_tensor(&draft, "a", 8, 1, 0, 0);
  put_tensor(&draft, "a", 8, 1, 0, 32);
  pad(&draft, 64);
  expect(fixture, &draft, OMMA_ERROR_FORMAT, "\"a\": is there twice");
}

/* Whatever of it is missing, a file is refused. */
static void refuses_every_beginning(void **state) {
  const struct test_folder *fixture = *state;
  struct draft draft;
  begin(&draft, 3, 1, 2);
  put_text(&draft, "one");
  put_u32(&draft, 8);
  put_text(&draft, "text");
  put_text(&draft, "two");
  put_u32(&draft, 9);
  put_u32(&draft, 5);
  put_u64(&draft, 2);
  put_u64(&draft, 0);
  put_tensor(&draft, "a", 4, 2, 0, 0);
  pad(&draft, 32);
  size_t whole = draft.size;
  expect(fixture, &draft, OMMA_OK, NULL);
  for (draft.size = 0; draft.size < whole; draft.size++) expect(fixture, &draft, OMMA_ERROR_FORMAT, "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_keys_of_every_type),
      cmocka_unit_test(reads_arrays),
      cmocka_unit_test(refuses_keys_of_other_types),
      cmocka_unit_test(values_are_the_official_ones),
      cmocka_unit_test(integers_make_the_values),
      cmocka_unit_test(reads_plain_numbers),
      cmocka_unit_test_setup_teardown(checks_the_header, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(checks_keys, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(the_largest_integers_are_distinguished, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(checks_arrays, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(checks_tensors, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(checks_several_tensors, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(refuses_every_beginning, test_folder_setup, test_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
