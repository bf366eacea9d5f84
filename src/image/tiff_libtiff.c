/* TIFF by libtiff's RGBA interface: the first page, of any layout that libtiff knows; samples of 16
 * bits are rounded to 8 by libtiff. */
#include <stdio.h>
#include <string.h>

#include <tiffio.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/shared_library.h"
#include "image/codec.h"

#define LIBRARY "libtiff.so.6"
/* What libtiff may allocate at once next to the size of the file: tables, and a strip or tile of
 * 16-bit samples. */
#define TABLE_BYTES ((int64_t)16 << 20)
enum { STRIP_BYTES = 8, RASTER_BYTES = 4 }; /* a pixel */

#define FUNCTIONS(X)                      \
  X(TIFFOpenOptionsAlloc)                 \
  X(TIFFOpenOptionsFree)                  \
  X(TIFFOpenOptionsSetMaxSingleMemAlloc)  \
  X(TIFFOpenOptionsSetErrorHandlerExtR)   \
  X(TIFFOpenOptionsSetWarningHandlerExtR) \
  X(TIFFClientOpenExt)                    \
  X(TIFFClose)                            \
  X(TIFFGetField)                         \
  X(TIFFRGBAImageBegin)                   \
  X(TIFFRGBAImageGet)                     \
  X(TIFFRGBAImageEnd)

OMMAI_LIBRARY(libtiff, LIBRARY, FUNCTIONS)

bool ommai_tiff_available(void) {
  struct libtiff functions;
  return load_libtiff(&functions);
}

struct reader {
  struct libtiff lib;
  const struct ommai_image_source *source;
  TIFF *tiff;
  toff_t at;
  int32_t width, height;
  char problem[256]; /* the first that libtiff names */
};

static tmsize_t on_read(thandle_t context, void *out, tmsize_t size) {
  struct reader *reader = context;
  toff_t end = reader->source->size, left = reader->at < end ? end - reader->at : 0;
  size_t n = (size_t)size < left ? (size_t)size : (size_t)left;
  memcpy(out, reader->source->bytes + (left ? reader->at : 0), n);
  reader->at += n;
  return (tmsize_t)n;
}

static tmsize_t on_write(thandle_t context, void *bytes, tmsize_t size) {
  (void)context, (void)bytes, (void)size;
  return 0;
}

static toff_t on_seek(thandle_t context, toff_t offset, int whence) {
  struct reader *reader = context;
  toff_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? reader->at : reader->source->size;
  return reader->at = base + offset;
}

static int on_close(thandle_t context) {
  (void)context;
  return 0;
}

static toff_t on_size(thandle_t context) { return ((struct reader *)context)->source->size; }

static int on_error(TIFF *tiff, void *context, const char *module, const char *format, va_list arguments) {
  struct reader *reader = context;
  (void)tiff, (void)module;
  if (!reader->problem[0]) vsnprintf(reader->problem, sizeof reader->problem, format, arguments);
  return 1;
}

static int on_warning(TIFF *tiff, void *context, const char *module, const char *format, va_list arguments) {
  (void)tiff, (void)context, (void)module, (void)format, (void)arguments;
  return 1;
}

static enum omma_status fail_tiff(const struct reader *reader, struct omma_error *error) {
  return ommai_fail(error, OMMA_ERROR_FORMAT, "broken TIFF: %s", reader->problem[0] ? reader->problem : "it holds no image");
}

static enum omma_status open_reader(struct reader *reader, struct omma_error *error) {
  if (!load_libtiff(&reader->lib)) return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "TIFF images need %s", LIBRARY);
  TIFFOpenOptions *options = reader->lib.TIFFOpenOptionsAlloc();
  if (!options) return ommai_fail_memory(error, "a TIFF reader", sizeof *reader);
  int64_t max_bytes = reader->source->limits->max_pixels * STRIP_BYTES + TABLE_BYTES;
  reader->lib.TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)max_bytes);
  reader->lib.TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, reader);
  reader->lib.TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, reader);
  reader->tiff =
      reader->lib.TIFFClientOpenExt("image", "rm", reader, on_read, on_write, on_seek, on_close, on_size, NULL, NULL, options);
  reader->lib.TIFFOpenOptionsFree(options);
  if (!reader->tiff) return fail_tiff(reader, error);
  uint32_t width = 0, height = 0;
  if (!reader->lib.TIFFGetField(reader->tiff, TIFFTAG_IMAGEWIDTH, &width) ||
      !reader->lib.TIFFGetField(reader->tiff, TIFFTAG_IMAGELENGTH, &height)) {
    return fail_tiff(reader, error);
  }
  OMMAI_TRY(ommai_image_check_size(reader->source->limits, "TIFF", width, height, error));
  reader->width = (int32_t)width;
  reader->height = (int32_t)height;
  return OMMA_OK;
}

static void close_reader(struct reader *reader) {
  if (reader->tiff) reader->lib.TIFFClose(reader->tiff);
}

/* The pixels as stored, whatever the orientation, as RGBA with premultiplied colours. */
static enum omma_status read_raster(struct reader *reader, uint32_t *raster, struct omma_error *error) {
  TIFFRGBAImage image;
  char reason[1024] = "";
  if (!reader->lib.TIFFRGBAImageBegin(&image, reader->tiff, 1, reason)) {
    return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "unreadable TIFF: %s", reason);
  }
  image.req_orientation = image.orientation;
  int done = reader->lib.TIFFRGBAImageGet(&image, raster, (uint32_t)reader->width, (uint32_t)reader->height);
  reader->lib.TIFFRGBAImageEnd(&image);
  return done && !reader->problem[0] ? OMMA_OK : fail_tiff(reader, error);
}

static void copy_pixels(const uint32_t *raster, uint8_t *rgb, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint8_t rgba[4] = {(uint8_t)TIFFGetR(raster[i]), (uint8_t)TIFFGetG(raster[i]), (uint8_t)TIFFGetB(raster[i]),
                       (uint8_t)TIFFGetA(raster[i])};
    ommai_image_add_white(rgba, rgb + 3 * i, 1);
  }
}

enum omma_status ommai_tiff_read_header(const struct ommai_image_source *source, struct ommai_stored_header *header,
                                        struct omma_error *error) {
  struct reader reader = {.source = source};
  enum omma_status status = open_reader(&reader, error);
  int64_t scratch = (int64_t)reader.width * reader.height * (STRIP_BYTES + RASTER_BYTES);
  if (status == OMMA_OK) *header = (struct ommai_stored_header){reader.width, reader.height, scratch};
  close_reader(&reader);
  return status;
}

enum omma_status ommai_tiff_decode(const struct ommai_image_source *source, struct ommai_image *image,
                                   struct omma_error *error) {
  struct reader reader = {.source = source};
  enum omma_status status;
  uint32_t *raster = NULL;
  size_t n_pixels = 0;
  OMMAI_TRY_GOTO(open_reader(&reader, error), done);
  n_pixels = (size_t)reader.width * (size_t)reader.height;
  raster = ommai_allocate(&image->allocator, n_pixels, RASTER_BYTES);
  if (!raster) {
    status = ommai_fail_memory(error, "decoding a TIFF image", n_pixels * RASTER_BYTES);
    goto done;
  }
  OMMAI_TRY_GOTO(read_raster(&reader, raster, error), done);
  OMMAI_TRY_GOTO(ommai_image_take_pixels(image, reader.width, reader.height, error), done);
  copy_pixels(raster, image->pixels, (int64_t)n_pixels);
done:
  if (raster) ommai_release(&image->allocator, raster, n_pixels, RASTER_BYTES);
  close_reader(&reader);
  return status;
}
