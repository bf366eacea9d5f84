#include "bench_client/bench_plot.h"

#include <math.h>

#include "base/allocator.h"
#include "base/error.h"

#define PLOT_WIDTH 960.0
#define MARGIN 70.0
#define HISTOGRAM_HEIGHT 150.0
#define HISTOGRAM_BARS 60
#define TIMELINE_HEIGHT 420.0
#define PANEL_GAP 84.0
#define TICKS 6
/* Of a span, so that a request that failed at once is seen. */
#define MIN_WIDTH 2.0

static const char waiting_colour[] = "#e69f00", answering_colour[] = "#0072b2", failed_colour[] = "#d55e00";

/* A panel with its axes; x runs over [0, x_end], y over [0, y_end]. */
struct panel {
  double top, height, x_end, y_end;
};

static double x_of(const struct panel *panel, double value) {
  return MARGIN + value / panel->x_end * (PLOT_WIDTH - 2 * MARGIN);
}

/* The largest of 1, 2, 5 * 10^n that gives at least `n` steps up to `end`. */
static double tick_step(double end, int n) {
  double raw = end / n, power = pow(10, floor(log10(raw))), lead = raw / power;
  return (lead >= 5 ? 5 : lead >= 2 ? 2 : 1) * power;
}

/* `top` and `bottom` are what stands at the ends of the y axis; `title` may hold tspan elements.
 * The room between title and panel is for the name of a mark. */
static void draw_axes(const struct panel *panel, const char *title, const char *x_name, const char *top, const char *bottom,
                      FILE *out) {
  double floor_y = panel->top + panel->height, step = tick_step(panel->x_end, TICKS);
  fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"title\">%s</text>\n", MARGIN, panel->top - 26, title);
  for (double value = 0; value <= panel->x_end * (1 + 1e-9); value += step) {
    double x = x_of(panel, value);
    fprintf(out, "<path d=\"M%.1f %.1fV%.1f\" class=\"grid\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.6g</text>\n",
            x, panel->top, floor_y, x, floor_y + 16, value);
  }
  fprintf(out, "<path d=\"M%.1f %.1fV%.1fH%.1f\" class=\"axis\"/>\n", MARGIN, panel->top, floor_y, PLOT_WIDTH - MARGIN);
  fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", PLOT_WIDTH / 2, floor_y + 34, x_name);
  fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", MARGIN - 6, panel->top + 10, top);
  fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", MARGIN - 6, floor_y, bottom);
}

/* A mark with its name above the panel, on the side where there is room. */
static void draw_mark(const struct panel *panel, double value, const char *name, FILE *out) {
  double x = x_of(panel, value);
  bool on_left = x > PLOT_WIDTH / 2;
  fprintf(out, "<path d=\"M%.1f %.1fV%.1f\" class=\"mark\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s %.4g ms</text>\n",
          x, panel->top - 16, panel->top + panel->height, on_left ? x - 4 : x + 4, panel->top - 7, on_left ? "end" : "start",
          name, value);
}

/* A histogram of `values`, in milliseconds, with the median marked. */
static void draw_histogram(const double *values, size_t n, double median, double top, const char *title, FILE *out) {
  size_t counts[HISTOGRAM_BARS] = {0};
  struct panel panel = {.top = top, .height = HISTOGRAM_HEIGHT, .x_end = n ? 1e-3 : 1};
  for (size_t i = 0; i < n; i++) panel.x_end = fmax(panel.x_end, values[i]);
  for (size_t i = 0; i < n; i++) {
    int bar = (int)(values[i] / panel.x_end * HISTOGRAM_BARS);
    if (bar >= HISTOGRAM_BARS) bar = HISTOGRAM_BARS - 1;
    if (++counts[bar] > panel.y_end) panel.y_end = (double)counts[bar];
  }
  if (n == 0) panel.y_end = 1;
  char y_end_text[24];
  snprintf(y_end_text, sizeof y_end_text, "%.0f", panel.y_end);
  draw_axes(&panel, title, "ms", y_end_text, "0", out);
  double width = (PLOT_WIDTH - 2 * MARGIN) / HISTOGRAM_BARS;
  for (int bar = 0; bar < HISTOGRAM_BARS; bar++) {
    double height = (double)counts[bar] / panel.y_end * panel.height;
    if (counts[bar] == 0) continue;
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", MARGIN + bar * width,
            panel.top + panel.height - height, width - 1, height, answering_colour);
  }
  if (n) draw_mark(&panel, median, "median", out);
}

static void draw_span(const struct panel *panel, double from, double to, double y, double height, const char *colour,
                      FILE *out) {
  fprintf(out, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n", x_of(panel, from), y,
          fmax(x_of(panel, to) - x_of(panel, from), MIN_WIDTH), height, colour);
}

/* Seconds from the sending to the last token, or to the failure: a failed reply's latency ends with
 * its last token, if it had any. */
static double length_of(const struct ommai_reply *reply) {
  return reply->success ? reply->latency : reply->end_time - reply->start_time;
}

static void draw_request(const struct panel *panel, const struct ommai_reply *reply, double start, double y, double height,
                         FILE *out) {
  double first = start + reply->ttft, end = start + length_of(reply);
  if (!reply->success) {
    draw_span(panel, start, end, y, height, failed_colour, out);
    return;
  }
  draw_span(panel, start, first, y, height, waiting_colour, out);
  if (reply->n_itls) draw_span(panel, first, end, y, height, answering_colour, out);
}

static void draw_timeline(const struct ommai_bench_report *report, double top, FILE *out) {
  size_t n = report->metrics->n;
  double first = INFINITY;
  struct panel panel = {.top = top, .height = TIMELINE_HEIGHT, .x_end = 1e-3};
  for (size_t i = 0; i < n; i++) {
    if (report->replies[i].start_time > 0) first = fmin(first, report->replies[i].start_time);
  }
  for (size_t i = 0; i < n; i++) {
    const struct ommai_reply *reply = &report->replies[i];
    if (reply->start_time > 0) panel.x_end = fmax(panel.x_end, reply->start_time + length_of(reply) - first);
  }
  char title[400], last[24];
  snprintf(title, sizeof title,
           "Requests over time: <tspan fill=\"%s\">waiting for the first token</tspan>, <tspan fill=\"%s\">answering</tspan>, "
           "<tspan fill=\"%s\">failed</tspan>",
           waiting_colour, answering_colour, failed_colour);
  snprintf(last, sizeof last, "%zu", n);
  draw_axes(&panel, title, "s", "request 1", last, out);
  double height = panel.height / (double)n;
  for (size_t i = 0; i < n; i++) {
    const struct ommai_reply *reply = &report->replies[i];
    double y = panel.top + (double)i * height, start = reply->start_time - first, bar = height > 2 ? height - 1 : height;
    if (reply->start_time <= 0) continue;
    draw_request(&panel, reply, start, y, bar, out);
  }
}

/* All values of one kind in milliseconds; returns how many. */
static size_t collect(const struct ommai_bench_report *report, bool gaps, double *values) {
  size_t n = 0;
  for (size_t i = 0; i < report->metrics->n; i++) {
    const struct ommai_reply *reply = &report->replies[i];
    if (!reply->success) continue;
    if (!gaps) values[n++] = reply->ttft * 1e3;
    for (size_t k = 0; gaps && k < reply->n_itls; k++) values[n++] = reply->itls[k] * 1e3;
  }
  return n;
}

enum omma_status ommai_bench_plot(const struct ommai_bench_report *report, const struct omma_allocator *allocator, FILE *out,
                                  struct omma_error *error) {
  const struct ommai_statistics *statistics = report->metrics->statistics;
  size_t room = report->metrics->n + 1;
  for (size_t i = 0; i < report->metrics->n; i++) room += report->replies[i].n_itls;
  double *values = ommai_allocate_uninitialised(allocator, room, sizeof *values);
  if (!values) return ommai_fail_memory(error, "the drawing", room * sizeof *values);
  double top = 56, step = HISTOGRAM_HEIGHT + PANEL_GAP, height = top + 2 * step + TIMELINE_HEIGHT + PANEL_GAP;
  fprintf(out,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
          "%.0f\">\n<style>text{font:12px "
          "sans-serif;fill:#222}.title{font-size:14px;font-weight:bold}.more{font-weight:normal}.axis{fill:none;stroke:#888}"
          ".grid{stroke:#e5e5e5}.mark{stroke:#d55e00;"
          "stroke-dasharray:4 3}</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
          PLOT_WIDTH, height, PLOT_WIDTH, height);
  size_t n = collect(report, false, values);
  draw_histogram(values, n, statistics[OMMAI_METRIC_TTFT].median * 1e3, top,
                 "Time to first token<tspan class=\"more\">, number of requests</tspan>", out);
  n = collect(report, true, values);
  draw_histogram(values, n, statistics[OMMAI_METRIC_ITL].median * 1e3, top + step,
                 "Inter-token latency<tspan class=\"more\">, number of gaps</tspan>", out);
  draw_timeline(report, top + 2 * step, out);
  fputs("</svg>\n", out);
  ommai_release(allocator, values, room, sizeof *values);
  return OMMA_OK;
}
