/* In a build without librsvg. */
#include "base/error.h"
#include "loadtest/load_plot.h"

bool ommai_load_plot_has_png(void) { return false; }

enum omma_status ommai_load_plot_png(const struct ommai_load_report *report, const struct omma_allocator *allocator, FILE *out,
                                     struct omma_error *error) {
  (void)report;
  (void)allocator;
  (void)out;
  return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "this build has no librsvg: a drawing is an SVG");
}
