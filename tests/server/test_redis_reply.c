/* Replies of a Redis that may be anything: what is one, what is part of one, and what is none. */
#include "server/publish/redis_reply.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/test.h"

enum { ROOM = 10 };

/* With every length in between: nothing is known before the reply is whole. */
static struct ommai_redis_reply parse(const char *bytes, size_t size) {
  struct ommai_redis_reply reply = {OMMAI_REDIS_PART, NULL, 0, 0};
  for (size_t n = 0; n <= size && reply.kind == OMMAI_REDIS_PART; n++) {
    char *exact = malloc(n ? n : 1); /* a sanitizer sees a byte too much */
    assert_non_null(exact);
    memcpy(exact, bytes, n);
    reply = ommai_redis_reply_parse(exact, n, ROOM);
    if (reply.data) reply.data = bytes + (reply.data - exact);
    free(exact);
  }
  return reply;
}

static void replies_that_are_asked_for(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    enum ommai_redis_kind kind;
    const char *data;
  } cases[] = {
      {"+OK\r\n", OMMAI_REDIS_STATUS, "OK"},
      {"+\r\n", OMMAI_REDIS_STATUS, ""},
      {"-ERR no\nsuch\r\n", OMMAI_REDIS_ERROR, "ERR no\nsuch"},
      {"$0\r\n\r\n", OMMAI_REDIS_VALUE, ""},
      {"$-1\r\n", OMMAI_REDIS_VALUE, ""},
      {"$4\r\na\r\nb\r\n", OMMAI_REDIS_VALUE, "a\r\nb"},
      {"$10\r\n0123456789\r\n", OMMAI_REDIS_VALUE, "0123456789"},
      {"$0000000000000000010\r\n0123456789\r\n", OMMAI_REDIS_VALUE, "0123456789"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct ommai_redis_reply reply = parse(cases[i].bytes, strlen(cases[i].bytes));
    assert_int_equal(reply.kind, cases[i].kind);
    assert_int_equal(reply.size, strlen(cases[i].data));
    assert_memory_equal(reply.data, cases[i].data, reply.size);
    assert_int_equal(reply.used, strlen(cases[i].bytes));
  }
}

static void replies_that_are_none(void **state) {
  (void)state;
  static const char *const cases[] = {
      "*2147483647\r\n",
      "*-1\r\n",
      "*1\r\n*1\r\n*1\r\n",
      ":1\r\n",
      "_\r\n",
      "%1\r\n",
      "HTTP/1.1 400\r\n",
      "$11\r\n01234567890\r\n",
      "$-2\r\n",
      "$\r\n",
      "$1x\r\na\r\n",
      "$+1\r\na\r\n",
      "$ 1\r\na\r\n",
      "$9223372036854775807\r\n",
      "$18446744073709551616\r\n",
      "$00000000000000000001\r\na\r\n",
      "$2\r\nabc\r\n",
      "+OK\rx\r\n",
      "$1\ra\r\n",
      "\r\n",
      "\x1b[2J\r\n",
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct ommai_redis_reply reply = parse(cases[i], strlen(cases[i]));
    if (reply.kind != OMMAI_REDIS_FOREIGN) fail_msg("case %zu: %s", i, cases[i]);
  }
  assert_int_equal(ommai_redis_reply_parse("", 1, ROOM).kind, OMMAI_REDIS_FOREIGN);
}

static void lines_have_an_end(void **state) {
  (void)state;
  char line[2 * OMMAI_REDIS_LINE];
  memset(line, 'x', sizeof line);
  line[0] = '-';
  assert_int_equal(ommai_redis_reply_parse(line, OMMAI_REDIS_LINE - 1, ROOM).kind, OMMAI_REDIS_PART);
  assert_int_equal(ommai_redis_reply_parse(line, OMMAI_REDIS_LINE, ROOM).kind, OMMAI_REDIS_FOREIGN);
  memcpy(line + OMMAI_REDIS_LINE - 4, "\r\n", 2);
  assert_int_equal(ommai_redis_reply_parse(line, OMMAI_REDIS_LINE - 2, ROOM).kind, OMMAI_REDIS_ERROR);
}

/* Random bytes of the protocol's own letters: whatever comes out lies within what went in. */
static void random_bytes(void **state) {
  (void)state;
  static const char letters[] = "+-$*:0123456789\r\n\r\n$1\r\nax";
  enum { N_ROUNDS = 200000, MAX_BYTES = 24 };
  struct test_random random = {1};
  for (int round = 0; round < N_ROUNDS; round++) {
    size_t size = test_random_u32(&random) % MAX_BYTES;
    char *bytes = malloc(size ? size : 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++) bytes[i] = letters[test_random_u32(&random) % (sizeof letters - 1)];
    struct ommai_redis_reply reply = ommai_redis_reply_parse(bytes, size, ROOM);
    if (reply.data) {
      assert_true(reply.data >= bytes && reply.data + reply.size <= bytes + size && reply.used <= size);
      assert_true(reply.kind != OMMAI_REDIS_VALUE || reply.size <= ROOM);
    }
    free(bytes);
  }
}

static void a_reply_in_pieces_and_one_too_many(void **state) {
  (void)state;
  int ends[2];
  char buffer[ROOM + OMMAI_REDIS_LINE];
  struct ommai_redis_reply reply;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  assert_int_equal(write(ends[1], "$2\r\na", 5), 5);
  int64_t begin_ns = ommai_clock_ns();
  assert_string_equal(ommai_redis_reply_receive(ends[0], buffer, ROOM, begin_ns + 20000000, &reply), "no answer in time");
  assert_true(ommai_clock_ns() - begin_ns < INT64_C(2000000000));
  assert_int_equal(write(ends[1], "$2\r\nab\r\n", 8), 8);
  assert_null(ommai_redis_reply_receive(ends[0], buffer, ROOM, ommai_clock_ns() + INT64_C(2000000000), &reply));
  assert_memory_equal(reply.data, "ab", 2);
  assert_int_equal(write(ends[1], "+OK\r\n+OK\r\n", 10), 10);
  assert_non_null(ommai_redis_reply_receive(ends[0], buffer, ROOM, ommai_clock_ns() + INT64_C(2000000000), &reply));
  close(ends[1]);
  assert_string_equal(ommai_redis_reply_receive(ends[0], buffer, ROOM, ommai_clock_ns() + INT64_C(2000000000), &reply),
                      "it hung up");
  close(ends[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(replies_that_are_asked_for),
      cmocka_unit_test(replies_that_are_none),
      cmocka_unit_test(lines_have_an_end),
      cmocka_unit_test(random_bytes),
      cmocka_unit_test(a_reply_in_pieces_and_one_too_many),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
