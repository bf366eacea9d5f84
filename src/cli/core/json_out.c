#include "cli/core/json_out.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/allocator.h"
#include "cli/core/diagnostics.h"
#include "cli/core/format.h"

enum { REAL_DIGITS = 12 };

/* Of a terminal, which obeys nothing of it. */
static void make_ascii(struct ommai_text *text) {
  struct ommai_text ascii = ommai_text_of(text->allocator);
  ommai_put_in_ascii(&ascii, text);
  ommai_text_free(text);
  *text = ascii;
}

static int print(struct ommai_text *text) {
  if (isatty(STDOUT_FILENO) == 1) make_ascii(text);
  ommai_text_add(text, "\n");
  int code = OMMAI_EXIT_DONE;
  if (text->failed) {
    code = ommai_failed("out of memory: the result as JSON");
  } else if (fwrite(text->data, 1, text->size, stdout) != text->size) {
    code = ommai_failed("cannot write the result as JSON to standard output");
  } else {
    code = ommai_finish_output();
  }
  ommai_text_free(text);
  return code;
}

struct ommai_text ommai_json_begin(void) {
  struct ommai_text out = ommai_text_of(&ommai_default_allocator);
  ommai_put_begin(&out, NULL, "{");
  return out;
}

int ommai_json_end(struct ommai_text *out) {
  ommai_put_end(out, "}");
  return print(out);
}

int ommai_json_print(json_t *value) {
  struct ommai_text out = ommai_text_of(&ommai_default_allocator);
  ommai_put_value(&out, NULL, value, REAL_DIGITS);
  json_decref(value);
  return print(&out);
}

void ommai_put_real(struct ommai_text *out, const char *key, double value) {
  json_t *real = isfinite(value) ? json_real(value) : json_null();
  ommai_put_value(out, key, real, REAL_DIGITS);
  json_decref(real);
}

void ommai_put_reals(struct ommai_text *out, const char *key, const double *values, size_t n) {
  ommai_put_begin(out, key, "[");
  for (size_t i = 0; i < n; i++) ommai_put_real(out, NULL, values[i]);
  ommai_put_end(out, "]");
}

void ommai_put_grid(struct ommai_text *out, const int64_t grid[3]) {
  ommai_put_begin(out, "grid_thw", "[");
  for (int i = 0; i < 3; i++) ommai_put_integer(out, NULL, grid[i]);
  ommai_put_end(out, "]");
}

void ommai_put_memory_estimate(struct ommai_text *out, const struct omma_memory_estimate *e) {
  ommai_put_begin(out, "memory", "{");
  OMMAI_PUT_INTEGERS(
      out, {"weight_bytes", e->weight_bytes}, {"kv_cache_bytes", e->kv_cache_bytes}, {"kv_cache_tokens", e->kv_cache_tokens},
      {"max_model_len", e->max_model_len}, {"vision_workspace_bytes", e->vision_workspace_bytes},
      {"language_workspace_bytes", e->language_workspace_bytes}, {"linear_scratch_bytes", e->linear_scratch_bytes},
      {"table_bytes", e->table_bytes}, {"encoder_cache_bytes", e->encoder_cache_bytes},
      {"known_image_bytes", e->known_image_bytes}, {"request_bytes", e->request_bytes},
      {"text_request_bytes", e->text_request_bytes}, {"max_image_sequences", e->max_image_sequences},
      {"max_sequences", e->max_sequences}, {"total_bytes", e->total_bytes});
  ommai_put_string(out, "max_sequences_because", ommai_sequence_bound_words(e));
  ommai_put_end(out, "}");
}

static void put_sampling(struct ommai_text *out, const struct omma_model_info *model) {
  struct ommai_sampling_fact facts[OMMAI_MAX_SAMPLING_FACTS];
  size_t n = ommai_sampling_facts(model, facts);
  ommai_put_begin(out, "sampling", "{");
  for (size_t i = 0; i < n; i++) ommai_put_real(out, facts[i].name, facts[i].value);
  ommai_put_end(out, "}");
}

void ommai_put_model(struct ommai_text *out, const struct omma_model_info *m) {
  ommai_put_begin(out, "model", "{");
  OMMAI_PUT_STRINGS(out, {"directory", m->directory}, {"model_type", m->model_type}, {"task", ommai_task_name(m->task)},
                    {"isa", m->isa}, {"weights", m->weights}, {"vision_weights", m->vision_weights},
                    {"kept_weights", m->kept_weights}, {"quantization", m->quantization}, {"kv_cache", m->kv_cache},
                    {"linear", m->linear});
  OMMAI_PUT_INTEGERS(out, {"n_threads", m->n_threads}, {"n_parameters", m->n_parameters},
                     {"n_vision_parameters", m->n_vision_parameters}, {"weight_bytes", m->weight_bytes},
                     {"max_model_len", m->max_model_len});
  ommai_put_string(out, "published_values", m->published_values);
  put_sampling(out, m);
  OMMAI_PUT_STRINGS(out, {"chat_template", m->chat_template}, {"chat_template_difference", m->chat_template_difference});
  OMMAI_PUT_INTEGERS(out, {"vocab_size", m->vocab_size}, {"hidden_size", m->hidden_size}, {"n_layers", m->n_layers},
                     {"n_heads", m->n_heads}, {"n_kv_heads", m->n_kv_heads}, {"head_dim", m->head_dim},
                     {"vision_hidden_size", m->vision_hidden_size}, {"vision_depth", m->vision_depth},
                     {"vision_n_heads", m->vision_n_heads}, {"vision_head_dim", m->vision_head_dim},
                     {"patch_size", m->patch_size}, {"merge_size", m->merge_size}, {"patch_dim", m->patch_dim},
                     {"n_deepstack", m->n_deepstack}, {"min_pixels", m->min_pixels}, {"max_pixels", m->max_pixels});
}
