/* Test images: files of tests/data/image, their hashes, and inputs made by formula on both
 * sides. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A file in memory of exactly its size. */
struct image_file {
  unsigned char *bytes;
  size_t size;
};

/* All of these end the test when the file is not there. */
FILE *image_fixture_open(const char *name);
struct image_file image_fixture_read(const char *name);
void image_fixture_free(struct image_file *file);

/* FNV-1a, 64 bits. */
uint64_t test_fnv(const void *bytes, size_t size);

/* noise() of tools/make_image_fixtures.py: RGB in memory to be given to free(). */
uint8_t *image_fixture_noise(int32_t width, int32_t height, uint32_t seed);

/* Writes another size into a PNG's header, check sum included. */
void image_fixture_set_png_size(struct image_file *file, uint32_t width, uint32_t height);
/* Makes the check sums of all chunks right again. Other formats are left alone. */
void image_fixture_fix_png_checksums(struct image_file *file);
