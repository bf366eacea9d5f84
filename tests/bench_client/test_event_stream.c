/* Server-sent events: any line end, cut anywhere, any allocation failing. */
#include "bench_client/event_stream.h"

#include "support/test.h"

enum { MAX_SEEN = 4096 };

/* The data of all events, a '|' after each. */
struct seen {
  char text[MAX_SEEN];
  size_t size;
};

static enum omma_status collect(void *context, const char *data, size_t size) {
  struct seen *seen = context;
  assert_int_equal(strlen(data), size);
  assert_true(seen->size + size + 2 < MAX_SEEN);
  memcpy(seen->text + seen->size, data, size);
  seen->size += size;
  seen->text[seen->size++] = '|';
  seen->text[seen->size] = '\0';
  return OMMA_OK;
}

/* Reads `input` in pieces that end at `first` and `second`. */
static enum omma_status read_in_three(const char *input, size_t first, size_t second, const struct omma_allocator *allocator,
                                      struct seen *seen) {
  struct ommai_event_stream stream;
  const size_t borders[] = {0, first, second, strlen(input)};
  enum omma_status status = OMMA_OK;
  *seen = (struct seen){0};
  ommai_event_stream_init(&stream, allocator);
  for (int i = 0; i < 3 && status == OMMA_OK; i++) {
    status = ommai_event_stream_feed(&stream, input + borders[i], borders[i + 1] - borders[i], collect, seen);
  }
  if (status == OMMA_OK) status = ommai_event_stream_end(&stream, collect, seen);
  ommai_event_stream_release(&stream);
  return status;
}

/* With %s for the line end. */
static const char form[] =
    ": comment%sdata: one%s%sdata:two%sdata:  three%s%sevent: x%sid%s%sdata%sdata%s%sdatax: no%s%sdata: \xc3\xa9 last";

static void make_input(const char *end, char out[256]) {
  snprintf(out, 256, form, end, end, end, end, end, end, end, end, end, end, end, end, end, end);
}

static const char expected[] = "one|two\n three|\n|\xc3\xa9 last|";

static void every_cut_and_every_line_end_gives_the_same(void **state) {
  (void)state;
  const char *const ends[] = {"\n", "\r\n", "\r"};
  struct test_allocator allocator;
  test_allocator_init(&allocator);
  for (int i = 0; i < 3; i++) {
    char input[256];
    struct seen seen;
    make_input(ends[i], input);
    size_t size = strlen(input);
    for (size_t first = 0; first <= size; first++) {
      for (size_t second = first; second <= size; second++) {
        assert_int_equal(read_in_three(input, first, second, &allocator.interface, &seen), OMMA_OK);
        if (strcmp(seen.text, expected) != 0) fail_msg("end %d, cuts %zu and %zu: %s", i, first, second, seen.text);
      }
    }
  }
  assert_int_equal(allocator.n_live, 0);
}

static enum omma_status read_it(const struct omma_allocator *allocator, struct omma_error *error) {
  char input[256];
  struct seen seen;
  (void)error;
  make_input("\n", input);
  return read_in_three(input, 5, 30, allocator, &seen);
}

static void an_allocation_fails(void **state) {
  (void)state;
  test_fail_every_allocation(read_it, 101);
}

static void a_line_without_end_is_refused(void **state) {
  (void)state;
  static char block[1 << 20];
  struct test_allocator allocator;
  struct ommai_event_stream stream;
  struct seen seen = {0};
  memset(block, 'x', sizeof block);
  test_allocator_init(&allocator);
  ommai_event_stream_init(&stream, &allocator.interface);
  enum omma_status status = OMMA_OK;
  for (int i = 0; i < 17 && status == OMMA_OK; i++) {
    status = ommai_event_stream_feed(&stream, block, sizeof block, collect, &seen);
  }
  assert_int_equal(status, OMMA_ERROR_LIMIT);
  ommai_event_stream_release(&stream);
  assert_int_equal(allocator.n_live, 0);
}

static enum omma_status refuse(void *context, const char *data, size_t size) {
  (void)data;
  (void)size;
  ++*(int *)context;
  return OMMA_ERROR_FORMAT;
}

static void the_reader_may_stop(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct ommai_event_stream stream;
  int n_events = 0;
  test_allocator_init(&allocator);
  ommai_event_stream_init(&stream, &allocator.interface);
  assert_int_equal(ommai_event_stream_feed(&stream, "data: 1\n\ndata: 2\n\n", 18, refuse, &n_events), OMMA_ERROR_FORMAT);
  assert_int_equal(n_events, 1);
  ommai_event_stream_release(&stream);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_cut_and_every_line_end_gives_the_same),
      cmocka_unit_test(an_allocation_fails),
      cmocka_unit_test(a_line_without_end_is_refused),
      cmocka_unit_test(the_reader_may_stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
