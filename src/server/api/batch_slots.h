/* Requests of a batch that are under way at once. One that finds the memory taken by others (status
 * 503) is set aside and started again when no other runs. One thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct ommai_batch_request;
struct ommai_batch_slots;

struct ommai_batch_slot {
  struct ommai_batch_slots *slots;
  struct ommai_batch_request *request; /* NULL: free */
  void *owner;                         /* the caller's */
  atomic_bool replied;
  bool set_aside, alone;
};

struct ommai_batch_slots {
  struct ommai_batch_slot *slots;
  size_t n, n_running, n_set_aside;
  void (*wake)(void *context);
  void *context;
};

/* `wake` is called by any thread when a request has its reply, and must return at once. False when
 * memory is out. Release in every case; requests that are there are destroyed. */
bool ommai_batch_slots_init(struct ommai_batch_slots *slots, size_t n, void (*wake)(void *context), void *context);
void ommai_batch_slots_release(struct ommai_batch_slots *slots);

/* A free slot; NULL: there is none, or a request is set aside. */
struct ommai_batch_slot *ommai_batch_slots_free(struct ommai_batch_slots *slots);

/* Starts a request in a free slot, and owns it from now on. */
void ommai_batch_slots_start(struct ommai_batch_slots *slots, struct ommai_batch_slot *slot,
                             struct ommai_batch_request *request, void *owner);

/* A slot with a result; NULL: there is none. The caller takes the request and sets it to NULL.
 * Starts what was set aside where nothing else runs. */
struct ommai_batch_slot *ommai_batch_slots_done(struct ommai_batch_slots *slots);

/* Nothing is under way. */
bool ommai_batch_slots_idle(const struct ommai_batch_slots *slots);
