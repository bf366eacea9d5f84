#include "cli/core/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/core/diagnostics.h"

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
  char share[16] = "";
  progress->last_drawn = now;
  if (part >= 0) snprintf(share, sizeof share, " %.0f %%,", part * 100);
  ommai_note("%s:%s %.0f s%s%s", progress->stage, share, now - progress->started, *progress->details ? "; " : "",
             progress->details);
}

/* The bar and the share, or nothing where the share is not known. */
static void write_bar(double part) {
  char bar[BAR_WIDTH + 1];
  if (part < 0) return;
  memset(bar, '.', BAR_WIDTH);
  memset(bar, '#', (size_t)(part * BAR_WIDTH));
  bar[BAR_WIDTH] = '\0';
  fprintf(stderr, " [%s] %3.0f %%", bar, part * 100);
}

void ommai_progress_update(void *context, int64_t done, int64_t total) {
  struct ommai_progress *progress = context;
  if ((!progress->enabled && !progress->lines) || total == 0) return;
  double now = ommai_clock_seconds(), part = total < 0 ? -1 : (double)done / (double)total;
  if (part > 1) part = 1;
  if (progress->lines) {
    write_line(progress, part, now);
    return;
  }
  if (now - progress->started < FIRST_AFTER_SECONDS) return;
  if (progress->drawn && now - progress->last_drawn < REDRAW_SECONDS && done != total) return;
  fprintf(stderr, "\r%s", progress->stage);
  write_bar(part);
  fprintf(stderr, "  %.1f s  %s\033[K", now - progress->started, progress->details);
  fflush(stderr);
  progress->drawn = true;
  progress->last_drawn = now;
}

void ommai_progress_count(struct ommai_progress *progress, int64_t done, int64_t earlier, int64_t n_failed, int64_t total) {
  double seconds = ommai_clock_seconds() - progress->started, rate = (double)(done - earlier) / (seconds > 0 ? seconds : 1);
  char of_all[32] = "", left[32] = "";
  if (total >= 0) snprintf(of_all, sizeof of_all, "/%" PRId64, total);
  if (total >= 0 && rate > 0) snprintf(left, sizeof left, ", %.0f s left", (double)(total - done) / rate);
  snprintf(progress->details, sizeof progress->details, "%" PRId64 "%s, %" PRId64 " failed, %.2f/s%s", done, of_all, n_failed,
           rate, left);
  ommai_progress_update(progress, done, total);
}

void ommai_progress_end(struct ommai_progress *progress) {
  if (!progress->drawn) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  progress->drawn = false;
}
