/* Lines about engines that do not answer. */
#include <stdio.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "server/server.h"

void ommai_server_log_engine(void *context, int engine, bool answers) {
  const struct ommai_log *log = context;
  struct ommai_log_line line;
  char note[160], now[OMMAI_CLOCK_UTC_SIZE], dated[sizeof note + sizeof now];
  snprintf(note, sizeof note, "omma: engine %d %s", engine,
           answers ? "answers again, and gets requests as the others do"
                   : "does not answer: it gets no more requests, and those that it had go on at the others");
  if (!log->put) {
    fprintf(stderr, "%s\n", note);
    return;
  }
  if (log->json) {
    ommai_log_line_begin(&line, &ommai_default_allocator, true, answers ? "info" : "error", "engine");
    ommai_log_line_integer(&line, "engine", engine);
    ommai_log_line_string(&line, "message", note);
    ommai_log_line_send(&line, log);
    return;
  }
  ommai_clock_utc(now);
  snprintf(dated, sizeof dated, "%s %s", now, note);
  log->put(log->context, dated);
}
