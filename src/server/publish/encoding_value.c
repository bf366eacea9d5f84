#include "server/publish/encoding_value.h"

#include <sodium.h>
#include <stdint.h>
#include <string.h>

#include "base/json_writer.h"

/* The length, then this much JSON, filled up with blanks as the format allows. */
#define HEADER_BYTES 256
#define LENGTH_BYTES 8
#define HASH_BYTES 32

static const void *data_of(const void *bytes) { return (const uint8_t *)bytes + LENGTH_BYTES + HEADER_BYTES; }

void *ommai_encoding_value_data(void *bytes) { return (uint8_t *)bytes + LENGTH_BYTES + HEADER_BYTES; }

/* Length and header, as they must be. */
static void write_head(const void *data, size_t n_values, uint8_t out[LENGTH_BYTES + HEADER_BYTES]) {
  uint8_t hash[HASH_BYTES];
  char hex[2 * HASH_BYTES + 1];
  crypto_generichash(hash, sizeof hash, data, n_values * sizeof(float), NULL, 0);
  sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
  memset(out, ' ', LENGTH_BYTES + HEADER_BYTES);
  for (int i = 0; i < LENGTH_BYTES; i++) out[i] = (uint8_t)((uint64_t)HEADER_BYTES >> (8 * i));
  struct ommai_text header;
  ommai_text_lend(&header, out + LENGTH_BYTES, HEADER_BYTES);
  ommai_put_begin(&header, NULL, "{");
  ommai_put_begin(&header, "__metadata__", "{");
  OMMAI_PUT_STRINGS(&header, {"format", "omma-encoding-1"}, {"blake2b", hex});
  ommai_put_end(&header, "}");
  ommai_put_begin(&header, "values", "{");
  ommai_put_string(&header, "dtype", "F32");
  ommai_put_begin(&header, "shape", "[");
  ommai_put_integer(&header, NULL, (int64_t)n_values);
  ommai_put_end(&header, "]");
  ommai_put_begin(&header, "data_offsets", "[");
  ommai_put_integer(&header, NULL, 0);
  ommai_put_integer(&header, NULL, (int64_t)(n_values * sizeof(float)));
  ommai_put_end(&header, "]}}");
}

size_t ommai_encoding_value_size(size_t n_values) { return LENGTH_BYTES + HEADER_BYTES + n_values * sizeof(float); }

void ommai_encoding_value_seal(void *bytes, size_t n_values) { write_head(data_of(bytes), n_values, bytes); }

bool ommai_encoding_value_read(const void *bytes, size_t size, float *values, size_t n_values) {
  uint8_t head[LENGTH_BYTES + HEADER_BYTES];
  if (size != ommai_encoding_value_size(n_values)) return false;
  write_head(data_of(bytes), n_values, head);
  if (memcmp(bytes, head, sizeof head) != 0) return false;
  memcpy(values, data_of(bytes), n_values * sizeof *values);
  return true;
}
