/* WebP by libwebp with its defaults (fancy upsampling), which give the pixels that Pillow gives:
 * lossy, lossless, transparent, and the first frame of an animation, on its canvas. */
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "base/allocator.h"
#include "base/error.h"
#include "image/codec.h"

struct reader {
  const struct ommai_image_source *source;
  WebPDemuxer *demuxer;
  WebPIterator frame;             /* the first one */
  WebPBitstreamFeatures features; /* of the frame */
  int32_t width, height;
  bool transparent;
};

/* Bytes that libwebp keeps for each pixel: a lossless image as 32-bit pixels and, at a fraction of
 * the size, its codes and predictors; an alpha plane as it is decoded, of 8 bits, and before that
 * like a lossless image. */
enum { LOSSLESS_BYTES = 5, ALPHA_BYTES = 6, RGBA_BYTES = 4 };

static enum omma_status fail_broken(struct omma_error *error, const char *what) {
  return ommai_fail(error, OMMA_ERROR_FORMAT, "broken WebP: %s", what);
}

static void close_reader(struct reader *reader) {
  if (!reader->demuxer) return;
  WebPDemuxReleaseIterator(&reader->frame);
  WebPDemuxDelete(reader->demuxer);
}

/* To be closed by the caller, also on failure. */
static enum omma_status open_reader(struct reader *reader, struct omma_error *error) {
  WebPData data = {reader->source->bytes, reader->source->size};
  WebPDemuxState state = WEBP_DEMUX_DONE;
  reader->demuxer = WebPDemuxPartial(&data, &state);
  if (state == WEBP_DEMUX_PARSE_ERROR) return fail_broken(error, "its chunks cannot be read");
  if (state != WEBP_DEMUX_DONE) return ommai_image_fail_truncated(error, "WebP", data.size);
  if (!reader->demuxer) return ommai_fail_memory(error, "a WebP reader", sizeof *reader);
  uint32_t width = WebPDemuxGetI(reader->demuxer, WEBP_FF_CANVAS_WIDTH);
  uint32_t height = WebPDemuxGetI(reader->demuxer, WEBP_FF_CANVAS_HEIGHT);
  OMMAI_TRY(ommai_image_check_size(reader->source->limits, "WebP", width, height, error));
  reader->width = (int32_t)width;
  reader->height = (int32_t)height;
  reader->transparent = (WebPDemuxGetI(reader->demuxer, WEBP_FF_FORMAT_FLAGS) & ALPHA_FLAG) != 0;
  if (!WebPDemuxGetFrame(reader->demuxer, 1, &reader->frame)) return fail_broken(error, "it holds no image");
  if (WebPGetFeatures(reader->frame.fragment.bytes, reader->frame.fragment.size, &reader->features) != VP8_STATUS_OK) {
    return fail_broken(error, "its first frame cannot be read");
  }
  return OMMA_OK;
}

/* Decodes the first frame; `out` is [frame.height][frame.width][channels]. */
static enum omma_status decode_frame(const struct reader *reader, uint8_t *out, int channels, struct omma_error *error) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) return ommai_fail(error, OMMA_ERROR_INTERNAL, "libwebp has another version");
  config.output.colorspace = channels == 3 ? MODE_RGB : MODE_RGBA;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = out;
  config.output.u.RGBA.stride = reader->frame.width * channels;
  config.output.u.RGBA.size = (size_t)reader->frame.width * (size_t)channels * (size_t)reader->frame.height;
  VP8StatusCode code = WebPDecode(reader->frame.fragment.bytes, reader->frame.fragment.size, &config);
  WebPFreeDecBuffer(&config.output);
  switch (code) {
    case VP8_STATUS_OK: return OMMA_OK;
    case VP8_STATUS_OUT_OF_MEMORY: return ommai_fail_memory(error, "decoding a WebP", config.output.u.RGBA.size);
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA: return ommai_image_fail_truncated(error, "WebP", reader->source->size);
    case VP8_STATUS_UNSUPPORTED_FEATURE: return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "WebP feature is not supported");
    default: return fail_broken(error, "its pixels cannot be decoded");
  }
}

/* Puts the frame's RGBA pixels on the canvas; around it is nothing, which is white where the file
 * is transparent. */
static void compose(const struct reader *reader, const uint8_t *rgba, uint8_t *rgb) {
  size_t width = (size_t)reader->width, n = (size_t)reader->frame.width;
  memset(rgb, reader->transparent ? 255 : 0, width * (size_t)reader->height * 3);
  for (int y = 0; y < reader->frame.height; y++, rgba += n * 4) {
    uint8_t *to = rgb + ((size_t)(reader->frame.y_offset + y) * width + (size_t)reader->frame.x_offset) * 3;
    if (reader->transparent) {
      ommai_image_paint_on_white(rgba, to, (int64_t)n);
    } else {
      for (size_t x = 0; x < n; x++) memcpy(to + 3 * x, rgba + 4 * x, 3);
    }
  }
}

static enum omma_status decode_onto_canvas(const struct reader *reader, struct ommai_image *image, struct omma_error *error) {
  size_t n_pixels = (size_t)reader->frame.width * (size_t)reader->frame.height;
  uint8_t *rgba = ommai_allocate(&image->allocator, n_pixels, 4);
  if (!rgba) return ommai_fail_memory(error, "a transparent WebP", n_pixels * 4);
  enum omma_status status = decode_frame(reader, rgba, 4, error);
  if (status == OMMA_OK) compose(reader, rgba, image->pixels);
  ommai_release(&image->allocator, rgba, n_pixels, 4);
  return status;
}

/* True where the frame is the canvas and nothing shows through: it is decoded straight into the
 * image. */
static bool is_plain(const struct reader *reader) {
  return reader->frame.width == reader->width && reader->frame.height == reader->height && !reader->transparent;
}

static int64_t scratch_bytes(const struct reader *reader) {
  enum { LOSSLESS = 2 }; /* WebPBitstreamFeatures.format */
  int64_t bytes = is_plain(reader) ? 0 : RGBA_BYTES;
  if (reader->features.format == LOSSLESS) {
    bytes += LOSSLESS_BYTES;
  } else if (reader->features.has_alpha) {
    bytes += ALPHA_BYTES;
  }
  return bytes * reader->frame.width * reader->frame.height;
}

enum omma_status ommai_webp_read_header(const struct ommai_image_source *source, struct ommai_stored_header *header,
                                        struct omma_error *error) {
  struct reader reader = {.source = source};
  enum omma_status status = open_reader(&reader, error);
  if (status == OMMA_OK) *header = (struct ommai_stored_header){reader.width, reader.height, scratch_bytes(&reader)};
  close_reader(&reader);
  return status;
}

enum omma_status ommai_webp_decode(const struct ommai_image_source *source, struct ommai_image *image,
                                   struct omma_error *error) {
  struct reader reader = {.source = source};
  enum omma_status status;
  OMMAI_TRY_GOTO(open_reader(&reader, error), done);
  OMMAI_TRY_GOTO(ommai_image_take_pixels(image, reader.width, reader.height, error), done);
  status = is_plain(&reader) ? decode_frame(&reader, image->pixels, 3, error) : decode_onto_canvas(&reader, image, error);
done:
  close_reader(&reader);
  return status;
}
