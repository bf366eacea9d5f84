/* Elements of the operator's types, one at a time. */
#pragma once

#include <omma/attention.h>

#include "base/half.h"

static inline size_t ommai_attention_element_size(enum omma_dtype dtype) {
  return dtype == OMMA_F32 ? 4 : dtype == OMMA_INT8 ? 1 : 2;
}

/* The address of element `index` after `base`. */
static inline const void *ommai_attention_at(const void *base, int64_t index, enum omma_dtype dtype) {
  return (const unsigned char *)base + index * (int64_t)ommai_attention_element_size(dtype);
}
static inline void *ommai_attention_at_out(void *base, int64_t index, enum omma_dtype dtype) {
  return (unsigned char *)base + index * (int64_t)ommai_attention_element_size(dtype);
}

/* Reads or writes element `index`. Inputs of foreign callers may be aligned to less than their
 * type, hence the copies. INT8 is read as the integer, without its scale, and never written. */
static inline float ommai_attention_load(const void *base, int64_t index, enum omma_dtype dtype) {
  const void *at = ommai_attention_at(base, index, dtype);
  if (dtype == OMMA_F32) {
    float value;
    memcpy(&value, at, sizeof value);
    return value;
  }
  if (dtype == OMMA_INT8) return *(const int8_t *)at;
  uint16_t bits;
  memcpy(&bits, at, sizeof bits);
  return dtype == OMMA_BF16 ? ommai_bf16_to_f32(bits) : ommai_f16_to_f32(bits);
}

static inline void ommai_attention_store(void *base, int64_t index, enum omma_dtype dtype, float value) {
  void *at = ommai_attention_at_out(base, index, dtype);
  if (dtype == OMMA_F32) {
    memcpy(at, &value, sizeof value);
    return;
  }
  uint16_t bits = dtype == OMMA_BF16 ? ommai_bf16_from_f32(value) : ommai_f16_from_f32(value);
  memcpy(at, &bits, sizeof bits);
}
