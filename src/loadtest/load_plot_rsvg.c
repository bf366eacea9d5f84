/* The drawing as a PNG: the SVG, painted by librsvg on a cairo surface. Both take their memory from malloc. */
#include <cairo.h>
#include <errno.h>
#include <librsvg/rsvg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "loadtest/load_plot.h"

bool ommai_load_plot_has_png(void) { return true; }

/* Takes `problem` over. */
static enum omma_status fail_by_library(struct omma_error *error, GError *problem) {
  enum omma_status status = ommai_fail(error, OMMA_ERROR_INTERNAL, "the drawing as a PNG: librsvg: %s", problem->message);
  g_error_free(problem);
  return status;
}

static cairo_status_t write_bytes(void *context, const unsigned char *bytes, unsigned int size) {
  FILE *out = context;
  return fwrite(bytes, 1, size, out) == size ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

static enum omma_status check_cairo(cairo_status_t status, struct omma_error *error) {
  switch (status) {
    case CAIRO_STATUS_SUCCESS: return OMMA_OK;
    case CAIRO_STATUS_NO_MEMORY: return ommai_fail_memory(error, "the drawing as a PNG", 0);
    case CAIRO_STATUS_WRITE_ERROR:
      return ommai_fail(error, OMMA_ERROR_IO, "the drawing as a PNG: cannot write: %s", strerror(errno));
    default: return ommai_fail(error, OMMA_ERROR_INTERNAL, "the drawing as a PNG: %s", cairo_status_to_string(status));
  }
}

static enum omma_status paint(RsvgHandle *drawing, FILE *out, struct omma_error *error) {
  double width, height;
  GError *problem = NULL;
  enum omma_status status = OMMA_OK;
  if (!rsvg_handle_get_intrinsic_size_in_pixels(drawing, &width, &height)) {
    return ommai_fail(error, OMMA_ERROR_INTERNAL, "the drawing as a PNG: librsvg finds no size");
  }
  RsvgRectangle all = {.width = ceil(width) * OMMAI_PLOT_PNG_SCALE, .height = ceil(height) * OMMAI_PLOT_PNG_SCALE};
  cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)all.width, (int)all.height);
  cairo_t *painter = cairo_create(surface);
  if (!rsvg_handle_render_document(drawing, painter, &all, &problem)) status = fail_by_library(error, problem);
  if (status == OMMA_OK) status = check_cairo(cairo_status(painter), error);
  if (status == OMMA_OK) status = check_cairo(cairo_surface_write_to_png_stream(surface, write_bytes, out), error);
  cairo_destroy(painter);
  cairo_surface_destroy(surface);
  return status;
}

/* The SVG as a text; *text is free()'d by the caller, in every case. */
static enum omma_status draw(const struct ommai_load_report *report, const struct omma_allocator *allocator, char **text,
                             size_t *size, struct omma_error *error) {
  FILE *memory = open_memstream(text, size);
  if (!memory) return ommai_fail_memory(error, "the drawing", 0);
  enum omma_status status = ommai_load_plot(report, allocator, memory, error);
  int failed = ferror(memory) | fclose(memory);
  return status == OMMA_OK && failed ? ommai_fail_memory(error, "the drawing", 0) : status;
}

enum omma_status ommai_load_plot_png(const struct ommai_load_report *report, const struct omma_allocator *allocator, FILE *out,
                                     struct omma_error *error) {
  char *text = NULL;
  size_t size = 0;
  GError *problem = NULL;
  RsvgHandle *drawing = NULL;
  enum omma_status status = draw(report, allocator, &text, &size, error);
  if (status == OMMA_OK) drawing = rsvg_handle_new_from_data((const guint8 *)text, size, &problem);
  if (status == OMMA_OK) status = drawing ? paint(drawing, out, error) : fail_by_library(error, problem);
  if (drawing) g_object_unref(drawing);
  free(text);
  return status;
}
