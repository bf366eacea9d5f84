/* Runs a request's tower and decoder stage by stage, in one pass each, with observers: for tests
 * and for tools/verify_release.py. Trouble fails the test. */
#pragma once

#include "language/prefill.h"
#include "model/model.h"
#include "request/request.h"
#include "vision/vision_run.h"

/* `inputs` [request->n_images] are set: pixels are pixels[i], or the request's own where `pixels`
 * is NULL. Outputs are as the engine lays them out, image after image; the caller frees them. */
float *stage_run_tower(const struct omma_model *model, const struct omma_request *request, const uint8_t *const *pixels,
                       const struct omma_team *team, ommai_stage_observer observer, void *context,
                       struct ommai_vision_input *inputs);

/* Slot 0: the tower's output; 1 + j: deepstack output j, of all images one after the other
 * [*n_rows, width]. The caller frees. */
float *stage_run_slot(const struct omma_model *model, const struct omma_request *request,
                      const struct ommai_vision_input *inputs, int64_t slot, int64_t *n_rows);

/* `logits` [vocab_size] are those after the last prompt token. */
void stage_run_decoder(const struct omma_model *model, const struct omma_request *request,
                       const struct ommai_vision_input *inputs, const struct omma_team *team, ommai_layer_observer observer,
                       void *context, float *logits);
