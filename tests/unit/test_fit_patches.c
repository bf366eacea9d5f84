#include "image/image_fit.h"

#include <stdlib.h>

#include "support/test.h"

/* Sizes that the official processor gives for in_token_limit 4096, patches of 14, blocks of 2. */
static void sizes_are_the_official_ones(void **state) {
  (void)state;
  static const int32_t table[][6] = {{640, 480, 640, 480, 644, 504},     {1920, 1080, 1196, 672, 1204, 672},
                                     {3000, 2000, 1101, 734, 1120, 756}, {15, 15, 15, 15, 28, 28},
                                     {900, 900, 900, 900, 924, 924},     {1, 1, 1, 1, 28, 28},
                                     {28, 56, 28, 56, 28, 56},           {7000, 13, 7000, 13, 7000, 28}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct ommai_fitted_size size;
    struct omma_error error;
    assert_ok(ommai_fit_patches(table[i][0], table[i][1], 14, 2, 4096, &size, &error), &error);
    assert_int_equal(size.width, table[i][2]);
    assert_int_equal(size.height, table[i][3]);
    assert_int_equal(size.padded_width, table[i][4]);
    assert_int_equal(size.padded_height, table[i][5]);
  }
}

static void sides_have_a_limit(void **state) {
  (void)state;
  struct ommai_fitted_size size;
  struct omma_error error;
  assert_ok(ommai_fit_patches(510 * 14, 14, 14, 2, 4096, &size, &error), &error);
  assert_fails(ommai_fit_patches(511 * 14, 14, 14, 2, 4096, &size, &error), OMMA_ERROR_LIMIT, "less than 512 a side", &error);
  assert_fails(ommai_fit_patches(14, 65500, 14, 2, 4096, &size, &error), OMMA_ERROR_LIMIT, "image is too large", &error);
  assert_fails(ommai_fit_patches(28, 65500, 28, 2, 1, &size, &error), OMMA_ERROR_LIMIT, "28 x 65500 pixels", &error);
}

/* Every pixel of every padding up to 4 x 4 keeps its place, and the rest is black. */
static void padding_moves_rows(void **state) {
  (void)state;
  for (int shape = 0; shape < 256; shape++) {
    int32_t w = 1 + shape % 4, h = 1 + shape / 4 % 4, pw = w + shape / 16 % 4, ph = h + shape / 64;
    size_t bytes = (size_t)(pw * ph * 3);
    uint8_t *pixels = malloc(bytes);
    memset(pixels, 0xEE, bytes);
    for (int32_t i = 0; i < w * h * 3; i++) pixels[i] = (uint8_t)(i + 1);
    ommai_pad_in_place(&(struct ommai_fitted_size){w, h, pw, ph}, pixels);
    for (int32_t y = 0; y < ph; y++) {
      for (int32_t x = 0; x < pw * 3; x++) {
        int expected = y < h && x < w * 3 ? y * w * 3 + x + 1 : 0;
        assert_int_equal(pixels[y * pw * 3 + x], expected);
      }
    }
    free(pixels);
  }
}

/* The rules by their names: the areas of smart_resize, for frames each or together, and patches
 * with their padding. */
static void rules_choose_the_size(void **state) {
  (void)state;
  struct ommai_fit_limits limits = {OMMAI_SIZING_AREA, 14, 2, 2, 3136, 12845056};
  struct ommai_fitted_size size, frame;
  struct omma_error error;
  assert_ok(ommai_image_fit(&limits, 640, 480, &size, &error), &error);
  assert_true(size.width == 644 && size.height == 476 && size.padded_width == 644 && size.padded_height == 476);
  assert_ok(ommai_frame_fit(&limits, 640, 480, 0, &frame, &error), &error);
  assert_true(ommai_fitted_size_equals(&size, &frame));
  limits.max_pixels = 4 * 320000;
  assert_ok(ommai_frame_fit(&limits, 640, 480, 8, &frame, &error), &error);
  assert_true(frame.width < size.width && 8 * frame.width * frame.height <= limits.max_pixels);
  limits = (struct ommai_fit_limits){OMMAI_SIZING_PATCHES, 14, 2, 1, 0, (int64_t)4096 * 14 * 14};
  assert_ok(ommai_image_fit(&limits, 640, 480, &size, &error), &error);
  assert_true(size.width == 640 && size.height == 480 && size.padded_width == 644 && size.padded_height == 504);
}

/* Cases of a width and a height, and what they become; 0: the ratio of the sides is refused. */
static void expect_sizes(const struct ommai_fit_limits *limits, const int32_t (*cases)[4], size_t n) {
  struct ommai_fitted_size size;
  struct omma_error error;
  for (size_t i = 0; i < n; i++) {
    enum omma_status status = ommai_image_fit(limits, cases[i][0], cases[i][1], &size, &error);
    assert_int_equal(status, cases[i][2] ? OMMA_OK : OMMA_ERROR_LIMIT);
    if (status == OMMA_OK && (size.width != cases[i][2] || size.height != cases[i][3])) {
      fail_msg("%d x %d: %d x %d", cases[i][0], cases[i][1], size.width, size.height);
    }
  }
}

/* The longer side under a limit, as transformers' PixtralImageProcessor does with whole merge
 * blocks for patches; where nothing is left of the other side it fails, too. */
static void a_longer_side_is_shrunk(void **state) {
  (void)state;
  static const int32_t cases[][4] = {
      {640, 480, 644, 504},     {20, 10, 28, 28},       {1, 1, 28, 28},       {1540, 1540, 1540, 1540},
      {1541, 1540, 1540, 1540}, {1000, 700, 1008, 700}, {5000, 27, 1540, 28}, {1654, 2339, 1092, 1540},
      {2339, 1654, 1540, 1092}, {3081, 2, 0, 0},        {2, 3081, 0, 0},      {4000, 3, 1540, 28},
      {INT32_MAX, 1, 0, 0},
  };
  const struct ommai_fit_limits limits = {OMMAI_SIZING_EDGE, 14, 2, 1, 0, 1540 * 1540};
  expect_sizes(&limits, cases, sizeof cases / sizeof *cases);
}

/* As the frames of one temporal patch, as transformers' Glm46VImageProcessor does. */
static void an_image_counts_as_two_frames(void **state) {
  (void)state;
  static const int32_t cases[][4] = {
      {640, 480, 644, 476}, {20, 10, 112, 56},        {10, 20, 56, 112},        {27, 1, 756, 28}, {1, 27, 28, 756},
      {3, 3, 84, 84},       {5000, 27, 5180, 28},     {27, 5600, 0, 0},         {1, 1, 84, 84},   {28, 28, 84, 84},
      {300, 13, 644, 28},   {2000, 3000, 1792, 2688}, {4000, 5000, 1960, 2436},
  };
  const struct ommai_fit_limits limits = {OMMAI_SIZING_FRAMES, 14, 2, 2, 12544, 9633792};
  expect_sizes(&limits, cases, sizeof cases / sizeof *cases);
}

/* Sides shorter than a merge block are brought to it first, the height before the width, as
 * transformers' PaddleOCRVLImageProcessor does. */
static void short_sides_are_enlarged_first(void **state) {
  (void)state;
  static const int32_t cases[][4] = {
      {640, 480, 644, 476},    {20, 10, 476, 252}, {10, 20, 252, 476},   {27, 1, 1764, 84},
      {1, 27, 84, 1792},       {3, 3, 336, 336},   {5000, 27, 5180, 28}, {27, 5000, 28, 5180},
      {2000, 3000, 812, 1204}, {1, 1, 336, 336},   {28, 28, 336, 336},   {300, 13, 1624, 84},
  };
  const struct ommai_fit_limits limits = {OMMAI_SIZING_SIDES_AND_AREA, 14, 2, 1, 112896, 1003520};
  struct ommai_fitted_size size;
  struct omma_error error;
  expect_sizes(&limits, cases, sizeof cases / sizeof *cases);
  assert_fails(ommai_image_fit(&limits, INT32_MAX, 1, &size, &error), OMMA_ERROR_LIMIT, "too narrow", &error);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rules_choose_the_size),       cmocka_unit_test(short_sides_are_enlarged_first),
      cmocka_unit_test(sizes_are_the_official_ones), cmocka_unit_test(sides_have_a_limit),
      cmocka_unit_test(padding_moves_rows),          cmocka_unit_test(an_image_counts_as_two_frames),
      cmocka_unit_test(a_longer_side_is_shrunk),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
