#include "engine/encode_lane.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/plural.h"

/* Images of other sequences join while a pass has fewer patches than this for each thread: more
 * would only delay the first ones. */
enum { BATCH_PATCHES = 256 };

void ommai_encode_lane_init(struct ommai_encode_lane *lane, struct ommai_resources *resources) {
  *lane = (struct ommai_encode_lane){.resources = resources};
}

void ommai_encode_lane_free(struct ommai_encode_lane *lane) {
  if (lane->resources) ommai_encode_lane_end(lane, false);
}

void ommai_encode_lane_add_call(struct ommai_encode_lane *lane, struct ommai_encode_call *call) {
  struct ommai_encode_call **end = &lane->calls;
  while (*end) end = &(*end)->next;
  *end = call;
}

struct ommai_encode_call *ommai_encode_lane_take_call(struct ommai_encode_lane *lane) {
  struct ommai_encode_call *call = lane->calls;
  if (!call) return NULL;
  if (lane->running_call == call) ommai_encode_lane_end(lane, false);
  lane->calls = call->next;
  return call;
}

/* ---- what is in a pass ---- */

static bool has_image(const struct ommai_encode_lane *lane, const struct ommai_encoded_image *encoded) {
  for (int64_t i = 0; i < lane->n_in_pass && !lane->running_call; i++) {
    if (lane->encoded[i] == encoded) return true;
  }
  return false;
}

static void add_image(struct ommai_encode_lane *lane, const struct ommai_prepared_image *image,
                      struct ommai_encoded_image *encoded) {
  int64_t at = lane->n_in_pass++;
  ommai_encoder_cache_share(&lane->resources->encoder_cache, encoded);
  lane->encoded[at] = encoded;
  lane->images[at] = ommai_prepared_image_share(image);
  lane->inputs[at] = (struct ommai_vision_input){.pixels = image->pixels,
                                                 .n_frames = image->n_frames,
                                                 .grid_rows = image->sizes.grid_thw[1],
                                                 .grid_columns = image->sizes.grid_thw[2],
                                                 .output = encoded->values};
  lane->n_patches += image->sizes.n_patches;
}

/* The sequence's images that are missing, as long as the pass stays within max_patches; the very
 * first always. */
static void add_images(struct ommai_encode_lane *lane, const struct ommai_sequence *sequence, int64_t max_patches) {
  const struct omma_request *request = sequence->request;
  for (size_t i = 0; i < request->n_images && lane->n_in_pass < OMMAI_MAX_PASS_IMAGES; i++) {
    struct ommai_encoded_image *encoded = sequence->encoded[i];
    if (!encoded || encoded->complete || has_image(lane, encoded)) continue;
    if (lane->n_in_pass > 0 && lane->n_patches + request->images[i].sizes.n_patches > max_patches) continue;
    add_image(lane, &request->images[i], encoded);
  }
}

/* As many of the call's inputs as the budget allows, at least one; how many. */
static enum omma_status choose_inputs(struct ommai_encode_lane *lane, const struct ommai_encode_call *call,
                                      struct omma_error *error) {
  const struct ommai_vision_config *config = &lane->resources->model->config.vision;
  struct ommai_vision_sizes sizes = {0};
  int64_t n = 0;
  for (; call->first + n < call->n_inputs; n++) {
    OMMAI_TRY(ommai_vision_sizes_add(config, &call->inputs[call->first + n], &sizes, error));
    if (n > 0 && (call->separate || sizes.n_patches > lane->resources->sizes.patch_budget)) break;
  }
  lane->n_in_pass = n;
  return OMMA_OK;
}

static enum omma_status start_run(struct ommai_encode_lane *lane, const struct ommai_vision_input *inputs,
                                  struct omma_error *error) {
  struct ommai_resources *resources = lane->resources;
  const struct omma_model *model = resources->model;
  struct ommai_vision_sizes sizes = {0};
  for (int64_t i = 0; i < lane->n_in_pass; i++) {
    OMMAI_TRY(ommai_vision_sizes_add(&model->config.vision, &inputs[i], &sizes, error));
  }
  lane->n_patches = sizes.n_patches;
  size_t size = ommai_vision_workspace_size(&model->network.tower, &sizes, model->network.n_threads);
  if (!size) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image", "image: %lld patches are too many", (long long)sizes.n_patches);
  }
  OMMAI_TRY(ommai_resources_grow_vision(resources, size, error));
  lane->n_passes++;
  OMMAI_DEBUG(&model->log, "encode: a pass of %lld image%s, %lld patches", (long long)lane->n_in_pass,
              ommai_plural(lane->n_in_pass), (long long)lane->n_patches);
  return ommai_vision_run_start(&model->network.tower, inputs, lane->n_in_pass, &model->config.image.patches,
                                resources->vision_workspace, resources->vision_workspace_size, resources->team_interface,
                                &lane->run, error);
}

static enum omma_status begin_call(struct ommai_encode_lane *lane, struct omma_error *error) {
  struct ommai_encode_call *call = lane->calls;
  lane->running_call = call;
  OMMAI_TRY(choose_inputs(lane, call, error));
  OMMAI_TRY(start_run(lane, call->inputs + call->first, error));
  ommai_vision_run_set_profiles(lane->run, call->profiles);
  return OMMA_OK;
}

enum omma_status ommai_encode_lane_begin(struct ommai_encode_lane *lane, struct ommai_sequence *const *sequences, int64_t n,
                                         struct omma_error *error) {
  const struct ommai_engine_sizes *sizes = &lane->resources->sizes;
  int64_t first = 0;
  while (first < n && sequences[first]->stage != OMMA_STAGE_ENCODE) first++;
  if (lane->calls && (first == n || lane->calls->id < sequences[first]->id)) return begin_call(lane, error);
  add_images(lane, sequences[first], sizes->patch_budget);
  int64_t batch_patches =
      ommai_min_i64(sizes->patch_budget, (int64_t)BATCH_PATCHES * lane->resources->model->network.n_threads);
  for (int64_t i = first + 1; i < n; i++) {
    if (sequences[i]->stage == OMMA_STAGE_ENCODE) add_images(lane, sequences[i], batch_patches);
  }
  return start_run(lane, lane->inputs, error);
}

/* ---- its course ---- */

enum omma_status ommai_encode_lane_advance(struct ommai_encode_lane *lane, int64_t ns, bool *done, struct omma_error *error) {
  int64_t start = ommai_clock_ns(), took = 0;
  do {
    OMMAI_TRY(ommai_vision_run_advance_for(lane->run, ns - took, error));
    took = ommai_clock_ns() - start;
  } while (!ommai_vision_run_done(lane->run) && took < ns - ns / 8);
  if (lane->running_call) {
    lane->running_call->n_slices++;
    lane->running_call->longest_slice_ns = ommai_max_i64(lane->running_call->longest_slice_ns, took);
  }
  *done = ommai_vision_run_done(lane->run);
  return OMMA_OK;
}

bool ommai_encode_lane_serves(const struct ommai_encode_lane *lane, const struct ommai_sequence *sequence) {
  for (size_t i = 0; i < sequence->request->n_images; i++) {
    if (sequence->encoded[i] && has_image(lane, sequence->encoded[i])) return true;
  }
  return false;
}

void ommai_encode_lane_end(struct ommai_encode_lane *lane, bool complete) {
  if (complete) {
    lane->n_images += lane->n_in_pass;
    lane->n_all_patches += lane->n_patches;
  }
  if (lane->running_call) {
    if (complete) lane->running_call->first += lane->n_in_pass;
  } else {
    for (int64_t i = 0; i < lane->n_in_pass; i++) {
      lane->encoded[i]->complete = lane->encoded[i]->complete || complete;
      if (complete) ommai_encoding_share_keep(&lane->resources->share, lane->encoded[i]);
      ommai_encoder_cache_give_back(&lane->resources->encoder_cache, lane->encoded[i]);
      ommai_prepared_image_free(&lane->images[i]);
    }
  }
  lane->run = NULL;
  lane->running_call = NULL;
  lane->n_in_pass = lane->n_patches = 0;
}

void ommai_encode_lane_forget(struct ommai_encode_lane *lane) {
  if (!lane->run || lane->running_call) return;
  for (int64_t i = 0; i < lane->n_in_pass; i++) {
    if (lane->encoded[i]->n_users > 1) return;
  }
  ommai_encode_lane_end(lane, false);
}

void ommai_encode_lane_progress(const struct ommai_encode_lane *lane, int64_t *done, int64_t *total) {
  const struct ommai_encode_call *call = lane->running_call;
  int64_t pass_done = 0, pass_total = 1;
  if (lane->run) ommai_vision_run_progress(lane->run, &pass_done, &pass_total);
  *done = 1000 * lane->n_in_pass * pass_done / pass_total + (call ? 1000 * call->first : 0);
  *total = 1000 * (call ? call->n_inputs : lane->n_in_pass);
}
