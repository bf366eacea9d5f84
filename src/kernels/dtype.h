/* Sizes and addresses of elements whose type is known at run time. */
#pragma once

#include <omma/attention.h>
#include <stddef.h>
#include <stdint.h>

static inline size_t ommai_dtype_size(enum omma_dtype type) { return type == OMMA_F32 ? 4 : type == OMMA_INT8 ? 1 : 2; }

static inline const char *ommai_dtype_name(enum omma_dtype type) {
  static const char *const names[] = {[OMMA_F32] = "f32", [OMMA_BF16] = "bf16", [OMMA_F16] = "f16", [OMMA_INT8] = "int8"};
  return names[type];
}

/* The address of element `index`. */
static inline void *ommai_element(void *base, int64_t index, enum omma_dtype type) {
  return (unsigned char *)base + (size_t)index * ommai_dtype_size(type);
}
