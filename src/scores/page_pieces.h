/* What a page consists of, as OmniDocBench takes it apart: a Markdown text that was read, and the
 * page's truth. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum ommai_piece_kind { OMMAI_PIECE_TEXT, OMMAI_PIECE_FORMULA, OMMAI_PIECE_TABLE };

/* What the truth counts: texts, formulas, and what is looked for but not counted. */
#define OMMAI_N_CATEGORIES 17
enum ommai_piece_use { OMMAI_USE_TEXT, OMMAI_USE_FORMULA, OMMAI_USE_NONE };

struct ommai_piece {
  enum ommai_piece_kind kind;
  bool is_inline; /* of a formula that was read: it stands inside of a text, which has it too */
  int category;   /* of the truth: its place in the benchmark's list */
  enum ommai_piece_use use;
  double place; /* in the truth, its order, 0: none. In what was read, its first character; of a
                        text without the line ends between texts, as the benchmark counts it */
  size_t index;
  char *text; /* by malloc */
};

struct ommai_pieces {
  struct ommai_piece *list;
  size_t n, capacity;
};

/* False: memory is out; the text is freed in any case. */
bool ommai_pieces_add(struct ommai_pieces *pieces, struct ommai_piece piece);
void ommai_pieces_free(struct ommai_pieces *pieces);

/* Sorts by place, also with inline formulas after all others; equal ones stay as they were. */
void ommai_pieces_sort(struct ommai_pieces *pieces, bool inline_last);

/* The pieces by place. n_latex_tables: how many tables were written in LaTeX, which are no pieces.
 * False: memory is out. */
bool ommai_pieces_of_markdown(const char *markdown, struct ommai_pieces *pieces, size_t *n_latex_tables);

/* The pieces by order; blocks that a column or a page break cut apart are one. False: memory is
 * out. */
bool ommai_pieces_of_truth(const json_t *page, struct ommai_pieces *pieces);

/* Arrays of one column as a formula for each line. False: memory is out. */
bool ommai_pieces_split_arrays(struct ommai_pieces *pieces, bool truth);
