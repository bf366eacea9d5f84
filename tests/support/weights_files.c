#include "support/weights_files.h"

#include <dirent.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test.h"

/* The folders that this process created, the last one first. */
struct created {
  struct created *before;
  pid_t process;
  char folder[TEST_PATH_SIZE];
};
static struct created *all_created;

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place) {
  (void)status, (void)type, (void)place;
  return remove(path);
}

static int remove_all(const char *folder) { return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

/* Those that tests left, which is what one that fails does. A child leaves its parent's. */
static void remove_created(void) {
  for (struct created *last; (last = all_created); free(last)) {
    all_created = last->before;
    if (last->process == getpid() && access(last->folder, F_OK) == 0) remove_all(last->folder);
  }
}

void test_folder_create(char out[TEST_PATH_SIZE]) {
  const char *base = getenv("TMPDIR");
  struct created *created = malloc(sizeof *created);
  assert_non_null(created);
  snprintf(out, TEST_PATH_SIZE, "%s/omma_test_XXXXXX", base ? base : "/tmp");
  assert_non_null(mkdtemp(out));
  if (!all_created) assert_int_equal(atexit(remove_created), 0);
  *created = (struct created){.before = all_created, .process = getpid()};
  memcpy(created->folder, out, TEST_PATH_SIZE);
  all_created = created;
}

void test_folder_remove(const char *folder) { assert_int_equal(remove_all(folder), 0); }

int test_folder_count(const char *folder) {
  DIR *directory = opendir(folder);
  assert_non_null(directory);
  int count = 0;
  for (struct dirent *entry; (entry = readdir(directory));) {
    count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  }
  closedir(directory);
  return count;
}

int test_folder_setup(void **state) {
  struct test_folder *fixture = calloc(1, sizeof *fixture);
  test_folder_create(fixture->folder);
  test_path(fixture->path, fixture->folder, "t.safetensors");
  *state = fixture;
  return 0;
}

int test_folder_teardown(void **state) {
  struct test_folder *fixture = *state;
  test_folder_remove(fixture->folder);
  free(fixture);
  return 0;
}

const char *test_path(char out[TEST_PATH_SIZE], const char *folder, const char *name) {
  int length = snprintf(out, TEST_PATH_SIZE, "%s/%s", folder, name);
  assert_in_range(length, 1, TEST_PATH_SIZE - 1);
  return out;
}

void test_write_file(const char *path, const void *bytes, size_t size) {
  /* some file systems flush a file that is truncated and written again, which takes milliseconds */
  unlink(path);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

void test_write_at(const char *root, const char *file, const char *text) {
  char path[TEST_PATH_SIZE];
  test_path(path, root, file);
  for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = '\0';
    mkdir(path, 0700);
    *slash = '/';
  }
  test_write_file(path, text, strlen(text));
}

void test_write_safetensors(const char *path, const char *header, size_t data_size) {
  uint64_t length = strlen(header);
  size_t size = 8 + (size_t)length + data_size;
  unsigned char *bytes = malloc(size);
  assert_non_null(bytes);
  memcpy(bytes, &length, 8);
  memcpy(bytes + 8, header, length);
  for (size_t i = 0; i < data_size; i++) bytes[8 + length + i] = (unsigned char)i;
  test_write_file(path, bytes, size);
  free(bytes);
}
