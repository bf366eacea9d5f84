/* Masks that are made next to the network: how much work they may take in a step, and that a mask
 * which took many turns is the one that is made at once; whose tables they are made in. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "engine/mask_worker.h"
#include "model/model.h"
#include "support/model_fixture.h"
#include "support/test.h"

static void work_of_a_step_follows_its_time(void **state) {
  (void)state;
  const int64_t ms = 1000000, steps_in_ms = OMMAI_GRAMMAR_STEPS_PER_SECOND / 1000;
  /* alone, or before the first step */
  assert_int_equal(ommai_mask_step_work(1, ms), OMMAI_MASK_STEP_WORK);
  assert_int_equal(ommai_mask_step_work(8, 0), OMMAI_MASK_STEP_WORK);
  /* an eighth of a step, between two bounds */
  assert_int_equal(ommai_mask_step_work(8, 8 * ms), steps_in_ms);
  assert_int_equal(ommai_mask_step_work(2, ms / 10), OMMAI_MASK_SHORT_STEP_WORK);
  assert_int_equal(ommai_mask_step_work(2, 16 * ms), OMMAI_MASK_STEP_WORK);
  assert_int_equal(ommai_mask_step_work(2, INT64_MAX), OMMAI_MASK_STEP_WORK);
}

/* An answer of one token to a pattern whose second mask is no gift. */
struct fixture {
  struct omma_grammar *grammar;
  struct ommai_grammar_matcher matcher;
  int32_t generated[1];
  int64_t n_words;
  uint32_t *mask;
};

static void open_fixture(struct fixture *fixture, const struct omma_model *model) {
  static const char pattern[] = "[a-z](.{1,40}a|.{1,41}b|.{1,42}c){1,30}";
  const struct omma_grammar_options options = {
      .struct_size = sizeof options, .kind = OMMA_GRAMMAR_REGEX, .text = pattern, .text_size = strlen(pattern)};
  struct omma_error error;
  *fixture = (struct fixture){.n_words = ommai_mask_words(model->config.text.vocab_size)};
  assert_ok(omma_grammar_create(model, &options, &fixture->grammar, &error), &error);
  assert_non_null(fixture->mask = calloc((size_t)fixture->n_words, sizeof *fixture->mask));
  ommai_grammar_matcher_start(&fixture->matcher, fixture->grammar);
  ommai_grammar_matcher_mask(&fixture->matcher, true, fixture->mask);
  while (!ommai_mask_has(fixture->mask, fixture->generated[0])) fixture->generated[0]++;
  assert_ok(ommai_grammar_matcher_take(&fixture->matcher, fixture->generated, 1, &error), &error);
}

static void close_fixture(struct fixture *fixture) {
  omma_grammar_destroy(fixture->grammar);
  free(fixture->mask);
}

static struct ommai_mask_wish wish_of(struct fixture *fixture) {
  return (struct ommai_mask_wish){
      .matcher = &fixture->matcher, .generated = fixture->generated, .n_generated = 1, .ignore_eos = true};
}

static void a_late_mask_is_the_one_made_at_once(void **state) {
  (void)state;
  struct omma_model *model = fixture_model("qwen3_vl_tied", NULL);
  struct fixture at_once, late;
  struct ommai_mask_worker worker;
  struct omma_error error;
  open_fixture(&at_once, model);
  open_fixture(&late, model);
  assert_ok(ommai_mask_worker_init(&worker, 2, &model->allocator, &error), &error);

  struct ommai_mask_wish wish = wish_of(&at_once);
  assert_true(ommai_grammar_matcher_needs_mask(wish.matcher, 0));
  ommai_mask_worker_begin(&worker, &wish, 1, OMMAI_MASK_STEP_WORK);
  ommai_mask_worker_wait(&worker);
  assert_true(ommai_grammar_matcher_is_ready(&at_once.matcher));

  wish = wish_of(&late);
  ommai_mask_worker_begin(&worker, &wish, 1, 1);
  ommai_mask_worker_wait(&worker);
  assert_false(ommai_grammar_matcher_is_ready(&late.matcher));
  ommai_mask_worker_add_late(&worker, &wish);
  while (late.grammar->is_late) {
    ommai_mask_worker_wait_late(&worker, 1000000);
    ommai_mask_worker_reap(&worker);
  }
  assert_false(late.matcher.too_hard);
  assert_true(ommai_grammar_matcher_is_ready(&late.matcher));

  ommai_grammar_matcher_mask(&at_once.matcher, true, at_once.mask);
  ommai_grammar_matcher_mask(&late.matcher, true, late.mask);
  assert_memory_equal(at_once.mask, late.mask, (size_t)at_once.n_words * sizeof *late.mask);
  ommai_mask_worker_free(&worker);
  close_fixture(&late);
  close_fixture(&at_once);
  omma_model_close(model);
}

/* Answers at several engines that share a grammar move through tables of their own. */
static void each_engine_has_tables_of_its_own(void **state) {
  (void)state;
  struct omma_model *model = fixture_model("qwen3_vl_tied", NULL);
  struct omma_error error;
  struct fixture fixture;
  open_fixture(&fixture, model);
  struct omma_grammar *grammar = fixture.grammar;
  size_t bytes = omma_grammar_bytes(grammar);
  assert_ptr_equal(ommai_grammar_of_engine(grammar, 0), grammar);
  assert_null(ommai_grammar_of_engine(grammar, 1));
  assert_ok(ommai_grammar_prepare(grammar, 1, &error), &error);
  struct omma_grammar *second = ommai_grammar_of_engine(grammar, 1);
  assert_non_null(second);
  assert_true(second->masks != grammar->masks);
  assert_int_equal(omma_grammar_bytes(grammar), bytes + sizeof *second + ommai_token_masks_bytes(second->masks));
  assert_ok(ommai_grammar_prepare(grammar, 1, &error), &error);
  assert_ptr_equal(ommai_grammar_of_engine(grammar, 1), second);
  assert_ok(ommai_grammar_prepare(NULL, 1, &error), &error);
  close_fixture(&fixture);
  omma_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(work_of_a_step_follows_its_time),
      cmocka_unit_test(a_late_mask_is_the_one_made_at_once),
      cmocka_unit_test(each_engine_has_tables_of_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
