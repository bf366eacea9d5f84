/* HEIC and AVIF by libheif: the primary image, of more than 8 bits brought to 8 by libheif, turned
 * and cropped as the file requires. */
#include <libheif/heif.h>
#include <string.h>

#include "base/error.h"
#include "base/shared_library.h"
#include "image/codec.h"

#define LIBRARY "libheif.so.1"
/* Bytes a pixel that libheif and its decoders keep: three planes of up to 16 bits in the decoder
 * and in libheif, RGBA. An estimate. */
enum { SCRATCH_BYTES = 16 };

#define FUNCTIONS(X)                            \
  X(heif_context_alloc)                         \
  X(heif_context_free)                          \
  X(heif_context_set_max_decoding_threads)      \
  X(heif_context_read_from_memory_without_copy) \
  X(heif_context_get_primary_image_handle)      \
  X(heif_image_handle_release)                  \
  X(heif_image_handle_get_width)                \
  X(heif_image_handle_get_height)               \
  X(heif_image_handle_has_alpha_channel)        \
  X(heif_image_handle_is_premultiplied_alpha)   \
  X(heif_decoding_options_alloc)                \
  X(heif_decoding_options_free)                 \
  X(heif_decode_image)                          \
  X(heif_image_release)                         \
  X(heif_image_get_width)                       \
  X(heif_image_get_height)                      \
  X(heif_image_get_plane_readonly)

OMMAI_LIBRARY(libheif, LIBRARY, FUNCTIONS)

bool ommai_heif_available(void) {
  struct libheif functions;
  return load_libheif(&functions);
}

struct reader {
  struct libheif lib;
  struct heif_context *context;
  struct heif_image_handle *handle; /* of the primary image */
  struct heif_image *pixels;
  int32_t width, height;
};

static enum omma_status fail_heif(const struct heif_error *cause, struct omma_error *error) {
  switch (cause->code) {
    case heif_error_Memory_allocation_error:
      if (cause->subcode == heif_suberror_Security_limit_exceeded) break;
      return ommai_fail_memory(error, "decoding a HEIF image", 0);
    case heif_error_Unsupported_filetype:
    case heif_error_Unsupported_feature:
      return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "unreadable HEIF: %s", cause->message);
    default: break;
  }
  return ommai_fail(error, OMMA_ERROR_FORMAT, "broken HEIF: %s", cause->message);
}

static void close_reader(struct reader *reader) {
  if (reader->pixels) reader->lib.heif_image_release(reader->pixels);
  if (reader->handle) reader->lib.heif_image_handle_release(reader->handle);
  if (reader->context) reader->lib.heif_context_free(reader->context);
}

/* To be closed by the caller, also on failure. */
static enum omma_status open_reader(const struct ommai_image_source *source, struct reader *reader, struct omma_error *error) {
  if (!load_libheif(&reader->lib)) return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "HEIF images need %s", LIBRARY);
  reader->context = reader->lib.heif_context_alloc();
  if (!reader->context) return ommai_fail_memory(error, "a HEIF reader", sizeof *reader);
  reader->lib.heif_context_set_max_decoding_threads(reader->context, 0);
  struct heif_error cause =
      reader->lib.heif_context_read_from_memory_without_copy(reader->context, source->bytes, source->size, NULL);
  if (cause.code == heif_error_Ok) cause = reader->lib.heif_context_get_primary_image_handle(reader->context, &reader->handle);
  if (cause.code != heif_error_Ok) return fail_heif(&cause, error);
  reader->width = reader->lib.heif_image_handle_get_width(reader->handle);
  reader->height = reader->lib.heif_image_handle_get_height(reader->handle);
  return ommai_image_check_size(source->limits, "HEIF", reader->width, reader->height, error);
}

static enum omma_status decode(struct reader *reader, bool alpha, struct omma_error *error) {
  struct heif_decoding_options *options = reader->lib.heif_decoding_options_alloc();
  if (!options) return ommai_fail_memory(error, "decoding a HEIF image", 0);
  options->convert_hdr_to_8bit = 1;
  struct heif_error cause =
      reader->lib.heif_decode_image(reader->handle, &reader->pixels, heif_colorspace_RGB,
                                    alpha ? heif_chroma_interleaved_RGBA : heif_chroma_interleaved_RGB, options);
  reader->lib.heif_decoding_options_free(options);
  if (cause.code != heif_error_Ok) return fail_heif(&cause, error);
  if (reader->lib.heif_image_get_width(reader->pixels, heif_channel_interleaved) == reader->width &&
      reader->lib.heif_image_get_height(reader->pixels, heif_channel_interleaved) == reader->height) {
    return OMMA_OK;
  }
  return ommai_fail(error, OMMA_ERROR_FORMAT, "broken HEIF: its image has another size than its header gives");
}

static void copy_rows(const struct reader *reader, bool alpha, uint8_t *rgb) {
  int stride;
  const uint8_t *row = reader->lib.heif_image_get_plane_readonly(reader->pixels, heif_channel_interleaved, &stride);
  bool premultiplied = alpha && reader->lib.heif_image_handle_is_premultiplied_alpha(reader->handle);
  for (int32_t y = 0; y < reader->height; y++, row += stride, rgb += (int64_t)reader->width * 3) {
    if (premultiplied) {
      ommai_image_add_white(row, rgb, reader->width);
    } else if (alpha) {
      ommai_image_paint_on_white(row, rgb, reader->width);
    } else {
      memcpy(rgb, row, (size_t)reader->width * 3);
    }
  }
}

enum omma_status ommai_heif_read_header(const struct ommai_image_source *source, struct ommai_stored_header *header,
                                        struct omma_error *error) {
  struct reader reader = {.width = 0};
  enum omma_status status = open_reader(source, &reader, error);
  int64_t scratch = (int64_t)reader.width * reader.height * SCRATCH_BYTES;
  if (status == OMMA_OK) *header = (struct ommai_stored_header){reader.width, reader.height, scratch};
  close_reader(&reader);
  return status;
}

enum omma_status ommai_heif_decode(const struct ommai_image_source *source, struct ommai_image *image,
                                   struct omma_error *error) {
  struct reader reader = {.width = 0};
  enum omma_status status;
  OMMAI_TRY_GOTO(open_reader(source, &reader, error), done);
  bool alpha = reader.lib.heif_image_handle_has_alpha_channel(reader.handle);
  OMMAI_TRY_GOTO(decode(&reader, alpha, error), done);
  OMMAI_TRY_GOTO(ommai_image_take_pixels(image, reader.width, reader.height, error), done);
  copy_rows(&reader, alpha, image->pixels);
done:
  close_reader(&reader);
  return status;
}
