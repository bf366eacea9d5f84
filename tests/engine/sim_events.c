#include <string.h>

#include <omma/vectors.h>

#include "engine/sim_inside.h"
#include "engine/sim_waits.h"
#include "runner/fake_inside.h"

void sim_answer_begin(struct sim_answer *answer) { answer->hashes[0] = answer->scores[0] = 21; }

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) hash = ommai_fake_mix(hash, ((const unsigned char *)bytes)[i]);
  return hash;
}

static uint64_t hash_top(uint64_t hash, const struct omma_top_logprob *top, int n_top) {
  for (int i = 0; i < n_top; i++) {
    hash = ommai_fake_mix(hash, (uint64_t)top[i].token);
    hash = hash_bytes(hash, &top[i].logprob, sizeof top[i].logprob);
  }
  return hash;
}

/* Whether the request is one of which something may be heard. */
static bool may_hear(struct sim_job *job, const char *what) {
  if (!job->accepted || job->ended) sim_break(job->world, "ends", "request %lld: %s after its end", sim_number(job), what);
  return job->accepted && !job->ended;
}

/* After a preemption everything may begin again. */
static bool was_preempted(struct sim_job *job) {
  int64_t n_preemptions = job->world->engine->resources.stats.n_preemptions;
  bool some = n_preemptions > job->preemptions_seen;
  job->preemptions_seen = n_preemptions;
  return some;
}

static void on_progress(void *context, enum omma_stage stage, int64_t done, int64_t total) {
  struct sim_job *job = context;
  if (!may_hear(job, "progress")) return;
  /* Images may take several passes. */
  bool again = was_preempted(job), same = stage == job->stage && job->done < job->total;
  if (done < 0 || done > total || (stage < job->stage && !again) || (same && done < job->done && !again)) {
    sim_break(job->world, "events", "request %lld: stage %d, %lld of %lld, after stage %d, %lld of %lld", sim_number(job),
              (int)stage, (long long)done, (long long)total, (int)job->stage, (long long)job->done, (long long)job->total);
  }
  job->stage = stage;
  job->done = done;
  job->total = total;
}

static bool on_token(void *context, const struct omma_token_event *event) {
  struct sim_job *job = context;
  struct sim_answer *answer = &job->answer;
  if (!may_hear(job, "a token")) return false;
  if (event->index != answer->n_tokens || answer->n_tokens == SIM_MAX_ANSWER || job->refused ||
      (job->wanted->scores && answer->n_scores + 1 != sim_prompt_size(job->wanted))) {
    sim_break(job->world, "events", "request %lld: token %lld comes as token %lld, after %lld scores", sim_number(job),
              (long long)event->index, (long long)answer->n_tokens, (long long)answer->n_scores);
    return false;
  }
  uint64_t hash = ommai_fake_mix(answer->hashes[answer->n_tokens++], (uint64_t)event->token);
  hash = hash_bytes(hash, &event->logprob, sizeof event->logprob);
  hash = hash_bytes(hash_top(hash, event->top, event->n_top), event->text, event->text_size);
  answer->hashes[answer->n_tokens] = ommai_fake_mix(hash, event->last);
  if (answer->n_tokens > 1 || event->last) job->stage = OMMA_STAGE_DECODE;
  sim_check_gap(job);
  job->refused = job->alone && job->wanted->refuse == event->index && !event->last;
  return !job->refused;
}

static void on_prompt_token(void *context, const struct omma_prompt_token_event *event) {
  struct sim_job *job = context;
  struct sim_answer *answer = &job->answer;
  if (!may_hear(job, "a score")) return;
  if (event->index != answer->n_scores + 1 || answer->n_tokens || !job->wanted->scores) {
    sim_break(job->world, "events", "request %lld: the score of token %lld comes after %lld", sim_number(job),
              (long long)event->index, (long long)answer->n_scores);
    return;
  }
  uint64_t hash = ommai_fake_mix(answer->scores[answer->n_scores++], (uint64_t)event->token);
  hash = hash_bytes(ommai_fake_mix(hash, (uint64_t)event->rank), &event->logprob, sizeof event->logprob);
  answer->scores[answer->n_scores] = hash_top(hash, event->top, event->n_top);
}

static void on_embeddings(void *context, struct omma_embeddings *embeddings) {
  struct sim_job *job = context;
  if (!may_hear(job, "embeddings") || !job->wanted->encode || job->embeddings) {
    sim_break(job->world, "events", "request %lld: embeddings that nobody waits for", sim_number(job));
    return;
  }
  for (int64_t i = 0; i < job->wanted->images; i++) {
    struct omma_image_embeddings image;
    omma_embeddings_get(embeddings, (size_t)i, &image);
    job->answer.embeddings = hash_bytes(ommai_fake_mix(job->answer.embeddings, (uint64_t)image.n_tokens), image.merged,
                                        (size_t)(image.n_tokens * image.width) * sizeof(float));
  }
  job->embeddings = embeddings;
}

static void on_vectors(void *context, const struct omma_vectors *vectors) {
  struct sim_job *job = context;
  if (!may_hear(job, "a vector") || !job->wanted->read || job->answer.vectors) {
    sim_break(job->world, "events", "request %lld: a vector that nobody waits for", sim_number(job));
    return;
  }
  job->answer.vectors =
      hash_bytes((uint64_t)vectors->width, vectors->values, (size_t)(vectors->n_rows * vectors->width) * sizeof(float));
}

/* ---- the end ---- */

/* Whether it is right that the request ends so. */
static void check_finish(struct sim_job *job, const struct omma_result *result) {
  struct sim_world *world = job->world;
  bool may_end = job->cancelled || job->refused || world->engine->shared->queue.stop;
  if (result->finish == OMMA_FINISH_CANCELLED && !may_end) {
    sim_break(world, "cancel", "request %lld ends as cancelled, and was not", sim_number(job));
  } else if (result->finish != OMMA_FINISH_CANCELLED && job->refused) {
    sim_break(world, "cancel", "request %lld: its client has left, and it ends by %d", sim_number(job), (int)result->finish);
  } else if (result->finish == OMMA_FINISH_ERROR && world->failed_turn != world->turn) {
    sim_break(world, "error", "request %lld fails: %s", sim_number(job), result->error.message);
  }
}

/* Equal to the request alone: wholly, or so far. */
static void check_answer(struct sim_job *job) {
  const struct sim_answer *alone = &job->alone->answer, *answer = &job->answer;
  bool whole = answer->finish <= OMMA_FINISH_LENGTH;
  if (answer->n_tokens > alone->n_tokens || answer->hashes[answer->n_tokens] != alone->hashes[answer->n_tokens]) {
    int64_t at = 0;
    while (at < answer->n_tokens && at < alone->n_tokens && answer->hashes[at + 1] == alone->hashes[at + 1]) at++;
    sim_break(job->world, "answer", "request %lld: token %lld of %lld differs from the request alone, which has %lld",
              sim_number(job), (long long)at, (long long)answer->n_tokens, (long long)alone->n_tokens);
  } else if (answer->n_scores > alone->n_scores || answer->scores[answer->n_scores] != alone->scores[answer->n_scores]) {
    sim_break(job->world, "answer", "request %lld: the scores of its prompt differ from the request alone", sim_number(job));
  } else if (whole && (answer->n_tokens != alone->n_tokens || answer->finish != alone->finish ||
                       answer->stop_token != alone->stop_token || answer->n_scores != alone->n_scores ||
                       answer->embeddings != alone->embeddings || answer->vectors != alone->vectors)) {
    sim_break(job->world, "answer", "request %lld ends by %d after %lld tokens, alone by %d after %lld", sim_number(job),
              (int)answer->finish, (long long)answer->n_tokens, (int)alone->finish, (long long)alone->n_tokens);
  }
}

static void on_finish(void *context, const struct omma_result *result) {
  struct sim_job *job = context;
  struct sim_world *world = job->world;
  if (!may_hear(job, "an end")) return;
  job->ended = true;
  job->end_ns = sim_now(world);
  job->answer.finish = result->finish;
  job->answer.stop_token = result->stop_token;
  world->last_end = world->turn;
  world->n_ended++;
  world->outcome->n_ended++;
  world->outcome->completion_ns += job->end_ns - job->begin_ns;
  world->outcome->total_ns = job->end_ns;
  world->outcome->n_cancelled += result->finish == OMMA_FINISH_CANCELLED;
  world->outcome->n_failed += result->finish == OMMA_FINISH_ERROR;
  world->outcome->n_tokens += result->n_completion_tokens;
  world->outcome->n_cached_tokens += result->n_cached_tokens;
  check_finish(job, result);
  /* The token with which an error came was not shown. */
  if (result->finish == OMMA_FINISH_STOP && job->wanted->read && !job->answer.vectors) {
    sim_break(world, "events", "request %lld ends without its vector", sim_number(job));
  }
  bool counts = result->n_completion_tokens == job->answer.n_tokens;
  if (!counts || result->n_prompt_tokens != sim_prompt_size(job->wanted)) {
    sim_break(world, "events", "request %lld: its result has %lld tokens, %lld were shown", sim_number(job),
              (long long)result->n_completion_tokens, (long long)job->answer.n_tokens);
  }
  if (job->alone) check_answer(job);
}

struct omma_callbacks sim_callbacks(struct sim_job *job) {
  return (struct omma_callbacks){.context = job,
                                 .on_progress = on_progress,
                                 .on_token = on_token,
                                 .on_finish = on_finish,
                                 .on_prompt_token = on_prompt_token,
                                 .on_embeddings = on_embeddings,
                                 .on_vectors = on_vectors};
}
