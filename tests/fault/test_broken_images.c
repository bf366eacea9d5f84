/* Broken images of every form: cut at many places, damaged by seeded changes, with sizes in their
 * headers that are not theirs, and headers that promise more than memory holds. Each gives an
 * image or one clear line, leaks nothing, and takes no more memory than the limits allow.
 * tests/unit/test_image_decode.c lists which message stands for what. */
#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "image/image.h"
#include "support/image_fixture.h"
#include "support/test.h"

static const struct ommai_image_limits small_limits = {
    .max_bytes = 1 << 20, .max_side = 2048, .max_pixels = 1 << 20, .max_cpu_ms = 10000};

/* Decoding keeps the image, a second one while it is turned upright, and rows; libraries' own
 * memory is not counted here. */
static int64_t bytes_allowed(const struct ommai_image_limits *limits) { return 8 * limits->max_pixels + (1 << 20); }

/* An image within the limits, or an error of one line; nothing is left behind in either case. */
static enum omma_status decode_checked(const char *name, const void *bytes, size_t size,
                                       const struct ommai_image_limits *limits, struct omma_error *error) {
  struct test_allocator allocator;
  struct ommai_image *image = NULL;
  test_allocator_init(&allocator);
  *error = (struct omma_error){0};
  enum omma_status status = ommai_image_decode(bytes, size, limits, &allocator.interface, &image, error);
  if (status == OMMA_OK) {
    if (image->width < 1 || image->height < 1 || (int64_t)image->width * image->height > limits->max_pixels) {
      fail_msg("%s: %d x %d pixels are over the limits", name, image->width, image->height);
    }
  } else if (status != OMMA_ERROR_FORMAT && status != OMMA_ERROR_LIMIT && status != OMMA_ERROR_UNSUPPORTED) {
    fail_msg("%s: %s: %s", name, omma_status_name(status), error->message);
  } else if (image || !error->message[0] || strchr(error->message, '\n')) {
    fail_msg("%s: expected one line of error and no image, found \"%s\"", name, error->message);
  }
  ommai_image_destroy(image);
  if (allocator.n_live || allocator.bytes_peak > bytes_allowed(limits)) {
    fail_msg("%s: %lld allocations left, %lld bytes taken", name, (long long)allocator.n_live, (long long)allocator.bytes_peak);
  }
  return status;
}

static bool is_image(const char *name) {
  static const char *const endings[] = {".jpg", ".png", ".webp", ".gif", ".bmp"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++) {
    if (strcmp(dot, endings[i]) == 0) return true;
  }
  return false;
}

/* Calls `visit` for each image of tests/data/image. */
static void each_image(void (*visit)(const char *name, const struct image_file *file)) {
  DIR *folder = opendir(OMMA_TEST_DATA "/data/image");
  assert_non_null(folder);
  const struct dirent *entry;
  int count = 0;
  while ((entry = readdir(folder))) {
    if (!is_image(entry->d_name)) continue;
    struct image_file file = image_fixture_read(entry->d_name);
    visit(entry->d_name, &file);
    image_fixture_free(&file);
    count++;
  }
  closedir(folder);
  assert_true(count >= 110);
}

/* Decodes a copy of exactly its size, so that reading past the end is seen. */
static void decode_copy(const char *name, const void *bytes, size_t size) {
  struct omma_error error;
  unsigned char *copy = malloc(size ? size : 1);
  memcpy(copy, bytes, size);
  decode_checked(name, copy, size, &small_limits, &error);
  free(copy);
}

static void cut(const char *name, const struct image_file *file) {
  for (size_t size = 0; size < file->size; size += 97) decode_copy(name, file->bytes, size);
  decode_copy(name, file->bytes, file->size - 1);
}

static void damage(const char *name, const struct image_file *file) {
  struct test_random random = {test_fnv(name, strlen(name))};
  struct image_file copy = {malloc(file->size), file->size};
  for (int round = 0; round < 24; round++) {
    memcpy(copy.bytes, file->bytes, file->size);
    int64_t last = round % 2 ? (int64_t)file->size - 1 : 63; /* every other time the header */
    if (last >= (int64_t)file->size) last = (int64_t)file->size - 1;
    for (int64_t i = test_random_range(&random, 1, 4); i > 0; i--) {
      copy.bytes[test_random_range(&random, 0, last)] ^= (unsigned char)(1u << test_random_range(&random, 0, 7));
    }
    if (round % 4 < 2) image_fixture_fix_png_checksums(&copy);
    struct omma_error error;
    decode_checked(name, copy.bytes, copy.size, &small_limits, &error);
  }
  free(copy.bytes);
}

/* ---- sizes ---- */

static void store(unsigned char *at, uint64_t value, int size, bool big_end_first) {
  for (int i = 0; i < size; i++) at[big_end_first ? size - 1 - i : i] = (unsigned char)(value >> 8 * i);
}

/* The frame header of a JPEG, or NULL. */
static unsigned char *jpeg_frame(const struct image_file *file) {
  for (size_t at = 2; at + 9 < file->size && file->bytes[at] == 0xff;) {
    if (file->bytes[at + 1] >= 0xc0 && file->bytes[at + 1] <= 0xc2) return file->bytes + at;
    at += 2 + ((size_t)file->bytes[at + 2] << 8 | file->bytes[at + 3]);
  }
  return NULL;
}

/* Writes a size over the one in the header; bits that the field lacks are lost. False where the
 * format's field is not known here. */
static bool set_size(struct image_file *file, uint32_t width, uint32_t height) {
  unsigned char *bytes = file->bytes, *frame;
  switch (ommai_image_sniff(bytes, file->size)) {
    case OMMAI_IMAGE_PNG: image_fixture_set_png_size(file, width, height); return true;
    case OMMAI_IMAGE_BMP: {
      int field = bytes[14] == 12 ? 2 : 4;
      store(bytes + 18, width, field, false);
      store(bytes + 18 + field, height, field, false);
      return true;
    }
    case OMMAI_IMAGE_GIF:
      store(bytes + 6, width, 2, false);
      store(bytes + 8, height, 2, false);
      return true;
    case OMMAI_IMAGE_JPEG:
      frame = jpeg_frame(file);
      if (!frame) return false;
      store(frame + 5, height, 2, true);
      store(frame + 7, width, 2, true);
      return true;
    case OMMAI_IMAGE_WEBP:
      if (memcmp(bytes + 12, "VP8X", 4) == 0) {
        store(bytes + 24, width - 1, 3, false);
        store(bytes + 27, height - 1, 3, false);
      } else if (memcmp(bytes + 12, "VP8L", 4) == 0) {
        store(bytes + 21, (bytes[24] & 0xf0ull) << 24 | ((height - 1) & 0x3fff) << 14 | ((width - 1) & 0x3fff), 4, false);
      } else {
        store(bytes + 26, width & 0x3fff, 2, false);
        store(bytes + 28, height & 0x3fff, 2, false);
      }
      return true;
    default: return false;
  }
}

static void give_wrong_sizes(const char *name, const struct image_file *file) {
  static const uint32_t sizes[][2] = {{1, 1},
                                      {1, 2000},
                                      {2000, 1},
                                      {7, 9},
                                      {1000, 1000},
                                      {2047, 512},
                                      {0, 5},
                                      {5, 0},
                                      {2049, 1},
                                      {65535, 65535},
                                      {0x7fffffff, 2},
                                      {2, 0x7fffffff},
                                      {0x80000000u, 0x80000000u},
                                      {0xffffffffu, 1},
                                      {1, 0xffffffffu},
                                      {0xffffffffu, 0xffffffffu}};
  struct image_file copy = {malloc(file->size), file->size};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct omma_error error;
    memcpy(copy.bytes, file->bytes, file->size);
    if (!set_size(&copy, sizes[i][0], sizes[i][1])) break;
    decode_checked(name, copy.bytes, copy.size, &small_limits, &error);
  }
  free(copy.bytes);
}

/* ---- bombs ---- */

/* Kilobytes that the process has taken at most so far, those of the codec libraries included. */
static int64_t peak_kilobytes(void) {
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_maxrss;
}

/* A small file of each format whose header promises hundreds of millions of pixels is refused by
 * its header: neither the limits' allocator nor a library takes memory for it. */
static void bombs_are_refused_by_their_headers(void **state) {
  (void)state;
  static const struct {
    const char *name;
    uint32_t width, height;
  } bombs[] = {{"png_rgb_8_plain.png", 2000000000u, 2000000000u},
               {"png_rgba_16_interlaced.png", 30000, 30000},
               {"png_palette_8_plain.png", 30000, 30000},
               {"plain.gif", 65000, 65000},
               {"interlaced.gif", 65000, 65000},
               {"animated.gif", 65000, 65000},
               {"lossy.webp", 16383, 16383},
               {"lossless.webp", 16384, 16384},
               {"animated.webp", 60000, 60000},
               {"mode_RGB.bmp", 60000, 60000},
               {"run_length_8.bmp", 60000, 60000},
               {"os2.bmp", 60000, 60000},
               {"baseline_420.jpg", 60000, 60000},
               {"progressive_444.jpg", 60000, 60000},
               {"cmyk.jpg", 60000, 60000}};
  int64_t before = peak_kilobytes();
  for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
    struct image_file file = image_fixture_read(bombs[i].name);
    struct test_allocator allocator;
    struct ommai_image *image;
    struct omma_error error;
    test_allocator_init(&allocator);
    assert_true(set_size(&file, bombs[i].width, bombs[i].height));
    enum omma_status status = ommai_image_decode(file.bytes, file.size, NULL, &allocator.interface, &image, &error);
    if (status != OMMA_ERROR_LIMIT) fail_msg("%s: %s: %s", bombs[i].name, omma_status_name(status), error.message);
    assert_true(allocator.bytes_peak < 4096);
    image_fixture_free(&file);
  }
  assert_true(peak_kilobytes() - before < 64 << 10);
}

static void cut_images(void **state) {
  (void)state;
  each_image(cut);
}

static void damaged_images(void **state) {
  (void)state;
  each_image(damage);
}

static void wrong_sizes(void **state) {
  (void)state;
  each_image(give_wrong_sizes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bombs_are_refused_by_their_headers),
      cmocka_unit_test(cut_images),
      cmocka_unit_test(damaged_images),
      cmocka_unit_test(wrong_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
