/* The documents that a command line names: PDF files, images, and folders of them. */
#pragma once

#include "cli/serve/read_run.h"

/* Makes the list of documents: files as they are given, a folder's files by name. Files of output
 * that would be the same get numbers. A file that cannot be read is named and left out (*n_bad); of
 * each document the pages from `first` to `last` are taken, as far as it has them. Returns an exit
 * code; release in every case. */
int ommai_read_inputs(const struct ommai_strings *paths, int64_t first, int64_t last, const struct ommai_pdf_limits *limits,
                      struct ommai_read_document **documents, size_t *n_documents, int64_t *n_bad);
void ommai_read_inputs_release(struct ommai_read_document *documents, size_t n_documents);
