/* Prompts under construction, and the list of families. */
#include "families/prompt_builder.h"

#include <stdlib.h>

#include "base/allocator.h"
#include "families/family.h"
#include "support/test.h"

static const struct ommai_media_marks marks = {.image_begin = "[see]", .image_end = "[seen]"};

static void pieces_grow_in_order(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct ommai_prompt_builder builder;
  struct omma_error error;
  const struct omma_part part = {0};
  test_allocator_init(&allocator);
  ommai_prompt_builder_init(&builder, &allocator.interface);
  size_t expected = 0;
  for (int i = 0; i < 500; i++) {
    assert_ok(ommai_prompt_string(&builder, "ab", &error), &error);
    assert_ok(ommai_prompt_text(&builder, "c\0d", 3, &error), &error);
    assert_ok(ommai_prompt_text(&builder, NULL, 0, &error), &error);
    expected += 5;
    if (i % 3 == 0) assert_ok(ommai_prompt_media(&builder, &marks, &part, 2, &error), &error);
  }
  assert_int_equal(builder.size, expected);
  assert_int_equal(builder.n_images, 167);
  for (size_t i = 0; i < 500; i++) assert_memory_equal(builder.text + 5 * i, "abc\0d", 5);
  for (size_t i = 0; i < 167; i++) {
    assert_int_equal(builder.images[i].at, 5 * (3 * i + 1));
    assert_ptr_equal(builder.images[i].part, &part);
  }
  ommai_prompt_builder_free(&builder);
  assert_int_equal(allocator.bytes_live, 0);
}

static void text_has_a_limit(void **state) {
  (void)state;
  struct ommai_prompt_builder builder;
  struct omma_error error;
  char *text = calloc(1, OMMAI_PROMPT_MAX_BYTES);
  ommai_prompt_builder_init(&builder, &ommai_default_allocator);
  assert_ok(ommai_prompt_text(&builder, text, OMMAI_PROMPT_MAX_BYTES - 1, &error), &error);
  assert_ok(ommai_prompt_string(&builder, "x", &error), &error);
  assert_fails(ommai_prompt_string(&builder, "x", &error), OMMA_ERROR_LIMIT, "8388608 bytes", &error);
  assert_fails(ommai_prompt_text(&builder, text, SIZE_MAX, &error), OMMA_ERROR_LIMIT, "messages", &error);
  assert_string_equal(error.field, "messages");
  assert_int_equal(builder.size, OMMAI_PROMPT_MAX_BYTES);
  ommai_prompt_builder_free(&builder);
  free(text);
}

static void failed_memory_leaves_what_was_there(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct ommai_prompt_builder builder;
  struct omma_error error;
  const struct omma_part part = {0};
  static char text[5000];
  test_allocator_init(&allocator);
  ommai_prompt_builder_init(&builder, &allocator.interface);
  allocator.fail_at = 0;
  assert_fails(ommai_prompt_string(&builder, "abc", &error), OMMA_ERROR_MEMORY, "prompt text", &error);
  assert_fails(ommai_prompt_media(&builder, &marks, &part, 2, &error), OMMA_ERROR_MEMORY, "prompt images", &error);
  allocator.fail_at = -1;
  assert_ok(ommai_prompt_string(&builder, "abc", &error), &error);
  for (int i = 0; i < 8; i++) assert_ok(ommai_prompt_media(&builder, &marks, &part, 2, &error), &error);
  allocator.fail_at = 0;
  assert_fails(ommai_prompt_text(&builder, text, sizeof text, &error), OMMA_ERROR_MEMORY, "prompt text", &error);
  assert_fails(ommai_prompt_media(&builder, &marks, &part, 2, &error), OMMA_ERROR_MEMORY, "prompt images", &error);
  assert_int_equal(builder.size, 3);
  assert_int_equal(builder.n_images, 8);
  assert_memory_equal(builder.text, "abc", 3);
  ommai_prompt_builder_free(&builder);
  assert_int_equal(allocator.n_live, 0);
}

/* ---- images and videos ---- */

static void expect_media(enum ommai_video_layout layout, const struct omma_video *video, const char *expected,
                         size_t n_expected) {
  const struct ommai_media_marks with_videos = {.image_begin = "[see]", .image_end = "[seen]", .video = layout};
  const struct omma_part part = {.video = video};
  struct ommai_prompt_builder builder;
  struct omma_error error;
  ommai_prompt_builder_init(&builder, &ommai_default_allocator);
  assert_ok(ommai_prompt_media(&builder, &with_videos, &part, 2, &error), &error);
  assert_int_equal(builder.size, strlen(expected));
  if (*expected) assert_memory_equal(builder.text, expected, builder.size);
  assert_int_equal(builder.n_images, n_expected);
  ommai_prompt_builder_free(&builder);
}

/* Times of temporal patches: the middle of their frames', the last frame of an odd number counting
 * twice. */
static void videos_stand_whole_or_by_temporal_patch(void **state) {
  (void)state;
  const struct omma_video three = {.n_frames = 3, .fps = 0.3}, one = {.n_frames = 1};
  expect_media(OMMAI_VIDEO_WHOLE, &three, "", 1);
  expect_media(OMMAI_VIDEO_TIMED, &three, "<1.7 seconds>[see][seen]<6.7 seconds>[see][seen]", 2);
  expect_media(OMMAI_VIDEO_TIMED, &one, "<0.0 seconds>[see][seen]", 1);
}

static void families_are_found_by_exact_name(void **state) {
  (void)state;
  assert_ptr_equal(ommai_family_find("qwen3_vl"), &ommai_family_qwen3_vl);
  const char *const unknown[] = {"", "qwen3", "qwen3_vl_mo", "QWEN3_VL", " qwen3_vl"};
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) assert_null(ommai_family_find(unknown[i]));
  assert_non_null(strstr(ommai_family_list(), ommai_family_qwen3_vl.model_type));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_grow_in_order),
      cmocka_unit_test(text_has_a_limit),
      cmocka_unit_test(failed_memory_leaves_what_was_there),
      cmocka_unit_test(videos_stand_whole_or_by_temporal_patch),
      cmocka_unit_test(families_are_found_by_exact_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
