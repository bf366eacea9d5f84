/* Pages of PDF files by poppler's programs, which read hostile input: each runs as a process of
 * its own with limits of memory and time, writes to a pipe and leaves no file. JavaScript is not
 * run. */
#pragma once

#include <omma/status.h>

#include "image/image.h"

struct ommai_pdf_limits {
  int64_t max_bytes;  /* of a process's memory */
  int64_t max_pixels; /* of a page */
  int seconds;        /* of a process */
};

/* The number of a PDF's pages. Errors: FORMAT (broken, or needs a password), LIMIT (time), IO
 * (pdfinfo is not installed, the file cannot be read). */
enum omma_status ommai_pdf_count_pages(const char *path, const struct ommai_pdf_limits *limits, int64_t *n_pages,
                                       struct omma_error *error);

/* A page (from 1) with `dpi` pixels an inch. Errors: the same, LIMIT also for memory and pixels;
 * MEMORY. */
enum omma_status ommai_pdf_render(const char *path, int64_t page, int dpi, const struct ommai_pdf_limits *limits,
                                  struct ommai_image **image, struct omma_error *error);
