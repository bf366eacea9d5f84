/* One thread reads lines, starts requests and writes what came of them, in the order in which they
 * end. Requests run on the server's workers, which prepare them, and on the engine; their number
 * at once is bounded, and with it the memory. */
#include "cli/serve/batch_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/core/paths.h"
#include "cli/core/progress.h"
#include "cli/core/text_lines.h"
#include "server/api/batch_request.h"
#include "server/api/batch_slots.h"

/* ---- the output file ---- */

/* Far above what an answer with all log-probabilities takes. */
#define MAX_LINE_BYTES ((size_t)1 << 30)

static int failed(const char *path, const char *what) { return ommai_failed("batch: %s: %s: %s", path, what, strerror(errno)); }

/* A line that was read, and where it goes on. */
struct earlier {
  struct ommai_batch_output *output;
  bool retry_failed;
  FILE *kept; /* lines that stay, where any may go; NULL: all stay */
};

/* Notes the line's request. False when it is not a line of a batch's output; *drop: whether it
 * goes away. */
static bool note_line(const struct earlier *earlier, const char *line, size_t size, bool *drop) {
  struct ommai_batch_output *output = earlier->output;
  json_error_t reason;
  bool no_memory;
  json_t *root = ommai_json_parse_large(line, size, JSON_ALLOW_NUL, true, &reason, &no_memory);
  json_t *custom_id = json_object_get(root, "custom_id"), *error = json_object_get(root, "error");
  const json_t *status = json_object_get(json_object_get(root, "response"), "status_code");
  const json_t *number = json_object_get(error, "line");
  bool known = json_is_integer(status) && error && (json_is_string(custom_id) || json_is_integer(number));
  bool answered = known && json_integer_value(status) == 200 && json_is_null(error);
  *drop = known && !answered && earlier->retry_failed;
  if (known && !*drop) {
    char key[32];
    snprintf(key, sizeof key, "%" JSON_INTEGER_FORMAT, json_integer_value(number));
    known = json_is_integer(number) ? json_object_set_new(output->bad_lines, key, json_true()) == 0
                                    : json_object_set_new(output->done, json_string_value(custom_id), json_true()) == 0;
    output->n_answered += answered;
    output->n_failed += !answered;
  }
  json_decref(root);
  return known;
}

/* Reads all whole lines; *end is where they end. */
static int read_lines(const struct earlier *earlier, int64_t *end) {
  const char *path = earlier->output->path;
  enum ommai_text_line got;
  struct ommai_text_lines lines = {.file = earlier->output->file, .limit = MAX_LINE_BYTES};
  int code = OMMAI_EXIT_DONE;
  *end = 0;
  while ((got = ommai_text_lines_next(&lines)) == OMMAI_TEXT_LINE_READ && lines.complete && code == OMMAI_EXIT_DONE) {
    bool drop = false;
    *end = lines.end;
    if (ommai_text_is_blank(lines.line, lines.size)) continue;
    if (lines.cut || !note_line(earlier, lines.line, lines.size, &drop)) {
      code = ommai_failed("batch: %s: line %" PRId64 " is none of a batch's output: give another file with -o", path,
                          lines.number);
    } else if (earlier->kept && !drop && fprintf(earlier->kept, "%s\n", lines.line) < 0) {
      code = failed(path, "what is kept of it cannot be written");
    }
  }
  if (code == OMMAI_EXIT_DONE && got == OMMAI_TEXT_LINE_FAILED) code = failed(path, "cannot be read");
  ommai_text_lines_release(&lines);
  return code;
}

static int lock(const char *path, int file) {
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return OMMAI_EXIT_DONE;
  if (errno == EWOULDBLOCK) return ommai_failed("batch: %s: another batch is writing this file", path);
  return failed(path, "cannot be locked");
}

/* The file without the lines of failures takes the place of the old one. */
static int replace(struct ommai_batch_output *output) {
  char path[OMMAI_MAX_PATH];
  int64_t end;
  if (snprintf(path, sizeof path, "%s.retry", output->path) >= (int)sizeof path) {
    return ommai_failed("batch: %.100s...: the path is too long", output->path);
  }
  int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  int copy = file < 0 ? -1 : dup(file);
  FILE *kept = copy < 0 ? NULL : fdopen(copy, "w");
  int code = kept ? lock(path, file) : failed(path, "cannot be written");
  struct earlier earlier = {.output = output, .retry_failed = true, .kept = kept};
  if (code == OMMAI_EXIT_DONE) code = read_lines(&earlier, &end);
  if (kept && fclose(kept) != 0 && code == OMMAI_EXIT_DONE) code = failed(path, "cannot be written");
  if (code == OMMAI_EXIT_DONE && (fsync(file) != 0 || rename(path, output->path) != 0)) {
    code = failed(path, "cannot take the place of the output");
  }
  if (code == OMMAI_EXIT_DONE) {
    close(output->file);
    output->file = file;
    return code;
  }
  if (file >= 0) close(file);
  unlink(path);
  return code;
}

static int cut_off(struct ommai_batch_output *output) {
  struct earlier earlier = {.output = output};
  int64_t end;
  OMMAI_TRY_CODE(read_lines(&earlier, &end));
  return ftruncate(output->file, end) == 0 ? OMMAI_EXIT_DONE : failed(output->path, "its torn last line cannot be cut off");
}

static int open_standard_output(struct ommai_batch_output *output) {
  output->path = "standard output";
  output->file = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  return output->file < 0 ? failed(output->path, "cannot be written") : OMMAI_EXIT_DONE;
}

int ommai_batch_output_open(const char *path, bool retry_failed, struct ommai_batch_output *output) {
  struct stat status;
  *output = (struct ommai_batch_output){.path = path, .file = -1, .done = json_object(), .bad_lines = json_object()};
  if (!output->done || !output->bad_lines) return ommai_failed("batch: out of memory");
  if (strcmp(path, "-") == 0) return open_standard_output(output);
  output->file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (output->file < 0 || fstat(output->file, &status) != 0) return failed(path, "cannot be written");
  if (!S_ISREG(status.st_mode)) return OMMAI_EXIT_DONE;
  OMMAI_TRY_CODE(lock(path, output->file));
  return retry_failed ? replace(output) : cut_off(output);
}

/* Appends a line, given with its end, in one call: a program that is killed leaves at most the last
 * one torn. Returns an exit code. */
static int write_output(const struct ommai_batch_output *output, const char *line, size_t size) {
  return ommai_file_write_all(output->file, line, size) ? OMMAI_EXIT_DONE : failed(output->path, "cannot be written");
}

int ommai_batch_output_close(struct ommai_batch_output *output) {
  int code = OMMAI_EXIT_DONE;
  /* A pipe cannot be synchronised, and need not be. */
  if (output->file >= 0 && fsync(output->file) != 0 && errno != EINVAL && errno != EROFS)
    code = failed(output->path, "cannot be written");
  if (output->file >= 0) close(output->file);
  json_decref(output->done);
  json_decref(output->bad_lines);
  *output = (struct ommai_batch_output){.file = -1};
  return code;
}

struct run {
  const struct ommai_batch_job *job;
  struct ommai_text_lines lines;
  json_t *seen; /* custom_ids of the lines so far */
  struct ommai_batch_slots slots;
  bool at_end, waits_for_input;
  double started;
  struct ommai_progress progress;
  struct ommai_batch_counts *counts;
};

static void show_progress(struct run *run) {
  const struct ommai_batch_counts *counts = run->counts;
  int64_t done = counts->n_answered + counts->n_failed + counts->n_earlier;
  ommai_progress_count(&run->progress, done, counts->n_earlier, counts->n_failed, run->job->n_lines);
}

/* Writes what came of a request and drops it. */
static int finish(struct run *run, struct ommai_batch_request *request) {
  size_t size;
  char *line = ommai_batch_request_write(request, &size);
  bool answered = ommai_batch_request_status(request) == 200;
  ommai_batch_request_destroy(request);
  if (!line) return ommai_failed("batch: out of memory: a line of output");
  int code = write_output(run->job->output, line, size);
  free(line);
  run->counts->n_answered += answered;
  run->counts->n_failed += !answered;
  return code;
}

/* True when an earlier run has written what comes of this line. A second line with the same
 * custom_id is a bad one. */
static bool is_done(struct run *run, struct ommai_batch_request *request, int64_t number) {
  const struct ommai_batch_output *output = run->job->output;
  const char *id = ommai_batch_request_custom_id(request);
  if (!ommai_batch_request_is_bad(request)) {
    if (!json_object_get(run->seen, id)) {
      json_object_set_new(run->seen, id, json_true());
      return json_object_get(output->done, id) != NULL;
    }
    ommai_batch_request_refuse(request, "custom_id", "An earlier line has this custom_id.");
  }
  char key[32];
  snprintf(key, sizeof key, "%" PRId64, number);
  return json_object_get(output->bad_lines, key) != NULL;
}

static struct ommai_batch_request *read_request(const struct run *run) {
  static const char mark[] = "\xef\xbb\xbf"; /* some editors put it before the first line */
  const struct ommai_text_lines *lines = &run->lines;
  char why[80];
  bool marked = lines->number == 1 && lines->size >= sizeof mark - 1 && memcmp(lines->line, mark, sizeof mark - 1) == 0;
  size_t skipped = marked ? sizeof mark - 1 : 0;
  if (!lines->cut) {
    return ommai_batch_request_read(run->job->server, lines->line + skipped, lines->size - skipped, lines->number);
  }
  struct ommai_batch_request *request = ommai_batch_request_read(run->job->server, "", 0, lines->number);
  snprintf(why, sizeof why, "The line is longer than %zu bytes (--max-body-bytes).", lines->limit);
  if (request) ommai_batch_request_refuse(request, "body", why);
  return request;
}

/* Reads up to the next request that is to be run, NULL at the end; bad lines are written at
 * once. */
static int next_request(struct run *run, struct ommai_batch_request **request) {
  int code = OMMAI_EXIT_DONE;
  *request = NULL;
  while (code == OMMAI_EXIT_DONE && !ommai_interrupted()) {
    enum ommai_text_line got = ommai_text_lines_next(&run->lines);
    run->at_end = got == OMMAI_TEXT_LINE_END;
    run->waits_for_input = got == OMMAI_TEXT_LINE_LATER;
    if (run->at_end || run->waits_for_input) return code;
    if (got == OMMAI_TEXT_LINE_FAILED) {
      return ommai_failed("batch: %s: cannot be read: %s", run->job->input_path, strerror(errno));
    }
    if (ommai_text_is_blank(run->lines.line, run->lines.size)) continue;
    struct ommai_batch_request *read = read_request(run);
    if (!read) return ommai_failed("batch: out of memory: a request");
    if (is_done(run, read, run->lines.number)) {
      run->counts->n_earlier++;
      ommai_batch_request_destroy(read);
    } else if (ommai_batch_request_is_bad(read)) {
      code = finish(run, read);
    } else {
      *request = read;
      return code;
    }
    show_progress(run);
  }
  return code;
}

/* Writes the results that are there. */
static int collect(struct run *run) {
  int code = OMMAI_EXIT_DONE;
  struct ommai_batch_slot *slot;
  while (code == OMMAI_EXIT_DONE && (slot = ommai_batch_slots_done(&run->slots)) != NULL) {
    code = finish(run, slot->request);
    slot->request = NULL;
  }
  return code;
}

static int fill(struct run *run) {
  int code = OMMAI_EXIT_DONE;
  struct ommai_batch_slot *slot;
  run->waits_for_input = false;
  while (code == OMMAI_EXIT_DONE && !run->at_end && !run->waits_for_input &&
         (slot = ommai_batch_slots_free(&run->slots)) != NULL) {
    struct ommai_batch_request *request;
    code = next_request(run, &request);
    if (!request) break;
    ommai_batch_slots_start(&run->slots, slot, request, NULL);
  }
  return code;
}

static int answer_lines(struct run *run) {
  for (;;) {
    int code = collect(run);
    if (code == OMMAI_EXIT_DONE && !ommai_interrupted()) code = fill(run);
    if (code != OMMAI_EXIT_DONE || ommai_interrupted()) return code;
    if (ommai_batch_slots_idle(&run->slots) && run->at_end) return code;
    show_progress(run);
    if (run->waits_for_input && !run->slots.n_set_aside) {
      ommai_interrupt_wait_or_read(run->job->input);
    } else if (run->slots.n_running) {
      ommai_interrupt_wait();
    }
  }
}

static void wake(void *context) {
  (void)context;
  ommai_interrupt_wake();
}

int ommai_batch_run(const struct ommai_batch_job *job, struct ommai_batch_counts *counts) {
  struct run run = {.job = job,
                    .lines = {.file = job->input, .limit = job->max_line_bytes},
                    .seen = json_object(),
                    .started = ommai_clock_seconds(),
                    .counts = counts};
  *counts = (struct ommai_batch_counts){0};
  int code = OMMAI_EXIT_FAILED;
  if (ommai_batch_slots_init(&run.slots, job->n_parallel, wake, NULL) && run.seen) {
    ommai_progress_begin_long(&run.progress, "batch");
    code = answer_lines(&run);
    ommai_progress_end(&run.progress);
  } else {
    ommai_failed("batch: out of memory");
  }
  counts->seconds = ommai_clock_seconds() - run.started;
  ommai_batch_slots_release(&run.slots);
  ommai_text_lines_release(&run.lines);
  json_decref(run.seen);
  return code;
}
