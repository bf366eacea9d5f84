/* Requests: sampling settings and their messages, prompts and their three positions, limits. */
#include "request/request.h"

#include <math.h>
#include <stdlib.h>

#include "request/prompt_positions.h"
#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

static struct omma_model *model; /* config_only, 200 tokens of context */

static int open_model(void **state) {
  (void)state;
  const struct omma_model_options options = {.config_only = true, .n_threads = 1, .max_model_len = 200};
  model = fixture_model("qwen3_vl_tied", &options);
  return 0;
}

static int close_model(void **state) {
  (void)state;
  omma_model_close(model);
  return 0;
}

static enum omma_status create(const struct omma_sampling *sampling, struct omma_request **request, struct omma_error *error) {
  const struct omma_part part = {.text = "hello", .text_size = 5};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1};
  const struct omma_request_options options = {.sampling = *sampling};
  return omma_request_create(model, &message, 1, &options, request, error);
}

/* ---- sampling ---- */

static void expect_refused(struct omma_sampling sampling, const char *field, const char *part) {
  struct omma_error error;
  struct omma_request *request = NULL;
  assert_fails(create(&sampling, &request, &error), OMMA_ERROR_ARGUMENT, part, &error);
  assert_string_equal(error.field, field);
  assert_null(request);
}

static void settings_out_of_range_are_named(void **state) {
  (void)state;
  expect_refused((struct omma_sampling){.temperature = -0.1}, "temperature", "temperature: expected 0 to 2, found -0.1");
  expect_refused((struct omma_sampling){.temperature = 2.5}, "temperature", "found 2.5");
  expect_refused((struct omma_sampling){.temperature = NAN}, "temperature", "temperature");
  expect_refused((struct omma_sampling){.temperature = INFINITY}, "temperature", "found inf");
  expect_refused((struct omma_sampling){.top_p = 1.01}, "top_p", "expected 0 to 1, found 1.01");
  expect_refused((struct omma_sampling){.top_p = -1}, "top_p", "found -1");
  expect_refused((struct omma_sampling){.top_p = NAN}, "top_p", "top_p");
  expect_refused((struct omma_sampling){.min_p = 1.5}, "min_p", "found 1.5");
  expect_refused((struct omma_sampling){.top_k = -2}, "top_k", "found -2");
  expect_refused((struct omma_sampling){.top_k = INT64_MAX}, "top_k", "top_k: expected -1 to 2147483647, found");
  expect_refused((struct omma_sampling){.repetition_penalty = -1}, "repetition_penalty", "found -1");
  expect_refused((struct omma_sampling){.presence_penalty = 2.1}, "presence_penalty", "expected -2 to 2, found 2.1");
  expect_refused((struct omma_sampling){.frequency_penalty = -3}, "frequency_penalty", "found -3");
  expect_refused((struct omma_sampling){.max_tokens = -1}, "max_tokens", "found -1");
  expect_refused((struct omma_sampling){.min_tokens = -1}, "min_tokens", "found -1");
  expect_refused((struct omma_sampling){.min_tokens = 5, .max_tokens = 4}, "min_tokens", "at most max_tokens = 4, found 5");
  expect_refused((struct omma_sampling){.logprobs = true, .n_top_logprobs = 21}, "top_logprobs", "expected 0 to 20, found 21");
  expect_refused((struct omma_sampling){.n_top_logprobs = -1}, "top_logprobs", "found -1");
}

static void stops_are_checked_one_by_one(void **state) {
  (void)state;
  static char long_stop[OMMAI_REQUEST_MAX_STOP_BYTES + 2];
  const char *stops[OMMA_MAX_STOP_STRINGS + 1];
  int32_t ids[OMMAI_REQUEST_MAX_STOP_TOKENS + 1] = {0};
  memset(long_stop, 'x', sizeof long_stop - 1);
  for (size_t i = 0; i < OMMA_MAX_STOP_STRINGS + 1; i++) stops[i] = "y";
  expect_refused((struct omma_sampling){.stop = stops, .n_stop = OMMA_MAX_STOP_STRINGS + 1}, "stop",
                 "expected 0 to 16, found 17");
  stops[3] = "";
  expect_refused((struct omma_sampling){.stop = stops, .n_stop = 16}, "stop", "stop[3]: expected 1 to 1024 bytes, found 0");
  stops[3] = long_stop;
  expect_refused((struct omma_sampling){.stop = stops, .n_stop = 16}, "stop", "stop[3]: expected 1 to 1024 bytes, found 1025");
  stops[3] = "a\xff";
  expect_refused((struct omma_sampling){.stop = stops, .n_stop = 16}, "stop", "stop[3]: invalid UTF-8 at byte 1");
  expect_refused((struct omma_sampling){.n_stop = 1}, "stop", "a count without its list");
  expect_refused((struct omma_sampling){.stop_token_ids = ids, .n_stop_token_ids = OMMAI_REQUEST_MAX_STOP_TOKENS + 1},
                 "stop_token_ids", "found 129");
  ids[7] = 544;
  expect_refused((struct omma_sampling){.stop_token_ids = ids, .n_stop_token_ids = 8}, "stop_token_ids",
                 "stop_token_ids[7]: no token 544");
  ids[7] = -1;
  expect_refused((struct omma_sampling){.stop_token_ids = ids, .n_stop_token_ids = 8}, "stop_token_ids", "no token -1");
}

static void zero_means_the_default(void **state) {
  (void)state;
  struct omma_error error;
  struct omma_request *request;
  const struct omma_sampling none = {.top_k = -1, .n_top_logprobs = 5};
  assert_ok(create(&none, &request, &error), &error);
  assert_true(request->sampler.top_p == 1 && request->sampler.repetition_penalty == 1);
  assert_int_equal(request->sampler.top_k, 0);
  assert_int_equal(request->n_top_logprobs, 0); /* only with logprobs */
  omma_request_destroy(request);
  const char *const stops[] = {"a", "bc"};
  const int32_t ids[] = {0, 543};
  const struct omma_sampling edge = {.temperature = 2,
                                     .top_p = 1,
                                     .min_p = 1,
                                     .top_k = INT32_MAX,
                                     .repetition_penalty = 100,
                                     .presence_penalty = -2,
                                     .frequency_penalty = 2,
                                     .max_tokens = INT32_MAX,
                                     .min_tokens = INT32_MAX,
                                     .stop = stops,
                                     .n_stop = 2,
                                     .stop_token_ids = ids,
                                     .n_stop_token_ids = 2,
                                     .logprobs = true,
                                     .n_top_logprobs = 20};
  assert_ok(create(&edge, &request, &error), &error);
  assert_string_equal(request->stop[1], "bc");
  assert_int_equal(request->stop_tokens[1], 543);
  assert_int_equal(request->n_top_logprobs, 20);
  omma_request_destroy(request);
}

/* ---- positions ---- */

static void positions_follow_the_formula(void **state) {
  (void)state;
  int32_t counter = 0, position[3];
  for (int32_t i = 0; i < 4; i++) {
    ommai_position_text(&counter, position);
    for (int axis = 0; axis < 3; axis++) assert_int_equal(position[axis], i);
  }
  ommai_position_image(counter, 0, 2, 5, position);
  assert_int_equal(position[0], 4);
  assert_int_equal(position[1], 6);
  assert_int_equal(position[2], 9);
  ommai_position_after_image(&counter, 3, 7);
  assert_int_equal(counter, 11);
  ommai_position_after_image(&counter, 9, 1);
  assert_int_equal(counter, 20);
  ommai_position_text(&counter, position);
  assert_int_equal(position[2], 20);
}

static void prompts_are_laid_out_by_the_sizes(void **state) {
  (void)state;
  struct omma_image *image = fixture_image("tower_33x200.png");
  const struct omma_image *const images[] = {image, image};
  struct omma_request *request = fixture_request(model, images, 2, "Compare.", NULL);
  struct omma_image_sizes sizes;
  struct omma_error error;
  assert_ok(omma_model_image_sizes(model, 33, 200, NULL, &sizes, &error), &error);
  int64_t rows = sizes.grid_thw[1] / 2, columns = sizes.grid_thw[2] / 2, n_images_tokens[2] = {0};
  int32_t counter = 0;
  size_t n;
  const int32_t *ids = omma_request_prompt(request, &n);
  assert_int_equal(n, request->n_tokens);
  for (size_t i = 0; i < n; i++) {
    const struct ommai_prompt_token *token = &request->tokens[i];
    assert_int_equal(ids[i], token->token);
    if (token->image < 0) {
      for (int axis = 0; axis < 3; axis++) assert_int_equal(token->position[axis], counter);
      counter++;
      continue;
    }
    int64_t row = token->image_row / columns, column = token->image_row % columns;
    assert_int_equal(token->token, 526);
    assert_int_equal(token->image_row, n_images_tokens[token->image]++);
    assert_int_equal(token->position[0], counter);
    assert_int_equal(token->position[1], counter + row);
    assert_int_equal(token->position[2], counter + column);
    if (token->image_row == sizes.n_tokens - 1) counter += (int32_t)(rows > columns ? rows : columns);
  }
  assert_int_equal(n_images_tokens[0], sizes.n_tokens);
  assert_int_equal(n_images_tokens[1], sizes.n_tokens);
  assert_int_equal(request->next_position, counter);
  omma_request_destroy(request);
  omma_image_destroy(image);
}

/* A marker typed into a message is a token like any other, but never an image. */
static void typed_markers_hold_no_image(void **state) {
  (void)state;
  struct omma_request *request = fixture_request(model, NULL, 0, "<|vision_start|><|image_pad|><|vision_end|>", NULL);
  assert_int_equal(request->n_images, 0);
  for (size_t i = 0; i < request->n_tokens; i++) assert_int_equal(request->tokens[i].image, -1);
  omma_request_destroy(request);
}

/* ---- limits and messages ---- */

static enum omma_status ask(const struct omma_message *messages, size_t n, struct omma_request **request,
                            struct omma_error *error) {
  return omma_request_create(model, messages, n, NULL, request, error);
}

static void wrong_messages_are_named(void **state) {
  (void)state;
  struct omma_error error;
  struct omma_request *request = NULL;
  const struct omma_part text = {.text = "x", .text_size = 1}, none = {.text_size = 3},
                         broken = {.text = "ab\xff", .text_size = 3}, unsized = {.text = "hello"}, empty = {.text = ""};
  const struct omma_message fine = {.role = OMMA_ROLE_USER, .parts = &text, .n_parts = 1},
                            strange = {.role = (enum omma_role)7, .parts = &text, .n_parts = 1},
                            hollow = {.role = OMMA_ROLE_USER, .parts = &none, .n_parts = 1},
                            bytes = {.role = OMMA_ROLE_USER, .parts = &broken, .n_parts = 1},
                            forgotten = {.role = OMMA_ROLE_USER, .parts = &unsized, .n_parts = 1},
                            nothing = {.role = OMMA_ROLE_USER, .parts = &empty, .n_parts = 1};
  const struct omma_message second[] = {fine, strange};
  assert_fails(ask(NULL, 0, &request, &error), OMMA_ERROR_ARGUMENT, "at least one", &error);
  assert_fails(ask(second, 2, &request, &error), OMMA_ERROR_ARGUMENT, "messages[1]: unknown role 7", &error);
  assert_fails(ask(&hollow, 1, &request, &error), OMMA_ERROR_ARGUMENT, "messages[0]: part 0", &error);
  assert_fails(ask(&bytes, 1, &request, &error), OMMA_ERROR_FORMAT, "messages[0]: part 0: invalid UTF-8 at byte 2", &error);
  assert_fails(ask(&forgotten, 1, &request, &error), OMMA_ERROR_ARGUMENT, "messages[0]: part 0: a text without text_size",
               &error);
  assert_null(request);
  assert_ok(ask(&nothing, 1, &request, &error), &error);
  omma_request_destroy(request);
}

/* An option struct of a program with newer headers, and one with older headers. */
static void options_carry_their_size(void **state) {
  (void)state;
  struct omma_error error;
  struct omma_request *request = NULL;
  const struct omma_part part = {.text = "hello", .text_size = 5};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1};
  struct {
    struct omma_request_options known;
    int64_t later;
  } newer = {.known = {.struct_size = sizeof newer}};
  assert_ok(omma_request_create(model, &message, 1, &newer.known, &request, &error), &error);
  omma_request_destroy(request);
  newer.later = 1;
  assert_fails(omma_request_create(model, &message, 1, &newer.known, &request, &error), OMMA_ERROR_ARGUMENT,
               "struct omma_request_options: a member after byte", &error);
  const struct omma_request_options reserved = {.reserved = {[3] = 1}};
  assert_fails(omma_request_create(model, &message, 1, &reserved, &request, &error), OMMA_ERROR_ARGUMENT, "reserved", &error);
  struct omma_sampling hot = {.struct_size = offsetof(struct omma_sampling, temperature), .temperature = 9};
  assert_ok(omma_request_create(model, &message, 1, NULL, &request, &error), &error);
  struct omma_request *copy;
  assert_ok(omma_request_copy(request, &hot, &copy, &error), &error);
  omma_request_destroy(copy);
  omma_request_destroy(request);
}

/* The longest prompt that leaves one token of context is taken, the next longer one refused. */
static void prompts_leave_room_for_an_answer(void **state) {
  (void)state;
  struct omma_error error;
  struct omma_request *request = NULL;
  char text[600];
  size_t n = 0, longest = 0;
  for (size_t size = 1; size < 300; size++) {
    memset(text, '~', size);
    for (size_t i = 1; i < size; i += 2) text[i] = '@'; /* no merges: about a token each */
    const struct omma_part part = {.text = text, .text_size = size};
    const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1};
    enum omma_status status = ask(&message, 1, &request, &error);
    if (status == OMMA_OK) {
      omma_request_prompt(request, &n);
      assert_true(n < 200);
      longest = n;
      omma_request_destroy(request);
    } else {
      assert_int_equal(status, OMMA_ERROR_LIMIT);
      assert_string_equal(error.field, "input_tokens");
      assert_non_null(strstr(error.message, "maximum context length is 200 tokens"));
    }
  }
  assert_int_equal(longest, 199);
}

static void images_over_the_context_are_refused(void **state) {
  (void)state;
  struct omma_error error;
  struct omma_request *request = NULL;
  uint8_t *rgb = calloc(3, 400 * 400);
  struct omma_image *image;
  assert_ok(omma_image_from_rgb(400, 400, rgb, &image, &error), &error);
  struct omma_part parts[6];
  for (int i = 0; i < 6; i++) parts[i] = (struct omma_part){.image = image};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = 6};
  assert_fails(ask(&message, 1, &request, &error), OMMA_ERROR_LIMIT, "at least 216 input tokens", &error);
  parts[2].image_options.min_pixels = 500;
  parts[2].image_options.max_pixels = 400;
  assert_fails(ask(&message, 1, &request, &error), OMMA_ERROR_ARGUMENT, "image 3: min_pixels", &error);
  omma_image_destroy(image);
  free(rgb);
  assert_null(request);
}

static void resized_pixels_of_a_request_are_bounded(void **state) {
  (void)state;
  struct omma_error error;
  struct omma_request *request = NULL;
  struct omma_image *image = fixture_image("meadow_163x97.jpg");
  struct omma_part parts[4];
  for (int i = 0; i < 4; i++) parts[i] = (struct omma_part){.image = image, .image_options.min_pixels = 178000000};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = 4};
  assert_fails(ask(&message, 1, &request, &error), OMMA_ERROR_LIMIT, "at most 536870912 pixels together after the resize",
               &error);
  assert_string_equal(error.field, "image");
  omma_image_destroy(image);
  assert_null(request);
}

/* Room for one image and a half. */
static void resized_images_of_all_requests_are_bounded(void **state) {
  (void)state;
  struct omma_error error;
  struct omma_image_sizes sizes;
  struct omma_request *first, *second = NULL, *copy;
  struct omma_image *image = fixture_image("meadow_163x97.jpg");
  assert_ok(omma_model_image_sizes(model, 163, 97, NULL, &sizes, &error), &error);
  struct omma_model_options options = {.config_only = true, .n_threads = 1, .max_model_len = 200};
  options.max_resized_bytes = (int64_t)sizes.resized_width * sizes.resized_height * 3 * 3 / 2;
  struct omma_model *tight = fixture_model("qwen3_vl_tied", &options);
  const struct omma_part part = {.image = image};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1};
  assert_ok(omma_request_create(tight, &message, 1, NULL, &first, &error), &error);
  assert_fails(omma_request_create(tight, &message, 1, NULL, &second, &error), OMMA_ERROR_MEMORY, "resized images", &error);
  assert_null(second);
  assert_ok(omma_request_copy(first, NULL, &copy, &error), &error); /* takes nothing */
  omma_request_destroy(first);
  assert_fails(omma_request_create(tight, &message, 1, NULL, &second, &error), OMMA_ERROR_MEMORY, "resized images", &error);
  omma_request_destroy(copy);
  assert_ok(omma_request_create(tight, &message, 1, NULL, &second, &error), &error);
  omma_request_destroy(second);
  omma_model_close(tight);
  omma_image_destroy(image);
}

/* As many as the request then has; nothing could be resized here, and weights are not needed. */
static void tokens_are_counted_from_sizes(void **state) {
  (void)state;
  const struct omma_model_options bare = {.n_threads = 1, .max_model_len = 1024, .config_only = true, .max_resized_bytes = 1};
  struct omma_model *counting = fixture_model("qwen3_vl_tied", &bare), *whole = fixture_model("qwen3_vl_tied", NULL);
  struct omma_image *image = fixture_image("meadow_163x97.jpg");
  const struct omma_part parts[] = {{.image = image}, {.text = "What is this?", .text_size = 13}, {.image = image}};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = 3};
  struct omma_request *request;
  struct omma_error error;
  int64_t counted = 0;
  size_t n_tokens;
  assert_ok(omma_count_prompt_tokens(counting, &message, 1, NULL, &counted, &error), &error);
  assert_ok(omma_request_create(whole, &message, 1, NULL, &request, &error), &error);
  omma_request_prompt(request, &n_tokens);
  assert_int_equal(counted, n_tokens);
  omma_request_destroy(request);
  const struct omma_part large = {.image = image, .image_options.min_pixels = 2000000};
  const struct omma_message too_long = {.role = OMMA_ROLE_USER, .parts = &large, .n_parts = 1};
  counted = -1;
  assert_fails(omma_count_prompt_tokens(counting, &too_long, 1, NULL, &counted, &error), OMMA_ERROR_LIMIT,
               "maximum context length is 1024 tokens", &error);
  assert_int_equal(counted, -1);
  omma_image_destroy(image);
  omma_model_close(counting);
  omma_model_close(whole);
}

/* Nothing could be resized here: what is refused was not. */
static void an_engine_refuses_before_images_are_resized(void **state) {
  (void)state;
  struct omma_error error;
  struct omma_request *request = NULL;
  struct omma_model_options options = {.n_threads = 1, .max_model_len = 1024, .max_resized_bytes = 1};
  struct omma_model *tight = fixture_model("qwen3_vl_tied", &options);
  struct omma_engine *engine =
      fixture_engine(tight, &(struct omma_engine_options){.kv_cache_bytes = fixture_kv_bytes(tight, 1)});
  struct omma_image *image = fixture_image("meadow_163x97.jpg");
  const struct omma_part part = {.image = image, .image_options.min_pixels = 500000};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1};
  struct omma_request_options with = {.max_model_len = omma_engine_max_model_len(engine)};
  assert_fails(omma_request_create(tight, &message, 1, &with, &request, &error), OMMA_ERROR_LIMIT,
               "as many as the memory for keys and values holds", &error);
  assert_string_equal(error.field, "input_tokens");
  assert_fails(omma_request_create(tight, &message, 1, NULL, &request, &error), OMMA_ERROR_MEMORY, "resized images", &error);
  static const int32_t ids[1000] = {0};
  assert_fails(omma_request_create_tokens(tight, ids, 1000, &with, &request, &error), OMMA_ERROR_LIMIT, "as many as the memory",
               &error);
  assert_null(request);
  omma_image_destroy(image);
  omma_engine_destroy(engine);
  omma_model_close(tight);
}

static void copies_share_images(void **state) {
  (void)state;
  struct omma_error error;
  struct omma_request *copy = NULL;
  struct omma_image *image = fixture_image("meadow_163x97.jpg");
  struct omma_request *request = fixture_request(model, (const struct omma_image *const[]){image}, 1, "hello", NULL);
  size_t n_source, n_copy, size = request->n_tokens;
  const struct omma_sampling other = {.temperature = 0.5, .seed = 3, .max_tokens = 7};
  assert_ok(omma_request_copy(request, &other, &copy, &error), &error);
  assert_memory_equal(omma_request_prompt(request, &n_source), omma_request_prompt(copy, &n_copy), size * sizeof(int32_t));
  assert_memory_equal(request->tokens, copy->tokens, size * sizeof *copy->tokens);
  assert_int_equal(n_source, n_copy);
  assert_int_equal(request->next_position, copy->next_position);
  assert_ptr_equal(request->images[0].pixels, copy->images[0].pixels);
  assert_memory_equal(&request->keys[0], &copy->keys[0], sizeof copy->keys[0]);
  assert_true(copy->sampler.temperature == 0.5 && copy->max_tokens == 7 && request->max_tokens == 0);
  uint8_t before = copy->images[0].pixels[0];
  omma_request_destroy(request);
  assert_int_equal(copy->images[0].pixels[0], before);
  struct omma_request *wrong = NULL;
  assert_fails(omma_request_copy(copy, &(struct omma_sampling){.temperature = 3}, &wrong, &error), OMMA_ERROR_ARGUMENT,
               "temperature", &error);
  assert_null(wrong);
  omma_request_destroy(copy);
  omma_image_destroy(image);
}

static void image_sizes_refuse_what_cannot_be(void **state) {
  (void)state;
  struct omma_error error;
  struct omma_image_sizes sizes = {.n_tokens = -7};
  const int32_t refused[][2] = {{0, 5}, {5, 0}, {-1, 5}, {INT32_MIN, INT32_MIN}};
  for (size_t i = 0; i < 4; i++) {
    assert_fails(omma_model_image_sizes(model, refused[i][0], refused[i][1], NULL, &sizes, &error), OMMA_ERROR_ARGUMENT,
                 "image", &error);
  }
  assert_fails(omma_model_image_sizes(model, 20100, 100, NULL, &sizes, &error), OMMA_ERROR_LIMIT, "aspect ratio", &error);
  assert_string_equal(error.field, "image");
  assert_fails(omma_model_image_sizes(model, 100000, 1000, NULL, &sizes, &error), OMMA_ERROR_LIMIT, "too large", &error);
  static const struct {
    struct omma_image_options options;
    const char *field;
  } wrong[] = {
      {{.min_pixels = -1}, "min_pixels"},
      {{.min_pixels = INT64_MAX}, "min_pixels"},
      {{.max_pixels = -1}, "max_pixels"},
      {{.max_pixels = INT64_MAX}, "max_pixels"},
      {{.min_pixels = 9000, .max_pixels = INT64_MAX}, "max_pixels"},
      {{.min_pixels = 9000, .max_pixels = 8000}, "min_pixels"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_fails(omma_model_image_sizes(model, 64, 64, &wrong[i].options, &sizes, &error), OMMA_ERROR_ARGUMENT, wrong[i].field,
                 &error);
    assert_string_equal(error.field, wrong[i].field);
  }
  assert_int_equal(sizes.n_tokens, -7);
  float values[10];
  struct omma_image *image = fixture_image("tile_64x64.png");
  assert_fails(omma_preprocess(model, image, NULL, values, 10, &error), OMMA_ERROR_ARGUMENT, "expected room for", &error);
  omma_image_destroy(image);
}

/* ---- prompts of ids ---- */

static enum omma_status create_of_ids(const int32_t *ids, size_t n, struct omma_request **request, struct omma_error *error) {
  const struct omma_request_options options = {.sampling = {.max_tokens = 5}, .continue_final_message = true};
  return omma_request_create_tokens(model, ids, n, &options, request, error);
}

static void ids_are_taken_as_they_are(void **state) {
  (void)state;
  const int32_t ids[] = {7, 7, 0, model->config.image_token, 3};
  struct omma_request *request;
  struct omma_error error;
  size_t n;
  assert_ok(create_of_ids(ids, 5, &request, &error), &error);
  assert_memory_equal(omma_request_prompt(request, &n), ids, sizeof ids);
  assert_int_equal(n, 5);
  assert_int_equal(request->n_images, 0);
  assert_int_equal(request->max_tokens, 5);
  for (int32_t i = 0; i < 5; i++) {
    assert_int_equal(request->tokens[i].image, -1);
    for (int axis = 0; axis < 3; axis++) assert_int_equal(request->tokens[i].position[axis], i);
  }
  assert_int_equal(request->next_position, 5);
  omma_request_destroy(request);
}

static void wrong_ids_are_named(void **state) {
  (void)state;
  int32_t ids[200] = {0};
  struct omma_request *request = NULL;
  struct omma_error error;
  assert_fails(create_of_ids(ids, 0, &request, &error), OMMA_ERROR_ARGUMENT, "at least one token", &error);
  assert_fails(create_of_ids(ids, 200, &request, &error), OMMA_ERROR_LIMIT, "200", &error);
  assert_string_equal(error.field, "input_tokens");
  ids[3] = (int32_t)model->config.text.vocab_size;
  assert_fails(create_of_ids(ids, 5, &request, &error), OMMA_ERROR_ARGUMENT, "prompt: token 3", &error);
  assert_string_equal(error.field, "prompt");
  ids[3] = -1;
  assert_fails(create_of_ids(ids, 5, &request, &error), OMMA_ERROR_ARGUMENT, "found -1", &error);
  assert_null(request);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(settings_out_of_range_are_named),
      cmocka_unit_test(stops_are_checked_one_by_one),
      cmocka_unit_test(zero_means_the_default),
      cmocka_unit_test(positions_follow_the_formula),
      cmocka_unit_test(prompts_are_laid_out_by_the_sizes),
      cmocka_unit_test(typed_markers_hold_no_image),
      cmocka_unit_test(wrong_messages_are_named),
      cmocka_unit_test(options_carry_their_size),
      cmocka_unit_test(ids_are_taken_as_they_are),
      cmocka_unit_test(wrong_ids_are_named),
      cmocka_unit_test(prompts_leave_room_for_an_answer),
      cmocka_unit_test(images_over_the_context_are_refused),
      cmocka_unit_test(resized_pixels_of_a_request_are_bounded),
      cmocka_unit_test(resized_images_of_all_requests_are_bounded),
      cmocka_unit_test(tokens_are_counted_from_sizes),
      cmocka_unit_test(an_engine_refuses_before_images_are_resized),
      cmocka_unit_test(copies_share_images),
      cmocka_unit_test(image_sizes_refuse_what_cannot_be),
  };
  return cmocka_run_group_tests(tests, open_model, close_model);
}
