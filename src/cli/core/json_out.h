/* Results as JSON on stdout: one object, one line. base/json_writer.h writes them. */
#pragma once

#include <omma/omma.h>

#include "base/json_writer.h"

/* The beginning of an object. */
struct ommai_text ommai_json_begin(void);

/* Ends it, prints it and a line feed, to a terminal in ASCII, and frees the text. Returns an exit
 * code. */
int ommai_json_end(struct ommai_text *out);

/* The same for an object of jansson's; drops the reference. NULL: memory was out. */
int ommai_json_print(json_t *value);

/* Numbers with twelve significant digits, and a point or an exponent, as jansson writes them; null
 * where they are not finite. */
void ommai_put_real(struct ommai_text *out, const char *key, double value);
struct ommai_named_real {
  const char *key;
  double value;
};
#define OMMAI_PUT_REALS(out, ...) OMMAI_PUT_NAMED(real, out, __VA_ARGS__)
void ommai_put_reals(struct ommai_text *out, const char *key, const double *values, size_t n);

/* `grid_thw`. */
void ommai_put_grid(struct ommai_text *out, const int64_t grid[3]);

/* An object whose end is missing, so that members may follow. */
void ommai_put_model(struct ommai_text *out, const struct omma_model_info *model);

/* `memory`. */
void ommai_put_memory_estimate(struct ommai_text *out, const struct omma_memory_estimate *estimate);
