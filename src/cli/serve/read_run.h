/* Reads documents page by page: renders, asks the model about pages and their blocks, and writes
 * what comes of it. Blocks of all pages that are open run through the engine together. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/core/options.h"
#include "cli/core/paths.h"
#include "cli/serve/page_list.h"
#include "reading/document_page.h"
#include "reading/document_writer.h"
#include "reading/page_source.h"
#include "server/api/page_loop.h"

/* Its path: a folder, a document's name. */
#define OMMAI_READ_JOURNAL "%s/%s.pages.jsonl"

/* What has been read of a document: a line of JSON for each page, in the order in which they
 * end, after one with what they depend on. A program that is killed leaves at most the last line
 * torn. */
struct ommai_read_journal {
  const char *path;   /* the caller's, as */
  const char *limits; /* of answers: pages cut off under others are not kept */
  int file;
  int64_t n_pages, end;
  /* by page from 0: where its line begins; 0: it has none; negative: it is to be read again */
  int64_t *lines;
  bool discards; /* pages of an earlier run were dropped, as nobody asked to keep them */
};

void ommai_read_journal_close(struct ommai_read_journal *journal);

struct ommai_read_document {
  struct ommai_page_source source;
  char *name;           /* of its files; by malloc */
  const struct ommai_page_list *pages;
  int64_t next;   /* the first of these that was not begun; 0: none */
  int64_t n_left; /* that have not ended */
  struct ommai_read_journal journal;
  char *journal_path; /* NULL: not open */
};

struct ommai_read_job {
  struct ommai_read_document *documents;
  size_t n_documents;
  int64_t n_pages, n_bad; /* pages to read; documents that could not be opened, and were named */
  struct ommai_page_list pages;
  const struct ommai_reading_recipe *recipe;
  const char *prompt; /* NULL: the recipe's */
  const char *model;
  const char *folder;                  /* NULL: nothing is written */
  char demo_model[2 * OMMAI_MAX_PATH]; /* what `model` is where none is named */
  enum ommai_document_form form;
  char answer_limits[512]; /* what bounds the tokens of an answer, as a text */
  int dpi;
  bool resume;
  size_t n_open, n_parallel; /* pages and requests at once */
  struct ommai_pdf_limits limits;
  struct ommai_server *server; /* offline */
};

struct ommai_read_counts {
  int64_t n_pages, n_read, n_failed, n_earlier;
  int64_t n_cut; /* of those read: with an answer that ended at its limit of tokens */
  double seconds;
};

/* Runs a loop over pages, of which the callbacks are given, as the job says; it is woken as those
 * who wait for signals are (interrupt.h). As ommai_page_loop_run. */
bool ommai_read_loop_run(const struct ommai_read_job *job, struct ommai_page_loop loop);

/* Reads all that is not there yet, until the end or a signal (deferred by the caller). Returns an
 * exit code, DONE also after a signal and when pages failed: these have been named. */
int ommai_read_run(const struct ommai_read_job *job, struct ommai_read_counts *counts);
