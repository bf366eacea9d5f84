/* What a sequence holds of several groups, and what it leaves to others: windows, snapshots, and
 * where a prompt can go on. */
#include "engine/state_pool.h"

#include <omma/attention.h>

#include "base/allocator.h"
#include "support/guarded.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS, CHUNK = 128, MAX_PAGES = 32 };

static const struct ommai_state_group pages = {OMMAI_STATE_PAGES, 0, 1}, window = {OMMAI_STATE_WINDOW, 100, 1},
                                      snapshot = {OMMAI_STATE_SNAPSHOT, 0, 1};

static struct omma_kv_page_key keys[MAX_PAGES];

static int set_up(void **state) {
  (void)state;
  for (int i = 0; i < MAX_PAGES; i++) keys[i].bytes[0] = (uint8_t)(i + 1);
  return 0;
}

static struct ommai_state_pool *make(const struct ommai_state_group *second, int64_t n_first, int64_t n_second) {
  const struct ommai_state_group groups[] = {pages, *second};
  const int64_t n_pages[] = {n_first, n_second};
  struct ommai_state_pool *pool;
  struct omma_error error;
  assert_ok(ommai_state_pool_create(groups, 2, n_pages, CHUNK, &ommai_default_allocator, &pool, &error), &error);
  return pool;
}

static struct ommai_held_state hold(const struct ommai_state_pool *pool) {
  struct ommai_held_state held;
  struct omma_error error;
  assert_ok(ommai_held_state_init(&held, pool, MAX_PAGES, &ommai_default_allocator, &error), &error);
  return held;
}

static void let_go(struct ommai_state_pool *pool, struct ommai_held_state *held) {
  ommai_state_pool_give_back(pool, held);
  ommai_held_state_free(held, &ommai_default_allocator);
}

static int64_t used(const struct ommai_state_pool *pool, int g) { return ommai_page_pool_counts(pool->pools[g]).n_used; }
static int64_t kept(const struct ommai_state_pool *pool, int g) { return ommai_page_pool_counts(pool->pools[g]).n_kept; }

/* A prompt of n tokens in chunks, everything published that can be; the first of them at `from`. */
static void compute(struct ommai_state_pool *pool, struct ommai_held_state *held, int64_t from, int64_t n) {
  for (int64_t first = from, end; first < n; first = end) {
    end = first + CHUNK < n ? first + CHUNK : n;
    bool border = end % PAGE && end / PAGE * PAGE > first;
    assert_true(ommai_state_pool_take(pool, held, first, end));
    if (border) ommai_state_pool_mark_border(pool, held, &keys[end / PAGE - 1]);
    ommai_state_pool_go_on(pool, held);
    for (int64_t i = first / PAGE; i < end / PAGE; i++) (void)ommai_state_pool_publish(pool, held, i, &keys[i]);
    if (border || end % PAGE == 0) ommai_state_pool_publish_snapshot(pool, held, border, &keys[end / PAGE - 1]);
  }
}

static void pages_behind_the_window_are_given_back(void **state) {
  (void)state;
  struct ommai_state_pool *pool = make(&window, 20, 5);
  struct ommai_held_state held = hold(pool);
  /* 99 positions before a chunk of 128, which need not begin a page */
  assert_int_equal(pool->most[1], 5);
  compute(pool, &held, 0, 20 * PAGE - 1);
  assert_int_equal(used(pool, 0), 20);
  assert_true(used(pool, 1) <= 4);
  assert_true(ommai_state_pool_take(pool, &held, 20 * PAGE - 1, 20 * PAGE));
  assert_int_equal(held.groups[1].first, (20 * PAGE - 100) / PAGE);
  assert_int_equal(held.groups[1].pages[0], -1);
  assert_int_equal(used(pool, 1), 20 - held.groups[1].first);
  let_go(pool, &held);
  assert_int_equal(used(pool, 0) + used(pool, 1), 0);
  ommai_state_pool_destroy(pool);
}

/* A window needs its last pages alone, and these all. */
static void a_prompt_goes_on_where_its_window_is_whole(void **state) {
  (void)state;
  struct ommai_state_pool *pool = make(&window, 32, 8);
  struct ommai_held_state held = hold(pool), next = hold(pool);
  compute(pool, &held, 0, 12 * PAGE);
  let_go(pool, &held);
  /* of 12 pages in 8 places the last 8 are there; the border after page 7 reads pages 6 and 5 */
  assert_int_equal(kept(pool, 0), 12);
  assert_int_equal(kept(pool, 1), 8);
  assert_int_equal(ommai_state_pool_match(pool, &next, keys, 5), 0);
  assert_int_equal(ommai_state_pool_match(pool, &next, keys, 7), 7);
  assert_int_equal(next.groups[1].first, (7 * PAGE - 99) / PAGE);
  assert_int_equal(used(pool, 0), 7);
  assert_int_equal(used(pool, 1), 7 - next.groups[1].first);
  /* and on from there, over pages that it holds and others */
  assert_int_equal(ommai_state_pool_match(pool, &next, keys, 12), 5);
  assert_int_equal(next.n_pages, 12);
  assert_int_equal(used(pool, 1), 2);
  let_go(pool, &next);
  ommai_state_pool_destroy(pool);
}

static void a_prompt_goes_on_from_a_snapshot(void **state) {
  (void)state;
  struct ommai_state_pool *pool = make(&snapshot, 32, 6);
  struct ommai_held_state held = hold(pool), next = hold(pool);
  compute(pool, &held, 0, 2 * CHUNK + PAGE + 5); /* at 2, 4 and, within a chunk, at 5 */
  let_go(pool, &held);
  assert_int_equal(kept(pool, 1), 3);
  assert_int_equal(ommai_state_pool_match(pool, &next, keys, 1), 0);
  assert_int_equal(ommai_state_pool_match(pool, &next, keys, 3), 2);
  int32_t shared = next.groups[1].current;
  assert_true(shared >= 0 && next.groups[1].next == -1);
  compute(pool, &next, 2 * PAGE, 2 * PAGE + 10);
  assert_true(next.groups[1].current != shared); /* it was published */
  assert_int_equal(used(pool, 1), 1);
  let_go(pool, &next);
  ommai_state_pool_destroy(pool);
}

static void pages_take_their_snapshots_along(void **state) {
  (void)state;
  struct ommai_state_pool *pool = make(&snapshot, 8, 8);
  struct ommai_held_state held = hold(pool), other = hold(pool);
  compute(pool, &held, 0, 3 * CHUNK); /* 6 of 8 pages */
  let_go(pool, &held);
  assert_int_equal(kept(pool, 1), 3);
  assert_true(ommai_state_pool_take(pool, &other, 0, 4 * PAGE)); /* the last two of six go */
  assert_int_equal(kept(pool, 0), 4);
  assert_int_equal(kept(pool, 1), 2);
  let_go(pool, &other);
  ommai_state_pool_destroy(pool);
}

static void expect_row(struct ommai_held_state *held, const struct ommai_state_pool *pool, enum ommai_row_kind kind,
                       int32_t read, int32_t written) {
  const int32_t *row = ommai_held_state_rows(held, pool, kind).of_group[1];
  assert_int_equal(row[OMMAI_SNAPSHOT_READ], read);
  assert_int_equal(row[OMMAI_SNAPSHOT_WRITTEN], written);
}

/* Drafts are computed in a page of their own, which takes the state's place only when all were
 * right. */
static void drafts_do_not_touch_the_state(void **state) {
  (void)state;
  struct ommai_state_pool *pool = make(&snapshot, 8, 4);
  struct ommai_held_state held = hold(pool);
  compute(pool, &held, 0, CHUNK);
  int32_t before = held.groups[1].current;
  assert_true(ommai_state_pool_take(pool, &held, CHUNK, CHUNK + 1));
  assert_true(ommai_state_pool_take_draft(pool, &held));
  int32_t own = held.groups[1].next, draft = held.groups[1].draft;
  assert_true(before != own && own != draft && before != draft);
  expect_row(&held, pool, OMMAI_ROW_BEGIN, before, own);
  expect_row(&held, pool, OMMAI_ROW_GO_ON, own, own);
  expect_row(&held, pool, OMMAI_ROW_FORK, own, draft);
  expect_row(&held, pool, OMMAI_ROW_DRAFT, draft, draft);
  ommai_state_pool_go_on(pool, &held);
  expect_row(&held, pool, OMMAI_ROW_BEGIN, own, own);
  ommai_held_state_accept_drafts(&held, pool);
  expect_row(&held, pool, OMMAI_ROW_BEGIN, draft, draft);
  expect_row(&held, pool, OMMAI_ROW_FORK, draft, own);
  let_go(pool, &held);
  assert_int_equal(used(pool, 1), 0);
  ommai_state_pool_destroy(pool);
}

/* The keys of a prompt end at memory that cannot be read. */
static void no_key_beyond_the_last_is_read(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    struct ommai_state_pool *pool = make(kind ? &snapshot : &window, 32, 16);
    struct ommai_held_state held = hold(pool);
    compute(pool, &held, 0, 12 * PAGE);
    let_go(pool, &held);
    for (int64_t n = 0; n <= 12; n++) {
      struct guarded copy = guarded_new((size_t)n * sizeof *keys, true);
      const struct omma_kv_page_key *own = (const struct omma_kv_page_key *)(const void *)copy.data;
      memcpy(copy.data, keys, copy.size);
      int64_t found = ommai_state_pool_find(pool, own, n);
      assert_int_equal(found, kind ? n / 2 * 2 : n); /* a chunk is two pages */
      held = hold(pool);
      assert_int_equal(ommai_state_pool_match(pool, &held, own, n), found);
      let_go(pool, &held);
      guarded_free(&copy);
    }
    ommai_state_pool_destroy(pool);
  }
}

/* Whoever asks for more than is there, or promised, gets nothing of any group. */
static void pages_are_promised_by_group(void **state) {
  (void)state;
  struct ommai_state_pool *pool = make(&window, 20, 8);
  struct ommai_held_state held = hold(pool);
  int64_t promised[OMMAI_MAX_STATE_GROUPS] = {0};
  assert_true(ommai_state_pool_has(pool, keys, 0, 20 * PAGE, promised));
  assert_false(ommai_state_pool_has(pool, keys, 0, 21 * PAGE, promised));
  assert_true(ommai_state_pool_take(pool, &held, 0, 2 * PAGE));
  ommai_state_pool_promise(pool, &held, 10 * PAGE, promised);
  assert_int_equal(promised[0], 8);
  assert_int_equal(promised[1], 3); /* 5 at once */
  assert_true(ommai_state_pool_has(pool, keys, 0, 3 * PAGE, promised));
  assert_false(ommai_state_pool_has(pool, keys, 0, 4 * PAGE, promised));
  assert_false(ommai_state_pool_take(pool, &held, 2 * PAGE, 11 * PAGE));
  assert_int_equal(used(pool, 0), 2);
  let_go(pool, &held);
  ommai_state_pool_destroy(pool);
}

/* A sequence needs two: where it stands and where it goes on, which are one in a step in place. */
static void snapshots_are_promised(void **state) {
  (void)state;
  struct ommai_state_pool *pool = make(&snapshot, 20, 4);
  struct ommai_held_state held = hold(pool);
  const int64_t still[] = {2, 1, 1, 0};
  for (int i = 0; i < 4; i++) {
    int64_t promised[OMMAI_MAX_STATE_GROUPS] = {0};
    if (i == 1) assert_true(ommai_state_pool_take(pool, &held, 0, CHUNK)); /* it goes on in one */
    if (i == 2) ommai_state_pool_go_on(pool, &held);                       /* and stands there */
    if (i == 3) {
      ommai_state_pool_publish_snapshot(pool, &held, false, &keys[1]);
      assert_true(ommai_state_pool_take(pool, &held, CHUNK, 2 * CHUNK));
    }
    ommai_state_pool_promise(pool, &held, 4 * CHUNK, promised);
    assert_int_equal(promised[1], still[i]);
  }
  let_go(pool, &held);
  ommai_state_pool_destroy(pool);
}

/* Only what was published is left alone: a state that others know already goes on in its page, as
 * does one that has left a snapshot at a border. */
static void a_state_goes_on_in_place(void **state) {
  (void)state;
  struct ommai_state_pool *pool = make(&snapshot, 20, 8);
  struct ommai_held_state first = hold(pool), second = hold(pool);
  compute(pool, &first, 0, CHUNK);
  assert_int_equal(first.groups[1].next, -1);
  compute(pool, &second, 0, CHUNK);
  assert_true(second.groups[1].next >= 0 && second.groups[1].next == second.groups[1].current);
  let_go(pool, &second);
  second = hold(pool);
  compute(pool, &second, 0, CHUNK + PAGE + 5);
  assert_true(second.groups[1].next >= 0 && second.groups[1].next == second.groups[1].current);
  let_go(pool, &second);
  let_go(pool, &first);
  ommai_state_pool_destroy(pool);
}

static void failed_allocations_leave_nothing(void **state) {
  (void)state;
  const struct ommai_state_group groups[] = {pages, window, snapshot};
  const int64_t n_pages[] = {3, 4, 5};
  struct test_allocator allocator;
  enum omma_status status = OMMA_ERROR_MEMORY;
  test_allocator_init(&allocator);
  for (int64_t n = 0; status != OMMA_OK; n++) {
    struct ommai_state_pool *pool;
    struct ommai_held_state held;
    struct omma_error error;
    allocator.fail_at = allocator.n_allocations + n;
    status = ommai_state_pool_create(groups, 3, n_pages, CHUNK, &allocator.interface, &pool, &error);
    if (status == OMMA_OK) {
      int64_t n_before = allocator.n_live; /* tables of pages and windows, none of snapshots */
      status = ommai_held_state_init(&held, pool, MAX_PAGES, &allocator.interface, &error);
      if (status == OMMA_OK) assert_int_equal(allocator.n_live - n_before, 2);
      ommai_state_pool_give_back(pool, &held);
      ommai_held_state_free(&held, &allocator.interface);
      ommai_state_pool_destroy(pool);
    }
    assert_true(status == OMMA_OK || status == OMMA_ERROR_MEMORY);
    assert_int_equal(allocator.n_live, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages_behind_the_window_are_given_back),
      cmocka_unit_test(a_prompt_goes_on_where_its_window_is_whole),
      cmocka_unit_test(a_prompt_goes_on_from_a_snapshot),
      cmocka_unit_test(pages_take_their_snapshots_along),
      cmocka_unit_test(drafts_do_not_touch_the_state),
      cmocka_unit_test(pages_are_promised_by_group),
      cmocka_unit_test(snapshots_are_promised),
      cmocka_unit_test(a_state_goes_on_in_place),
      cmocka_unit_test(no_key_beyond_the_last_is_read),
      cmocka_unit_test(failed_allocations_leave_nothing),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
