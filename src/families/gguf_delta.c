#include "families/gguf_delta.h"

#include <math.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/error.h"

enum { MAX_SIZE = 1 << 16 }; /* of every key; products of three fit */

enum omma_status ommai_gguf_delta_read(const struct ommai_gguf *file, struct ommai_gguf_delta *delta,
                                       struct omma_error *error) {
  int64_t value_heads = 0;
  const struct {
    const char *name;
    int64_t *out;
  } keys[] = {
      {"ssm.group_count", &delta->n_key_heads}, {"ssm.time_step_rank", &value_heads}, {"ssm.state_size", &delta->key_dim}};
  struct ommai_gguf_text name = {0};
  char key[OMMAI_GGUF_MAX_NAME + 1];
  *delta = (struct ommai_gguf_delta){0};
  OMMAI_TRY(ommai_gguf_string(file, "general.architecture", true, &name, error));
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    snprintf(key, sizeof key, "%.*s.%s", (int)(name.size < 64 ? name.size : 64), name.bytes, keys[i].name);
    if (i == 0 && !ommai_gguf_has(file, key)) return OMMA_OK;
    OMMAI_TRY(ommai_gguf_integer(file, key, true, 1, MAX_SIZE, keys[i].out, error));
  }
  delta->n_shared = value_heads / delta->n_key_heads;
  if (value_heads % delta->n_key_heads == 0) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_FORMAT,
                    "%.300s: expected ssm.time_step_rank %lld to be a multiple of ssm.group_count %lld", ommai_gguf_path(file),
                    (long long)value_heads, (long long)delta->n_key_heads);
}

bool ommai_gguf_delta_view_make(const struct ommai_gguf_delta *delta, const struct ommai_gguf_tensor *tensor,
                                enum ommai_gguf_showing showing, struct ommai_gguf_delta_view *view, bool *changes) {
  int last = tensor->n_dims - 1;
  bool columns = showing == OMMAI_GGUF_VALUE_COLUMNS || last == 0;
  bool queries = showing == OMMAI_GGUF_QKV || showing == OMMAI_GGUF_CONVOLUTION;
  int64_t fixed = queries ? 2 * delta->n_key_heads * delta->key_dim : 0, n_heads = delta->n_key_heads * delta->n_shared;
  int64_t length = tensor->shape[columns ? last : 0];
  *view = (struct ommai_gguf_delta_view){.rows = {tensor->format, tensor->data, tensor->shape[last]},
                                         .showing = showing,
                                         .columns = columns,
                                         .fixed = fixed,
                                         .n_key_heads = delta->n_key_heads,
                                         .n_shared = delta->n_shared};
  *changes = true;
  if (showing == OMMAI_GGUF_NORM) {
    view->n_shared = 0;
    return last == 0;
  }
  if (last > 1 || n_heads == 0 || length <= fixed || (length - fixed) % n_heads) return false;
  view->head_dim = (length - fixed) / n_heads;
  *changes = showing == OMMAI_GGUF_DECAYS || (delta->n_shared > 1 && delta->n_key_heads > 1);
  return showing != OMMAI_GGUF_DECAYS || last == 0;
}

/* Where in the file the checkpoint's row or column `index` is; *n, if not NULL, becomes the number
 * of those that follow one another from it on. */
static int64_t place(const struct ommai_gguf_delta_view *view, int64_t index, int64_t *n) {
  if (view->n_shared == 0) return index;
  if (index < view->fixed) {
    if (n) *n = ommai_min_i64(*n, view->fixed - index);
    return index;
  }
  int64_t head = (index - view->fixed) / view->head_dim, within = (index - view->fixed) % view->head_dim;
  int64_t stored = head % view->n_shared * view->n_key_heads + head / view->n_shared;
  if (n) *n = ommai_min_i64(*n, view->head_dim - within);
  return view->fixed + stored * view->head_dim + within;
}

static void values(const void *context, int64_t output, int64_t first, int64_t n, float *out) {
  const struct ommai_gguf_delta_view *view = context;
  if (!view->columns) {
    ommai_gguf_row_values(&view->rows, place(view, output, NULL), first, n, out);
    return;
  }
  for (int64_t done = 0, count; done < n; done += count) {
    count = n - done;
    int64_t from = place(view, first + done, &count);
    ommai_gguf_row_values(&view->rows, output, from, count, out + done);
  }
  for (int64_t i = 0; i < n && view->showing == OMMAI_GGUF_NORM; i++) out[i] -= 1;
  for (int64_t i = 0; i < n && view->showing == OMMAI_GGUF_DECAYS; i++) out[i] = (float)log(-(double)out[i]);
}

static void integers(const void *context, int64_t output, int64_t group, int8_t *q, float *scale, float *minimum) {
  const struct ommai_gguf_delta_view *view = context;
  int64_t size = view->rows.format->group_size;
  const struct ommai_stored_matrix stored = ommai_gguf_stored_matrix(&view->rows);
  if (view->columns) {
    group = place(view, group * size, NULL) / size;
  } else {
    output = place(view, output, NULL);
  }
  stored.integers(&view->rows, output, group, q, scale, minimum);
}

struct ommai_stored_matrix ommai_gguf_delta_stored(const struct ommai_gguf_delta_view *view) {
  const struct ommai_gguf_format *format = view->rows.format;
  struct ommai_stored_matrix stored = {0};
  if (format->plain == OMMAI_TENSOR_QUANTISED) stored = ommai_gguf_stored_matrix(&view->rows);
  /* a group of integers must lie in one head */
  if (stored.bits && view->columns && view->head_dim % format->group_size) stored = (struct ommai_stored_matrix){0};
  stored.context = view;
  stored.values = values;
  stored.integers = integers;
  return stored;
}
