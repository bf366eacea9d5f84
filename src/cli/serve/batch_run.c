/* One thread reads lines, starts requests and writes what came of them, in the order in which they
 * end. Requests run on the server's workers, which prepare them, and on the engine; their number
 * at once is bounded, and with it the memory. */
#include "cli/serve/batch_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/core/progress.h"
#include "cli/core/text_lines.h"
#include "server/api/batch_request.h"
#include "server/api/batch_slots.h"

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
  int code = ommai_batch_output_write(run->job->output, line, size);
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
