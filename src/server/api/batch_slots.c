#include "server/api/batch_slots.h"

#include "base/allocator.h"
#include "server/api/batch_request.h"

#define BUSY 503

/* On a worker or on the engine's thread. */
static void on_reply(void *context) {
  struct ommai_batch_slot *slot = context;
  const struct ommai_batch_slots *slots = slot->slots;
  atomic_store(&slot->replied, true);
  slots->wake(slots->context);
}

bool ommai_batch_slots_init(struct ommai_batch_slots *slots, size_t n, void (*wake)(void *context), void *context) {
  *slots = (struct ommai_batch_slots){
      .slots = ommai_allocate(&ommai_default_allocator, n, sizeof *slots->slots), .n = n, .wake = wake, .context = context};
  for (size_t i = 0; slots->slots && i < n; i++) slots->slots[i].slots = slots;
  return slots->slots != NULL;
}

void ommai_batch_slots_release(struct ommai_batch_slots *slots) {
  for (size_t i = 0; slots->slots && i < slots->n; i++) ommai_batch_request_destroy(slots->slots[i].request);
  ommai_release(&ommai_default_allocator, slots->slots, slots->n, sizeof *slots->slots);
}

struct ommai_batch_slot *ommai_batch_slots_free(struct ommai_batch_slots *slots) {
  for (size_t i = 0; i < slots->n && !slots->n_set_aside; i++) {
    if (!slots->slots[i].request) return &slots->slots[i];
  }
  return NULL;
}

static void start(struct ommai_batch_slots *slots, struct ommai_batch_slot *slot) {
  slots->n_running++;
  atomic_store(&slot->replied, false);
  if (!ommai_batch_request_start(slot->request, on_reply, slot)) on_reply(slot);
}

void ommai_batch_slots_start(struct ommai_batch_slots *slots, struct ommai_batch_slot *slot,
                             struct ommai_batch_request *request, void *owner) {
  slot->request = request;
  slot->owner = owner;
  slot->set_aside = slot->alone = false;
  start(slots, slot);
}

static void start_alone(struct ommai_batch_slots *slots) {
  for (size_t i = 0; i < slots->n && slots->n_running == 0; i++) {
    struct ommai_batch_slot *slot = &slots->slots[i];
    if (!slot->set_aside) continue;
    slot->set_aside = false;
    slot->alone = true;
    slots->n_set_aside--;
    start(slots, slot);
  }
}

struct ommai_batch_slot *ommai_batch_slots_done(struct ommai_batch_slots *slots) {
  for (size_t i = 0; i < slots->n; i++) {
    struct ommai_batch_slot *slot = &slots->slots[i];
    if (!slot->request || slot->set_aside || !atomic_load(&slot->replied)) continue;
    slots->n_running--;
    if (ommai_batch_request_status(slot->request) != BUSY || slot->alone) return slot;
    slot->set_aside = true;
    slots->n_set_aside++;
  }
  start_alone(slots);
  return NULL;
}

bool ommai_batch_slots_idle(const struct ommai_batch_slots *slots) { return slots->n_running + slots->n_set_aside == 0; }
