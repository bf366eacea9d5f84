#include "server/publish/redis_url.h"

#include "support/test.h"

static struct ommai_redis_url parse(const char *text) {
  struct ommai_redis_url url;
  struct omma_error error;
  assert_ok(ommai_redis_url_parse(text, &url, &error), &error);
  return url;
}

static void all_parts(void **state) {
  (void)state;
  struct ommai_redis_url url = parse("redis://me:p%40ss%2F@cache.example:7000/12?ttl=3600&timeout=250");
  assert_string_equal(url.place, "cache.example");
  assert_string_equal(url.user, "me");
  assert_string_equal(url.password, "p@ss/");
  assert_int_equal(url.port, 7000);
  assert_int_equal(url.database, 12);
  assert_int_equal(url.ttl_seconds, 3600);
  assert_int_equal(url.timeout_ms, 250);
  assert_false(url.is_unix);
}

static void what_is_left_out(void **state) {
  (void)state;
  struct ommai_redis_url url = parse("redis://h");
  assert_string_equal(url.place, "h");
  assert_string_equal(url.password, "");
  assert_int_equal(url.port, 6379);
  assert_int_equal(url.database, 0);
  assert_int_equal(url.ttl_seconds, 0);
  assert_int_equal(url.timeout_ms, 500);
}

static void addresses_and_sockets(void **state) {
  (void)state;
  struct ommai_redis_url url = parse("redis://:pw@[::1]:6380/1");
  assert_string_equal(url.place, "::1");
  assert_int_equal(url.port, 6380);
  url = parse("unix:///run/valkey.sock?ttl=5");
  assert_true(url.is_unix);
  assert_string_equal(url.place, "/run/valkey.sock");
  assert_int_equal(url.ttl_seconds, 5);
}

static void everything_else_is_refused(void **state) {
  (void)state;
  static const char *const wrong[] = {"",
                                      "redis",
                                      "redis:/h",
                                      "redis://",
                                      "redis://:1",
                                      "redis://h:",
                                      "redis://h:65536",
                                      "redis://h/",
                                      "redis://h/-1",
                                      "redis://h?x=1",
                                      "redis://h?ttl",
                                      "redis://u@h",
                                      "redis://:@h",
                                      "redis://:%4@h",
                                      "redis://:%00@h",
                                      "unix://",
                                      "rediss://h",
                                      "redis://[]",
                                      "redis://[::1",
                                      "redis://[::1]x",
                                      "redis://h?timeout=0"};
  struct ommai_redis_url url;
  struct omma_error error;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_int_equal(ommai_redis_url_parse(wrong[i], &url, &error), OMMA_ERROR_ARGUMENT);
    assert_string_equal(error.field, "encoder_cache_url");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_parts),
      cmocka_unit_test(what_is_left_out),
      cmocka_unit_test(addresses_and_sockets),
      cmocka_unit_test(everything_else_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
