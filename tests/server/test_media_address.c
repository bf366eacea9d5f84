/* Addresses at the edges of the special blocks, and IPv4 addresses in IPv6 forms. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "server/media/media_address.h"
#include "support/test.h"

static bool is_public(const char *text) {
  struct sockaddr_in in = {.sin_family = AF_INET};
  struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
  if (inet_pton(AF_INET, text, &in.sin_addr) == 1) return ommai_address_is_public((const struct sockaddr *)&in);
  assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
  return ommai_address_is_public((const struct sockaddr *)&in6);
}

static void test_public(void **state) {
  (void)state;
  static const char *const addresses[] = {
      "1.0.0.0",          "9.255.255.255",   "11.0.0.0",    "100.63.255.255",  "100.128.0.0", "126.255.255.255",
      "128.0.0.0",        "169.253.255.255", "169.255.0.0", "172.15.255.255",  "172.32.0.0",  "192.0.1.0",
      "192.0.3.0",        "192.167.255.255", "192.169.0.0", "198.17.255.255",  "198.20.0.0",  "198.51.99.255",
      "203.0.114.0",      "223.255.255.255", "2001:200::1", "2606:4700::1111", "2003::1",     "::ffff:8.8.8.8",
      "64:ff9b::8.8.8.8", "2002:808:808::1", "3ffe:ffff::1"};
  for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
    if (!is_public(addresses[i])) fail_msg("%s counts as special", addresses[i]);
  }
}

static void test_special(void **state) {
  (void)state;
  static const char *const addresses[] = {"0.0.0.0",
                                          "0.255.255.255",
                                          "10.0.0.0",
                                          "10.255.255.255",
                                          "100.64.0.0",
                                          "100.127.255.255",
                                          "127.0.0.1",
                                          "127.255.255.255",
                                          "169.254.169.254",
                                          "172.16.0.1",
                                          "172.31.255.255",
                                          "192.0.0.1",
                                          "192.0.2.1",
                                          "192.88.99.1",
                                          "192.168.0.1",
                                          "198.18.0.1",
                                          "198.19.255.255",
                                          "198.51.100.1",
                                          "203.0.113.1",
                                          "224.0.0.1",
                                          "240.0.0.1",
                                          "255.255.255.255",
                                          "::",
                                          "::1",
                                          "::ffff:127.0.0.1",
                                          "::ffff:10.1.2.3",
                                          "::127.0.0.1",
                                          "64:ff9b::10.0.0.1",
                                          "64:ff9b:1::1",
                                          "2002:7f00:1::1",
                                          "2002:c0a8:101::1",
                                          "2001::1",
                                          "2001:1ff::1",
                                          "2001:db8::1",
                                          "3fff::1",
                                          "fc00::1",
                                          "fdff::1",
                                          "fe80::1",
                                          "fec0::1",
                                          "ff02::1",
                                          "100::1",
                                          "4000::1"};
  for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
    if (is_public(addresses[i])) fail_msg("%s counts as public", addresses[i]);
  }
}

static void test_other_families(void **state) {
  (void)state;
  struct sockaddr_un un = {.sun_family = AF_UNIX};
  assert_false(ommai_address_is_public((const struct sockaddr *)&un));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_public), cmocka_unit_test(test_special),
                                     cmocka_unit_test(test_other_families)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
