#include "server/api/vector_requests.h"

#include <sodium.h>

#include "base/half.h"
#include "base/json_writer.h"

void ommai_vector_add_floats(struct ommai_text *out, const char *key, const float *values, int64_t n) {
  ommai_put_begin(out, key, "[");
  for (int64_t i = 0; i < n; i++) ommai_put_number(out, NULL, values[i], 9);
  ommai_put_end(out, "]");
}

static void add_bytes(struct ommai_text *out, uint32_t bits, size_t size, bool big_endian) {
  char bytes[4];
  for (size_t i = 0; i < size; i++) bytes[big_endian ? size - 1 - i : i] = (char)(bits >> (8 * i));
  ommai_text_append(out, bytes, size);
}

void ommai_vector_add_binary(struct ommai_text *out, const struct ommai_vector_fields *fields, const float *values, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    if (fields->type == OMMAI_VECTOR_F16) bits = ommai_f16_from_f32(values[i]);
    if (fields->type == OMMAI_VECTOR_BF16) bits = ommai_bf16_from_f32(values[i]);
    add_bytes(out, bits, fields->type == OMMAI_VECTOR_F32 ? 4 : 2, fields->big_endian);
  }
}

void ommai_vector_add_base64(struct ommai_text *out, const char *key, const struct ommai_vector_fields *fields,
                             const float *values, int64_t n) {
  struct ommai_text bytes = ommai_text_of(out->allocator);
  ommai_vector_add_binary(&bytes, fields, values, n);
  size_t room = sodium_base64_encoded_len(bytes.size, sodium_base64_VARIANT_ORIGINAL);
  ommai_put_raw(out, key, "\"", 1);
  if (!bytes.failed && ommai_text_reserve(out, room)) {
    sodium_bin2base64(out->data + out->size, room, (const unsigned char *)bytes.data, bytes.size,
                      sodium_base64_VARIANT_ORIGINAL);
    out->size += room - 1; /* without its NUL */
  }
  ommai_text_add(out, "\"");
  out->failed |= bytes.failed;
  ommai_text_free(&bytes);
}
