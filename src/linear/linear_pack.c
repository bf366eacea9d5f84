/* From a checkpoint's [n_out][n_in] to the packed layouts of kernels/few_rows.h. */
#include <string.h>

#include "base/checked.h"
#include "base/half.h"
#include "linear/linear_objects.h"

#define CHUNK 64 /* values of one row that are converted at a time; even */

bool ommai_linear_packed_elements(enum ommai_weight_layout layout, int64_t n_out, int64_t n_in, size_t *elements) {
  if (n_out < 1 || n_out > OMMAI_LINEAR_MAX_SIZE || n_in < 1 || n_in > OMMAI_LINEAR_MAX_SIZE) return false;
  if (layout == OMMAI_WEIGHTS_F32_ROWS) return ommai_mul_size((size_t)n_out, (size_t)n_in, elements);
  int64_t n_panels = ommai_div_up(n_out, OMMAI_PANEL_COLUMNS);
  return ommai_mul_size((size_t)n_panels, (size_t)ommai_weights_panel_elements(layout, n_in), elements);
}

static size_t type_bytes(enum omma_dtype type) { return type == OMMA_F32 ? 4 : 2; }

/* `n` values of `type` at any address, as f32. */
static void load_f32(const void *from, enum omma_dtype type, int n, float *to) {
  ommai_bf16 half[CHUNK];
  if (type == OMMA_F32) {
    memcpy(to, from, sizeof *to * (size_t)n);
    return;
  }
  memcpy(half, from, sizeof *half * (size_t)n);
  if (type == OMMA_BF16) {
    for (int i = 0; i < n; i++) to[i] = ommai_bf16_to_f32(half[i]);
  } else {
    for (int i = 0; i < n; i++) to[i] = ommai_f16_to_f32(half[i]);
  }
}

static void load_bf16(const void *from, enum omma_dtype type, int n, ommai_bf16 *to) {
  if (type == OMMA_BF16) {
    memcpy(to, from, sizeof *to * (size_t)n);
    return;
  }
  float wide[CHUNK];
  load_f32(from, type, n, wide);
  for (int i = 0; i < n; i++) to[i] = ommai_bf16_from_f32(wide[i]);
}

/* f32 values, rounded to bf16 first where the computation is in bf16. */
static void load_rounded(const void *from, enum omma_dtype type, enum omma_dtype compute, int n, float *to) {
  load_f32(from, type, n, to);
  if (compute != OMMA_BF16 || type == OMMA_BF16) return;
  for (int i = 0; i < n; i++) to[i] = ommai_bf16_to_f32(ommai_bf16_from_f32(to[i]));
}

/* Writes n values of one column from an even k on; `to` is that column's place in the panel. */
static void store_bf16_column(const ommai_bf16 *values, int n, ommai_bf16 *to) {
  int k = 0;
  for (; k + 2 <= n; k += 2) memcpy(to + k * OMMAI_PANEL_COLUMNS, values + k, 2 * sizeof *to);
  if (k < n) to[k * OMMAI_PANEL_COLUMNS] = values[k];
}

static void pack_chunk(const struct ommai_linear_source *source, const void *from, enum omma_dtype compute,
                       enum ommai_weight_layout layout, int n, int64_t column, int64_t k, void *panel) {
  if (layout == OMMAI_WEIGHTS_BF16_PANELS) {
    ommai_bf16 values[CHUNK];
    load_bf16(from, source->type, n, values);
    store_bf16_column(values, n, (ommai_bf16 *)panel + k * OMMAI_PANEL_COLUMNS + 2 * column);
  } else {
    float values[CHUNK], *to = (float *)panel + k * OMMAI_PANEL_COLUMNS + column;
    load_rounded(from, source->type, compute, n, values);
    for (int i = 0; i < n; i++) to[i * OMMAI_PANEL_COLUMNS] = values[i];
  }
}

/* Values k .. k + n - 1 of row `row` of the source, without gaps: in place, or gathered where the source lies transposed. */
static const void *row_values(const struct ommai_linear_source *source, int64_t n_in, int64_t row, int64_t k, int n,
                              char gathered[CHUNK * sizeof(float)]) {
  size_t bytes = type_bytes(source->type);
  const char *weight = source->weight;
  if (!source->transposed) return weight + (size_t)(row * n_in + k) * bytes;
  for (int i = 0; i < n; i++) {
    memcpy(gathered + (size_t)i * bytes, weight + (size_t)((k + i) * source->n_out + row) * bytes, bytes);
  }
  return gathered;
}

/* Rows row .. end - 1 of the source, which lie in one panel from `column` on. */
static void pack_panel(const struct ommai_linear_source *source, int64_t n_in, enum omma_dtype compute,
                       enum ommai_weight_layout layout, int64_t row, int64_t end, int64_t column, void *panel) {
  char gathered[CHUNK * sizeof(float)];
  for (int64_t k = 0; k < n_in; k += CHUNK) {
    int n = (int)ommai_min_i64(CHUNK, n_in - k);
    for (int64_t r = row; r < end; r++) {
      const void *from = row_values(source, n_in, r, k, n, gathered);
      pack_chunk(source, from, compute, layout, n, column + r - row, k, panel);
    }
  }
}

static void pack_rows(const struct ommai_linear_source *source, int64_t n_in, enum omma_dtype compute, float *to) {
  char gathered[CHUNK * sizeof(float)];
  for (int64_t row = 0; row < source->n_out; row++) {
    for (int64_t k = 0; k < n_in; k += CHUNK) {
      int n = (int)ommai_min_i64(CHUNK, n_in - k);
      load_rounded(row_values(source, n_in, row, k, n, gathered), source->type, compute, n, to + row * n_in + k);
    }
  }
}

static void pack_panels(const struct ommai_linear_source *source, int64_t n_in, enum omma_dtype compute,
                        enum ommai_weight_layout layout, int64_t first_row, void *weights) {
  size_t element = layout == OMMAI_WEIGHTS_BF16_PANELS ? sizeof(ommai_bf16) : sizeof(float);
  size_t panel_bytes = (size_t)ommai_weights_panel_elements(layout, n_in) * element;
  for (int64_t row = 0; row < source->n_out;) {
    int64_t place = first_row + row, column = place % OMMAI_PANEL_COLUMNS;
    int64_t end = ommai_min_i64(source->n_out, row + OMMAI_PANEL_COLUMNS - column);
    char *panel = (char *)weights + (size_t)(place / OMMAI_PANEL_COLUMNS) * panel_bytes;
    pack_panel(source, n_in, compute, layout, row, end, column, panel);
    row = end;
  }
}

void ommai_linear_pack(const struct ommai_linear_source *source, int64_t n_in, enum omma_dtype compute,
                       enum ommai_weight_layout layout, int64_t first_row, void *weights, float *bias) {
  if (layout == OMMAI_WEIGHTS_F32_ROWS) {
    pack_rows(source, n_in, compute, (float *)weights + first_row * n_in);
  } else {
    pack_panels(source, n_in, compute, layout, first_row, weights);
  }
  for (int64_t at = 0; source->bias && at < source->n_out; at += CHUNK) {
    int n = (int)ommai_min_i64(CHUNK, source->n_out - at);
    load_f32((const char *)source->bias + (size_t)at * type_bytes(source->bias_type), source->bias_type, n,
             bias + first_row + at);
  }
}
