/* Images handed to the engine's thread by a caller that waits. */
#ifndef OMMAI_ENGINE_ENCODE_CALL_H
#define OMMAI_ENGINE_ENCODE_CALL_H

#include <omma/omma.h>

#include "vision/vision_run.h"

/* Lives in the caller's frame while it waits. */
struct ommai_encode_call {
  const struct ommai_vision_input *inputs;
  int64_t n_inputs;
  bool separate;                         /* one image a pass */
  struct ommai_vision_profile *profiles; /* [n_threads of the model], or NULL */
  omma_progress progress;
  void *progress_context;
  /* The lane's: */
  uint64_t id;
  struct ommai_encode_call *next;
  int64_t first; /* of the inputs that are not through yet */
  /* The engine's answer: */
  int64_t n_slices, longest_slice_ns;
  bool finished;
  enum omma_status status;
  struct omma_error error;
};

#endif
