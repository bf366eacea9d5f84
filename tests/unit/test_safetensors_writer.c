#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/file.h"
#include "support/test.h"
#include "support/weights_files.h"
#include "weights/safetensors.h"
#include "weights/safetensors_stream.h"
#include "weights/safetensors_writer.h"

static const struct omma_allocator *const memory = &ommai_default_allocator;

static const float floats[6] = {0, -0.25f, 1.5f, 3, -4, 1e30f};
static const uint16_t halves[3] = {0x3f80, 0xc000, 0x0001};
static const int64_t grid[3] = {1, 4, 6};
static const unsigned char small[5] = {1, 2, 3, 4, 255};

/* Five tensors of four sizes, the smallest first, one with its data given later. */
static enum omma_status write_sample(const char *path, const struct omma_allocator *allocator, struct omma_error *error) {
  struct ommai_safetensors_writer *writer;
  enum omma_status status = ommai_safetensors_writer_create(path, allocator, &writer, error);
  if (status != OMMA_OK) return status;
  status = ommai_safetensors_writer_metadata(writer, "format", "pt", error);
  if (status == OMMA_OK)
    status = ommai_safetensors_writer_add(writer, "small", OMMAI_TENSOR_U8, 1, (int64_t[]){5}, NULL, error);
  if (status == OMMA_OK)
    status = ommai_safetensors_writer_add(writer, "halves", OMMAI_TENSOR_BF16, 2, (int64_t[]){3, 1}, halves, error);
  if (status == OMMA_OK)
    status =
        ommai_safetensors_writer_add(writer, "image.0.\"\xc3\xa9\"", OMMAI_TENSOR_F32, 2, (int64_t[]){2, 3}, floats, error);
  if (status == OMMA_OK)
    status = ommai_safetensors_writer_add(writer, "empty", OMMAI_TENSOR_F32, 2, (int64_t[]){0, 7}, NULL, error);
  if (status == OMMA_OK)
    status = ommai_safetensors_writer_add(writer, "grid", OMMAI_TENSOR_I64, 1, (int64_t[]){3}, grid, error);
  if (status == OMMA_OK) status = ommai_safetensors_writer_data(writer, "small", small, error);
  if (status == OMMA_OK) status = ommai_safetensors_writer_finish(writer, error);
  ommai_safetensors_writer_destroy(writer);
  return status;
}

static void check_bytes(const struct ommai_safetensors *file, const char *name, const void *bytes, size_t size) {
  const struct ommai_tensor *tensor = ommai_safetensors_find(file, name);
  assert_non_null(tensor);
  assert_int_equal(tensor->size_bytes, size);
  assert_memory_equal(tensor->data, bytes, size);
  size_t element = (size_t)ommai_tensor_type_bits(tensor->type) / 8;
  assert_int_equal(tensor->file_offset % element, 0);
}

static void reads_back_what_was_written(void **state) {
  struct test_folder *fixture = *state;
  for (int round = 0; round < 2; round++) { /* the second round replaces the file */
    assert_ok(write_sample(fixture->path, memory, &fixture->error), &fixture->error);
    struct ommai_safetensors *file;
    assert_ok(ommai_safetensors_open(fixture->path, memory, &file, &fixture->error), &fixture->error);
    assert_int_equal(ommai_safetensors_count(file), 5);
    assert_string_equal(ommai_safetensors_metadata(file, "format"), "pt");
    check_bytes(file, "small", small, sizeof small);
    check_bytes(file, "halves", halves, sizeof halves);
    check_bytes(file, "image.0.\"\xc3\xa9\"", floats, sizeof floats);
    check_bytes(file, "grid", grid, sizeof grid);
    assert_string_equal(ommai_safetensors_at(file, 0)->name, "grid");
    ommai_safetensors_close(file);
    assert_int_equal(test_folder_count(fixture->folder), 1);
  }
}

static void nothing_at_all_is_a_valid_file(void **state) {
  struct test_folder *fixture = *state;
  struct ommai_safetensors_writer *writer;
  assert_ok(ommai_safetensors_writer_create(fixture->path, memory, &writer, &fixture->error), &fixture->error);
  assert_ok(ommai_safetensors_writer_finish(writer, &fixture->error), &fixture->error);
  ommai_safetensors_writer_destroy(writer);
  char *bytes;
  size_t size;
  assert_ok(ommai_file_read(fixture->path, 100, memory, &bytes, &size, &fixture->error), &fixture->error);
  assert_int_equal(size, 16);
  assert_memory_equal(bytes, "\x08\0\0\0\0\0\0\0{}      ", 16);
  ommai_release(memory, bytes, size + 1, 1);
}

static void many_tensors_survive_growth(void **state) {
  struct test_folder *fixture = *state;
  struct ommai_safetensors_writer *writer;
  struct omma_error *error = &fixture->error;
  assert_ok(ommai_safetensors_writer_create(fixture->path, memory, &writer, error), error);
  for (int i = 0; i < 500; i++) {
    char name[40];
    snprintf(name, sizeof name, "layers.%d.weight", i);
    assert_ok(ommai_safetensors_writer_add(writer, name, OMMAI_TENSOR_U8, 0, NULL, &small[i % 5], error), error);
  }
  assert_ok(ommai_safetensors_writer_finish(writer, error), error);
  ommai_safetensors_writer_destroy(writer);
  struct ommai_safetensors *file;
  assert_ok(ommai_safetensors_open(fixture->path, memory, &file, error), error);
  assert_int_equal(ommai_safetensors_count(file), 500);
  check_bytes(file, "layers.499.weight", &small[4], 1);
  ommai_safetensors_close(file);
}

static void wrong_arguments_are_named(void **state) {
  struct test_folder *fixture = *state;
  struct omma_error *error = &fixture->error;
  struct ommai_safetensors_writer *writer;
  int64_t two[] = {2}, huge[] = {INT64_MAX, 2}, negative[] = {-1};
  assert_ok(ommai_safetensors_writer_create(fixture->path, memory, &writer, error), error);
  assert_ok(ommai_safetensors_writer_add(writer, "a", OMMAI_TENSOR_U8, 1, two, NULL, error), error);
  assert_fails(ommai_safetensors_writer_add(writer, "a", OMMAI_TENSOR_U8, 1, two, small, error), OMMA_ERROR_ARGUMENT,
               "\"a\" was added before", error);
  assert_fails(ommai_safetensors_writer_add(writer, "__metadata__", OMMAI_TENSOR_U8, 1, two, small, error), OMMA_ERROR_ARGUMENT,
               "reserved", error);
  assert_fails(ommai_safetensors_writer_add(writer, "\xff", OMMAI_TENSOR_U8, 1, two, small, error), OMMA_ERROR_ARGUMENT,
               "UTF-8", error);
  assert_fails(ommai_safetensors_writer_add(writer, "b", OMMAI_TENSOR_U8, 2, huge, small, error), OMMA_ERROR_ARGUMENT,
               "no size for U8", error);
  assert_fails(ommai_safetensors_writer_add(writer, "b", OMMAI_TENSOR_U8, 1, negative, small, error), OMMA_ERROR_ARGUMENT,
               "no size for U8", error);
  assert_fails(ommai_safetensors_writer_metadata(writer, "k", "\xff", error), OMMA_ERROR_ARGUMENT, "UTF-8", error);
  assert_fails(ommai_safetensors_writer_data(writer, "b", small, error), OMMA_ERROR_ARGUMENT, "\"b\" was not added", error);
  assert_fails(ommai_safetensors_writer_finish(writer, error), OMMA_ERROR_ARGUMENT, "\"a\" has no data", error);
  ommai_safetensors_writer_destroy(writer);
  ommai_safetensors_writer_destroy(NULL);
  assert_int_equal(test_folder_count(fixture->folder), 0);
}

static void a_stream_is_read_back_and_refuses_what_does_not_fit(void **state) {
  struct test_folder *fixture = *state;
  struct omma_error *error = &fixture->error;
  struct ommai_safetensors_stream *stream;
  char long_name[OMMAI_STREAM_NAME_BYTES + 1];
  memset(long_name, 'n', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = 0;
  assert_ok(ommai_safetensors_stream_create(fixture->path, 3, memory, &stream, error), error);
  assert_ok(ommai_safetensors_stream_add(stream, "grid", OMMAI_TENSOR_I64, 1, (int64_t[]){3}, grid, error), error);
  assert_ok(ommai_safetensors_stream_add(stream, "\"\xc3\xa9\"", OMMAI_TENSOR_F32, 2, (int64_t[]){2, 3}, floats, error), error);
  assert_fails(ommai_safetensors_stream_add(stream, "grid", OMMAI_TENSOR_U8, 1, (int64_t[]){5}, small, error),
               OMMA_ERROR_ARGUMENT, "\"grid\" was added before", error);
  assert_fails(ommai_safetensors_stream_add(stream, long_name, OMMAI_TENSOR_U8, 1, (int64_t[]){5}, small, error),
               OMMA_ERROR_ARGUMENT, "too long", error);
  assert_fails(ommai_safetensors_stream_add(stream, "\xff", OMMAI_TENSOR_U8, 1, (int64_t[]){5}, small, error),
               OMMA_ERROR_ARGUMENT, "UTF-8", error);
  assert_ok(ommai_safetensors_stream_add(stream, "small", OMMAI_TENSOR_U8, 1, (int64_t[]){5}, small, error), error);
  assert_fails(ommai_safetensors_stream_add(stream, "more", OMMAI_TENSOR_U8, 1, (int64_t[]){5}, small, error),
               OMMA_ERROR_ARGUMENT, "one more than was stated", error);
  assert_false(ommai_file_exists(fixture->path));
  assert_ok(ommai_safetensors_stream_finish(stream, error), error);
  ommai_safetensors_stream_destroy(stream);
  struct ommai_safetensors *file;
  assert_ok(ommai_safetensors_open(fixture->path, memory, &file, error), error);
  assert_int_equal(ommai_safetensors_count(file), 3);
  check_bytes(file, "grid", grid, sizeof grid);
  check_bytes(file, "\"\xc3\xa9\"", floats, sizeof floats);
  check_bytes(file, "small", small, sizeof small);
  ommai_safetensors_close(file);
  assert_fails(ommai_safetensors_stream_create(fixture->path, (size_t)1 << 40, memory, &stream, error), OMMA_ERROR_ARGUMENT,
               "tensors fit into one file", error);
  assert_ok(ommai_safetensors_stream_create(fixture->path, 1, memory, &stream, error), error);
  ommai_safetensors_stream_destroy(stream);
  assert_int_equal(test_folder_count(fixture->folder), 1);
}

/* With as many tensors as there may be. */
static void the_largest_header_can_be_read(void **state) {
  struct test_folder *fixture = *state;
  struct omma_error *error = &fixture->error;
  struct ommai_safetensors_stream *stream;
  struct ommai_safetensors *file;
  size_t most;
  assert_fails(ommai_safetensors_stream_create(fixture->path, SIZE_MAX, memory, &stream, error), OMMA_ERROR_ARGUMENT,
               ": at most ", error);
  assert_int_equal(sscanf(strstr(error->message, ": at most "), ": at most %zu", &most), 1);
  assert_fails(ommai_safetensors_stream_create(fixture->path, most + 1, memory, &stream, error), OMMA_ERROR_ARGUMENT,
               ": at most ", error);
  assert_ok(ommai_safetensors_stream_create(fixture->path, most, memory, &stream, error), error);
  assert_ok(ommai_safetensors_stream_finish(stream, error), error);
  ommai_safetensors_stream_destroy(stream);
  assert_ok(ommai_safetensors_open(fixture->path, memory, &file, error), error);
  ommai_safetensors_close(file);
}

static void bad_targets_are_named(void **state) {
  struct test_folder *fixture = *state;
  struct omma_error *error = &fixture->error;
  assert_fails(write_sample("/nonexistent/out", memory, error), OMMA_ERROR_IO, "/nonexistent/out: cannot create", error);
  assert_fails(write_sample("/dev/null", memory, error), OMMA_ERROR_IO, "not a regular file", error);
  assert_fails(write_sample(fixture->folder, memory, error), OMMA_ERROR_IO, "not a regular file", error);
  char long_path[5000];
  memset(long_path, 'x', sizeof long_path - 1);
  long_path[sizeof long_path - 1] = '\0';
  assert_fails(write_sample(long_path, memory, error), OMMA_ERROR_IO, "too long", error);
}

/* A full disk, imitated by a limit on the file size: the old file stays and nothing is left
 * behind. */
static void a_full_disk_leaves_the_old_file(void **state) {
  struct test_folder *fixture = *state;
  test_write_file(fixture->path, "old", 3);
  struct rlimit before, low;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  for (rlim_t limit = 0; limit < 420; limit += 60) {
    low = (struct rlimit){limit, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    enum omma_status status = write_sample(fixture->path, memory, &fixture->error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, OMMA_ERROR_IO);
    assert_non_null(strstr(fixture->error.message, "/t.safetensors: cannot write"));
    struct stat info;
    assert_int_equal(stat(fixture->path, &info), 0);
    assert_int_equal(info.st_size, 3);
    assert_int_equal(test_folder_count(fixture->folder), 1);
  }
  signal(SIGXFSZ, handler);
}

static void new_files_follow_the_umask(void **state) {
  struct test_folder *fixture = *state;
  mode_t before = umask(027);
  enum omma_status status = write_sample(fixture->path, memory, &fixture->error);
  umask(before);
  assert_ok(status, &fixture->error);
  struct stat info;
  assert_int_equal(stat(fixture->path, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0640);
}

/* Names of all lengths up to some, of files and of tensors. */
static void what_is_given_back_has_the_size_that_was_taken(void **state) {
  struct test_folder *fixture = *state;
  for (int length = 1; length <= 130; length++) {
    struct test_allocator allocator;
    struct ommai_safetensors_writer *writer;
    struct ommai_safetensors_stream *stream;
    char name[140], path[TEST_PATH_SIZE];
    memset(name, 'x', sizeof name);
    name[length] = '\0';
    test_path(path, fixture->folder, name);
    test_allocator_init(&allocator);
    assert_ok(ommai_safetensors_writer_create(path, &allocator.interface, &writer, &fixture->error), &fixture->error);
    assert_ok(ommai_safetensors_writer_add(writer, name, OMMAI_TENSOR_F32, 0, NULL, NULL, &fixture->error), &fixture->error);
    ommai_safetensors_writer_destroy(writer);
    assert_int_equal(allocator.bytes_live, 0);
    assert_ok(ommai_safetensors_stream_create(path, 1, &allocator.interface, &stream, &fixture->error), &fixture->error);
    ommai_safetensors_stream_destroy(stream);
    assert_int_equal(allocator.bytes_live, 0);
  }
  assert_int_equal(test_folder_count(fixture->folder), 0);
}

static void survives_every_failing_allocation(void **state) {
  struct test_folder *fixture = *state;
  bool names_size = false; /* of the copy of "image.0..." with its end */
  for (int64_t n = 0;; n++) {
    struct test_allocator allocator;
    test_allocator_init(&allocator);
    allocator.fail_at = n;
    enum omma_status status = write_sample(fixture->path, &allocator.interface, &fixture->error);
    assert_int_equal(allocator.n_live, 0);
    if (status == OMMA_OK) {
      assert_true(n >= 8);
      break;
    }
    assert_int_equal(status, OMMA_ERROR_MEMORY);
    names_size |= strstr(fixture->error.message, "needs 13 bytes") != NULL;
    assert_int_equal(test_folder_count(fixture->folder), 0);
  }
  assert_true(names_size);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(reads_back_what_was_written, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(nothing_at_all_is_a_valid_file, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(many_tensors_survive_growth, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(wrong_arguments_are_named, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(a_stream_is_read_back_and_refuses_what_does_not_fit, test_folder_setup,
                                      test_folder_teardown),
      cmocka_unit_test_setup_teardown(the_largest_header_can_be_read, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(bad_targets_are_named, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(a_full_disk_leaves_the_old_file, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(new_files_follow_the_umask, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(what_is_given_back_has_the_size_that_was_taken, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(survives_every_failing_allocation, test_folder_setup, test_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
