/* How near a linear layer over integer weights comes to the exact one, on the widths of released
 * models: prints a JSON list with the cosine of the outputs, all rows together, for each layer and
 * format, and fails where one is below what quant_accuracy.py's page promises.
 *
 * Weights are normal; so are inputs, but for one in 256 places that are 20 times as large in every
 * row, as in language models. */
#include <math.h>
#include <stdio.h>

#include "base/allocator.h"
#include "linear/linear.h"
#include "support/test.h"

enum { N_OUT = 128, N_ROWS = 32, MAX_IN = 12288, OUTLIER_EVERY = 256 };

static const struct {
  const char *name;
  int64_t n_in;
} layers[] = {{"2B: qkv, gate and up", 2048}, {"2B: down", 6144}, {"8B: qkv, gate and up", 4096}, {"8B: down", 12288}};

static const struct {
  const char *name;
  enum ommai_weight_format format;
  int64_t group;
  double min_cosine;
} formats[] = {{"int8", OMMAI_FORMAT_INT8, 0, 0.997},
               {"int4-g32", OMMAI_FORMAT_INT4, 32, 0.99},
               {"int4-g64", OMMAI_FORMAT_INT4, 64, 0.99},
               {"int4-g128", OMMAI_FORMAT_INT4, 128, 0.985}};

static float weights[N_OUT * MAX_IN], inputs[N_ROWS * MAX_IN], outputs[N_ROWS * N_OUT];
static double exact[N_ROWS * N_OUT];

static void make_problem(int64_t n_in) {
  struct test_random random = {(uint64_t)n_in};
  for (int64_t i = 0; i < N_OUT * n_in; i++) weights[i] = test_random_normal(&random) / sqrtf((float)n_in);
  for (int64_t i = 0; i < N_ROWS * n_in; i++) {
    inputs[i] = test_random_normal(&random) * (i % n_in % OUTLIER_EVERY == 7 ? 20.0f : 1.0f);
  }
  for (int64_t i = 0; i < N_ROWS * N_OUT; i++) {
    const float *x = inputs + i / N_OUT * n_in, *w = weights + i % N_OUT * n_in;
    double sum = 0;
    for (int64_t k = 0; k < n_in; k++) sum += (double)x[k] * (double)w[k];
    exact[i] = sum;
  }
}

static double measure(struct ommai_linear_context *context, int64_t n_in, enum ommai_weight_format format, int64_t group) {
  struct ommai_linear *linear;
  struct omma_error error;
  const struct ommai_linear_spec spec = {
      .n_in = n_in, .format = format, .compute = OMMA_F32, .group = group, .inputs = OMMAI_INPUTS_SYMMETRIC};
  const struct ommai_linear_source source = {.weight = weights, .type = OMMA_F32, .n_out = N_OUT};
  assert_ok(ommai_linear_create(context, &spec, &source, 1, NULL, &linear, &error), &error);
  ommai_linear_gemv(linear, inputs, n_in, N_ROWS, outputs, N_OUT, false, 0, ommai_linear_n_panels(linear));
  ommai_linear_destroy(linear);
  double product = 0, ours = 0, theirs = 0;
  for (int64_t i = 0; i < N_ROWS * N_OUT; i++) {
    product += (double)outputs[i] * exact[i];
    ours += (double)outputs[i] * (double)outputs[i];
    theirs += exact[i] * exact[i];
  }
  return product / sqrt(ours * theirs);
}

int main(void) {
  struct ommai_linear_context *context;
  struct omma_error error;
  enum ommai_cpu_level level;
  int n_low = 0;
  assert_ok(ommai_cpu_select(NULL, &level, &error), &error);
  assert_ok(ommai_linear_context_create(level, 1, &ommai_default_allocator, &context, &error), &error);
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    make_problem(layers[i].n_in);
    printf("%s{\"layer\": \"%s\", \"n_in\": %d, \"cosines\": {", i ? ",\n " : "[", layers[i].name, (int)layers[i].n_in);
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
      double cosine = measure(context, layers[i].n_in, formats[f].format, formats[f].group);
      printf("%s\"%s\": %.6f", f ? ", " : "", formats[f].name, cosine);
      n_low += !(cosine >= formats[f].min_cosine && cosine < 1);
    }
    printf("}}");
  }
  puts("]");
  ommai_linear_context_destroy(context);
  return n_low > 0;
}
