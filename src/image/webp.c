/* WebP by libwebp with its defaults (fancy upsampling), which give the pixels that Pillow gives: lossy, lossless, transparent,
 * and the first frame of an animation, on its canvas. */
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "base/allocator.h"
#include "base/error.h"
#include "image/codec.h"

struct reader {
  const struct ommai_image_source *source;
  WebPDemuxer *demuxer;
  WebPIterator frame; /* the first one */
  int32_t width, height;
  bool transparent;
};

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
  if (!WebPDemuxGetFrame(reader->demuxer, 1, &reader->frame)) return fail_broken(error, "it holds no picture");
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

/* Puts the frame's RGBA pixels on the canvas; around it is nothing, which is white where the file is transparent. */
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

enum omma_status ommai_webp_read_size(const struct ommai_image_source *source, int32_t *width, int32_t *height,
                                      struct omma_error *error) {
  struct reader reader = {.source = source};
  enum omma_status status = open_reader(&reader, error);
  if (status == OMMA_OK) {
    *width = reader.width;
    *height = reader.height;
  }
  close_reader(&reader);
  return status;
}

enum omma_status ommai_webp_decode(const struct ommai_image_source *source, struct ommai_image *image,
                                   struct omma_error *error) {
  struct reader reader = {.source = source};
  enum omma_status status;
  OMMAI_TRY_GOTO(open_reader(&reader, error), done);
  OMMAI_TRY_GOTO(ommai_image_take_pixels(image, reader.width, reader.height, error), done);
  bool whole = reader.frame.width == reader.width && reader.frame.height == reader.height;
  status =
      whole && !reader.transparent ? decode_frame(&reader, image->pixels, 3, error) : decode_onto_canvas(&reader, image, error);
done:
  close_reader(&reader);
  return status;
}
