/* TIFF, HEIC and AVIF (tests/data/image/optional, made by tools/make_optional_image_fixtures.py):
 * the pixels behind them where the library is there, and a refusal by name where it is not. */
#include <stdlib.h>

#include "base/allocator.h"
#include "image/codec.h"
#include "image/image.h"
#include "support/image_fixture.h"
#include "support/test.h"

static const char *path_of(const char *name, char path[static 96]) {
  snprintf(path, 96, "optional/%s", name);
  return path;
}

static struct ommai_image *decode(const struct image_file *file, const char *name) {
  struct omma_error error;
  struct ommai_image *image = NULL;
  struct ommai_image_header header;
  if (ommai_image_decode(file->bytes, file->size, NULL, &ommai_default_allocator, &image, &error) != OMMA_OK) {
    fail_msg("%s: %s", name, error.message);
  }
  assert_ok(ommai_image_probe(file->bytes, file->size, NULL, &header, &error), &error);
  assert_int_equal(header.width, image->width);
  assert_int_equal(header.height, image->height);
  return image;
}

static struct ommai_image *decode_named(const char *name) {
  char path[96];
  struct image_file file = image_fixture_read(path_of(name, path));
  struct ommai_image *image = decode(&file, name);
  image_fixture_free(&file);
  return image;
}

static bool is_available(const struct image_file *file) {
  return ommai_image_sniff(file->bytes, file->size) == OMMAI_IMAGE_TIFF ? ommai_tiff_available() : ommai_heif_available();
}

/* The mean difference of a channel. */
static double distance(const struct ommai_image *a, const struct ommai_image *b) {
  int64_t sum = 0, n = (int64_t)a->width * a->height * 3;
  assert_int_equal(a->width, b->width);
  assert_int_equal(a->height, b->height);
  for (int64_t i = 0; i < n; i++) sum += abs(a->pixels[i] - b->pixels[i]);
  return (double)sum / (double)n;
}

static void check_pixels(const char *name, const char *reference, double tolerance) {
  struct ommai_image *image = decode_named(name), *expected = decode_named(reference);
  double found = distance(image, expected);
  if (found > tolerance) fail_msg("%s: %.2f off, at most %.0f expected", name, found, tolerance);
  ommai_image_destroy(image);
  ommai_image_destroy(expected);
}

static void check_refusal(const struct image_file *file, const char *name) {
  struct omma_error error;
  struct ommai_image *image = NULL;
  if (ommai_image_decode(file->bytes, file->size, NULL, &ommai_default_allocator, &image, &error) != OMMA_ERROR_UNSUPPORTED ||
      !strstr(error.message, "not supported")) {
    fail_msg("%s: expected a refusal, found %s", name, error.message);
  }
}

static void each_file_gives_its_pixels_or_is_refused(void **state) {
  (void)state;
  FILE *manifest = image_fixture_open("optional/manifest.txt");
  char name[64], reference[64], path[96];
  int tolerance, n_files = 0;
  while (fscanf(manifest, "%63s %63s %d", name, reference, &tolerance) == 3) {
    struct image_file file = image_fixture_read(path_of(name, path));
    n_files++;
    if (is_available(&file)) {
      check_pixels(name, reference, tolerance);
    } else {
      check_refusal(&file, name);
    }
    image_fixture_free(&file);
  }
  fclose(manifest);
  assert_int_equal(n_files, 8);
}

/* Cut or damaged files give an image or an error; the sanitizers watch. */
static void damaged_files_do_no_harm(void **state) {
  (void)state;
  static const char *const names[] = {"plain.tiff", "lzw.tiff", "alpha.tiff", "orientation_6.tiff", "photo.heic", "photo.avif"};
  enum { N_NAMES = sizeof names / sizeof *names };
  static const struct ommai_image_limits limits = {
      .max_bytes = 1 << 20, .max_side = 4096, .max_pixels = 1 << 20, .max_cpu_ms = 10000};
  struct test_random random = {78};
  for (int round = 0; round < 40 * N_NAMES; round++) {
    char path[96];
    struct omma_error error;
    struct ommai_image *image = NULL;
    struct image_file file = image_fixture_read(path_of(names[round % N_NAMES], path));
    size_t size = round % 3 ? file.size : (size_t)test_random_range(&random, 12, (int64_t)file.size);
    unsigned char *copy = malloc(size); /* so that reading past the end is seen */
    memcpy(copy, file.bytes, size);
    for (int64_t i = test_random_range(&random, 1, 8); i > 0; i--) {
      copy[test_random_range(&random, 8, (int64_t)size - 1)] = (unsigned char)test_random_u32(&random);
    }
    if (ommai_image_decode(copy, size, &limits, &ommai_default_allocator, &image, &error) != OMMA_OK) assert_null(image);
    ommai_image_destroy(image);
    free(copy);
    image_fixture_free(&file);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_file_gives_its_pixels_or_is_refused),
      cmocka_unit_test(damaged_files_do_no_harm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
