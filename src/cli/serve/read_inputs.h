/* The documents that a command line names: PDF files, images, and folders of them. */
#pragma once

#include "cli/serve/read_run.h"

/* Makes the list of documents: files as they are given, a folder's files by name. Files of output
 * that would be the same get numbers, also where those in `folder`, which may be NULL, are of an
 * earlier run's other document. A file that cannot be read is named and left out (*n_bad); of
 * each document those of `pages` are taken that it has; these stay the caller's, as long as the
 * documents. Returns an exit code; release in every case. */
int ommai_read_inputs(const struct ommai_strings *paths, const struct ommai_page_list *pages,
                      const struct ommai_pdf_limits *limits, const char *folder, struct ommai_read_document **documents,
                      size_t *n_documents, int64_t *n_bad);
void ommai_read_inputs_release(struct ommai_read_document *documents, size_t n_documents);
