/* Results as JSON on stdout: one object, one line. */
#pragma once

#include <jansson.h>
#include <omma/omma.h>

/* Prints `value` and a line feed, to a terminal in ASCII, and drops the reference. NULL (an object
 * that could not be built) is reported as out of memory. Returns an exit code. */
int ommai_json_print(json_t *value);

/* A string of any bytes: where they are not UTF-8, every byte beyond ASCII becomes a question
 * mark. */
json_t *ommai_json_text(const char *text);

/* Appends `value` and takes its reference. When either is NULL or memory is out, the array becomes
 * NULL, which ommai_json_print reports in the end. */
void ommai_json_append(json_t **array, json_t *value);

/* `object` with the members of `more`; takes both references. NULL when either is or memory is
 * out. */
json_t *ommai_json_merge(json_t *object, json_t *more);

/* n numbers; NULL when memory is out. */
json_t *ommai_json_numbers(const double *numbers, size_t n);

json_t *ommai_json_model(const struct omma_model_info *model);
json_t *ommai_json_memory_estimate(const struct omma_memory_estimate *estimate);
