/* Boxes in answers: found, brought to pixels, drawn, and saved as an answer of a model would be. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/json_writer.h"
#include "cli/chat/box_draw.h"
#include "cli/chat/chat_boxes.h"
#include "cli/core/diagnostics.h"
#include "support/test.h"

/* 200 x 100 in thousandths, and 50 x 50 that was resized to 100 x 25. */
static const struct ommai_box_image measured[] = {{200, 100, 0.2, 0.1}, {50, 50, 0.5, 2}};

struct expected {
  const char *text;
  size_t count, n_refused;
  const char *first; /* the first box as JSON */
};

#define BOX(corners, label) "{\"bbox_2d\": " corners ", \"label\": \"" label "\"}"
#define JSON_OF(corners, label) "[{\"image\": 1, \"label\": \"" label "\", \"box\": " corners "}]"
#define CAT BOX("[100, 200, 500, 1000]", "cat")
#define CAT_JSON JSON_OF("[20, 20, 100, 100]", "cat")

static const struct expected good[] = {
    {CAT, 1, 0, CAT_JSON},
    {"[" CAT "]", 1, 0, CAT_JSON},
    {"[" CAT ", " BOX("[0, 0, 1, 1]", "dot") "]", 2, 0, NULL},
    {"```json\n[\n\t" CAT "\n]\n```", 1, 0, CAT_JSON},
    {"Here {it} is: " CAT " and " CAT ". [done}", 2, 0, NULL},
    {"{\"objects\": [" CAT ", {\"inner\": " CAT "}], \"bbox_2d\": [0, 0, 9, 9]}", 3, 0, NULL},
    {"{\"bbox_2d\": [100, 200, 500, 1000]}", 1, 0, JSON_OF("[20, 20, 100, 100]", "")},
    {"{\"bbox_2d\": [100, 200, 500, 1000], \"text_content\": \"EXIT\"}", 1, 0, JSON_OF("[20, 20, 100, 100]", "EXIT")},
    {BOX("[100.0, 2e2, 500.5, 1000]", "Gr\xc3\xbc\xc3\x9f"), 1, 0, JSON_OF("[20, 20, 100, 100]", "Gr\xc3\xbc\xc3\x9f")},
    {"[" CAT ", {\"bbox_2d\": [1, 2", 1, 0, CAT_JSON},
    {"[{\"bbox_2d\": [1, 2, 3}, " CAT "]", 1, 0, CAT_JSON},
    {BOX("[-50, -50, 2000, 1e300]", "all"), 1, 0, JSON_OF("[0, 0, 200, 100]", "all")},
    {BOX("[999.9, 999.9, 1000, 1000]", "corner"), 1, 0, JSON_OF("[199, 99, 200, 100]", "corner")},
    {BOX("[500, 500, 500.1, 500.1]", "thin"), 1, 0, JSON_OF("[100, 50, 101, 51]", "thin")},
    {"{\"bbox_2d\": [10, 10, 60, 20], \"label\": \"b\", \"image\": 2}", 1, 0,
     "[{\"image\": 2, \"label\": \"b\", \"box\": [5, 20, 30, 40]}]"},
    {"{\"bbox_2d\": [100, 200, 500, 1000], \"label\": \"cat\", \"image\": \"first\"}", 1, 0, CAT_JSON},
    {"{\"bbox_2d\": [100, 200, 500, 1000], \"label\": 7}", 1, 0, JSON_OF("[20, 20, 100, 100]", "")},
};

static const struct expected bad[] = {
    {"", 0, 0, NULL},
    {"There is no cat.", 0, 0, NULL},
    {"{", 0, 0, NULL},
    {"{{{{[[[[", 0, 0, NULL},
    {"\"bbox_2d\": [1, 2, 3, 4]", 0, 0, NULL},
    {BOX("[NaN, 0, 10, 10]", "x"), 0, 0, NULL},
    {BOX("[0, 0, Infinity, 10]", "x"), 0, 0, NULL},
    {BOX("[0, 0, 1e999, 10]", "x"), 0, 0, NULL},
    {BOX("[0, 0, 10, 10]", "\xff"), 0, 0, NULL},
    {BOX("[0, 0, 10]", "x"), 0, 1, NULL},
    {BOX("[0, 0, 10, 10, 10]", "x"), 0, 1, NULL},
    {BOX("[\"0\", 0, 10, 10]", "x"), 0, 1, NULL},
    {BOX("[null, 0, 10, 10]", "x"), 0, 1, NULL},
    {BOX("\"0, 0, 10, 10\"", "x"), 0, 1, NULL},
    {BOX("[20, 0, 10, 10]", "x"), 0, 1, NULL},
    {BOX("[10, 10, 10, 20]", "x"), 0, 1, NULL},
    {BOX("[1000, 0, 1200, 10]", "x"), 0, 1, NULL},
    {BOX("[0, -20, 10, 0]", "x"), 0, 1, NULL},
    {"{\"bbox_2d\": [0, 0, 10, 10], \"image\": 0}", 0, 1, NULL},
    {"{\"bbox_2d\": [0, 0, 10, 10], \"image\": 3}", 0, 1, NULL},
};

static json_t *boxes_json(const struct ommai_boxes *boxes) {
  struct ommai_text text = ommai_text_of(&ommai_default_allocator);
  ommai_put_boxes(&text, NULL, boxes);
  assert_false(text.failed);
  json_t *list = json_loadb(text.data, text.size, 0, NULL);
  ommai_text_free(&text);
  return list;
}

static void check(const struct expected *expected) {
  struct ommai_boxes boxes;
  assert_true(ommai_boxes_find(expected->text, strlen(expected->text), measured, 2, &boxes));
  if (boxes.count != expected->count || boxes.n_refused != expected->n_refused) {
    fail_msg("%s: %zu boxes and %zu refused, expected %zu and %zu", expected->text, boxes.count, boxes.n_refused,
             expected->count, expected->n_refused);
  }
  if (expected->first) {
    json_t *found = boxes_json(&boxes);
    char *text = json_dumps(found, 0);
    assert_string_equal(text, expected->first);
    free(text);
    json_decref(found);
  }
  ommai_boxes_release(&boxes);
}

static void boxes_are_found_in_any_surrounding(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) check(&good[i]);
}

static void what_is_no_box_is_left_out(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) check(&bad[i]);
}

static void no_cut_or_damage_does_harm(void **state) {
  (void)state;
  static const char text[] = "```json\n[" CAT ", " BOX("[0, 0, 9, 9]", "a\\u00e9\\n") "]\n``` {\"a\": {\"b\": [" CAT "]}}";
  struct test_random random = {5};
  for (size_t size = 0; size < sizeof text; size++) {
    char *copy = malloc(size + 1); /* so that reading past the end is seen */
    for (int round = 0; round < 20; round++) {
      struct ommai_boxes boxes;
      memcpy(copy, text, size);
      if (round && size) copy[test_random_range(&random, 0, (int64_t)size - 1)] = (char)test_random_u32(&random);
      assert_true(ommai_boxes_find(copy, size, measured, 2, &boxes));
      assert_true(boxes.count <= 3);
      for (size_t i = 0; i < boxes.count; i++) {
        const struct ommai_box *box = &boxes.items[i];
        assert_true(box->x1 >= 0 && box->x1 < box->x2 && box->x2 <= measured[box->image].width);
        assert_true(box->y1 >= 0 && box->y1 < box->y2 && box->y2 <= measured[box->image].height);
      }
      ommai_boxes_release(&boxes);
    }
    free(copy);
  }
}

static void boxes_and_depth_are_bounded(void **state) {
  (void)state;
  enum { N = OMMAI_MAX_BOXES + 50, DEPTH = 20000 };
  char *text = malloc(N * sizeof CAT), *at = text;
  for (int i = 0; i < N; i++) at = stpcpy(at, CAT);
  struct ommai_boxes boxes;
  assert_true(ommai_boxes_find(text, (size_t)(at - text), measured, 2, &boxes));
  assert_int_equal(boxes.count, OMMAI_MAX_BOXES);
  ommai_boxes_release(&boxes);
  free(text);
  text = malloc(5 * DEPTH + 1);
  at = text;
  for (int i = 0; i < DEPTH; i++) at = stpcpy(at, "{\"a\":");
  assert_true(ommai_boxes_find(text, (size_t)(at - text), measured, 2, &boxes));
  assert_int_equal(boxes.count, 0);
  ommai_boxes_release(&boxes);
  free(text);
}

/* ---- drawing ---- */

struct canvas {
  uint8_t *pixels;
  int32_t width, height;
};

static struct canvas gray(int32_t width, int32_t height) {
  struct canvas canvas = {malloc((size_t)width * (size_t)height * 3), width, height};
  memset(canvas.pixels, 77, (size_t)width * (size_t)height * 3);
  return canvas;
}

static bool drawn(const struct canvas *canvas, int32_t x, int32_t y) {
  const uint8_t *pixel = canvas->pixels + ((size_t)y * (size_t)canvas->width + (size_t)x) * 3;
  return pixel[0] != 77 || pixel[1] != 77 || pixel[2] != 77;
}

static void lines_lie_just_inside_the_box(void **state) {
  (void)state;
  static const struct { int32_t width, height, line; } sizes[] = {{90, 70, 2}, {1200, 1000, 3}, {2000, 3000, 4}};
  for (size_t i = 0; i < 3; i++) {
    struct canvas canvas = gray(sizes[i].width, sizes[i].height);
    struct ommai_box box = {.x1 = 20, .y1 = 10, .x2 = 81, .y2 = 50, .label = ""};
    ommai_box_draw(canvas.pixels, canvas.width, canvas.height, &box, i);
    int32_t line = sizes[i].line;
    for (int32_t y = 0; y < 70; y++) {
      for (int32_t x = 0; x < 90; x++) {
        bool in = x >= 20 && x < 81 && y >= 10 && y < 50;
        bool hole = x >= 20 + line && x < 81 - line && y >= 10 + line && y < 50 - line;
        if (drawn(&canvas, x, y) != (in && !hole)) fail_msg("a line of %d: pixel %d, %d", line, x, y);
      }
    }
    free(canvas.pixels);
  }
}

static void a_label_stands_above_its_box(void **state) {
  (void)state;
  struct canvas canvas = gray(64, 64);
  struct ommai_box box = {.x1 = 10, .y1 = 20, .x2 = 50, .y2 = 40, .label = "I"};
  ommai_box_draw(canvas.pixels, 64, 64, &box, 0);
  static const char *const rows[] = {".......", "..III..", "...I...", "...I...", "...I...",
                                     "...I...", "...I...", "..III..", "......."};
  for (int y = 0; y < 9; y++) {
    for (int x = 0; x < 7; x++) {
      const uint8_t *pixel = canvas.pixels + ((11 + y) * 64 + 10 + x) * 3;
      static const uint8_t paper[] = {230, 25, 75}, ink[] = {255, 255, 255};
      assert_memory_equal(pixel, rows[y][x] == 'I' ? ink : paper, 3);
    }
  }
  assert_false(drawn(&canvas, 17, 15));
  assert_false(drawn(&canvas, 10, 10));
  free(canvas.pixels);
}

/* Boxes at every edge of small images, with labels that have no room: nothing outside of the pixels
 * is written. */
static void drawing_stays_on_the_image(void **state) {
  (void)state;
  struct test_random random = {9};
  for (int round = 0; round < 2000; round++) {
    struct canvas canvas = gray((int32_t)test_random_range(&random, 1, 40), (int32_t)test_random_range(&random, 1, 40));
    struct ommai_box box = {.label = round % 2 ? "a long label \xe4\xb8\x96\xe7\x95\x8c ~\x01" : "W"};
    box.x1 = (int32_t)test_random_range(&random, 0, canvas.width - 1);
    box.x2 = (int32_t)test_random_range(&random, box.x1 + 1, canvas.width);
    box.y1 = (int32_t)test_random_range(&random, 0, canvas.height - 1);
    box.y2 = (int32_t)test_random_range(&random, box.y1 + 1, canvas.height);
    ommai_box_draw(canvas.pixels, canvas.width, canvas.height, &box, (size_t)round);
    assert_true(drawn(&canvas, box.x1, box.y2 - 1));
    free(canvas.pixels);
  }
}

/* ---- from a scripted answer to the file ---- */

static struct omma_model *open_model(const char *name) {
  struct omma_model *model;
  struct omma_error error;
  struct omma_model_options options = {.config_only = true, .n_threads = 1};
  char path[512];
  snprintf(path, sizeof path, "%s/golden/%s", OMMA_TEST_DATA, name);
  assert_ok(omma_model_open(path, &options, &model, &error), &error);
  return model;
}

static struct omma_image *blank(int32_t width, int32_t height) {
  struct canvas canvas = gray(width, height);
  struct omma_image *image;
  struct omma_error error;
  assert_ok(omma_image_from_rgb(width, height, canvas.pixels, &image, &error), &error);
  free(canvas.pixels);
  return image;
}

static void scripted_answer(const char *model_name, const char *answer, const struct ommai_box *expected) {
  char folder[] = "/tmp/omma_boxes_XXXXXX", path[64], second[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/out.png", folder);
  snprintf(second, sizeof second, "%s/out-2.png", folder);
  struct omma_model *model = open_model(model_name);
  struct omma_part images[] = {{.image = blank(300, 200)}, {.image = blank(70, 90)}};
  struct omma_image *written;
  struct omma_error error;
  struct ommai_boxes boxes;
  assert_int_equal(ommai_chat_boxes_check(model), OMMAI_EXIT_DONE);
  assert_int_equal(ommai_chat_boxes(model, images, 2, answer, strlen(answer), &boxes), OMMAI_EXIT_DONE);
  assert_int_equal(boxes.count, 2);
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(boxes.items[i].image, i);
    assert_int_equal(boxes.items[i].x1, expected[i].x1);
    assert_int_equal(boxes.items[i].y1, expected[i].y1);
    assert_int_equal(boxes.items[i].x2, expected[i].x2);
    assert_int_equal(boxes.items[i].y2, expected[i].y2);
  }
  assert_int_equal(ommai_chat_boxes_save(&boxes, images, 2, path), OMMAI_EXIT_DONE);
  for (int i = 0; i < 2; i++) {
    assert_ok(omma_image_load(i ? second : path, NULL, &written, &error), &error);
    assert_int_equal(omma_image_width(written), omma_image_width(images[i].image));
    struct canvas canvas = {(uint8_t *)omma_image_pixels(written), omma_image_width(written), omma_image_height(written)};
    assert_true(drawn(&canvas, expected[i].x1, expected[i].y2 - 1));
    assert_false(drawn(&canvas, expected[i].x2, expected[i].y2 - 1));
    omma_image_destroy(written);
  }
  ommai_boxes_release(&boxes);
  for (int i = 0; i < 2; i++) omma_image_destroy((struct omma_image *)images[i].image);
  omma_model_close(model);
  unlink(path);
  unlink(second);
  rmdir(folder);
}

static void thousandths_become_pixels(void **state) {
  (void)state;
  static const struct ommai_box expected[] = {{.x1 = 30, .y1 = 100, .x2 = 150, .y2 = 180},
                                              {.x1 = 7, .y1 = 9, .x2 = 35, .y2 = 45}};
  scripted_answer("qwen3_vl_tied",
                  "```json\n[{\"bbox_2d\": [100, 500, 500, 900], \"label\": \"a\"},\n{\"bbox_2d\": [100, 100, 500, 500], "
                  "\"label\": \"b\", \"image\": 2}]\n```",
                  expected);
}

/* The answer's pixels are those of the resized image: these are computed from
 * omma_model_image_sizes. */
static void resized_pixels_become_pixels(void **state) {
  (void)state;
  struct omma_model *model = open_model("qwen2_5_vl_tied");
  struct omma_image_sizes sizes[2];
  struct omma_error error;
  assert_ok(omma_model_image_sizes(model, 300, 200, NULL, &sizes[0], &error), &error);
  assert_ok(omma_model_image_sizes(model, 70, 90, NULL, &sizes[1], &error), &error);
  omma_model_close(model);
  char answer[300];
  snprintf(answer, sizeof answer, "{\"bbox_2d\": [0, %d, %d, %d]} {\"bbox_2d\": [0, 0, %g, %d], \"image\": 2}",
           sizes[0].resized_height / 2, sizes[0].resized_width / 2, sizes[0].resized_height, sizes[1].resized_width / 2.0,
           sizes[1].resized_height);
  struct ommai_box expected[] = {{.x1 = 0, .y2 = 200}, {.x1 = 0, .y1 = 0, .x2 = 35, .y2 = 90}};
  expected[0].y1 = (int32_t)lround(200.0 * (sizes[0].resized_height / 2) / sizes[0].resized_height);
  expected[0].x2 = (int32_t)lround(300.0 * (sizes[0].resized_width / 2) / sizes[0].resized_width);
  scripted_answer("qwen2_5_vl_tied", answer, expected);
}

/* An image that is stored lying (37x22, EXIF orientation 6): boxes are reported and drawn in pixels
 * of the upright one, 22x37. */
static void boxes_are_on_the_upright_image(void **state) {
  (void)state;
  static const char answer[] = "[{\"bbox_2d\": [500, 0, 1000, 1000]}]";
  char path[] = "/tmp/omma_boxes_XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  struct omma_model *model = open_model("qwen3_vl_tied");
  struct omma_image *image, *written;
  struct omma_error error;
  assert_ok(omma_image_load(OMMA_TEST_DATA "/data/image/exif_6.jpg", NULL, &image, &error), &error);
  struct omma_part part = {.image = image};
  struct ommai_boxes boxes;
  assert_int_equal(ommai_chat_boxes(model, &part, 1, answer, strlen(answer), &boxes), OMMAI_EXIT_DONE);
  json_t *actual = boxes_json(&boxes), *expected = json_pack("[i, i, i, i]", 11, 0, 22, 37);
  assert_true(json_equal(json_object_get(json_array_get(actual, 0), "box"), expected));
  assert_int_equal(ommai_chat_boxes_save(&boxes, &part, 1, path), OMMAI_EXIT_DONE);
  assert_ok(omma_image_load(path, NULL, &written, &error), &error);
  struct canvas canvas = {(uint8_t *)omma_image_pixels(written), omma_image_width(written), omma_image_height(written)};
  assert_int_equal(canvas.width, 22);
  assert_int_equal(canvas.height, 37);
  assert_memory_equal(canvas.pixels, omma_image_pixels(image), 10 * 3);
  assert_memory_not_equal(canvas.pixels + 11 * 3, omma_image_pixels(image) + 11 * 3, 11 * 3);
  json_decref(actual);
  json_decref(expected);
  ommai_boxes_release(&boxes);
  omma_image_destroy(written);
  omma_image_destroy(image);
  omma_model_close(model);
  unlink(path);
}

static void an_answer_without_boxes_writes_nothing(void **state) {
  (void)state;
  struct ommai_boxes none = {0};
  struct omma_part part = {.image = blank(4, 4)};
  assert_int_equal(ommai_chat_boxes_save(&none, &part, 1, "/tmp/omma_boxes_none.png"), OMMAI_EXIT_FAILED);
  assert_int_not_equal(access("/tmp/omma_boxes_none.png", F_OK), 0);
  omma_image_destroy((struct omma_image *)part.image);
}

static void a_family_without_boxes_is_refused(void **state) {
  (void)state;
  struct omma_model *model = open_model("kimi_vl");
  assert_int_equal(ommai_chat_boxes_check(model), OMMAI_EXIT_FAILED);
  omma_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(boxes_are_found_in_any_surrounding), cmocka_unit_test(what_is_no_box_is_left_out),
      cmocka_unit_test(no_cut_or_damage_does_harm),         cmocka_unit_test(boxes_and_depth_are_bounded),
      cmocka_unit_test(lines_lie_just_inside_the_box),      cmocka_unit_test(a_label_stands_above_its_box),
      cmocka_unit_test(drawing_stays_on_the_image),         cmocka_unit_test(thousandths_become_pixels),
      cmocka_unit_test(resized_pixels_become_pixels),       cmocka_unit_test(an_answer_without_boxes_writes_nothing),
      cmocka_unit_test(boxes_are_on_the_upright_image),     cmocka_unit_test(a_family_without_boxes_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
