/* What the publisher's two ZeroMQ sockets have in common. */
#pragma once

#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ommai_kv_socket_option {
  int name; /* of zmq_setsockopt */
  int64_t value;
};

/* A socket that drops what is not sent when it is closed, listening at the endpoint or connected to
 * it. Errors: IO, which names the endpoint, MEMORY. The caller closes it. */
enum omma_status ommai_kv_socket_open(void *context, int type, const struct ommai_kv_socket_option *options, size_t n_options,
                                      const char *endpoint, bool binds, void **socket, struct omma_error *error);

/* The endpoint as it is in the end: with the port that was free. */
void ommai_kv_socket_address(void *socket, char *out, size_t size);

/* A batch's number as it is sent. */
void ommai_kv_socket_number(uint64_t number, uint8_t bytes[8]);
