/* A page that was read, as /v1/ocr answers it. */
#pragma once

#include "server/api/ocr_request.h"
#include "server/api/page_loop.h"

/* What is counted over the pages of a document. */
struct ommai_ocr_numbers {
  int64_t n_figures, n_tables;
  bool is_pdf;
};

/* The object {"index", "markdown", "images", "dimensions", ...} of a page that did not fail; its
 * blocks are changed. Errors: MEMORY, LIMIT, INTERNAL. */
enum omma_status ommai_ocr_page_make(const struct ommai_ocr_request *request, const struct ommai_open_page *page,
                                     struct ommai_ocr_numbers *numbers, json_t **made, struct omma_error *error);
