#include "engine/encode_lane.h"

#include "base/checked.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/plural.h"

/* Where somebody waits for a first token, images of other sequences join while a pass has fewer
 * patches than this for each thread, and those of sequences without a slot in any case: more would
 * only delay the first ones. */
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
  lane->rows[at] = encoded->rows;
  lane->images[at] = ommai_prepared_image_share(image);
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

/* As many of the call's images as the budget allows, at least one. */
static void choose_images(struct ommai_encode_lane *lane, const struct ommai_encode_call *call) {
  int64_t max_images = call->separate ? 1 : ommai_min_i64(call->n_images - call->first, OMMAI_MAX_PASS_IMAGES);
  for (; lane->n_in_pass < max_images; lane->n_in_pass++) {
    int64_t n_patches = call->images[call->first + lane->n_in_pass].sizes.n_patches;
    if (lane->n_in_pass > 0 && lane->n_patches + n_patches > lane->resources->sizes.limits.patch_budget) break;
    lane->n_patches += n_patches;
  }
}

static enum omma_status start(struct ommai_encode_lane *lane, const struct ommai_prepared_image *images,
                              struct ommai_image_rows *const *rows, struct ommai_encode_times *times,
                              struct omma_error *error) {
  struct ommai_runner *runner = lane->resources->runner;
  OMMAI_TRY(runner->functions->encode_begin(runner, images, rows, lane->n_in_pass, times, error));
  lane->running = true;
  lane->resources->stats.encoder_passes++;
  OMMAI_DEBUG(&lane->resources->model->log, "encode: a pass of %lld image%s, %lld patches", (long long)lane->n_in_pass,
              ommai_plural(lane->n_in_pass), (long long)lane->n_patches);
  return OMMA_OK;
}

static enum omma_status begin_call(struct ommai_encode_lane *lane, struct omma_error *error) {
  struct ommai_encode_call *call = lane->calls;
  lane->running_call = call;
  choose_images(lane, call);
  return start(lane, call->images + call->first, call->rows + call->first, &call->times, error);
}

enum omma_status ommai_encode_lane_begin(struct ommai_encode_lane *lane, struct ommai_sequence *const *sequences, int64_t n,
                                         bool hurry, struct omma_error *error) {
  const struct ommai_engine_sizes *sizes = &lane->resources->sizes;
  int64_t few = ommai_min_i64(sizes->limits.patch_budget, (int64_t)BATCH_PATCHES * sizes->facts.n_workers), first = 0;
  while (first < n && sequences[first]->stage != OMMA_STAGE_ENCODE) first++;
  if (lane->calls && (first == n || lane->calls->id < sequences[first]->id)) return begin_call(lane, error);
  add_images(lane, sequences[first], sizes->limits.patch_budget);
  for (int64_t i = first + 1; i < n; i++) {
    if (sequences[i]->stage != OMMA_STAGE_ENCODE) continue;
    add_images(lane, sequences[i], hurry || sequences[i]->ahead ? few : sizes->limits.patch_budget);
  }
  return start(lane, lane->images, lane->rows, NULL, error);
}

/* ---- its course ---- */

enum omma_status ommai_encode_lane_advance(struct ommai_encode_lane *lane, int64_t ns, bool *done, struct omma_error *error) {
  struct ommai_runner *runner = lane->resources->runner;
  int64_t start = ommai_resources_now(lane->resources);
  OMMAI_TRY(runner->functions->encode_advance(runner, ns, done, error));
  if (lane->running_call) {
    lane->running_call->n_slices++;
    lane->running_call->longest_slice_ns =
        ommai_max_i64(lane->running_call->longest_slice_ns, ommai_resources_now(lane->resources) - start);
  }
  return OMMA_OK;
}

bool ommai_encode_lane_serves(const struct ommai_encode_lane *lane, const struct ommai_sequence *sequence) {
  for (size_t i = 0; i < sequence->request->n_images; i++) {
    if (sequence->encoded[i] && has_image(lane, sequence->encoded[i])) return true;
  }
  return false;
}

void ommai_encode_lane_end(struct ommai_encode_lane *lane, bool complete) {
  if (lane->running) lane->resources->runner->functions->encode_end(lane->resources->runner);
  if (complete) {
    lane->resources->stats.images += lane->n_in_pass;
    lane->resources->stats.patches += lane->n_patches;
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
  lane->running = false;
  lane->running_call = NULL;
  lane->n_in_pass = lane->n_patches = 0;
}

void ommai_encode_lane_forget(struct ommai_encode_lane *lane) {
  if (!lane->running || lane->running_call) return;
  for (int64_t i = 0; i < lane->n_in_pass; i++) {
    if (lane->encoded[i]->n_users > 1) return;
  }
  ommai_encode_lane_end(lane, false);
}

void ommai_encode_lane_progress(const struct ommai_encode_lane *lane, int64_t *done, int64_t *total) {
  const struct ommai_encode_call *call = lane->running_call;
  int64_t pass_done = 0, pass_total = 1;
  const struct ommai_runner *runner = lane->resources->runner;
  if (lane->running) runner->functions->encode_progress(runner, &pass_done, &pass_total);
  *done = 1000 * lane->n_in_pass * pass_done / pass_total + (call ? 1000 * call->first : 0);
  *total = 1000 * (call ? call->n_images : lane->n_in_pass);
}
