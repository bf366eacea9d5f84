/* Images handed to the engine's thread by a caller that waits. */
#pragma once

#include "runner/runner.h"

/* Lives in the caller's frame while it waits. */
struct ommai_encode_call {
  const struct ommai_prepared_image *images; /* [n_images] */
  struct ommai_image_rows *const *rows;      /* [n_images] */
  int64_t n_images;
  bool separate; /* one image a pass */
  omma_progress progress;
  void *progress_context;
  /* The lane's: */
  uint64_t id;
  struct ommai_encode_call *next;
  int64_t first; /* of the images that are not through yet */
  /* The engine's answer: */
  struct ommai_encode_times times;
  int64_t n_slices, longest_slice_ns;
  bool finished;
  enum omma_status status;
  struct omma_error error;
};
