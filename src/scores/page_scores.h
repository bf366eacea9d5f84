/* How near a page that was read comes to its truth, as OmniDocBench's end-to-end evaluation with
 * its quick match computes it: texts and formulas by the normalised edit distance, tables by that
 * and TEDS, reading order by the edit distance of orders. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum ommai_score_kind { OMMAI_SCORE_TEXT, OMMAI_SCORE_FORMULA, OMMAI_SCORE_TABLE, OMMAI_SCORE_ORDER, OMMAI_N_SCORES };

/* Sums over pages; zeroes at the beginning. */
struct ommai_page_scores {
  int64_t n_pages[OMMAI_N_SCORES]; /* with something of that kind in the truth */
  double distance[OMMAI_N_SCORES]; /* over these pages: edits / longer lengths of a page */
  double similarity, structure;    /* TEDS, and of structure alone, over the truth's tables */
  int64_t n_tables;
};

/* The page of the truth (OmniDocBench.json) about an image of that name, with its ending or
 * without; NULL: there is none. */
const json_t *ommai_truth_find(const json_t *truth, const char *name);

/* Adds a page: its Markdown, which is UTF-8, and the truth's object. False when memory is out. */
bool ommai_page_scores_add(struct ommai_page_scores *scores, const char *markdown, const json_t *truth);
