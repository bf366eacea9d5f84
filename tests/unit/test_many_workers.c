/* Teams of many more workers than there are CPUs, and many teams: each task once, the same bits,
 * nothing left behind. OMMA_TEST_LARGE in the environment: teams of 64. */
#include <dirent.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "base/team.h"
#include "model/model.h"
#include "support/decoder_bench.h"
#include "support/model_fixture.h"
#include "support/test.h"
#include "support/tower_fixture.h"

enum { N_WORKERS = 256, MAX_TASKS = 3000 };

struct tally {
  int counts[MAX_TASKS];
  int inside[N_WORKERS]; /* running tasks of a worker: two at once would share scratch memory */
  int n_bad;
};

static void tally_task(void *context, int64_t task, int worker) {
  struct tally *tally = context;
  bool good = worker >= 0 && worker < N_WORKERS && __atomic_fetch_add(&tally->inside[worker], 1, __ATOMIC_SEQ_CST) == 0;
  if (!good) {
    __atomic_fetch_add(&tally->n_bad, 1, __ATOMIC_SEQ_CST);
    return;
  }
  tally->counts[task]++;
  __atomic_fetch_sub(&tally->inside[worker], 1, __ATOMIC_SEQ_CST);
}

/* Runs for some of the groups of workers, for all, and with more tasks than workers, in turn. */
static void each_task_runs_once(void **state) {
  (void)state;
  static const int sizes[] = {2, 9, 64, 7, 257, MAX_TASKS, 3, 100};
  static struct tally tally;
  struct omma_error error;
  struct ommai_team *team;
  assert_ok(ommai_team_create(N_WORKERS, true, &ommai_default_allocator, &team, &error), &error);
  for (int i = 0; i < (test_small() ? 24 : 80); i++) {
    int n = sizes[i % 8];
    memset(&tally, 0, sizeof tally);
    ommai_team_run(ommai_team_interface(team), n, tally_task, &tally);
    assert_int_equal(tally.n_bad, 0);
    for (int task = 0; task < MAX_TASKS; task++) assert_int_equal(tally.counts[task], task < n);
  }
  ommai_team_destroy(team);
}

static int count_threads(void) {
  DIR *folder = opendir("/proc/self/task");
  int count = 0;
  assert_non_null(folder);
  for (const struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

static void a_thousand_teams_leave_nothing(void **state) {
  (void)state;
  static struct tally tally;
  int n_threads = getenv("OMMA_TEST_LARGE") ? 64 : 3, before = count_threads();
  struct test_allocator allocator;
  struct omma_error error;
  test_allocator_init(&allocator);
  for (int i = 0; i < 1000; i++) {
    struct ommai_team *team;
    assert_ok(ommai_team_create(n_threads, i % 2, &allocator.interface, &team, &error), &error);
    if (i % 3) ommai_team_run(ommai_team_interface(team), 5, tally_task, &tally);
    ommai_team_destroy(team);
    assert_int_equal(allocator.n_live, 0);
  }
  /* the system takes a joined thread from its list a moment later */
  for (int i = 0; i < 1000 && count_threads() > before; i++) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(count_threads(), before);
  for (int task = 0; task < 5; task++) assert_int_equal(tally.counts[task], 666);
}

static void a_tower_keeps_its_bits(void **state) {
  (void)state;
  static const int64_t grids[][3] = {{1, 10, 8}, {1, 6, 18}};
  struct omma_error error;
  struct ommai_team *team;
  assert_ok(ommai_team_create(N_WORKERS, false, &ommai_default_allocator, &team, &error), &error);
  for (int type = 0; type < FIXTURE_TYPES; type++) {
    struct fixture_tower tower;
    fixture_tower_make(&tower, FIXTURE_TOWER_WINDOWS, type, N_WORKERS, &ommai_default_allocator);
    struct fixture_pass alone = fixture_pass_make(&tower, grids, 2, 1), many = fixture_pass_make(&tower, grids, 2, N_WORKERS);
    fixture_pass_run(&tower, &alone, INT64_MAX, NULL);
    fixture_pass_run(&tower, &many, INT64_MAX, ommai_team_interface(team));
    assert_memory_equal(alone.values, many.values, alone.n_values * sizeof *alone.values);
    fixture_pass_free(&alone);
    fixture_pass_free(&many);
    fixture_tower_free(&tower);
  }
  ommai_team_destroy(team);
}

/* A prompt and a step of four rows after it. */
static void check_decoder(const char *name) {
  enum { N = 150, ROWS = 4, VOCAB = 544, HIDDEN = 64 };
  static const struct decoder_bench_sizes sizes = {24, N, ROWS, 200, NULL};
  const struct omma_model_options options = {.weights = OMMA_WEIGHTS_BF16, .quantization = "int8", .n_threads = N_WORKERS};
  static float last[2][HIDDEN], logits[2][ROWS * VOCAB];
  struct omma_model *model = fixture_model(name, &options);
  const struct ommai_decoder_config *config = &model->network.decoder.config;
  struct test_random random = {5};
  int32_t prompt[N], pages[] = {0, 1, 2};
  assert_true(config->hidden_size <= HIDDEN && config->vocab_size <= VOCAB);
  for (int i = 0; i < N; i++) prompt[i] = (int32_t)test_random_range(&random, 0, 519);
  for (int many = 0; many < 2; many++) {
    struct decoder_bench bench = decoder_bench_make(&model->network.decoder, &sizes, many ? N_WORKERS : 1);
    struct ommai_decode_row rows[ROWS];
    decoder_bench_prefill(&bench, pages, prompt, N, N, INT64_MAX, last[many]);
    for (int32_t row = 0; row < ROWS; row++) rows[row] = decoder_bench_row(prompt[row], N + row, pages);
    decoder_bench_decode(&bench, rows, ROWS, logits[many]);
    decoder_bench_free(&bench);
  }
  assert_memory_equal(last[0], last[1], sizeof last[0]);
  assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
  omma_model_close(model);
}

static void a_decoder_keeps_its_bits(void **state) {
  (void)state;
  check_decoder("qwen3_vl_tied");
}

static void experts_keep_their_bits(void **state) {
  (void)state;
  check_decoder("qwen3_vl_moe");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_task_runs_once),     cmocka_unit_test(a_thousand_teams_leave_nothing),
      cmocka_unit_test(a_tower_keeps_its_bits),  cmocka_unit_test(a_decoder_keeps_its_bits),
      cmocka_unit_test(experts_keep_their_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
