#include "image/orientation.h"

#include <string.h>

#include "base/checked.h"
#include "image/tiff_number.h"

enum { TIFF_TAG_ORIENTATION = 0x0112, TIFF_BYTE = 1, TIFF_SHORT = 3, TIFF_LONG = 4 };

/* Pixels of a square that is turned at once, so that reads down columns stay in the cache. */
enum { TURN_BLOCK = 32 };

/* The value of a directory entry, or 1 where it is not a single number from 1 to 8. */
static int entry_orientation(const uint8_t *entry, bool little) {
  uint32_t type = ommai_tiff_number(entry + 2, 2, little);
  if (ommai_tiff_number(entry + 4, 4, little) != 1) return 1;
  uint32_t value = type == TIFF_BYTE    ? entry[8]
                   : type == TIFF_SHORT ? ommai_tiff_number(entry + 8, 2, little)
                   : type == TIFF_LONG  ? ommai_tiff_number(entry + 8, 4, little)
                                        : 1;
  return value >= 1 && value <= 8 ? (int)value : 1;
}

int ommai_tiff_orientation(const uint8_t *bytes, size_t size) {
  if (!ommai_tiff_begins(bytes, size)) return 1;
  bool little = bytes[0] == 'I';
  size_t offset = ommai_tiff_number(bytes + 4, 4, little);
  if (offset > size - 2) return 1;
  size_t n_entries = ommai_tiff_number(bytes + offset, 2, little);
  offset += 2;
  for (size_t i = 0; i < n_entries && size - offset >= OMMAI_TIFF_ENTRY_BYTES; i++, offset += OMMAI_TIFF_ENTRY_BYTES) {
    if (ommai_tiff_number(bytes + offset, 2, little) == TIFF_TAG_ORIENTATION) return entry_orientation(bytes + offset, little);
  }
  return 1;
}

int ommai_jpeg_orientation(const uint8_t *bytes, size_t size) {
  size_t at = 2;
  while (at < size && size - at >= 4) {
    if (bytes[at] != 0xff) return 1;
    uint8_t marker = bytes[at + 1];
    if (marker == 0xff) { /* a fill byte */
      at++;
      continue;
    }
    if (marker == 0xda || marker == 0xd9) return 1; /* the scans begin, or the end */
    size_t length = ommai_tiff_number(bytes + at + 2, 2, false);
    if (length < 2 || length > size - at - 2) return 1;
    if (marker == 0xe1 && length >= 8 && memcmp(bytes + at + 4, "Exif\0\0", 6) == 0) {
      return ommai_tiff_orientation(bytes + at + 10, length - 8);
    }
    at += 2 + length;
  }
  return 1;
}

int ommai_png_orientation(const uint8_t *bytes, size_t size) {
  size_t at = 8;
  while (at < size && size - at >= 12) {
    size_t length = ommai_tiff_number(bytes + at, 4, false);
    if (length > size - at - 12) return 1;
    if (memcmp(bytes + at + 4, "eXIf", 4) == 0) return ommai_tiff_orientation(bytes + at + 8, length);
    at += 12 + length;
  }
  return 1;
}

int ommai_webp_orientation(const uint8_t *bytes, size_t size) {
  size_t at = 12;
  while (at < size && size - at >= 8) {
    size_t length = ommai_tiff_number(bytes + at + 4, 4, true);
    if (length > size - at - 8) return 1;
    if (memcmp(bytes + at, "EXIF", 4) == 0) {
      /* some writers put it there */
      size_t prefix = length >= 6 && memcmp(bytes + at + 8, "Exif\0\0", 6) == 0 ? 6 : 0;
      return ommai_tiff_orientation(bytes + at + 8 + prefix, length - prefix);
    }
    at += 8 + length + length % 2;
  }
  return 1;
}

bool ommai_orientation_swaps_sides(int orientation) { return orientation >= 5 && orientation <= 8; }

void ommai_orientation_apply(int orientation, const uint8_t *pixels, int32_t width, int32_t height, uint8_t *out) {
  bool turned = ommai_orientation_swaps_sides(orientation);
  bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  ptrdiff_t row = (ptrdiff_t)width * 3;
  ptrdiff_t step_x = from_right ? -3 : 3, step_y = from_bottom ? -row : row;
  const uint8_t *corner = pixels + (from_right ? row - 3 : 0) + (from_bottom ? row * (height - 1) : 0);
  if (turned) {
    ptrdiff_t step = step_x;
    step_x = step_y;
    step_y = step;
  }
  int64_t out_width = turned ? height : width, out_height = turned ? width : height;
  for (int64_t y0 = 0; y0 < out_height; y0 += TURN_BLOCK) {
    int64_t y1 = ommai_min_i64(y0 + TURN_BLOCK, out_height);
    for (int64_t x0 = 0; x0 < out_width; x0 += TURN_BLOCK) {
      int64_t x1 = ommai_min_i64(x0 + TURN_BLOCK, out_width);
      for (int64_t y = y0; y < y1; y++) {
        for (int64_t x = x0; x < x1; x++) memcpy(out + (y * out_width + x) * 3, corner + y * step_y + x * step_x, 3);
      }
    }
  }
}
