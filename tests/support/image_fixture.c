#include "support/image_fixture.h"

#include <stdlib.h>

#include "support/test.h"

FILE *image_fixture_open(const char *name) {
  char path[1024];
  snprintf(path, sizeof path, "%s/data/image/%s", OMMA_TEST_DATA, name);
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("%s: cannot be opened", path);
  return file;
}

struct image_file image_fixture_read(const char *name) {
  FILE *stream = image_fixture_open(name);
  fseek(stream, 0, SEEK_END);
  struct image_file file = {NULL, (size_t)ftell(stream)};
  rewind(stream);
  file.bytes = malloc(file.size);
  assert_int_equal(fread(file.bytes, 1, file.size, stream), file.size);
  fclose(stream);
  return file;
}

void image_fixture_free(struct image_file *file) { free(file->bytes); }

uint64_t test_fnv(const void *bytes, size_t size) {
  uint64_t value = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; i++) value = (value ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
  return value;
}

static uint8_t mixed_byte(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return (uint8_t)x;
}

uint8_t *image_fixture_noise(int32_t width, int32_t height, uint32_t seed) {
  uint8_t *rgb = malloc((size_t)width * (size_t)height * 3);
  for (int32_t y = 0; y < height; y++) {
    for (int32_t x = 0; x < width; x++) {
      for (int32_t c = 0; c < 3; c++) {
        uint32_t i = (uint32_t)((y * width + x) * 3 + c);
        bool flat = ((uint32_t)(x / 8 + y / 8) + seed) % 2;
        rgb[i] = flat ? ((x / 16 + y / 16) % 2 ? 255 : 0) : mixed_byte(i + seed * 7919);
      }
    }
  }
  return rgb;
}

static uint32_t crc32_of(const unsigned char *bytes, size_t size) {
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < size; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

static void store_u32(unsigned char *at, uint32_t value) {
  for (int i = 0; i < 4; i++) at[i] = (unsigned char)(value >> (24 - 8 * i));
}

void image_fixture_set_png_size(struct image_file *file, uint32_t width, uint32_t height) {
  store_u32(file->bytes + 16, width);
  store_u32(file->bytes + 20, height);
  image_fixture_fix_png_checksums(file);
}

void image_fixture_fix_png_checksums(struct image_file *file) {
  if (file->size < 20 || memcmp(file->bytes, "\x89PNG\r\n\x1a\n", 8) != 0) return;
  for (size_t at = 8; file->size - at >= 12;) {
    size_t length = (size_t)file->bytes[at] << 24 | (size_t)file->bytes[at + 1] << 16 | (size_t)file->bytes[at + 2] << 8 |
                    file->bytes[at + 3];
    if (length > file->size - at - 12) return;
    store_u32(file->bytes + at + 8 + length, crc32_of(file->bytes + at + 4, length + 4));
    at += 12 + length;
  }
}
