/* Pages that mineru-vl-utils has read with scripted answers: the same requests, pixel for pixel,
 * the same blocks and the same Markdown. tools/make_reading_fixtures.py records them; a file
 * given as argument takes the place of tests/data/reading/pages.json. */
#include <sodium.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "reading/document_page.h"
#include "reading/document_writer.h"
#include "reading/otsl.h"
#include "support/test.h"

static const char *recorded = OMMA_TEST_DATA "/data/reading/pages.json";

static struct ommai_image page_of(int64_t seed) {
  struct ommai_image page = {.width = (int32_t)(200 + seed * 37 % 300), .height = (int32_t)(180 + seed * 53 % 400)};
  page.pixels = malloc((size_t)page.width * (size_t)page.height * 3);
  for (int64_t y = 0, i = 0; y < page.height; y++) {
    for (int64_t x = 0; x < page.width; x++) {
      for (int64_t c = 0; c < 3; c++)
        page.pixels[i++] = (uint8_t)((x * x * (seed % 7 + 1) + y * (x + 40 * c) + 31 * seed) >> 3);
    }
  }
  return page;
}

static uint32_t crc32_of(const uint8_t *bytes, size_t size) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < size; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc;
}

static double number_of(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

static const char *text_of(const json_t *object, const char *key) { return json_string_value(json_object_get(object, key)); }

/* The image of a body's data: URL. */
static struct ommai_image *image_of(const json_t *content) {
  const char *url = text_of(json_object_get(json_array_get(content, 0), "image_url"), "url");
  size_t size, room = strlen(url);
  uint8_t *bytes = malloc(room);
  struct ommai_image *image;
  struct omma_error error;
  assert_memory_equal(url, "data:image/png;base64,", 22);
  assert_int_equal(sodium_base642bin(bytes, room, url + 22, room - 22, NULL, &size, NULL, sodium_base64_VARIANT_ORIGINAL), 0);
  assert_int_equal(ommai_image_decode(bytes, size, NULL, &ommai_default_allocator, &image, &error), OMMA_OK);
  free(bytes);
  return image;
}

static void check_request(int64_t seed, const json_t *body, const json_t *expected) {
  const json_t *messages = json_object_get(body, "messages"),
               *content = json_object_get(json_array_get(messages, 1), "content");
  static const char *const numbers[] = {"presence_penalty", "frequency_penalty", "no_repeat_ngram_size"};
  assert_non_null(expected);
  assert_string_equal(text_of(json_array_get(messages, 0), "content"), "You are a helpful assistant.");
  assert_string_equal(text_of(json_array_get(content, 1), "text"), text_of(expected, "prompt"));
  for (size_t i = 0; i < 3; i++) assert_true(number_of(body, numbers[i]) == number_of(expected, numbers[i]));
  assert_true(number_of(body, "temperature") == 0);
  struct ommai_image *image = image_of(content);
  assert_int_equal(image->width, number_of(expected, "width"));
  assert_int_equal(image->height, number_of(expected, "height"));
  uint32_t crc = crc32_of(image->pixels, (size_t)image->width * (size_t)image->height * 3);
  if (crc != (uint32_t)number_of(expected, "crc")) {
    fail_msg("page %d: other pixels for %s (%d x %d)", (int)seed, text_of(expected, "prompt"), image->width, image->height);
  }
  ommai_image_destroy(image);
}

/* Blocks as the package has them: without what is kept for DocTags. */
static void check_blocks(int64_t seed, const json_t *blocks, const json_t *expected) {
  size_t i;
  json_t *block;
  json_array_foreach(blocks, i, block) {
    json_t *plain = json_copy(block);
    json_object_del(plain, "otsl");
    if (!json_equal(plain, json_array_get(expected, i))) {
      fail_msg("page %d, block %zu:\n%s\nexpected:\n%s", (int)seed, i, json_dumps(plain, 0),
               json_dumps(json_array_get(expected, i), 0));
    }
    json_decref(plain);
  }
  assert_int_equal(json_array_size(blocks), json_array_size(expected));
}

static void check_markdown(const json_t *blocks, const char *expected) {
  char *text;
  size_t size, i;
  struct ommai_document_writer writer = {.out = open_memstream(&text, &size), .form = OMMAI_FORM_TEXT};
  json_t *page = json_pack("{s:O}", "blocks", blocks), *block;
  ommai_document_page(&writer, page);
  fclose(writer.out);
  assert_string_equal(text, expected);
  free(text);
  json_array_foreach(blocks, i, block) assert_non_null(ommai_block_kind_find(text_of(block, "type")));
  json_decref(page);
}

static void check_page(const json_t *record) {
  int64_t seed = (int64_t)number_of(record, "seed");
  const json_t *requests = json_object_get(record, "requests"), *first = json_array_get(requests, 0);
  const struct ommai_reading_recipe *recipe = ommai_reading_recipe_of_model("models/MinerU2.5-1.2B");
  struct ommai_image page = page_of(seed);
  struct omma_error error;
  json_t *body, *block;
  size_t i, n = 1;
  assert_int_equal(ommai_page_layout_request(recipe, &page, &body, &error), OMMA_OK);
  check_request(seed, body, first);
  json_decref(body);
  json_t *blocks = ommai_layout_read(text_of(first, "answer"));
  ommai_layout_drop_inner_captions(blocks);
  json_array_foreach(blocks, i, block) {
    assert_int_equal(ommai_page_element_request(recipe, NULL, &page, block, &body, &error), OMMA_OK);
    if (!body) continue;
    check_request(seed, body, json_array_get(requests, n));
    json_object_set(block, "content", json_object_get(json_array_get(requests, n++), "answer"));
    json_decref(body);
  }
  assert_int_equal(n, json_array_size(requests));
  assert_true(ommai_page_finish(blocks, false));
  check_blocks(seed, blocks, json_object_get(record, "blocks"));
  check_markdown(blocks, text_of(record, "markdown"));
  json_decref(blocks);
  free(page.pixels);
}

static void pages_are_read_as_the_package_reads_them(void **state) {
  (void)state;
  json_error_t reason;
  json_t *pages = json_load_file(recorded, 0, &reason), *page;
  size_t i;
  if (!pages) fail_msg("%s: %s", recorded, reason.text);
  assert_true(json_array_size(pages) > 0);
  json_array_foreach(pages, i, page) check_page(page);
  json_decref(pages);
}

/* Models that read a page as a whole: by their names, the page and their prompt, or the page
 * alone. */
static void a_whole_page_is_asked_about_by_the_models_prompt(void **state) {
  (void)state;
  static const struct {
    const char *model, *recipe, *prompt;
  } cases[] = {{"m/PaddleOCR-VL-1.5", "paddleocr-vl", "OCR:"},
               {"zai-org/GLM-OCR", "glm-ocr", "Text Recognition:"},
               {"LightOnOCR-2-1B/", "lightonocr", NULL},
               {"/mineru/DotsOCR", "dots.ocr", "Extract the text content from this image."},
               {"/m/dots.ocr", "dots.ocr", "Extract the text content from this image."}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct ommai_reading_recipe *recipe = ommai_reading_recipe_of_model(cases[i].model);
    assert_non_null(recipe);
    assert_string_equal(recipe->name, cases[i].recipe);
    assert_null(recipe->layout_prompt);
    struct ommai_image page = page_of(1);
    struct omma_error error;
    json_t *body, *blocks = ommai_page_whole();
    assert_int_equal(ommai_page_element_request(recipe, NULL, &page, json_array_get(blocks, 0), &body, &error), OMMA_OK);
    const json_t *messages = json_object_get(body, "messages");
    const json_t *content = json_object_get(json_array_get(messages, 0), "content");
    assert_int_equal(json_array_size(messages), 1);
    assert_int_equal(json_array_size(content), cases[i].prompt ? 2 : 1);
    assert_string_equal(text_of(json_array_get(content, 0), "type"), "image_url");
    if (cases[i].prompt) assert_string_equal(text_of(json_array_get(content, 1), "text"), cases[i].prompt);
    json_decref(body);
    json_decref(blocks);
    free(page.pixels);
  }
  assert_null(ommai_reading_recipe_of_model("m/Qwen3-VL-2B"));
  assert_string_equal(ommai_reading_recipe_of_model("MinerU2.5-Pro/snapshots/1/")->name, "mineru2.5");
}

/* A text with bytes changed, taken out or marks put in; by malloc. */
static char *damaged(struct test_random *random, const char *text) {
  static const char *const marks[] = {"<fcel>",      "<lcel>", "<ucel>", "<xcel>",       "<nl>",       "<|box_start|>",
                                      "<|box_end|>", "\\(",    "\\)",    "\\[",          "\\]",        "___",
                                      "\\tag {",     "}",      "{",      "\xe3\x80\x80", "[Non-Text]", "\\big{(}"};
  size_t size = strlen(text);
  char *out = malloc(size + 16);
  size_t at = (size_t)test_random_range(random, 0, (int64_t)size), skipped = (size_t)test_random_range(random, 0, 8);
  const char *mark = marks[test_random_range(random, 0, sizeof marks / sizeof *marks - 1)];
  if (skipped > size - at) skipped = size - at;
  sprintf(out, "%.*s%s%s", (int)at, text, mark, text + at + skipped);
  return out;
}

static void write_all_forms(json_t *blocks) {
  json_t *page = json_pack("{s:O}", "blocks", blocks);
  for (int form = 0; ommai_document_forms[form]; form++) {
    char *text;
    size_t size;
    struct ommai_document_writer writer = {.out = open_memstream(&text, &size), .form = (enum ommai_document_form)form};
    ommai_document_begin(&writer, "a page");
    ommai_document_page(&writer, page);
    ommai_document_end(&writer);
    fclose(writer.out);
    assert_true(size > 0);
    free(text);
  }
  json_decref(page);
}

static void damaged_answers_are_read_and_written(void **state) {
  (void)state;
  struct test_random random = {.state = 20261123};
  json_t *pages = json_load_file(recorded, 0, NULL), *page, *block;
  size_t i, j;
  json_array_foreach(pages, i, page) {
    const json_t *requests = json_object_get(page, "requests");
    char *layout = damaged(&random, text_of(json_array_get(requests, 0), "answer"));
    json_t *blocks = ommai_layout_read(layout);
    free(layout);
    ommai_layout_drop_inner_captions(blocks);
    json_array_foreach(blocks, j, block) {
      size_t any = (size_t)test_random_range(&random, 0, (int64_t)json_array_size(requests) - 1);
      char *answer = damaged(&random, text_of(json_array_get(requests, any), "answer"));
      json_t *content = json_string(answer);
      if (content) json_object_set_new(block, "content", content);
      free(answer);
    }
    assert_true(ommai_page_finish(blocks, false));
    write_all_forms(blocks);
    json_decref(blocks);
  }
  json_decref(pages);
}

static void tables_of_too_many_cells_are_none(void **state) {
  (void)state;
  enum { N = 1100 };
  char *text = calloc(N * N, 24), *at = text;
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < (i ? 1 : N); j++) at = stpcpy(at, "<fcel>");
    at = stpcpy(at, "<nl>");
  }
  assert_null(ommai_otsl_to_html(text));
  free(text);
}

static char *file_text(const char *path) {
  FILE *file = fopen(path, "r");
  char *text = NULL;
  size_t room = 0;
  assert_non_null(file);
  assert_true(getdelim(&text, &room, '\0', file) > 0);
  fclose(file);
  return text;
}

/* README.md shows the Markdown of an answer in tests/data/reading/example.json. */
static void the_example_of_the_readme(void **state) {
  (void)state;
  json_t *example = json_load_file(OMMA_TEST_DATA "/data/reading/example.json", 0, NULL), *block;
  json_t *blocks = ommai_layout_read(text_of(example, "layout"));
  char *readme = file_text(OMMA_TEST_DATA "/../README.md"), *text;
  size_t i, size;
  json_array_foreach(blocks, i, block) {
    json_object_set(block, "content", json_array_get(json_object_get(example, "answers"), i));
  }
  assert_true(ommai_page_finish(blocks, false));
  json_t *page = json_pack("{s:o}", "blocks", blocks);
  struct ommai_document_writer writer = {.out = open_memstream(&text, &size), .form = OMMAI_FORM_MARKDOWN};
  ommai_document_page(&writer, page);
  fclose(writer.out);
  if (!strstr(readme, text)) fail_msg("README.md does not have this text:\n%s", text);
  free(text);
  free(readme);
  json_decref(page);
  json_decref(example);
}

int main(int argc, char **argv) {
  if (argc > 1) recorded = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages_are_read_as_the_package_reads_them),
      cmocka_unit_test(a_whole_page_is_asked_about_by_the_models_prompt),
      cmocka_unit_test(damaged_answers_are_read_and_written),
      cmocka_unit_test(tables_of_too_many_cells_are_none),
      cmocka_unit_test(the_example_of_the_readme),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
