/* GIF by giflib: the first frame, on its canvas. */
#include <string.h>

#include <gif_lib.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "image/codec.h"

struct reader {
  const struct ommai_image_source *source;
  size_t at; /* bytes read so far */
  bool ended;
  GifFileType *gif;
  int transparent;       /* index of the colour that is not painted; -1: none */
  int32_t width, height; /* of the canvas */
};

static int on_read(GifFileType *gif, GifByteType *out, int size) {
  struct reader *reader = gif->UserData;
  size_t left = reader->source->size - reader->at;
  size_t n = (size_t)size < left ? (size_t)size : left;
  if (n < (size_t)size) reader->ended = true;
  memcpy(out, reader->source->bytes + reader->at, n);
  reader->at += n;
  return (int)n;
}

static enum omma_status fail_code(const struct reader *reader, int code, struct omma_error *error) {
  if (code == D_GIF_ERR_NOT_ENOUGH_MEM) return ommai_fail(error, OMMA_ERROR_MEMORY, "out of memory: decoding a GIF");
  if (reader->ended) return ommai_image_fail_truncated(error, "GIF", reader->source->size);
  const char *text = GifErrorString(code);
  return ommai_fail(error, OMMA_ERROR_FORMAT, "broken GIF: %s", text ? text : "it holds no image");
}

static enum omma_status fail_gif(const struct reader *reader, struct omma_error *error) {
  return fail_code(reader, reader->gif->Error, error);
}

/* Reads one extension; of interest is only which colour is transparent. */
static enum omma_status read_extension(struct reader *reader, struct omma_error *error) {
  int code;
  GifByteType *block;
  if (DGifGetExtension(reader->gif, &code, &block) == GIF_ERROR) return fail_gif(reader, error);
  GraphicsControlBlock control;
  if (block && code == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK &&
      control.TransparentColor != NO_TRANSPARENT_COLOR) {
    reader->transparent = control.TransparentColor;
  }
  while (block) {
    if (DGifGetExtensionNext(reader->gif, &block) == GIF_ERROR) return fail_gif(reader, error);
  }
  return OMMA_OK;
}

/* Reads up to the first image's pixels. The canvas grows where the image sticks out. */
static enum omma_status open_reader(struct reader *reader, struct omma_error *error) {
  int code = 0;
  reader->transparent = -1;
  reader->gif = DGifOpen(reader, on_read, &code);
  if (!reader->gif) return fail_code(reader, code, error);
  GifRecordType type = UNDEFINED_RECORD_TYPE;
  while (type != IMAGE_DESC_RECORD_TYPE) {
    if (DGifGetRecordType(reader->gif, &type) == GIF_ERROR) return fail_gif(reader, error);
    if (type == TERMINATE_RECORD_TYPE) return fail_code(reader, 0, error);
    if (type == EXTENSION_RECORD_TYPE) OMMAI_TRY(read_extension(reader, error));
  }
  if (DGifGetImageDesc(reader->gif) == GIF_ERROR) return fail_gif(reader, error);
  const GifImageDesc *frame = &reader->gif->Image;
  int64_t width = ommai_max_i64(reader->gif->SWidth, (int64_t)frame->Left + frame->Width);
  int64_t height = ommai_max_i64(reader->gif->SHeight, (int64_t)frame->Top + frame->Height);
  OMMAI_TRY(ommai_image_check_size(reader->source->limits, "GIF", width, height, error));
  if (frame->Width < 1 || frame->Height < 1) return fail_code(reader, 0, error);
  reader->width = (int32_t)width;
  reader->height = (int32_t)height;
  return OMMA_OK;
}

static void close_reader(struct reader *reader) {
  int code;
  if (reader->gif) DGifCloseFile(reader->gif, &code);
}

/* The colour of each index: the image's palette, else the file's, else gray; white where nothing is
 * painted. */
static void fill_colours(const struct reader *reader, uint8_t colours[256][3]) {
  const ColorMapObject *map = reader->gif->Image.ColorMap ? reader->gif->Image.ColorMap : reader->gif->SColorMap;
  for (int i = 0; i < 256; i++) {
    if (!map) {
      memset(colours[i], i, 3);
    } else if (i < map->ColorCount) {
      colours[i][0] = map->Colors[i].Red;
      colours[i][1] = map->Colors[i].Green;
      colours[i][2] = map->Colors[i].Blue;
    } else {
      memset(colours[i], 0, 3);
    }
  }
  if (reader->transparent >= 0) memset(colours[reader->transparent], 255, 3);
}

static enum omma_status read_rows(struct reader *reader, const uint8_t colours[256][3], uint8_t *row, uint8_t *pixels,
                                  struct omma_error *error) {
  /* the four passes of an interlaced file */
  static const int first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
  const GifImageDesc *frame = &reader->gif->Image;
  for (int pass = 0; pass < (frame->Interlace ? 4 : 1); pass++) {
    for (int y = frame->Interlace ? first[pass] : 0; y < frame->Height; y += frame->Interlace ? step[pass] : 1) {
      OMMAI_TRY(ommai_image_check_time(reader->source, "GIF", error));
      if (DGifGetLine(reader->gif, row, frame->Width) == GIF_ERROR) return fail_gif(reader, error);
      uint8_t *to = pixels + ((int64_t)(frame->Top + y) * reader->width + frame->Left) * 3;
      for (int x = 0; x < frame->Width; x++) memcpy(to + 3 * x, colours[row[x]], 3);
    }
  }
  return OMMA_OK;
}

static enum omma_status read_pixels(struct reader *reader, struct ommai_image *image, struct omma_error *error) {
  OMMAI_TRY(ommai_image_take_pixels(image, reader->width, reader->height, error));
  uint8_t colours[256][3];
  fill_colours(reader, colours);
  size_t n_pixels = (size_t)reader->width * (size_t)reader->height, row_size = (size_t)reader->gif->Image.Width;
  for (size_t i = 0; i < n_pixels; i++)
    memcpy(image->pixels + 3 * i, colours[reader->transparent >= 0 ? reader->transparent : 0], 3);
  uint8_t *row = ommai_allocate(&image->allocator, row_size, 1);
  if (!row) return ommai_fail_memory(error, "a row of a GIF", row_size);
  enum omma_status status = read_rows(reader, colours, row, image->pixels, error);
  ommai_release(&image->allocator, row, row_size, 1);
  return status;
}

enum omma_status ommai_gif_read_header(const struct ommai_image_source *source, struct ommai_stored_header *header,
                                       struct omma_error *error) {
  struct reader reader = {.source = source};
  enum omma_status status = open_reader(&reader, error);
  if (status == OMMA_OK) *header = (struct ommai_stored_header){.width = reader.width, .height = reader.height};
  close_reader(&reader);
  return status;
}

enum omma_status ommai_gif_decode(const struct ommai_image_source *source, struct ommai_image *image,
                                  struct omma_error *error) {
  struct reader reader = {.source = source};
  enum omma_status status = open_reader(&reader, error);
  if (status == OMMA_OK) status = read_pixels(&reader, image, error);
  close_reader(&reader);
  return status;
}
