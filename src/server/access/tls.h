/* TLS: the server's certificate and key, and whose certificates clients must show. libmicrohttpd
 * speaks the protocol, through GnuTLS. */
#pragma once

#include <omma/host.h>

#include "server/core/server_options.h"

struct MHD_Connection;

/* Zero-initialised: no TLS. Texts in PEM, each with a NUL after. */
struct ommai_tls {
  const struct omma_allocator *allocator;
  char *key, *certificate, *authorities; /* authorities: NULL where clients show none */
  size_t key_size, certificate_size, authorities_size;
  enum omma_client_certificates clients;
};

/* Reads the files and checks that they belong together. Options without a certificate leave *tls
 * empty. Free in any case. Errors: ARGUMENT, FORMAT and IO with the field's name, MEMORY,
 * UNSUPPORTED (a build without GnuTLS, a libmicrohttpd without TLS). */
enum omma_status ommai_tls_load(const struct omma_tls_options *options, const struct omma_allocator *allocator,
                                struct ommai_tls *tls, struct omma_error *error);
/* Wipes the key from memory. */
void ommai_tls_free(struct ommai_tls *tls);

/* A connection was opened: from its handshake on the client's certificate is checked as was asked
 * for. */
void ommai_tls_open(const struct ommai_tls *tls, struct MHD_Connection *connection);

/* Sends a short text to the client, or nothing where the socket takes none now. IO thread. */
void ommai_tls_send(struct MHD_Connection *connection, const char *text, size_t size);

/* What libmicrohttpd is given (MHD_OPTION_HTTPS_PRIORITIES): TLS 1.2 and 1.3. */
#define OMMAI_TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"
