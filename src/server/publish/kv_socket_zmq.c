#include <errno.h>
#include <string.h>
#include <zmq.h>

#include "base/error.h"
#include "server/publish/kv_socket.h"

static int set(void *socket, int name, int64_t value) {
  int number = (int)value; /* all options are of this type but one */
  if (name == ZMQ_MAXMSGSIZE) return zmq_setsockopt(socket, name, &value, sizeof value);
  return zmq_setsockopt(socket, name, &number, sizeof number);
}

enum omma_status ommai_kv_socket_open(void *context, int type, const struct ommai_kv_socket_option *options, size_t n_options,
                                      const char *endpoint, bool binds, void **out, struct omma_error *error) {
  void *socket = zmq_socket(context, type);
  if (!socket) return ommai_fail(error, OMMA_ERROR_IO, "KV events: %s", zmq_strerror(errno));
  bool failed = set(socket, ZMQ_LINGER, 0) != 0;
  if (strchr(endpoint, '[') || strstr(endpoint, "::")) failed = failed || set(socket, ZMQ_IPV6, 1) != 0;
  for (size_t i = 0; i < n_options; i++) failed = failed || set(socket, options[i].name, options[i].value) != 0;
  failed = failed || (binds ? zmq_bind(socket, endpoint) : zmq_connect(socket, endpoint)) != 0;
  if (!failed) {
    *out = socket;
    return OMMA_OK;
  }
  int reason = errno;
  zmq_close(socket);
  return ommai_fail_field(error, OMMA_ERROR_IO, "kv_events_config", "--kv-events-config: %s %s: %s",
                          binds ? "cannot listen at" : "cannot connect to", endpoint, zmq_strerror(reason));
}

void ommai_kv_socket_address(void *socket, char *out, size_t size) {
  out[0] = '\0';
  if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, out, &size) != 0) out[0] = '\0';
}

void ommai_kv_socket_number(uint64_t number, uint8_t bytes[8]) {
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(number >> (56 - 8 * i));
}
