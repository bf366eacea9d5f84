/* Counting pages of TIFF files, of any bytes, and decoding one. */
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "image/image.h"
#include "image/image_pages.h"
#include "support/test.h"

enum {
  ENTRY = 12,
  ENTRIES = 8,
  DIRECTORY = 2 + ENTRIES * ENTRY + 4,
  MAX_PAGES = 12,
  MAX_BYTES = 16 + MAX_PAGES * (DIRECTORY + 8)
};

struct file {
  uint8_t bytes[MAX_BYTES];
  size_t size;
  bool little;
};

static void put(struct file *file, size_t at, uint32_t value, size_t n_bytes) {
  for (size_t i = 0; i < n_bytes; i++) file->bytes[at + i] = (uint8_t)(value >> 8 * (file->little ? i : n_bytes - 1 - i));
}

static void put_entry(struct file *file, size_t *at, uint32_t tag, uint32_t value) {
  put(file, *at, tag, 2);
  put(file, *at + 2, 4, 2); /* of 32 bits */
  put(file, *at + 4, 1, 4);
  put(file, *at + 8, value, 4);
  *at += ENTRY;
}

static size_t directory_at(size_t index) { return 16 + index * (DIRECTORY + 8); }

/* Images of one pixel, as gray as their index says; types: of each, as NewSubfileType has it. The
 * last points to `after`, 0: to none. */
static struct file make_file(bool little, const uint32_t *types, size_t n, size_t after) {
  struct file file = {.size = directory_at(n), .little = little};
  memcpy(file.bytes, little ? "II" : "MM", 2);
  put(&file, 2, 42, 2);
  put(&file, 4, (uint32_t)directory_at(0), 4);
  for (size_t i = 0; i < n; i++) {
    size_t at = directory_at(i), pixel = at + DIRECTORY;
    put(&file, at, ENTRIES, 2);
    at += 2;
    put_entry(&file, &at, 254, types[i]);
    put_entry(&file, &at, 256, 1);
    put_entry(&file, &at, 257, 1);
    put_entry(&file, &at, 258, 8);
    put_entry(&file, &at, 259, 1);
    put_entry(&file, &at, 262, 1);
    put_entry(&file, &at, 273, (uint32_t)pixel);
    put_entry(&file, &at, 279, 1);
    put(&file, at, (uint32_t)(i + 1 < n ? directory_at(i + 1) : after), 4);
    file.bytes[pixel] = (uint8_t)(10 * i);
  }
  return file;
}

static int decoded_gray(const struct file *file) {
  struct omma_error error;
  struct ommai_image *image;
  enum omma_status status = ommai_image_decode(file->bytes, file->size, NULL, &ommai_default_allocator, &image, &error);
  if (status == OMMA_ERROR_UNSUPPORTED) return -1; /* there is no libtiff */
  assert_ok(status, &error);
  int gray = image->pixels[0];
  ommai_image_destroy(image);
  return gray;
}

static void pages_are_counted_and_decoded(void **state) {
  (void)state;
  /* pages, and between them a preview and a mask */
  static const uint32_t types[] = {0, 1, 2, 4, 0};
  static const int grays[] = {0, 20, 40};
  for (int little = 0; little < 2; little++) {
    const struct file file = make_file(little, types, 5, 0);
    assert_int_equal(ommai_tiff_count_pages(file.bytes, file.size), 3);
    for (int64_t page = 1; page <= 3; page++) {
      struct file copy = file;
      ommai_tiff_begin_at_page(copy.bytes, copy.size, page);
      int gray = decoded_gray(&copy);
      if (gray >= 0) assert_int_equal(gray, grays[page - 1]);
    }
  }
}

/* However long the circle and the way to it are. */
static void circles_have_one_page(void **state) {
  (void)state;
  static const uint32_t types[MAX_PAGES] = {0};
  for (size_t n = 1; n <= MAX_PAGES; n++) {
    for (size_t to = 0; to < n; to++) {
      const struct file file = make_file(true, types, n, directory_at(to));
      assert_int_equal(ommai_tiff_count_pages(file.bytes, file.size), 1);
    }
  }
}

static void any_bytes_are_allowed(void **state) {
  (void)state;
  static const uint32_t types[MAX_PAGES] = {0};
  struct test_random random = {1};
  const struct file whole = make_file(false, types, MAX_PAGES, 0);
  for (size_t size = 0; size <= whole.size; size++) {
    uint8_t *cut = malloc(size ? size : 1);
    memcpy(cut, whole.bytes, size);
    int64_t n = ommai_tiff_count_pages(cut, size);
    assert_in_range(n, 1, MAX_PAGES);
    ommai_tiff_begin_at_page(cut, size, n);
    free(cut);
  }
  for (int i = 0; i < 20000; i++) {
    struct file damaged = whole;
    for (int j = 0; j < 4; j++)
      damaged.bytes[test_random_range(&random, 0, (int64_t)whole.size - 1)] ^= (uint8_t)test_random_range(&random, 1, 255);
    int64_t n = ommai_tiff_count_pages(damaged.bytes, damaged.size);
    assert_true(n >= 1);
    ommai_tiff_begin_at_page(damaged.bytes, damaged.size, n);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages_are_counted_and_decoded),
      cmocka_unit_test(circles_have_one_page),
      cmocka_unit_test(any_bytes_are_allowed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
