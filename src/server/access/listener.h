/* The listening socket: of a host and port, or of a path in the file system. */
#pragma once

#include <omma/status.h>
#include <stdbool.h>
#include <sys/types.h>

/* Listens on host (address or name) and port (0: any free one); *port_used is the real port.
 * Errors: ARGUMENT (host, port), IO. */
enum omma_status ommai_listener_open(const char *host, int port, int *descriptor, int *port_used, struct omma_error *error);

/* Whether it could be listened on now; nobody can connect meanwhile. Errors: as
 * ommai_listener_open. */
enum omma_status ommai_listener_check(const char *host, int port, struct omma_error *error);

/* A socket's file, by which it is known that the path still names it. Zero-initialised: none. */
struct ommai_socket_file {
  char *path; /* the caller's */
  dev_t device;
  ino_t inode;
};

/* Listens on a Unix domain socket at `path`, which must live as long as the file. A socket there on
 * which nobody listens, left by a program that ended without removing it, is replaced. Who may
 * connect is what the file's permissions (the process's umask) and its folder allow. Errors:
 * ARGUMENT (field "uds": too long), IO (another program listens there, something else has the name,
 * the folder). */
enum omma_status ommai_listener_open_unix(char *path, int *descriptor, struct ommai_socket_file *file,
                                          struct omma_error *error);

/* Whether it could be listened on now; no file is made or removed. Errors: as
 * ommai_listener_open_unix. */
enum omma_status ommai_listener_check_unix(const char *path, struct omma_error *error);

/* Removes the file, unless the path names another one by now. Takes a zeroed one. */
void ommai_socket_file_remove(struct ommai_socket_file *file);

/* True when the socket listens on a loopback address or a path. */
bool ommai_listener_is_local(int descriptor);
