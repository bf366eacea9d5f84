/* The bytes that stand for an output of the tower in a shared store: a safetensors file with one
 * tensor, "values", and a hash of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Bytes for n values. */
size_t ommai_encoding_value_size(size_t n_values);

/* Where the values' own bytes stand among them, in the machine's order, unaligned. */
void *ommai_encoding_value_data(void *bytes);

/* Writes all that is around the values, which are there already. */
void ommai_encoding_value_seal(void *bytes, size_t n_values);

/* Whether `bytes` are exactly what seal makes of n_values values; these are in values [n_values]
 * then. */
bool ommai_encoding_value_read(const void *bytes, size_t size, float *values, size_t n_values);
