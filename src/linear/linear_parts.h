/* A layer cut along its outputs, so that a few rows of a prompt occupy every core: equal parts of
 * as many panels as the weights' format takes, one op each. A row's bits are those of the uncut
 * layer. */
#pragma once

#include "linear/linear.h"

struct ommai_linear_parts;

/* The panels of `call` are not looked at. Destroy before the linear. Errors: as
 * ommai_linear_op_create. */
enum omma_status ommai_linear_parts_create(struct ommai_linear_context *context, const struct ommai_linear *linear,
                                           const struct ommai_linear_call *call, struct ommai_linear_parts **parts,
                                           struct omma_error *error);
/* The scratch that these parts' ops take (see ommai_linear_scratch_for). */
enum omma_status ommai_linear_parts_scratch_for(struct ommai_linear_context *context, const struct ommai_linear_spec *spec,
                                                const struct ommai_linear_call *call, size_t *bytes, struct omma_error *error);
void ommai_linear_parts_destroy(struct ommai_linear_parts *parts);

int64_t ommai_linear_parts_count(const struct ommai_linear_parts *parts);

/* Part `index` over any number of prepared rows from `first` on, whose first is y's: as
 * ommai_linear_run_prepared. */
enum omma_status ommai_linear_parts_run(const struct ommai_linear_parts *parts, int64_t index,
                                        const struct ommai_linear_rows *rows, int64_t first, void *y, int64_t n_rows,
                                        int worker, struct omma_error *error);
