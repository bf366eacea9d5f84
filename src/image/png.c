/* PNG by libpng: every colour type and depth, interlaced or not, to RGB; transparency on white. */
#include <setjmp.h>
#include <string.h>

#include <png.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "image/codec.h"

struct reader {
  png_structp png;
  png_infop info;
  jmp_buf failed;
  const struct ommai_image_source *source;
  size_t at; /* bytes read so far */
  struct ommai_image *image;
  /* where the image is transparent: one row, or all of them where it is interlaced;
   * [.][width][4] */
  uint8_t *rgba;
  size_t rgba_pixels;
  struct omma_error *error;
  enum omma_status status;
  int32_t width, height;
  int64_t scratch_bytes;
};

/* Chunks that do not change the pixels we want. They are skipped unread: some are compressed
 * without a bound. */
static const png_byte skipped_chunks[] =
    "cHRM\0gAMA\0iCCP\0sRGB\0sBIT\0hIST\0pCAL\0sCAL\0sPLT\0pHYs\0oFFs\0tEXt\0zTXt\0iTXt\0tIME\0bKGD\0eXIf";

static _Noreturn void leave(struct reader *reader, enum omma_status status) {
  reader->status = status;
  longjmp(reader->failed, 1);
}

static _Noreturn void on_error(png_structp png, png_const_charp text) {
  struct reader *reader = png_get_error_ptr(png);
  enum omma_status status = strstr(text, "memory") ? OMMA_ERROR_MEMORY : OMMA_ERROR_FORMAT;
  leave(reader, ommai_fail(reader->error, status, "broken PNG: %s", text));
}

static void on_warning(png_structp png, png_const_charp text) {
  (void)png;
  (void)text;
}

static void on_read(png_structp png, png_bytep out, size_t size) {
  struct reader *reader = png_get_io_ptr(png);
  if (size > reader->source->size - reader->at) {
    leave(reader, ommai_image_fail_truncated(reader->error, "PNG", reader->source->size));
  }
  memcpy(out, reader->source->bytes + reader->at, size);
  reader->at += size;
}

static enum omma_status open_reader(struct reader *reader) {
  reader->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, reader, on_error, on_warning);
  if (reader->png) reader->info = png_create_info_struct(reader->png);
  if (!reader->info) return ommai_fail_memory(reader->error, "a PNG reader", sizeof *reader);
  png_set_read_fn(reader->png, reader, on_read);
  png_set_keep_unknown_chunks(reader->png, PNG_HANDLE_CHUNK_NEVER, skipped_chunks, (int)(sizeof skipped_chunks / 5));
  /* our limits give the better message */
  png_set_user_limits(reader->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  return OMMA_OK;
}

static bool is_transparent(const struct reader *reader) {
  bool transparent = (png_get_color_type(reader->png, reader->info) & PNG_COLOR_MASK_ALPHA) != 0;
  return transparent || png_get_valid(reader->png, reader->info, PNG_INFO_tRNS) != 0;
}

static bool is_interlaced(const struct reader *reader) {
  return png_get_interlace_type(reader->png, reader->info) != PNG_INTERLACE_NONE;
}

/* Pixels of the RGBA buffer that a transparent image needs. */
static size_t rgba_pixels_of(const struct reader *reader) {
  return (size_t)reader->width * (is_interlaced(reader) ? (size_t)reader->height : 1);
}

static enum omma_status read_header(struct reader *reader) {
  png_read_info(reader->png, reader->info);
  png_uint_32 width = png_get_image_width(reader->png, reader->info);
  png_uint_32 height = png_get_image_height(reader->png, reader->info);
  OMMAI_TRY(ommai_image_check_size(reader->source->limits, "PNG", width, height, reader->error));
  reader->width = (int32_t)width;
  reader->height = (int32_t)height;
  reader->scratch_bytes = is_transparent(reader) && is_interlaced(reader) ? (int64_t)rgba_pixels_of(reader) * 4 : 0;
  return OMMA_OK;
}

/* Asks libpng for 8-bit RGB, or RGBA where the file has any transparency. */
static void set_transformations(struct reader *reader) {
  png_set_expand(reader->png);
  png_set_strip_16(reader->png);
  png_set_gray_to_rgb(reader->png);
}

static void start_rows(struct reader *reader, size_t row_size) {
  png_read_update_info(reader->png, reader->info);
  if (png_get_rowbytes(reader->png, reader->info) != row_size) png_error(reader->png, "unexpected size of a row");
}

static void read_row(struct reader *reader, uint8_t *row) {
  enum omma_status status = ommai_image_check_time(reader->source, "PNG", reader->error);
  if (status != OMMA_OK) leave(reader, status);
  png_read_row(reader->png, row, NULL);
}

/* All rows, in as many passes as the file has. */
static void read_rows(struct reader *reader, uint8_t *pixels, size_t row_size) {
  int n_passes = png_set_interlace_handling(reader->png);
  start_rows(reader, row_size);
  for (int pass = 0; pass < n_passes; pass++) {
    for (int32_t y = 0; y < reader->height; y++) read_row(reader, pixels + (size_t)y * row_size);
  }
}

static void read_transparent_rows(struct reader *reader) {
  size_t width = (size_t)reader->width;
  uint8_t *pixels = reader->image->pixels;
  if (is_interlaced(reader)) {
    read_rows(reader, reader->rgba, width * 4);
    ommai_image_paint_on_white(reader->rgba, pixels, (int64_t)reader->rgba_pixels);
    return;
  }
  start_rows(reader, width * 4);
  for (int32_t y = 0; y < reader->height; y++) {
    read_row(reader, reader->rgba);
    ommai_image_paint_on_white(reader->rgba, pixels + (size_t)y * width * 3, reader->width);
  }
}

static enum omma_status read_pixels(struct reader *reader) {
  OMMAI_TRY(ommai_image_take_pixels(reader->image, reader->width, reader->height, reader->error));
  set_transformations(reader);
  if (!is_transparent(reader)) {
    read_rows(reader, reader->image->pixels, (size_t)reader->width * 3);
    return OMMA_OK;
  }
  reader->rgba_pixels = rgba_pixels_of(reader);
  reader->rgba = ommai_allocate(&reader->image->allocator, reader->rgba_pixels, 4);
  if (!reader->rgba) return ommai_fail_memory(reader->error, "a transparent PNG", reader->rgba_pixels * 4);
  read_transparent_rows(reader);
  return OMMA_OK;
}

/* Everything that may leave through longjmp. Nothing here is kept in a local variable across the
 * jump. */
static enum omma_status guarded(struct reader *reader) {
  if (setjmp(reader->failed) != 0) return reader->status;
  OMMAI_TRY(open_reader(reader));
  OMMAI_TRY(read_header(reader));
  return reader->image ? read_pixels(reader) : OMMA_OK;
}

static enum omma_status read_png(struct reader *reader) {
  enum omma_status status = guarded(reader);
  if (reader->rgba) ommai_release(&reader->image->allocator, reader->rgba, reader->rgba_pixels, 4);
  png_destroy_read_struct(&reader->png, &reader->info, NULL);
  return status;
}

enum omma_status ommai_png_read_header(const struct ommai_image_source *source, struct ommai_stored_header *header,
                                       struct omma_error *error) {
  struct reader reader = {.source = source, .error = error};
  OMMAI_TRY(read_png(&reader));
  *header = (struct ommai_stored_header){reader.width, reader.height, reader.scratch_bytes};
  return OMMA_OK;
}

enum omma_status ommai_png_decode(const struct ommai_image_source *source, struct ommai_image *image,
                                  struct omma_error *error) {
  struct reader reader = {.source = source, .image = image, .error = error};
  return read_png(&reader);
}
