/* One thread renders pages, starts requests and takes their answers; the engine's threads compute
 * meanwhile. A page is held from its rendering until its last answer, and no more than n_open of
 * them at once. */
#include "cli/read_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "cli/batch_slots.h"
#include "cli/diagnostics.h"
#include "cli/interrupt.h"
#include "cli/paths.h"
#include "cli/progress.h"
#include "server/batch_request.h"

struct page {
  struct ommai_read_document *document; /* NULL: free */
  int64_t number;                       /* from 1 */
  struct ommai_image *image;
  json_t *blocks;                        /* NULL: the layout is not known yet */
  size_t next;                           /* block that has not been asked about */
  size_t n_asked;                        /* requests under way */
  char failure[OMMA_ERROR_MESSAGE_SIZE]; /* "": none */
};

struct run {
  const struct ommai_read_job *job;
  struct ommai_read_counts *counts;
  struct ommai_batch_slots slots;
  struct page *pages;
  size_t document; /* the first that has pages to begin */
  int64_t n_requests;
  double started;
  struct ommai_progress progress;
};

static void fail_page(struct page *page, const char *why) {
  if (!*page->failure) snprintf(page->failure, sizeof page->failure, "%s", why);
}

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
static void write_figures(const struct run *run, struct page *page) {
  char folder[OMMAI_MAX_PATH], path[OMMAI_MAX_PATH], name[OMMAI_MAX_PATH];
  struct omma_error error = {.message = ""};
  json_t *block;
  size_t i;
  if (!make_path(folder, sizeof folder, run, page->document, "_figures")) return fail_page(page, "the path is too long");
  json_array_foreach(page->blocks, i, block) {
    const char *type = json_string_value(json_object_get(block, "type"));
    struct ommai_image *crop = NULL;
    if (ommai_block_kind_find(type)->use != OMMAI_BLOCK_FIGURE) continue;
    int length = snprintf(name, sizeof name, "%s_figures/page-%" PRId64 "-%zu.png", page->document->name, page->number, i + 1);
    if (length >= (int)sizeof name || snprintf(path, sizeof path, "%s/%s", run->job->folder, name) >= (int)sizeof path) {
      return fail_page(page, "the path is too long");
    }
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) return fail_page(page, strerror(errno));
    enum omma_status status = ommai_page_crop(run->job->recipe, page->image, block, false, &crop, &error);
    if (status == OMMA_OK && crop) status = ommai_page_write_png(crop, path, &error);
    if (status != OMMA_OK) fail_page(page, error.message);
    if (crop) json_object_set_new(block, "figure", json_string(name));
    ommai_image_destroy(crop);
  }
}

static int end_page(struct run *run, struct page *page) {
  struct ommai_read_document *document = page->document;
  bool whole = !run->job->recipe->layout_prompt;
  if (!*page->failure && !ommai_page_finish(page->blocks, whole)) fail_page(page, "out of memory");
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
  int code = ommai_read_journal_add(&document->journal, entry);
  json_decref(entry);
  json_decref(page->blocks);
  ommai_image_destroy(page->image);
  *page = (struct page){.document = NULL};
  return code == OMMAI_EXIT_DONE ? end_page_of(run, document) : code;
}

static void begin_page(struct run *run, struct page *page, struct ommai_read_document *document, int64_t number) {
  const struct ommai_read_job *job = run->job;
  struct omma_error error;
  *page = (struct page){.document = document, .number = number};
  if (ommai_page_source_load(&document->source, number, job->dpi, &job->limits, &page->image, &error) != OMMA_OK) {
    fail_page(page, error.message);
  } else if (!job->recipe->layout_prompt) {
    page->blocks = ommai_page_whole();
  }
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

/* ---- requests ---- */

/* Starts a request about a page; takes the body. */
static void ask(struct run *run, struct ommai_batch_slot *slot, struct page *page, json_t *body, json_t *block) {
  char id[32];
  snprintf(id, sizeof id, "%" PRId64, ++run->n_requests);
  json_t *line =
      json_pack("{s:s, s:s, s:s, s:o}", "custom_id", id, "method", "POST", "url", "/v1/chat/completions", "body", body);
  char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
  struct ommai_batch_request *request =
      text ? ommai_batch_request_read(run->job->server, text, strlen(text), run->n_requests) : NULL;
  free(text);
  json_decref(line);
  if (!request) return fail_page(page, "out of memory: a request");
  page->n_asked++;
  ommai_batch_slots_start(&run->slots, slot, request, block ? (void *)block : (void *)page);
}

/* Starts the page's next request; false: it has none now. */
static bool ask_next(struct run *run, struct ommai_batch_slot *slot, struct page *page) {
  const struct ommai_read_job *job = run->job;
  struct omma_error error;
  json_t *body = NULL;
  if (*page->failure || !page->image || (!page->blocks && page->n_asked)) return false;
  if (!page->blocks) {
    if (ommai_page_layout_request(job->recipe, page->image, &body, &error) != OMMA_OK) {
      fail_page(page, error.message);
      return false;
    }
    ask(run, slot, page, body, NULL);
    return true;
  }
  while (page->next < json_array_size(page->blocks)) {
    json_t *block = json_array_get(page->blocks, page->next++);
    if (ommai_page_element_request(job->recipe, job->prompt, page->image, block, &body, &error) != OMMA_OK) {
      fail_page(page, error.message);
      return false;
    }
    if (body) {
      ask(run, slot, page, body, block);
      return true;
    }
  }
  return false;
}

/* The page to which a slot's request belongs, and its block, NULL for the layout. */
static struct page *page_of(const struct run *run, const struct ommai_batch_slot *slot, json_t **block) {
  size_t j;
  json_t *candidate;
  *block = NULL;
  for (size_t i = 0; i < run->job->n_open; i++) {
    struct page *page = &run->pages[i];
    if (slot->owner == page) return page;
    json_array_foreach(page->blocks, j, candidate) {
      if (slot->owner != candidate) continue;
      *block = candidate;
      return page;
    }
  }
  return NULL;
}

/* The text of an answer; a NUL in it becomes a blank. By malloc. */
static char *copy_answer(const json_t *content) {
  size_t size = json_is_string(content) ? json_string_length(content) : 0;
  char *text = malloc(size + 1);
  for (size_t i = 0; text && i < size; i++) text[i] = json_string_value(content)[i] ? json_string_value(content)[i] : ' ';
  if (text) text[size] = '\0';
  return text;
}

/* The text of a reply, or what went wrong. */
static void take_answer(struct page *page, json_t *block, const json_t *line) {
  const json_t *body = json_object_get(json_object_get(line, "response"), "body");
  const json_t *message = json_object_get(json_array_get(json_object_get(body, "choices"), 0), "message");
  const char *why = json_string_value(json_object_get(json_object_get(body, "error"), "message"));
  if (!message) return fail_page(page, why ? why : "no answer");
  char *text = copy_answer(json_object_get(message, "content"));
  if (text && block) {
    json_object_set_new(block, "content", json_string(text));
  } else if (text) {
    page->blocks = ommai_layout_read(text);
    if (page->blocks) ommai_layout_drop_inner_captions(page->blocks);
  }
  if (!text || !page->blocks) fail_page(page, "out of memory: an answer");
  free(text);
}

static void take_reply(struct run *run, struct ommai_batch_slot *slot) {
  size_t size;
  json_t *block;
  struct page *page = page_of(run, slot, &block);
  char *text = ommai_batch_request_write(slot->request, &size);
  json_t *line = text ? json_loadb(text, size, JSON_ALLOW_NUL, NULL) : NULL;
  ommai_batch_request_destroy(slot->request);
  slot->request = NULL;
  page->n_asked--;
  if (line) {
    take_answer(page, block, line);
  } else {
    fail_page(page, "out of memory: an answer");
  }
  json_decref(line);
  free(text);
}

/* ---- the loop ---- */

/* Ends the pages that have all answers, or failed. */
static int end_pages(struct run *run) {
  int code = OMMAI_EXIT_DONE;
  for (size_t i = 0; i < run->job->n_open && code == OMMAI_EXIT_DONE; i++) {
    struct page *page = &run->pages[i];
    bool asked = page->blocks && page->next >= json_array_size(page->blocks);
    if (page->document && !page->n_asked && (asked || *page->failure)) code = end_page(run, page);
  }
  return code;
}

/* Starts requests of the pages that are open, the oldest first, and opens further ones, until all
 * slots are taken. */
static int fill(struct run *run) {
  int code = OMMAI_EXIT_DONE;
  struct ommai_batch_slot *slot;
  for (size_t i = 0; i < run->job->n_open && code == OMMAI_EXIT_DONE && !ommai_interrupted(); i++) {
    struct page *page = &run->pages[i];
    if (!page->document) {
      struct ommai_read_document *document;
      int64_t number;
      code = next_page(run, &document, &number);
      if (!document) continue;
      begin_page(run, page, document, number);
    }
    while ((slot = ommai_batch_slots_free(&run->slots)) != NULL && ask_next(run, slot, page)) continue;
  }
  return code;
}

static void show_progress(struct run *run) {
  const struct ommai_read_counts *counts = run->counts;
  int64_t now = counts->n_read + counts->n_failed, done = now + counts->n_earlier;
  double seconds = ommai_clock_seconds() - run->started, rate = (double)now / (seconds > 0 ? seconds : 1);
  char left[32] = "";
  if (now) snprintf(left, sizeof left, ", %.0f s left", (double)(counts->n_pages - done) / rate);
  snprintf(run->progress.details, sizeof run->progress.details, "page %" PRId64 "/%" PRId64 ", %" PRId64 " failed, %.2f/s%s",
           done, counts->n_pages, counts->n_failed, rate, left);
  ommai_progress_update(&run->progress, done, counts->n_pages);
}

static int read_all(struct run *run) {
  for (;;) {
    struct ommai_batch_slot *slot;
    while ((slot = ommai_batch_slots_done(&run->slots)) != NULL) take_reply(run, slot);
    int code = end_pages(run);
    if (code == OMMAI_EXIT_DONE) code = fill(run);
    show_progress(run);
    if (code != OMMAI_EXIT_DONE || ommai_interrupted()) return code;
    bool open = false;
    for (size_t i = 0; i < run->job->n_open; i++) open |= run->pages[i].document != NULL;
    if (!open && run->document == run->job->n_documents) return code;
    if (!ommai_batch_slots_idle(&run->slots)) ommai_interrupt_wait();
  }
}

int ommai_read_run(const struct ommai_read_job *job, struct ommai_read_counts *counts) {
  struct run run = {.job = job, .counts = counts, .started = ommai_clock_seconds()};
  run.pages = ommai_allocate(&ommai_default_allocator, job->n_open, sizeof *run.pages);
  int code = OMMAI_EXIT_FAILED;
  if (ommai_batch_slots_init(&run.slots, job->n_parallel) && run.pages) {
    ommai_progress_begin_long(&run.progress, "reading");
    code = read_all(&run);
    ommai_progress_end(&run.progress);
  } else {
    ommai_failed("read: out of memory");
  }
  ommai_batch_slots_release(&run.slots);
  for (size_t i = 0; run.pages && i < job->n_open; i++) {
    json_decref(run.pages[i].blocks);
    ommai_image_destroy(run.pages[i].image);
  }
  ommai_release(&ommai_default_allocator, run.pages, job->n_open, sizeof *run.pages);
  counts->seconds = ommai_clock_seconds() - run.started;
  return code;
}
