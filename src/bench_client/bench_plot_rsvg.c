/* The drawing as a PNG: the SVG, painted by librsvg on a cairo surface. Both take their memory from
 * malloc. They are loaded when a drawing is wanted: linked, they and three dozen libraries behind
 * them would double the time in which every command starts. */
#include <cairo.h>
#include <errno.h>
#include <librsvg/rsvg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/shared_library.h"
#include "bench_client/bench_plot.h"

#define LIBRARY "librsvg-2.so.2"

/* What is called of librsvg, and of cairo and GLib, which it brings along: each by its own name and
 * type. */
#define FUNCTIONS(X)                          \
  X(rsvg_handle_new_from_data)                \
  X(rsvg_handle_get_intrinsic_size_in_pixels) \
  X(rsvg_handle_render_document)              \
  X(cairo_image_surface_create)               \
  X(cairo_surface_write_to_png_stream)        \
  X(cairo_surface_destroy)                    \
  X(cairo_create)                             \
  X(cairo_status)                             \
  X(cairo_status_to_string)                   \
  X(cairo_destroy)                            \
  X(g_error_free)                             \
  X(g_object_unref)

/* GLib, which comes along, cannot be unloaded. */
OMMAI_LIBRARY(painter, LIBRARY, FUNCTIONS)

bool ommai_bench_plot_has_png(void) {
  struct painter painter;
  return load_painter(&painter);
}

/* Takes `problem` over. */
static enum omma_status fail_by_library(const struct painter *painter, struct omma_error *error, GError *problem) {
  enum omma_status status = ommai_fail(error, OMMA_ERROR_INTERNAL, "the drawing as a PNG: librsvg: %s", problem->message);
  painter->g_error_free(problem);
  return status;
}

static cairo_status_t write_bytes(void *context, const unsigned char *bytes, unsigned int size) {
  FILE *out = context;
  return fwrite(bytes, 1, size, out) == size ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

static enum omma_status check_cairo(const struct painter *painter, cairo_status_t status, struct omma_error *error) {
  switch (status) {
    case CAIRO_STATUS_SUCCESS: return OMMA_OK;
    case CAIRO_STATUS_NO_MEMORY: return ommai_fail_memory(error, "the drawing as a PNG", 0);
    case CAIRO_STATUS_WRITE_ERROR:
      return ommai_fail(error, OMMA_ERROR_IO, "the drawing as a PNG: cannot write: %s", strerror(errno));
    default: return ommai_fail(error, OMMA_ERROR_INTERNAL, "the drawing as a PNG: %s", painter->cairo_status_to_string(status));
  }
}

static enum omma_status paint(const struct painter *painter, RsvgHandle *drawing, FILE *out, struct omma_error *error) {
  double width, height;
  GError *problem = NULL;
  enum omma_status status = OMMA_OK;
  if (!painter->rsvg_handle_get_intrinsic_size_in_pixels(drawing, &width, &height)) {
    return ommai_fail(error, OMMA_ERROR_INTERNAL, "the drawing as a PNG: librsvg finds no size");
  }
  RsvgRectangle all = {.width = ceil(width) * OMMAI_PLOT_PNG_SCALE, .height = ceil(height) * OMMAI_PLOT_PNG_SCALE};
  cairo_surface_t *surface = painter->cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)all.width, (int)all.height);
  cairo_t *cairo = painter->cairo_create(surface);
  if (!painter->rsvg_handle_render_document(drawing, cairo, &all, &problem)) status = fail_by_library(painter, error, problem);
  if (status == OMMA_OK) status = check_cairo(painter, painter->cairo_status(cairo), error);
  if (status == OMMA_OK) {
    status = check_cairo(painter, painter->cairo_surface_write_to_png_stream(surface, write_bytes, out), error);
  }
  painter->cairo_destroy(cairo);
  painter->cairo_surface_destroy(surface);
  return status;
}

/* The SVG as a text; *text is free()'d by the caller, in every case. */
static enum omma_status draw(const struct ommai_bench_report *report, const struct omma_allocator *allocator, char **text,
                             size_t *size, struct omma_error *error) {
  FILE *memory = open_memstream(text, size);
  if (!memory) return ommai_fail_memory(error, "the drawing", 0);
  enum omma_status status = ommai_bench_plot(report, allocator, memory, error);
  int failed = ferror(memory);
  failed |= fclose(memory);
  return status == OMMA_OK && failed ? ommai_fail_memory(error, "the drawing", 0) : status;
}

enum omma_status ommai_bench_plot_png(const struct ommai_bench_report *report, const struct omma_allocator *allocator,
                                      FILE *out, struct omma_error *error) {
  struct painter painter;
  char *text = NULL;
  size_t size = 0;
  GError *problem = NULL;
  RsvgHandle *drawing = NULL;
  if (!load_painter(&painter)) return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "the drawing as a PNG: cannot load " LIBRARY);
  enum omma_status status = draw(report, allocator, &text, &size, error);
  if (status == OMMA_OK) drawing = painter.rsvg_handle_new_from_data((const guint8 *)text, size, &problem);
  if (status == OMMA_OK) status = drawing ? paint(&painter, drawing, out, error) : fail_by_library(&painter, error, problem);
  if (drawing) painter.g_object_unref(drawing);
  free(text);
  return status;
}
