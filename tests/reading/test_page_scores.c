/* Figures of pages against those of OmniDocBench's own code. tools/make_score_pages.py makes the
 * pages; a file given as argument takes the place of tests/data/scores/pages.json. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scores/latex_text.h"
#include "scores/page_scores.h"
#include "support/test.h"

static const char *pages_file = OMMA_TEST_DATA "/data/scores/pages.json";

static json_t *load_pages(void) {
  json_error_t error;
  json_t *pages = json_load_file(pages_file, 0, &error);
  if (!pages) fail_msg("%s: %s", pages_file, error.text);
  return pages;
}

static const char *markdown_of(const json_t *page) { return json_string_value(json_object_get(page, "a")); }

static void test_figures(void **state) {
  static const char *const names[] = {"text", "formula", "table", "order", "TEDS", "TEDS of structure"};
  json_t *pages = load_pages(), *page;
  size_t i;
  (void)state;
  json_array_foreach(pages, i, page) {
    struct ommai_page_scores scores = {.n_tables = 0};
    assert_true(ommai_page_scores_add(&scores, markdown_of(page), json_object_get(page, "b")));
    const double figures[] = {scores.distance[0], scores.distance[1], scores.distance[2],
                              scores.distance[3], scores.similarity,  scores.structure};
    for (size_t j = 0; j < 6; j++) {
      double expected = json_number_value(json_array_get(json_object_get(page, "figures"), j));
      if (!(fabs(figures[j] - expected) <= 1e-6)) fail_msg("page %zu, %s: %.9g for %.9g", i, names[j], figures[j], expected);
    }
  }
  json_decref(pages);
}

/* Whatever was read, figures come out. */
static void test_damaged_pages(void **state) {
  json_t *pages = load_pages(), *page;
  size_t i;
  uint32_t random = 1;
  (void)state;
  json_array_foreach(pages, i, page) {
    char *text = strdup(markdown_of(page));
    size_t size = strlen(text);
    for (size_t j = 0; j < 1 + size / 50 && size; j++) {
      random = random * 1664525 + 1013904223;
      char *at = &text[random % size];
      if ((unsigned char)*at < 0x80) *at = "\\{}$<>|[]`_^%&#\n"[random >> 28];
    }
    struct ommai_page_scores scores = {.n_tables = 0};
    assert_true(ommai_page_scores_add(&scores, text, json_object_get(page, "b")));
    for (int kind = 0; kind < OMMAI_N_SCORES; kind++) assert_true(scores.distance[kind] >= 0 && scores.distance[kind] <= 1);
    free(text);
  }
  json_decref(pages);
}

static void test_formulas(void **state) {
  static const char *const pairs[][2] = {{"\\frac{a}{n} + \\mathbf{xY}", "a/n + 𝐱𝐘"},
                                         {"\\mathcal L \\mathbb{R} \\mathit{h}", "ℒ ℝ ℎ"},
                                         {"\\tilde n \\dot{x} \\'e \\\"{u}", "ñ ẋ é ü"},
                                         {"\\sqrt[3]{\\alpha}_{2}", "α_2"},
                                         {"\\begin{array}{lr} a & b \\\\ c \\end{array}", " a  b  c "},
                                         {"\\unknown{a} \\text{b} \\label{c}", "a b "},
                                         {"a {b {c} d", "a "},
                                         {"a } b", ""},
                                         {"a \\begin{x} b", "a "},
                                         {"a \\end{x} b", ""}};
  (void)state;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    char *text = ommai_latex_text(pairs[i][0]);
    assert_string_equal(text, pairs[i][1]);
    free(text);
  }
}

static void test_deep_groups(void **state) {
  static char deep[1 << 20];
  (void)state;
  memset(deep, '{', sizeof deep - 1);
  char *text = ommai_latex_text(deep);
  assert_string_equal(text, "");
  free(text);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_figures), cmocka_unit_test(test_damaged_pages),
                                     cmocka_unit_test(test_formulas), cmocka_unit_test(test_deep_groups)};
  if (argc > 1) pages_file = argv[1];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
