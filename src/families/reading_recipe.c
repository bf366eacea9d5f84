/* Sources: MinerU2.5: mineru-vl-utils 2.0.7 (prompts, sampling, sizes, kinds of blocks). The
 * others: the model cards of their publishers. */
#include "families/reading_recipe.h"

#include <ctype.h>
#include <string.h>

#define MINERU_ANSWERS \
  { 1.0, 0.05 }

static const struct ommai_reading_recipe recipes[] = {
    {.name = "mineru2.5",
     .mark = "mineru",
     .system = "You are a helpful assistant.",
     .layout_prompt = "\nLayout Detection:",
     .layout_side = 1036,
     .min_side = 28,
     .max_ratio = 50,
     .text_prompt = "\nText Recognition:",
     .table_prompt = "\nTable Recognition:",
     .formula_prompt = "\nFormula Recognition:",
     .text = MINERU_ANSWERS,
     .table = {1.0, 0.005},
     .formula = MINERU_ANSWERS,
     .no_repeat_ngram_size = 100},
    {.name = "paddleocr-vl",
     .mark = "paddleocr",
     .min_side = 28,
     .max_ratio = 50,
     .text_prompt = "OCR:",
     .table_prompt = "Table Recognition:",
     .formula_prompt = "Formula Recognition:"},
    {.name = "glm-ocr",
     .mark = "glmocr",
     .min_side = 28,
     .max_ratio = 50,
     .text_prompt = "Text Recognition:",
     .table_prompt = "Table Recognition:",
     .formula_prompt = "Formula Recognition:"},
    {.name = "lightonocr", .mark = "lightonocr", .min_side = 28, .max_ratio = 50, .text_prompt = ""},
    {.name = "dots.ocr",
     .mark = "dotsocr",
     .min_side = 28,
     .max_ratio = 50,
     .text_prompt = "Extract the text content from this image."},
    {.name = "page",
     .min_side = 28,
     .max_ratio = 50,
     .text_prompt =
         "Convert this page to Markdown. Write tables as HTML and formulas as LaTeX. Answer with the Markdown alone."},
};

static const struct ommai_block_kind kinds[] = {
    {"text", OMMAI_BLOCK_TEXT, "text", "p", 0},
    {"title", OMMAI_BLOCK_TEXT, "title", "h1", 1},
    {"doc_title", OMMAI_BLOCK_TEXT, "title", "h1", 1},
    {"paragraph_title", OMMAI_BLOCK_TEXT, "section_header_level_1", "h2", 2},
    {"table", OMMAI_BLOCK_TABLE, "otsl", "div", 0},
    {"equation", OMMAI_BLOCK_FORMULA, "formula", "p", 0},
    {"formula_number", OMMAI_BLOCK_TEXT, "text", "p", 0},
    {"code", OMMAI_BLOCK_TEXT, "code", "pre", 0},
    {"algorithm", OMMAI_BLOCK_TEXT, "code", "pre", 0},
    {"aside_text", OMMAI_BLOCK_TEXT, "text", "aside", 0},
    {"ref_text", OMMAI_BLOCK_TEXT, "text", "p", 0},
    {"index", OMMAI_BLOCK_TEXT, "document_index", "p", 0},
    {"phonetic", OMMAI_BLOCK_TEXT, "text", "p", 0},
    {"list_item", OMMAI_BLOCK_TEXT, "text", "p", 0},
    {"caption", OMMAI_BLOCK_TEXT, "caption", "p", 0},
    {"table_caption", OMMAI_BLOCK_TEXT, "caption", "p", 0},
    {"image_caption", OMMAI_BLOCK_TEXT, "caption", "p", 0},
    {"code_caption", OMMAI_BLOCK_TEXT, "caption", "p", 0},
    {"footnote", OMMAI_BLOCK_TEXT, "footnote", "p", 0},
    {"table_footnote", OMMAI_BLOCK_TEXT, "footnote", "p", 0},
    {"image_footnote", OMMAI_BLOCK_TEXT, "footnote", "p", 0},
    {"header", OMMAI_BLOCK_TEXT, "page_header", "header", 0},
    {"footer", OMMAI_BLOCK_TEXT, "page_footer", "footer", 0},
    {"page_number", OMMAI_BLOCK_TEXT, "page_footer", "footer", 0},
    {"page_footnote", OMMAI_BLOCK_TEXT, "footnote", "p", 0},
    {"image", OMMAI_BLOCK_FIGURE, "picture", "figure", 0},
    {"chart", OMMAI_BLOCK_FIGURE, "chart", "figure", 0},
    {"list", OMMAI_BLOCK_GROUP, "unordered_list", "div", 0},
    {"image_block", OMMAI_BLOCK_GROUP, "group", "div", 0},
    {"equation_block", OMMAI_BLOCK_GROUP, "group", "div", 0},
};

const struct ommai_reading_recipe *ommai_reading_recipe_at(size_t index) {
  return index < sizeof recipes / sizeof *recipes ? &recipes[index] : NULL;
}

const struct ommai_reading_recipe *ommai_reading_recipe_find(const char *name) {
  for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
    if (strcmp(recipes[i].name, name) == 0) return &recipes[i];
  }
  return NULL;
}

static const struct ommai_reading_recipe *recipe_with_mark(const char *letters) {
  for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
    if (recipes[i].mark && strstr(letters, recipes[i].mark)) return &recipes[i];
  }
  return NULL;
}

/* Names are written with and without hyphens and periods. */
const struct ommai_reading_recipe *ommai_reading_recipe_of_model(const char *model) {
  char letters[4096];
  size_t n = 0, last = 0;
  for (const char *at = model; *at && n + 1 < sizeof letters; at++) {
    if (*at == '/' && at[1]) last = n;
    if (isalnum((unsigned char)*at)) letters[n++] = (char)tolower((unsigned char)*at);
  }
  letters[n] = '\0';
  const struct ommai_reading_recipe *recipe = recipe_with_mark(letters + last);
  return recipe ? recipe : recipe_with_mark(letters);
}

const struct ommai_block_kind *ommai_block_kind_find(const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
  }
  return NULL;
}
