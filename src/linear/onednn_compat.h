/* The few calls in which oneDNN 2 and 3 differ, under one name each. For onednn.c only. */
#pragma once

#include <oneapi/dnnl/dnnl.h>

#if DNNL_VERSION_MAJOR >= 3

typedef const_dnnl_memory_desc_t desc_ref;
#define DESC(desc) (desc)

static inline dnnl_status_t desc_tagged(dnnl_memory_desc_t *desc, const dnnl_dims_t dims, dnnl_data_type_t type,
                                        dnnl_format_tag_t tag) {
  return dnnl_memory_desc_create_with_tag(desc, 2, dims, type, tag);
}

static inline void desc_release(dnnl_memory_desc_t *desc) {
  if (*desc) dnnl_memory_desc_destroy(*desc);
}

static inline dnnl_status_t append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha) {
  return dnnl_post_ops_append_eltwise(ops, kind, alpha, 0.0f);
}

static inline dnnl_status_t append_sum(dnnl_post_ops_t ops) {
  return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

static inline dnnl_status_t matmul_describe(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const dnnl_memory_desc_t *x,
                                            const dnnl_memory_desc_t *weights, const dnnl_memory_desc_t *bias,
                                            const dnnl_memory_desc_t *y, const_dnnl_primitive_attr_t attributes) {
  return dnnl_matmul_primitive_desc_create(out, engine, *x, *weights, bias ? *bias : NULL, *y, attributes);
}

#else

typedef const dnnl_memory_desc_t *desc_ref;
#define DESC(desc) (&(desc))

static inline dnnl_status_t desc_tagged(dnnl_memory_desc_t *desc, const dnnl_dims_t dims, dnnl_data_type_t type,
                                        dnnl_format_tag_t tag) {
  return dnnl_memory_desc_init_by_tag(desc, 2, dims, type, tag);
}

static inline void desc_release(dnnl_memory_desc_t *desc) { (void)desc; }

static inline dnnl_status_t append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha) {
  return dnnl_post_ops_append_eltwise(ops, 1.0f, kind, alpha, 0.0f);
}

static inline dnnl_status_t append_sum(dnnl_post_ops_t ops) { return dnnl_post_ops_append_sum(ops, 1.0f); }

static inline dnnl_status_t matmul_describe(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const dnnl_memory_desc_t *x,
                                            const dnnl_memory_desc_t *weights, const dnnl_memory_desc_t *bias,
                                            const dnnl_memory_desc_t *y, const_dnnl_primitive_attr_t attributes) {
  dnnl_matmul_desc_t operation;
  dnnl_status_t status = dnnl_matmul_desc_init(&operation, x, weights, bias, y);
  return status == dnnl_success ? dnnl_primitive_desc_create(out, &operation, attributes, engine, NULL) : status;
}

#endif
