/* Which addresses lie on the public network. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

/* True for an address that every host of the internet may be reached at: not private, loopback,
 * link-local, multicast, reserved, for documentation or tests, nor an IPv6 form of such an IPv4
 * address. Other families are not public. Source: IANA's registries of special-purpose addresses
 * (RFC 6890 and its updates). */
bool ommai_address_is_public(const struct sockaddr *address);
