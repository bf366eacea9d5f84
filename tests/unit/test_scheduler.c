/* The scheduler by itself, turn by turn on this thread: random arrivals, cancellations, sizes and
 * limits, and after every turn what must always hold: every page is accounted for, none is written
 * by one sequence while another uses it, and everybody ends, the oldest without ever losing its
 * pages. */
#include "engine/engine_measure.h"
#include "engine/scheduler.h"
#include "runner/cpu_runner.h"

#include <stdlib.h>

#include "base/clock.h"
#include "support/model_fixture.h"
#include "support/test.h"

enum { N_TEMPLATES = 24, MAX_JOBS = 4000, PAGE = OMMA_ATTENTION_PAGE_TOKENS };

static struct omma_model *model; /* of the settings at hand */
static struct omma_image *images[2];
static struct omma_request *requests[N_TEMPLATES];

static void open_world_model(int groups) {
  struct test_random random = {41};
  model = groups < 0 ? fixture_model("qwen3_vl_heads", NULL) : fixture_groups_model((enum fixture_groups)groups, NULL);
  images[0] = fixture_image("meadow_163x97.jpg");
  images[1] = fixture_image("tower_33x200.png");
  for (int i = 0; i < N_TEMPLATES; i++) {
    char text[256];
    size_t size = (size_t)test_random_range(&random, 1, i % 3 ? 40 : 220);
    for (size_t j = 0; j < size; j++) text[j] = (char)('a' + (j + (size_t)(i % 4)) % 26);
    text[size] = '\0';
    const struct omma_sampling sampling = {.max_tokens = test_random_range(&random, 1, i % 5 ? 20 : 150), .ignore_eos = true};
    requests[i] =
        fixture_request(model, (const struct omma_image *const *)images, (size_t)(i % 4 == 1) + (i % 8 == 1), text, &sampling);
  }
}

static void close_world_model(void) {
  for (int i = 0; i < N_TEMPLATES; i++) omma_request_destroy(requests[i]);
  for (int i = 0; i < 2; i++) omma_image_destroy(images[i]);
  omma_model_close(model);
}

struct world {
  struct ommai_resources resources;
  struct ommai_scheduler scheduler;
  struct ommai_queued_request waiting; /* id 0: none */
  uint64_t next_id;
  int64_t n_ends[MAX_JOBS + 1], n_tokens[MAX_JOBS + 1], max_tokens[MAX_JOBS + 1];
  bool cancelled[MAX_JOBS + 1];
  int64_t n_ended;
};

static void on_end(void *context, uint64_t id, const struct omma_callbacks *callbacks, const struct omma_result *result) {
  struct world *world = context;
  (void)callbacks;
  world->n_ends[id]++;
  world->n_ended++;
  world->n_tokens[id] = result->n_completion_tokens;
  assert_int_equal(result->finish, world->cancelled[id] ? OMMA_FINISH_CANCELLED : OMMA_FINISH_LENGTH);
}

/* Positions below this are never written again by the sequence: they are another prompt's, or
 * published. */
static int64_t published_pages(const struct ommai_sequence *sequence) {
  int64_t full = sequence->n_prefilled / PAGE, keys = (int64_t)sequence->request->n_page_keys;
  return full < keys ? full : keys;
}

enum { MAX_PAGES = 4096 };

/* Of one group: the users of each page, and those that go on writing it. */
struct uses {
  int users[MAX_PAGES], writers[MAX_PAGES], n_used;
};

static void count_use(struct uses *uses, int32_t page, bool writes) {
  if (page < 0) return;
  uses->n_used += uses->users[page]++ == 0;
  uses->writers[page] += writes;
}

static void count_uses(const struct ommai_state_pool *pool, int g, const struct ommai_sequence *sequence, struct uses *uses) {
  const struct ommai_held_group *group = &sequence->state.groups[g];
  const struct ommai_state_group *kind = &pool->groups[g];
  if (kind->kind == OMMAI_STATE_SNAPSHOT) {
    if (group->current != group->next) count_use(uses, group->current, false);
    count_use(uses, group->next, true);
    count_use(uses, group->draft, true);
    count_use(uses, group->border, true);
    return;
  }
  for (int64_t p = group->first; p < sequence->state.n_pages; p++) {
    count_use(uses, group->pages[p], p >= published_pages(sequence));
  }
  /* what the next token reads is there, and what lies behind a chunk and a window is not */
  int64_t next = sequence->n_prefilled + sequence->n_decoded;
  if (kind->window == 0) assert_int_equal(group->first, 0);
  assert_true(group->first * PAGE <= (next > kind->window ? next - kind->window + 1 : 0) || next == 0);
  assert_true(sequence->state.n_pages - group->first <= pool->most[g]);
}

static void check_pages(const struct world *world) {
  const struct ommai_scheduler *scheduler = &world->scheduler;
  const struct ommai_state_pool *pool = world->resources.pool;
  for (int g = 0; g < pool->n_groups; g++) {
    static struct uses uses;
    const struct ommai_page_counts counts = ommai_page_pool_counts(pool->pools[g]);
    memset(&uses, 0, sizeof uses);
    for (int64_t i = 0; i < scheduler->n_live; i++) count_uses(pool, g, scheduler->live[i], &uses);
    for (int64_t page = 0; page < counts.n_pages; page++) assert_true(uses.writers[page] == 0 || uses.users[page] == 1);
    assert_int_equal(counts.n_used, uses.n_used);
    assert_int_equal(ommai_page_pool_available(pool->pools[g]), counts.n_pages - uses.n_used);
  }
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    const struct ommai_sequence *sequence = scheduler->live[i];
    assert_true(sequence->state.n_pages * PAGE >= sequence->n_prefilled + sequence->n_decoded);
    assert_true(i == 0 || scheduler->live[i - 1]->priority < sequence->priority ||
                (scheduler->live[i - 1]->priority == sequence->priority && scheduler->live[i - 1]->id < sequence->id));
  }
}

static void arrive(struct world *world, struct test_random *random, bool priorities) {
  struct omma_request *request = requests[test_random_range(random, 0, N_TEMPLATES - 1)];
  int64_t context = world->resources.sizes.limits.context;
  if ((int64_t)request->n_tokens >= context) return;
  world->waiting = (struct ommai_queued_request){.id = ++world->next_id, .request = request, .submitted = ommai_clock_ns()};
  if (priorities) world->waiting.priority = test_random_range(random, -1, 1);
  int64_t room = context - (int64_t)request->n_tokens;
  world->max_tokens[world->next_id] = request->max_tokens < room ? request->max_tokens : room;
}

static void one_turn(struct world *world, struct test_random *random, bool more, bool priorities) {
  struct ommai_scheduler *scheduler = &world->scheduler;
  if (more && !world->waiting.id && test_random_range(random, 0, 2) == 0) arrive(world, random, priorities);
  if (world->waiting.id && ommai_scheduler_admits(scheduler, &world->waiting)) {
    ommai_scheduler_add(scheduler, &world->waiting);
    world->waiting.id = 0;
  }
  if (scheduler->n_live && test_random_range(random, 0, 60) == 0) {
    uint64_t id = scheduler->live[test_random_range(random, 0, scheduler->n_live - 1)]->id;
    world->cancelled[id] = true;
    ommai_scheduler_cancel(scheduler, id);
  }
  uint64_t oldest = scheduler->n_live ? scheduler->live[0]->id : 0;
  bool had_pages = oldest && scheduler->live[0]->state.n_pages;
  ommai_scheduler_turn(scheduler);
  check_pages(world);
  if (had_pages && scheduler->n_live && scheduler->live[0]->id == oldest) {
    assert_true(scheduler->live[0]->state.n_pages > 0); /* the first one never gives way */
  }
}

/* Returns how often somebody gave way. */
static int64_t run_world(const struct omma_engine_options *options, int n_turns, uint64_t seed) {
  static struct world world;
  const struct ommai_runner_source source = ommai_cpu_runner_source(model);
  struct ommai_engine_sizes sizes;
  struct omma_error error;
  struct test_random random = {seed};
  const struct ommai_scheduler_events events = {.context = &world, .finish = on_end};
  memset(&world, 0, sizeof world);
  assert_ok(ommai_engine_sizes(model, &source, options, &sizes, &error), &error);
  assert_ok(ommai_resources_create(model, &source, &sizes, &world.resources, &error), &error);
  assert_ok(ommai_scheduler_init(&world.scheduler, &world.resources, &events, &error), &error);
  int turn = 0;
  for (; turn < n_turns || world.waiting.id || ommai_scheduler_has_work(&world.scheduler); turn++) {
    one_turn(&world, &random, turn < n_turns && world.next_id < MAX_JOBS, options->by_priority);
    assert_true(turn < 20 * n_turns); /* everybody ends */
  }
  assert_int_equal(world.n_ended, world.next_id);
  for (uint64_t id = 1; id <= world.next_id; id++) {
    assert_int_equal(world.n_ends[id], 1);
    if (!world.cancelled[id]) assert_int_equal(world.n_tokens[id], world.max_tokens[id]);
  }
  int64_t n_preemptions = world.resources.stats.n_preemptions;
  for (int g = 0; g < world.resources.pool->n_groups; g++) {
    assert_int_equal(ommai_page_pool_counts(world.resources.pool->pools[g]).n_used, 0);
  }
  ommai_scheduler_free(&world.scheduler);
  ommai_resources_free(&world.resources);
  return n_preemptions;
}

static void what_must_hold_always_holds(int groups, int n_turns) {
  open_world_model(groups);
  int64_t n_preemptions = 0;
  const struct omma_engine_options settings[] = {
      {.max_sequences = 8, .slice_ms = 1},
      {.max_sequences = 6,
       .kv_cache_bytes = fixture_kv_bytes(model, 5),
       .reserve_tokens = -1,
       .slice_ms = 1,
       .prefill_chunk = 64},
      {.max_sequences = 12,
       .kv_cache_bytes = fixture_kv_bytes(model, 9),
       .reserve_tokens = 1,
       .draft_tokens = 3,
       .lookup_min = 1},
      {.max_sequences = 3,
       .kv_cache_bytes = fixture_kv_bytes(model, 4),
       .reserve_tokens = -1,
       .no_prefix_cache = true,
       .encoder_cache_bytes = -1},
      {.max_sequences = 10,
       .kv_cache_bytes = fixture_kv_bytes(model, 7),
       .reserve_tokens = -1,
       .by_priority = true,
       .encoder_cache_bytes = 50000},
  };
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) n_preemptions += run_world(&settings[i], n_turns, 7 + i);
  print_message("%d preemptions\n", (int)n_preemptions);
  assert_true(n_preemptions > 10 || test_small());
  close_world_model();
}

static void with_pages(void **state) {
  (void)state;
  what_must_hold_always_holds(-1, test_small() ? 200 : 10000);
}

static void with_windows(void **state) {
  (void)state;
  what_must_hold_always_holds(FIXTURE_SLIDING, test_small() ? 100 : 2000);
  what_must_hold_always_holds(FIXTURE_ALTERNATING, test_small() ? 100 : 1000);
}

static void with_snapshots(void **state) {
  (void)state;
  what_must_hold_always_holds(FIXTURE_HYBRID, test_small() ? 100 : 2000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(with_pages),
      cmocka_unit_test(with_windows),
      cmocka_unit_test(with_snapshots),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
