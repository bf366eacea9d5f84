#include "cli/chat/chat_boxes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocator.h"
#include "cli/chat/box_draw.h"
#include "cli/core/diagnostics.h"
#include "cli/core/paths.h"
#include "image_out/image_write.h"

static int measure(const struct omma_model *model, enum omma_box_unit unit, const struct omma_part *part,
                   struct ommai_box_image *image) {
  int32_t width = omma_image_width(part->image), height = omma_image_height(part->image);
  struct omma_image_sizes sizes;
  struct omma_error error;
  if (unit == OMMA_BOX_UNIT_THOUSANDTHS) {
    *image = (struct ommai_box_image){width, height, width / 1000.0, height / 1000.0};
    return OMMAI_EXIT_DONE;
  }
  if (omma_model_image_sizes(model, width, height, &part->image_options, &sizes, &error) != OMMA_OK)
    return ommai_failed_call(&error);
  *image = (struct ommai_box_image){width, height, (double)width / sizes.resized_width, (double)height / sizes.resized_height};
  return OMMAI_EXIT_DONE;
}

int ommai_chat_boxes_check(const struct omma_model *model) {
  struct omma_model_info info;
  omma_model_get_info(model, &info);
  if (info.box_unit != OMMA_BOX_UNIT_NONE) return OMMAI_EXIT_DONE;
  return ommai_failed("boxes: %s: the answers of %s models have no known form of boxes", info.directory, info.model_type);
}

static int cannot_write(const char *path, int reason) {
  return ommai_failed("boxes: %s: cannot be written: %s", path, strerror(reason));
}

/* The path of an image, from 0: "a/b.png", "a/b-2.png", ... */
static int name_image(const char *path, size_t index, char *out, size_t size) {
  const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
  size_t stem = dot && dot > (slash ? slash + 1 : path) ? (size_t)(dot - path) : strlen(path);
  int length =
      index ? snprintf(out, size, "%.*s-%zu%s", (int)stem, path, index + 1, path + stem) : snprintf(out, size, "%s", path);
  if (length >= 0 && (size_t)length < size) return OMMAI_EXIT_DONE;
  return ommai_failed("boxes: %.100s...: the path is too long", path);
}

/* As far as can be known without writing: the file, or the folder of one that is not there yet. */
static int check_writable(const char *path, bool there, const struct stat *status) {
  char folder[OMMAI_MAX_PATH];
  const char *slash = strrchr(path, '/');
  if (there && S_ISDIR(status->st_mode)) return cannot_write(path, EISDIR);
  snprintf(folder, sizeof folder, "%.*s.", slash ? (int)(slash + 1 - path) : 0, path);
  if (access(there ? path : folder, there ? W_OK : W_OK | X_OK) != 0) return cannot_write(path, errno);
  return OMMAI_EXIT_DONE;
}

static int check_file(const char *path, const char *const *images, size_t n_images) {
  struct stat status, image;
  bool there = stat(path, &status) == 0;
  for (size_t i = 0; there && i < n_images; i++) {
    if (stat(images[i], &image) == 0 && image.st_dev == status.st_dev && image.st_ino == status.st_ino) {
      return ommai_usage_error("chat: --boxes: %s: is the image %s itself: give another file", path, images[i]);
    }
  }
  return check_writable(path, there, &status);
}

int ommai_chat_boxes_check_path(const char *path, const char *const *images, size_t n_images) {
  char name[OMMAI_MAX_PATH];
  const char *dot = strrchr(path, '.');
  if (!dot || strcasecmp(dot, ".png") != 0) {
    return ommai_usage_error("chat: --boxes: %s: the name must end in .png, the format of the drawing", path);
  }
  int code = OMMAI_EXIT_DONE;
  for (size_t i = 0; i < n_images && code == OMMAI_EXIT_DONE; i++) {
    code = name_image(path, i, name, sizeof name);
    if (code == OMMAI_EXIT_DONE) code = check_file(name, images, n_images);
  }
  return code;
}

int ommai_chat_boxes(const struct omma_model *model, const struct omma_part *images, size_t n_images, const char *text,
                     size_t size, struct ommai_boxes *boxes) {
  struct omma_model_info info;
  omma_model_get_info(model, &info);
  *boxes = (struct ommai_boxes){0};
  if (info.box_unit == OMMA_BOX_UNIT_NONE) n_images = size = 0;
  struct ommai_box_image *measured = ommai_allocate(&ommai_default_allocator, n_images, sizeof *measured);
  if (!measured) return ommai_failed("boxes: out of memory: %zu images", n_images);
  int code = OMMAI_EXIT_DONE;
  for (size_t i = 0; i < n_images && code == OMMAI_EXIT_DONE; i++) {
    code = measure(model, info.box_unit, &images[i], &measured[i]);
  }
  if (code == OMMAI_EXIT_DONE && !ommai_boxes_find(text, size, measured, n_images, boxes)) {
    code = ommai_failed("boxes: out of memory");
  }
  if (boxes->n_refused) {
    ommai_warn("boxes: %zu left out: expected four numbers, left and top first, on an image that was given", boxes->n_refused);
  }
  ommai_release(&ommai_default_allocator, measured, n_images, sizeof *measured);
  return code;
}

static int write_file(const char *path, const struct ommai_image_bytes *bytes) {
  FILE *file = fopen(path, "wb");
  if (!file) return cannot_write(path, errno);
  bool written = fwrite(bytes->data, 1, bytes->size, file) == bytes->size;
  if (fclose(file) == 0 && written) return OMMAI_EXIT_DONE;
  return cannot_write(path, errno);
}

static int save_image(const struct ommai_boxes *boxes, const struct omma_image *image, size_t index, const char *path) {
  int32_t width = omma_image_width(image), height = omma_image_height(image);
  size_t row = (size_t)width * 3;
  uint8_t *pixels = ommai_allocate_uninitialised(&ommai_default_allocator, (size_t)height, row);
  if (!pixels) return ommai_failed("boxes: out of memory: an image of %d x %d", width, height);
  memcpy(pixels, omma_image_pixels(image), (size_t)height * row);
  for (size_t i = 0; i < boxes->count; i++) {
    if (boxes->items[i].image == index) ommai_box_draw(pixels, width, height, &boxes->items[i], i);
  }
  struct ommai_image_bytes bytes;
  struct omma_error error;
  int code;
  if (ommai_image_write_png(pixels, width, height, &bytes, &error) != OMMA_OK) {
    code = ommai_failed_call(&error);
  } else {
    code = write_file(path, &bytes);
    ommai_image_bytes_release(&bytes);
  }
  ommai_release(&ommai_default_allocator, pixels, (size_t)height, row);
  return code;
}

static bool has_box(const struct ommai_boxes *boxes, size_t index) {
  for (size_t i = 0; i < boxes->count; i++) {
    if (boxes->items[i].image == index) return true;
  }
  return false;
}

int ommai_chat_boxes_save(const struct ommai_boxes *boxes, const struct omma_part *images, size_t n_images, const char *path) {
  char name[OMMAI_MAX_PATH];
  if (!boxes->count) return ommai_failed("boxes: no box found in the answer: %s is not written", path);
  for (size_t i = 0; i < n_images; i++) {
    if (!has_box(boxes, i)) continue;
    int code = name_image(path, i, name, sizeof name);
    if (code == OMMAI_EXIT_DONE) code = save_image(boxes, images[i].image, i, name);
    if (code != OMMAI_EXIT_DONE) return code;
  }
  return OMMAI_EXIT_DONE;
}
