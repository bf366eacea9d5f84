/* The live sequences: which are admitted, whose turn it is, which is preempted when pages run out.
 *
 * The order is by priority (lower first; all equal unless the engine uses priorities), then by age.
 * A sequence takes its images when it is added. When they are through the tower and a slot of the
 * runner is free, it enters: it takes pages, and its prompt begins. So no sequence holds a slot
 * while it waits for images for the first time, and one without images may overtake it. When pages
 * run out, the last sequence in order is preempted: it gives its pages back and enters again later.
 * The first one that has entered is never preempted, so that every request ends. One thread. */
#pragma once

#include "engine/decode_lane.h"
#include "engine/encode_lane.h"
#include "engine/policy.h"
#include "engine/prefill_lane.h"
#include "engine/request_queue.h"

/* Callbacks of the scheduler, on the engine's thread. */
struct ommai_scheduler_events {
  void *context;
  /* The sequence is gone already; its request may be destroyed. */
  void (*finish)(void *context, uint64_t id, const struct omma_callbacks *callbacks, const struct omma_result *result);
  void (*finish_encode)(void *context, struct ommai_encode_call *call, enum omma_status status, const struct omma_error *error);
};

struct ommai_scheduler {
  struct ommai_resources *resources;
  struct ommai_scheduler_events events;
  struct ommai_sequence *sequences; /* [max_live] */
  bool *used;                       /* [max_live] which of them are live */
  bool *slot_used;                  /* [max_sequences] slots of the runner */
  struct ommai_sequence **live;     /* [max_live], in order */
  int64_t n_live;
  struct ommai_encode_lane encode;
  struct ommai_prefill_lane prefill;
  struct ommai_decode_lane decode;
  struct ommai_load load;  /* its times; the rest is filled for each choice */
  int64_t logged_decoding; /* size of the last decode batch in the log */
  int64_t n_carried;       /* rows of whole answers in the last step of streams */
  int64_t own_streams;     /* whose step load.own_step_ns is, and steps since then */
  int64_t steps_since_own;
};

/* Bytes of its tables, the lanes' included. */
size_t ommai_scheduler_bytes(const struct ommai_engine_sizes *sizes);
/* Errors: MEMORY; what was made stays for free. */
enum omma_status ommai_scheduler_init(struct ommai_scheduler *scheduler, struct ommai_resources *resources,
                                      const struct ommai_scheduler_events *events, struct omma_error *error);
/* Nothing may be live. Takes a zeroed scheduler. */
void ommai_scheduler_free(struct ommai_scheduler *scheduler);

/* Whether the request may be added now. One with images: there is room for them. One without: a
 * slot is free, the pages suffice for it besides what the others are expected to need, and nobody
 * before it waits for either. Always true for encode calls. */
bool ommai_scheduler_admits(const struct ommai_scheduler *scheduler, const struct ommai_queued_request *queued);
/* Adds an admitted request. One that fails at once ends at once. */
void ommai_scheduler_add(struct ommai_scheduler *scheduler, const struct ommai_queued_request *queued);

bool ommai_scheduler_has_work(const struct ommai_scheduler *scheduler);
/* One step or slice of whatever is due. */
void ommai_scheduler_turn(struct ommai_scheduler *scheduler);

/* Ends a live sequence; unknown ids are ignored. */
void ommai_scheduler_cancel(struct ommai_scheduler *scheduler, uint64_t id);
/* Ends everything. */
void ommai_scheduler_cancel_all(struct ommai_scheduler *scheduler);

/* Sequences that wait for a slot, also ahead of their images, or for pages; and those among them
 * that were preempted. */
int64_t ommai_scheduler_n_waiting(const struct ommai_scheduler *scheduler, int64_t *n_preempted);

/* ---- between scheduler.c and scheduler_turn.c ---- */

/* Ends a sequence, with its result or for an error, and tells of it. */
void ommai_scheduler_finish(struct ommai_scheduler *scheduler, struct ommai_sequence *sequence);
void ommai_scheduler_fail(struct ommai_scheduler *scheduler, struct ommai_sequence *sequence, const struct omma_error *error);

/* Lets those enter that have their images, in order, as far as slots and pages suffice: who has no
 * slot holds up nobody that has one, but nobody takes pages before one that waits for pages. */
void ommai_scheduler_enter_waiting(struct ommai_scheduler *scheduler);

/* Makes sure that the sequence's pages cover n_positions; false when it had to give way itself. */
bool ommai_scheduler_take_pages(struct ommai_scheduler *scheduler, struct ommai_sequence *sequence, int64_t n_positions);
