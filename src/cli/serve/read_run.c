#include "cli/serve/read_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/core/paths.h"
#include "cli/core/progress.h"
#include "server/api/page_loop.h"

struct run {
  const struct ommai_read_job *job;
  struct ommai_read_counts *counts;
  size_t document; /* the first that has pages to begin */
  int code;        /* of the exit */
  double started;
  struct ommai_progress progress;
};

static bool make_path(char *out, size_t size, const struct run *run, const struct ommai_read_document *document,
                      const char *rest) {
  return snprintf(out, size, "%s/%s%s", run->job->folder, document->name, rest) < (int)size;
}

/* ---- documents ---- */

static json_t *head_of(const struct run *run, const struct ommai_read_document *document) {
  struct stat file = {.st_size = 0};
  const struct ommai_read_job *job = run->job;
  stat(document->source.path, &file);
  return json_pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:i}", "source", document->source.path, "bytes",
                   (json_int_t)file.st_size, "modified", (json_int_t)file.st_mtim.tv_sec, "modified_ns",
                   (json_int_t)file.st_mtim.tv_nsec, "model", job->model, "recipe", job->recipe->name, "prompt",
                   job->prompt ? job->prompt : "", "dpi", job->dpi);
}

static int open_document(struct run *run, struct ommai_read_document *document) {
  char path[OMMAI_MAX_PATH];
  json_t *head = head_of(run, document);
  if (!make_path(path, sizeof path, run, document, ".pages.jsonl")) {
    json_decref(head);
    return ommai_failed("read: %s: the path is too long", document->name);
  }
  document->journal_path = strdup(path);
  int code = document->journal_path && head ? ommai_read_journal_open(document->journal_path, head, document->source.n_pages,
                                                                      run->job->resume, &document->journal)
                                            : ommai_failed("read: out of memory: %s", path);
  json_decref(head);
  document->n_left = document->last - document->first + 1;
  return code;
}

static void write_pages(const struct ommai_read_document *document, enum ommai_document_form form, FILE *out) {
  struct ommai_document_writer writer = {.out = out, .form = form};
  ommai_document_begin(&writer, document->source.path);
  for (int64_t page = document->first; page <= document->last; page++) {
    json_t *value = ommai_read_journal_get(&document->journal, page - 1);
    if (value) ommai_document_page(&writer, value);
    json_decref(value);
  }
  ommai_document_end(&writer);
}

/* Writes a document's file anew; the old one stays until the new one is whole. */
static int write_document(const struct run *run, const struct ommai_read_document *document, enum ommai_document_form form) {
  char path[OMMAI_MAX_PATH], part[OMMAI_MAX_PATH], ending[16];
  snprintf(ending, sizeof ending, ".%s", ommai_document_endings[form]);
  if (!make_path(path, sizeof path, run, document, ending) ||
      snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part) {
    return ommai_failed("read: %s: the path is too long", document->name);
  }
  FILE *out = fopen(part, "we");
  if (out) write_pages(document, form, out);
  bool written = out && !ferror(out) && fflush(out) == 0 && fsync(fileno(out)) == 0;
  if (out) written &= fclose(out) == 0;
  if (written && rename(part, path) == 0) return OMMAI_EXIT_DONE;
  return ommai_failed("read: %s: cannot be written: %s", path, strerror(errno));
}

/* A page has ended; the last one ends its document. */
static int end_page_of(const struct run *run, struct ommai_read_document *document) {
  if (--document->n_left > 0) return OMMAI_EXIT_DONE;
  int code = write_document(run, document, OMMAI_FORM_JSON);
  if (code == OMMAI_EXIT_DONE && run->job->form != OMMAI_FORM_JSON) code = write_document(run, document, run->job->form);
  ommai_read_journal_close(&document->journal);
  return code;
}

/* ---- pages ---- */

/* Cuts figures out and notes their files. */
static void write_figures(const struct run *run, struct ommai_open_page *page) {
  const struct ommai_read_document *document = page->document;
  char folder[OMMAI_MAX_PATH], path[OMMAI_MAX_PATH], name[OMMAI_MAX_PATH];
  struct omma_error error = {.message = ""};
  json_t *block;
  size_t i;
  if (!make_path(folder, sizeof folder, run, document, "_figures")) return ommai_open_page_fail(page, "the path is too long");
  json_array_foreach(page->blocks, i, block) {
    const char *type = json_string_value(json_object_get(block, "type"));
    struct ommai_image *crop = NULL;
    if (ommai_block_kind_find(type)->use != OMMAI_BLOCK_FIGURE) continue;
    int length = snprintf(name, sizeof name, "%s_figures/page-%" PRId64 "-%zu.png", document->name, page->number, i + 1);
    if (length >= (int)sizeof name || snprintf(path, sizeof path, "%s/%s", run->job->folder, name) >= (int)sizeof path) {
      return ommai_open_page_fail(page, "the path is too long");
    }
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) return ommai_open_page_fail(page, strerror(errno));
    enum omma_status status = ommai_page_crop(run->job->recipe, page->image, block, false, &crop, &error);
    if (status == OMMA_OK && crop) status = ommai_page_write_png(crop, path, &error);
    if (status != OMMA_OK) ommai_open_page_fail(page, error.message);
    if (crop) json_object_set_new(block, "figure", json_string(name));
    ommai_image_destroy(crop);
  }
}

static bool end_page(void *context, struct ommai_open_page *page) {
  struct run *run = context;
  struct ommai_read_document *document = page->document;
  if (!*page->failure) write_figures(run, page);
  json_t *entry = json_pack("{s:I}", "page", (json_int_t)page->number);
  if (*page->failure) {
    ommai_failed("read: %s: page %" PRId64 ": %s", document->source.path, page->number, page->failure);
    json_object_set_new(entry, "error", json_string(page->failure));
    run->counts->n_failed++;
  } else {
    json_object_set_new(entry, "width", json_integer(page->image->width));
    json_object_set_new(entry, "height", json_integer(page->image->height));
    json_object_set(entry, "blocks", page->blocks);
    run->counts->n_read++;
  }
  run->code = ommai_read_journal_add(&document->journal, entry);
  json_decref(entry);
  if (run->code == OMMAI_EXIT_DONE) run->code = end_page_of(run, document);
  return run->code == OMMAI_EXIT_DONE;
}

/* The next page that was not read before; NULL: there is none. */
static int next_page(struct run *run, struct ommai_read_document **found, int64_t *number) {
  int code = OMMAI_EXIT_DONE;
  *found = NULL;
  for (; run->document < run->job->n_documents && code == OMMAI_EXIT_DONE; run->document++) {
    struct ommai_read_document *document = &run->job->documents[run->document];
    if (!document->journal_path) code = open_document(run, document);
    while (code == OMMAI_EXIT_DONE && document->next <= document->last) {
      *number = document->next++;
      if (!ommai_read_journal_has(&document->journal, *number - 1)) {
        *found = document;
        return code;
      }
      run->counts->n_earlier++;
      code = end_page_of(run, document);
    }
  }
  return code;
}

static enum ommai_page_opening open_page(void *context, struct ommai_open_page *page) {
  struct run *run = context;
  struct ommai_read_document *document;
  struct omma_error error;
  run->code = next_page(run, &document, &page->number);
  if (!document) return OMMAI_PAGE_NONE;
  page->document = document;
  if (ommai_page_source_load(&document->source, page->number, run->job->dpi, &run->job->limits, &page->image, &error) !=
      OMMA_OK) {
    ommai_open_page_fail(page, error.message);
  }
  return OMMAI_PAGE_OPENED;
}

/* ---- the loop ---- */

static void show_progress(void *context) {
  struct run *run = context;
  const struct ommai_read_counts *counts = run->counts;
  int64_t now = counts->n_read + counts->n_failed, done = now + counts->n_earlier;
  double seconds = ommai_clock_seconds() - run->started, rate = (double)now / (seconds > 0 ? seconds : 1);
  char left[32] = "";
  if (now) snprintf(left, sizeof left, ", %.0f s left", (double)(counts->n_pages - done) / rate);
  snprintf(run->progress.details, sizeof run->progress.details, "page %" PRId64 "/%" PRId64 ", %" PRId64 " failed, %.2f/s%s",
           done, counts->n_pages, counts->n_failed, rate, left);
  ommai_progress_update(&run->progress, done, counts->n_pages);
}

static bool is_over(void *context) { return ommai_interrupted() || ((struct run *)context)->code != OMMAI_EXIT_DONE; }

static void wait(void *context) {
  (void)context;
  ommai_interrupt_wait();
}

static void wake(void *context) {
  (void)context;
  ommai_interrupt_wake();
}

int ommai_read_run(const struct ommai_read_job *job, struct ommai_read_counts *counts) {
  struct run run = {.job = job, .counts = counts, .code = OMMAI_EXIT_DONE, .started = ommai_clock_seconds()};
  const struct ommai_page_loop loop = {.server = job->server,
                                       .recipe = job->recipe,
                                       .prompt = job->prompt,
                                       .n_open = job->n_open,
                                       .n_parallel = job->n_parallel,
                                       .context = &run,
                                       .open = open_page,
                                       .end = end_page,
                                       .after_turn = show_progress,
                                       .is_over = is_over,
                                       .wait = wait,
                                       .wake = wake};
  ommai_progress_begin_long(&run.progress, "reading");
  if (!ommai_page_loop_run(&loop)) run.code = ommai_failed("read: out of memory");
  ommai_progress_end(&run.progress);
  counts->seconds = ommai_clock_seconds() - run.started;
  return run.code;
}
