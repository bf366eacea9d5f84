#include "attention/layout_rows.h"

#include <omma/omma.h>
#include <omma/service.h>
#include <omma/tower.h>
#include <omma/vectors.h>

static const struct omma_layout_row omma_rows[] = {
#include "model/layout_omma.inc"
};

const struct omma_layout_row *omma_layout(size_t *n_rows) {
  *n_rows = sizeof omma_rows / sizeof *omma_rows;
  return omma_rows;
}
