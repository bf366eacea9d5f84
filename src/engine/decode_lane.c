#include "engine/decode_lane.h"

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"

size_t ommai_decode_lane_bytes(const struct ommai_engine_sizes *sizes) {
  size_t n = (size_t)sizes->max_sequences;
  return (size_t)sizes->max_rows * sizeof(struct ommai_decode_row) +
         n * (sizeof(struct ommai_sampler_row) + sizeof(struct ommai_sequence *) + OMMAI_SEQUENCE_MAX_BANNED * sizeof(int32_t));
}

enum omma_status ommai_decode_lane_init(struct ommai_decode_lane *lane, struct ommai_resources *resources,
                                        struct omma_error *error) {
  const struct omma_allocator *allocator = &resources->model->allocator;
  size_t n = (size_t)resources->sizes.max_sequences;
  *lane = (struct ommai_decode_lane){.resources = resources};
  lane->rows = ommai_allocate(allocator, (size_t)resources->sizes.max_rows, sizeof *lane->rows);
  lane->sampler_rows = ommai_allocate(allocator, n, sizeof *lane->sampler_rows);
  lane->sequences = ommai_allocate(allocator, n, sizeof *lane->sequences);
  lane->banned = ommai_allocate(allocator, n * OMMAI_SEQUENCE_MAX_BANNED, sizeof *lane->banned);
  if (lane->rows && lane->sampler_rows && lane->sequences && lane->banned) return OMMA_OK;
  return ommai_fail_memory(error, "decode", ommai_decode_lane_bytes(&resources->sizes));
}

void ommai_decode_lane_free(struct ommai_decode_lane *lane) {
  if (!lane->resources) return;
  const struct omma_allocator *allocator = &lane->resources->model->allocator;
  size_t n = (size_t)lane->resources->sizes.max_sequences;
  ommai_release(allocator, lane->rows, (size_t)lane->resources->sizes.max_rows, sizeof *lane->rows);
  ommai_release(allocator, lane->sampler_rows, n, sizeof *lane->sampler_rows);
  ommai_release(allocator, lane->sequences, n, sizeof *lane->sequences);
  ommai_release(allocator, lane->banned, n * OMMAI_SEQUENCE_MAX_BANNED, sizeof *lane->banned);
}

/* Generated token `index` of the sequence as an input. */
static struct ommai_decode_row row_of(const struct ommai_sequence *sequence, int64_t index) {
  int32_t position = sequence->request->next_position + (int32_t)index;
  return (struct ommai_decode_row){.token = sequence->generated[index],
                                   .position = {position, position, position},
                                   .index = (int64_t)sequence->request->n_tokens + index,
                                   .pages = sequence->pages};
}

static enum omma_status run(struct ommai_decode_lane *lane, int64_t n_rows, float *logits, struct omma_error *error) {
  struct ommai_resources *resources = lane->resources;
  return ommai_decode_run(&resources->model->decoder, resources->kv, lane->rows, n_rows, resources->decode_workspace,
                          resources->sizes.decode_workspace, resources->team_interface, logits, error);
}

static void draw(struct ommai_decode_lane *lane, int64_t n) {
  int64_t vocab = lane->resources->model->config.text.vocab_size;
  for (int64_t i = 0; i < n; i++) {
    lane->sampler_rows[i] = ommai_sequence_sampler_row(lane->sequences[i], lane->resources->logits + i * vocab,
                                                       lane->banned + i * OMMAI_SEQUENCE_MAX_BANNED);
  }
  ommai_sampler_run(lane->resources->sampler, lane->sampler_rows, n, lane->resources->team_interface);
}

enum omma_status ommai_decode_lane_step(struct ommai_decode_lane *lane, int64_t n, struct omma_error *error) {
  for (int64_t i = 0; i < n; i++) lane->rows[i] = row_of(lane->sequences[i], lane->sequences[i]->n_generated - 1);
  OMMAI_TRY(run(lane, n, lane->resources->logits, error));
  for (int64_t i = 0; i < n; i++) lane->sequences[i]->n_decoded++;
  draw(lane, n);
  return OMMA_OK;
}

enum omma_status ommai_decode_lane_first(struct ommai_decode_lane *lane, struct ommai_sequence *sequence, const float *residual,
                                         struct omma_error *error) {
  struct ommai_resources *resources = lane->resources;
  OMMAI_TRY(ommai_decode_logits(&resources->model->decoder, residual, resources->decode_workspace,
                                resources->sizes.decode_workspace, resources->team_interface, resources->logits, error));
  lane->sequences[0] = sequence;
  draw(lane, 1);
  return OMMA_OK;
}

int64_t ommai_decode_lane_replay_count(const struct ommai_sequence *sequence) {
  return ommai_min_i64(OMMAI_REPLAY_ROWS, ommai_max_i64(sequence->n_generated - 1 - sequence->n_decoded, 0));
}

enum omma_status ommai_decode_lane_replay(struct ommai_decode_lane *lane, struct ommai_sequence *sequence,
                                          struct omma_error *error) {
  int64_t n = ommai_decode_lane_replay_count(sequence);
  for (int64_t i = 0; i < n; i++) lane->rows[i] = row_of(sequence, sequence->n_decoded + i);
  OMMAI_TRY(run(lane, n, NULL, error));
  sequence->n_decoded += n;
  return OMMA_OK;
}
