#include "cli/serve/read_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/allocator.h"
#include "cli/core/diagnostics.h"
#include "cli/core/text_lines.h"

#define MAX_LINE_BYTES ((size_t)256 << 20)

static int failed(const struct ommai_read_journal *journal, const char *what) {
  return ommai_failed("read: %s: %s: %s", journal->path, what, strerror(errno));
}

static bool note_page(struct ommai_read_journal *journal, const json_t *page, int64_t at) {
  int64_t number = json_integer_value(json_object_get(page, "page"));
  if (number < 1 || number > journal->n_pages) return false;
  journal->lines[number - 1] = json_object_get(page, "error") ? -at : at;
  return true;
}

/* Reads whole lines as long as they are of this journal; *end is where they end. */
static void read_lines(struct ommai_read_journal *journal, const json_t *head) {
  struct ommai_text_lines lines = {.file = journal->file, .limit = MAX_LINE_BYTES};
  bool good = true;
  while (good && ommai_text_lines_next(&lines) == OMMAI_TEXT_LINE_READ && lines.complete && !lines.cut) {
    json_t *line = json_loadb(lines.line, lines.size, 0, NULL);
    good = lines.number == 1 ? json_equal(line, head) : line && note_page(journal, line, journal->end);
    if (good) journal->end = lines.end;
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

int ommai_read_journal_open(const char *path, const json_t *head, int64_t n_pages, bool resume,
                            struct ommai_read_journal *journal) {
  *journal = (struct ommai_read_journal){.path = path, .n_pages = n_pages};
  journal->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (journal->file < 0) return failed(journal, "cannot be written");
  if (flock(journal->file, LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? ommai_failed("read: %s: another omma read is writing this document", path)
                                : failed(journal, "cannot be locked");
  }
  journal->lines = ommai_allocate(&ommai_default_allocator, (size_t)n_pages, sizeof *journal->lines);
  if (!journal->lines) return ommai_failed("read: out of memory: %s", path);
  if (resume) read_lines(journal, head);
  if (ftruncate(journal->file, journal->end) != 0) return failed(journal, "cannot be cut off");
  return journal->end ? OMMAI_EXIT_DONE : write_line(journal, head);
}

bool ommai_read_journal_has(const struct ommai_read_journal *journal, int64_t page) { return journal->lines[page] > 0; }

int ommai_read_journal_add(struct ommai_read_journal *journal, const json_t *page) {
  int64_t at = journal->end;
  int code = write_line(journal, page);
  if (code == OMMAI_EXIT_DONE) note_page(journal, page, at);
  return code;
}

json_t *ommai_read_journal_get(const struct ommai_read_journal *journal, int64_t page) {
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
