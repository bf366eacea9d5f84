/* The JSON of POST /v1/ocr, in the form of Mistral's API. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reading/document_page.h"
#include "server/api/page_loop.h"
#include "server/core/api_error.h"

struct ommai_server;

/* Strings belong to the JSON document, the model's name to the server. */
struct ommai_ocr_request {
  const char *model;
  const char *url;        /* of the document */
  const json_t *pages;    /* a list or a text; NULL: all */
  bool include_images;    /* figures as base64 */
  int64_t image_limit;    /* figures of the document */
  int64_t image_min_size; /* pixels of both sides */
  bool tables_apart;      /* tables are a list of their own, in HTML */
  bool extract_header, extract_footer, include_blocks;
  bool stream; /* an event for each page that has ended */
  /* of the own field `ommatidia` */
  const struct ommai_reading_recipe *recipe;
  const char *prompt; /* NULL: the recipe's */
  int64_t dpi;
  bool page_images;
};

/* Whether the server reads documents, PDF files too, which its list of models says as Mistral's
 * does. */
bool ommai_ocr_is_served(const struct ommai_server *server);

/* Reads and checks all fields. False with *error filled. */
bool ommai_ocr_request_read(const struct ommai_server *server, const json_t *root, struct ommai_ocr_request *request,
                            struct ommai_api_error *error);

/* Marks the pages of a document of n_pages that are wanted; returns their number, or 0 with *error
 * filled. */
int64_t ommai_ocr_request_pages(const struct ommai_ocr_request *request, int64_t n_pages, int64_t max_pages, bool *wanted,
                                struct ommai_api_error *error);

/* ---- a page that was read, as it is answered ---- */

/* What is counted over the pages of a document. */
struct ommai_ocr_numbers {
  int64_t n_figures, n_tables;
  bool is_pdf;
};

/* The object {"index", "markdown", "images", "dimensions", ...} of a page that did not fail; its
 * blocks are changed. Errors: MEMORY, LIMIT, INTERNAL. */
enum omma_status ommai_ocr_page_make(const struct ommai_ocr_request *request, const struct ommai_open_page *page,
                                     struct ommai_ocr_numbers *numbers, json_t **made, struct omma_error *error);
