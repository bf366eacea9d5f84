#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define BAR_WIDTH 30
#define FIRST_AFTER_SECONDS 0.3
#define REDRAW_SECONDS 0.1

void ommai_progress_begin(struct ommai_progress *progress, const char *stage) {
  *progress = (struct ommai_progress){.enabled = isatty(STDERR_FILENO) == 1, .stage = stage};
  progress->started = ommai_clock_seconds();
}

void ommai_progress_update(void *context, int64_t done, int64_t total) {
  struct ommai_progress *progress = context;
  if (!progress->enabled || total <= 0) return;
  double now = ommai_clock_seconds();
  if (now - progress->started < FIRST_AFTER_SECONDS) return;
  if (progress->drawn && now - progress->last_drawn < REDRAW_SECONDS && done < total) return;
  double part = (double)done / (double)total;
  if (part > 1) part = 1;
  if (part < 0) part = 0;
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
