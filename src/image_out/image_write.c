#include "image_out/image_write.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>
#include <png.h>

#include "base/error.h"

struct writer {
  struct jpeg_compress_struct jpeg;
  struct jpeg_error_mgr errors;
  jmp_buf failed;
  struct omma_error *error;
};

static _Noreturn void on_error(j_common_ptr jpeg) {
  struct writer *writer = jpeg->client_data;
  char text[JMSG_LENGTH_MAX];
  jpeg->err->format_message(jpeg, text);
  ommai_fail(writer->error, OMMA_ERROR_INTERNAL, "cannot write a JPEG: %s", text);
  longjmp(writer->failed, 1);
}

void ommai_image_bytes_release(struct ommai_image_bytes *bytes) {
  free(bytes->data);
  bytes->data = NULL;
}

enum omma_status ommai_image_write_jpeg(const uint8_t *pixels, int32_t width, int32_t height, struct ommai_image_bytes *bytes,
                                        struct omma_error *error) {
  if (width > JPEG_MAX_DIMENSION || height > JPEG_MAX_DIMENSION) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "a JPEG of %d x %d: sides may be %ld at most", width, height,
                      JPEG_MAX_DIMENSION);
  }
  struct writer writer = {.error = error};
  unsigned long size = 0;
  *bytes = (struct ommai_image_bytes){0};
  writer.jpeg.err = jpeg_std_error(&writer.errors);
  writer.errors.error_exit = on_error;
  writer.jpeg.client_data = &writer;
  if (setjmp(writer.failed)) {
    jpeg_destroy_compress(&writer.jpeg);
    ommai_image_bytes_release(bytes);
    return OMMA_ERROR_INTERNAL;
  }
  jpeg_create_compress(&writer.jpeg);
  jpeg_mem_dest(&writer.jpeg, &bytes->data, &size);
  writer.jpeg.image_width = (JDIMENSION)width;
  writer.jpeg.image_height = (JDIMENSION)height;
  writer.jpeg.input_components = 3;
  writer.jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&writer.jpeg);
  jpeg_start_compress(&writer.jpeg, TRUE);
  while (writer.jpeg.next_scanline < writer.jpeg.image_height) {
    JSAMPROW row = (JSAMPROW)pixels + (size_t)writer.jpeg.next_scanline * (size_t)width * 3;
    jpeg_write_scanlines(&writer.jpeg, &row, 1);
  }
  jpeg_finish_compress(&writer.jpeg);
  jpeg_destroy_compress(&writer.jpeg);
  bytes->size = size;
  return OMMA_OK;
}

enum omma_status ommai_image_write_png(const uint8_t *pixels, int32_t width, int32_t height, struct ommai_image_bytes *bytes,
                                       struct omma_error *error) {
  png_image image = {
      .version = PNG_IMAGE_VERSION, .width = (png_uint_32)width, .height = (png_uint_32)height, .format = PNG_FORMAT_RGB};
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  *bytes = (struct ommai_image_bytes){.data = malloc(size)};
  if (!bytes->data) return ommai_fail_memory(error, "a PNG", size);
  if (!png_image_write_to_memory(&image, bytes->data, &size, 0, pixels, 0, NULL)) {
    ommai_image_bytes_release(bytes);
    return ommai_fail(error, OMMA_ERROR_INTERNAL, "cannot write a PNG: %s", image.message);
  }
  bytes->size = size;
  return OMMA_OK;
}
