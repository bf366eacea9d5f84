#include <string.h>

#include "engine/sim_inside.h"
#include "engine/sim_waits.h"
#include "runner/fake_inside.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS, MAX_PAGES = 1024 };

void sim_on_stored(void *context, const struct omma_kv_page *page) {
  (void)page;
  ((struct sim_world *)context)->n_kept++;
}

void sim_on_removed(void *context, const struct omma_kv_page_key *key) {
  (void)key;
  ((struct sim_world *)context)->n_kept--;
}

void sim_on_cleared(void *context) { ((struct sim_world *)context)->n_kept = 0; }

/* ---- sleep ---- */

void sim_nap(struct sim_world *world) {
  struct ommai_request_queue *queue = &world->engine->shared->queue;
  const struct ommai_state_pool *pool = world->engine->resources.pool;
  ommai_request_queue_sleep(queue);
  ommai_engine_turn(world->engine);
  if (ommai_request_queue_settle(queue, 0) != OMMAI_QUEUE_ASLEEP) sim_break(world, "sleeps", "nothing runs, and it is awake");
  for (int g = 0; g < pool->n_groups; g++) {
    const struct ommai_page_counts counts = ommai_page_pool_counts(pool->pools[g]);
    if (counts.n_used || counts.n_kept || counts.n_published) sim_break(world, "sleeps", "group %d has pages", g);
  }
  if (world->n_kept) sim_break(world, "sleeps", "%lld pages are reported as kept", (long long)world->n_kept);
  omma_engine_wake(world->engine);
}

/* ---- pages ---- */

/* Positions below this are never written again by the sequence: they are another prompt's, or
 * published. */
static int64_t published_pages(const struct sim_world *world, const struct ommai_sequence *sequence) {
  int64_t full = sequence->n_prefilled / PAGE, keys = (int64_t)sequence->request->n_page_keys;
  if (!world->run->engine.prefix_cache) return 0;
  return full < keys ? full : keys;
}

/* Of one group: who holds each page, and who goes on writing it. */
struct holders {
  int32_t users[MAX_PAGES], writers[MAX_PAGES];
  int64_t n_used;
};

static void count_page(struct holders *holders, int32_t page, bool writes) {
  if (page < 0) return;
  holders->n_used += holders->users[page]++ == 0;
  holders->writers[page] += writes;
}

static void count_pages(struct sim_world *world, int g, const struct ommai_sequence *sequence, struct holders *holders) {
  const struct ommai_held_group *group = &sequence->state.groups[g];
  const struct ommai_state_group *facts = &world->network.facts.groups[g];
  if (facts->kind == OMMAI_STATE_SNAPSHOT) {
    if (group->current != group->next) count_page(holders, group->current, false);
    count_page(holders, group->next, true);
    count_page(holders, group->draft, true);
    count_page(holders, group->border, true);
    return;
  }
  for (int64_t p = group->first; p < sequence->state.n_pages; p++) {
    count_page(holders, group->pages[p], p >= published_pages(world, sequence));
  }
  int64_t next = sequence->n_prefilled + sequence->n_decoded;
  if (group->first * PAGE > (facts->window && next > facts->window ? next - facts->window + 1 : 0)) {
    sim_break(world, "pages", "id %llu: pages from %lld on of group %d, at position %lld", (unsigned long long)sequence->id,
              (long long)group->first, g, (long long)next);
  }
}

static void check_group(struct sim_world *world, int g) {
  const struct ommai_scheduler *scheduler = &world->engine->scheduler;
  const struct ommai_page_pool *pool = world->engine->resources.pool->pools[g];
  const struct ommai_page_counts counts = ommai_page_pool_counts(pool);
  int64_t available = ommai_page_pool_available(pool);
  struct holders holders = {.n_used = 0};
  for (int64_t i = 0; i < scheduler->n_live; i++) count_pages(world, g, scheduler->live[i], &holders);
  for (int64_t page = 0; page < counts.n_pages; page++) {
    if (!holders.writers[page] || holders.users[page] == 1) continue;
    sim_break(world, "pages", "page %lld of group %d is written, and has %d holders", (long long)page, g, holders.users[page]);
  }
  if (counts.n_used != holders.n_used || available != counts.n_pages - holders.n_used) {
    sim_break(world, "pages", "%lld pages of %lld in group %d are held, the pool counts %lld and %lld available",
              (long long)holders.n_used, (long long)counts.n_pages, g, (long long)counts.n_used, (long long)available);
  }
  if (g == 0 && counts.n_published - world->engine->resources.pool->n_parts != world->n_kept) {
    sim_break(world, "counters", "%lld published pages, %lld by their events", (long long)counts.n_published,
              (long long)world->n_kept);
  }
}

static void check_pages(struct sim_world *world) {
  const struct ommai_scheduler *scheduler = &world->engine->scheduler;
  for (int g = 0; g < world->network.facts.n_groups; g++) check_group(world, g);
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    const struct ommai_sequence *sequence = scheduler->live[i];
    int64_t n_positions = sequence->n_prefilled + sequence->n_decoded;
    if (sequence->state.n_pages * PAGE >= n_positions) continue;
    sim_break(world, "pages", "id %llu: %lld pages for %lld positions", (unsigned long long)sequence->id,
              (long long)sequence->state.n_pages, (long long)n_positions);
  }
}

/* ---- order, ends, counters ---- */

static const struct ommai_sequence *first_entered(const struct ommai_scheduler *scheduler) {
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    enum omma_stage stage = scheduler->live[i]->stage;
    if (stage == OMMA_STAGE_PREFILL || stage == OMMA_STAGE_DECODE) return scheduler->live[i];
  }
  return NULL;
}

void sim_begin_turn(struct sim_world *world) {
  const struct ommai_scheduler *scheduler = &world->engine->scheduler;
  const struct ommai_sequence *first = first_entered(scheduler);
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    const struct ommai_sequence *sequence = scheduler->live[i];
    world->by_id[sequence->id]->waits_since = sequence->stage == OMMA_STAGE_QUEUED ? sequence->stage_started : -1;
  }
  world->first_entered = first ? first->id : 0;
  world->n_preemptions = world->engine->resources.stats.n_preemptions;
}

/* Nobody who goes before one who has just entered waits for pages as before, nor, where that one
 * has just got a slot, for a slot. */
static void check_entry(struct sim_world *world, const struct sim_job *entered, bool had_slot) {
  const struct ommai_scheduler *scheduler = &world->engine->scheduler;
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    const struct ommai_sequence *sequence = scheduler->live[i];
    const struct sim_job *job = world->by_id[sequence->id];
    bool waits = sequence->stage == OMMA_STAGE_QUEUED && sequence->stage_started == job->waits_since;
    if (!waits || !sim_goes_before(job, entered) || (had_slot && sequence->slot < 0)) continue;
    sim_break(world, "order", "request %lld has entered, and request %lld waits", sim_number(entered), sim_number(job));
  }
}

/* Nobody who waits to be admitted goes before one who has just been. */
static void check_admission(struct sim_world *world, const struct sim_job *admitted) {
  for (int64_t i = 0; i < world->run->n_requests; i++) {
    const struct sim_job *job = &world->jobs[i];
    if (!job->accepted || job->ended || job->admitted_ns || !sim_goes_before(job, admitted)) continue;
    sim_break(world, "order", "request %lld is admitted before request %lld", sim_number(admitted), sim_number(job));
  }
}

/* Who waits for images has no slot, until it has once been preempted; who has entered has one. */
static void check_slot(struct sim_world *world, const struct ommai_sequence *sequence, struct sim_job *job) {
  bool entered = sequence->stage == OMMA_STAGE_PREFILL || sequence->stage == OMMA_STAGE_DECODE;
  bool expected = entered && !job->wanted->encode;
  if (sequence->slot >= 0 && !expected && !job->entered_ns) {
    sim_break(world, "slots", "request %lld has a slot in stage %d", sim_number(job), (int)sequence->stage);
  } else if (sequence->slot < 0 && expected) {
    sim_break(world, "slots", "request %lld has entered without a slot", sim_number(job));
  }
  if (sequence->slot < 0) return;
  bool first = !job->entered_ns, again = !first && entered && job->waits_since >= 0;
  if (first) job->entered_ns = sim_now(world);
  if (first || again) check_entry(world, job, again);
}

/* What was just taken in has memory for its images besides those that wait or are computed, unless
 * it is alone with images. Who was preempted has his again, whatever the room. */
static void check_image_room(struct sim_world *world, const struct sim_job *admitted) {
  const struct ommai_scheduler *scheduler = &world->engine->scheduler;
  int64_t n_patches = 0, n_others = 0;
  if (!admitted->wanted->images || world->n_preemptions != world->engine->resources.stats.n_preemptions) return;
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    const struct ommai_sequence *sequence = scheduler->live[i];
    int64_t n = sequence->stage == OMMA_STAGE_DECODE ? 0 : ommai_request_patches(sequence->request);
    n_others += n > 0 && world->by_id[sequence->id] != admitted;
    n_patches += n;
  }
  if (n_others == 0 || n_patches <= world->engine->resources.sizes.image_patches) return;
  sim_break(world, "images", "%lld patches wait, there is room for %lld", (long long)n_patches,
            (long long)world->engine->resources.sizes.image_patches);
}

/* The tower works for somebody who waits. */
static void check_pass(struct sim_world *world) {
  const struct ommai_scheduler *scheduler = &world->engine->scheduler;
  bool wanted = !scheduler->encode.running || scheduler->encode.running_call;
  for (int64_t i = 0; i < scheduler->n_live && !wanted; i++) {
    wanted = ommai_encode_lane_serves(&scheduler->encode, scheduler->live[i]);
  }
  if (!wanted) sim_break(world, "images", "a pass of the tower is for nobody");
}

static void check_order(struct sim_world *world) {
  const struct ommai_scheduler *scheduler = &world->engine->scheduler;
  struct sim_job *admitted[SIM_MAX_REQUESTS];
  int64_t n_admitted = 0;
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    struct sim_job *job = world->by_id[scheduler->live[i]->id];
    if (i > 0 && !sim_goes_before(world->by_id[scheduler->live[i - 1]->id], job)) {
      sim_break(world, "order", "request %lld stands behind one that it goes before", sim_number(job));
    }
    check_slot(world, scheduler->live[i], job);
    if (job->admitted_ns) continue;
    job->admitted_ns = sim_now(world);
    admitted[n_admitted++] = job;
  }
  for (int64_t i = 0; i < n_admitted; i++) {
    check_admission(world, admitted[i]);
    check_image_room(world, admitted[i]);
  }
  /* The first keeps its pages until somebody enters before it. */
  const struct ommai_sequence *first = first_entered(scheduler);
  for (int64_t i = 0; i < scheduler->n_live && scheduler->live[i] != first; i++) {
    if (scheduler->live[i]->stage != OMMA_STAGE_QUEUED || scheduler->live[i]->id != world->first_entered) continue;
    sim_break(world, "order", "id %llu is first and has lost its pages", (unsigned long long)world->first_entered);
  }
}

static void check_counters(struct sim_world *world) {
  struct omma_engine_stats stats;
  omma_engine_get_stats(world->engine, &stats);
  int64_t n_finished = 0;
  for (size_t i = 0; i < sizeof stats.n_finished / sizeof *stats.n_finished; i++) n_finished += stats.n_finished[i];
  if (n_finished != world->n_ended || n_finished + stats.n_waiting + stats.n_running != world->n_accepted) {
    sim_break(world, "counters", "%lld requests were accepted, %lld have ended; counted: %lld ended, %lld wait, %lld run",
              (long long)world->n_accepted, (long long)world->n_ended, (long long)n_finished, (long long)stats.n_waiting,
              (long long)stats.n_running);
  }
}

static void check_cancelled(struct sim_world *world) {
  for (int64_t i = 0; i < world->run->n_requests; i++) {
    const struct sim_job *job = &world->jobs[i];
    if ((job->cancelled || job->refused) && !job->ended) {
      sim_break(world, "cancel", "request %lld was cancelled and goes on", (long long)i);
    }
  }
}

static void check_runner(struct sim_world *world) {
  const char *complaint = ommai_fake_runner_complaint(world->engine->resources.runner);
  if (complaint[0]) sim_break(world, "runner", "%s", complaint);
}

void sim_check_turn(struct sim_world *world) {
  check_runner(world);
  check_pages(world);
  check_order(world);
  check_pass(world);
  check_counters(world);
  check_cancelled(world);
}

/* ---- the end ---- */

static void check_clean(struct sim_world *world) {
  struct omma_engine *engine = world->engine;
  const struct ommai_fake_runner *fake = ommai_fake_inside(engine->resources.runner);
  const struct ommai_encoded_image *image;
  TAILQ_FOREACH(image, &engine->resources.encoder_cache.by_use, by_use) {
    if (image->n_users || !image->complete) sim_break(world, "clean", "an image has %lld users", (long long)image->n_users);
  }
  for (int64_t slot = 0; slot < fake->limits.max_sequences; slot++) {
    if (fake->slots[slot].used) sim_break(world, "clean", "slot %lld was never ended", (long long)slot);
  }
  if (fake->pass.running) sim_break(world, "clean", "a pass is in progress");
}

void sim_check_end(struct sim_world *world) {
  const struct sim_job *worst = NULL;
  struct sim_outcome *outcome = world->outcome;
  check_runner(world);
  if (world->n_ended == world->n_accepted) check_clean(world);
  outcome->n_preemptions = world->engine->resources.stats.n_preemptions;
  outcome->n_drafts_right = world->engine->resources.stats.accepted_tokens;
  outcome->n_chunks = ommai_fake_runner_calls(world->engine->resources.runner, OMMAI_FAKE_PROMPT_BEGIN);
  outcome->n_passes = ommai_fake_runner_calls(world->engine->resources.runner, OMMAI_FAKE_ENCODE_BEGIN);
  outcome->n_pieces = ommai_fake_inside(world->engine->resources.runner)->n_all_pieces;
  outcome->worst_wait = sim_worst_wait(world, &worst);
  if (outcome->worst_wait > 1) {
    sim_break(world, "waits", "request %lld takes %.1f ms, %.1f times the bound", sim_number(worst),
              (double)(worst->end_ns - worst->begin_ns) * 1e-6, outcome->worst_wait);
  }
}
