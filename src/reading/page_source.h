/* Where pages come from: PDF files, and images, which have one page, but for TIFF files. */
#pragma once

#include <stdbool.h>

#include "reading/pdf_render.h"

struct ommai_page_source {
  const char *path;  /* NULL: from memory */
  const void *bytes; /* of an image without a path; the caller's */
  size_t size;
  int descriptor; /* of a PDF without a path */
  bool is_pdf;    /* by its first bytes */
  int64_t n_pages;
};

/* Whether a file's name ends as those of PDF files and images do. */
bool ommai_page_source_is_name(const char *name);

/* Errors: IO, and those of ommai_pdf_count_pages. */
enum omma_status ommai_page_source_open(const char *path, const struct ommai_pdf_limits *limits,
                                        struct ommai_page_source *source, struct omma_error *error);

/* The same of bytes, which stay the caller's; those of an image are used until close. Close in
 * every case. Errors: IO, and those of ommai_pdf_count_pages. */
enum omma_status ommai_page_source_open_bytes(const void *bytes, size_t size, const struct ommai_pdf_limits *limits,
                                              struct ommai_page_source *source, struct omma_error *error);

/* Releases what opening from bytes took. */
void ommai_page_source_close(struct ommai_page_source *source);

/* A page from 1; dpi is for PDF files. Errors: those of ommai_pdf_render and ommai_image_decode. */
enum omma_status ommai_page_source_load(const struct ommai_page_source *source, int64_t page, int dpi,
                                        const struct ommai_pdf_limits *limits, struct ommai_image **image,
                                        struct omma_error *error);

/* Writes an image to a PNG file, which is there whole or not at all. Errors: IO, MEMORY,
 * INTERNAL. */
enum omma_status ommai_page_write_png(const struct ommai_image *image, const char *path, struct omma_error *error);
