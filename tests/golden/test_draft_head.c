/* The draft head against transformers' own layer (tools/fixture_draft.py), in f32: its states, what
 * it drafts within an answer, and from its own draft tokens, over images, videos, chunks of prompts
 * and steps of several rows. */
#include <stdlib.h>

#include "base/allocator.h"
#include "request/request.h"
#include "runner/cpu_inside.h"
#include "runner/cpu_runner.h"
#include "support/golden.h"
#include "support/test.h"

enum { MAX_PAGES = 16, CHUNK = 64, STEP_ROWS = 32, N_CHAIN = 3 };

static const double BOUND = 1e-4; /* relative L2 of a row */

static const struct ommai_sampler_settings greedy = {.top_p = 1, .repetition_penalty = 1};

/* One request on its way. */
struct run {
  const struct omma_model *model;
  struct ommai_runner *runner;
  struct omma_request *request;
  struct ommai_image_rows *images[GOLDEN_MAX_IMAGES];
  int32_t pages[MAX_PAGES], snapshot[OMMAI_SNAPSHOT_PAGES];
  int32_t answer[64];
};

static struct omma_model *open_model(const char *name) {
  char path[1024];
  struct omma_error error;
  struct omma_model *model;
  const struct omma_model_options options = {.weights = OMMA_WEIGHTS_F32, .n_threads = 2, .draft_head = true};
  golden_path(name, NULL, path, sizeof path);
  assert_ok(omma_model_open(path, &options, &model, &error), &error);
  return model;
}

static struct ommai_runner *make_runner(const struct omma_model *model) {
  struct omma_error error;
  struct ommai_runner *runner;
  const struct ommai_runner_source source = ommai_cpu_runner_source(model);
  const struct ommai_runner_limits limits = {.n_pages = {MAX_PAGES, 4},
                                             .context = MAX_PAGES * 64,
                                             .prefill_chunk = CHUNK,
                                             .patch_budget = 4096,
                                             .max_sequences = 1,
                                             .max_rows = STEP_ROWS,
                                             .drawn_rows = STEP_ROWS};
  assert_ok(source.create(source.network, &limits, &runner, &error), &error);
  return runner;
}

static struct ommai_state_pages state_pages(const struct run *run) {
  struct ommai_state_pages of = {{0}};
  for (int g = 0; g < run->runner->facts.n_groups; g++) {
    of.of_group[g] = run->runner->facts.groups[g].kind == OMMAI_STATE_SNAPSHOT ? run->snapshot : run->pages;
  }
  return of;
}

static void encode_images(struct run *run) {
  const struct ommai_runner_functions *functions = run->runner->functions;
  const struct omma_request *request = run->request;
  struct omma_error error;
  bool done = request->n_images == 0;
  for (size_t i = 0; i < request->n_images; i++) {
    assert_ok(ommai_image_rows_create(&run->runner->facts.image, request->images[i].sizes.n_tokens, &ommai_default_allocator,
                                      &run->images[i], &error),
              &error);
  }
  if (done) return;
  assert_ok(functions->encode_begin(run->runner, request->images, run->images, (int64_t)request->n_images, NULL, &error),
            &error);
  while (!done) assert_ok(functions->encode_advance(run->runner, 1000000000, &done, &error), &error);
  functions->encode_end(run->runner);
}

/* Returns the last token's row of the last chunk. */
static int64_t prefill(struct run *run) {
  const struct omma_request *request = run->request;
  const struct ommai_prompt_token none = {.token = -1};
  int64_t n = (int64_t)request->n_tokens, count = 0;
  struct omma_error error;
  for (int64_t first = 0; first < n; first += count) {
    bool done = false;
    count = n - first < CHUNK ? n - first : CHUNK;
    const struct ommai_prompt_piece piece = {.first = first,
                                             .n_tokens = count,
                                             .tokens = request->tokens + first,
                                             .images = run->images,
                                             .pages = state_pages(run),
                                             .next = first + count < n ? request->tokens[first + count] : none};
    run->snapshot[OMMAI_SNAPSHOT_READ] = first ? 0 : -1;
    assert_ok(run->runner->functions->prompt_begin(run->runner, &piece, 1, &error), &error);
    while (!done) assert_ok(run->runner->functions->prompt_advance(run->runner, 1000000000, &done, &error), &error);
  }
  run->snapshot[OMMAI_SNAPSHOT_READ] = 0;
  return count - 1;
}

/* Shows n_rows rows, of which the first is before answer token `at`; what is drafted after the
 * last of their next tokens. */
static void draft_tokens(struct run *run, enum ommai_draw_from from, int64_t row, int64_t at, int64_t n_rows, int64_t n_tokens,
                         int32_t *tokens) {
  const struct omma_request *request = run->request;
  const int64_t index = (int64_t)request->n_tokens + at - 1;
  struct omma_error error;
  struct ommai_draft shown = {.row = row,
                              .n_rows = n_rows,
                              .next = run->answer + at,
                              .index = index,
                              .pages = state_pages(run),
                              .settings = &greedy,
                              .step = at + n_rows,
                              .n_tokens = n_tokens,
                              .tokens = tokens};
  for (int axis = 0; axis < 3; axis++) {
    shown.position[axis] = at ? request->next_position + (int32_t)at - 1 : request->tokens[index].position[axis];
  }
  assert_ok(run->runner->functions->draft(run->runner, from, &shown, 1, &error), &error);
}

static void decode(struct run *run, int64_t at, int64_t n_rows) {
  struct ommai_step_row rows[STEP_ROWS];
  struct omma_error error;
  for (int64_t i = 0; i < n_rows; i++) {
    rows[i] = (struct ommai_step_row){.token = run->answer[at + i],
                                      .position = run->request->next_position + (int32_t)(at + i),
                                      .index = (int64_t)run->request->n_tokens + at + i,
                                      .pages = state_pages(run)};
  }
  assert_ok(run->runner->functions->decode(run->runner, rows, n_rows, false, &error), &error);
}

static void expect_state(const struct run *run, const struct golden_case *c, const float *expected) {
  const struct ommai_cpu_runner *cpu = ommai_cpu_inside(run->runner);
  struct golden_error found = golden_compare(cpu->tables.draft_states, expected, 1, run->model->config.text.hidden_size);
  if (found.worst_row > BOUND) fail_msg("%s, %s: the draft head's state is %.2e off", c->model, c->name, found.worst_row);
}

static void expect_token(const struct golden_case *c, int64_t after, int32_t got, int64_t expected) {
  if (got == expected) return;
  fail_msg("%s, %s: after %lld tokens of the answer %d is drafted, expected %lld", c->model, c->name, (long long)after, got,
           (long long)expected);
}

/* Shows the whole answer, some rows at a time. */
static void check_drafts(struct run *run, const struct golden_case *c, int64_t last_row) {
  int64_t n, hidden = run->model->config.text.hidden_size;
  int64_t *tokens = golden_i64(c, "draft.tokens", &n), *chain = golden_i64(c, "draft.chain", NULL);
  float *states = golden_f32(c, "draft.states", NULL);
  int32_t drafted[N_CHAIN];
  draft_tokens(run, OMMAI_DRAW_FROM_CHUNK, last_row, 0, 1, 1, drafted);
  expect_token(c, 1, drafted[0], tokens[0]);
  expect_state(run, c, states);
  for (int64_t at = 1, n_rows; at < n; at += n_rows) {
    n_rows = at % 4 < n - at ? 1 + at % 4 : n - at;
    if (n_rows > n - at) n_rows = n - at;
    decode(run, at - 1, n_rows);
    draft_tokens(run, OMMAI_DRAW_FROM_STEP, 0, at, n_rows, 1, drafted);
    expect_token(c, at + n_rows, drafted[0], tokens[at + n_rows - 1]);
    if (at + n_rows < n) continue;
    expect_state(run, c, states + hidden);
    draft_tokens(run, OMMAI_DRAW_FROM_STEP, 0, at, n_rows, N_CHAIN, drafted);
    for (int i = 0; i < N_CHAIN; i++) expect_token(c, n + i, drafted[i], chain[i]);
  }
  free(tokens);
  free(chain);
  free(states);
}

static void check_case(const struct omma_model *model, const struct golden_case *c) {
  struct omma_error error;
  struct run run = {.model = model, .runner = make_runner(model), .snapshot = {-1, 0, -1}};
  const struct omma_request_options options = {.continue_final_message = c->continued};
  int64_t n;
  int64_t *answer = golden_i64(c, "generate.tokens", &n);
  assert_in_range(n, 1, 64);
  for (int64_t i = 0; i < n; i++) run.answer[i] = (int32_t)answer[i];
  for (int i = 0; i < MAX_PAGES; i++) run.pages[i] = (i + 5) % MAX_PAGES;
  assert_ok(omma_request_create(model, c->messages, c->n_messages, &options, &run.request, &error), &error);
  assert_ok(run.runner->functions->slot_begin(run.runner, 0, &greedy, run.request->ids, run.request->n_tokens, &error), &error);
  encode_images(&run);
  check_drafts(&run, c, prefill(&run));
  for (size_t i = 0; i < run.request->n_images; i++) ommai_image_rows_free(run.images[i]);
  run.runner->functions->destroy(run.runner);
  omma_request_destroy(run.request);
  free(answer);
}

static void drafts_equal_those_of_the_official_layer(void **state) {
  (void)state;
  static const char *const models[] = {"qwen3_5_tied", "qwen3_5_untied", "qwen3_5_moe"};
  for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
    struct omma_model *model = open_model(models[m]);
    json_t *manifest = golden_manifest(models[m]);
    struct golden_case c;
    for (size_t i = 0; golden_any_case_open(models[m], manifest, i, &c); i++) {
      check_case(model, &c);
      golden_case_close(&c);
    }
    json_decref(manifest);
    omma_model_close(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(drafts_equal_those_of_the_official_layer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
