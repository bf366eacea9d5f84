/* Videos in requests: limits and messages, sizes, positions, cache keys,
 * video_preprocessor_config.json. What the network makes of them is compared in tests/golden. */
#include <stdlib.h>
#include <unistd.h>

#include "base/allocator.h"
#include "families/model_config.h"
#include "families/model_config_read.h"
#include "request/prompt_positions.h"
#include "request/request.h"
#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

static struct omma_model *timed, *whole, *none; /* config_only */
static struct omma_image *frame, *other;

static int set_up(void **state) {
  (void)state;
  const struct omma_model_options options = {.config_only = true, .n_threads = 1, .max_model_len = 200};
  timed = fixture_model("qwen3_vl_untied", &options);
  whole = fixture_model("qwen2_5_vl_tied", &options);
  none = fixture_model("kimi_vl", &options);
  frame = fixture_image("clip_0_118x54.jpg");
  other = fixture_image("tile_64x64.png");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  omma_image_destroy(frame);
  omma_image_destroy(other);
  omma_model_close(timed);
  omma_model_close(whole);
  omma_model_close(none);
  return 0;
}

/* A user message of one part and "x". */
static enum omma_status ask(const struct omma_model *model, const struct omma_part *part, struct omma_request **request,
                            struct omma_error *error) {
  const struct omma_part parts[] = {*part, {.text = "x", .text_size = 1}};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = 2};
  *request = NULL;
  return omma_request_create(model, &message, 1, NULL, request, error);
}

static void expect_refused(const struct omma_model *model, const struct omma_part *part, enum omma_status status,
                           const char *field, const char *words) {
  struct omma_error error;
  struct omma_request *request;
  assert_fails(ask(model, part, &request, &error), status, words, &error);
  assert_string_equal(error.field, field);
  assert_null(request);
}

static void wrong_videos_are_named(void **state) {
  (void)state;
  const struct omma_image *mixed[] = {frame, frame, other};
  const struct omma_image *many[OMMA_MAX_VIDEO_FRAMES + 1];
  for (size_t i = 0; i <= OMMA_MAX_VIDEO_FRAMES; i++) many[i] = frame;
  struct omma_video video = {.frames = mixed, .n_frames = 3};
  struct omma_part part = {.video = &video};
  expect_refused(none, &part, OMMA_ERROR_UNSUPPORTED, "video", "messages[0]: part 0: kimi_vl models take no videos");
  expect_refused(timed, &part, OMMA_ERROR_ARGUMENT, "video",
                 "part 0: frame 2: expected 118 x 54 pixels as frame 0, found 64 x 64");
  video = (struct omma_video){.frames = many, .n_frames = OMMA_MAX_VIDEO_FRAMES + 1};
  expect_refused(whole, &part, OMMA_ERROR_LIMIT, "video", "at most 768 frames make a video, found 769");
  video.n_frames = 1;
  expect_refused(timed, &part, OMMA_ERROR_ARGUMENT, "video", "at least 2 frames make a video, found 1");
  video.n_frames = 0;
  expect_refused(timed, &part, OMMA_ERROR_ARGUMENT, "video", "found none");
  video.n_frames = 2;
  const double wrong[] = {-1, 0.009, 1001, 0.0 / 0.0};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    video.fps = wrong[i];
    expect_refused(timed, &part, OMMA_ERROR_ARGUMENT, "fps", "fps: expected 0.01 to 1000");
  }
  video.fps = 0;
  part.image = other;
  expect_refused(timed, &part, OMMA_ERROR_ARGUMENT, "messages", "part 0: both image and video");
}

/* Nothing is resized for a prompt that is too long anyway. */
static void long_videos_do_not_fit_the_context(void **state) {
  (void)state;
  const struct omma_image *frames[200];
  for (size_t i = 0; i < 200; i++) frames[i] = frame;
  const struct omma_video video = {.frames = frames, .n_frames = 200};
  const struct omma_part part = {.video = &video};
  expect_refused(whole, &part, OMMA_ERROR_LIMIT, "input_tokens", "at least 800 input tokens");
}

static void sizes_follow_the_limits_of_videos(void **state) {
  (void)state;
  struct omma_error error;
  struct omma_image_sizes sizes, less;
  assert_ok(omma_model_video_sizes(timed, 118, 54, 5, NULL, &sizes, &error), &error);
  assert_int_equal(sizes.grid_thw[0], 3);
  assert_int_equal(sizes.resized_width, 128);
  assert_int_equal(sizes.resized_height, 64);
  assert_int_equal(sizes.n_patches, 3 * 4 * 8);
  assert_int_equal(sizes.n_tokens, 3 * 2 * 4);
  /* The limit of one is shared by all frames; that of the other is each frame's. */
  assert_ok(omma_model_video_sizes(timed, 640, 480, 4, NULL, &sizes, &error), &error);
  assert_ok(omma_model_video_sizes(timed, 640, 480, 40, NULL, &less, &error), &error);
  assert_true(4 * sizes.resized_width * sizes.resized_height <= 320000 && less.resized_width < sizes.resized_width);
  assert_ok(omma_model_video_sizes(whole, 640, 480, 1, NULL, &sizes, &error), &error);
  assert_ok(omma_model_video_sizes(whole, 640, 480, 40, NULL, &less, &error), &error);
  assert_int_equal(less.resized_width, sizes.resized_width);
  assert_int_equal(less.n_tokens, 20 * sizes.n_tokens);
  const struct omma_image_options small = {.max_pixels = 80000};
  assert_ok(omma_model_video_sizes(timed, 640, 480, 4, &small, &less, &error), &error);
  assert_true(4 * less.resized_width * less.resized_height <= 80000);
  assert_fails(omma_model_video_sizes(timed, 0, 480, 4, NULL, &less, &error), OMMA_ERROR_ARGUMENT, "at least 1 pixel", &error);
  assert_fails(omma_model_video_sizes(none, 9, 9, 4, NULL, &less, &error), OMMA_ERROR_UNSUPPORTED, "kimi_vl", &error);
}

/* The official code's, for rates in frames a second and tokens per second. */
static void times_are_those_of_the_official_code(void **state) {
  (void)state;
  static const struct {
    double fps, tokens_per_second;
    int32_t times[10];
  } cases[] = {{3, 2, {0, 1, 2, 4, 5, 6, 8, 9, 10, 12}},   {2, 2, {0, 2, 4, 6, 8, 10, 12, 14, 16, 18}},
               {29.97, 2, {0, 0, 0, 0, 0, 0, 0, 0, 1, 1}}, {0.7, 4, {0, 11, 22, 34, 45, 57, 68, 80, 91, 102}},
               {7, 2, {0, 0, 1, 1, 2, 2, 3, 4, 4, 5}},     {1, 25, {0, 50, 100, 150, 200, 250, 300, 350, 400, 450}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int64_t temporal_patch = 0; temporal_patch < 10; temporal_patch++) {
      assert_int_equal(ommai_position_time(temporal_patch, 2 / cases[i].fps, cases[i].tokens_per_second),
                       cases[i].times[temporal_patch]);
    }
  }
}

/* Temporal patches of 2 x 4 tokens, 40 apart in time; the text goes on after their width, and the
 * answer after the text. */
static void slow_videos_reach_past_the_text(void **state) {
  (void)state;
  const struct omma_image *frames[] = {frame, frame, frame, frame, frame, frame, frame, frame, frame, frame,
                                       frame, frame, frame, frame, frame, frame, frame, frame, frame, frame};
  const struct omma_video video = {.frames = frames, .n_frames = 20, .fps = 0.1};
  const struct omma_part part = {.video = &video};
  struct omma_error error;
  struct omma_request *request;
  assert_ok(ask(whole, &part, &request, &error), &error);
  const struct ommai_prompt_token *first = request->tokens;
  while (first->image < 0) first++;
  int32_t begin = first->position[0];
  for (int32_t i = 0; i < 80; i++) {
    assert_int_equal(first[i].image_row, i);
    assert_int_equal(first[i].position[0], begin + i / 8 * 40);
    assert_int_equal(first[i].position[1], begin + i % 8 / 4);
    assert_int_equal(first[i].position[2], begin + i % 4);
  }
  assert_int_equal(first[80].image, -1);
  assert_int_equal(first[80].position[0], begin + 4);
  assert_int_equal(request->next_position, request->tokens[request->n_tokens - 1].position[0] + 1);
  assert_int_equal(request->next_position, begin + 4 + (int32_t)(request->tokens + request->n_tokens - (first + 80)));
  omma_request_destroy(request);
}

/* The key that a video has in the encoder's cache. */
static struct ommai_image_key key_of(const struct omma_model *model, const struct omma_video *video, const char *name,
                                     bool suffices) {
  const struct omma_part part = {.video = video, .image_name = name, .image_name_suffices = suffices};
  struct omma_error error;
  struct omma_request *request;
  assert_ok(ask(model, &part, &request, &error), &error);
  struct ommai_image_key key = request->keys[0];
  omma_request_destroy(request);
  return key;
}

static void keys_distinguish_videos(void **state) {
  (void)state;
  struct omma_image *last = fixture_image("clip_1_118x54.jpg");
  const struct omma_image *still[] = {frame, frame, frame, frame}, *moved[] = {frame, frame, frame, last};
  const struct omma_video videos[] = {{still, 4, 2}, {still, 4, 1}, {moved, 4, 2}, {still, 3, 2}};
  struct ommai_image_key keys[4];
  for (int i = 0; i < 4; i++) keys[i] = key_of(timed, &videos[i], NULL, i % 2);
  assert_memory_equal(&keys[0], &keys[1], sizeof keys[0]); /* the tower knows no rate */
  assert_memory_not_equal(&keys[0], &keys[2], sizeof keys[0]);
  assert_memory_not_equal(&keys[0], &keys[3], sizeof keys[0]);
  /* A name alone counts only where the option for that is set. */
  keys[1] = key_of(timed, &videos[0], "a", false);
  keys[2] = key_of(timed, &videos[2], "a", false);
  assert_memory_not_equal(&keys[1], &keys[0], sizeof keys[0]);
  assert_memory_not_equal(&keys[1], &keys[2], sizeof keys[0]);
  keys[1] = key_of(timed, &videos[2], "a", true);
  keys[2] = key_of(timed, &videos[0], "a", true);
  keys[3] = key_of(timed, &videos[0], "b", true);
  assert_memory_equal(&keys[1], &keys[2], sizeof keys[0]);
  assert_memory_not_equal(&keys[1], &keys[3], sizeof keys[0]);
  omma_image_destroy(last);
}

/* The second time, the tower's output is there already. */
static void videos_are_encoded_once(void **state) {
  (void)state;
  struct omma_model *model = fixture_model("qwen3_vl_untied", NULL);
  struct omma_engine *engine = fixture_engine(model, NULL);
  static struct fixture_answer first, second;
  const struct omma_image *frames[] = {frame, frame, frame};
  const struct omma_video video = {.frames = frames, .n_frames = 3};
  const struct omma_part part = {.video = &video};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1};
  const struct omma_request_options options = {.sampling = {.max_tokens = 4, .ignore_eos = true, .logprobs = true}};
  struct omma_request *request;
  struct omma_error error;
  struct omma_engine_stats stats;
  assert_ok(omma_request_create(model, &message, 1, &options, &request, &error), &error);
  fixture_ask(engine, request, &first);
  fixture_ask(engine, request, &second);
  fixture_expect_equal(&first, &second);
  omma_engine_get_stats(engine, &stats);
  assert_int_equal(stats.encoder_passes, 1);
  assert_int_equal(stats.encoder_cache_hits, 1);
  assert_int_equal(request->images[0].sizes.grid_thw[0], 2);
  assert_int_equal(stats.patches, request->images[0].sizes.n_patches); /* of all temporal patches */
  omma_request_destroy(request);
  omma_engine_destroy(engine);
  omma_model_close(model);
}

/* ---- video_preprocessor_config.json ---- */

#define VIDEO "video_preprocessor_config.json"

static enum omma_status read_folder(const char *folder, struct ommai_model_config *config, struct omma_error *error) {
  const struct ommai_family *family;
  return ommai_model_config_read(&(struct ommai_documents){.directory = folder}, false, &ommai_default_allocator, &family,
                                 config, error);
}

static void limits_come_from_their_file(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE], golden[1024];
  struct ommai_model_config config;
  struct omma_error error;
  fixture_copy_config("qwen3_vl_untied", folder);
  assert_ok(read_folder(folder, &config, &error), &error); /* without it: those of images */
  assert_int_equal(config.video.max_pixels, 40000);
  golden_path("qwen3_vl_untied", VIDEO, golden, sizeof golden);
  fixture_copy_file(golden, test_path(path, folder, VIDEO));
  assert_ok(read_folder(folder, &config, &error), &error);
  assert_int_equal(config.video.max_pixels, 320000);
  assert_int_equal(config.video.min_pixels, 4096);
  fixture_set_key(folder, VIDEO, "size.longest_edge", "100");
  assert_fails(read_folder(folder, &config, &error), OMMA_ERROR_FORMAT, VIDEO ": expected area limits", &error);
  fixture_set_key(folder, VIDEO, "size", NULL);
  assert_ok(read_folder(folder, &config, &error), &error);
  assert_int_equal(config.video.min_pixels, 128 * 32 * 32);
  assert_int_equal(config.video.max_pixels, 768 * 32 * 32);
  fixture_set_key(folder, VIDEO, "patch_size", "14");
  assert_fails(read_folder(folder, &config, &error), OMMA_ERROR_FORMAT, VIDEO ": key \"patch_size\"", &error);
  fixture_set_key(folder, VIDEO, "patch_size", "16");
  fixture_set_key(folder, VIDEO, "image_mean", "[0.5, 0.4, 0.5]");
  assert_fails(read_folder(folder, &config, &error), OMMA_ERROR_UNSUPPORTED, "expected those of images", &error);
  fixture_set_key(folder, "config.json", "video_token_id", NULL);
  assert_ok(read_folder(folder, &config, &error), &error);
  assert_int_equal(config.video.token, -1);
  fixture_set_key(folder, "config.json", "video_token_id", "99999999");
  assert_fails(read_folder(folder, &config, &error), OMMA_ERROR_FORMAT, "\"video_token_id\"", &error);
  test_folder_remove(folder);
}

static void newer_writers_have_one_file(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE], document[4096];
  struct ommai_model_config config;
  struct omma_error error;
  size_t sizes[2];
  char *parts[2];
  fixture_copy_config("qwen3_vl_untied", folder);
  const char *const files[] = {"preprocessor_config.json", VIDEO};
  for (int i = 0; i < 2; i++) {
    char golden[1024];
    golden_path("qwen3_vl_untied", files[i], golden, sizeof golden);
    parts[i] = (char *)fixture_read(golden, &sizes[i]);
  }
  int length = snprintf(document, sizeof document, "{\"image_processor\": %.*s, \"video_processor\": %.*s}", (int)sizes[0],
                        parts[0], (int)sizes[1], parts[1]);
  unlink(test_path(path, folder, "preprocessor_config.json"));
  test_write_file(test_path(path, folder, "processor_config.json"), document, (size_t)length);
  assert_ok(read_folder(folder, &config, &error), &error);
  assert_int_equal(config.image.max_pixels, 40000);
  assert_int_equal(config.video.max_pixels, 320000);
  fixture_set_key(folder, "processor_config.json", "video_processor", NULL);
  assert_ok(read_folder(folder, &config, &error), &error);
  assert_int_equal(config.video.max_pixels, 40000);
  fixture_set_key(folder, "processor_config.json", "video_processor", "3");
  assert_fails(read_folder(folder, &config, &error), OMMA_ERROR_FORMAT, "\"video_processor\": expected an object", &error);
  for (int i = 0; i < 2; i++) free(parts[i]);
  test_folder_remove(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrong_videos_are_named),
      cmocka_unit_test(long_videos_do_not_fit_the_context),
      cmocka_unit_test(sizes_follow_the_limits_of_videos),
      cmocka_unit_test(times_are_those_of_the_official_code),
      cmocka_unit_test(slow_videos_reach_past_the_text),
      cmocka_unit_test(keys_distinguish_videos),
      cmocka_unit_test(videos_are_encoded_once),
      cmocka_unit_test(limits_come_from_their_file),
      cmocka_unit_test(newer_writers_have_one_file),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
