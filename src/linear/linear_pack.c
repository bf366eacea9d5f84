/* From a checkpoint's [n_out][n_in] to the packed layouts of kernels/gemv.h. */
#include <string.h>

#include "base/checked.h"
#include "base/half.h"
#include "base/team.h"
#include "linear/linear_objects.h"

#define CHUNK OMMAI_LINEAR_CHUNK /* values of one row that are converted at a time; even */
/* inputs that a layout keeps together, at most; what follows the last whole group is filled up */
#define DEEPEST_GROUP 8

bool ommai_linear_packed_bytes(enum ommai_weight_layout layout, int64_t n_out, int64_t n_in, size_t *bytes) {
  if (n_out < 1 || n_out > OMMAI_LINEAR_MAX_SIZE || n_in < 1 || n_in > OMMAI_LINEAR_MAX_SIZE) return false;
  int64_t n_panels = ommai_div_up(n_out, OMMAI_PANEL_COLUMNS);
  return ommai_mul_size((size_t)n_panels, (size_t)ommai_weights_panel_bytes(layout, n_in), bytes);
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

/* Writes n values of one column from an even k on; `to` is that column's place in the panel. */
static void store_bf16_column(const ommai_bf16 *values, int n, ommai_bf16 *to) {
  int k = 0;
  for (; k + 2 <= n; k += 2) memcpy(to + k * OMMAI_PANEL_COLUMNS, values + k, 2 * sizeof *to);
  if (k < n) to[k * OMMAI_PANEL_COLUMNS] = values[k];
}

/* The type of what row_values returns. */
static enum omma_dtype values_type(const struct ommai_linear_source *source) {
  return source->stored ? OMMA_F32 : source->type;
}

static void pack_chunk(const struct ommai_linear_source *source, const void *from, enum ommai_weight_layout layout, int n,
                       int64_t column, int64_t k, void *panel) {
  if (layout == OMMAI_WEIGHTS_BF16_PANELS) {
    ommai_bf16 values[CHUNK];
    load_bf16(from, values_type(source), n, values);
    store_bf16_column(values, n, (ommai_bf16 *)panel + k * OMMAI_PANEL_COLUMNS + 2 * column);
  } else {
    float values[CHUNK], *to = (float *)panel + k * OMMAI_PANEL_COLUMNS + column;
    load_f32(from, values_type(source), n, values);
    for (int i = 0; i < n; i++) to[i * OMMAI_PANEL_COLUMNS] = values[i];
  }
}

/* Values k .. k + n - 1 of row `row` of a source that is stored in a form of its own. */
static void stored_values(const struct ommai_linear_source *source, int64_t row, int64_t k, int n, float *values) {
  const struct ommai_stored_matrix *stored = source->stored;
  if (!source->transposed) {
    stored->values(stored->context, source->first_output + row, k, n, values);
    return;
  }
  for (int i = 0; i < n; i++) stored->values(stored->context, source->first_output + k + i, row, 1, &values[i]);
}

/* The same of any source, without gaps: in place, or gathered where the source lies transposed or
 * is stored in another form. */
static const void *row_values(const struct ommai_linear_source *source, int64_t n_in, int64_t row, int64_t k, int n,
                              char gathered[CHUNK * sizeof(float)]) {
  size_t bytes = type_bytes(source->type);
  const char *weight = source->weight;
  if (source->stored) {
    float values[CHUNK];
    stored_values(source, row, k, n, values);
    return memcpy(gathered, values, (size_t)n * sizeof *values);
  }
  if (!source->transposed) return weight + (size_t)(row * n_in + k) * bytes;
  for (int i = 0; i < n; i++) {
    memcpy(gathered + (size_t)i * bytes, weight + (size_t)((k + i) * source->n_out + row) * bytes, bytes);
  }
  return gathered;
}

void ommai_linear_load_values(const struct ommai_linear_source *source, int64_t n_in, int64_t row, int64_t k, int n,
                              float *values) {
  char gathered[CHUNK * sizeof(float)];
  load_f32(row_values(source, n_in, row, k, n, gathered), values_type(source), n, values);
}

/* Asks for the next values of a row: a panel reads as many streams as it has columns, more than the
 * machine follows by itself. Always inlined: GCC drops calls of functions that do nothing but
 * ask. */
static inline __attribute__((always_inline)) void prefetch_row(const struct ommai_linear_source *source, int64_t n_in,
                                                               int64_t row, int64_t k) {
  size_t bytes = type_bytes(source->type);
  const char *values = (const char *)source->weight + (size_t)(row * n_in + k) * bytes;
  if (source->stored || source->transposed || k >= n_in) return;
  for (size_t at = 0; at < CHUNK * bytes; at += 64) __builtin_prefetch(values + at);
}

void ommai_linear_pack_dense(const struct ommai_linear *linear, const struct ommai_panel_rows *rows) {
  const enum ommai_weight_layout layout = linear->packed.layout;
  const int64_t n_in = linear->spec.n_in;
  char gathered[CHUNK * sizeof(float)];
  void *panel = (char *)linear->weights + rows->panel * ommai_weights_panel_bytes(layout, n_in);
  for (int64_t k = 0; k < n_in; k += CHUNK) {
    int n = (int)ommai_min_i64(CHUNK, n_in - k);
    for (int64_t r = rows->first; r < rows->end; r++) {
      const void *from = row_values(rows->source, n_in, r, k, n, gathered);
      prefetch_row(rows->source, n_in, r, k + CHUNK);
      pack_chunk(rows->source, from, layout, n, rows->column + r - rows->first, k, panel);
    }
  }
}

static void pack_bias(const struct ommai_linear_source *source, float *bias) {
  for (int64_t at = 0; source->bias && at < source->n_out; at += CHUNK) {
    int n = (int)ommai_min_i64(CHUNK, source->n_out - at);
    load_f32((const char *)source->bias + (size_t)at * type_bytes(source->bias_type), source->bias_type, n, bias + at);
  }
}

/* A source on its way into the layer's outputs from first_row on. */
struct packing {
  const struct ommai_linear *linear;
  const struct ommai_linear_source *source;
  int64_t first_row;
  void (*pack)(const struct ommai_linear *linear, const struct ommai_panel_rows *rows);
};

static void pack_task(void *context, int64_t task, int worker) {
  const struct packing *packing = context;
  struct ommai_panel_rows rows = {.source = packing->source, .panel = packing->first_row / OMMAI_PANEL_COLUMNS + task};
  int64_t first = rows.panel * OMMAI_PANEL_COLUMNS - packing->first_row;
  (void)worker;
  rows.first = ommai_max_i64(first, 0);
  rows.end = ommai_min_i64(first + OMMAI_PANEL_COLUMNS, packing->source->n_out);
  rows.column = rows.first - first;
  packing->pack(packing->linear, &rows);
}

void ommai_linear_pack_panels(struct ommai_linear *linear, const struct ommai_linear_source *sources, int n_sources,
                              const struct omma_team *team,
                              void (*pack)(const struct ommai_linear *linear, const struct ommai_panel_rows *rows)) {
  struct packing packing = {.linear = linear, .pack = pack};
  for (int i = 0; i < n_sources; i++) {
    packing.source = &sources[i];
    int64_t end = packing.first_row + sources[i].n_out, first = packing.first_row / OMMAI_PANEL_COLUMNS;
    ommai_team_run(team, ommai_div_up(end, OMMAI_PANEL_COLUMNS) - first, pack_task, &packing);
    pack_bias(&sources[i], linear->bias + packing.first_row);
    packing.first_row = end;
  }
}

float ommai_linear_dense_weight(const struct ommai_linear *linear, int64_t output, int64_t input) {
  const struct ommai_gemv_weights *packed = &linear->packed;
  const int64_t panel = output / OMMAI_PANEL_COLUMNS * ommai_weights_panel_elements(packed->layout, packed->n_in);
  const int64_t column = output % OMMAI_PANEL_COLUMNS;
  if (packed->layout == OMMAI_WEIGHTS_F32_PANELS) {
    return ((const float *)packed->weights)[panel + input * OMMAI_PANEL_COLUMNS + column];
  }
  const int64_t pair = (input & ~(int64_t)1) * OMMAI_PANEL_COLUMNS + 2 * column;
  return ommai_bf16_to_f32(((const ommai_bf16 *)packed->weights)[panel + pair + input % 2]);
}

void ommai_linear_clear_padding(const struct ommai_gemv_weights *packed, void *weights, size_t weight_bytes) {
  size_t n_panels = (size_t)ommai_div_up(packed->n_out, OMMAI_PANEL_COLUMNS);
  size_t padded_k = (size_t)ommai_weights_padded_k(packed->layout, packed->n_in);
  size_t panel_bytes = weight_bytes / n_panels;
  size_t whole = (size_t)(packed->n_in / DEEPEST_GROUP * DEEPEST_GROUP) * (panel_bytes / padded_k);
  /* the others have columns to spare */
  size_t n_full = (size_t)(packed->n_out / OMMAI_PANEL_COLUMNS);
  for (size_t panel = 0; panel < n_panels; panel++) {
    size_t first = panel < n_full ? whole : 0;
    memset((char *)weights + panel * panel_bytes + first, 0, panel_bytes - first);
  }
}
