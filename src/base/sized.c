#include "base/sized.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"

static bool is_zero(const unsigned char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

enum omma_status ommai_take_struct(const void *given, const char *name, void *taken, size_t size, struct omma_error *error) {
  memset(taken, 0, size);
  if (!given) return OMMA_OK;
  size_t stated;
  memcpy(&stated, given, sizeof stated);
  size_t known = stated == 0 || stated > size ? size : stated;
  if (stated != 0 && stated < sizeof stated) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "struct_size", "struct_size: %s: expected sizeof, found %zu", name,
                            stated);
  }
  if (stated > size && !is_zero((const unsigned char *)given + size, stated - size)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "struct_size",
                            "struct_size: %s: a member after byte %zu is set, and this library is older and does not have it",
                            name, size);
  }
  memcpy(taken, given, known);
  return OMMA_OK;
}
