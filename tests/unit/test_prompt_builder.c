/* Prompts under construction, the chat template written into them, and the list of families. */
#include "families/prompt_builder.h"

#include <stdlib.h>

#include "base/allocator.h"
#include "families/family.h"
#include "support/test.h"

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
    if (i % 3 == 0) assert_ok(ommai_prompt_image(&builder, &part, OMMAI_ALL_TEMPORAL_PATCHES, &error), &error);
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
  assert_fails(ommai_prompt_image(&builder, &part, OMMAI_ALL_TEMPORAL_PATCHES, &error), OMMA_ERROR_MEMORY, "prompt images",
               &error);
  allocator.fail_at = -1;
  assert_ok(ommai_prompt_string(&builder, "abc", &error), &error);
  for (int i = 0; i < 8; i++) assert_ok(ommai_prompt_image(&builder, &part, OMMAI_ALL_TEMPORAL_PATCHES, &error), &error);
  allocator.fail_at = 0;
  assert_fails(ommai_prompt_text(&builder, text, sizeof text, &error), OMMA_ERROR_MEMORY, "prompt text", &error);
  assert_fails(ommai_prompt_image(&builder, &part, OMMAI_ALL_TEMPORAL_PATCHES, &error), OMMA_ERROR_MEMORY, "prompt images",
               &error);
  assert_int_equal(builder.size, 3);
  assert_int_equal(builder.n_images, 8);
  assert_memory_equal(builder.text, "abc", 3);
  ommai_prompt_builder_free(&builder);
  assert_int_equal(allocator.n_live, 0);
}

/* ---- chat template ---- */

#define TEXT(string) \
  { .text = (string), .text_size = sizeof(string) - 1 }

static const struct omma_image *const some_image = (const struct omma_image *)"only its address is used";

static enum omma_status render_template(const struct ommai_builtin_template *template, const struct omma_message *messages,
                                        size_t n, bool continue_final, const char *expected, struct omma_error *error) {
  struct ommai_prompt_builder builder;
  ommai_prompt_builder_init(&builder, &ommai_default_allocator);
  enum omma_status status = ommai_builtin_template_render(template, messages, n, 2, continue_final, &builder, error);
  if (status == OMMA_OK && expected) {
    assert_int_equal(builder.size, strlen(expected));
    assert_memory_equal(builder.text, expected, builder.size);
  }
  ommai_prompt_builder_free(&builder);
  return status;
}

static enum omma_status render(const struct omma_message *messages, size_t n, bool continue_final, const char *expected,
                               struct omma_error *error) {
  return render_template(ommai_family_qwen3_vl.variants[0].template, messages, n, continue_final, expected, error);
}

static void turns_are_written_as_the_template_does(void **state) {
  (void)state;
  struct omma_error error;
  const struct omma_part system = TEXT("Be short."), question = TEXT("Why?"), answer = TEXT("Because"), none = TEXT("");
  const struct omma_part mixed[] = {TEXT("A "), {.image = some_image}, TEXT(" B "), {.image = some_image}};
  const struct omma_message talk[] = {{.role = OMMA_ROLE_SYSTEM, .parts = &system, .n_parts = 1},
                                      {.role = OMMA_ROLE_USER, .parts = &question, .n_parts = 1},
                                      {.role = OMMA_ROLE_ASSISTANT, .parts = &answer, .n_parts = 1},
                                      {.role = OMMA_ROLE_USER, .parts = mixed, .n_parts = 4}};
  assert_ok(render(talk, 4, false,
                   "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n"
                   "<|im_start|>assistant\nBecause<|im_end|>\n<|im_start|>user\nA <|vision_start|><|vision_end|> B "
                   "<|vision_start|><|vision_end|><|im_end|>\n<|im_start|>assistant\n",
                   &error),
            &error);
  assert_ok(render(talk + 1, 2, true, "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\nBecause", &error), &error);
  const struct omma_message empty[] = {{.role = OMMA_ROLE_USER, .parts = &none, .n_parts = 1},
                                       {.role = OMMA_ROLE_USER, .parts = NULL, .n_parts = 0}};
  assert_ok(
      render(empty, 2, false, "<|im_start|>user\n<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n", &error),
      &error);
}

static void forms_differ_in_what_they_allow(void **state) {
  (void)state;
  struct omma_error error;
  static const struct ommai_builtin_template template = {.turn_begin = {"[system]", "[user]", "[assistant]"},
                                                         .turn_end = "[end]",
                                                         .image_begin = "[see]",
                                                         .image_end = "[seen]",
                                                         .default_system = "Help.",
                                                         .allow_system_anywhere = true,
                                                         .images_in = {true, true, true}};
  const struct omma_part text = TEXT("x"), image = {.image = some_image};
  const struct omma_message talk[] = {{.role = OMMA_ROLE_USER, .parts = &text, .n_parts = 1},
                                      {.role = OMMA_ROLE_SYSTEM, .parts = &image, .n_parts = 1},
                                      {.role = OMMA_ROLE_ASSISTANT, .parts = &image, .n_parts = 1}};
  assert_ok(
      render_template(&template, talk, 3, false,
                      "[system]Help.[end][user]x[end][system][see][seen][end][assistant][see][seen][end][assistant]", &error),
      &error);
  assert_ok(render_template(&template, talk + 1, 2, true, "[system][see][seen][end][assistant][see][seen]", &error), &error);
}

/* Times of temporal patches: the middle of their frames', the last frame of an odd number counting
 * twice. */
static void videos_stand_whole_or_by_temporal_patch(void **state) {
  (void)state;
  struct omma_error error;
  const struct omma_video three = {.n_frames = 3, .fps = 0.3}, one = {.n_frames = 1};
  const struct omma_part parts[] = {TEXT("a"), {.video = &three}, TEXT("b"), {.video = &one}};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = 4},
                            instructed = {.role = OMMA_ROLE_SYSTEM, .parts = parts + 1, .n_parts = 1};
  struct ommai_builtin_template template = {.turn_begin = {"[system]", "[user]", "[assistant]"},
                                            .turn_end = "[end]",
                                            .image_begin = "[see]",
                                            .image_end = "[seen]",
                                            .video = OMMAI_VIDEO_WHOLE,
                                            .images_in = {[OMMA_ROLE_USER] = true}};
  assert_ok(render_template(&template, &message, 1, false, "[user]a[see][seen]b[see][seen][end][assistant]", &error), &error);
  template.video = OMMAI_VIDEO_TIMED;
  assert_ok(
      render_template(&template, &message, 1, false,
                      "[user]a[see]<1.7 seconds>[see][seen]<6.7 seconds>[see][seen][seen]b[see]<0.0 seconds>[see][seen][seen]"
                      "[end][assistant]",
                      &error),
      &error);
  assert_fails(render_template(&template, &instructed, 1, false, NULL, &error), OMMA_ERROR_ARGUMENT,
               "only user messages can hold videos", &error);
}

static void what_the_form_has_no_place_for_is_refused(void **state) {
  (void)state;
  struct omma_error error;
  const struct omma_part text = TEXT("x"), image = {.image = some_image};
  const struct omma_message late[] = {{.role = OMMA_ROLE_USER, .parts = &text, .n_parts = 1},
                                      {.role = OMMA_ROLE_SYSTEM, .parts = &text, .n_parts = 1}};
  const struct omma_message seen[] = {{.role = OMMA_ROLE_USER, .parts = &text, .n_parts = 1},
                                      {.role = OMMA_ROLE_ASSISTANT, .parts = &image, .n_parts = 1}};
  const struct omma_message instructed[] = {{.role = OMMA_ROLE_SYSTEM, .parts = &image, .n_parts = 1}};
  assert_fails(render(late, 2, false, NULL, &error), OMMA_ERROR_ARGUMENT, "messages[1]: a system message", &error);
  assert_fails(render(seen, 2, false, NULL, &error), OMMA_ERROR_ARGUMENT, "messages[1]: only user messages", &error);
  assert_fails(render(instructed, 1, false, NULL, &error), OMMA_ERROR_ARGUMENT, "messages[0]: only user messages", &error);
  assert_string_equal(error.field, "messages");
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
      cmocka_unit_test(turns_are_written_as_the_template_does),
      cmocka_unit_test(forms_differ_in_what_they_allow),
      cmocka_unit_test(videos_stand_whole_or_by_temporal_patch),
      cmocka_unit_test(what_the_form_has_no_place_for_is_refused),
      cmocka_unit_test(families_are_found_by_exact_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
