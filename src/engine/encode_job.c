#include "engine/encode_job.h"

#include "base/checked.h"
#include "base/error.h"

int64_t ommai_encode_output_size(const struct omma_model *model, int64_t n_tokens) {
  return (1 + model->config.vision.n_deepstack) * n_tokens * model->config.vision.out_hidden_size;
}

/* Takes as many of the waiting pictures as the budget allows, at least one. */
static enum omma_status begin_pass(struct ommai_encode_job *job, struct omma_error *error) {
  struct ommai_resources *resources = job->resources;
  const struct omma_model *model = resources->model;
  const struct ommai_vision_input *inputs = &job->inputs[job->first];
  struct ommai_vision_sizes sizes = {0}, longer = {0};
  int64_t n = 0;
  for (; job->first + n < job->n_inputs; n++, sizes = longer) {
    OMMAI_TRY(ommai_vision_sizes_add(&model->config.vision, &inputs[n], &longer, error));
    if (n > 0 && (job->separate || longer.n_patches > resources->sizes.patch_budget)) break;
  }
  size_t size = ommai_vision_workspace_size(&model->tower, &sizes, model->n_threads);
  if (!size) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image", "image: %lld patches are too many", (long long)sizes.n_patches);
  }
  OMMAI_TRY(ommai_resources_grow_vision(resources, size, error));
  job->n_in_pass = n;
  job->n_passes++;
  OMMAI_TRY(ommai_vision_run_start(&model->tower, inputs, n, &model->config.picture.patches, resources->vision_workspace,
                                   resources->vision_workspace_size, resources->team_interface, &job->run, error));
  ommai_vision_run_set_clocks(job->run, job->clocks);
  return OMMA_OK;
}

/* Aims at four fifths of the time that a slice may take: rounds of tasks are not all equally long. */
static enum omma_status run_slice(struct ommai_encode_job *job, struct omma_error *error) {
  int64_t start = ommai_clock_ns();
  OMMAI_TRY(ommai_vision_run_advance_for(job->run, job->resources->sizes.slice_ms * 800000, error));
  job->longest_slice_ns = ommai_max_i64(job->longest_slice_ns, ommai_clock_ns() - start);
  job->n_slices++;
  return OMMA_OK;
}

enum omma_status ommai_encode_step(struct ommai_encode_job *job, bool *done, struct omma_error *error) {
  *done = job->first == job->n_inputs;
  if (*done) return OMMA_OK;
  if (!job->run) return begin_pass(job, error);
  OMMAI_TRY(run_slice(job, error));
  if (!ommai_vision_run_done(job->run)) return OMMA_OK;
  job->run = NULL;
  job->first += job->n_in_pass;
  *done = job->first == job->n_inputs;
  return OMMA_OK;
}

void ommai_encode_progress(const struct ommai_encode_job *job, int64_t *done, int64_t *total) {
  int64_t pass_done = 0, pass_total = 1;
  if (job->run) ommai_vision_run_progress(job->run, &pass_done, &pass_total);
  *total = job->n_inputs * 1000;
  *done = job->first * 1000 + (job->run ? job->n_in_pass * 1000 * pass_done / pass_total : 0);
}
