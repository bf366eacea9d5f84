/* What the parts of a simulated world share. */
#pragma once

#include "engine/engine.h"
#include "engine/sim_requests.h"
#include "engine/sim_world.h"

enum { SIM_MAX_ANSWER = 160, SIM_MAX_PROMPT = 700 };

/* What a request has got so far. hashes[n], scores[n]: of all about its first n. */
struct sim_answer {
  int64_t n_tokens, n_scores;
  uint64_t embeddings, vectors;
  enum omma_finish finish;
  int32_t stop_token;
  uint64_t hashes[SIM_MAX_ANSWER + 1], scores[SIM_MAX_PROMPT];
};

struct sim_world;

struct sim_job {
  struct sim_world *world;
  const struct sim_request *wanted;
  const struct sim_job *alone; /* the same request in an engine of its own, or NULL */
  struct omma_request *request;
  uint64_t id;
  bool accepted, cancelled, refused, ended;
  int64_t begin_ns, end_ns;
  int64_t admitted_ns, entered_ns;       /* its images were taken in; it had a slot. 0: never */
  int64_t done, total, preemptions_seen; /* of the last progress */
  int64_t token_ns, token_preemptions;   /* when the last token came, and preemptions until then */
  int64_t waits_since;                   /* for a slot or pages, before this turn; -1: not */
  enum omma_stage stage;
  struct omma_embeddings *embeddings;
  struct sim_answer answer;
};

struct sim_world {
  const struct sim_case *run;
  struct sim_outcome *outcome;
  struct omma_model model;
  struct ommai_fake_network network;
  struct omma_engine *engine;
  uint64_t first_entered; /* before this turn; 0: nobody */
  int64_t n_preemptions;  /* before this turn */
  int64_t turn, last_end, n_accepted, n_ended;
  int64_t n_kept; /* pages that were stored and not removed */
  int64_t n_allocations;
  bool failed_allocation;
  struct sim_job *by_id[SIM_MAX_REQUESTS + 1]; /* as the engine numbers them */
  bool armed;                                  /* calls fail that are to */
  int64_t failed_turn, n_calls[OMMAI_FAKE_CALLS + 1];
  struct sim_job jobs[SIM_MAX_REQUESTS]; /* [run->n_requests]; what stands above begins as zero */
};

/* Notes the first rule that does not hold. */
__attribute__((format(printf, 3, 4))) void sim_break(struct sim_world *world, const char *rule, const char *format, ...);

static inline int64_t sim_now(const struct sim_world *world) { return ommai_resources_now(&world->engine->resources); }
static inline long long sim_number(const struct sim_job *job) { return (long long)(job - job->world->jobs); }

/* By priority where the engine has one, then by age. */
static inline bool sim_goes_before(const struct sim_job *job, const struct sim_job *other) {
  bool by_priority = job->world->run->engine.by_priority && job->wanted->priority != other->wanted->priority;
  return by_priority ? job->wanted->priority < other->wanted->priority : job->id < other->id;
}

/* sim_events.c: what clients see. */
struct omma_callbacks sim_callbacks(struct sim_job *job);
void sim_answer_begin(struct sim_answer *answer);

/* sim_checks.c: before and after every turn, and at the end. */
void sim_begin_turn(struct sim_world *world);
void sim_check_turn(struct sim_world *world);
void sim_check_end(struct sim_world *world);
void sim_on_stored(void *world, const struct omma_kv_page *page);
void sim_on_removed(void *world, const struct omma_kv_page_key *key);
void sim_on_cleared(void *world);
/* Has an idle engine sleep and wakes it. */
void sim_nap(struct sim_world *world);
