/* Integer weights: quantised from dense sources, or taken from sources that are integers. */
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/team.h"
#include "kernels/int8.h"
#include "linear/linear.h"
#include "linear/linear_objects.h"

enum { PANEL = OMMAI_PANEL_COLUMNS, CHUNK = OMMAI_LINEAR_CHUNK };

/* ---- sizes ----------------------------------------------------------------------------------- */

int64_t ommai_integer_n_groups(const struct ommai_linear_spec *spec) {
  return spec->group ? ommai_div_up(spec->n_in, spec->group) : 1;
}

int ommai_integer_zero(const struct ommai_linear_spec *spec) {
  return spec->has_minimums ? 0 : ommai_integer_traits(spec)->zero;
}

/* Scales and minimums of a group of a panel's outputs. */
static int64_t group_scales(const struct ommai_linear_spec *spec) { return spec->has_minimums ? 2 * PANEL : PANEL; }

int64_t ommai_integer_panel_scales(const struct ommai_linear_spec *spec) {
  return ommai_integer_n_groups(spec) * group_scales(spec);
}

int64_t ommai_integer_kept_scales(const struct ommai_linear_spec *spec) {
  return spec->shared ? spec->n_in / spec->shared * group_scales(spec) : ommai_integer_panel_scales(spec);
}

static int64_t bytes_of_scale(const struct ommai_linear_spec *spec) {
  return (int64_t)(spec->has_half_scales ? sizeof(ommai_f16) : sizeof(float));
}

int64_t ommai_integer_scale_bytes(const struct ommai_linear_spec *spec) {
  int64_t codes = spec->shared ? ommai_integer_panel_scales(spec) : 0;
  return (ommai_integer_kept_scales(spec) * bytes_of_scale(spec) + codes) / PANEL;
}

static size_t n_scales(const struct ommai_linear_spec *spec) {
  return (size_t)(ommai_div_up(spec->n_out, PANEL) * ommai_integer_kept_scales(spec));
}

static size_t n_codes(const struct ommai_linear_spec *spec) {
  return spec->shared ? (size_t)(ommai_div_up(spec->n_out, PANEL) * ommai_integer_panel_scales(spec)) : 0;
}

static size_t n_weight_sums(const struct ommai_linear_spec *spec) {
  return spec->inputs == OMMAI_INPUTS_RANGE ? (size_t)ommai_round_up(spec->n_out, PANEL) : 0;
}

size_t ommai_integer_more_bytes(const struct ommai_linear_spec *spec) {
  return n_scales(spec) * (size_t)bytes_of_scale(spec) + n_codes(spec) + n_weight_sums(spec) * sizeof(int32_t);
}

enum omma_status ommai_integer_check(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec,
                                     struct omma_error *error) {
  if (!ommai_integer_traits(spec)->kernel(context->integer)) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "format", "linear layer: no kernels for %s weights on this CPU",
                            ommai_linear_format(spec->format)->name);
  }
  if (spec->n_in > OMMAI_LINEAR_MAX_INT8_INPUTS) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "n_in", "linear layer: %lld inputs, at most %d with %s weights",
                            (long long)spec->n_in, OMMAI_LINEAR_MAX_INT8_INPUTS, ommai_linear_format(spec->format)->name);
  }
  if (spec->group < 0 || spec->group > OMMAI_LINEAR_MAX_GROUP || spec->group % OMMAI_LINEAR_GROUP_STEP != 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "group",
                            "linear layer: groups of %lld inputs, expected a multiple of %d up to %d, or 0",
                            (long long)spec->group, OMMAI_LINEAR_GROUP_STEP, OMMAI_LINEAR_MAX_GROUP);
  }
  /* Their products need the sums of an output's weights, which are made of s8 panels. */
  const enum ommai_weight_layout layout = ommai_linear_format(spec->format)->layout;
  const bool plain = layout == OMMAI_WEIGHTS_S8_PANELS && spec->group == 0 && !spec->has_minimums;
  if (spec->inputs == OMMAI_INPUTS_RANGE && !plain) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "inputs",
                            "linear layer: inputs with a zero point go with 8-bit weights of one scale for each output only");
  }
  return OMMA_OK;
}

/* ---- integers of a file ---------------------------------------------------------------------- */

int ommai_integer_shared_log2(const struct ommai_linear_spec *spec) {
  int log2 = 0;
  if (!spec->shared) return 0;
  while (spec->group << log2 < spec->shared) log2++;
  return spec->group << log2 == spec->shared ? log2 : -1;
}

/* Whether the source has the factors of its scales as the layer keeps them: a layer's group lies in
 * one of the source's. */
static bool has_factors(const struct ommai_linear_spec *spec, const struct ommai_stored_matrix *stored) {
  bool fits = stored->shared == spec->shared && spec->group > 0 && spec->n_in % spec->shared == 0;
  return fits && ommai_integer_shared_log2(spec) >= 0;
}

/* Whether they are numbers of f16 in the layer, too: minimums of its own are not. */
static bool has_halves(const struct ommai_linear_spec *spec, const struct ommai_stored_matrix *stored) {
  return stored->has_half_scales && !(spec->has_minimums && stored->zero);
}

/* What is added to the source's integers, which lie around its zero point, to lie around the
 * layer's. With minimums they stay, and the zero point goes into these. */
static int shift_of(const struct ommai_linear_spec *spec, const struct ommai_stored_matrix *stored) {
  return spec->has_minimums ? 0 : ommai_integer_zero(spec) - stored->zero;
}

/* Whether the layer's format has room for the source's integers. */
static bool has_room(const struct ommai_linear_spec *spec, const struct ommai_stored_matrix *stored) {
  const int bits = ommai_linear_format(spec->format)->stored_bits, shift = shift_of(spec, stored);
  const int least = stored->bits == 8 ? -128 : 0, most = stored->bits == 8 ? 127 : (1 << stored->bits) - 1;
  return least + shift >= (bits == 8 ? -128 : 0) && most + shift <= (bits == 8 ? 127 : (1 << bits) - 1);
}

/* Whether the source's integers can be taken as they are. */
static bool takes_integers(const struct ommai_linear_spec *spec, const struct ommai_linear_source *source) {
  const struct ommai_stored_matrix *stored = source->stored;
  if (!stored || source->transposed) return false;
  if (stored->bits == 0 || spec->inputs != OMMAI_INPUTS_SYMMETRIC || !has_room(spec, stored)) return false;
  if (stored->group < 1 || spec->n_in % stored->group != 0) return false;
  if (spec->shared && !has_factors(spec, stored)) return false;
  if (spec->has_half_scales && !has_halves(spec, stored)) return false;
  bool whole = stored->group == spec->n_in;
  if (!whole && (spec->group == 0 || stored->group % spec->group != 0)) return false;
  if (spec->has_minimums) return stored->zero == 0 || !stored->has_minimums;
  return !stored->has_minimums;
}

/* The largest group that a layer may have of which all of `inputs` are whole ones; 0: none. */
static int64_t group_within(int64_t inputs) {
  for (int64_t group = OMMAI_LINEAR_MAX_GROUP; group > 0; group -= OMMAI_LINEAR_GROUP_STEP) {
    if (inputs % group == 0) return group;
  }
  return 0;
}

/* The format of the fewest bits that has room for integers of `bits`, and kernels. */
static bool find_format(const struct ommai_linear_context *context, int bits, enum ommai_weight_format *found) {
  int least = 0;
  for (enum ommai_weight_format format = 0; format < OMMAI_WEIGHT_FORMATS; format++) {
    const struct ommai_linear_format *table = ommai_linear_format(format);
    if (table->stored_bits < bits || (least && table->stored_bits >= least)) continue;
    if (!table->integer->kernel(context->integer)) continue;
    least = table->stored_bits;
    *found = format;
  }
  return least > 0;
}

/* Where integers can be taken as they are: makes spec that of a layer that does. */
static bool find_exact(const struct ommai_linear_context *context, const struct ommai_linear_source *sources, int n_sources,
                       struct ommai_linear_spec *spec) {
  struct ommai_linear_spec made = *spec;
  int bits = 0;
  /* the greatest that divides every source's group; 0: all have one scale for each output */
  int64_t common = 0;
  made.group = 0;
  made.has_minimums = false;
  made.inputs = OMMAI_INPUTS_SYMMETRIC;
  for (int i = 0; i < n_sources; i++) bits = sources[i].stored->bits > bits ? sources[i].stored->bits : bits;
  if (!find_format(context, bits, &made.format)) return false;
  for (int i = 0; i < n_sources; i++) made.has_minimums |= sources[i].stored->has_minimums;
  for (int i = 0; i < n_sources; i++) made.has_minimums |= !has_room(&made, sources[i].stored);
  for (int i = 0; i < n_sources; i++) {
    const struct ommai_stored_matrix *stored = sources[i].stored;
    if (stored->group == spec->n_in) continue;
    int64_t a = stored->group, b = common;
    while (b > 0) {
      int64_t rest = a % b;
      a = b;
      b = rest;
    }
    common = a;
  }
  if (common > 0 && (made.group = group_within(common)) == 0) return false;
  made.shared = 0;
  made.has_half_scales = false;
  for (int i = 0; i < n_sources; i++) {
    if (!takes_integers(&made, &sources[i])) return false;
  }
  made.shared = sources[0].stored->shared;
  made.has_half_scales = !made.shared;
  for (int i = 0; i < n_sources; i++) {
    if (made.shared && !has_factors(&made, sources[i].stored)) made.shared = 0;
    if (!has_halves(&made, sources[i].stored)) made.has_half_scales = false;
  }
  *spec = made;
  return true;
}

bool ommai_linear_spec_for_stored(const struct ommai_linear_context *context, const struct ommai_linear_source *sources,
                                  int n_sources, struct ommai_linear_spec *spec) {
  for (int i = 0; i < n_sources; i++) {
    if (!sources[i].stored || sources[i].stored->bits == 0) return false;
  }
  if (n_sources == 0 || find_exact(context, sources, n_sources, spec)) return n_sources > 0;
  for (enum ommai_weight_format format = 0; format < OMMAI_WEIGHT_FORMATS; format++) {
    if (ommai_linear_format(format)->stored_group == 0) continue;
    spec->format = format;
    spec->group = ommai_linear_format(format)->stored_group;
    spec->inputs = OMMAI_INPUTS_SYMMETRIC;
  }
  return true;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* A panel that is being filled with rows of a source. */
struct filling {
  const struct ommai_linear_spec *spec;
  const struct ommai_integer_traits *traits;
  const struct ommai_linear_source *source;
  const struct ommai_row_ops *ops;
  int64_t first, end, column; /* struct ommai_panel_rows */
  uint8_t *weights;
  float *scales; /* or halves */
  ommai_f16 *halves;
  int8_t *codes;
};

void ommai_integer_store_s8(const int8_t *q, int64_t k, int64_t n, int64_t column, uint8_t *panel) {
  uint8_t *to = panel + k * PANEL + 4 * column;
  int64_t i = 0;
  for (; i + 4 <= n; i += 4, to += 4 * PANEL) memcpy(to, q + i, 4); /* a fixed size is one load */
  memcpy(to, q + i, (size_t)(n - i));
}

int ommai_integer_load_s8(const uint8_t *panel, int64_t k, int64_t column) {
  return (int8_t)panel[k / 4 * 4 * PANEL + 4 * column + k % 4];
}

static void load_group(const struct filling *filling, int64_t row, int64_t k, int64_t n, float *values) {
  for (int64_t i = 0; i < n; i += CHUNK) {
    ommai_linear_load_values(filling->source, filling->spec->n_in, row, k + i, (int)ommai_min_i64(CHUNK, n - i), values + i);
  }
}

/* Rows in groups, each of which is read once. */
static void quantise_groups(const struct filling *filling) {
  const struct ommai_linear_spec *spec = filling->spec;
  float values[OMMAI_LINEAR_MAX_GROUP];
  int8_t q[OMMAI_LINEAR_MAX_GROUP];
  for (int64_t k = 0; k < spec->n_in; k += spec->group) {
    int64_t n = ommai_min_i64(spec->group, spec->n_in - k);
    float *scales = filling->scales + k / spec->group * group_scales(spec) + filling->column;
    for (int64_t row = filling->first; row < filling->end; row++) {
      load_group(filling, row, k, n, values);
      filling->traits->fit(filling->ops, values, n, q, scales++);
      filling->traits->store(q, k, n, filling->column + row - filling->first, filling->weights);
    }
  }
}

static float max_magnitude(const struct filling *filling, int64_t row) {
  int64_t n_in = filling->spec->n_in;
  float values[CHUNK];
  int32_t max = 0;
  for (int64_t k = 0; k < n_in; k += CHUNK) {
    int n = (int)ommai_min_i64(CHUNK, n_in - k);
    ommai_linear_load_values(filling->source, n_in, row, k, n, values);
    for (int i = 0; i < n; i++) {
      int32_t bits = ommai_magnitude_bits(values[i]);
      max = bits > max ? bits : max;
    }
  }
  return ommai_f32_from_bits((uint32_t)max);
}

/* With one scale for each output: rows are read twice. */
static void quantise_rows(const struct filling *filling) {
  const struct ommai_integer_traits *traits = filling->traits;
  int64_t n_in = filling->spec->n_in;
  float values[CHUNK];
  int8_t q[CHUNK];
  for (int64_t row = filling->first; row < filling->end; row++) {
    int64_t column = filling->column + row - filling->first;
    float max = max_magnitude(filling, row), inverse = ommai_int8_inverse(max, traits->max);
    filling->scales[column] = max / (float)traits->max;
    for (int64_t k = 0; k < n_in; k += CHUNK) {
      int n = (int)ommai_min_i64(CHUNK, n_in - k);
      ommai_linear_load_values(filling->source, n_in, row, k, n, values);
      for (int i = 0; i < n; i++) q[i] = (int8_t)ommai_round_whole(values[i] * inverse);
      traits->store(q, k, n, column, filling->weights);
    }
  }
}

static void store_scale(const struct filling *filling, int64_t at, float scale) {
  if (filling->halves) {
    filling->halves[at] = ommai_f16_from_f32(scale);
  } else {
    filling->scales[at] = scale;
  }
}

/* The scale and minimum of a source's group, for those of the layer's groups that lie in it. */
static void store_scales(const struct filling *filling, int64_t column, int64_t k, int64_t n, float scale, float minimum) {
  const struct ommai_linear_spec *spec = filling->spec;
  int64_t group = spec->group ? spec->group : spec->n_in, stride = group_scales(spec);
  if (filling->spec->has_minimums && filling->source->stored->zero) minimum += (float)filling->source->stored->zero * scale;
  for (int64_t g = k / group; g * group < k + n; g++) {
    store_scale(filling, g * stride + column, scale);
    if (spec->has_minimums) store_scale(filling, g * stride + PANEL + column, minimum);
  }
}

/* The same, as factors. */
static void store_factors(const struct filling *filling, int64_t row, int64_t column, int64_t k) {
  const struct ommai_linear_spec *spec = filling->spec;
  const struct ommai_stored_matrix *stored = filling->source->stored;
  const int64_t stride = group_scales(spec);
  struct ommai_scale_factors factors;
  stored->factors(stored->context, filling->source->first_output + row, k / stored->group, &factors);
  float *scales = filling->scales + k / spec->shared * stride + column;
  scales[0] = factors.scale;
  if (!stored->has_minimums) { /* the zero point times the scale, exactly */
    factors.minimum = (float)stored->zero * factors.scale;
    factors.minimum_code = factors.scale_code;
  }
  if (spec->has_minimums) scales[PANEL] = factors.minimum;
  for (int64_t g = k / spec->group; g * spec->group < k + stored->group; g++) {
    int8_t *codes = filling->codes + g * stride + column;
    codes[0] = factors.scale_code;
    if (spec->has_minimums) codes[PANEL] = factors.minimum_code;
  }
}

static void take_integers(const struct filling *filling) {
  const struct ommai_stored_matrix *stored = filling->source->stored;
  const int shift = shift_of(filling->spec, stored);
  int8_t q[OMMAI_LINEAR_MAX_INT8_INPUTS];
  for (int64_t row = filling->first; row < filling->end; row++) {
    int64_t column = filling->column + row - filling->first;
    for (int64_t k = 0; k < filling->spec->n_in; k += stored->group) {
      float scale, minimum = 0.0f;
      stored->integers(stored->context, filling->source->first_output + row, k / stored->group, q, &scale, &minimum);
      for (int64_t i = 0; shift && i < stored->group; i++) q[i] = (int8_t)(q[i] + shift);
      if (filling->spec->shared) {
        store_factors(filling, row, column, k);
      } else {
        store_scales(filling, column, k, stored->group, scale, stored->has_minimums ? minimum : 0.0f);
      }
      filling->traits->store(q, k, stored->group, column, filling->weights);
    }
  }
}

static void fill_panel(const struct ommai_linear *linear, const struct ommai_panel_rows *rows) {
  const struct ommai_linear_spec *spec = &linear->spec;
  const struct ommai_integer_weights *own = linear->own;
  const int64_t first_scale = rows->panel * ommai_integer_kept_scales(spec);
  const struct filling filling = {
      .spec = spec,
      .traits = ommai_integer_traits(spec),
      .source = rows->source,
      .ops = linear->context->row_ops,
      .first = rows->first,
      .end = rows->end,
      .column = rows->column,
      .weights = (uint8_t *)linear->weights + rows->panel * ommai_weights_panel_bytes(linear->packed.layout, spec->n_in),
      .scales = own->scales ? own->scales + first_scale : NULL,
      .halves = own->halves ? own->halves + first_scale : NULL,
      .codes = own->codes ? own->codes + rows->panel * ommai_integer_panel_scales(spec) : NULL};
  if (takes_integers(spec, rows->source)) {
    take_integers(&filling);
  } else if (spec->group) {
    quantise_groups(&filling);
  } else {
    quantise_rows(&filling);
  }
}

/* Sums of int8 panels over their inputs. */
static void sum_task(void *context, int64_t panel, int worker) {
  const struct ommai_linear *linear = context;
  const struct ommai_integer_weights *own = linear->own;
  int64_t elements = ommai_weights_panel_elements(OMMAI_WEIGHTS_S8_PANELS, linear->spec.n_in);
  const int8_t *q = (const int8_t *)linear->weights + panel * elements;
  int32_t sums[PANEL] = {0};
  (void)worker;
  for (int64_t i = 0; i < elements; i += 4) sums[i / 4 % PANEL] += q[i] + q[i + 1] + q[i + 2] + q[i + 3];
  memcpy(own->weight_sums + panel * PANEL, sums, sizeof sums);
}

static enum omma_status check_dense(const struct ommai_linear_spec *spec, struct omma_error *error) {
  const struct {
    bool asked;
    const char *field, *what;
  } of_stored[] = {{spec->has_minimums, "has_minimums", "minimums"},
                   {spec->shared != 0, "shared", "factors of their scales"},
                   {spec->has_half_scales, "has_half_scales", "scales in f16"}};
  for (size_t i = 0; i < sizeof of_stored / sizeof *of_stored; i++) {
    if (!of_stored[i].asked) continue;
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, of_stored[i].field, "linear layer: only stored integers have %s",
                            of_stored[i].what);
  }
  if (!ommai_integer_traits(spec)->fit) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "format", "linear layer: only stored integers become %s",
                            ommai_linear_format(spec->format)->name);
  }
  if (ommai_integer_traits(spec)->max == 0 && spec->group == 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "group", "linear layer: to quantise to %s takes groups of inputs",
                            ommai_linear_format(spec->format)->name);
  }
  return OMMA_OK;
}

enum omma_status ommai_integer_pack(struct ommai_linear *linear, const struct ommai_linear_source *sources, int n_sources,
                                    const struct omma_team *team, struct omma_error *error) {
  const struct omma_allocator *allocator = &linear->context->allocator;
  const struct ommai_linear_spec *spec = &linear->spec;
  for (int i = 0; i < n_sources; i++) {
    if (!takes_integers(spec, &sources[i])) OMMAI_TRY(check_dense(spec, error));
  }
  struct ommai_integer_weights *own = linear->own = ommai_allocate(allocator, 1, sizeof *own);
  if (!own) return ommai_fail_memory(error, "scales", sizeof *own);
  void *scales = ommai_allocate(allocator, n_scales(spec), (size_t)bytes_of_scale(spec));
  if (!scales) return ommai_fail_memory(error, "scales", n_scales(spec) * (size_t)bytes_of_scale(spec));
  if (spec->has_half_scales) {
    own->halves = scales;
  } else {
    own->scales = scales;
  }
  if (spec->shared) {
    own->codes = ommai_allocate(allocator, n_codes(spec), sizeof *own->codes);
    if (!own->codes) return ommai_fail_memory(error, "scales", n_codes(spec));
  }
  ommai_linear_pack_panels(linear, sources, n_sources, team, fill_panel);
  if (spec->inputs != OMMAI_INPUTS_RANGE) return OMMA_OK;
  own->weight_sums = ommai_allocate(allocator, n_weight_sums(spec), sizeof *own->weight_sums);
  if (!own->weight_sums) return ommai_fail_memory(error, "sums of weights", n_weight_sums(spec) * sizeof *own->weight_sums);
  ommai_team_run(team, ommai_div_up(spec->n_out, PANEL), sum_task, linear);
  return OMMA_OK;
}

void ommai_integer_release(struct ommai_linear *linear) {
  const struct omma_allocator *allocator = &linear->context->allocator;
  struct ommai_integer_weights *own = linear->own;
  if (!own) return;
  if (own->weight_sums) ommai_release(allocator, own->weight_sums, n_weight_sums(&linear->spec), sizeof *own->weight_sums);
  if (own->codes) ommai_release(allocator, own->codes, n_codes(&linear->spec), sizeof *own->codes);
  void *scales = own->halves ? (void *)own->halves : (void *)own->scales;
  ommai_release(allocator, scales, n_scales(&linear->spec), (size_t)bytes_of_scale(&linear->spec));
  ommai_release(allocator, own, 1, sizeof *own);
}
