#include "linear/weight_format.h"

#define FORMAT_DECLARATION(constant, table) extern const struct ommai_linear_format ommai_linear_format_##table;
OMMAI_WEIGHT_FORMAT_LIST(FORMAT_DECLARATION)

const struct ommai_linear_format *ommai_linear_format(enum ommai_weight_format format) {
#define FORMAT_ENTRY(constant, table) [OMMAI_FORMAT_##constant] = &ommai_linear_format_##table,
  static const struct ommai_linear_format *const formats[OMMAI_WEIGHT_FORMATS] = {OMMAI_WEIGHT_FORMAT_LIST(FORMAT_ENTRY)};
  return formats[format];
}

const struct ommai_format_method *ommai_format_method(int index, enum ommai_weight_format *format) {
  for (*format = 0; *format < OMMAI_WEIGHT_FORMATS; (*format)++) {
    for (const struct ommai_format_method *method = ommai_linear_format(*format)->methods; method->name; method++) {
      if (index-- == 0) return method;
    }
  }
  return NULL;
}
