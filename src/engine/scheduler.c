#include "engine/scheduler.h"

#include <string.h>

#include "base/allocator.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/plural.h"

size_t ommai_scheduler_bytes(const struct ommai_engine_sizes *sizes) {
  return (size_t)ommai_engine_max_live(sizes) *
             (sizeof(struct ommai_sequence) + sizeof(bool) + sizeof(struct ommai_sequence *)) +
         (size_t)sizes->limits.max_sequences * sizeof(bool) + ommai_decode_lane_bytes(sizes);
}

enum omma_status ommai_scheduler_init(struct ommai_scheduler *scheduler, struct ommai_resources *resources,
                                      const struct ommai_scheduler_events *events, struct omma_error *error) {
  const struct omma_allocator *allocator = &resources->model->allocator;
  size_t n = (size_t)ommai_engine_max_live(&resources->sizes), n_slots = (size_t)resources->sizes.limits.max_sequences;
  *scheduler = (struct ommai_scheduler){.resources = resources, .events = *events, .prefill = {.resources = resources}};
  scheduler->load.slice_ns = resources->sizes.slice_ms * 1000000;
  scheduler->load.percent = resources->sizes.slice_percent;
  ommai_encode_lane_init(&scheduler->encode, resources);
  scheduler->sequences = ommai_allocate(allocator, n, sizeof *scheduler->sequences);
  scheduler->used = ommai_allocate(allocator, n, sizeof *scheduler->used);
  scheduler->slot_used = ommai_allocate(allocator, n_slots, sizeof *scheduler->slot_used);
  scheduler->live = ommai_allocate(allocator, n, sizeof *scheduler->live);
  if (!scheduler->sequences || !scheduler->used || !scheduler->slot_used || !scheduler->live) {
    return ommai_fail_memory(error, "scheduler", ommai_scheduler_bytes(&resources->sizes));
  }
  return ommai_decode_lane_init(&scheduler->decode, resources, error);
}

void ommai_scheduler_free(struct ommai_scheduler *scheduler) {
  if (!scheduler->resources) return;
  const struct omma_allocator *allocator = &scheduler->resources->model->allocator;
  const struct ommai_engine_sizes *sizes = &scheduler->resources->sizes;
  size_t n = (size_t)ommai_engine_max_live(sizes), n_slots = (size_t)sizes->limits.max_sequences;
  ommai_encode_lane_free(&scheduler->encode);
  ommai_decode_lane_free(&scheduler->decode);
  ommai_release(allocator, scheduler->sequences, n, sizeof *scheduler->sequences);
  ommai_release(allocator, scheduler->used, n, sizeof *scheduler->used);
  ommai_release(allocator, scheduler->slot_used, n_slots, sizeof *scheduler->slot_used);
  ommai_release(allocator, scheduler->live, n, sizeof *scheduler->live);
  *scheduler = (struct ommai_scheduler){0};
}

/* ---- the end of a sequence ---- */

static void remove_live(struct ommai_scheduler *scheduler, const struct ommai_sequence *sequence) {
  int64_t i = 0;
  while (scheduler->live[i] != sequence) i++;
  scheduler->n_live--;
  memmove(&scheduler->live[i], &scheduler->live[i + 1], (size_t)(scheduler->n_live - i) * sizeof *scheduler->live);
  scheduler->used[sequence - scheduler->sequences] = false;
  if (sequence->slot >= 0) scheduler->slot_used[sequence->slot] = false;
}

static const struct omma_log *log_of(const struct ommai_scheduler *scheduler) { return &scheduler->resources->model->log; }

void ommai_scheduler_finish(struct ommai_scheduler *scheduler, struct ommai_sequence *sequence) {
  ommai_sequence_book_time(sequence);
  ommai_sequence_log_end(sequence);
  struct omma_result result = sequence->result;
  const struct omma_callbacks callbacks = sequence->callbacks;
  uint64_t id = sequence->id;
  ommai_mask_worker_recall(&scheduler->decode.mask_worker, sequence->matcher.grammar);
  ommai_prefill_lane_forget(&scheduler->prefill, sequence);
  ommai_sequence_free(sequence);
  remove_live(scheduler, sequence);
  ommai_encode_lane_forget(&scheduler->encode);
  scheduler->events.finish(scheduler->events.context, id, &callbacks, &result);
}

void ommai_scheduler_fail(struct ommai_scheduler *scheduler, struct ommai_sequence *sequence, const struct omma_error *error) {
  sequence->result.finish = OMMA_FINISH_ERROR;
  sequence->result.error = *error;
  ommai_scheduler_finish(scheduler, sequence);
}

void ommai_scheduler_cancel(struct ommai_scheduler *scheduler, uint64_t id) {
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    if (scheduler->live[i]->id != id) continue;
    scheduler->live[i]->result.finish = OMMA_FINISH_CANCELLED;
    ommai_scheduler_finish(scheduler, scheduler->live[i]);
    return;
  }
}

void ommai_scheduler_cancel_all(struct ommai_scheduler *scheduler) {
  struct ommai_encode_call *call;
  struct omma_error error;
  while (scheduler->n_live) ommai_scheduler_cancel(scheduler, scheduler->live[0]->id);
  ommai_fail(&error, OMMA_ERROR_CANCELLED, "encode: the engine is going down");
  while ((call = ommai_encode_lane_take_call(&scheduler->encode))) {
    scheduler->events.finish_encode(scheduler->events.context, call, OMMA_ERROR_CANCELLED, &error);
  }
}

/* ---- admission ---- */

/* Whether a sequence of this place in the order goes before another. */
static bool goes_before(int64_t priority, uint64_t id, const struct ommai_sequence *other) {
  return priority < other->priority || (priority == other->priority && id < other->id);
}

/* Whether it has pages, or takes them as its prompt goes on. */
static bool has_entered(const struct ommai_sequence *sequence) {
  return sequence->stage == OMMA_STAGE_PREFILL || sequence->stage == OMMA_STAGE_DECODE;
}

static bool is_queued(const struct ommai_sequence *sequence) { return sequence->stage == OMMA_STAGE_QUEUED; }

/* Whether there are pages for n_positions of the request besides those that live sequences are
 * expected to take yet. */
static bool has_pages(const struct ommai_scheduler *scheduler, const struct omma_request *request, int64_t n_positions) {
  const struct ommai_resources *resources = scheduler->resources;
  int64_t promised[OMMAI_MAX_STATE_GROUPS] = {0};
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    const struct ommai_sequence *sequence = scheduler->live[i];
    if (!has_entered(sequence)) continue;
    ommai_state_pool_promise(resources->pool, &sequence->state, ommai_sequence_goal(sequence), promised);
  }
  bool matches = resources->sizes.prefix_cache && !request->prompt_logprobs && !request->every_token;
  return ommai_state_pool_has(resources->pool, request->page_keys, matches ? (int64_t)request->n_page_keys : 0, n_positions,
                              promised);
}

static int64_t n_entered(const struct ommai_scheduler *scheduler) {
  int64_t n = 0;
  for (int64_t i = 0; i < scheduler->n_live; i++) n += has_entered(scheduler->live[i]);
  return n;
}

int64_t ommai_scheduler_n_waiting(const struct ommai_scheduler *scheduler, int64_t *n_preempted) {
  int64_t n = *n_preempted = 0;
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    const struct ommai_sequence *sequence = scheduler->live[i];
    n += is_queued(sequence) || sequence->ahead;
    *n_preempted += is_queued(sequence) && sequence->result.n_preemptions;
  }
  return n;
}

/* A slot that is free; -1: there is none. */
static int64_t free_slot(const struct ommai_scheduler *scheduler) {
  for (int64_t slot = 0; slot < scheduler->resources->sizes.limits.max_sequences; slot++) {
    if (!scheduler->slot_used[slot]) return slot;
  }
  return -1;
}

/* Of sequences that have none, or will need none. */
static int64_t n_without_slot(const struct ommai_scheduler *scheduler) {
  int64_t n = 0;
  for (int64_t i = 0; i < scheduler->n_live; i++) n += scheduler->live[i]->slot < 0;
  return n;
}

/* Whether the memory for encoded images suffices for this request's too: they are kept until they
 * are in the prompt. */
static bool has_image_room(const struct ommai_scheduler *scheduler, const struct omma_request *request) {
  int64_t n_patches = ommai_request_patches(request), taken = 0;
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    const struct ommai_sequence *sequence = scheduler->live[i];
    if (sequence->stage != OMMA_STAGE_DECODE) taken += ommai_request_patches(sequence->request);
  }
  return taken == 0 || n_patches == 0 || n_patches <= scheduler->resources->sizes.image_patches - taken;
}

bool ommai_scheduler_admits(const struct ommai_scheduler *scheduler, const struct ommai_queued_request *queued) {
  const struct ommai_resources *resources = scheduler->resources;
  if (queued->encode) return true;
  if (queued->request->n_images) {
    return n_without_slot(scheduler) < OMMAI_SEQUENCES_AHEAD && has_image_room(scheduler, queued->request);
  }
  if (free_slot(scheduler) < 0) return false;
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    const struct ommai_sequence *sequence = scheduler->live[i];
    if (is_queued(sequence) && !goes_before(queued->priority, queued->id, sequence)) return false;
  }
  if (n_entered(scheduler) == 0) return true;
  return has_pages(scheduler, queued->request, ommai_request_goal(queued->request, &resources->sizes));
}

/* Takes what the sequence lacks yet to begin its prompt; only images where pages have gone that it
 * would have found theirs in. */
static enum omma_status enter(struct ommai_scheduler *scheduler, struct ommai_sequence *sequence, struct omma_error *error) {
  OMMAI_TRY(ommai_sequence_take_images(sequence, error));
  if (sequence->stage == OMMA_STAGE_ENCODE) return OMMA_OK;
  if (sequence->slot < 0 && sequence->request->kind != OMMA_REQUEST_ENCODE) {
    int64_t slot = free_slot(scheduler);
    OMMAI_TRY(ommai_sequence_take_slot(sequence, slot, error));
    scheduler->slot_used[slot] = true;
  }
  ommai_sequence_enter(sequence);
  return OMMA_OK;
}

void ommai_scheduler_enter_waiting(struct ommai_scheduler *scheduler) {
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    struct ommai_sequence *sequence = scheduler->live[i];
    const struct omma_request *request = sequence->request;
    struct omma_error error;
    if (!is_queued(sequence)) continue;
    if (request->kind != OMMA_REQUEST_ENCODE) {
      if (sequence->slot < 0 && free_slot(scheduler) < 0) continue;
      if (n_entered(scheduler) && !has_pages(scheduler, request, ommai_sequence_goal(sequence))) return;
    }
    if (enter(scheduler, sequence, &error) == OMMA_OK) continue;
    ommai_scheduler_fail(scheduler, sequence, &error);
    i--;
  }
}

static struct ommai_sequence *insert_live(struct ommai_scheduler *scheduler, const struct ommai_queued_request *queued) {
  int64_t place = 0, at = scheduler->n_live;
  while (scheduler->used[place]) place++;
  while (at > 0 && goes_before(queued->priority, queued->id, scheduler->live[at - 1])) at--;
  memmove(&scheduler->live[at + 1], &scheduler->live[at], (size_t)(scheduler->n_live - at) * sizeof *scheduler->live);
  scheduler->live[at] = &scheduler->sequences[place];
  scheduler->used[place] = true;
  scheduler->n_live++;
  return scheduler->live[at];
}

void ommai_scheduler_add(struct ommai_scheduler *scheduler, const struct ommai_queued_request *queued) {
  struct omma_error error;
  if (queued->encode) {
    queued->encode->id = queued->id;
    ommai_encode_lane_add_call(&scheduler->encode, queued->encode);
    return;
  }
  struct ommai_sequence *sequence = insert_live(scheduler, queued);
  OMMAI_DEBUG(log_of(scheduler), "request %llu: admitted after %.1f ms, one of %lld", (unsigned long long)queued->id,
              (double)(ommai_resources_now(scheduler->resources) - queued->submitted) * 1e-6, (long long)scheduler->n_live);
  enum omma_status status = ommai_sequence_start(sequence, scheduler->resources, queued, &error);
  if (status == OMMA_OK) status = ommai_sequence_take_images(sequence, &error);
  if (status != OMMA_OK) ommai_scheduler_fail(scheduler, sequence, &error);
  ommai_scheduler_enter_waiting(scheduler);
}

/* ---- pages ---- */

/* The last sequence in order that holds pages. */
static struct ommai_sequence *last_with_pages(const struct ommai_scheduler *scheduler) {
  int64_t i = scheduler->n_live - 1;
  while (scheduler->live[i]->state.n_pages == 0) i--;
  return scheduler->live[i];
}

static void preempt(struct ommai_scheduler *scheduler, struct ommai_sequence *sequence) {
  OMMAI_DEBUG(log_of(scheduler), "request %llu: preempted, %lld page%s given back", (unsigned long long)sequence->id,
              (long long)sequence->state.n_pages, ommai_plural(sequence->state.n_pages));
  ommai_prefill_lane_forget(&scheduler->prefill, sequence);
  ommai_sequence_leave(sequence);
  sequence->result.n_preemptions++;
  scheduler->resources->stats.n_preemptions++;
}

bool ommai_scheduler_take_pages(struct ommai_scheduler *scheduler, struct ommai_sequence *sequence, int64_t n_positions) {
  while (!ommai_sequence_take_pages(sequence, n_positions)) {
    struct ommai_sequence *last = last_with_pages(scheduler);
    preempt(scheduler, goes_before(last->priority, last->id, sequence) ? sequence : last);
    if (!has_entered(sequence)) return false;
  }
  return true;
}
