/* sharegpt: one JSON array of {"conversations": [{"value"}, {"value"}, ...]}; the first turn asks,
 * the second gives the length of the answer. */
#include "base/error.h"
#include "base/file.h"
#include "base/growing.h"
#include "base/json.h"
#include "bench_client/data_set.h"
#include "image_out/image_part.h"

/* What a conversation may have at least and at most, in tokens. */
enum { MIN_TOKENS = 4, MAX_PROMPT_TOKENS = 1024, MAX_TOKENS = 2048 };

static json_t *turn(const json_t *entry, size_t index) {
  return json_object_get(json_array_get(json_object_get(entry, "conversations"), index), "value");
}

static bool fits(int64_t prompt_len, int64_t output_len, bool length_given) {
  return prompt_len >= MIN_TOKENS && (length_given || output_len >= MIN_TOKENS) && prompt_len <= MAX_PROMPT_TOKENS &&
         prompt_len + output_len <= MAX_TOKENS;
}

static enum omma_status add_entry(const struct ommai_data_settings *settings, struct ommai_data_set *set, const json_t *entry,
                                  struct omma_error *error) {
  const json_t *prompt = turn(entry, 0), *completion = turn(entry, 1), *image = json_object_get(entry, "image");
  int64_t prompt_len, output_len = settings->output_len;
  if (!json_is_string(prompt) || !json_is_string(completion)) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: a conversation's first two turns need a string \"value\"", settings->path);
  }
  OMMAI_TRY(
      ommai_data_count_tokens(settings->tokenizer, json_string_value(prompt), json_string_length(prompt), &prompt_len, error));
  if (output_len < 0) {
    OMMAI_TRY(ommai_data_count_tokens(settings->tokenizer, json_string_value(completion), json_string_length(completion),
                                      &output_len, error));
  }
  if (!fits(prompt_len, output_len, settings->output_len >= 0)) return OMMA_OK;
  json_t *media = NULL;
  if (json_is_string(image)) {
    OMMAI_TRY(
        ommai_image_part_from_reference(json_string_value(image), settings->inline_images, set->allocator, &media, error));
  }
  enum omma_status status =
      ommai_data_set_add(set, prompt, media, json_object_get(entry, "answers"), prompt_len, output_len, error);
  json_decref(media);
  return status;
}

/* Entries with at least two turns. */
static enum omma_status keep_conversations(const json_t *entries, json_t *kept, struct omma_error *error) {
  size_t i;
  json_t *entry;
  json_array_foreach(entries, i, entry) {
    if (json_array_size(json_object_get(entry, "conversations")) < 2) continue;
    if (json_array_append(kept, entry)) return ommai_fail_memory(error, "conversations", 0);
  }
  return OMMA_OK;
}

static enum omma_status add_entries(const struct ommai_data_settings *settings, struct ommai_data_set *set,
                                    const json_t *entries, struct omma_error *error) {
  size_t n = json_array_size(entries), *order;
  OMMAI_TRY(ommai_data_order(settings, set, n, &order, error));
  enum omma_status status = OMMA_OK;
  for (size_t i = 0; i < n && status == OMMA_OK && set->n_samples < (size_t)settings->n_requests; i++) {
    status = add_entry(settings, set, json_array_get(entries, order[i]), error);
  }
  ommai_release(set->allocator, order, n, sizeof *order);
  return status;
}

enum omma_status ommai_data_sharegpt(const struct ommai_data_settings *settings, struct ommai_data_set *set,
                                     struct omma_error *error) {
  struct ommai_file_map map;
  json_error_t wrong;
  OMMAI_TRY(ommai_file_map_open(settings->path, &map, error));
  bool no_memory;
  json_t *entries = ommai_json_parse((const char *)map.data, map.size, JSON_ALLOW_NUL, &wrong, &no_memory),
         *kept = json_array();
  size_t size = map.size;
  ommai_file_map_close(&map);
  enum omma_status status = OMMA_OK;
  if (no_memory || !kept) {
    status = ommai_fail_memory(error, settings->path, size);
  } else if (!json_is_array(entries)) {
    status = ommai_fail(error, OMMA_ERROR_FORMAT, "%s: expected a JSON array of conversations: %s", settings->path,
                        entries ? "found something else" : wrong.text);
  }
  if (status == OMMA_OK) status = keep_conversations(entries, kept, error);
  json_decref(entries);
  if (status == OMMA_OK) status = add_entries(settings, set, kept, error);
  json_decref(kept);
  return status;
}
