/* Pictures through the tower, in packed passes within the patch budget; resumable. */
#ifndef OMMAI_ENGINE_ENCODE_JOB_H
#define OMMAI_ENGINE_ENCODE_JOB_H

#include "engine/picture.h"
#include "engine/resources.h"
#include "vision/vision_run.h"

struct ommai_encode_job {
  struct ommai_resources *resources;
  const struct ommai_vision_input *inputs; /* [n_inputs], in order; must outlive the job */
  int64_t n_inputs;
  bool separate;                     /* one picture a pass */
  struct ommai_vision_clock *clocks; /* [n_threads of the model], or NULL */
  int64_t first, n_in_pass, n_passes;
  int64_t n_slices, longest_slice_ns; /* so far */
  struct ommai_vision_run *run;       /* of the pass in progress; NULL between passes */
};

/* Elements of a picture's output: [1 + n_deepstack, n_tokens, out_hidden_size]. */
int64_t ommai_encode_output_size(const struct omma_model *model, int64_t n_tokens);

/* One step: begins a pass or advances it by a slice. *done when all pictures are through. Errors: MEMORY. */
enum omma_status ommai_encode_step(struct ommai_encode_job *job, bool *done, struct omma_error *error);

/* Pictures and parts of pictures done and in all, in thousandths of a pass; for progress. */
void ommai_encode_progress(const struct ommai_encode_job *job, int64_t *done, int64_t *total);

#endif
