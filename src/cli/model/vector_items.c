#include "cli/model/vector_items.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/model/image_sources.h"

enum { MAX_LINE = 64 << 20 };

bool ommai_vector_items_exist(const struct ommai_vector_items *items) {
  return items->file || items->images.count + items->texts.count > 0;
}

int64_t ommai_vector_items_count(const struct ommai_vector_items *items) {
  const int64_t named = (int64_t)(items->images.count + items->texts.count), read = items->lines.end;
  if (!items->file) return named;
  if (!items->size || !read) return -1;
  return named + (int64_t)((double)(items->n - named) * (double)items->size / (double)read);
}

void ommai_vector_item_release(struct ommai_vector_item *item) {
  for (size_t i = 0; i < item->n_images; i++) omma_image_destroy(item->images[i]);
  json_decref(item->line);
  *item = (struct ommai_vector_item){0};
}

void ommai_vector_items_release(struct ommai_vector_items *items) {
  if (items->opened && items->lines.file != STDIN_FILENO) close(items->lines.file);
  ommai_text_lines_release(&items->lines);
}

static int load_image(struct ommai_vector_item *item, const char *source) {
  if (item->n_images == OMMAI_VECTOR_MAX_IMAGES) {
    return ommai_failed("%s: more than %d images and frames", item->name, OMMAI_VECTOR_MAX_IMAGES);
  }
  int code = ommai_load_image(source, &item->images[item->n_images]);
  if (code == OMMAI_EXIT_DONE) item->n_images++;
  return code;
}

int ommai_vector_item_add_image(struct ommai_vector_item *item, const char *source) {
  int code = load_image(item, source);
  if (code == OMMAI_EXIT_DONE) item->parts[item->n_parts++] = (struct omma_part){.image = item->images[item->n_images - 1]};
  return code;
}

void ommai_vector_item_add_text(struct ommai_vector_item *item, const char *text, size_t size) {
  item->parts[item->n_parts++] = (struct omma_part){.text = text, .text_size = size};
}

/* ---- lines ---- */

/* A name or a list of names, each handed to `add`. */
static bool add_files(struct ommai_vector_item *item, const json_t *value, const char *key,
                      int (*add)(struct ommai_vector_item *item, const char *source)) {
  if (json_is_string(value)) return add(item, json_string_value(value)) == OMMAI_EXIT_DONE;
  bool good = json_is_array(value);
  for (size_t i = 0; good && i < json_array_size(value); i++) {
    const char *source = json_string_value(json_array_get(value, i));
    good = source != NULL;
    if (good && add(item, source) != OMMAI_EXIT_DONE) return false;
  }
  if (!good) ommai_failed("%s: %s must be a string or a list of strings", item->name, key);
  return good;
}

static bool add_images(struct ommai_vector_item *item) {
  const json_t *value = json_object_get(item->line, "image");
  return !value || add_files(item, value, "image", ommai_vector_item_add_image);
}

static bool add_video(struct ommai_vector_item *item) {
  const json_t *value = json_object_get(item->line, "video"), *fps = json_object_get(item->line, "fps");
  size_t first = item->n_images;
  if (!value) return true;
  if (fps && !json_is_number(fps)) {
    ommai_failed("%s: fps must be a number", item->name);
    return false;
  }
  if (!add_files(item, value, "video", load_image)) return false;
  item->video = (struct omma_video){.frames = (const struct omma_image *const *)&item->images[first],
                                    .n_frames = item->n_images - first,
                                    .fps = json_number_value(fps)};
  item->parts[item->n_parts++] = (struct omma_part){.video = &item->video};
  return true;
}

/* A string that may be missing. */
static bool get_string(const struct ommai_vector_item *item, const char *key, const json_t **value) {
  *value = json_object_get(item->line, key);
  if (!*value || json_is_string(*value)) return true;
  ommai_failed("%s: %s must be a string", item->name, key);
  return false;
}

static bool check_keys(const struct ommai_vector_item *item) {
  static const char *const known[] = {"text", "image", "video", "fps", "instruction", NULL};
  const char *other = ommai_json_other_key(item->line, known);
  if (other) ommai_failed("%s: unknown key \"%.60s\": text, image, video, fps and instruction are known", item->name, other);
  return !other;
}

/* A text as a JSON string, or an object with text, image and instruction. */
static bool read_item(struct ommai_vector_item *item) {
  const json_t *text = item->line, *instruction;
  if (!json_is_string(text)) {
    if (!json_is_object(item->line)) {
      ommai_failed("%s: expected a string or an object with text, image and video", item->name);
      return false;
    }
    if (!check_keys(item) || !get_string(item, "text", &text) || !get_string(item, "instruction", &instruction)) return false;
    item->instruction = json_string_value(instruction);
    if (!add_images(item) || !add_video(item)) return false;
  }
  if (text) ommai_vector_item_add_text(item, json_string_value(text), json_string_length(text));
  return true;
}

static bool open_file(struct ommai_vector_items *items) {
  if (items->opened) return true;
  bool standard = strcmp(items->file, "-") == 0;
  int file = standard ? STDIN_FILENO : open(items->file, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    ommai_failed("%s: %s", items->file, strerror(errno));
    return false;
  }
  struct stat status;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) items->size = status.st_size;
  items->lines = (struct ommai_text_lines){.file = file, .limit = MAX_LINE};
  items->opened = true;
  return true;
}

/* LATER: an interrupt has come first. */
static enum ommai_text_line next_line(struct ommai_text_lines *lines) {
  enum ommai_text_line next;
  do {
    next = ommai_text_lines_next(lines);
    if (next == OMMAI_TEXT_LINE_LATER) ommai_interrupt_wait_or_read(lines->file);
  } while ((next == OMMAI_TEXT_LINE_LATER && !ommai_interrupted()) ||
           (next == OMMAI_TEXT_LINE_READ && !lines->cut && ommai_text_is_blank(lines->line, lines->size)));
  return next;
}

static enum ommai_vector_next next_of_file(struct ommai_vector_items *items, struct ommai_vector_item *item) {
  struct ommai_text_lines *lines = &items->lines;
  json_error_t error;
  if (!open_file(items)) return OMMAI_VECTOR_FAILED;
  enum ommai_text_line next = next_line(lines);
  if (next == OMMAI_TEXT_LINE_END || next == OMMAI_TEXT_LINE_LATER) return OMMAI_VECTOR_END;
  if (next == OMMAI_TEXT_LINE_FAILED) {
    ommai_failed("%s: %s", items->file, strerror(errno));
    return OMMAI_VECTOR_FAILED;
  }
  items->n++;
  snprintf(item->name, sizeof item->name, "%.60s: line %lld", items->file, (long long)lines->number);
  if (!lines->cut) item->line = json_loadb(lines->line, lines->size, JSON_DECODE_ANY, &error);
  if (item->line) return read_item(item) ? OMMAI_VECTOR_ITEM : OMMAI_VECTOR_BAD_ITEM;
  ommai_failed("%s: %s", item->name, lines->cut ? "longer than 64 MiB" : error.text);
  return OMMAI_VECTOR_BAD_ITEM;
}

enum ommai_vector_next ommai_vector_items_next(struct ommai_vector_items *items, struct ommai_vector_item *item) {
  size_t at = items->at;
  *item = (struct ommai_vector_item){0};
  if (at < items->images.count + items->texts.count) {
    items->at++;
    items->n++;
  }
  if (at < items->images.count) {
    const char *word = items->images.items[at];
    snprintf(item->name, sizeof item->name, "%.90s", word);
    if (ommai_is_no_file(word)) {
      ommai_failed("image: %s: cannot open: %s (a text goes after --text)", word, strerror(ENOENT));
      return OMMAI_VECTOR_BAD_ITEM;
    }
    return ommai_vector_item_add_image(item, word) == OMMAI_EXIT_DONE ? OMMAI_VECTOR_ITEM : OMMAI_VECTOR_BAD_ITEM;
  }
  at -= items->images.count;
  if (at < items->texts.count) {
    snprintf(item->name, sizeof item->name, "text %zu", at + 1);
    ommai_vector_item_add_text(item, items->texts.items[at], strlen(items->texts.items[at]));
    return OMMAI_VECTOR_ITEM;
  }
  return items->file ? next_of_file(items, item) : OMMAI_VECTOR_END;
}
