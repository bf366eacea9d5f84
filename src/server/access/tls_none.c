/* A build without GnuTLS: no TLS. */
#include "base/error.h"
#include "server/access/tls.h"

enum omma_status ommai_tls_load(const struct omma_tls_options *options, const struct omma_allocator *allocator,
                                struct ommai_tls *tls, struct omma_error *error) {
  (void)allocator;
  *tls = (struct ommai_tls){0};
  if (!options->certificate_file && !options->key_file && !options->authorities_file && !options->clients) return OMMA_OK;
  return ommai_fail_field(
      error, OMMA_ERROR_UNSUPPORTED, "ssl_certfile",
      "this build has no TLS, for it was made without GnuTLS: install libgnutls28-dev and build again, or let a "
      "proxy end TLS");
}

void ommai_tls_free(struct ommai_tls *tls) { *tls = (struct ommai_tls){0}; }

void ommai_tls_open(const struct ommai_tls *tls, struct MHD_Connection *connection) { (void)tls, (void)connection; }

void ommai_tls_send(struct MHD_Connection *connection, const char *text, size_t size) {
  (void)connection, (void)text, (void)size;
}
