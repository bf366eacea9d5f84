#include "server/media/media_address.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct block4 {
  uint32_t first;
  int bits;
};

/* An IPv6 block by its first 64 bits. */
struct block6 {
  uint64_t first;
  int bits;
};

static bool is_public4(uint32_t address) {
  static const struct block4 special[] = {
      {0x00000000, 8},  /* this network */
      {0x0a000000, 8},  /* private */
      {0x64400000, 10}, /* shared by carriers */
      {0x7f000000, 8},  /* loopback */
      {0xa9fe0000, 16}, /* link-local, and clouds' metadata */
      {0xac100000, 12}, /* private */
      {0xc0000000, 24}, /* protocol assignments */
      {0xc0000200, 24}, /* documentation */
      {0xc0586300, 24}, /* 6to4 relays */
      {0xc0a80000, 16}, /* private */
      {0xc6120000, 15}, /* benchmarks */
      {0xc6336400, 24}, /* documentation */
      {0xcb007100, 24}, /* documentation */
      {0xe0000000, 3},  /* multicast, reserved, broadcast */
  };
  for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
    if ((address ^ special[i].first) >> (32 - special[i].bits) == 0) return false;
  }
  return true;
}

static uint64_t big_endian(const uint8_t *bytes, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; i++) value = value << 8 | bytes[i];
  return value;
}

/* Global unicast is 2000::/3, of which some blocks are special. IPv4 addresses in an IPv6 form
 * count as what they are. */
static bool is_public6(const uint8_t *bytes) {
  static const struct block6 special[] = {
      {0x2001000000000000, 23}, /* protocol assignments, Teredo among them */
      {0x20010db800000000, 32}, /* documentation */
      {0x3fff000000000000, 20}, /* documentation */
  };
  uint64_t high = big_endian(bytes, 8), middle = big_endian(bytes + 8, 4);
  uint32_t last = (uint32_t)big_endian(bytes + 12, 4);
  if (high == 0 && middle == 0xffff) return is_public4(last);
  if (high == 0x0064ff9b00000000 && middle == 0) return is_public4(last);
  if (high >> 48 == 0x2002) return is_public4((uint32_t)(high >> 16));
  if (high >> 61 != 1) return false;
  for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
    if ((high ^ special[i].first) >> (64 - special[i].bits) == 0) return false;
  }
  return true;
}

bool ommai_address_is_public(const struct sockaddr *address) {
  if (address->sa_family == AF_INET) {
    struct sockaddr_in in;
    memcpy(&in, address, sizeof in);
    return is_public4(ntohl(in.sin_addr.s_addr));
  }
  if (address->sa_family == AF_INET6) {
    struct sockaddr_in6 in6;
    memcpy(&in6, address, sizeof in6);
    return is_public6(in6.sin6_addr.s6_addr);
  }
  return false;
}
