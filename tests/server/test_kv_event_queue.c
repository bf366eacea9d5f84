/* The queue between engine and publisher: order, limits, and what is sent of events that were
 * lost. */
#include "server/publish/kv_event_queue.h"

#include "base/allocator.h"
#include "support/test.h"

static const int32_t tokens[OMMA_ATTENTION_PAGE_TOKENS] = {7, 8, 9};

static struct omma_kv_page_key key_of(int number) { return (struct omma_kv_page_key){{(uint8_t)number}}; }

static bool store(struct ommai_kv_event_queue *queue, int number, const char *salt) {
  const struct omma_kv_page page = {.key = key_of(number), .tokens = tokens, .cache_salt = salt};
  return ommai_kv_event_queue_store(queue, 0, &page);
}

static bool take_away(struct ommai_kv_event_queue *queue, int number) {
  const struct omma_kv_page_key key = key_of(number);
  return ommai_kv_event_queue_remove(queue, 0, &key);
}

/* Takes n at most: as many as named, in order; a number below 0 is a page that was removed. */
static void assert_taken(struct ommai_kv_event_queue *queue, int64_t n, bool cleared, const int *numbers, int n_numbers) {
  bool was_cleared;
  struct ommai_kv_event *first = ommai_kv_event_queue_take(queue, n, &was_cleared), *event = first;
  assert_int_equal(was_cleared, cleared);
  for (int i = 0; i < n_numbers; i++, event = event->next) {
    assert_non_null(event);
    assert_int_equal(event->key.bytes[0], numbers[i] < 0 ? -numbers[i] : numbers[i]);
    assert_int_equal(event->stored, numbers[i] > 0);
  }
  assert_null(event);
  ommai_kv_events_free(queue, first);
}

static void events_come_in_order(void **state) {
  (void)state;
  struct ommai_kv_event_queue queue;
  ommai_kv_event_queue_init(&queue, 10, &ommai_default_allocator);
  assert_true(store(&queue, 1, NULL));
  assert_false(take_away(&queue, 2));
  assert_false(store(&queue, 3, NULL));
  assert_taken(&queue, 2, true, (const int[]){1, -2}, 2);
  assert_false(take_away(&queue, 4));
  assert_taken(&queue, 5, false, (const int[]){3, -4}, 2);
  assert_taken(&queue, 5, false, NULL, 0);
  assert_true(take_away(&queue, 5));
  ommai_kv_event_queue_free(&queue);
}

static void a_page_is_copied(void **state) {
  (void)state;
  struct ommai_kv_event_queue queue;
  bool cleared;
  const struct omma_kv_page_key parent = key_of(9);
  struct omma_kv_page_image images[2] = {{{1}, -5}, {{2}, 30}};
  char salt[] = "salt";
  const struct omma_kv_page page = {key_of(1), &parent, tokens, images, 2, salt};
  ommai_kv_event_queue_init(&queue, 10, &ommai_default_allocator);
  ommai_kv_event_queue_store(&queue, 0, &page);
  images[0].first_token = images[1].first_token = salt[0] = 0;
  struct ommai_kv_event *event = ommai_kv_event_queue_take(&queue, 1, &cleared);
  assert_memory_equal(&event->parent, &parent, sizeof parent);
  assert_memory_equal(event->tokens, tokens, sizeof tokens);
  assert_int_equal(event->n_images, 2);
  assert_int_equal(event->images[0].first_token, -5);
  assert_int_equal(event->images[1].first_token, 30);
  assert_string_equal(ommai_kv_event_salt(event), "salt");
  ommai_kv_events_free(&queue, event);
  ommai_kv_event_queue_free(&queue);
}

static void what_is_taken_at_once_is_of_one_rank(void **state) {
  (void)state;
  struct ommai_kv_event_queue queue;
  const struct omma_kv_page_key key = key_of(3);
  bool cleared;
  ommai_kv_event_queue_init(&queue, 10, &ommai_default_allocator);
  store(&queue, 1, NULL);
  store(&queue, 2, NULL);
  ommai_kv_event_queue_remove(&queue, 5, &key);
  store(&queue, 4, NULL);
  assert_taken(&queue, 9, true, (const int[]){1, 2}, 2);
  struct ommai_kv_event *event = ommai_kv_event_queue_take(&queue, 9, &cleared);
  assert_true(event->rank == 5 && !event->next && event->key.bytes[0] == 3);
  ommai_kv_events_free(&queue, event);
  assert_taken(&queue, 9, false, (const int[]){4}, 1);
  ommai_kv_event_queue_free(&queue);
}

static void what_finds_no_room_clears(void **state) {
  (void)state;
  struct ommai_kv_event_queue queue;
  ommai_kv_event_queue_init(&queue, 3, &ommai_default_allocator);
  assert_taken(&queue, 1, true, NULL, 0);
  for (int i = 1; i <= 3; i++) store(&queue, i, NULL);
  assert_int_equal(ommai_kv_event_queue_lost(&queue), 0);
  assert_true(store(&queue, 4, NULL)); /* the publisher has to send that */
  assert_int_equal(ommai_kv_event_queue_lost(&queue), 4);
  assert_true(store(&queue, 5, NULL));
  assert_taken(&queue, 9, true, (const int[]){5}, 1);
  assert_taken(&queue, 9, false, NULL, 0);
  ommai_kv_event_queue_free(&queue);
}

static void bytes_are_limited(void **state) {
  (void)state;
  struct ommai_kv_event_queue queue;
  size_t size = OMMAI_KV_EVENT_QUEUE_BYTES / 2;
  char *salt = ommai_allocate_uninitialised(&ommai_default_allocator, OMMAI_KV_EVENT_QUEUE_BYTES + 1, 1);
  ommai_kv_event_queue_init(&queue, 100, &ommai_default_allocator);
  memset(salt, 'x', OMMAI_KV_EVENT_QUEUE_BYTES);
  salt[OMMAI_KV_EVENT_QUEUE_BYTES] = '\0';
  store(&queue, 1, NULL);
  store(&queue, 2, salt);
  assert_int_equal(ommai_kv_event_queue_lost(&queue), 2);
  salt[size] = '\0';
  store(&queue, 3, salt);
  assert_int_equal(ommai_kv_event_queue_lost(&queue), 2);
  store(&queue, 4, salt);
  assert_int_equal(ommai_kv_event_queue_lost(&queue), 4);
  assert_taken(&queue, 9, true, NULL, 0);
  ommai_release(&ommai_default_allocator, salt, OMMAI_KV_EVENT_QUEUE_BYTES + 1, 1);
  ommai_kv_event_queue_free(&queue);
}

static void events_that_could_not_be_sent_clear(void **state) {
  (void)state;
  struct ommai_kv_event_queue queue;
  bool cleared;
  ommai_kv_event_queue_init(&queue, 3, &ommai_default_allocator);
  for (int i = 1; i <= 3; i++) store(&queue, i, NULL);
  struct ommai_kv_event *taken = ommai_kv_event_queue_take(&queue, 2, &cleared);
  ommai_kv_event_queue_lose(&queue, taken);
  ommai_kv_events_free(&queue, taken);
  assert_int_equal(ommai_kv_event_queue_lost(&queue), 3);
  assert_taken(&queue, 9, true, NULL, 0);
  ommai_kv_event_queue_free(&queue);
}

/* Nothing is lost where the cache itself forgets. */
static void a_clear_stands_for_what_was_before(void **state) {
  (void)state;
  struct ommai_kv_event_queue queue;
  ommai_kv_event_queue_init(&queue, 3, &ommai_default_allocator);
  assert_taken(&queue, 1, true, NULL, 0);
  store(&queue, 1, NULL);
  take_away(&queue, 1);
  ommai_kv_event_queue_clear(&queue);
  store(&queue, 2, NULL);
  assert_taken(&queue, 9, true, (const int[]){2}, 1);
  ommai_kv_event_queue_clear(&queue);
  assert_taken(&queue, 9, true, NULL, 0);
  assert_int_equal(ommai_kv_event_queue_lost(&queue), 0);
  ommai_kv_event_queue_free(&queue);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(events_come_in_order),
      cmocka_unit_test(a_page_is_copied),
      cmocka_unit_test(what_is_taken_at_once_is_of_one_rank),
      cmocka_unit_test(what_finds_no_room_clears),
      cmocka_unit_test(bytes_are_limited),
      cmocka_unit_test(events_that_could_not_be_sent_clear),
      cmocka_unit_test(a_clear_stands_for_what_was_before),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
