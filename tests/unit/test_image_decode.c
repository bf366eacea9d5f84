/* Decoding against the official pixels (tests/data/image/manifest.txt, made by
 * tools/make_image_fixtures.py), and probing. */
#include <stdlib.h>

#include "base/allocator.h"
#include "base/file.h"
#include "image/image.h"
#include "support/image_fixture.h"
#include "support/test.h"

static void each_file_gives_the_official_pixels(void **state) {
  (void)state;
  FILE *manifest = image_fixture_open("manifest.txt");
  char name[64];
  int width, height, n_files = 0, n_wrong = 0;
  uint64_t hash;
  while (fscanf(manifest, "%63s %d %d %lx", name, &width, &height, &hash) == 4) {
    struct omma_error error;
    struct image_file file = image_fixture_read(name);
    struct ommai_image *image;
    struct ommai_image_header header;
    assert_ok(ommai_image_decode(file.bytes, file.size, NULL, &ommai_default_allocator, &image, &error), &error);
    assert_ok(ommai_image_probe(file.bytes, file.size, NULL, &header, &error), &error);
    bool right =
        image->width == width && image->height == height && test_fnv(image->pixels, (size_t)width * (size_t)height * 3) == hash;
    if (!right) print_error("%s: not the expected %d x %d pixels\n", name, width, height);
    n_wrong += !right;
    n_files++;
    assert_int_equal(header.width, width);
    assert_int_equal(header.height, height);
    assert_int_equal(header.format, image->format);
    assert_true(header.decode_bytes >= (int64_t)width * height * 3);
    ommai_image_destroy(image);
    image_fixture_free(&file);
  }
  fclose(manifest);
  assert_true(n_files >= 110);
  assert_int_equal(n_wrong, 0);
}

static enum omma_status decode(const void *bytes, size_t size, const struct ommai_image_limits *limits,
                               struct omma_error *error) {
  struct ommai_image *image = NULL;
  enum omma_status status = ommai_image_decode(bytes, size, limits, &ommai_default_allocator, &image, error);
  ommai_image_destroy(image);
  struct ommai_image_header header;
  struct omma_error probe_error;
  enum omma_status probed = ommai_image_probe(bytes, size, limits, &header, &probe_error);
  if (status == OMMA_OK) assert_int_equal(probed, OMMA_OK);
  return status;
}

static void unknown_bytes_are_named(void **state) {
  (void)state;
  struct omma_error error;
  assert_fails(decode("", 0, NULL, &error), OMMA_ERROR_FORMAT, "cannot identify image", &error);
  assert_fails(decode("\xff", 1, NULL, &error), OMMA_ERROR_FORMAT, "cannot identify image", &error);
  assert_fails(decode("<svg xmlns=''/>", 15, NULL, &error), OMMA_ERROR_FORMAT, "cannot identify image", &error);
  assert_fails(decode("\0\0\0\x0cjP  ", 8, NULL, &error), OMMA_ERROR_UNSUPPORTED, "JPEG 2000 images are not supported", &error);
  ommai_image_destroy(NULL);
}

static void limits_are_checked_before_decoding(void **state) {
  (void)state;
  struct omma_error error;
  struct image_file file = image_fixture_read("baseline_420.jpg"); /* 61 x 43 */
  struct ommai_image_limits limits = ommai_image_default_limits;
  limits.max_side = 61;
  limits.max_pixels = 61 * 43;
  limits.max_bytes = (int64_t)file.size;
  assert_ok(decode(file.bytes, file.size, &limits, &error), &error);
  limits.max_pixels--;
  assert_fails(decode(file.bytes, file.size, &limits, &error), OMMA_ERROR_LIMIT, "61 x 43 pixels, at most 2622", &error);
  limits.max_side = 60;
  assert_fails(decode(file.bytes, file.size, &limits, &error), OMMA_ERROR_LIMIT, "at most 60 a side", &error);
  limits.max_bytes--;
  assert_fails(decode(file.bytes, file.size, &limits, &error), OMMA_ERROR_LIMIT, "bytes", &error);
  image_fixture_free(&file);
}

/* Nothing is allocated for pixels that a header only claims. */
static void lying_headers_cost_nothing(void **state) {
  (void)state;
  struct omma_error error;
  struct test_allocator allocator;
  test_allocator_init(&allocator);
  struct image_file file = image_fixture_read("png_rgb_8_plain.png");
  struct ommai_image *image;
  static const struct {
    uint32_t width, height;
    const char *message;
  } sizes[] = {{100000, 13, "100000 x 13 pixels, at most 65500 a side"}, {65000, 65000, "at most 178956970 in all"}};
  for (size_t i = 0; i < 2; i++) {
    image_fixture_set_png_size(&file, sizes[i].width, sizes[i].height);
    assert_fails(ommai_image_decode(file.bytes, file.size, NULL, &allocator.interface, &image, &error), OMMA_ERROR_LIMIT,
                 sizes[i].message, &error);
    assert_true(allocator.bytes_peak < 4096);
  }
  image_fixture_set_png_size(&file, 0, 13);
  assert_fails(decode(file.bytes, file.size, NULL, &error), OMMA_ERROR_FORMAT, "broken PNG", &error);
  image_fixture_set_png_size(&file, 19, 2000);
  assert_int_equal(decode(file.bytes, file.size, NULL, &error), OMMA_ERROR_FORMAT);
  image_fixture_free(&file);
  assert_int_equal(allocator.n_live, 0);
}

/* Bytes at a file's end that decoding can do without: what follows the last pixel. */
static size_t dispensable_tail(const struct image_file *file) {
  switch (ommai_image_sniff(file->bytes, file->size)) {
    case OMMAI_IMAGE_PNG: return 12 + 4 + 8; /* IEND, the check sum of IDAT, the tail of zlib */
    case OMMAI_IMAGE_GIF: return 1;
    case OMMAI_IMAGE_BMP: return 2; /* the end mark of run lengths */
    default: return 0;
  }
}

/* A file without its end is refused, wherever it breaks off. */
static void truncated_files_are_refused(void **state) {
  (void)state;
  static const char *const names[] = {"baseline_444.jpg",
                                      "progressive_444.jpg",
                                      "exif_6.jpg",
                                      "cmyk.jpg",
                                      "gray.jpg",
                                      "png_rgba_16_interlaced.png",
                                      "png_rgb_8_plain.png",
                                      "lossy.webp",
                                      "lossless.webp",
                                      "animated.webp",
                                      "lossy_alpha.webp",
                                      "plain.gif",
                                      "transparent.gif",
                                      "mode_P.bmp",
                                      "top_down.bmp",
                                      "masks_alpha.bmp",
                                      "run_length_8.bmp",
                                      "run_length_4.bmp"};
  struct omma_error error;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct image_file file = image_fixture_read(names[i]);
    size_t limit = file.size - dispensable_tail(&file);
    for (size_t size = 12; size<limit; size += size> 600 && size + 100 < limit ? 97 : 1) {
      unsigned char *copy = malloc(size); /* so that reading past the end is seen */
      memcpy(copy, file.bytes, size);
      enum omma_status status = decode(copy, size, NULL, &error);
      if (status != OMMA_ERROR_FORMAT || !strstr(error.message, "image file is truncated")) {
        fail_msg("%s cut to %zu of %zu bytes: %s, %s", names[i], size, file.size, omma_status_name(status), error.message);
      }
      free(copy);
    }
    image_fixture_free(&file);
  }
}

/* Random damage must give an image or an error, never a crash; the sanitizers watch. */
static void damaged_files_do_no_harm(void **state) {
  (void)state;
  static const char *const names[] = {
      "baseline_420.jpg", "progressive_420.jpg",    "exif_5.jpg",     "restarts.jpg",
      "cmyk.jpg",         "png_palette_4_trns.png", "png_exif_6.png", "stored_rgb.jpg",
      "lossy_alpha.webp", "lossless.webp",          "animated.webp",  "png_gray_2_trns_interlaced.png",
      "exif_6.webp",      "interlaced.gif",         "animated.gif",   "transparent.gif",
      "sticks_out.gif",   "png_rgba_8_plain.png",   "mode_P.bmp",     "masks_alpha.bmp",
      "run_length_8.bmp", "run_length_4.bmp",       "bits_565.bmp",   "os2.bmp"};
  enum { N_NAMES = sizeof names / sizeof *names };
  struct test_random random = {77};
  struct omma_error error;
  struct ommai_image_limits limits = {.max_bytes = 1 << 20, .max_side = 4096, .max_pixels = 1 << 20, .max_cpu_ms = 10000};
  for (int round = 0; round < 100 * N_NAMES; round++) {
    struct image_file file = image_fixture_read(names[round % N_NAMES]);
    int64_t n_changes = test_random_range(&random, 1, 8);
    for (int64_t i = 0; i < n_changes; i++) {
      int64_t at = test_random_range(&random, 2, (int64_t)file.size - 1);
      file.bytes[at] = (unsigned char)test_random_u32(&random);
    }
    image_fixture_fix_png_checksums(&file);
    decode(file.bytes, file.size, &limits, &error);
    image_fixture_free(&file);
  }
}

static void each_allocation_may_fail(void **state) {
  (void)state;
  static const char *const names[] = {
      "exif_6.jpg", "cmyk.jpg", "png_rgba_8_interlaced.png", "png_exif_3.png", "lossy_alpha.webp", "plain.gif", "mode_P.bmp"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct image_file file = image_fixture_read(names[i]);
    for (int64_t n = 0;; n++) {
      struct omma_error error;
      struct test_allocator allocator;
      test_allocator_init(&allocator);
      allocator.fail_at = n;
      struct ommai_image *image = NULL;
      enum omma_status status = ommai_image_decode(file.bytes, file.size, NULL, &allocator.interface, &image, &error);
      ommai_image_destroy(image);
      assert_int_equal(allocator.n_live, 0);
      if (status == OMMA_OK) {
        assert_true(n >= 2);
        break;
      }
      assert_int_equal(status, OMMA_ERROR_MEMORY);
      assert_null(image);
    }
    image_fixture_free(&file);
  }
}

/* A progressive file whose last scan is repeated a thousand times. */
static void scans_are_bounded(void **state) {
  (void)state;
  struct omma_error error;
  struct image_file file = image_fixture_read("progressive_gray.jpg");
  size_t scan = 0;
  for (size_t i = 0; i + 1 < file.size; i++) {
    if (file.bytes[i] == 0xff && file.bytes[i + 1] == 0xda) scan = i;
  }
  size_t length = file.size - 2 - scan;
  size_t size = scan + 1000 * length + 2;
  unsigned char *bomb = malloc(size);
  memcpy(bomb, file.bytes, scan);
  for (size_t i = 0; i < 1000; i++) memcpy(bomb + scan + i * length, file.bytes + scan, length);
  memcpy(bomb + size - 2, "\xff\xd9", 2);
  assert_fails(decode(bomb, size, NULL, &error), OMMA_ERROR_LIMIT, "too many scans", &error);
  free(bomb);
  image_fixture_free(&file);
}

/* A limit of processor time that has passed when the first row is there. */
static void time_is_bounded(void **state) {
  (void)state;
  static const char *const names[] = {"progressive_gray.jpg", "baseline_444.jpg", "png_rgb_8_plain.png", "plain.gif"};
  struct ommai_image_limits limits = ommai_image_default_limits;
  struct omma_error error;
  limits.max_cpu_ms = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct image_file file = image_fixture_read(names[i]);
    assert_fails(decode(file.bytes, file.size, &limits, &error), OMMA_ERROR_LIMIT, "takes too long to decode", &error);
    image_fixture_free(&file);
  }
}

/* What libraries keep besides the pixels: 16 bits a coefficient of several scans, 32 bits a pixel
 * of interlaced transparency and of lossless WebP, the pixels a second time where they are
 * turned. */
static void headers_give_the_memory(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int min, max; /* bytes a pixel; blocks round small images up */
  } cases[] = {{"baseline_444.jpg", 3, 3},
               {"progressive_444.jpg", 9, 14},
               {"png_rgba_8_plain.png", 3, 3},
               {"png_rgba_8_interlaced.png", 7, 7},
               {"lossy.webp", 3, 3},
               {"lossless.webp", 8, 8},
               {"lossy_alpha.webp", 13, 13},
               {"plain.gif", 3, 3},
               {"exif_6.jpg", 6, 6}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct omma_error error;
    struct ommai_image_header header;
    struct image_file file = image_fixture_read(cases[i].name);
    assert_ok(ommai_image_probe(file.bytes, file.size, NULL, &header, &error), &error);
    int64_t n_pixels = (int64_t)header.width * header.height;
    if (header.decode_bytes < cases[i].min * n_pixels || header.decode_bytes > cases[i].max * n_pixels) {
      fail_msg("%s: %lld bytes for %lld pixels", cases[i].name, (long long)header.decode_bytes, (long long)n_pixels);
    }
    image_fixture_free(&file);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_file_gives_the_official_pixels),
      cmocka_unit_test(unknown_bytes_are_named),
      cmocka_unit_test(limits_are_checked_before_decoding),
      cmocka_unit_test(lying_headers_cost_nothing),
      cmocka_unit_test(truncated_files_are_refused),
      cmocka_unit_test(damaged_files_do_no_harm),
      cmocka_unit_test(each_allocation_may_fail),
      cmocka_unit_test(scans_are_bounded),
      cmocka_unit_test(time_is_bounded),
      cmocka_unit_test(headers_give_the_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
