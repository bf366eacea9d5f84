/* How near a page that was read comes to its truth, as OmniDocBench measures it: texts and formulas
 * by the normalised edit distance, tables by TEDS, reading order by the edit distance of orders.
 *
 * Elements are matched one to one, with the least sum of normalised edit distances, as that
 * benchmark's simple match does it; what has no partner is compared with nothing. Its quick match,
 * which also joins and splits paragraphs, is not done. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum ommai_score_kind { OMMAI_SCORE_TEXT, OMMAI_SCORE_FORMULA, OMMAI_SCORE_TABLE, OMMAI_SCORE_ORDER, OMMAI_N_SCORES };

/* Sums over pages; zeroes at the beginning. */
struct ommai_page_scores {
  int64_t n_pages[OMMAI_N_SCORES]; /* with something of that kind, in truth or reading */
  double distance[OMMAI_N_SCORES]; /* over these pages: edits / longer lengths of a page */
  double similarity, structure;    /* TEDS, and of structure alone, over the truth's tables */
  int64_t n_tables;
};

/* The page of the truth (OmniDocBench.json) about an image of that name, with its ending or
 * without; NULL: there is none. */
const json_t *ommai_truth_find(const json_t *truth, const char *name);

/* Adds a page: its Markdown, and the truth's object. False when memory is out. */
bool ommai_page_scores_add(struct ommai_page_scores *scores, const char *markdown, const json_t *truth);
