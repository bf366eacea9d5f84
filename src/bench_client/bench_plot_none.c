/* In a build without librsvg. */
#include "base/error.h"
#include "bench_client/bench_plot.h"

bool ommai_bench_plot_has_png(void) { return false; }

enum omma_status ommai_bench_plot_png(const struct ommai_bench_report *report, const struct omma_allocator *allocator,
                                      FILE *out, struct omma_error *error) {
  (void)report;
  (void)allocator;
  (void)out;
  return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "this build has no librsvg: a drawing is an SVG");
}
