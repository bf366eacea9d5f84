/* The inside of omma_image: decoded, or one that is known by its file's bytes. */
#pragma once

#include <omma/omma.h>

#include "image/image.h"
#include "model/prepared_image.h"

struct omma_image {
  int32_t width, height;
  struct ommai_image *decoded; /* NULL: known by its bytes */
  bool has_digest;             /* not of pixels that the caller gave */
  uint8_t digest[32];          /* of the file's bytes */
  /* Where it is not decoded: what it becomes for this model at this size. */
  struct ommai_prepared_image known;
  const struct omma_model *model;
};
