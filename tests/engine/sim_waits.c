#include "engine/sim_waits.h"

#include <math.h>

#include "base/checked.h"

struct ommai_fake_costs sim_costs(const struct sim_engine *engine) {
  return (struct ommai_fake_costs){.pass = 1000 * engine->pass_us,
                                   .patch = 1000 * engine->patch_us,
                                   .chunk = 1000 * engine->chunk_us,
                                   .prompt_row = 1000 * engine->token_us,
                                   .step = 1000 * engine->step_us,
                                   .step_row = 1000 * engine->row_us,
                                   .draw = 1000 * engine->draw_us,
                                   .round = 1000 * engine->round_us};
}

/* Nanoseconds of a request that computes everything itself, in steps of all slots' rows. */
static double work_of(const struct sim_world *world, const struct sim_job *job) {
  const struct sim_engine *engine = &world->run->engine;
  const struct ommai_fake_costs *costs = &world->network.costs;
  double work = 0, rows = (double)(engine->slots * (1 + engine->drafts));
  int64_t n_tokens = sim_prompt_size(job->wanted);
  for (int64_t i = 0; i < job->wanted->images; i++) {
    work += (double)(costs->pass + sim_image_patches(job->wanted->image + i) * costs->patch);
  }
  if (job->wanted->encode) return work;
  work += (double)(ommai_div_up(n_tokens, engine->chunk) * costs->chunk + n_tokens * costs->prompt_row);
  if (job->wanted->scores) work += (double)(n_tokens * costs->draw);
  return work + (double)job->wanted->answer * ((double)costs->step + rows * (double)(costs->step_row + costs->draw));
}

/* What others have begun: a pass with images, a chunk, a step. */
static double one_of_each(const struct sim_world *world) {
  const struct sim_engine *engine = &world->run->engine;
  const struct ommai_fake_costs *costs = &world->network.costs;
  double rows = (double)(engine->slots * (1 + engine->drafts));
  int64_t n_patches = ommai_max_i64(engine->patches, sim_image_patches(SIM_N_IMAGES - 1));
  return (double)(costs->pass + n_patches * costs->patch + costs->chunk + engine->chunk * costs->prompt_row + costs->step) +
         rows * (double)(costs->step_row + costs->draw);
}

/* Whether `other` may hold `job` up: it goes before it and was there before its end, or had its
 * slot before it: its images were there. */
static bool is_before(const struct sim_job *other, const struct sim_job *job) {
  if (!other->accepted || other == job || other->end_ns <= job->begin_ns || other->begin_ns > job->end_ns) return false;
  int64_t entered_ns = job->entered_ns ? job->entered_ns : job->end_ns;
  return sim_goes_before(other, job) || (other->entered_ns && other->entered_ns <= entered_ns);
}

/* Nanoseconds that the answer may wait for others besides. */
static double patience(const struct sim_world *world, const struct sim_job *job) {
  const struct sim_engine *engine = &world->run->engine;
  bool whole = engine->scheduling == OMMA_SCHEDULING_AUTO ? job->wanted->whole : engine->scheduling;
  return whole && engine->scheduling != OMMA_SCHEDULING_LATENCY ? 1e6 * (double)engine->max_wait_ms : 0;
}

double sim_worst_wait(const struct sim_world *world, const struct sim_job **worst) {
  double found = 0, shares = (double)world->run->engine.percent / 100;
  double work[SIM_MAX_REQUESTS];
  for (int64_t i = 0; i < world->run->n_requests; i++) work[i] = work_of(world, &world->jobs[i]);
  for (int64_t i = 0; i < world->run->n_requests; i++) {
    const struct sim_job *job = &world->jobs[i];
    double before = work[i] + one_of_each(world);
    if (!job->ended || job->cancelled || job->refused) continue;
    for (int64_t j = 0; j < world->run->n_requests; j++) {
      if (is_before(&world->jobs[j], job)) before += work[j];
    }
    double bound = SIM_WAIT_FACTOR * before / (1 - shares) + patience(world, job);
    double wait = (double)(job->end_ns - job->begin_ns) / bound;
    if (wait <= found) continue;
    found = wait;
    *worst = job;
  }
  return found;
}

void sim_check_gap(struct sim_job *job) {
  struct sim_world *world = job->world;
  const struct sim_engine *engine = &world->run->engine;
  const struct ommai_fake_costs *costs = &world->network.costs;
  int64_t n_preemptions = world->engine->resources.stats.n_preemptions, gap = sim_now(world) - job->token_ns;
  bool counts = job->token_ns && job->token_preemptions == n_preemptions && job->alone;
  if (job->token_ns && gap > world->outcome->longest_gap_ns) world->outcome->longest_gap_ns = gap;
  if (job->token_ns && !job->wanted->whole) world->outcome->stream_gap_ns = ommai_max_i64(world->outcome->stream_gap_ns, gap);
  job->token_ns = sim_now(world);
  job->token_preemptions = n_preemptions;
  if (!counts) return;
  double rows = (double)ommai_max_i64(engine->slots * (1 + engine->drafts), 8);
  double step = (double)costs->step + rows * (double)(costs->step_row + costs->draw);
  double uncut = fmin((double)costs->round, one_of_each(world)) + (double)(8 * costs->draw);
  double bound = 2 * (step / (1 - (double)engine->percent / 100) + OMMAI_MIN_SLICE_NS + uncut);
  /* Patience is counted by steps, and what others have begun goes on when it is over. */
  if (patience(world, job) > 0) bound += 2 * patience(world, job) + one_of_each(world);
  world->outcome->worst_gap = fmax(world->outcome->worst_gap, (double)gap / bound);
  if ((double)gap <= bound) return;
  sim_break(world, "gaps", "request %lld: %.1f ms between two tokens, %.1f at most", sim_number(job), (double)gap * 1e-6,
            bound * 1e-6);
}
