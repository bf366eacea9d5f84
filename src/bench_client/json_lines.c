#include "bench_client/json_lines.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

enum omma_status ommai_json_lines_load(const char *path, json_t *rows, struct omma_error *error) {
  struct ommai_file_map map;
  enum omma_status status = OMMA_OK;
  OMMAI_TRY(ommai_file_map_open(path, &map, error));
  const char *at = map.size ? (const char *)map.data : "", *end = at + map.size;
  for (size_t line = 1; at < end && status == OMMA_OK; line++) {
    const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
    size_t size = (size_t)(stop - at), blank = 0;
    while (blank < size && strchr(" \t\r", at[blank])) blank++;
    if (blank < size) {
      json_error_t wrong;
      bool no_memory;
      json_t *row = ommai_json_parse(at, size, JSON_ALLOW_NUL, &wrong, &no_memory);
      if (no_memory) {
        status = ommai_fail_memory(error, path, size);
      } else if (!row) {
        status = ommai_fail(error, OMMA_ERROR_FORMAT, "%s: line %zu: broken JSON: %s", path, line, wrong.text);
      } else if (!json_is_object(row)) {
        status = ommai_fail(error, OMMA_ERROR_FORMAT, "%s: line %zu: expected a JSON object", path, line);
      } else if (json_array_append(rows, row)) {
        status = ommai_fail_memory(error, path, size);
      }
      json_decref(row);
    }
    at = newline ? newline + 1 : end;
  }
  ommai_file_map_close(&map);
  return status;
}
