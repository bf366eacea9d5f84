/* Pieces of text in UTF-8. */
#pragma once

#include <stddef.h>
#include <stdio.h>

struct ommai_plain {
  const char *data;
  size_t size;
};

/* Without the white space (of Unicode, as Python's strip has it) at both ends. */
struct ommai_plain ommai_plain_strip(const char *data, size_t size);

/* Writes it with &, <, > and quotes as entities. */
void ommai_plain_write_html(FILE *out, const char *data, size_t size);
