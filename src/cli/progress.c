#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/diagnostics.h"

#define BAR_WIDTH 30
#define FIRST_AFTER_SECONDS 0.3
#define REDRAW_SECONDS 0.1
#define FIRST_LINE_SECONDS 10
#define NEXT_LINE_SECONDS 30

void ommai_progress_begin(struct ommai_progress *progress, const char *stage) {
  *progress = (struct ommai_progress){.enabled = isatty(STDERR_FILENO) == 1, .stage = stage};
  progress->started = ommai_clock_seconds();
}

void ommai_progress_begin_long(struct ommai_progress *progress, const char *stage) {
  ommai_progress_begin(progress, stage);
  progress->lines = !progress->enabled;
  progress->last_drawn = progress->started + FIRST_LINE_SECONDS - NEXT_LINE_SECONDS;
}

/* A line of a log. */
static void write_line(struct ommai_progress *progress, double part, double now) {
  if (now - progress->last_drawn < NEXT_LINE_SECONDS) return;
  progress->last_drawn = now;
  ommai_note("%s: %.0f %%, %.0f s%s%s", progress->stage, part * 100, now - progress->started, *progress->details ? "; " : "",
             progress->details);
}

void ommai_progress_update(void *context, int64_t done, int64_t total) {
  struct ommai_progress *progress = context;
  if ((!progress->enabled && !progress->lines) || total <= 0) return;
  double now = ommai_clock_seconds(), part = (double)done / (double)total;
  if (part > 1) part = 1;
  if (part < 0) part = 0;
  if (progress->lines) {
    write_line(progress, part, now);
    return;
  }
  if (now - progress->started < FIRST_AFTER_SECONDS) return;
  if (progress->drawn && now - progress->last_drawn < REDRAW_SECONDS && done < total) return;
  char bar[BAR_WIDTH + 1];
  memset(bar, '.', BAR_WIDTH);
  memset(bar, '#', (size_t)(part * BAR_WIDTH));
  bar[BAR_WIDTH] = '\0';
  fprintf(stderr, "\r%s [%s] %3.0f %%  %.1f s  %s\033[K", progress->stage, bar, part * 100, now - progress->started,
          progress->details);
  fflush(stderr);
  progress->drawn = true;
  progress->last_drawn = now;
}

void ommai_progress_end(struct ommai_progress *progress) {
  if (!progress->drawn) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  progress->drawn = false;
}
