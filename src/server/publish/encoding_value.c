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
  ommai_put_new(&header, NULL,
                json_pack("{s:{s:s,s:s},s:{s:s,s:[I],s:[i,I]}}", "__metadata__", "format", "omma-encoding-1", "blake2b", hex,
                          "values", "dtype", "F32", "shape", (json_int_t)n_values, "data_offsets", 0,
                          (json_int_t)(n_values * sizeof(float))));
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
