/* What the tests of linear layers share: elements of either type, activations in double precision,
 * and runs at every CPU level. */
#pragma once

#include "linear/linear_objects.h"

/* Element `at` of an array of f32 or bf16. */
void fixture_put(void *array, int64_t at, float value, enum omma_dtype type);
float fixture_get(const void *array, int64_t at, enum omma_dtype type);

double fixture_activate(double x, enum ommai_activation activation);

/* Makes a layer's tiles fail with `broken`'s help, which must live until it is mended: LIMIT, "no
 * tiles today", a status that no other failure has. */
void fixture_break_linear(struct ommai_linear *linear, struct ommai_linear_code *broken);
void fixture_mend_linear(struct ommai_linear *linear);

/* The body of main() for tests of every CPU level of the machine; with OMMA_TEST_LEVEL in the
 * environment, of that level alone: returns the sum of what run_level returns. */
int fixture_run_levels(int (*run_level)(const char *level));
