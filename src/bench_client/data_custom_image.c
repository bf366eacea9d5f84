/* custom_image: JSONL with {"prompt", "image_files": [...]} or {"content": [parts]} per line, and
 * optionally "answers". */
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/text_buffer.h"
#include "bench_client/data_set.h"
#include "bench_client/json_lines.h"
#include "image_out/image_part.h"

struct reader {
  const struct ommai_data_settings *settings;
  struct ommai_data_set *set;
  struct omma_error *error;
  size_t row; /* from 1, for messages */
};

static enum omma_status wrong(const struct reader *reader, const char *what) {
  return ommai_fail(reader->error, OMMA_ERROR_FORMAT, "%s: entry %zu: %s", reader->settings->path, reader->row, what);
}

static enum omma_status out_of_memory(const struct reader *reader) {
  return ommai_fail_memory(reader->error, "an entry of the data set", 0);
}

/* Appends the image that `reference` names. */
static enum omma_status add_image(const struct reader *reader, const json_t *reference, json_t *parts) {
  json_t *part;
  if (!json_is_string(reference)) return wrong(reader, "expected a path or an address of an image as a string");
  enum omma_status status = ommai_image_part_from_reference(json_string_value(reference), reader->settings->inline_images,
                                                            reader->set->allocator, &part, reader->error);
  if (status != OMMA_OK) {
    ommai_error_prefix(reader->error, "%s: entry %zu", reader->settings->path, reader->row);
    return status;
  }
  return json_array_append_new(parts, part) == 0 ? OMMA_OK : out_of_memory(reader);
}

/* {"type": "image_url", "image_url": {"url": ..., and other keys, which are kept}} */
static enum omma_status add_image_url(const struct reader *reader, const json_t *image_url, json_t *parts) {
  const json_t *url = json_is_object(image_url) ? json_object_get(image_url, "url") : image_url;
  OMMAI_TRY(add_image(reader, url, parts));
  json_t *added = json_object_get(json_array_get(parts, json_array_size(parts) - 1), "image_url");
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)image_url, key, value) {
    if (strcmp(key, "url") != 0 && json_object_set(added, key, value)) return out_of_memory(reader);
  }
  return OMMA_OK;
}

static enum omma_status add_part(const struct reader *reader, const json_t *part, json_t *parts) {
  const char *type = json_string_value(json_object_get(part, "type"));
  const json_t *text = json_object_get(part, "text");
  if (type && strcmp(type, "text") == 0) {
    if (!json_is_string(text)) return wrong(reader, "a part of type text needs a string \"text\"");
    json_t *copy = json_pack("{s:s, s:O}", "type", "text", "text", text);
    return json_array_append_new(parts, copy) == 0 ? OMMA_OK : out_of_memory(reader);
  }
  if (type && strcmp(type, "image") == 0) return add_image(reader, json_object_get(part, "image"), parts);
  if (type && strcmp(type, "image_url") == 0) return add_image_url(reader, json_object_get(part, "image_url"), parts);
  return wrong(reader, "parts of \"content\" must have the type text, image or image_url");
}

/* Counts the tokens of all text parts joined. */
static enum omma_status count_text(const struct reader *reader, const json_t *parts, int64_t *count) {
  struct ommai_text text = ommai_text_of(reader->set->allocator);
  size_t i;
  json_t *part;
  json_array_foreach(parts, i, part) {
    const json_t *piece = json_object_get(part, "text");
    ommai_text_append(&text, json_string_value(piece), json_string_length(piece));
  }
  enum omma_status status =
      text.failed ? out_of_memory(reader)
                  : ommai_data_count_tokens(reader->settings->tokenizer, text.data, text.size, count, reader->error);
  ommai_text_free(&text);
  return status;
}

/* The content of the one message: given as parts, or the prompt and then the images. */
static enum omma_status read_content(const struct reader *reader, const json_t *row, json_t *parts) {
  const json_t *content = json_object_get(row, "content"), *prompt = json_object_get(row, "prompt");
  const json_t *files = json_object_get(row, "image_files");
  size_t i;
  json_t *item;
  if (content) {
    if (json_array_size(content) == 0) return wrong(reader, "\"content\" must be a list of parts that is not empty");
    json_array_foreach(content, i, item) OMMAI_TRY(add_part(reader, item, parts));
    return OMMA_OK;
  }
  if (!prompt || !files) return wrong(reader, "expected \"prompt\" and \"image_files\", or \"content\"");
  if (!json_is_string(prompt)) return wrong(reader, "\"prompt\" must be a string");
  if (json_array_size(files) == 0) return wrong(reader, "\"image_files\" must be a list that is not empty");
  if (json_array_append_new(parts, json_pack("{s:s, s:O}", "type", "text", "text", prompt))) return out_of_memory(reader);
  json_array_foreach(files, i, item) OMMAI_TRY(add_image(reader, item, parts));
  return OMMA_OK;
}

static enum omma_status add_row(const struct reader *reader, const json_t *row) {
  json_t *parts = json_array();
  int64_t prompt_len, output_len = reader->settings->output_len;
  enum omma_status status = parts ? read_content(reader, row, parts) : out_of_memory(reader);
  if (status == OMMA_OK) status = count_text(reader, parts, &prompt_len);
  if (status == OMMA_OK && output_len < 0) {
    const json_t *own = json_object_get(row, "output_tokens");
    output_len = json_integer_value(own);
    if (!json_is_integer(own) || output_len < 1) {
      status = wrong(reader, "without --custom-output-len an integer \"output_tokens\" of 1 or more is needed");
    }
  }
  if (status == OMMA_OK) {
    status =
        ommai_data_set_add(reader->set, parts, NULL, json_object_get(row, "answers"), prompt_len, output_len, reader->error);
  }
  json_decref(parts);
  return status;
}

static enum omma_status add_rows(struct reader *reader, const json_t *rows) {
  size_t n = json_array_size(rows), wanted = (size_t)reader->settings->n_requests, *order;
  OMMAI_TRY(ommai_data_order(reader->settings, reader->set, n, &order, reader->error));
  enum omma_status status = OMMA_OK;
  if (wanted == 0 || wanted > n) wanted = n;
  for (size_t i = 0; i < wanted && status == OMMA_OK; i++) {
    reader->row = order[i] + 1;
    status = add_row(reader, json_array_get(rows, order[i]));
  }
  ommai_release(reader->set->allocator, order, n, sizeof *order);
  return status;
}

enum omma_status ommai_data_custom_image(const struct ommai_data_settings *settings, struct ommai_data_set *set,
                                         struct omma_error *error) {
  struct reader reader = {.settings = settings, .set = set, .error = error};
  json_t *rows = json_array();
  enum omma_status status = rows ? ommai_json_lines_load(settings->path, rows, error) : out_of_memory(&reader);
  if (status == OMMA_OK) status = add_rows(&reader, rows);
  json_decref(rows);
  return status;
}
