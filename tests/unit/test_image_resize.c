/* Resampling, target sizes and patches against the official code (tools/make_image_fixtures.py). */
#include <stdlib.h>

#include "base/allocator.h"
#include "base/half.h"
#include "base/team.h"
#include "image/patches.h"
#include "image/resize.h"
#include "image/smart_resize.h"
#include "support/image_fixture.h"
#include "support/test.h"

static const struct ommai_patch_spec patch_sets[] = {
    {14, 2, 2, {0.48145466f, 0.4578275f, 0.40821073f}, {0.26862954f, 0.26130258f, 0.27577711f}},
    {16, 2, 2, {0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}},
};
static const int64_t patch_limits[2][2] = {{3136, 50176}, {16384, 65536}};

/* The resized image in memory to be given to free(). */
static uint8_t *resized_at(enum ommai_cpu_level level, enum ommai_resize_rule rule, const uint8_t *src, int32_t sw, int32_t sh,
                           int32_t dw, int32_t dh, const struct omma_team *team) {
  struct omma_error error;
  size_t size;
  assert_ok(ommai_resize_workspace(rule, sw, sh, dw, dh, &size, &error), &error);
  void *workspace = ommai_allocate(&ommai_default_allocator, size, 1);
  uint8_t *dst = malloc((size_t)dw * (size_t)dh * 3);
  assert_ok(ommai_resize_bicubic_at(level, rule, src, sw, sh, dst, dw, dh, workspace, size, team, &error), &error);
  ommai_release(&ommai_default_allocator, workspace, size, 1);
  return dst;
}

static uint8_t *resized(enum ommai_resize_rule rule, const uint8_t *src, int32_t sw, int32_t sh, int32_t dw, int32_t dh) {
  return resized_at(ommai_cpu_best(), rule, src, sw, sh, dw, dh, NULL);
}

/* One row of gray, resized along x, and the same column along y. */
static void check_row(enum ommai_resize_rule rule, const uint8_t *row, int n, const uint8_t *expected, int m) {
  uint8_t src[64 * 3];
  for (int i = 0; i < n * 3; i++) src[i] = row[i / 3];
  for (int down = 0; down < 2; down++) {
    uint8_t *dst = down ? resized(rule, src, 1, n, 1, m) : resized(rule, src, n, 1, m, 1);
    for (int i = 0; i < m * 3; i++) assert_int_equal(dst[i], expected[i / 3]);
    free(dst);
  }
}

static void rows_worked_out_by_hand(void **state) {
  (void)state;
  static const uint8_t row[] = {10, 200, 30, 90, 250, 0, 128};
  static const uint8_t to_3[] = {90, 120, 101}, to_4[] = {95, 82, 157, 74};
  static const uint8_t to_11[] = {0, 98, 197, 70, 31, 90, 218, 201, 10, 62, 137};
  static const uint8_t to_16[] = {0, 32, 133, 200, 131, 39, 30, 66, 126, 221, 241, 116, 2, 36, 112, 140};
  for (enum ommai_resize_rule rule = OMMAI_RESIZE_INT16; rule <= OMMAI_RESIZE_PRECISE22; rule++) {
    check_row(rule, row, 7, to_3, 3);
    check_row(rule, row, 7, to_4, 4);
    check_row(rule, row, 7, row, 7);
    check_row(rule, row, 7, to_11, 11);
    check_row(rule, row, 7, to_16, 16);
  }
}

static void random_sizes_match_the_official_code(void **state) {
  (void)state;
  FILE *cases = image_fixture_open("resize.txt");
  struct omma_error error;
  struct ommai_team *team;
  assert_ok(ommai_team_create(3, false, &ommai_default_allocator, &team, &error), &error);
  char rule_name[16];
  int sw, sh, dw, dh, n_cases = 0, n_wrong = 0;
  uint32_t seed;
  uint64_t hash;
  while (fscanf(cases, "%15s %d %d %d %d %u %lx", rule_name, &sw, &sh, &dw, &dh, &seed, &hash) == 7) {
    enum ommai_resize_rule rule = strcmp(rule_name, "int16") == 0 ? OMMAI_RESIZE_INT16 : OMMAI_RESIZE_PRECISE22;
    uint8_t *src = image_fixture_noise(sw, sh, seed);
    for (enum ommai_cpu_level level = 0; level < OMMAI_CPU_LEVELS; level++) {
      if (!ommai_cpu_has(level)) continue;
      uint8_t *dst = resized_at(level, rule, src, sw, sh, dw, dh, level % 2 ? ommai_team_interface(team) : NULL);
      if (test_fnv(dst, (size_t)dw * (size_t)dh * 3) != hash) {
        print_error("%s %s %d x %d to %d x %d, seed %u: not the expected pixels\n", ommai_cpu_level_name(level), rule_name, sw,
                    sh, dw, dh, seed);
        n_wrong++;
      }
      free(dst);
    }
    free(src);
    n_cases++;
  }
  ommai_team_destroy(team);
  fclose(cases);
  assert_true(n_cases >= 300);
  assert_int_equal(n_wrong, 0);
}

static void flat_images_stay_flat(void **state) {
  (void)state;
  struct test_random random = {9};
  for (int round = 0; round < 60; round++) {
    int32_t side[4];
    for (int i = 0; i < 4; i++) side[i] = (int32_t)test_random_range(&random, 1, round < 50 ? 40 : 1200);
    size_t n = (size_t)side[0] * (size_t)side[1] * 3, m = (size_t)side[2] * (size_t)side[3] * 3;
    uint8_t *src = malloc(n), level = (uint8_t)(round * 4);
    memset(src, level, n);
    uint8_t *dst = resized(OMMAI_RESIZE_PRECISE22, src, side[0], side[1], side[2], side[3]);
    for (size_t i = 0; i < m; i++) assert_int_equal(dst[i], level);
    free(dst);
    free(src);
  }
}

static void bad_sizes_are_refused(void **state) {
  (void)state;
  struct omma_error error;
  size_t size;
  uint8_t src[3 * 12] = {0}, dst[3 * 20];
  assert_fails(ommai_resize_workspace(OMMAI_RESIZE_INT16, 0, 3, 4, 5, &size, &error), OMMA_ERROR_ARGUMENT, "0 x 3", &error);
  assert_fails(ommai_resize_workspace(OMMAI_RESIZE_INT16, 3, 3, 4, -5, &size, &error), OMMA_ERROR_ARGUMENT, "4 x -5", &error);
  assert_fails(ommai_resize_workspace(OMMAI_RESIZE_INT16, INT32_MAX, 3, 4, 5, &size, &error), OMMA_ERROR_LIMIT, "", &error);
  assert_ok(ommai_resize_workspace(OMMAI_RESIZE_INT16, 4, 3, 4, 5, &size, &error), &error);
  void *workspace = ommai_allocate(&ommai_default_allocator, size, 1);
  assert_fails(ommai_resize_bicubic(OMMAI_RESIZE_INT16, src, 4, 3, dst, 4, 5, workspace, size / 2, NULL, &error),
               OMMA_ERROR_MEMORY, "workspace", &error);
  ommai_release(&ommai_default_allocator, workspace, size, 1);
}

static void target_sizes_match_the_official_code(void **state) {
  (void)state;
  static const int32_t table[][6] = {
      {480, 640, 476, 644, 480, 640},       {1080, 1920, 1092, 1932, 1088, 1920}, {42, 70, 56, 56, 224, 352},
      {98, 210, 112, 224, 192, 384},        {10, 10, 56, 56, 256, 256},           {3, 500, 28, 728, 32, 3328},
      {5000, 7000, 3024, 4228, 3456, 4832}, {2160, 3840, 2156, 3836, 2176, 3840},
  };
  struct omma_error error;
  int32_t h, w;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    assert_ok(ommai_smart_resize(table[i][0], table[i][1], 28, 3136, 12845056, false, &h, &w, &error), &error);
    assert_int_equal(h, table[i][2]);
    assert_int_equal(w, table[i][3]);
    assert_ok(ommai_smart_resize(table[i][0], table[i][1], 32, 65536, 16777216, false, &h, &w, &error), &error);
    assert_int_equal(h, table[i][4]);
    assert_int_equal(w, table[i][5]);
  }
  /* n_frames, height, width, limits, and the official size of frames for pairs of them and a factor
   * of 32 */
  static const int32_t videos[][7] = {{5, 54, 118, 4096, 320000, 64, 128},      {2, 480, 640, 4096, 25165824, 480, 640},
                                      {32, 480, 640, 4096, 25165824, 480, 640}, {768, 1080, 1920, 4096, 25165824, 128, 224},
                                      {7, 20, 10, 4096, 25165824, 64, 32},      {3, 7, 100, 4096, 25165824, 32, 448},
                                      {4, 16, 16, 100000, 200000, 160, 160},    {5, 100, 100, 4096, 48000, 96, 96},
                                      {3, 33, 47, 4096, 320000, 32, 32},        {767, 20, 4000, 4096, 400000, 32, 320}};
  for (size_t i = 0; i < sizeof videos / sizeof *videos; i++) {
    const int32_t *v = videos[i];
    assert_ok(ommai_smart_resize_frames(v[0], 2, v[1], v[2], 32, v[3], v[4], &h, &w, &error), &error);
    assert_int_equal(h, v[5]);
    assert_int_equal(w, v[6]);
  }
  assert_fails(ommai_smart_resize_frames(1, 2, 64, 64, 32, 1, 9999, &h, &w, &error), OMMA_ERROR_ARGUMENT, "at least 2 frames",
               &error);
  FILE *cases = image_fixture_open("smart_resize.txt");
  int height, width, factor, new_height, new_width, n_cases = 0;
  long low, high;
  while (fscanf(cases, "%d %d %d %ld %ld %d %d", &height, &width, &factor, &low, &high, &new_height, &new_width) == 7) {
    assert_ok(ommai_smart_resize(height, width, factor, low, high, false, &h, &w, &error), &error);
    assert_int_equal(h, new_height);
    assert_int_equal(w, new_width);
    n_cases++;
  }
  fclose(cases);
  assert_true(n_cases >= 150);
}

static void narrow_images_are_refused(void **state) {
  (void)state;
  struct omma_error error;
  int32_t h, w;
  assert_ok(ommai_smart_resize(5, 1000, 28, 3136, 12845056, false, &h, &w, &error), &error);
  assert_fails(ommai_smart_resize(5, 1001, 28, 3136, 12845056, false, &h, &w, &error), OMMA_ERROR_LIMIT, "aspect ratio",
               &error);
  assert_fails(ommai_smart_resize(1001, 5, 28, 3136, 12845056, false, &h, &w, &error), OMMA_ERROR_LIMIT, "at most 200", &error);
  assert_fails(ommai_smart_resize(0, 5, 28, 3136, 12845056, false, &h, &w, &error), OMMA_ERROR_ARGUMENT, "5 x 0", &error);
  assert_fails(ommai_smart_resize(9, 9, 28, INT64_MAX, INT64_MAX, false, &h, &w, &error), OMMA_ERROR_LIMIT, "too many", &error);
}

/* From pixels to patches, the whole way, f32 and bf16, in one call and in pieces. */
static void patches_match_the_official_processor(void **state) {
  (void)state;
  FILE *cases = image_fixture_open("patches.txt");
  struct omma_error error;
  int width, height, number, grid_height, grid_width, n_cases = 0;
  uint32_t seed;
  uint64_t hash, hash_bf16;
  while (fscanf(cases, "%d %d %u %d %d %d %lx %lx", &width, &height, &seed, &number, &grid_height, &grid_width, &hash,
                &hash_bf16) == 8) {
    const struct ommai_patch_spec *spec = &patch_sets[number];
    int32_t h, w;
    assert_ok(ommai_smart_resize(height, width, spec->patch_size * 2, patch_limits[number][0], patch_limits[number][1], false,
                                 &h, &w, &error),
              &error);
    assert_int_equal(h, grid_height * spec->patch_size);
    assert_int_equal(w, grid_width * spec->patch_size);
    uint8_t *src = image_fixture_noise(width, height, seed);
    uint8_t *rgb = resized(OMMAI_RESIZE_INT16, src, width, height, w, h);
    int64_t n = (int64_t)grid_height * grid_width, length = ommai_patch_length(spec);
    float *values = malloc((size_t)(n * length) * sizeof *values);
    ommai_bf16 *halves = malloc((size_t)(n * length) * sizeof *halves);
    assert_ok(ommai_patches_from_pixels(spec, rgb, w, h, 0, n, values, length, OMMA_F32, &error), &error);
    assert_true(test_fnv(values, (size_t)(n * length) * sizeof *values) == hash);
    for (int64_t first = 0; first < n; first += 7) {
      int64_t some = n - first < 7 ? n - first : 7;
      assert_ok(ommai_patches_from_pixels(spec, rgb, w, h, first, some, halves + first * length, length, OMMA_BF16, &error),
                &error);
    }
    assert_true(test_fnv(halves, (size_t)(n * length) * sizeof *halves) == hash_bf16);
    free(halves);
    free(values);
    free(rgb);
    free(src);
    n_cases++;
  }
  fclose(cases);
  assert_true(n_cases >= 7);
}

/* merge_size 1, one time slice, a stride with a gap. */
static void raster_order_is_merge_size_one(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_patch_spec spec = {2, 1, 1, {0, 0, 0}, {1, 1, 1}};
  uint8_t rgb[4 * 6 * 3]; /* 6 wide, 4 high */
  for (int i = 0; i < 72; i++) rgb[i] = (uint8_t)i;
  float out[6][13];
  for (int i = 0; i < 6 * 13; i++) out[i / 13][i % 13] = -1;
  assert_ok(ommai_patches_from_pixels(&spec, rgb, 6, 4, 0, 6, out, 13, OMMA_F32, &error), &error);
  for (int p = 0; p < 6; p++) {
    for (int i = 0; i < 12; i++) {
      int y = p / 3 * 2 + i % 4 / 2, x = p % 3 * 2 + i % 2;
      assert_true(out[p][i] == (float)((y * 6 + x) * 3 + i / 4) / 255.0f);
    }
    assert_true(out[p][12] == -1);
  }
  assert_fails(ommai_patches_from_pixels(&spec, rgb, 5, 4, 0, 1, out, 13, OMMA_F32, &error), OMMA_ERROR_ARGUMENT, "5 x 4",
               &error);
  assert_fails(ommai_patches_from_pixels(&spec, rgb, 6, 4, 3, 4, out, 13, OMMA_F32, &error), OMMA_ERROR_ARGUMENT, "has 6",
               &error);
  assert_fails(ommai_patches_from_pixels(&spec, rgb, 6, 4, 0, 1, out, 11, OMMA_F32, &error), OMMA_ERROR_ARGUMENT, "stride",
               &error);
  assert_fails(ommai_patches_from_pixels(&spec, rgb, 6, 4, 0, 1, out, 12, OMMA_F16, &error), OMMA_ERROR_UNSUPPORTED, "type",
               &error);
  spec.std[1] = 0;
  assert_fails(ommai_patches_from_pixels(&spec, rgb, 6, 4, 0, 1, out, 12, OMMA_F32, &error), OMMA_ERROR_ARGUMENT, "std[1]",
               &error);
}

/* A temporal patch of a video takes each time slice from its own frame. */
static void frames_go_to_their_time_slices(void **state) {
  (void)state;
  enum { SIDE = 4, SLICES = 3, AREA = SIDE * SIDE };
  struct omma_error error;
  const struct ommai_patch_spec spec = {SIDE, 1, SLICES, {0, 0, 0}, {1, 1, 1}};
  struct test_random random = {3};
  uint8_t images[2][AREA * 3];
  for (int i = 0; i < 2 * AREA * 3; i++) images[i / (AREA * 3)][i % (AREA * 3)] = (uint8_t)test_random_u32(&random);
  const int order[SLICES] = {1, 0, 0};
  const uint8_t *frames[SLICES];
  for (int t = 0; t < SLICES; t++) frames[t] = images[order[t]];
  float out[3 * SLICES * AREA];
  ommai_bf16 half[3 * SLICES * AREA];
  assert_ok(ommai_patches_from_frames(&spec, frames, SIDE, SIDE, 0, 1, out, 3 * SLICES * AREA, OMMA_F32, &error), &error);
  assert_ok(ommai_patches_from_frames(&spec, frames, SIDE, SIDE, 0, 1, half, 3 * SLICES * AREA, OMMA_BF16, &error), &error);
  for (int i = 0; i < 3 * SLICES * AREA; i++) {
    float expected = (float)images[order[i / AREA % SLICES]][i % AREA * 3 + i / (AREA * SLICES)] / 255.0f;
    assert_true(out[i] == expected && half[i] == ommai_bf16_from_f32(expected));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_worked_out_by_hand),
      cmocka_unit_test(random_sizes_match_the_official_code),
      cmocka_unit_test(flat_images_stay_flat),
      cmocka_unit_test(bad_sizes_are_refused),
      cmocka_unit_test(target_sizes_match_the_official_code),
      cmocka_unit_test(narrow_images_are_refused),
      cmocka_unit_test(patches_match_the_official_processor),
      cmocka_unit_test(raster_order_is_merge_size_one),
      cmocka_unit_test(frames_go_to_their_time_slices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
