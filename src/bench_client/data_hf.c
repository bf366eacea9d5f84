/* hf: a local copy of a data set from the Hugging Face hub, as JSONL files in a directory. A row's
 * question is the first turn of "turns" or "conversation", or "question" or "prompt"; its image
 * the first of "images", or "image"; "answers" may stand besides. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/growing.h"
#include "bench_client/data_set.h"
#include "image_out/image_part.h"
#include "bench_client/json_lines.h"
#include "bench_client/numpy_random.h"

#define DEFAULT_OUTPUT_LEN 128

static int is_jsonl(const struct dirent *entry) { return ommai_path_ends_with(entry->d_name, ".jsonl"); }
static int is_parquet(const struct dirent *entry) { return ommai_path_ends_with(entry->d_name, ".parquet"); }

static void release_names(struct dirent **names, int n) {
  for (int i = 0; i < n; i++) free(names[i]);
  free(names);
}

static bool has_parquet(const char *directory) {
  char data[PATH_MAX];
  struct dirent **names;
  int n = scandir(directory, &names, is_parquet, NULL);
  if (n >= 0) release_names(names, n);
  if (n > 0) return true;
  return !ommai_path_ends_with(directory, "/data") && ommai_path_join(data, sizeof data, directory, "data") &&
         has_parquet(data);
}

static enum omma_status no_files(const char *path, struct omma_error *error) {
  struct stat found;
  if (stat(path, &found) != 0) {
    return ommai_fail(error, OMMA_ERROR_IO,
                      "%s: no such directory here, and nothing is downloaded: get it with `hf download --repo-type dataset %s "
                      "--local-dir DIR`, turn it into JSONL with tools/parquet_to_jsonl.py DIR OUT, and give "
                      "--dataset-path OUT",
                      path, path);
  }
  if (has_parquet(path)) {
    return ommai_fail(error, OMMA_ERROR_UNSUPPORTED,
                      "%s: parquet files are not read: turn them into JSONL with tools/parquet_to_jsonl.py %s OUT, and give "
                      "--dataset-path OUT",
                      path, path);
  }
  return ommai_fail(error, OMMA_ERROR_IO, "%s: expected a JSONL file or a directory with *.jsonl files", path);
}

static enum omma_status load_directory(const char *directory, json_t *rows, struct omma_error *error) {
  struct dirent **names;
  enum omma_status status = OMMA_OK;
  int n = scandir(directory, &names, is_jsonl, alphasort);
  if (n == 0) free(names);
  if (n <= 0) return no_files(directory, error);
  for (int i = 0; i < n && status == OMMA_OK; i++) {
    char path[PATH_MAX];
    if (ommai_path_join(path, sizeof path, directory, names[i]->d_name)) {
      status = ommai_json_lines_load(path, rows, error);
    } else {
      status = ommai_fail(error, OMMA_ERROR_LIMIT, "%s: the path is too long", directory);
    }
  }
  release_names(names, n);
  return status;
}

/* "turns": [[{"content": ...}, ...], ...] */
static const json_t *first_content(const json_t *turns) {
  return json_object_get(json_array_get(json_array_get(turns, 0), 0), "content");
}

static const json_t *find_prompt(const json_t *row) {
  const json_t *found = first_content(json_object_get(row, "turns"));
  if (!found) found = first_content(json_object_get(row, "conversation"));
  if (!found) found = json_object_get(row, "question");
  return found ? found : json_object_get(row, "prompt");
}

/* {"bytes": base64 of an image file}: what a parquet row holds, as tools/parquet_to_jsonl.py writes
 * it. */
static enum omma_status decode_image(const json_t *text, const struct omma_allocator *allocator, json_t **part,
                                     struct omma_error *error) {
  size_t size = json_string_length(text), room = size / 4 * 3 + 3, used;
  unsigned char *bytes = ommai_allocate_uninitialised(allocator, room, 1);
  if (!bytes) return ommai_fail_memory(error, "an image", room);
  enum omma_status status;
  if (sodium_base642bin(bytes, room, json_string_value(text), size, NULL, &used, NULL, sodium_base64_VARIANT_ORIGINAL) == 0) {
    status = ommai_image_part_from_file(bytes, used, allocator, part, error);
  } else {
    status = ommai_fail(error, OMMA_ERROR_FORMAT, "an image's \"bytes\" are not base64");
  }
  ommai_release(allocator, bytes, room, 1);
  return status;
}

static enum omma_status find_image(const struct ommai_data_set *set, const json_t *row, json_t **part,
                                   struct omma_error *error) {
  const json_t *image = json_array_get(json_object_get(row, "images"), 0);
  if (!image) image = json_object_get(row, "image");
  const json_t *bytes = json_object_get(image, "bytes");
  *part = NULL;
  if (json_is_string(bytes)) return decode_image(bytes, set->allocator, part, error);
  if (json_is_string(image)) {
    return ommai_image_part_from_reference(json_string_value(image), false, set->allocator, part, error);
  }
  return ommai_fail(error, OMMA_ERROR_FORMAT, "expected an image in \"images\" or \"image\"");
}

static enum omma_status add_row(const struct ommai_data_settings *settings, struct ommai_data_set *set, const json_t *row,
                                struct omma_error *error) {
  const json_t *prompt = find_prompt(row);
  json_t *part;
  int64_t prompt_len;
  if (!json_is_string(prompt)) {
    return ommai_fail(error, OMMA_ERROR_FORMAT,
                      "expected a question in \"turns\", \"conversation\", \"question\" or \"prompt\"");
  }
  OMMAI_TRY(
      ommai_data_count_tokens(settings->tokenizer, json_string_value(prompt), json_string_length(prompt), &prompt_len, error));
  OMMAI_TRY(find_image(set, row, &part, error));
  int64_t output_len = settings->output_len < 0 ? DEFAULT_OUTPUT_LEN : settings->output_len;
  enum omma_status status =
      ommai_data_set_add(set, prompt, part, json_object_get(row, "answers"), prompt_len, output_len, error);
  json_decref(part);
  return status;
}

/* The order in which `datasets` shuffles a whole table. */
static void shuffle(const struct ommai_data_settings *settings, size_t *order, size_t n) {
  struct ommai_numpy_random random;
  ommai_numpy_random_init(&random, settings->seed);
  for (size_t i = 0; i < n; i++) order[i] = i;
  if (!settings->keep_order) ommai_numpy_random_shuffle(&random, order, n);
}

static enum omma_status add_rows(const struct ommai_data_settings *settings, struct ommai_data_set *set, const json_t *rows,
                                 struct omma_error *error) {
  size_t n = json_array_size(rows);
  size_t *order = ommai_allocate(set->allocator, n, sizeof *order);
  if (!order) return ommai_fail_memory(error, "the order of a data set", n * sizeof *order);
  shuffle(settings, order, n);
  enum omma_status status = OMMA_OK;
  for (size_t i = 0; i < n && i < (size_t)settings->n_requests && status == OMMA_OK; i++) {
    status = add_row(settings, set, json_array_get(rows, order[i]), error);
    if (status != OMMA_OK) ommai_error_prefix(error, "%s: row %zu", settings->path, order[i] + 1);
  }
  ommai_release(set->allocator, order, n, sizeof *order);
  return status;
}

enum omma_status ommai_data_hf(const struct ommai_data_settings *settings, struct ommai_data_set *set,
                               struct omma_error *error) {
  json_t *rows = json_array();
  if (!rows) return ommai_fail_memory(error, "the rows of a data set", 0);
  bool is_file = ommai_file_exists(settings->path) && ommai_path_ends_with(settings->path, ".jsonl");
  enum omma_status status =
      is_file ? ommai_json_lines_load(settings->path, rows, error) : load_directory(settings->path, rows, error);
  if (status == OMMA_OK) status = add_rows(settings, set, rows, error);
  json_decref(rows);
  return status;
}
