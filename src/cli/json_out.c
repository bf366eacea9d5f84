#include "cli/json_out.h"

#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "cli/diagnostics.h"

int ommai_json_print(json_t *value) {
  if (!value) return ommai_failed("out of memory: the result as JSON");
  int failed = json_dumpf(value, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
  json_decref(value);
  if (failed) return ommai_failed("cannot write the result as JSON to standard output");
  putchar('\n');
  return ommai_finish_output();
}

json_t *ommai_json_text(const char *text) {
  json_t *value = json_string(text);
  if (value) return value;
  size_t size = strlen(text);
  char *ascii = ommai_duplicate(&ommai_default_allocator, text, size);
  if (!ascii) return NULL;
  for (size_t i = 0; i < size; i++) {
    if ((unsigned char)ascii[i] >= 0x80) ascii[i] = '?';
  }
  value = json_string(ascii);
  ommai_release(&ommai_default_allocator, ascii, size + 1, 1);
  return value;
}

void ommai_json_append(json_t **array, json_t *value) {
  if (json_array_append_new(*array, value) == 0) return;
  json_decref(*array);
  *array = NULL;
}

json_t *ommai_json_memory_plan(const struct omma_memory_plan *plan) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "weight_bytes", (json_int_t)plan->weight_bytes,
                   "kv_cache_bytes", (json_int_t)plan->kv_cache_bytes, "kv_cache_tokens", (json_int_t)plan->kv_cache_tokens,
                   "vision_workspace_bytes", (json_int_t)plan->vision_workspace_bytes, "language_workspace_bytes",
                   (json_int_t)plan->language_workspace_bytes, "linear_scratch_bytes", (json_int_t)plan->linear_scratch_bytes,
                   "table_bytes", (json_int_t)plan->table_bytes, "encoder_cache_bytes", (json_int_t)plan->encoder_cache_bytes,
                   "request_bytes", (json_int_t)plan->request_bytes, "total_bytes", (json_int_t)plan->total_bytes);
}
