/* The drawing of a run, as an SVG and, in builds with librsvg, as a PNG that the own reader
 * decodes. */
#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "bench_client/bench_plot.h"
#include "image/image.h"
#include "support/test.h"

#define N_REPLIES 3

static double gaps[] = {0.02, 0.03, 0.01};

/* Two answers and a failure, which took three seconds. */
static void make_replies(struct ommai_reply replies[N_REPLIES]) {
  for (int i = 0; i < N_REPLIES; i++) {
    ommai_reply_init(&replies[i], true, 10, &ommai_default_allocator);
    replies[i].start_time = 100 + 0.1 * i;
    if (i == 2) break;
    replies[i].success = true;
    replies[i].ttft = 0.05;
    replies[i].latency = 0.11;
    replies[i].itls = gaps;
    replies[i].n_itls = 3;
    replies[i].output_tokens = 4;
  }
  replies[2].end_time = replies[2].start_time + 3;
  ommai_reply_fail(&replies[2], "no");
}

typedef enum omma_status (*drawer)(const struct ommai_bench_report *report, const struct omma_allocator *allocator, FILE *out,
                                   struct omma_error *error);

/* The figures are the system allocator's, the drawing `allocator`'s. `n` of the replies are
 * drawn. */
static enum omma_status draw_to(drawer draw, size_t n, FILE *out, const struct omma_allocator *allocator,
                                struct omma_error *error) {
  struct ommai_reply replies[N_REPLIES];
  struct ommai_metrics metrics;
  struct ommai_metrics_settings settings = {.goodput = {NAN, NAN, NAN, NAN, NAN, NAN}};
  make_replies(replies);
  const struct ommai_reply *first = &replies[N_REPLIES - n];
  assert_ok(ommai_metrics_compute(&settings, first, n, 1, &ommai_default_allocator, &metrics, error), error);
  struct ommai_bench_report report = {.metrics = &metrics, .replies = first};
  enum omma_status status = draw(&report, allocator, out, error);
  ommai_metrics_release(&metrics);
  return status;
}

/* A drawing as bytes, free()'d by the caller. */
static char *draw_bytes(drawer draw, size_t n, size_t *size) {
  char *bytes;
  struct omma_error error;
  FILE *out = open_memstream(&bytes, size);
  assert_non_null(out);
  assert_ok(draw_to(draw, n, out, &ommai_default_allocator, &error), &error);
  assert_int_equal(fclose(out), 0);
  return bytes;
}

static int32_t svg_number(const char *svg, const char *name) {
  const char *at = strstr(svg, name);
  assert_non_null(at);
  return (int32_t)strtol(at + strlen(name), NULL, 10);
}

static void the_svg_has_its_parts(void **state) {
  (void)state;
  static const char *const parts[] = {"Time to first token", "Inter-token latency", "Requests over time", "median 50 ms",
                                      "median 20 ms"};
  size_t size;
  char *svg = draw_bytes(ommai_bench_plot, N_REPLIES, &size);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_non_null(strstr(svg, parts[i]));
  assert_null(strstr(svg, "nan"));
  assert_null(strstr(svg, "inf"));
  free(svg);
}

static void failures_alone_are_drawn(void **state) {
  (void)state;
  size_t size;
  char *svg = draw_bytes(ommai_bench_plot, 1, &size);
  assert_null(strstr(svg, "median"));
  assert_null(strstr(svg, "nan"));
  assert_null(strstr(svg, "inf"));
  free(svg);
}

/* Without a token a failed reply's latency is 0. */
static void a_failure_lasts_until_its_end(void **state) {
  (void)state;
  size_t size;
  char *svg = draw_bytes(ommai_bench_plot, 1, &size), *bar = strstr(svg, "fill=\"#d55e00\"/>");
  assert_non_null(bar);
  while (strncmp(bar, "width=", 6) != 0) bar--;
  assert_true(strtod(bar + 7, NULL) > 800);
  assert_non_null(strstr(svg, ">2.5</text>"));
  free(svg);
}

/* Dark pixels in a rectangle given in the SVG's units. */
static int64_t count_dark(const struct ommai_image *image, int32_t left, int32_t top, int32_t width, int32_t height) {
  int64_t n = 0;
  for (int32_t y = top * OMMAI_PLOT_PNG_SCALE; y < (top + height) * OMMAI_PLOT_PNG_SCALE; y++) {
    for (int32_t x = left * OMMAI_PLOT_PNG_SCALE; x < (left + width) * OMMAI_PLOT_PNG_SCALE; x++) {
      const uint8_t *pixel = &image->pixels[((int64_t)y * image->width + x) * 3];
      n += pixel[0] < 100 && pixel[1] < 100 && pixel[2] < 100;
    }
  }
  return n;
}

static void the_png_is_the_svg_twice_as_large(void **state) {
  (void)state;
  size_t svg_size, png_size;
  struct ommai_image *image;
  struct omma_error error;
  if (!ommai_bench_plot_has_png()) skip();
  char *svg = draw_bytes(ommai_bench_plot, N_REPLIES, &svg_size), *png = draw_bytes(ommai_bench_plot_png, N_REPLIES, &png_size);
  assert_memory_equal(png, "\x89PNG\r\n\x1a\n", 8);
  assert_ok(ommai_image_decode(png, png_size, NULL, &ommai_default_allocator, &image, &error), &error);
  assert_int_equal(image->width, OMMAI_PLOT_PNG_SCALE * svg_number(svg, "width=\""));
  assert_int_equal(image->height, OMMAI_PLOT_PNG_SCALE * svg_number(svg, "height=\""));
  /* Nothing but words and white above the first panel. */
  int64_t n_dark = count_dark(image, 0, 0, image->width / OMMAI_PLOT_PNG_SCALE, 36);
  assert_true(n_dark > 500 && n_dark < (int64_t)image->width * 36 / 4);
  ommai_image_destroy(image);
  free(png);
  free(svg);
}

static void a_png_that_cannot_be_written(void **state) {
  (void)state;
  struct omma_error error;
  FILE *full = fopen("/dev/full", "w");
  if (!ommai_bench_plot_has_png() || !full) skip();
  setbuf(full, NULL);
  assert_fails(draw_to(ommai_bench_plot_png, N_REPLIES, full, &ommai_default_allocator, &error), OMMA_ERROR_IO, "No space",
               &error);
  fclose(full);
}

static void a_build_without_librsvg_reports_it(void **state) {
  (void)state;
  struct omma_error error;
  if (ommai_bench_plot_has_png()) skip();
  assert_fails(draw_to(ommai_bench_plot_png, N_REPLIES, NULL, &ommai_default_allocator, &error), OMMA_ERROR_UNSUPPORTED,
               "librsvg", &error);
}

static enum omma_status draw_nowhere(const struct omma_allocator *allocator, struct omma_error *error) {
  drawer draw = ommai_bench_plot_has_png() ? ommai_bench_plot_png : ommai_bench_plot;
  FILE *out = fopen("/dev/null", "w");
  assert_non_null(out);
  enum omma_status status = draw_to(draw, N_REPLIES, out, allocator, error);
  fclose(out);
  return status;
}

static void an_allocation_fails(void **state) {
  (void)state;
  test_fail_every_allocation(draw_nowhere, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_svg_has_its_parts),         cmocka_unit_test(failures_alone_are_drawn),
      cmocka_unit_test(a_failure_lasts_until_its_end), cmocka_unit_test(the_png_is_the_svg_twice_as_large),
      cmocka_unit_test(a_png_that_cannot_be_written),  cmocka_unit_test(a_build_without_librsvg_reports_it),
      cmocka_unit_test(an_allocation_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
