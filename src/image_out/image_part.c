#include "image_out/image_part.h"

#include <sodium.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "image_out/image_write.h"
#include "image/image.h"

#define FILE_SCHEME "file://"

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static json_t *part_of(json_t *url) { return json_pack("{s:s, s:{s:o}}", "type", "image_url", "image_url", "url", url); }

/* A part with a data: URL of `size` bytes. */
static enum omma_status inline_part(const char *media_type, const void *bytes, size_t size,
                                    const struct omma_allocator *allocator, json_t **part, struct omma_error *error) {
  char head[64];
  size_t head_size = (size_t)snprintf(head, sizeof head, "data:%s;base64,", media_type);
  size_t room = head_size + sodium_base64_encoded_len(size, sodium_base64_VARIANT_ORIGINAL);
  char *url = ommai_allocate_uninitialised(allocator, room, 1);
  if (!url) return ommai_fail_memory(error, "an image as text", room);
  memcpy(url, head, head_size);
  sodium_bin2base64(url + head_size, room - head_size, bytes, size, sodium_base64_VARIANT_ORIGINAL);
  *part = part_of(json_stringn_nocheck(url, room - 1));
  ommai_release(allocator, url, room, 1);
  return *part ? OMMA_OK : ommai_fail_memory(error, "an image as text", room);
}

enum omma_status ommai_image_part_from_pixels(const uint8_t *pixels, int32_t width, int32_t height,
                                              const struct omma_allocator *allocator, json_t **part, struct omma_error *error) {
  struct ommai_image_bytes jpeg;
  OMMAI_TRY(ommai_image_write_jpeg(pixels, width, height, &jpeg, error));
  enum omma_status status = inline_part("image/jpeg", jpeg.data, jpeg.size, allocator, part, error);
  ommai_image_bytes_release(&jpeg);
  return status;
}

enum omma_status ommai_image_part_from_file(const void *bytes, size_t size, const struct omma_allocator *allocator,
                                            json_t **part, struct omma_error *error) {
  struct ommai_image *image;
  OMMAI_TRY(ommai_image_decode(bytes, size, NULL, allocator, &image, error));
  enum omma_status status = ommai_image_part_from_pixels(image->pixels, image->width, image->height, allocator, part, error);
  ommai_image_destroy(image);
  return status;
}

enum omma_status ommai_image_part_png(const uint8_t *pixels, int32_t width, int32_t height,
                                      const struct omma_allocator *allocator, json_t **part, struct omma_error *error) {
  struct ommai_image_bytes png;
  OMMAI_TRY(ommai_image_write_png(pixels, width, height, &png, error));
  enum omma_status status = inline_part("image/png", png.data, png.size, allocator, part, error);
  ommai_image_bytes_release(&png);
  return status;
}

static enum omma_status inline_file(const char *path, const struct omma_allocator *allocator, json_t **part,
                                    struct omma_error *error) {
  char *bytes;
  size_t size;
  struct ommai_image *image;
  OMMAI_TRY(ommai_file_read(path, OMMAI_IMAGE_MAX_BYTES, allocator, &bytes, &size, error));
  enum omma_status status = ommai_image_decode(bytes, size, NULL, allocator, &image, error);
  ommai_release(allocator, bytes, size + 1, 1);
  if (status != OMMA_OK) {
    ommai_error_prefix(error, "%s", path);
    return status;
  }
  status = ommai_image_part_png(image->pixels, image->width, image->height, allocator, part, error);
  ommai_image_destroy(image);
  return status;
}

enum omma_status ommai_image_part_from_reference(const char *reference, bool inline_images,
                                                 const struct omma_allocator *allocator, json_t **part,
                                                 struct omma_error *error) {
  bool remote = begins(reference, "http://") || begins(reference, "https://");
  bool is_file = begins(reference, FILE_SCHEME), is_data = begins(reference, "data:image/");
  if (inline_images && remote) {
    return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "%.200s: images are not fetched from the network: save it as a file",
                      reference);
  }
  if (inline_images && !is_data) {
    return inline_file(is_file ? reference + strlen(FILE_SCHEME) : reference, allocator, part, error);
  }
  *part = part_of(remote || is_file || is_data ? json_string(reference) : json_sprintf(FILE_SCHEME "%s", reference));
  return *part ? OMMA_OK : ommai_fail_memory(error, "a reference to an image", strlen(reference));
}
