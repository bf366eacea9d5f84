/* The listening socket. */
#ifndef OMMAI_SERVER_LISTENER_H
#define OMMAI_SERVER_LISTENER_H

#include <omma/status.h>
#include <stdbool.h>

/* Listens on host (address or name) and port (0: any free one); *port_used is the real port. Errors: ARGUMENT (host, port), IO. */
enum omma_status ommai_listener_open(const char *host, int port, int *descriptor, int *port_used, struct omma_error *error);

/* True when the socket listens on a loopback address. */
bool ommai_listener_is_local(int descriptor);

#endif
