#include "reading/page_source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "bench_client/image_write.h"

bool ommai_page_source_is_name(const char *name) {
  static const char *const endings[] = {"pdf", "png", "jpg",  "jpeg", "webp", "gif",
                                        "bmp", "tif", "tiff", "heic", "heif", "avif"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++) {
    if (strcasecmp(dot + 1, endings[i]) == 0) return true;
  }
  return false;
}

enum omma_status ommai_page_source_open(const char *path, const struct ommai_pdf_limits *limits,
                                        struct ommai_page_source *source, struct omma_error *error) {
  char start[1024] = "";
  FILE *file = fopen(path, "rbe");
  if (!file) return ommai_fail(error, OMMA_ERROR_IO, "cannot be read: %s", strerror(errno));
  size_t size = fread(start, 1, sizeof start, file);
  bool failed = ferror(file);
  fclose(file);
  if (failed) return ommai_fail(error, OMMA_ERROR_IO, "cannot be read");
  *source = (struct ommai_page_source){.path = path, .is_pdf = memmem(start, size, "%PDF-", 5) != NULL, .n_pages = 1};
  if (!source->is_pdf && size > 0 && strlen(path) > 4 && strcasecmp(path + strlen(path) - 4, ".pdf") == 0) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "is not a PDF file");
  }
  return source->is_pdf ? ommai_pdf_count_pages(path, limits, &source->n_pages, error) : OMMA_OK;
}

enum omma_status ommai_page_source_load(const struct ommai_page_source *source, int64_t page, int dpi,
                                        const struct ommai_pdf_limits *limits, struct ommai_image **image,
                                        struct omma_error *error) {
  if (source->is_pdf) return ommai_pdf_render(source->path, page, dpi, limits, image, error);
  const struct omma_allocator *allocator = &ommai_default_allocator;
  struct ommai_image_limits image_limits = ommai_image_default_limits;
  char *bytes;
  size_t size;
  image_limits.max_pixels = limits->max_pixels;
  OMMAI_TRY(ommai_file_read(source->path, OMMAI_IMAGE_MAX_BYTES, allocator, &bytes, &size, error));
  enum omma_status status = ommai_image_decode(bytes, size, &image_limits, allocator, image, error);
  ommai_release(allocator, bytes, size + 1, 1);
  return status;
}

enum omma_status ommai_page_write_png(const struct ommai_image *image, const char *path, struct omma_error *error) {
  struct ommai_image_bytes png;
  char part[4096];
  if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part) {
    return ommai_fail(error, OMMA_ERROR_IO, "the path is too long");
  }
  OMMAI_TRY(ommai_image_write_png(image->pixels, image->width, image->height, &png, error));
  FILE *file = fopen(part, "wbe");
  bool written = file && fwrite(png.data, 1, png.size, file) == png.size;
  if (file) written &= fclose(file) == 0;
  written = written && rename(part, path) == 0;
  ommai_image_bytes_release(&png);
  return written ? OMMA_OK : ommai_fail(error, OMMA_ERROR_IO, "%s: cannot be written: %s", path, strerror(errno));
}
