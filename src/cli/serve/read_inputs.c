#include "cli/serve/read_inputs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli/core/diagnostics.h"
#include "cli/core/folder_files.h"
#include "cli/core/interrupt.h"
#include "cli/core/paths.h"

struct list {
  struct ommai_read_document *documents;
  size_t n, capacity;
  const char *folder; /* of output; NULL: nothing is written */
  json_t *names;      /* of files of output, as keys */
  const struct ommai_page_list *pages;
  int64_t n_bad;
  const struct ommai_pdf_limits *limits;
};

/* The document that the files of a name in the folder were made of, by malloc; NULL where there are
 * none. */
static char *source_of(const char *folder, const char *name) {
  char path[OMMAI_MAX_PATH];
  if (!folder || snprintf(path, sizeof path, OMMAI_READ_JOURNAL, folder, name) >= (int)sizeof path) return NULL;
  FILE *file = fopen(path, "re");
  json_t *head = file ? json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
  const char *source = json_string_value(json_object_get(head, "source"));
  char *copy = source ? strdup(source) : NULL;
  json_decref(head);
  if (file) fclose(file);
  return copy;
}

/* Whether files of that name are another document's, of this run or an earlier one. */
static bool is_taken(const struct list *list, const char *name, const char *path) {
  if (json_object_get(list->names, name)) return true;
  char *source = source_of(list->folder, name), *real = source ? realpath(path, NULL) : NULL;
  bool taken = source && strcmp(source, real ? real : path) != 0;
  if (taken) ommai_note("read: %s: the files of the name %s in %s stay those of %s", path, name, list->folder, source);
  free(source);
  free(real);
  return taken;
}

/* The file's name without its ending, or that with a number where it is another document's; by
 * malloc. */
static char *make_name(struct list *list, const char *path) {
  const char *base = ommai_path_name(path), *dot = strrchr(base, '.');
  int size = dot && dot > base ? (int)(dot - base) : (int)strlen(base);
  char *name;
  if (asprintf(&name, "%.*s", size, base) < 0) return NULL;
  for (int i = 2; is_taken(list, name, path); i++) {
    free(name);
    if (asprintf(&name, "%.*s-%d", size, base, i) < 0) return NULL;
  }
  json_object_set_new(list->names, name, json_true());
  return name;
}

static int bad(struct list *list, const char *path, const char *why) {
  list->n_bad++;
  ommai_failed("read: %s: %s", path, why);
  return OMMAI_EXIT_DONE;
}

/* Whether its bytes can be read once alone. */
static bool is_stream(const char *path) {
  struct stat status;
  if (stat(path, &status) != 0) return strcmp(path, "-") == 0;
  return S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode) || S_ISSOCK(status.st_mode);
}

static int add_file(struct list *list, const char *path) {
  struct omma_error error;
  struct ommai_page_source source;
  if (is_stream(path)) {
    return bad(list, path, "standard input and pipes are not read, as a document is opened again for each page: save it first");
  }
  if (ommai_page_source_open(path, list->limits, &source, &error) != OMMA_OK) return bad(list, path, error.message);
  int64_t next = ommai_page_list_next(list->pages, 1, source.n_pages);
  if (!next) return bad(list, path, "has fewer pages (--pages)");
  if (list->n == list->capacity) {
    size_t capacity = list->capacity ? 2 * list->capacity : 16;
    struct ommai_read_document *larger = realloc(list->documents, capacity * sizeof *larger);
    if (!larger) return ommai_failed("read: out of memory: a list of %zu documents", capacity);
    list->documents = larger;
    list->capacity = capacity;
  }
  struct ommai_read_document *document = &list->documents[list->n];
  *document = (struct ommai_read_document){.source = source, .pages = list->pages, .next = next};
  document->n_left = ommai_page_list_count(list->pages, source.n_pages);
  document->source.path = strdup(path);
  document->name = make_name(list, path);
  list->n++;
  return document->source.path && document->name ? OMMAI_EXIT_DONE : ommai_failed("read: out of memory: %s", path);
}

static int add_entry(void *list, const char *path) { return ommai_interrupted() ? OMMAI_EXIT_DONE : add_file(list, path); }

static int add_folder(struct list *list, const char *folder) {
  int code, n = ommai_each_file_of(folder, ommai_page_source_is_name, add_entry, list, &code);
  if (n == 0) return bad(list, folder, "has no PDF file and no image (folders in it are not read)");
  return n < 0 ? bad(list, folder, strerror(errno)) : code;
}

int ommai_read_inputs(const struct ommai_strings *paths, const struct ommai_page_list *pages,
                      const struct ommai_pdf_limits *limits, const char *folder, struct ommai_read_document **documents,
                      size_t *n_documents, int64_t *n_bad) {
  struct list list = {.names = json_object(), .pages = pages, .limits = limits, .folder = folder};
  int code = list.names ? OMMAI_EXIT_DONE : ommai_failed("read: out of memory");
  for (size_t i = 0; i < paths->count && code == OMMAI_EXIT_DONE; i++) {
    struct stat status;
    bool is_folder = stat(paths->items[i], &status) == 0 && S_ISDIR(status.st_mode);
    code = is_folder ? add_folder(&list, paths->items[i]) : add_file(&list, paths->items[i]);
  }
  json_decref(list.names);
  *documents = list.documents;
  *n_documents = list.n;
  *n_bad = list.n_bad;
  return code;
}

void ommai_read_inputs_release(struct ommai_read_document *documents, size_t n_documents) {
  for (size_t i = 0; i < n_documents; i++) {
    ommai_read_journal_close(&documents[i].journal);
    free(documents[i].journal_path);
    free((char *)documents[i].source.path);
    free(documents[i].name);
  }
  free(documents);
}
