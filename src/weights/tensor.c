#include "weights/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/half.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are stored little-endian and read in place");

struct type_info {
  const char *name;
  int bits;
};

/* Source: the Dtype list of the safetensors crate, version 0.8. */
static const struct type_info type_infos[OMMAI_TENSOR_TYPE_COUNT] = {
    [OMMAI_TENSOR_F64] = {"F64", 64},
    [OMMAI_TENSOR_F32] = {"F32", 32},
    [OMMAI_TENSOR_F16] = {"F16", 16},
    [OMMAI_TENSOR_BF16] = {"BF16", 16},
    [OMMAI_TENSOR_I64] = {"I64", 64},
    [OMMAI_TENSOR_I32] = {"I32", 32},
    [OMMAI_TENSOR_I16] = {"I16", 16},
    [OMMAI_TENSOR_I8] = {"I8", 8},
    [OMMAI_TENSOR_U64] = {"U64", 64},
    [OMMAI_TENSOR_U32] = {"U32", 32},
    [OMMAI_TENSOR_U16] = {"U16", 16},
    [OMMAI_TENSOR_U8] = {"U8", 8},
    [OMMAI_TENSOR_BOOL] = {"BOOL", 8},
    [OMMAI_TENSOR_C64] = {"C64", 64},
    [OMMAI_TENSOR_F8_E4M3] = {"F8_E4M3", 8},
    [OMMAI_TENSOR_F8_E5M2] = {"F8_E5M2", 8},
    [OMMAI_TENSOR_F8_E8M0] = {"F8_E8M0", 8},
    [OMMAI_TENSOR_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8},
    [OMMAI_TENSOR_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8},
    [OMMAI_TENSOR_F6_E2M3] = {"F6_E2M3", 6},
    [OMMAI_TENSOR_F6_E3M2] = {"F6_E3M2", 6},
    [OMMAI_TENSOR_F4] = {"F4", 4},
};

static bool is_type(enum ommai_tensor_type type) { return (unsigned)type < OMMAI_TENSOR_TYPE_COUNT; }

const char *ommai_tensor_type_name(enum ommai_tensor_type type) {
  if (type == OMMAI_TENSOR_QUANTISED) return "quantised";
  return is_type(type) ? type_infos[type].name : "unknown type";
}

int ommai_tensor_type_bits(enum ommai_tensor_type type) { return is_type(type) ? type_infos[type].bits : 0; }

bool ommai_tensor_type_parse(const char *name, enum ommai_tensor_type *out) {
  for (int type = 0; type < OMMAI_TENSOR_TYPE_COUNT; type++) {
    if (strcmp(name, type_infos[type].name) == 0) {
      *out = (enum ommai_tensor_type)type;
      return true;
    }
  }
  return false;
}

bool ommai_tensor_size(enum ommai_tensor_type type, int n_dims, const int64_t *shape, int64_t *n_elements,
                       uint64_t *size_bytes) {
  if (!is_type(type) || n_dims < 0 || n_dims > OMMAI_TENSOR_MAX_DIMS) return false;
  int64_t elements = 1, bits;
  for (int i = 0; i < n_dims; i++) {
    if (shape[i] < 0 || !ommai_mul_i64(elements, shape[i], &elements)) return false;
  }
  if (!ommai_mul_i64(elements, type_infos[type].bits, &bits) || bits % 8 != 0) return false;
  *n_elements = elements;
  *size_bytes = (uint64_t)bits / 8;
  return true;
}

bool ommai_tensor_has_shape(const struct ommai_tensor *tensor, int n_dims, const int64_t *shape) {
  if (tensor->n_dims != n_dims) return false;
  for (int i = 0; i < n_dims; i++) {
    if (tensor->shape[i] != shape[i]) return false;
  }
  return true;
}

const char *ommai_shape_text(char out[OMMAI_SHAPE_TEXT_SIZE], int n_dims, const int64_t *shape) {
  size_t used = (size_t)snprintf(out, OMMAI_SHAPE_TEXT_SIZE, "[");
  for (int i = 0; i < n_dims; i++) {
    used += (size_t)snprintf(out + used, OMMAI_SHAPE_TEXT_SIZE - used, i ? ", %" PRId64 : "%" PRId64, shape[i]);
  }
  snprintf(out + used, OMMAI_SHAPE_TEXT_SIZE - used, "]");
  return out;
}

static uint16_t load_u16(const unsigned char *data, int64_t index) {
  uint16_t value;
  memcpy(&value, data + index * 2, sizeof value);
  return value;
}

/* The same of a QUANTISED tensor, output by output. */
static void stored_to_f32(const struct ommai_tensor *tensor, int64_t first, int64_t count, float *out) {
  int64_t n_in = tensor->shape[tensor->n_dims - 1];
  for (int64_t done = 0, n; done < count; done += n) {
    int64_t input = (first + done) % n_in;
    n = ommai_min_i64(count - done, n_in - input);
    tensor->stored->values(tensor->stored->context, (first + done) / n_in, input, n, out + done);
  }
}

bool ommai_tensor_to_f32(const struct ommai_tensor *tensor, int64_t first, int64_t count, float *out) {
  if (first < 0 || count < 0 || first > tensor->n_elements || count > tensor->n_elements - first) return false;
  const unsigned char *data = tensor->data;
  if (tensor->type == OMMAI_TENSOR_F32) {
    if (count) memcpy(out, data + first * 4, (size_t)count * 4);
  } else if (tensor->type == OMMAI_TENSOR_BF16) {
    for (int64_t i = 0; i < count; i++) out[i] = ommai_bf16_to_f32(load_u16(data, first + i));
  } else if (tensor->type == OMMAI_TENSOR_F16) {
    for (int64_t i = 0; i < count; i++) out[i] = ommai_f16_to_f32(load_u16(data, first + i));
  } else if (tensor->type == OMMAI_TENSOR_QUANTISED) {
    stored_to_f32(tensor, first, count, out);
  } else {
    return false;
  }
  return true;
}

/* A value is NaN or infinite exactly when all bits of its exponent (the mask) are set. */
static int64_t count_masked_16(const unsigned char *data, int64_t count, uint16_t mask) {
  int64_t found = 0;
  for (int64_t i = 0; i < count; i++) found += (load_u16(data, i) & mask) == mask;
  return found;
}

static int64_t count_masked_32(const unsigned char *data, int64_t count, uint32_t mask) {
  int64_t found = 0;
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, data + i * 4, sizeof bits);
    found += (bits & mask) == mask;
  }
  return found;
}

static int64_t count_masked_64(const unsigned char *data, int64_t count, uint64_t mask) {
  int64_t found = 0;
  for (int64_t i = 0; i < count; i++) {
    uint64_t bits;
    memcpy(&bits, data + i * 8, sizeof bits);
    found += (bits & mask) == mask;
  }
  return found;
}

static int64_t count_stored(const struct ommai_tensor *tensor) {
  enum { PIECE = 256 };
  float values[PIECE];
  int64_t found = 0;
  for (int64_t first = 0, n; first < tensor->n_elements; first += n) {
    n = ommai_min_i64(tensor->n_elements - first, PIECE);
    stored_to_f32(tensor, first, n, values);
    found += count_masked_32((const unsigned char *)values, n, 0x7f800000u);
  }
  return found;
}

int64_t ommai_tensor_count_nonfinite(const struct ommai_tensor *tensor) {
  switch (tensor->type) {
    case OMMAI_TENSOR_F64: return count_masked_64(tensor->data, tensor->n_elements, UINT64_C(0x7ff0000000000000));
    case OMMAI_TENSOR_F32: return count_masked_32(tensor->data, tensor->n_elements, 0x7f800000u);
    case OMMAI_TENSOR_F16: return count_masked_16(tensor->data, tensor->n_elements, 0x7c00u);
    case OMMAI_TENSOR_BF16: return count_masked_16(tensor->data, tensor->n_elements, 0x7f80u);
    case OMMAI_TENSOR_QUANTISED: return count_stored(tensor);
    default: return 0;
  }
}
