/* JPEG by libjpeg-turbo: islow DCT and fancy upsampling, its defaults, which give the pixels that
 * Pillow gives. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "image/codec.h"

/* A progressive file may hold any number of scans, each of a few bytes, and each goes over all
 * pixels. What encoders write has some ten; the maximum that could make sense (each component's
 * coefficients bit by bit) is about 100. The work is bounded by scans * pixels, with room left at
 * both ends. */
enum { JPEG_MIN_SCANS = 24, JPEG_MAX_SCANS = 100 };
#define JPEG_SCAN_PIXELS ((int64_t)1 << 30)

struct reader {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  struct jpeg_source_mgr input;
  struct jpeg_progress_mgr progress;
  jmp_buf failed;
  const struct ommai_image_source *source;
  struct ommai_image *image; /* NULL: only the size is wanted */
  uint8_t *cmyk_row;         /* [width][4], where the file holds four components */
  int scan_limit;
  int64_t coefficient_bytes; /* that libjpeg keeps between scans */
  struct omma_error *error;
  enum omma_status status;
};

/* Leaves libjpeg for the setjmp in `guarded`. */
static _Noreturn void leave(struct reader *reader, enum omma_status status) {
  reader->status = status;
  longjmp(reader->failed, 1);
}

static enum omma_status status_of_code(int code) {
  switch (code) {
    case JERR_OUT_OF_MEMORY: return OMMA_ERROR_MEMORY;
    case JERR_IMAGE_TOO_BIG:
    case JERR_WIDTH_OVERFLOW: return OMMA_ERROR_LIMIT;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_SOF_UNSUPPORTED: return OMMA_ERROR_UNSUPPORTED;
    default: return OMMA_ERROR_FORMAT;
  }
}

static void on_error(j_common_ptr jpeg) {
  struct reader *reader = jpeg->client_data;
  char text[JMSG_LENGTH_MAX];
  jpeg->err->format_message(jpeg, text);
  enum omma_status status = status_of_code(jpeg->err->msg_code);
  leave(reader, ommai_fail(reader->error, status, "%s JPEG: %s", status == OMMA_ERROR_FORMAT ? "broken" : "unreadable", text));
}

/* Damaged data is shown as far as it can be decoded, as Pillow does; a missing end is found by the
 * data source. */
static void on_message(j_common_ptr jpeg, int level) {
  (void)jpeg;
  (void)level;
}

static void on_output(j_common_ptr jpeg) { (void)jpeg; }

static void on_progress(j_common_ptr common) {
  struct reader *reader = common->client_data;
  enum omma_status status = ommai_image_check_time(reader->source, "JPEG", reader->error);
  if (status != OMMA_OK) leave(reader, status);
  if (reader->jpeg.input_scan_number <= reader->scan_limit) return;
  leave(reader,
        ommai_fail(reader->error, OMMA_ERROR_LIMIT, "JPEG has too many scans: at most %d are allowed for %u x %u pixels",
                   reader->scan_limit, reader->jpeg.image_width, reader->jpeg.image_height));
}

/* The source has all bytes from the start: asking for more means that the file ends too early. */
static boolean on_empty(j_decompress_ptr jpeg) {
  struct reader *reader = jpeg->client_data;
  leave(reader, ommai_image_fail_truncated(reader->error, "JPEG", reader->source->size));
}

static void on_skip(j_decompress_ptr jpeg, long n_bytes) {
  if (n_bytes <= 0) return;
  if ((size_t)n_bytes > jpeg->src->bytes_in_buffer) on_empty(jpeg);
  jpeg->src->next_input_byte += n_bytes;
  jpeg->src->bytes_in_buffer -= (size_t)n_bytes;
}

static void on_source_event(j_decompress_ptr jpeg) { (void)jpeg; }

static void open_reader(struct reader *reader) {
  jpeg_create_decompress(&reader->jpeg);
  reader->input = (struct jpeg_source_mgr){.next_input_byte = reader->source->bytes,
                                           .bytes_in_buffer = reader->source->size,
                                           .init_source = on_source_event,
                                           .fill_input_buffer = on_empty,
                                           .skip_input_data = on_skip,
                                           .resync_to_restart = jpeg_resync_to_restart,
                                           .term_source = on_source_event};
  reader->jpeg.src = &reader->input;
  reader->progress.progress_monitor = on_progress;
  reader->jpeg.progress = &reader->progress;
}

/* A file of several scans has all its coefficients in memory, 16 bits each, in whole blocks and
 * whole groups of blocks. */
static int64_t coefficient_bytes(struct jpeg_decompress_struct *jpeg) {
  int64_t bytes = 0;
  if (!jpeg_has_multiple_scans(jpeg)) return 0;
  for (int i = 0; i < jpeg->num_components; i++) {
    const jpeg_component_info *component = &jpeg->comp_info[i];
    int64_t columns = ommai_round_up(component->width_in_blocks, component->h_samp_factor);
    int64_t rows = ommai_round_up(component->height_in_blocks, component->v_samp_factor);
    bytes += columns * rows * (int64_t)sizeof(JBLOCK);
  }
  return bytes;
}

static enum omma_status read_header(struct reader *reader) {
  jpeg_read_header(&reader->jpeg, TRUE);
  int64_t width = reader->jpeg.image_width, height = reader->jpeg.image_height;
  OMMAI_TRY(ommai_image_check_size(reader->source->limits, "JPEG", width, height, reader->error));
  int n = reader->jpeg.num_components;
  if (n != 1 && n != 3 && n != 4) {
    return ommai_fail(reader->error, OMMA_ERROR_UNSUPPORTED, "JPEG with %d components is not supported: expected 1, 3 or 4", n);
  }
  int64_t scans = ommai_min_i64(JPEG_SCAN_PIXELS / (width * height), JPEG_MAX_SCANS);
  reader->scan_limit = (int)ommai_max_i64(scans, JPEG_MIN_SCANS);
  reader->coefficient_bytes = coefficient_bytes(&reader->jpeg);
  return OMMA_OK;
}

/* One row of CMYK as stored, that is inverted (Adobe's way, which Pillow assumes of every file), to
 * RGB: R = K' - round((255 - C') * K' / 255) with C', K' as stored. */
static void cmyk_to_rgb(const uint8_t *cmyk, uint8_t *rgb, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t light = cmyk[4 * i + 3];
    for (int c = 0; c < 3; c++) {
      uint32_t t = (255u - cmyk[4 * i + c]) * light + 128;
      rgb[3 * i + c] = (uint8_t)(light - ((t + (t >> 8)) >> 8));
    }
  }
}

static enum omma_status prepare_output(struct reader *reader) {
  int32_t width = (int32_t)reader->jpeg.image_width;
  OMMAI_TRY(ommai_image_take_pixels(reader->image, width, (int32_t)reader->jpeg.image_height, reader->error));
  reader->jpeg.out_color_space = JCS_RGB;
  if (reader->jpeg.num_components != 4) return OMMA_OK;
  reader->jpeg.out_color_space = JCS_CMYK;
  reader->cmyk_row = ommai_allocate(&reader->image->allocator, (size_t)width, 4);
  return reader->cmyk_row ? OMMA_OK : ommai_fail_memory(reader->error, "a row of a CMYK JPEG", (size_t)width * 4);
}

static enum omma_status read_pixels(struct reader *reader) {
  OMMAI_TRY(prepare_output(reader));
  size_t width = reader->jpeg.image_width;
  jpeg_start_decompress(&reader->jpeg);
  while (reader->jpeg.output_scanline < reader->jpeg.output_height) {
    uint8_t *rgb = reader->image->pixels + reader->jpeg.output_scanline * width * 3;
    JSAMPROW row = reader->cmyk_row ? reader->cmyk_row : rgb;
    jpeg_read_scanlines(&reader->jpeg, &row, 1);
    if (reader->cmyk_row) cmyk_to_rgb(reader->cmyk_row, rgb, (int64_t)width);
  }
  jpeg_finish_decompress(&reader->jpeg);
  return OMMA_OK;
}

/* Everything that may leave through longjmp. Nothing here is kept in a local variable across the
 * jump. */
static enum omma_status guarded(struct reader *reader) {
  if (setjmp(reader->failed) != 0) return reader->status;
  open_reader(reader);
  OMMAI_TRY(read_header(reader));
  return reader->image ? read_pixels(reader) : OMMA_OK;
}

/* Sets libjpeg's error handlers, reads, and gives back all but the image. */
static enum omma_status read_jpeg(struct reader *reader) {
  reader->jpeg.err = jpeg_std_error(&reader->errors);
  reader->errors.error_exit = on_error;
  reader->errors.emit_message = on_message;
  reader->errors.output_message = on_output;
  reader->jpeg.client_data = reader;
  enum omma_status status = guarded(reader);
  if (reader->cmyk_row) ommai_release(&reader->image->allocator, reader->cmyk_row, reader->jpeg.image_width, 4);
  jpeg_destroy_decompress(&reader->jpeg);
  return status;
}

enum omma_status ommai_jpeg_read_header(const struct ommai_image_source *source, struct ommai_stored_header *header,
                                        struct omma_error *error) {
  struct reader reader = {.source = source, .error = error};
  OMMAI_TRY(read_jpeg(&reader));
  header->width = (int32_t)reader.jpeg.image_width;
  header->height = (int32_t)reader.jpeg.image_height;
  header->scratch_bytes = reader.coefficient_bytes;
  return OMMA_OK;
}

enum omma_status ommai_jpeg_decode(const struct ommai_image_source *source, struct ommai_image *image,
                                   struct omma_error *error) {
  struct reader reader = {.source = source, .image = image, .error = error};
  return read_jpeg(&reader);
}
