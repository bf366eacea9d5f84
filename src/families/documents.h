/* The JSON documents of a model: files of a directory, or what was made in their place from a file
 * of another format. */
#pragma once

#include <omma/host.h>

#include "base/json.h"

enum { OMMAI_DOCUMENT_PATH_SIZE = 4096, OMMAI_DOCUMENT_MAX_BYTES = 16 << 20 };

struct ommai_documents {
  const char *directory; /* or the file that they were made from */
  /* an object, file name -> document; NULL: they are files of the directory */
  json_t *made;
};

/* The document of that name; the caller decrefs. *root is NULL where there is none. `path` is for
 * messages where it is. Errors: as ommai_file_find and ommai_json_load_file. */
enum omma_status ommai_document_find(const struct ommai_documents *documents, const char *name,
                                     const struct omma_allocator *allocator, char path[OMMAI_DOCUMENT_PATH_SIZE], json_t **root,
                                     struct omma_error *error);

/* The same where there must be one. Errors: IO where it is missing, with the system's message. */
enum omma_status ommai_document_require(const struct ommai_documents *documents, const char *name,
                                        const struct omma_allocator *allocator, char path[OMMAI_DOCUMENT_PATH_SIZE],
                                        json_t **root, struct omma_error *error);
