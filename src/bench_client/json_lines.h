/* JSONL files: one JSON object per line. */
#pragma once

#include <jansson.h>
#include <omma/status.h>

/* Appends the objects of a file to `rows`, an array; empty lines are skipped. Errors: IO, FORMAT
 * (with the line), MEMORY. */
enum omma_status ommai_json_lines_load(const char *path, json_t *rows, struct omma_error *error);
