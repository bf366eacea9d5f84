#include "cli/core/json_out.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/allocator.h"
#include "cli/core/diagnostics.h"
#include "cli/core/format.h"

int ommai_json_print(json_t *value) {
  if (!value) return ommai_failed("out of memory: the result as JSON");
  /* Nothing that a terminal obeys. */
  size_t ascii = isatty(STDOUT_FILENO) == 1 ? JSON_ENSURE_ASCII : 0;
  int failed = json_dumpf(value, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12) | ascii);
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

json_t *ommai_json_merge(json_t *object, json_t *more) {
  bool merged = object && more && json_object_update(object, more) == 0;
  json_decref(more);
  if (merged) return object;
  json_decref(object);
  return NULL;
}

json_t *ommai_json_numbers(const double *numbers, size_t n) {
  json_t *array = json_array();
  for (size_t i = 0; i < n; i++) ommai_json_append(&array, json_real(numbers[i]));
  return array;
}

json_t *ommai_json_memory_estimate(const struct omma_memory_estimate *estimate) {
  return json_pack(
      "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "weight_bytes",
      (json_int_t)estimate->weight_bytes, "kv_cache_bytes", (json_int_t)estimate->kv_cache_bytes, "kv_cache_tokens",
      (json_int_t)estimate->kv_cache_tokens, "max_model_len", (json_int_t)estimate->max_model_len, "vision_workspace_bytes",
      (json_int_t)estimate->vision_workspace_bytes, "language_workspace_bytes", (json_int_t)estimate->language_workspace_bytes,
      "linear_scratch_bytes", (json_int_t)estimate->linear_scratch_bytes, "table_bytes", (json_int_t)estimate->table_bytes,
      "encoder_cache_bytes", (json_int_t)estimate->encoder_cache_bytes, "known_image_bytes",
      (json_int_t)estimate->known_image_bytes, "request_bytes", (json_int_t)estimate->request_bytes, "text_request_bytes",
      (json_int_t)estimate->text_request_bytes, "max_image_sequences", (json_int_t)estimate->max_image_sequences,
      "max_sequences", (json_int_t)estimate->max_sequences, "total_bytes", (json_int_t)estimate->total_bytes,
      "max_sequences_because", ommai_sequence_bound_words(estimate));
}

static json_t *shape_json(const struct omma_model_info *m) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "vocab_size",
                   (json_int_t)m->vocab_size, "hidden_size", (json_int_t)m->hidden_size, "n_layers", (json_int_t)m->n_layers,
                   "n_heads", (json_int_t)m->n_heads, "n_kv_heads", (json_int_t)m->n_kv_heads, "head_dim",
                   (json_int_t)m->head_dim, "vision_hidden_size", (json_int_t)m->vision_hidden_size, "vision_depth",
                   (json_int_t)m->vision_depth, "vision_n_heads", (json_int_t)m->vision_n_heads, "vision_head_dim",
                   (json_int_t)m->vision_head_dim, "patch_size", (json_int_t)m->patch_size, "merge_size",
                   (json_int_t)m->merge_size, "patch_dim", (json_int_t)m->patch_dim, "n_deepstack", (json_int_t)m->n_deepstack,
                   "min_pixels", (json_int_t)m->min_pixels, "max_pixels", (json_int_t)m->max_pixels);
}

static json_t *sampling_json(const struct omma_model_info *m) {
  struct ommai_sampling_fact facts[OMMAI_MAX_SAMPLING_FACTS];
  size_t n = ommai_sampling_facts(m, facts);
  json_t *object = json_object();
  for (size_t i = 0; i < n; i++) json_object_set_new(object, facts[i].name, json_real(facts[i].value));
  return object;
}

json_t *ommai_json_model(const struct omma_model_info *m) {
  json_t *model = json_pack(
      "{s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:s?, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:s?, s:o, s:s, s:o}", "directory",
      ommai_json_text(m->directory), "model_type", m->model_type, "task", ommai_task_name(m->task), "isa", m->isa, "weights",
      m->weights, "vision_weights", m->vision_weights, "kept_weights", m->kept_weights, "quantization", m->quantization,
      "kv_cache", m->kv_cache, "linear", m->linear, "n_threads", m->n_threads, "n_parameters", (json_int_t)m->n_parameters,
      "n_vision_parameters", (json_int_t)m->n_vision_parameters, "weight_bytes", (json_int_t)m->weight_bytes, "max_model_len",
      (json_int_t)m->max_model_len, "published_values", m->published_values, "sampling", sampling_json(m), "chat_template",
      m->chat_template, "chat_template_difference",
      m->chat_template_difference ? ommai_json_text(m->chat_template_difference) : json_null());
  json_t *shape = shape_json(m);
  if (model && shape && json_object_update(model, shape) == 0) {
    json_decref(shape);
    return model;
  }
  json_decref(shape);
  json_decref(model);
  return NULL;
}
