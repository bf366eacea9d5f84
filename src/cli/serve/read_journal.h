/* What has been read of a document: a line of JSON for each page, in the order in which they
 * end, after one with what they depend on. A program that is killed leaves at most the last line
 * torn. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct ommai_read_journal {
  const char *path; /* the caller's */
  int file;
  int64_t n_pages, end;
  int64_t *lines; /* by page from 0: where its line begins; 0: it has none; negative: its error's */
};

/* Opens the journal for this program alone. Pages of an earlier run with an equal `head` stay with
 * `resume`; else it begins anew. Returns an exit code; the error has been printed. Close in every
 * case. */
int ommai_read_journal_open(const char *path, const json_t *head, int64_t n_pages, bool resume,
                            struct ommai_read_journal *journal);

/* Whether a page (from 0) was read, and did not fail. */
bool ommai_read_journal_has(const struct ommai_read_journal *journal, int64_t page);

/* Adds a page: {"page": N from 1, ...}. Returns an exit code. */
int ommai_read_journal_add(struct ommai_read_journal *journal, const json_t *page);

/* The page as it was added; NULL where it has none or memory is out. */
json_t *ommai_read_journal_get(const struct ommai_read_journal *journal, int64_t page);

void ommai_read_journal_close(struct ommai_read_journal *journal);
