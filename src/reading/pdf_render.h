/* Pages of PDF files by poppler's programs, which read hostile input: each runs as a process of
 * its own with limits of memory and time, writes to a pipe and leaves no file. JavaScript is not
 * run. */
#pragma once

#include <omma/status.h>
#include <stdbool.h>

#include "image/image.h"

struct ommai_pdf_limits {
  int64_t max_bytes;  /* of a process's memory */
  int64_t max_pixels; /* of a page */
  int seconds;        /* of a process */
  /* Asked several times a second: true ends the process, and the call fails. NULL: nobody. */
  bool (*stop)(void *context);
  void *context;
};

/* A file by its path, or open (path NULL), which need not have a name. */
struct ommai_pdf_file {
  const char *path;
  int descriptor;
};

/* Whether poppler's programs are installed: runs each, some milliseconds. */
bool ommai_pdf_is_installed(void);

/* The number of a PDF's pages. Errors: FORMAT (broken, or needs a password), LIMIT (time), IO
 * (pdfinfo is not installed, the file cannot be read), CANCELLED (stop). */
enum omma_status ommai_pdf_count_pages(const struct ommai_pdf_file *file, const struct ommai_pdf_limits *limits, int64_t *n_pages,
                                       struct omma_error *error);

/* A page (from 1) with `dpi` pixels an inch. Errors: the same, LIMIT also for memory and pixels;
 * MEMORY. */
enum omma_status ommai_pdf_render(const struct ommai_pdf_file *file, int64_t page, int dpi, const struct ommai_pdf_limits *limits,
                                  struct ommai_image **image, struct omma_error *error);
