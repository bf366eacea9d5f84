#include "cli/serve/read_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/plural.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/core/paths.h"
#include "cli/core/progress.h"
#include "cli/core/text_lines.h"

/* ---- the journal ---- */

#define MAX_LINE_BYTES ((size_t)256 << 20)

static int failed(const struct ommai_read_journal *journal, const char *what) {
  return ommai_failed("read: %s: %s: %s", journal->path, what, strerror(errno));
}

/* Whether more of the page could be read now. */
static bool lacks_some(const struct ommai_read_journal *journal, const json_t *page) {
  const char *limits = json_string_value(json_object_get(page, "limits"));
  return json_object_get(page, "error") || (json_object_get(page, "cut") && strcmp(limits ? limits : "", journal->limits) != 0);
}

static bool note_page(struct ommai_read_journal *journal, const json_t *page, int64_t at) {
  int64_t number = json_integer_value(json_object_get(page, "page"));
  if (number < 1 || number > journal->n_pages) return false;
  journal->lines[number - 1] = lacks_some(journal, page) ? -at : at;
  return true;
}

/* What pages depend on: as the journal's first line has it, and as people call it. */
static const struct {
  const char *key, *name;
} dependencies[] = {{"source", "path of the document"},
                    {"bytes", "size of the document"},
                    {"modified", "date of the document"},
                    {"modified_ns", "time of the document"},
                    {"model", "--model"},
                    {"recipe", "--recipe"},
                    {"prompt", "--prompt"},
                    {"dpi", "--dpi"}};

/* Says why the pages of an earlier run are not kept. */
static void note_difference(const struct ommai_read_journal *journal, const json_t *earlier, const json_t *head) {
  char names[256] = "";
  for (size_t i = 0; i < sizeof dependencies / sizeof dependencies[0]; i++) {
    const char *key = dependencies[i].key;
    bool same = json_equal(json_object_get(earlier, key), json_object_get(head, key));
    if (!same) ommai_list_entry(names, sizeof names, "%s", dependencies[i].name);
  }
  if (json_is_object(earlier)) {
    ommai_warn("read: --resume: %s: all pages are read again: the earlier run had another %s", journal->path, names);
  } else {
    ommai_warn("read: --resume: %s: all pages are read again: its first line is not one of omma read", journal->path);
  }
}

/* Reads whole lines as long as they are of this journal; *end is where they end. */
static void read_lines(struct ommai_read_journal *journal, const json_t *head) {
  struct ommai_text_lines lines = {.file = journal->file, .limit = MAX_LINE_BYTES};
  bool good = true;
  while (good && ommai_text_lines_next(&lines) == OMMAI_TEXT_LINE_READ && lines.complete && !lines.cut) {
    json_t *line = json_loadb(lines.line, lines.size, 0, NULL);
    good = lines.number == 1 ? json_equal(line, head) : line && note_page(journal, line, journal->end);
    if (good) journal->end = lines.end;
    if (!good && lines.number == 1) note_difference(journal, line, head);
    json_decref(line);
  }
  ommai_text_lines_release(&lines);
}

static int write_line(struct ommai_read_journal *journal, const json_t *value) {
  char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(15));
  size_t size = text ? strlen(text) : 0;
  if (!text) return ommai_failed("read: out of memory: a page");
  text[size] = '\n'; /* in place of the NUL */
  size_t written = 0;
  while (written <= size) {
    ssize_t now = pwrite(journal->file, text + written, size + 1 - written, journal->end + (int64_t)written);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) break;
    written += (size_t)now;
  }
  free(text);
  if (written <= size) return failed(journal, "cannot be written");
  journal->end += (int64_t)written;
  return OMMAI_EXIT_DONE;
}

/* Opens the journal for this program alone. Pages of an earlier run with an equal `head` stay with
 * `resume`; else it begins anew. Returns an exit code; the error has been printed. Close in every
 * case. */
static int open_journal(const char *path, const json_t *head, const char *limits, int64_t n_pages, bool resume,
                        struct ommai_read_journal *journal) {
  *journal = (struct ommai_read_journal){.path = path, .limits = limits, .n_pages = n_pages};
  journal->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (journal->file < 0) return failed(journal, "cannot be written");
  if (flock(journal->file, LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? ommai_failed("read: %s: another omma read is writing this document", path)
                                : failed(journal, "cannot be locked");
  }
  journal->lines = ommai_allocate(&ommai_default_allocator, (size_t)n_pages, sizeof *journal->lines);
  if (!journal->lines) return ommai_failed("read: out of memory: %s", path);
  if (resume) read_lines(journal, head);
  journal->discards = !resume && lseek(journal->file, 0, SEEK_END) > 0;
  if (ftruncate(journal->file, journal->end) != 0) return failed(journal, "cannot be cut off");
  return journal->end ? OMMAI_EXIT_DONE : write_line(journal, head);
}

/* Whether a page (from 0) was read as far as it goes. */
static bool is_read(const struct ommai_read_journal *journal, int64_t page) { return journal->lines[page] > 0; }

/* Adds a page: {"page": N from 1, ...}. Returns an exit code. */
static int add_page(struct ommai_read_journal *journal, const json_t *page) {
  int64_t at = journal->end;
  int code = write_line(journal, page);
  if (code == OMMAI_EXIT_DONE) note_page(journal, page, at);
  return code;
}

/* The page as it was added; NULL where it has none or memory is out. */
static json_t *get_page(const struct ommai_read_journal *journal, int64_t page) {
  int64_t at = llabs(journal->lines[page]);
  int file = at ? dup(journal->file) : -1;
  FILE *stream = file < 0 ? NULL : fdopen(file, "r");
  if (!stream && file >= 0) close(file);
  if (!stream) return NULL;
  json_t *value = fseeko(stream, at, SEEK_SET) == 0 ? json_loadf(stream, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
  fclose(stream);
  return value;
}

void ommai_read_journal_close(struct ommai_read_journal *journal) {
  if (journal->file >= 0 && journal->path) close(journal->file);
  ommai_release(&ommai_default_allocator, journal->lines, (size_t)journal->n_pages, sizeof *journal->lines);
  *journal = (struct ommai_read_journal){.file = -1};
}

struct run {
  const struct ommai_read_job *job;
  struct ommai_read_counts *counts;
  size_t document; /* the first that has pages to begin */
  bool noted;      /* that pages of an earlier run are read again */
  int code;        /* of the exit */
  double started;
  struct ommai_progress progress;
};

static bool make_path(char *out, size_t size, const struct run *run, const struct ommai_read_document *document,
                      const char *rest) {
  return snprintf(out, size, "%s/%s%s", run->job->folder, document->name, rest) < (int)size;
}

/* ---- documents ---- */

/* Paths are real ones, so that it does not matter how they are spelled. */
static json_t *head_of(const struct run *run, const struct ommai_read_document *document) {
  struct stat file = {.st_size = 0};
  const struct ommai_read_job *job = run->job;
  char *source = realpath(document->source.path, NULL), *model = realpath(job->model, NULL);
  stat(document->source.path, &file);
  json_t *head = json_pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:i}", "source", source ? source : document->source.path,
                           "bytes", (json_int_t)file.st_size, "modified", (json_int_t)file.st_mtim.tv_sec, "modified_ns",
                           (json_int_t)file.st_mtim.tv_nsec, "model", model ? model : job->model, "recipe", job->recipe->name,
                           "prompt", job->prompt ? job->prompt : "", "dpi", job->dpi);
  free(source);
  free(model);
  return head;
}

static int open_document(struct run *run, struct ommai_read_document *document) {
  char path[OMMAI_MAX_PATH];
  json_t *head = head_of(run, document);
  if (snprintf(path, sizeof path, OMMAI_READ_JOURNAL, run->job->folder, document->name) >= (int)sizeof path) {
    json_decref(head);
    return ommai_failed("read: %s: the path is too long", document->name);
  }
  document->journal_path = strdup(path);
  int code = document->journal_path && head ? open_journal(document->journal_path, head, run->job->answer_limits,
                                                           document->source.n_pages, run->job->resume, &document->journal)
                                            : ommai_failed("read: out of memory: %s", path);
  json_decref(head);
  if (document->journal.discards && !run->noted) {
    ommai_note("read: %s: pages that an earlier run has read are read again; --resume keeps them", path);
    run->noted = true;
  }
  return code;
}

/* All pages that were read, also those that only an earlier run was asked for. */
static void write_pages(const struct ommai_read_document *document, enum ommai_document_form form, FILE *out) {
  struct ommai_document_writer writer = {.out = out, .form = form};
  ommai_document_begin(&writer, document->source.path);
  for (int64_t page = 1; page <= document->source.n_pages; page++) {
    json_t *value = get_page(&document->journal, page - 1);
    json_object_del(value, "limits");
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

/* What a page may lack although it did not fail. */
static void note_doubts(const struct run *run, const struct ommai_open_page *page, json_t *entry) {
  const char *path = ((struct ommai_read_document *)page->document)->source.path;
  if (page->layout_unread) {
    ommai_warn("read: %s: page %" PRId64 ": the answer about its layout has no block; is --recipe that of this model?", path,
               page->number);
  }
  if (!page->n_cut) return;
  json_object_set_new(entry, "cut", json_integer((json_int_t)page->n_cut));
  json_object_set_new(entry, "limits", json_string(run->job->answer_limits));
  run->counts->n_cut++;
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
    note_doubts(run, page, entry);
  }
  run->code = add_page(&document->journal, entry);
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
    while (code == OMMAI_EXIT_DONE && document->next) {
      *number = document->next;
      document->next = ommai_page_list_next(document->pages, *number + 1, document->source.n_pages);
      if (!is_read(&document->journal, *number - 1)) {
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

static void wait_for_wake(void *context) {
  (void)context;
  ommai_interrupt_wait();
}

static void wake(void *context) {
  (void)context;
  ommai_interrupt_wake();
}

bool ommai_read_loop_run(const struct ommai_read_job *job, struct ommai_page_loop loop) {
  loop.server = job->server;
  loop.recipe = job->recipe;
  loop.prompt = job->prompt;
  loop.n_open = job->n_open;
  loop.n_parallel = job->n_parallel;
  loop.wait = wait_for_wake;
  loop.wake = wake;
  return ommai_page_loop_run(&loop);
}

int ommai_read_run(const struct ommai_read_job *job, struct ommai_read_counts *counts) {
  struct run run = {.job = job, .counts = counts, .code = OMMAI_EXIT_DONE, .started = ommai_clock_seconds()};
  const struct ommai_page_loop loop = {
      .context = &run, .open = open_page, .end = end_page, .after_turn = show_progress, .is_over = is_over};
  ommai_progress_begin_long(&run.progress, "reading");
  if (!ommai_read_loop_run(job, loop)) run.code = ommai_failed("read: out of memory");
  ommai_progress_end(&run.progress);
  counts->seconds = ommai_clock_seconds() - run.started;
  return run.code;
}
