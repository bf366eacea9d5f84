/* How good answers are, for data sets that state which answers are accepted. */
#pragma once

#include <jansson.h>
#include <omma/host.h>
#include <omma/status.h>
#include <stddef.h>

/* Sums over the answered questions; divide by n. */
struct ommai_accuracy {
  size_t n;
  double exact, vqa;
};

/* Judges one text against the accepted answers (a list of strings, or of objects with a string
 * "answer"; others are skipped) and adds the verdict. Exact: the text equals an answer, both
 * normalised. VQA: min(matches / 3, 1), averaged over all ways to leave one answer out, as the VQA
 * and TextVQA challenges score ten answers of people; of fewer than four answers one match counts
 * as 1. Normalised as there: lower case, no punctuation, no articles, number words as digits,
 * contractions with their apostrophe. Errors: MEMORY. */
enum omma_status ommai_accuracy_add(struct ommai_accuracy *accuracy, const char *text, size_t size, const json_t *answers,
                                    const struct omma_allocator *allocator, struct omma_error *error);
