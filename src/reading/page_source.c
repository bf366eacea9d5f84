#include "reading/page_source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "image/image_pages.h"
#include "image_out/image_write.h"

#define MAX_HEAD 1024 /* of a PDF file, until its mark */

static bool is_pdf(const void *start, size_t size) {
  return memmem(start, size < MAX_HEAD ? size : MAX_HEAD, "%PDF-", 5) != NULL;
}

static struct ommai_pdf_file file_of(const struct ommai_page_source *source) {
  return (struct ommai_pdf_file){source->path, source->descriptor};
}

/* Of an image's file: of several pages where it is a TIFF. What cannot be read shows when the page
 * is decoded. */
static int64_t count_image_pages(const char *path, const char *start, size_t size) {
  const struct omma_allocator *allocator = &ommai_default_allocator;
  struct omma_error error;
  char *bytes;
  if (ommai_image_sniff(start, size) != OMMAI_IMAGE_TIFF ||
      ommai_file_read(path, OMMAI_IMAGE_MAX_BYTES, allocator, &bytes, &size, &error) != OMMA_OK) {
    return 1;
  }
  int64_t n = ommai_tiff_count_pages((const uint8_t *)bytes, size);
  ommai_release(allocator, bytes, size + 1, 1);
  return n;
}

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
  char start[MAX_HEAD] = "";
  FILE *file = fopen(path, "rbe");
  if (!file) return ommai_fail(error, OMMA_ERROR_IO, "cannot be read: %s", strerror(errno));
  size_t size = fread(start, 1, sizeof start, file);
  bool failed = ferror(file);
  fclose(file);
  if (failed) return ommai_fail(error, OMMA_ERROR_IO, "cannot be read");
  *source = (struct ommai_page_source){.path = path, .descriptor = -1, .is_pdf = is_pdf(start, size), .n_pages = 1};
  const struct ommai_pdf_file pdf = file_of(source);
  if (!source->is_pdf && size > 0 && strlen(path) > 4 && strcasecmp(path + strlen(path) - 4, ".pdf") == 0) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "is not a PDF file");
  }
  if (source->is_pdf) return ommai_pdf_count_pages(&pdf, limits, &source->n_pages, error);
  source->n_pages = count_image_pages(path, start, size);
  return OMMA_OK;
}

/* A file in memory that has no name, for poppler's programs. */
static enum omma_status make_file(const char *bytes, size_t size, int *descriptor, struct omma_error *error) {
  size_t written = 0;
  *descriptor = memfd_create("document", MFD_CLOEXEC);
  while (*descriptor >= 0 && written < size) {
    ssize_t n = write(*descriptor, bytes + written, size - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    written += (size_t)n;
  }
  if (written == size) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_IO, "cannot be kept in memory: %s", strerror(errno));
}

enum omma_status ommai_page_source_open_bytes(const void *bytes, size_t size, const struct ommai_pdf_limits *limits,
                                              struct ommai_page_source *source, struct omma_error *error) {
  *source = (struct ommai_page_source){
      .bytes = bytes, .size = size, .descriptor = -1, .is_pdf = is_pdf(bytes, size), .n_pages = 1};
  if (!source->is_pdf) {
    source->n_pages = ommai_tiff_count_pages(bytes, size);
    return OMMA_OK;
  }
  OMMAI_TRY(make_file(bytes, size, &source->descriptor, error));
  const struct ommai_pdf_file pdf = file_of(source);
  return ommai_pdf_count_pages(&pdf, limits, &source->n_pages, error);
}

void ommai_page_source_close(struct ommai_page_source *source) {
  if (source->descriptor >= 0) close(source->descriptor);
  source->descriptor = -1;
}

/* The bytes of an image, which may be changed; release size + 1. */
static enum omma_status take_bytes(const struct ommai_page_source *source, char **bytes, size_t *size,
                                   struct omma_error *error) {
  const struct omma_allocator *allocator = &ommai_default_allocator;
  if (source->path) return ommai_file_read(source->path, OMMAI_IMAGE_MAX_BYTES, allocator, bytes, size, error);
  *size = source->size;
  *bytes = ommai_allocate(allocator, source->size + 1, 1);
  if (!*bytes) return ommai_fail_memory(error, "a page", source->size + 1);
  memcpy(*bytes, source->bytes, source->size);
  return OMMA_OK;
}

enum omma_status ommai_page_source_load(const struct ommai_page_source *source, int64_t page, int dpi,
                                        const struct ommai_pdf_limits *limits, struct ommai_image **image,
                                        struct omma_error *error) {
  const struct ommai_pdf_file pdf = file_of(source);
  if (source->is_pdf) return ommai_pdf_render(&pdf, page, dpi, limits, image, error);
  const struct omma_allocator *allocator = &ommai_default_allocator;
  struct ommai_image_limits image_limits = ommai_image_default_limits;
  char *bytes;
  size_t size;
  image_limits.max_pixels = limits->max_pixels;
  image_limits.pixels_setting = "--max-page-pixels";
  if (!source->path && page == 1) {
    return ommai_image_decode(source->bytes, source->size, &image_limits, allocator, image, error);
  }
  OMMAI_TRY(take_bytes(source, &bytes, &size, error));
  ommai_tiff_begin_at_page((uint8_t *)bytes, size, page);
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
