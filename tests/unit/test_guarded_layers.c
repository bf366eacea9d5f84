/* Whole layers at every CPU level of the machine with all memory between pages that cannot be
 * touched, ending at the one behind and beginning at the one in front: linear layers of every
 * format and size at an edge, attention, a tower's and a decoder's blocks. What they compute must
 * not change by it; that it is right is tested elsewhere. */
#include <stdlib.h>

#include "base/allocator.h"
#include "base/half.h"
#include "linear/linear_parts.h"
#include "support/attention_levels.h"
#include "support/decoder_bench.h"
#include "support/decoder_fixture.h"
#include "support/guarded.h"
#include "support/linear_fixture.h"
#include "support/test.h"
#include "support/tower_fixture.h"

enum { IN_FRONT, AT_END, SIDES };

static enum ommai_cpu_level level;

/* Guarded memory with these bytes. */
static struct guarded guarded_copy(const void *data, size_t size, int side) {
  struct guarded memory = guarded_new(size, side == AT_END);
  memcpy(memory.data, data, size);
  return memory;
}

/* ---- linear layers --------------------------------------------------------------------------- */

/* Sizes at the edges of vectors, steps of products, panels and blocks. */
static const int64_t sizes[] = {1, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 130, 257};
static const int64_t row_counts[] = {1, 2, 3, 5, 8, 15, 17, 33, 48, 63, 100, 128};
#define N_SIZES ((int)(sizeof sizes / sizeof *sizes))
#define N_ROW_COUNTS ((int)(sizeof row_counts / sizeof *row_counts))
#define MAX_SIZE 257

static float weights[MAX_SIZE * MAX_SIZE], bias[MAX_SIZE];

/* A layer and what it made, in ordinary memory or guarded. */
struct layer_run {
  struct omma_allocator allocator;
  int side; /* SIDES: ordinary memory */
  struct ommai_linear_spec spec;
  struct ommai_linear_context *context;
  struct ommai_linear *linear;
  struct ommai_linear_op *op;
  struct ommai_linear_parts *parts;
};

static void layer_open(struct layer_run *run, const struct ommai_linear_spec *spec, int side) {
  const struct ommai_linear_call call = {.x_stride = spec->n_in, .y_stride = spec->n_out, .y_type = OMMA_F32};
  struct omma_error error;
  *run = (struct layer_run){
      .allocator = side == SIDES ? ommai_default_allocator : guarded_allocator(side == AT_END), .side = side, .spec = *spec};
  assert_ok(ommai_linear_context_create(level, 2, &run->allocator, &run->context, &error), &error);
  struct guarded weight = guarded_copy(weights, (size_t)(spec->n_out * spec->n_in) * sizeof(float), side);
  struct guarded offsets = guarded_copy(bias, (size_t)spec->n_out * sizeof(float), side);
  const struct ommai_linear_source source = {.weight = weight.data, .n_out = spec->n_out, .bias = offsets.data};
  assert_ok(ommai_linear_create(run->context, spec, &source, 1, NULL, &run->linear, &error), &error);
  guarded_free(&weight);
  guarded_free(&offsets);
  assert_ok(ommai_linear_op_create(run->context, run->linear, &call, &run->op, &error), &error);
  assert_ok(ommai_linear_parts_create(run->context, run->linear, &call, &run->parts, &error), &error);
}

static void layer_close(struct layer_run *run) {
  ommai_linear_parts_destroy(run->parts);
  ommai_linear_op_destroy(run->op);
  ommai_linear_destroy(run->linear);
  ommai_linear_context_destroy(run->context);
}

enum layer_path { PATH_TILE, PATH_PARTS, PATH_FEW, PATH_PREPARED, PATH_PREPARED_PARTS, PATHS };

/* One way to compute n_rows rows; y [n_rows][n_out]. */
static void layer_compute(struct layer_run *run, enum layer_path path, const struct ommai_linear_rows *x, int64_t n_rows,
                          float *y) {
  const struct ommai_linear_spec *spec = &run->spec;
  int64_t n_panels = ommai_linear_n_panels(run->linear);
  struct omma_error error;
  switch (path) {
    case PATH_TILE: assert_ok(ommai_linear_run(run->op, x->x, y, n_rows, 1, &error), &error); break;
    case PATH_PREPARED_PARTS:
      ommai_linear_prepare_rows(run->linear, x, 0, n_rows);
      /* fall through */
    case PATH_PARTS:
      for (int64_t part = 0; part < ommai_linear_parts_count(run->parts); part++)
        assert_ok(ommai_linear_parts_run(run->parts, part, x, 0, y, n_rows, 1, &error), &error);
      break;
    case PATH_FEW: ommai_linear_gemv(run->linear, x->x, spec->n_in, n_rows, y, spec->n_out, false, 0, n_panels); break;
    default:
      ommai_linear_prepare_rows(run->linear, x, 0, n_rows);
      ommai_linear_few_prepared_rows(run->linear, x, 0, n_rows, y, spec->n_out, false, 0, n_panels);
  }
}

/* n_rows rows in one way; the result [n_rows][n_out], to be freed. */
static float *layer_run_rows(struct layer_run *run, enum layer_path path, const void *values, int64_t n_rows) {
  const struct ommai_linear_spec *spec = &run->spec;
  size_t element = spec->compute == OMMA_BF16 ? sizeof(ommai_bf16) : sizeof(float);
  size_t rows = (size_t)n_rows;
  size_t y_bytes = (size_t)(n_rows * spec->n_out) * sizeof(float);
  struct guarded x = guarded_new(rows * (size_t)spec->n_in * element, run->side != IN_FRONT);
  struct guarded y = guarded_new(rows * (size_t)spec->n_out * sizeof(float), run->side != IN_FRONT);
  size_t places = (size_t)ommai_round_up(n_rows, ommai_linear_gemv_prepares_rows(run->linear) ? 1 : OMMAI_LINEAR_PREPARED_ROWS);
  struct guarded prepared = guarded_new(places * ommai_linear_prepared_row_bytes(run->context, spec), run->side != IN_FRONT);
  memcpy(x.data, values, (size_t)(n_rows * spec->n_in) * element);
  struct ommai_linear_rows of = {.x = x.data, .x_stride = spec->n_in};
  if (path >= PATH_PREPARED) of = ommai_linear_rows_place(run->linear, x.data, spec->n_in, n_rows, prepared.data);
  layer_compute(run, path, &of, n_rows, (float *)(void *)y.data);
  float *found = malloc(y_bytes);
  memcpy(found, y.data, y_bytes);
  guarded_check(&x, "x");
  guarded_check(&y, "y");
  guarded_check(&prepared, "prepared rows");
  guarded_free(&x);
  guarded_free(&y);
  guarded_free(&prepared);
  return found;
}

/* Every way to compute, guarded, against the same in ordinary memory. */
static void check_layer(const struct ommai_linear_spec *spec, const void *values, int64_t n_rows) {
  struct layer_run plain, guarded;
  layer_open(&plain, spec, SIDES);
  for (int side = 0; side < SIDES; side++) {
    layer_open(&guarded, spec, side);
    for (int path = 0; path < PATHS; path++) {
      float *expected = layer_run_rows(&plain, path, values, n_rows), *found = layer_run_rows(&guarded, path, values, n_rows);
      if (memcmp(expected, found, (size_t)(n_rows * spec->n_out) * sizeof(float)) != 0)
        fail_msg("%s, compute %d, %d x %d, %d rows, way %d, side %d: other bits", ommai_linear_format(spec->format)->name,
                 spec->compute, (int)spec->n_out, (int)spec->n_in, (int)n_rows, path, side);
      for (int64_t i = 0; i < n_rows * spec->n_out; i++) assert_true(found[i] == found[i]);
      free(expected);
      free(found);
    }
    layer_close(&guarded);
  }
  layer_close(&plain);
}

static void linear_layers(void **state) {
  (void)state;
  struct test_random random = {3};
  static float x[OMMAI_LINEAR_MAX_ROWS * MAX_SIZE];
  static ommai_bf16 narrow[OMMAI_LINEAR_MAX_ROWS * MAX_SIZE];
  for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) weights[i] = test_random_normal(&random);
  for (size_t i = 0; i < sizeof bias / sizeof *bias; i++) bias[i] = test_random_normal(&random);
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) narrow[i] = ommai_bf16_from_f32(x[i] = test_random_normal(&random));
  struct ommai_linear_context *context;
  struct omma_error error;
  assert_ok(ommai_linear_context_create(level, 1, &ommai_default_allocator, &context, &error), &error);
  int trial = 0;
  for (enum ommai_weight_format format = 0; format < OMMAI_WEIGHT_FORMATS; format++) {
    const struct ommai_format_method *methods = ommai_linear_format(format)->methods;
    /* of stored integers only */
    if (ommai_linear_format(format)->quantised && !methods[0].name) continue;
    for (int m = 0; m == 0 || methods[m].name; m++) {
      for (int i = 0; i < N_SIZES * N_SIZES; i += test_small() ? 11 : 3, trial++) {
        struct ommai_linear_spec spec = {.n_out = sizes[i / N_SIZES],
                                         .n_in = sizes[i % N_SIZES],
                                         .format = format,
                                         .group = methods[m].group,
                                         .inputs = trial % 2 && !methods[m].group ? OMMAI_INPUTS_RANGE : OMMAI_INPUTS_SYMMETRIC,
                                         .has_bias = true};
        for (spec.compute = OMMA_F32; spec.compute <= OMMA_BF16; spec.compute++) {
          /* does not compute in this type */
          if (ommai_linear_bytes_for(context, &spec) == 0) continue;
          check_layer(&spec, spec.compute == OMMA_BF16 ? (const void *)narrow : x, row_counts[trial % N_ROW_COUNTS]);
        }
      }
    }
  }
  ommai_linear_context_destroy(context);
}

/* ---- attention ------------------------------------------------------------------------------- */

static void attention_at_level(struct omma_attention_context *context) {
  static const int32_t dims[] = {1, 15, 17, 40, 64, 80, 128};
  const struct attention_segment segments[] = {{1, 1, 1, false}, {37, 67, 2, false}, {0, 3, 3, false}, {66, 130, 4, false}};
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i += test_small() ? 3 : 1) {
    for (int mode = OMMA_ATTENTION_ENCODER; mode <= OMMA_ATTENTION_DECODE; mode++) {
      int n_types = mode == OMMA_ATTENTION_ENCODER ? 3 : ATTENTION_DECODER_TYPES;
      for (int types = 0; types < n_types; types++) {
        struct attention_case problem = mode == OMMA_ATTENTION_ENCODER
                                            ? attention_base_case(mode, (enum omma_dtype)types, dims[i], segments, 4)
                                            : attention_decoder_case(mode, types, dims[i], segments, 4);
        problem.paged = mode != OMMA_ATTENTION_ENCODER && i % 2;
        problem.heads_first = i % 3 == 1;
        attention_check(context, &problem, 5);
        problem.in_front = true;
        attention_check(context, &problem, 5);
      }
    }
  }
}

static void attention(void **state) {
  (void)state;
  for (int side = 0; side < SIDES; side++) {
    const struct omma_allocator allocator = guarded_allocator(side == AT_END);
    const struct omma_attention_options options = {.isa = ommai_cpu_level_name(level), .allocator = &allocator};
    struct omma_attention_context *context;
    struct omma_error error;
    assert_ok(omma_attention_context_create(&options, &context, &error), &error);
    attention_at_level(context);
    omma_attention_context_destroy(context);
  }
}

/* ---- a tower's and a decoder's blocks -------------------------------------------------------- */

enum { N_INPUTS = 4 };

/* Ragged windows, one block, a video, a tower of one column. */
static const int64_t grids[N_INPUTS][3] = {{1, 4, 6}, {1, 2, 2}, {3, 6, 4}, {1, 14, 2}};

/* The pass with its pixels, outputs and workspace between guard pages. */
static void run_guarded_pass(const struct fixture_tower *tower, const struct fixture_pass *plain, int side, float *found) {
  struct guarded pixels[N_INPUTS], values = guarded_new(plain->n_values * sizeof(float), side == AT_END);
  struct guarded workspace = guarded_new((plain->workspace_size + 63) / 64 * 64, side == AT_END);
  struct ommai_vision_input inputs[N_INPUTS];
  struct fixture_pass pass = *plain;
  const int64_t patch = tower->tower.config.patch_size;
  for (int64_t i = 0; i < N_INPUTS; i++) {
    inputs[i] = plain->inputs[i];
    pixels[i] = guarded_copy(inputs[i].pixels, (size_t)(grids[i][0] * grids[i][1] * grids[i][2] * patch * patch * 3), side);
    inputs[i].pixels = pixels[i].data;
    inputs[i].output = (float *)(void *)values.data + (inputs[i].output - plain->values);
  }
  pass.inputs = inputs;
  pass.workspace = workspace.data;
  fixture_pass_run(tower, &pass, 1000, NULL);
  memcpy(found, values.data, values.size);
  for (int64_t i = 0; i < N_INPUTS; i++) guarded_free(&pixels[i]);
  guarded_check(&values, "outputs");
  guarded_check(&workspace, "workspace");
  guarded_free(&values);
  guarded_free(&workspace);
}

static void tower_blocks(void **state) {
  (void)state;
  for (int kind = 0; kind < FIXTURE_TOWERS; kind++) {
    for (int type = 0; type < FIXTURE_TYPES; type++) {
      struct fixture_tower tower;
      fixture_tower_make(&tower, kind, type, 1, &ommai_default_allocator);
      struct fixture_pass pass = fixture_pass_make(&tower, grids, N_INPUTS, 1);
      float *found = malloc(pass.n_values * sizeof *found);
      fixture_pass_run(&tower, &pass, 1000, NULL);
      for (int side = 0; side < SIDES; side++) {
        const struct omma_allocator allocator = guarded_allocator(side == AT_END);
        struct fixture_tower guarded;
        fixture_tower_make(&guarded, kind, type, 1, &allocator);
        run_guarded_pass(&guarded, &pass, side, found);
        assert_memory_equal(found, pass.values, pass.n_values * sizeof *found);
        fixture_tower_free(&guarded);
      }
      free(found);
      fixture_pass_free(&pass);
      fixture_tower_free(&tower);
    }
  }
}

enum { PROMPT = 71, PAGES = 3 };

/* A prompt in two chunks and a token after it: residual, then logits. */
static void run_decoder(const struct decoder_fixture *fixture, const struct omma_allocator *allocator, float *out) {
  const struct decoder_bench_sizes room = {PAGES, PROMPT, 2, PROMPT + 1, allocator};
  const int32_t pages[PAGES] = {2, 0, 1};
  int32_t prompt[PROMPT];
  struct decoder_bench bench = decoder_bench_make(&fixture->decoder, &room, 1);
  for (int i = 0; i < PROMPT; i++) prompt[i] = i * 29 % DECODER_VOCAB;
  decoder_bench_prefill(&bench, pages, prompt, PROMPT, 64, 100, out);
  const struct ommai_decode_row row = decoder_bench_row(17, PROMPT, pages);
  decoder_bench_decode(&bench, &row, 1, out + DECODER_HIDDEN);
  decoder_bench_free(&bench);
}

static void decoder_blocks(void **state) {
  (void)state;
  static struct decoder_fixture plain, guarded;
  float expected[DECODER_HIDDEN + DECODER_VOCAB], found[DECODER_HIDDEN + DECODER_VOCAB];
  for (int kind = 0; kind < DECODER_KINDS; kind++) {
    for (enum omma_dtype dtype = OMMA_F32; dtype <= OMMA_BF16; dtype++) {
      decoder_fixture_make(&plain, kind, dtype, 1, &ommai_default_allocator);
      run_decoder(&plain, NULL, expected);
      decoder_fixture_free(&plain);
      for (int side = 0; side < SIDES; side++) {
        const struct omma_allocator allocator = guarded_allocator(side == AT_END);
        decoder_fixture_make(&guarded, kind, dtype, 1, &allocator);
        run_decoder(&guarded, &allocator, found);
        assert_memory_equal(found, expected, sizeof found);
        decoder_fixture_free(&guarded);
      }
    }
  }
}

static int run_level(const char *name) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(linear_layers),
      cmocka_unit_test(attention),
      cmocka_unit_test(tower_blocks),
      cmocka_unit_test(decoder_blocks),
  };
  struct omma_error error;
  setenv("OMMA_ISA", name, 1);
  if (ommai_cpu_select(name, &level, &error) != OMMA_OK) return 1;
  return _cmocka_run_group_tests(name, tests, sizeof tests / sizeof *tests, NULL, NULL);
}

int main(void) { return fixture_run_levels(run_level); }
