/* Windows and OS/2 bitmaps: 1, 4, 8 (also run-length coded), 16, 24 and 32 bits, with or without
 * bit masks. Source: the BITMAPINFOHEADER family as Microsoft documents it; which files have
 * transparency follows Pillow: those with an alpha mask in their header. */
#include <string.h>

#include "base/error.h"
#include "image/codec.h"

enum { FILE_HEADER_SIZE = 14, CORE_HEADER_SIZE = 12, INFO_HEADER_SIZE = 40 };
enum compression { RAW = 0, RLE8 = 1, RLE4 = 2, BITFIELDS = 3 };

struct bitmap {
  const uint8_t *bytes;
  size_t size;
  int32_t width, height;
  bool top_down;
  int bits;
  enum compression compression;
  uint32_t masks[4]; /* red, green, blue, alpha; 16 and 32 bits */
  size_t pixels_at;
  uint8_t palette[256][3];
};

static uint32_t load_u16(const uint8_t *at) { return (uint32_t)at[0] | (uint32_t)at[1] << 8; }
static uint32_t load_u32(const uint8_t *at) { return load_u16(at) | load_u16(at + 2) << 16; }

static enum omma_status fail_truncated(const struct bitmap *bitmap, struct omma_error *error) {
  return ommai_image_fail_truncated(error, "BMP", bitmap->size);
}

static bool all_masks_zero(const struct bitmap *bitmap) {
  return !bitmap->masks[0] && !bitmap->masks[1] && !bitmap->masks[2] && !bitmap->masks[3];
}

/* Bit masks: those of the file, or the usual ones. */
static enum omma_status read_masks(struct bitmap *bitmap, size_t header_size, struct omma_error *error) {
  static const uint32_t usual_16[4] = {0x7c00, 0x3e0, 0x1f, 0}, usual_32[4] = {0xff0000, 0xff00, 0xff, 0};
  memcpy(bitmap->masks, bitmap->bits == 16 ? usual_16 : usual_32, sizeof bitmap->masks);
  if (bitmap->compression != BITFIELDS) return OMMA_OK;
  int n_masks = header_size >= 56 ? 4 : 3;
  size_t at = FILE_HEADER_SIZE + INFO_HEADER_SIZE;
  if (bitmap->size < at + (size_t)n_masks * 4) return fail_truncated(bitmap, error);
  for (int i = 0; i < 4; i++) bitmap->masks[i] = i < n_masks ? load_u32(bitmap->bytes + at + (size_t)i * 4) : 0;
  if (all_masks_zero(bitmap)) {
    memcpy(bitmap->masks, usual_32, sizeof usual_32);
    bitmap->masks[3] = 0xff000000u;
  }
  return OMMA_OK;
}

/* The palette follows the header; entries that the file lacks are black. */
static enum omma_status read_palette(struct bitmap *bitmap, size_t at, size_t n_colours, size_t entry,
                                     struct omma_error *error) {
  if (n_colours == 0 || n_colours > 256) n_colours = (size_t)1 << bitmap->bits;
  if (n_colours * entry > bitmap->size - at) return fail_truncated(bitmap, error);
  for (size_t i = 0; i < n_colours; i++) {
    for (size_t c = 0; c < 3; c++) bitmap->palette[i][c] = bitmap->bytes[at + i * entry + 2 - c];
  }
  if (bitmap->pixels_at == at) bitmap->pixels_at += n_colours * entry;
  return OMMA_OK;
}

static enum omma_status check_kind(const struct bitmap *bitmap, struct omma_error *error) {
  int bits = bitmap->bits;
  bool known;
  switch ((int)bitmap->compression) {
    case RAW: known = bits == 1 || bits == 4 || bits == 8 || bits == 16 || bits == 24 || bits == 32; break;
    case RLE8: known = bits == 8; break;
    case RLE4: known = bits == 4; break;
    case BITFIELDS: known = bits == 16 || bits == 32; break;
    default: known = false;
  }
  if (known) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "BMP with %d bits a pixel and compression %d is not supported", bits,
                    (int)bitmap->compression);
}

/* Reads what stands in the header proper. Gives the number of colours as the header has it. */
static enum omma_status read_dimensions(struct bitmap *bitmap, size_t header_size, uint32_t *n_colours,
                                        const struct ommai_image_limits *limits, struct omma_error *error) {
  const uint8_t *header = bitmap->bytes + FILE_HEADER_SIZE;
  int64_t width, height;
  if (header_size == CORE_HEADER_SIZE) {
    width = load_u16(header + 4);
    height = load_u16(header + 6);
    bitmap->bits = (int)load_u16(header + 10);
  } else {
    width = (int32_t)load_u32(header + 4);
    height = (int32_t)load_u32(header + 8);
    bitmap->bits = (int)load_u16(header + 14);
    bitmap->compression = (enum compression)load_u32(header + 16);
    *n_colours = load_u32(header + 32);
  }
  bitmap->top_down = height < 0;
  if (height < 0) height = -height;
  OMMAI_TRY(ommai_image_check_size(limits, "BMP", width, height, error));
  bitmap->width = (int32_t)width;
  bitmap->height = (int32_t)height;
  return OMMA_OK;
}

static enum omma_status read_header(struct bitmap *bitmap, const struct ommai_image_source *source, struct omma_error *error) {
  *bitmap = (struct bitmap){.bytes = source->bytes, .size = source->size};
  if (bitmap->size < FILE_HEADER_SIZE + CORE_HEADER_SIZE) return fail_truncated(bitmap, error);
  size_t header_size = load_u32(bitmap->bytes + FILE_HEADER_SIZE);
  if (header_size != CORE_HEADER_SIZE && (header_size < INFO_HEADER_SIZE || header_size > 1024)) {
    return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "BMP with a header of %zu bytes is not supported", header_size);
  }
  if (bitmap->size < FILE_HEADER_SIZE + header_size) return fail_truncated(bitmap, error);
  uint32_t n_colours = 0;
  OMMAI_TRY(read_dimensions(bitmap, header_size, &n_colours, source->limits, error));
  OMMAI_TRY(check_kind(bitmap, error));
  bitmap->pixels_at = load_u32(bitmap->bytes + 10);
  if (bitmap->pixels_at > bitmap->size) return fail_truncated(bitmap, error);
  if (bitmap->bits > 8) return read_masks(bitmap, header_size, error);
  size_t entry = header_size == CORE_HEADER_SIZE ? 3 : 4;
  return read_palette(bitmap, FILE_HEADER_SIZE + header_size, n_colours, entry, error);
}

/* The bits of a mask scaled to 0 .. 255. */
static uint8_t masked(uint32_t pixel, uint32_t mask) {
  if (!mask) return 0;
  int shift = __builtin_ctz(mask);
  return (uint8_t)((uint64_t)((pixel & mask) >> shift) * 255 / (mask >> shift));
}

static void masked_row(const struct bitmap *bitmap, const uint8_t *row, uint8_t *rgb) {
  for (int64_t x = 0; x < bitmap->width; x++) {
    uint32_t pixel = bitmap->bits == 16 ? load_u16(row + 2 * x) : load_u32(row + 4 * x);
    uint8_t rgba[4];
    for (int c = 0; c < 4; c++) rgba[c] = masked(pixel, bitmap->masks[c]);
    if (!bitmap->masks[3]) rgba[3] = 255;
    ommai_image_paint_on_white(rgba, rgb + 3 * x, 1);
  }
}

static void palette_row(const struct bitmap *bitmap, const uint8_t *row, uint8_t *rgb) {
  int bits = bitmap->bits;
  for (int64_t x = 0; x < bitmap->width; x++) {
    int64_t bit = x * bits;
    int index = row[bit / 8] >> (8 - bits - bit % 8) & ((1 << bits) - 1);
    memcpy(rgb + 3 * x, bitmap->palette[index], 3);
  }
}

static void bgr_row(const struct bitmap *bitmap, const uint8_t *row, uint8_t *rgb) {
  for (int64_t x = 0; x < bitmap->width; x++) {
    for (int c = 0; c < 3; c++) rgb[3 * x + c] = row[3 * x + 2 - c];
  }
}

/* Row y of the image in the file's order of rows. */
static uint8_t *output_row(const struct bitmap *bitmap, uint8_t *pixels, int64_t y) {
  return pixels + (bitmap->top_down ? y : bitmap->height - 1 - y) * bitmap->width * 3;
}

/* Bytes of a row that is not run-length coded. */
static size_t row_size_of(const struct bitmap *bitmap) { return ((size_t)bitmap->width * (size_t)bitmap->bits + 31) / 32 * 4; }

static void read_rows(const struct bitmap *bitmap, uint8_t *pixels) {
  size_t row_size = row_size_of(bitmap);
  const uint8_t *row = bitmap->bytes + bitmap->pixels_at;
  for (int64_t y = 0; y < bitmap->height; y++, row += row_size) {
    uint8_t *rgb = output_row(bitmap, pixels, y);
    if (bitmap->bits <= 8) {
      palette_row(bitmap, row, rgb);
    } else if (bitmap->bits == 24) {
      bgr_row(bitmap, row, rgb);
    } else {
      masked_row(bitmap, row, rgb);
    }
  }
}

/* Where run-length decoding stands. Pixels outside the image are dropped. */
struct runs {
  const struct bitmap *bitmap;
  uint8_t *pixels;
  size_t at;
  int64_t x, y;
};

/* A run of n pixels whose bytes begin at `data`: one for one, or the first byte again and again. */
static void put_run(struct runs *runs, const uint8_t *data, int n, bool repeated) {
  const struct bitmap *bitmap = runs->bitmap;
  uint8_t *rgb = output_row(bitmap, runs->pixels, runs->y);
  for (int i = 0; i < n && runs->x + i < bitmap->width; i++) {
    int index;
    if (bitmap->compression == RLE8) {
      index = data[repeated ? 0 : i];
    } else {
      uint8_t pair = data[repeated ? 0 : i / 2];
      index = i % 2 ? pair & 15 : pair >> 4;
    }
    memcpy(rgb + 3 * (runs->x + i), bitmap->palette[index], 3);
  }
  runs->x += n;
}

/* n pixels one for one, padded to 16 bits. False when the file ends within. */
static bool literal_run(struct runs *runs, int n) {
  size_t n_bytes = runs->bitmap->compression == RLE8 ? (size_t)n : ((size_t)n + 1) / 2;
  if (runs->bitmap->size - runs->at < n_bytes) return false;
  put_run(runs, runs->bitmap->bytes + runs->at, n, false);
  runs->at += n_bytes + n_bytes % 2;
  return true;
}

static enum omma_status read_runs(const struct bitmap *bitmap, uint8_t *pixels, struct omma_error *error) {
  struct runs runs = {bitmap, pixels, bitmap->pixels_at, 0, 0};
  int64_t n_pixels = (int64_t)bitmap->width * bitmap->height;
  for (int64_t i = 0; i < n_pixels; i++) memcpy(pixels + 3 * i, bitmap->palette[0], 3);
  while (runs.y < bitmap->height) {
    if (runs.at >= bitmap->size || bitmap->size - runs.at < 2) return fail_truncated(bitmap, error);
    const uint8_t *code = bitmap->bytes + runs.at;
    runs.at += 2;
    if (code[0] > 0) {
      put_run(&runs, code + 1, code[0], true);
    } else if (code[1] == 0) { /* end of the row */
      runs.x = 0;
      runs.y++;
    } else if (code[1] == 1) { /* end of the image */
      break;
    } else if (code[1] == 2) { /* a step to the right and on */
      if (runs.at >= bitmap->size || bitmap->size - runs.at < 2) return fail_truncated(bitmap, error);
      runs.x += code[2];
      runs.y += code[3];
      runs.at += 2;
    } else if (!literal_run(&runs, code[1])) {
      return fail_truncated(bitmap, error);
    }
  }
  return OMMA_OK;
}

enum omma_status ommai_bmp_read_header(const struct ommai_image_source *source, struct ommai_stored_header *header,
                                       struct omma_error *error) {
  struct bitmap bitmap;
  OMMAI_TRY(read_header(&bitmap, source, error));
  *header = (struct ommai_stored_header){.width = bitmap.width, .height = bitmap.height};
  return OMMA_OK;
}

enum omma_status ommai_bmp_decode(const struct ommai_image_source *source, struct ommai_image *image,
                                  struct omma_error *error) {
  struct bitmap bitmap;
  OMMAI_TRY(read_header(&bitmap, source, error));
  bool coded = bitmap.compression == RLE8 || bitmap.compression == RLE4;
  size_t n_rows = (bitmap.size - bitmap.pixels_at) / row_size_of(&bitmap);
  if (!coded && n_rows < (size_t)bitmap.height) return fail_truncated(&bitmap, error);
  OMMAI_TRY(ommai_image_take_pixels(image, bitmap.width, bitmap.height, error));
  if (coded) return read_runs(&bitmap, image->pixels, error);
  read_rows(&bitmap, image->pixels);
  return OMMA_OK;
}
