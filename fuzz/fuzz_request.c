/* The JSON of a request's body, and of files: parsed within the limits or refused in words. */
#include <string.h>

#include "base/json.h"
#include "fuzz_input.h"
#include "server/core/request_json.h"

static void read_fields(const json_t *root) {
  struct ommai_api_error error;
  int64_t whole = 0;
  double number = 0.0;
  bool boolean = false;
  const char *string = NULL;
  (void)ommai_field_integer(root, "max_tokens", 0, INT32_MAX, &whole, &error);
  (void)ommai_field_number(root, "temperature", 0.0, 2.0, false, &number, &error);
  (void)ommai_field_boolean(root, "stream", &boolean, &error);
  (void)ommai_field_string(root, "model", &string, &error);
  FUZZ_CHECK(whole >= 0 && whole <= INT32_MAX && number >= 0.0 && number <= 2.0);
  FUZZ_CHECK(ommai_json_kind(root)[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  struct ommai_api_error refusal = {.status = 0};
  json_t *root = ommai_request_parse((const char *)bytes, size, &refusal);
  if (root) {
    read_fields(root);
    json_decref(root);
  } else {
    FUZZ_CHECK(refusal.status >= 400 && refusal.message[0] && memchr(refusal.message, 0, sizeof refusal.message));
  }
  struct omma_error error = {.status = OMMA_OK};
  if (ommai_json_load("body", (const char *)bytes, size, &root, &error) == OMMA_OK) {
    json_decref(root);
  } else {
    FUZZ_CHECK(error.status != OMMA_OK && error.message[0]);
  }
  return 0;
}
