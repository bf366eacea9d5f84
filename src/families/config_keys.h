/* Checks of config.json's keys that the families share; `where` as in base/json.h. */
#pragma once

#include "base/json.h"

/* A string that must be `expected` where it is given. Errors: FORMAT, UNSUPPORTED. */
enum omma_status ommai_config_expect_string(const json_t *object, const char *where, const char *key, const char *expected,
                                            struct omma_error *error);

/* A switch that may be missing or false only. Errors: FORMAT, UNSUPPORTED. */
enum omma_status ommai_config_refuse_true(const json_t *object, const char *where, const char *key, struct omma_error *error);

/* A number from `low` to `high`, or above 0 up to `high`; a missing key leaves *out. Errors:
 * FORMAT. */
enum omma_status ommai_config_number(const json_t *object, const char *where, const char *key, double low, double high,
                                     double *out, struct omma_error *error);
enum omma_status ommai_config_positive(const json_t *object, const char *where, const char *key, double high, double *out,
                                       struct omma_error *error);

/* rope_theta must be more than 1, and at most what f32 powers of it allow. Errors: FORMAT. */
enum omma_status ommai_config_check_theta(const char *where, double theta, struct omma_error *error);
