#include "families/documents.h"

#include <stdio.h>

#include "base/error.h"
#include "base/file.h"

/* A document that was made; false where there is none. */
static bool find_made(const struct ommai_documents *documents, const char *name, char path[OMMAI_DOCUMENT_PATH_SIZE],
                      json_t **root) {
  snprintf(path, OMMAI_DOCUMENT_PATH_SIZE, "%.2000s, read as %.200s", documents->directory, name);
  *root = json_incref(json_object_get(documents->made, name));
  return *root != NULL;
}

enum omma_status ommai_document_find(const struct ommai_documents *documents, const char *name,
                                     const struct omma_allocator *allocator, char path[OMMAI_DOCUMENT_PATH_SIZE], json_t **root,
                                     struct omma_error *error) {
  bool found;
  *root = NULL;
  if (documents->made) {
    find_made(documents, name, path, root);
    return OMMA_OK;
  }
  OMMAI_TRY(ommai_file_find(path, OMMAI_DOCUMENT_PATH_SIZE, documents->directory, name, &found, error));
  return found ? ommai_json_load_file(path, OMMAI_DOCUMENT_MAX_BYTES, allocator, root, error) : OMMA_OK;
}

enum omma_status ommai_document_require(const struct ommai_documents *documents, const char *name,
                                        const struct omma_allocator *allocator, char path[OMMAI_DOCUMENT_PATH_SIZE],
                                        json_t **root, struct omma_error *error) {
  if (documents->made) {
    if (find_made(documents, name, path, root)) return OMMA_OK;
    return ommai_fail(error, OMMA_ERROR_IO, "%.2000s: nothing in it gives what %s would", documents->directory, name);
  }
  if (!ommai_path_join(path, OMMAI_DOCUMENT_PATH_SIZE, documents->directory, name)) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT, "%.200s...: the path is too long", documents->directory);
  }
  return ommai_json_load_file(path, OMMAI_DOCUMENT_MAX_BYTES, allocator, root, error);
}
