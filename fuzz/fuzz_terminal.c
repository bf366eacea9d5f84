/* What the conversation reads: boxes in an answer, and paths in a line. */
#include <string.h>

#include "base/allocator.h"
#include "cli/chat/box_find.h"
#include "cli/core/pasted_paths.h"
#include "fuzz_input.h"

static void try_boxes(const char *text, size_t size) {
  static const struct ommai_box_image images[] = {{100, 50, 0.1, 0.05}, {7, 9000, 1, 1}};
  struct ommai_boxes boxes;
  FUZZ_CHECK(ommai_boxes_find(text, size, images, 2, &boxes) && boxes.count <= OMMAI_MAX_BOXES);
  for (size_t i = 0; i < boxes.count; i++) {
    const struct ommai_box *box = &boxes.items[i];
    FUZZ_CHECK(box->image < 2 && box->label);
    FUZZ_CHECK(box->x1 >= 0 && box->x1 < box->x2 && box->x2 <= images[box->image].width);
    FUZZ_CHECK(box->y1 >= 0 && box->y1 < box->y2 && box->y2 <= images[box->image].height);
  }
  struct ommai_text out = ommai_text_of(&ommai_default_allocator);
  ommai_put_boxes(&out, NULL, &boxes);
  json_t *list = json_loadb(out.data, out.size, 0, NULL);
  FUZZ_CHECK(!out.failed && list && json_array_size(list) == boxes.count);
  json_decref(list);
  ommai_text_free(&out);
  ommai_boxes_release(&boxes);
}

static void try_line(const char *line) {
  char path[64], open;
  const char *at = line;
  for (;;) {
    const char *before = at;
    enum ommai_word word = ommai_pasted_path(&at, path, sizeof path);
    FUZZ_CHECK(at >= before && at <= line + strlen(line));
    if (word != OMMAI_WORD_FOUND) break;
    FUZZ_CHECK(memchr(path, 0, sizeof path) && at > before);
  }
  if (ommai_last_word(line, path, sizeof path, &open)) FUZZ_CHECK(memchr(path, 0, sizeof path));
  (void)ommai_pasted_images(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  if (size < 1) return 0;
  if (bytes[0] % 2) {
    try_boxes((const char *)bytes + 1, size - 1);
  } else {
    char *line = malloc(size);
    FUZZ_CHECK(line);
    memcpy(line, bytes + 1, size - 1);
    line[size - 1] = '\0';
    try_line(line);
    free(line);
  }
  return 0;
}
