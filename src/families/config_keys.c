#include "families/config_keys.h"

#include <string.h>

#include "base/error.h"

enum omma_status ommai_config_expect_string(const json_t *object, const char *where, const char *key, const char *expected,
                                            struct omma_error *error) {
  const char *value = expected;
  OMMAI_TRY(ommai_json_string(object, where, key, false, &value, error));
  if (strcmp(value, expected) == 0) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, key, "%s: key \"%s\": expected \"%s\", found \"%.60s\"", where, key,
                          expected, value);
}

enum omma_status ommai_config_refuse_true(const json_t *object, const char *where, const char *key, struct omma_error *error) {
  bool value = false;
  OMMAI_TRY(ommai_json_boolean(object, where, key, false, &value, error));
  if (!value) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, key, "%s: key \"%s\": true is not supported", where, key);
}

enum omma_status ommai_config_number(const json_t *object, const char *where, const char *key, double low, double high,
                                     double *out, struct omma_error *error) {
  double value = low;
  const json_t *given = json_object_get(object, key);
  OMMAI_TRY(ommai_json_number(object, where, key, false, &value, error));
  if (!given || json_is_null(given)) return OMMA_OK;
  if (!(value >= low && value <= high)) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%s: key \"%s\": expected %g to %g, found %g", where, key, low, high,
                            value);
  }
  *out = value;
  return OMMA_OK;
}

enum omma_status ommai_config_positive(const json_t *object, const char *where, const char *key, double high, double *out,
                                       struct omma_error *error) {
  double value = *out;
  OMMAI_TRY(ommai_config_number(object, where, key, 0, high, &value, error));
  const json_t *given = json_object_get(object, key);
  if (given && !json_is_null(given) && value == 0) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%s: key \"%s\": expected more than 0", where, key);
  }
  *out = value;
  return OMMA_OK;
}

enum omma_status ommai_config_check_theta(const char *where, double theta, struct omma_error *error) {
  if (theta > 1 && theta <= 1e30) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, "rope_theta", "%s: key \"rope_theta\": expected more than 1%s, found %g",
                          where, theta > 1 ? " and at most 1e30" : "", theta);
}
