#include "attention/layout_rows.h"

#include <omma/attention.h>
#include <omma/team.h>

static const struct omma_layout_row attention_rows[] = {
#include "attention/layout_attention.inc"
};

const struct omma_layout_row *omma_attention_layout(size_t *n_rows) {
  *n_rows = sizeof attention_rows / sizeof *attention_rows;
  return attention_rows;
}
