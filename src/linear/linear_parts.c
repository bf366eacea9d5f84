#include "linear/linear_parts.h"

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "linear/linear.h"
#include "linear/linear_objects.h"

struct ommai_linear_parts {
  struct omma_allocator allocator;
  size_t y_bytes; /* from row to row */
  int64_t count;
  struct ommai_linear_op **ops; /* [count] */
};

static int64_t part_panels(enum ommai_weight_format format) { return ommai_linear_format(format)->part_panels; }

/* Part `index` of a call over all outputs. */
static struct ommai_linear_call part_call(const struct ommai_linear_call *call, enum ommai_weight_format format,
                                          int64_t n_panels, int64_t index) {
  struct ommai_linear_call part = *call;
  part.first_panel = index * part_panels(format);
  part.n_panels = ommai_min_i64(part_panels(format), n_panels - part.first_panel);
  return part;
}

enum omma_status ommai_linear_parts_create(struct ommai_linear_context *context, const struct ommai_linear *linear,
                                           const struct ommai_linear_call *call, struct ommai_linear_parts **out,
                                           struct omma_error *error) {
  int64_t n_panels = ommai_linear_n_panels(linear);
  struct ommai_linear_parts *parts = ommai_allocate(&context->allocator, 1, sizeof *parts);
  if (!parts) return ommai_fail_memory(error, "linear layer's parts", sizeof *parts);
  enum omma_status status = OMMA_OK;
  parts->allocator = context->allocator;
  parts->y_bytes = (size_t)call->y_stride * (call->y_type == OMMA_BF16 ? 2 : 4);
  parts->count = ommai_div_up(n_panels, part_panels(linear->spec.format));
  parts->ops = ommai_allocate(&context->allocator, (size_t)parts->count, sizeof *parts->ops);
  if (!parts->ops) {
    status = ommai_fail_memory(error, "linear layer's parts", (size_t)parts->count * sizeof *parts->ops);
    goto fail;
  }
  for (int64_t i = 0; i < parts->count; i++) {
    const struct ommai_linear_call part = part_call(call, linear->spec.format, n_panels, i);
    OMMAI_TRY_GOTO(ommai_linear_op_create(context, linear, &part, &parts->ops[i], error), fail);
  }
  *out = parts;
  return OMMA_OK;
fail:
  ommai_linear_parts_destroy(parts);
  return status;
}

enum omma_status ommai_linear_parts_scratch_for(struct ommai_linear_context *context, const struct ommai_linear_spec *spec,
                                                const struct ommai_linear_call *call, size_t *bytes, struct omma_error *error) {
  int64_t n_panels = ommai_div_up(spec->n_out, OMMAI_PANEL_COLUMNS), last = (n_panels - 1) / part_panels(spec->format);
  *bytes = 0;
  /* All parts but the last are alike. */
  for (int64_t i = 0; i <= last; i += ommai_max_i64(last, 1)) {
    const struct ommai_linear_call part = part_call(call, spec->format, n_panels, i);
    size_t of_part;
    OMMAI_TRY(ommai_linear_scratch_for(context, spec, &part, &of_part, error));
    if (of_part > *bytes) *bytes = of_part;
  }
  return OMMA_OK;
}

void ommai_linear_parts_destroy(struct ommai_linear_parts *parts) {
  if (!parts) return;
  struct omma_allocator allocator = parts->allocator;
  for (int64_t i = 0; parts->ops && i < parts->count; i++) ommai_linear_op_destroy(parts->ops[i]);
  ommai_release(&allocator, parts->ops, (size_t)parts->count, sizeof *parts->ops);
  ommai_release(&allocator, parts, 1, sizeof *parts);
}

int64_t ommai_linear_parts_count(const struct ommai_linear_parts *parts) { return parts->count; }

enum omma_status ommai_linear_parts_run(const struct ommai_linear_parts *parts, int64_t index,
                                        const struct ommai_linear_rows *rows, int64_t first, void *y, int64_t n_rows,
                                        int worker, struct omma_error *error) {
  int64_t together = ommai_linear_max_rows(parts->ops[index]->linear);
  for (int64_t row = 0; row < n_rows; row += together) {
    OMMAI_TRY(ommai_linear_run_prepared(parts->ops[index], rows, first + row, (char *)y + (size_t)row * parts->y_bytes,
                                        ommai_min_i64(together, n_rows - row), worker, error));
  }
  return OMMA_OK;
}
