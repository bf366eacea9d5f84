#include "families/gguf_views.h"

#include <math.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/error.h"

enum { MAX_SIZE = 1 << 16 }; /* of every key; products of three fit */

/* The integer below the file's architecture, from 1; *out stays where it is missing and not
 * required. */
static enum omma_status read_size(const struct ommai_gguf *file, const char *name, bool required, int64_t *out,
                                  struct omma_error *error) {
  struct ommai_gguf_text architecture = {0};
  char key[OMMAI_GGUF_MAX_NAME + 1];
  OMMAI_TRY(ommai_gguf_string(file, "general.architecture", true, &architecture, error));
  snprintf(key, sizeof key, "%.*s.%s", (int)(architecture.size < 64 ? architecture.size : 64), architecture.bytes, name);
  return ommai_gguf_integer(file, key, required, 1, MAX_SIZE, out, error);
}

enum omma_status ommai_gguf_heads_read(const struct ommai_gguf *file, struct ommai_gguf_heads *heads,
                                       struct omma_error *error) {
  int64_t value_heads = 0, width = 0, n_heads = 1;
  *heads = (struct ommai_gguf_heads){0};
  OMMAI_TRY(read_size(file, "attention.key_length", false, &heads->head_dim, error));
  if (heads->head_dim == 0) {
    OMMAI_TRY(read_size(file, "embedding_length", false, &width, error));
    OMMAI_TRY(read_size(file, "attention.head_count", false, &n_heads, error));
    heads->head_dim = width / n_heads;
  }
  OMMAI_TRY(read_size(file, "ssm.group_count", false, &heads->n_key_heads, error));
  if (heads->n_key_heads == 0) return OMMA_OK;
  OMMAI_TRY(read_size(file, "ssm.time_step_rank", true, &value_heads, error));
  OMMAI_TRY(read_size(file, "ssm.state_size", true, &heads->key_dim, error));
  heads->n_shared = value_heads / heads->n_key_heads;
  if (value_heads % heads->n_key_heads == 0) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_FORMAT,
                    "%.300s: expected ssm.time_step_rank %lld to be a multiple of ssm.group_count %lld", ommai_gguf_path(file),
                    (long long)value_heads, (long long)heads->n_key_heads);
}

enum omma_status ommai_gguf_tower_heads_read(const struct ommai_gguf *mmproj, struct ommai_gguf_heads *heads,
                                             struct omma_error *error) {
  int64_t width = 0, n_heads = 1;
  *heads = (struct ommai_gguf_heads){0};
  OMMAI_TRY(ommai_gguf_integer(mmproj, "clip.vision.embedding_length", false, 1, MAX_SIZE, &width, error));
  OMMAI_TRY(ommai_gguf_integer(mmproj, "clip.vision.attention.head_count", false, 1, MAX_SIZE, &n_heads, error));
  heads->head_dim = width / n_heads;
  return OMMA_OK;
}

/* Rows of queries and keys. */
static bool make_rotated(const struct ommai_gguf_heads *heads, const struct ommai_gguf_tensor *tensor,
                         struct ommai_gguf_view *view) {
  int64_t half = heads->head_dim / 2;
  bool pairs = view->showing == OMMAI_GGUF_PAIRED_ROWS;
  if (tensor->n_dims != 2 || half < 1 || heads->head_dim % 2 || tensor->shape[0] % heads->head_dim) return false;
  view->grid[0] = pairs ? half : 2;
  view->grid[1] = pairs ? 2 : half;
  view->unit = 1;
  return true;
}

/* Of gated delta nets, after queries and keys where these are in the tensor too. */
static bool make_value_heads(const struct ommai_gguf_heads *heads, const struct ommai_gguf_tensor *tensor,
                             struct ommai_gguf_view *view) {
  int last = tensor->n_dims - 1;
  bool queries = view->showing == OMMAI_GGUF_QKV || view->showing == OMMAI_GGUF_CONVOLUTION;
  int64_t n_heads = heads->n_key_heads * heads->n_shared;
  view->columns = view->showing == OMMAI_GGUF_VALUE_COLUMNS || last == 0;
  view->fixed = queries ? 2 * heads->n_key_heads * heads->key_dim : 0;
  int64_t length = tensor->shape[view->columns ? last : 0];
  if (last > 1 || n_heads == 0 || length <= view->fixed || (length - view->fixed) % n_heads) return false;
  view->grid[0] = heads->n_key_heads;
  view->grid[1] = heads->n_shared;
  view->unit = (length - view->fixed) / n_heads;
  return view->showing != OMMAI_GGUF_DECAYS || last == 0;
}

bool ommai_gguf_view_make(const struct ommai_gguf_heads *heads, const struct ommai_gguf_tensor *tensor,
                          enum ommai_gguf_showing showing, struct ommai_gguf_view *view, bool *changes) {
  bool rotated = showing == OMMAI_GGUF_PAIRED_ROWS || showing == OMMAI_GGUF_HALVED_ROWS;
  *view =
      (struct ommai_gguf_view){.rows = {tensor->format, tensor->data, tensor->shape[tensor->n_dims - 1]}, .showing = showing};
  *changes = true;
  if (showing == OMMAI_GGUF_NORM) {
    view->columns = true;
    return tensor->n_dims == 1;
  }
  if (!(rotated ? make_rotated : make_value_heads)(heads, tensor, view)) return false;
  *changes = showing == OMMAI_GGUF_DECAYS || (view->grid[0] > 1 && view->grid[1] > 1);
  return true;
}

/* Where in the file the checkpoint's row or column `index` is; *n, if not NULL, becomes the number
 * of those that follow one another from it on. */
static int64_t place(const struct ommai_gguf_view *view, int64_t index, int64_t *n) {
  const int64_t *grid = view->grid;
  if (grid[0] == 0) return index;
  if (index < view->fixed) {
    if (n) *n = ommai_min_i64(*n, view->fixed - index);
    return index;
  }
  int64_t block = (index - view->fixed) / view->unit, within = (index - view->fixed) % view->unit;
  int64_t cell = block % (grid[0] * grid[1]), stored = block - cell + cell % grid[1] * grid[0] + cell / grid[1];
  if (n) *n = ommai_min_i64(*n, view->unit - within);
  return view->fixed + stored * view->unit + within;
}

static void values(const void *context, int64_t output, int64_t first, int64_t n, float *out) {
  const struct ommai_gguf_view *view = context;
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

/* Where the view's group lies. */
static void place_group(const struct ommai_gguf_view *view, int64_t *output, int64_t *group) {
  int64_t size = view->rows.format->group_size;
  if (view->columns) {
    *group = place(view, *group * size, NULL) / size;
  } else {
    *output = place(view, *output, NULL);
  }
}

static void integers(const void *context, int64_t output, int64_t group, int8_t *q, float *scale, float *minimum) {
  const struct ommai_gguf_view *view = context;
  const struct ommai_stored_matrix stored = ommai_gguf_stored_matrix(&view->rows);
  place_group(view, &output, &group);
  stored.integers(&view->rows, output, group, q, scale, minimum);
}

static void factors(const void *context, int64_t output, int64_t group, struct ommai_scale_factors *out) {
  const struct ommai_gguf_view *view = context;
  const struct ommai_stored_matrix stored = ommai_gguf_stored_matrix(&view->rows);
  place_group(view, &output, &group);
  stored.factors(&view->rows, output, group, out);
}

struct ommai_stored_matrix ommai_gguf_view_stored(const struct ommai_gguf_view *view) {
  const struct ommai_gguf_format *format = view->rows.format;
  struct ommai_stored_matrix stored = {0};
  if (format->plain == OMMAI_TENSOR_QUANTISED) stored = ommai_gguf_stored_matrix(&view->rows);
  /* a group of integers must lie in one head */
  if (stored.bits && view->columns && view->unit % format->group_size) stored = (struct ommai_stored_matrix){0};
  stored.context = view;
  stored.values = values;
  stored.integers = integers;
  stored.factors = factors;
  /* and so must groups with factors in common */
  if (view->columns && stored.shared && (view->unit % stored.shared || view->fixed % stored.shared)) stored.shared = 0;
  return stored;
}
