/* A drawing of a run. */
#pragma once

#include <stdio.h>

#include "bench_client/bench_report.h"

/* Writes an SVG: the distribution of the time to first token, that of the gaps between tokens, and
 * every request over time (waiting for the first token, then answering; failed ones apart).
 * Errors: MEMORY. */
enum omma_status ommai_bench_plot(const struct ommai_bench_report *report, const struct omma_allocator *allocator, FILE *out,
                                  struct omma_error *error);

/* Whether this build can write the drawing as a PNG. */
bool ommai_bench_plot_has_png(void);

/* Pixels of the PNG per unit of the SVG. */
#define OMMAI_PLOT_PNG_SCALE 2

/* Writes the same drawing as a PNG; its words are set in whatever sans-serif font the system has.
 * Errors: UNSUPPORTED (a build without librsvg), MEMORY, INTERNAL (with the library's message),
 * IO. */
enum omma_status ommai_bench_plot_png(const struct ommai_bench_report *report, const struct omma_allocator *allocator,
                                      FILE *out, struct omma_error *error);
