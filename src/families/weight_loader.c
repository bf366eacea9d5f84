#include "families/weight_loader.h"

#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "kernels/dtype.h"
#include "linear/linear_parts.h"

enum { MAX_PARTS = 4 };

static enum omma_status dtype_of(const struct ommai_tensor *tensor, enum omma_dtype *type, struct omma_error *error) {
  switch (tensor->type) {
    case OMMAI_TENSOR_F32: *type = OMMA_F32; return OMMA_OK;
    case OMMAI_TENSOR_BF16: *type = OMMA_BF16; return OMMA_OK;
    case OMMAI_TENSOR_F16: *type = OMMA_F16; return OMMA_OK;
    case OMMAI_TENSOR_QUANTISED: *type = OMMA_F32; return OMMA_OK;
    default:
      return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "tensor %s: expected F32, BF16 or F16, found %s", tensor->name,
                        ommai_tensor_type_name(tensor->type));
  }
}

/* Counts a tensor and shows it (DESCRIBE) or finds it in the checkpoint (PACK; *tensor is NULL
 * otherwise). */
static enum omma_status require_tensor(struct ommai_weight_loader *loader, const char *name, int n_dims, const int64_t *shape,
                                       const struct ommai_tensor **tensor, struct omma_error *error) {
  *tensor = NULL;
  int64_t elements = 1;
  for (int i = 0; i < n_dims; i++) elements *= shape[i];
  loader->n_parameters += elements;
  if (loader->mode == OMMAI_LOADER_PACK)
    return ommai_checkpoint_require(loader->checkpoint, name, n_dims, shape, tensor, error);
  return loader->visit ? loader->visit(loader->visit_context, name, n_dims, shape, error) : OMMA_OK;
}

static void finish(struct ommai_weight_loader *loader, const struct ommai_tensor *tensor) {
  ommai_checkpoint_release(loader->checkpoint, tensor);
  loader->bytes_read += (int64_t)tensor->size_bytes;
  if (loader->progress) loader->progress(loader->progress_context, loader->bytes_read, loader->bytes_total);
}

enum omma_status ommai_loader_vector(struct ommai_weight_loader *loader, const char *name, int n_dims, const int64_t *shape,
                                     float **out, struct omma_error *error) {
  const struct ommai_tensor *tensor;
  OMMAI_TRY(require_tensor(loader, name, n_dims, shape, &tensor, error));
  int64_t elements = 1;
  for (int i = 0; i < n_dims; i++) elements *= shape[i];
  loader->bytes += elements * (int64_t)sizeof(float);
  if (!tensor) return OMMA_OK;
  float *values = ommai_allocate(&loader->allocator, (size_t)elements, sizeof(float));
  if (!values) return ommai_fail_memory(error, name, (size_t)elements * sizeof(float));
  ommai_tensor_to_f32(tensor, 0, elements, values); /* the type was checked with the shape */
  finish(loader, tensor);
  *out = values;
  return OMMA_OK;
}

enum omma_status ommai_loader_open(struct ommai_weight_loader *loader, const char *name, int n_dims, const int64_t *shape,
                                   struct ommai_loader_tensor *out, struct omma_error *error) {
  *out = (struct ommai_loader_tensor){.type = loader->stored_type};
  OMMAI_TRY(require_tensor(loader, name, n_dims, shape, &out->tensor, error));
  out->known = out->tensor ? out->tensor : ommai_loader_find(loader, name);
  return out->known ? dtype_of(out->known, &out->type, error) : OMMA_OK;
}

void ommai_loader_close(struct ommai_weight_loader *loader, const struct ommai_loader_tensor *tensor) {
  if (tensor->tensor) finish(loader, tensor->tensor);
}

struct ommai_linear_source ommai_loader_matrix(const struct ommai_loader_tensor *tensor, int64_t first, int64_t n_out,
                                               bool transposed) {
  struct ommai_linear_source source = {.type = tensor->type, .n_out = n_out, .transposed = transposed};
  if (tensor->known && tensor->known->type == OMMAI_TENSOR_QUANTISED) {
    source.stored = tensor->known->stored;
    source.first_output = first / tensor->known->shape[tensor->known->n_dims - 1];
  } else if (tensor->tensor) {
    source.weight = (const unsigned char *)tensor->tensor->data + (size_t)first * ommai_dtype_size(tensor->type);
  }
  return source;
}

/* The language model's matrices, but for those that are read the other way round as well. */
static bool is_text_matrix(enum ommai_weight_role role) {
  return role >= OMMAI_ROLE_TEXT_QKV && role != OMMAI_ROLE_MLA && role != OMMAI_ROLE_ROUTER &&
         role != OMMAI_ROLE_STATE_PROJECTION;
}

/* How a layer of such sources is kept. */
static struct ommai_linear_spec choose_spec(const struct ommai_weight_loader *loader, enum ommai_weight_role role,
                                            const struct ommai_linear_source *sources, int n_sources, int64_t n_in) {
  const struct ommai_weight_kind kind = loader->policy.kinds[role];
  struct ommai_linear_spec spec = {
      .n_in = n_in, .format = kind.format, .compute = kind.compute, .group = kind.group, .inputs = kind.inputs};
  for (int i = 0; i < n_sources; i++) {
    spec.n_out += sources[i].n_out;
    /* bf16 is what f32 arithmetic reads without loss where it is what the checkpoint has. */
    if (spec.compute == OMMA_F32 && spec.format == OMMAI_FORMAT_BF16 && sources[i].type != OMMA_BF16) {
      spec.format = OMMAI_FORMAT_F32;
    }
  }
  if (loader->policy.keeps_stored && is_text_matrix(role)) {
    ommai_linear_spec_for_stored(loader->linear_context, sources, n_sources, &spec);
  }
  return spec;
}

static void count_rows(struct ommai_weight_loader *loader, const struct ommai_linear_spec *spec) {
  int64_t max_rows = ommai_linear_max_rows_for(loader->linear_context, spec);
  if (!loader->max_rows || max_rows < loader->max_rows) loader->max_rows = max_rows;
}

static void count_prepared_row(struct ommai_weight_loader *loader, const struct ommai_linear_spec *spec) {
  size_t bytes = ommai_linear_prepared_row_bytes(loader->linear_context, spec);
  size_t of_few = ommai_linear_gemv_row_bytes(loader->linear_context, spec);
  if (bytes > loader->prepared_row_bytes) loader->prepared_row_bytes = bytes;
  if (of_few > loader->gemv_row_bytes) loader->gemv_row_bytes = of_few;
}

enum omma_status ommai_loader_pack(struct ommai_weight_loader *loader, enum ommai_weight_role role, const char *name,
                                   const struct ommai_linear_source *sources, int n_sources, int64_t n_in,
                                   struct ommai_linear **out, struct omma_error *error) {
  struct ommai_stored_matrix matrix;
  struct ommai_linear_source expected = {.type = OMMA_F32, .stored = &matrix};
  bool is_stored = false;
  /* Without a checkpoint, only what the configuration says of the layer of that name is known. */
  if (loader->quantization && !loader->checkpoint && is_text_matrix(role) && role != OMMAI_ROLE_LM_HEAD) {
    OMMAI_TRY(ommai_quantization_expect(loader->quantization, name, n_in, &is_stored, &matrix, error));
  }
  for (int i = 0; i < n_sources; i++) expected.n_out += sources[i].n_out;
  const struct ommai_linear_spec spec =
      choose_spec(loader, role, is_stored ? &expected : sources, is_stored ? 1 : n_sources, n_in);
  loader->kept = loader->kept_by_role[role] = spec;
  loader->bytes += (int64_t)ommai_linear_bytes_for(loader->linear_context, &spec);
  loader->role_bytes[role] += ommai_linear_read_bytes(&spec);
  count_rows(loader, &spec);
  if (is_text_matrix(role)) count_prepared_row(loader, &spec);
  if (loader->mode != OMMAI_LOADER_PACK) return OMMA_OK;
  enum omma_status status = ommai_linear_create(loader->linear_context, &spec, sources, n_sources, loader->team, out, error);
  if (status != OMMA_OK) ommai_error_prefix(error, "%s", name);
  return status;
}

enum omma_status ommai_loader_count_scratch(struct ommai_weight_loader *loader, bool has_bias,
                                            const struct ommai_linear_call *call, bool in_parts, struct omma_error *error) {
  struct ommai_linear_spec described = loader->kept, *spec = &described;
  size_t bytes;
  described.has_bias = has_bias;
  /* As for the weights' bytes: what is too large is refused when it is packed. */
  if (spec->n_in > OMMAI_LINEAR_MAX_SIZE || spec->n_out > OMMAI_LINEAR_MAX_SIZE) return OMMA_OK;
  OMMAI_TRY(in_parts ? ommai_linear_parts_scratch_for(loader->linear_context, spec, call, &bytes, error)
                     : ommai_linear_scratch_for(loader->linear_context, spec, call, &bytes, error));
  if (bytes > loader->scratch_bytes) loader->scratch_bytes = bytes;
  return OMMA_OK;
}

static enum omma_status open_part(struct ommai_weight_loader *loader, const struct ommai_linear_part *part, int n_dims,
                                  const int64_t *inner_shape, struct ommai_loader_tensor tensors[2], struct omma_error *error) {
  char name[OMMAI_LOADER_MAX_NAME + 16];
  int64_t shape[OMMAI_TENSOR_MAX_DIMS] = {part->n_out};
  memcpy(shape + 1, inner_shape, (size_t)(n_dims - 1) * sizeof *shape);
  snprintf(name, sizeof name, "%s.weight", part->prefix);
  OMMAI_TRY(ommai_loader_open(loader, name, n_dims, shape, &tensors[0], error));
  tensors[1] = (struct ommai_loader_tensor){0};
  if (!part->has_bias) return OMMA_OK;
  snprintf(name, sizeof name, "%s.bias", part->prefix);
  OMMAI_TRY(ommai_loader_open(loader, name, 1, shape, &tensors[1], error));
  if (!tensors[1].tensor || tensors[1].tensor->type != OMMAI_TENSOR_QUANTISED) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "tensor %s: expected F32, BF16 or F16, found a quantised vector", name);
}

enum omma_status ommai_loader_linear(struct ommai_weight_loader *loader, enum ommai_weight_role role,
                                     const struct ommai_linear_part *parts, int n_parts, int n_dims, const int64_t *inner_shape,
                                     struct ommai_linear **out, struct omma_error *error) {
  struct ommai_linear_source sources[MAX_PARTS] = {{0}};
  struct ommai_loader_tensor tensors[MAX_PARTS][2];
  int64_t n_in = 1;
  for (int i = 0; i < n_dims - 1; i++) n_in *= inner_shape[i];
  for (int i = 0; i < n_parts; i++) {
    OMMAI_TRY(open_part(loader, &parts[i], n_dims, inner_shape, tensors[i], error));
    sources[i] = ommai_loader_matrix(&tensors[i][0], 0, parts[i].n_out, false);
    if (!tensors[i][1].tensor) continue;
    sources[i].bias = tensors[i][1].tensor->data;
    sources[i].bias_type = tensors[i][1].type;
  }
  OMMAI_TRY(ommai_loader_pack(loader, role, parts[0].prefix, sources, n_parts, n_in, out, error));
  for (int i = 0; i < n_parts; i++) {
    ommai_loader_close(loader, &tensors[i][0]);
    ommai_loader_close(loader, &tensors[i][1]);
  }
  return OMMA_OK;
}

const struct ommai_tensor *ommai_loader_find(const struct ommai_weight_loader *loader, const char *name) {
  return loader->checkpoint ? ommai_checkpoint_find(loader->checkpoint, name) : NULL;
}

enum omma_status ommai_loader_mapped(struct ommai_weight_loader *loader, const char *name, int n_dims, const int64_t *shape,
                                     const void **data, enum omma_dtype *type, const struct ommai_stored_matrix **stored,
                                     struct omma_error *error) {
  const struct ommai_tensor *tensor;
  OMMAI_TRY(require_tensor(loader, name, n_dims, shape, &tensor, error));
  if (!tensor) return OMMA_OK;
  OMMAI_TRY(dtype_of(tensor, type, error));
  *data = tensor->data;
  *stored = tensor->stored;
  return OMMA_OK;
}
