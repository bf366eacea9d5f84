/* Values of fields as pydantic reads them for vLLM: strings of numbers and of truth too. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* False where the value is none of the kind; *out is then as it was. */
bool ommai_value_boolean(const json_t *value, bool *out);
bool ommai_value_integer(const json_t *value, int64_t *out);
/* May be infinite or no number. */
bool ommai_value_number(const json_t *value, double *out);
