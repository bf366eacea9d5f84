/* Pages: users, published prompts, who goes first when pages run out; and a long random course
 * against a plain model of the rules. */
#include "engine/page_pool.h"

#include "base/allocator.h"
#include "base/error.h"
#include "support/test.h"

static struct ommai_page_pool *make(int64_t n_pages) {
  struct ommai_page_pool *pool;
  struct omma_error error;
  assert_ok(ommai_page_pool_create(n_pages, &ommai_default_allocator, &pool, &error), &error);
  return pool;
}

static struct omma_kv_page_key key_of(int64_t name) {
  struct omma_kv_page_key key = {{0}};
  memcpy(key.bytes, &name, sizeof name);
  return key;
}

static void pages_are_taken_and_given_back(void **state) {
  (void)state;
  enum { N = 7 };
  struct ommai_page_pool *pool = make(N);
  int32_t a[N], b[N], c[N] = {-5};
  int owner[N] = {0};
  assert_true(ommai_page_pool_take(pool, 3, a));
  assert_true(ommai_page_pool_take(pool, 4, b));
  assert_false(ommai_page_pool_take(pool, 1, c));
  assert_int_equal(c[0], -5);
  assert_true(ommai_page_pool_take(pool, 0, c));
  for (int i = 0; i < 3; i++) owner[a[i]]++;
  for (int i = 0; i < 4; i++) owner[b[i]]++;
  for (int i = 0; i < N; i++) assert_int_equal(owner[i], 1);
  ommai_page_pool_give_back(pool, 3, a);
  assert_int_equal(ommai_page_pool_available(pool), 3);
  assert_true(ommai_page_pool_take(pool, 3, c));
  assert_memory_equal(c, a, sizeof(int32_t[3])); /* the pages that are still in some cache */
  ommai_page_pool_give_back(pool, 3, c);
  ommai_page_pool_give_back(pool, 4, b);
  assert_int_equal(ommai_page_pool_available(pool), N);
  ommai_page_pool_destroy(pool);
  ommai_page_pool_destroy(NULL);
}

static void published_pages_are_found_and_shared(void **state) {
  (void)state;
  struct ommai_page_pool *pool = make(6);
  struct omma_kv_page_key keys[4] = {key_of(10), key_of(11), key_of(12), key_of(13)};
  int32_t first[4], second[4], third[4];
  int64_t n_kept;
  assert_true(ommai_page_pool_take(pool, 4, first));
  for (int i = 0; i < 3; i++) ommai_page_pool_publish(pool, first[i], &keys[i]);
  assert_int_equal(ommai_page_pool_match(pool, keys, 4, second), 3);
  assert_memory_equal(first, second, sizeof(int32_t[3]));
  ommai_page_pool_give_back(pool, 4, first);
  assert_int_equal(ommai_page_pool_counts(pool).n_used, 3);
  ommai_page_pool_give_back(pool, 3, second);
  assert_int_equal(ommai_page_pool_counts(pool).n_used, 0);
  assert_int_equal(ommai_page_pool_counts(pool).n_kept, 3);
  assert_int_equal(ommai_page_pool_available(pool), 6);
  assert_int_equal(ommai_page_pool_find(pool, keys, 4, &n_kept), 3);
  assert_int_equal(n_kept, 3);
  assert_int_equal(ommai_page_pool_match(pool, keys, 2, third), 2);
  assert_int_equal(ommai_page_pool_find(pool, keys, 4, &n_kept), 3);
  assert_int_equal(n_kept, 1);
  ommai_page_pool_give_back(pool, 2, third);
  /* A second page under a key is not published. */
  assert_true(ommai_page_pool_take(pool, 1, third));
  ommai_page_pool_publish(pool, third[0], &keys[0]);
  assert_int_equal(ommai_page_pool_match(pool, keys, 1, second), 1);
  assert_int_not_equal(second[0], third[0]);
  ommai_page_pool_give_back(pool, 1, second);
  ommai_page_pool_give_back(pool, 1, third);
  ommai_page_pool_destroy(pool);
}

/* The end of the prompt that was used longest ago goes first, pages in use never. */
static void what_was_used_last_stays_longest(void **state) {
  (void)state;
  struct ommai_page_pool *pool = make(4);
  struct omma_kv_page_key old[2] = {key_of(1), key_of(2)}, young[2] = {key_of(3), key_of(4)};
  int32_t a[2], b[2], c[2];
  int64_t n_kept;
  assert_true(ommai_page_pool_take(pool, 2, a) && ommai_page_pool_take(pool, 2, b));
  for (int i = 0; i < 2; i++) {
    ommai_page_pool_publish(pool, a[i], &old[i]);
    ommai_page_pool_publish(pool, b[i], &young[i]);
  }
  ommai_page_pool_give_back(pool, 2, b);
  ommai_page_pool_give_back(pool, 2, a);
  /* now the young ones were used last */
  assert_int_equal(ommai_page_pool_match(pool, young, 2, b), 2);
  ommai_page_pool_give_back(pool, 2, b);
  assert_true(ommai_page_pool_take(pool, 1, c));
  assert_int_equal(c[0], a[1]);
  assert_int_equal(ommai_page_pool_find(pool, old, 2, &n_kept), 1);
  assert_int_equal(ommai_page_pool_find(pool, young, 2, &n_kept), 2);
  assert_int_equal(ommai_page_pool_counts(pool).n_evictions, 1);
  assert_int_equal(ommai_page_pool_match(pool, young, 2, b), 2);
  assert_false(ommai_page_pool_take(pool, 2, c + 1));
  ommai_page_pool_destroy(pool);
}

/* ---- a random course ---- */

enum { N_PAGES = 23, N_USERS = 4, MAX_HELD = 12, N_CHAINS = 5 };

struct user {
  int32_t pages[MAX_HELD];
  int64_t n, chain, n_filled;
};

static struct omma_kv_page_key chain_key(int64_t chain, int64_t index) { return key_of(chain * 1000 + index + 1); }

static void begin(struct ommai_page_pool *pool, struct user *user, const int64_t *content, struct test_random *random) {
  struct omma_kv_page_key keys[MAX_HELD];
  user->chain = test_random_range(random, 0, N_CHAINS - 1);
  for (int64_t i = 0; i < MAX_HELD; i++) keys[i] = chain_key(user->chain, i);
  user->n = user->n_filled = ommai_page_pool_match(pool, keys, test_random_range(random, 0, MAX_HELD), user->pages);
  for (int64_t i = 0; i < user->n; i++) assert_int_equal(content[user->pages[i]], user->chain * 1000 + i + 1);
}

static void grow(struct ommai_page_pool *pool, struct user *user, int64_t *content, struct test_random *random) {
  int64_t n = test_random_range(random, 1, MAX_HELD - user->n), available = ommai_page_pool_available(pool);
  bool taken = ommai_page_pool_take(pool, n, user->pages + user->n);
  assert_true(taken == (n <= available));
  for (int64_t i = 0; i < (taken ? n : 0); i++) content[user->pages[user->n + i]] = -1;
  user->n += taken ? n : 0;
}

/* Nobody writes into a page that another uses, and a page found under a key has what was written
 * under it. */
static void a_random_course_leaks_nothing(void **state) {
  (void)state;
  struct ommai_page_pool *pool = make(N_PAGES);
  struct user users[N_USERS] = {{{0}, 0, 0, 0}};
  int64_t content[N_PAGES];
  struct test_random random = {17};
  for (int step = 0; step < 20000; step++) {
    struct user *user = &users[test_random_range(&random, 0, N_USERS - 1)];
    if (user->n == 0) begin(pool, user, content, &random);
    if (user->n_filled < user->n) {
      struct omma_kv_page_key key = chain_key(user->chain, user->n_filled);
      content[user->pages[user->n_filled]] = user->chain * 1000 + user->n_filled + 1;
      ommai_page_pool_publish(pool, user->pages[user->n_filled++], &key);
    } else if (user->n < MAX_HELD && test_random_range(&random, 0, 3)) {
      grow(pool, user, content, &random);
    } else {
      ommai_page_pool_give_back(pool, user->n, user->pages);
      user->n = user->n_filled = 0;
    }
    int n_users[N_PAGES] = {0}, n_used = 0;
    for (int u = 0; u < N_USERS; u++) {
      for (int64_t i = 0; i < users[u].n; i++) n_users[users[u].pages[i]]++;
      for (int64_t i = 0; i < users[u].n_filled; i++)
        assert_int_equal(content[users[u].pages[i]], users[u].chain * 1000 + i + 1);
    }
    for (int i = 0; i < N_PAGES; i++) n_used += n_users[i] > 0;
    assert_int_equal(ommai_page_pool_counts(pool).n_used, n_used);
    assert_int_equal(ommai_page_pool_available(pool), N_PAGES - n_used);
  }
  assert_true(ommai_page_pool_counts(pool).n_evictions > 100);
  ommai_page_pool_destroy(pool);
}

static enum omma_status make_and_destroy(const struct omma_allocator *allocator, struct omma_error *error) {
  struct ommai_page_pool *pool;
  OMMAI_TRY(ommai_page_pool_create(9, allocator, &pool, error));
  ommai_page_pool_destroy(pool);
  return OMMA_OK;
}

static void memory_is_checked(void **state) {
  (void)state;
  test_fail_every_allocation(make_and_destroy, 10);
}

static void what_is_cleared_is_as_new(void **state) {
  (void)state;
  enum { N = 6 };
  struct ommai_page_pool *pool = make(N), *fresh = make(N);
  struct omma_kv_page_key keys[3] = {key_of(10), key_of(11), key_of(12)};
  int32_t pages[N], expected[N];
  int64_t n_kept;
  assert_true(ommai_page_pool_take(pool, 5, pages));
  for (int i = 0; i < 3; i++) ommai_page_pool_publish(pool, pages[i + 1], &keys[i]);
  ommai_page_pool_give_back(pool, 5, pages);
  ommai_page_pool_clear(pool);
  const struct ommai_page_counts counts = ommai_page_pool_counts(pool);
  assert_true(counts.n_used == 0 && counts.n_kept == 0 && counts.n_published == 0 && counts.n_evictions == 0);
  for (int i = 0; i < 3; i++) assert_int_equal(ommai_page_pool_find(pool, &keys[i], 1, &n_kept), 0);
  assert_true(ommai_page_pool_take(pool, N, pages) && ommai_page_pool_take(fresh, N, expected));
  assert_memory_equal(pages, expected, sizeof pages);
  for (int i = 0; i < 3; i++) assert_true(ommai_page_pool_publish(pool, pages[i], &keys[i]));
  ommai_page_pool_give_back(pool, N, pages);
  assert_int_equal(ommai_page_pool_find(pool, keys, 3, &n_kept), 3);
  ommai_page_pool_destroy(pool);
  ommai_page_pool_destroy(fresh);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages_are_taken_and_given_back),
      cmocka_unit_test(published_pages_are_found_and_shared),
      cmocka_unit_test(what_was_used_last_stays_longest),
      cmocka_unit_test(a_random_course_leaks_nothing),
      cmocka_unit_test(memory_is_checked),
      cmocka_unit_test(what_is_cleared_is_as_new),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
