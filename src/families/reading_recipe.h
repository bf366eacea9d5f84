/* How models that were trained to read documents are asked: prompts, image sizes, sampling and what
 * becomes of each kind of block, by the model's name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a block of a page is in the end. */
enum ommai_block_use {
  OMMAI_BLOCK_TEXT,    /* its answer */
  OMMAI_BLOCK_TABLE,   /* its answer is a table in OTSL */
  OMMAI_BLOCK_FORMULA, /* its answer is LaTeX */
  OMMAI_BLOCK_FIGURE,  /* not asked about: cut out of the page */
  OMMAI_BLOCK_GROUP    /* not asked about: lies around others */
};

struct ommai_block_kind {
  const char *name; /* as in the layout answer */
  enum ommai_block_use use;
  const char *doctag; /* its name in DocTags */
  const char *tag;    /* of HTML */
  int heading;        /* level in Markdown; 0: none */
};

struct ommai_reading_sampling {
  double presence_penalty, frequency_penalty;
};

struct ommai_reading_recipe {
  const char *name;
  const char *mark;   /* in such models' names: letters and digits, lower case; NULL: none */
  const char *system; /* NULL: no message of the system */
  /* of the whole page; NULL: the model gets none, and `text_prompt` is asked about the page */
  const char *layout_prompt;
  int32_t layout_side; /* the page is squeezed to a square of that side */
  int32_t min_side;    /* crops are enlarged to it */
  int32_t max_ratio;   /* crops of longer shape get white borders */
  /* "": the image alone */
  const char *text_prompt, *table_prompt, *formula_prompt;
  struct ommai_reading_sampling layout, text, table, formula;
  int no_repeat_ngram_size; /* 0: off */
};

/* The index-th recipe; NULL after the last. */
const struct ommai_reading_recipe *ommai_reading_recipe_at(size_t index);

/* The recipe of that name; NULL: there is none. */
const struct ommai_reading_recipe *ommai_reading_recipe_find(const char *name);

/* The recipe for a model by its path or name: by the path's last part, or else by any; NULL: no
 * mark is in it. */
const struct ommai_reading_recipe *ommai_reading_recipe_of_model(const char *model);

/* The kind of that name; NULL: there is none. */
const struct ommai_block_kind *ommai_block_kind_find(const char *name);
