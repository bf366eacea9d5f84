#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "server/access/tls.h"

#define MAX_PEM_BYTES ((size_t)1 << 20)

static enum omma_status read_file(const struct ommai_tls *tls, const char *field, const char *path, char **text, size_t *size,
                                  struct omma_error *error) {
  struct omma_error cause;
  enum omma_status status = ommai_file_read(path, MAX_PEM_BYTES, tls->allocator, text, size, &cause);
  if (status != OMMA_OK) return ommai_fail_field(error, status, field, "%s: %s", field, cause.message);
  if (strlen(*text) == *size) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, field, "%s: %s: expected a file in PEM, found a NUL in it", field, path);
}

/* Whether these options can go together. */
static enum omma_status check_options(const struct omma_tls_options *options, struct omma_error *error) {
  if (!options->certificate_file) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "ssl_certfile",
                            "ssl_certfile: a certificate is needed for TLS, the other --ssl- options go with it");
  }
  if (options->clients && !options->authorities_file) {
    return ommai_fail_field(
        error, OMMA_ERROR_ARGUMENT, "ssl_ca_certs",
        "ssl_ca_certs: to check clients' certificates, those of the authorities that signed them are needed");
  }
  if (MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_YES) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "ssl_certfile",
                          "the libmicrohttpd of this machine was built without TLS: let a proxy end it");
}

static gnutls_datum_t datum(char *text, size_t size) { return (gnutls_datum_t){(unsigned char *)text, (unsigned)size}; }

static enum omma_status check_certificate(const struct ommai_tls *tls, const char *path, struct omma_error *error) {
  const gnutls_datum_t text = datum(tls->certificate, tls->certificate_size);
  gnutls_x509_crt_t *certificates = NULL;
  unsigned n = 0;
  int result = gnutls_x509_crt_list_import2(&certificates, &n, &text, GNUTLS_X509_FMT_PEM, 0);
  for (unsigned i = 0; result >= 0 && i < n; i++) gnutls_x509_crt_deinit(certificates[i]);
  if (result >= 0) gnutls_free(certificates);
  if (result >= 0) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, "ssl_certfile", "ssl_certfile: %s: expected a certificate in PEM: %s", path,
                          gnutls_strerror(result));
}

static enum omma_status check_key(const struct ommai_tls *tls, const char *path, bool own_file, struct omma_error *error) {
  const gnutls_datum_t text = datum(tls->key, tls->key_size);
  gnutls_privkey_t key;
  if (!strstr(tls->key, "PRIVATE KEY-----") && !own_file) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "ssl_keyfile",
                            "ssl_keyfile: %s has a certificate, but not its key: --ssl-keyfile FILE gives it", path);
  }
  if (strstr(tls->key, "ENCRYPTED")) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "ssl_keyfile",
                            "ssl_keyfile: %s: the key is encrypted: `openssl pkey` writes it without a password", path);
  }
  if (gnutls_privkey_init(&key) < 0) return ommai_fail_memory(error, "TLS", 1);
  int result = gnutls_privkey_import_x509_raw(key, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
  gnutls_privkey_deinit(key);
  if (result >= 0) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, "ssl_keyfile", "ssl_keyfile: %s: expected a private key in PEM: %s", path,
                          gnutls_strerror(result));
}

/* Gives the texts to GnuTLS as libmicrohttpd will, which reports nothing about what is wrong with
 * them. */
static enum omma_status check_texts(const struct ommai_tls *tls, const struct omma_tls_options *options,
                                    gnutls_certificate_credentials_t credentials, struct omma_error *error) {
  const gnutls_datum_t certificate = datum(tls->certificate, tls->certificate_size);
  const gnutls_datum_t key = datum(tls->key, tls->key_size), authorities = datum(tls->authorities, tls->authorities_size);
  const char *key_file = options->key_file ? options->key_file : options->certificate_file;
  OMMAI_TRY(check_certificate(tls, options->certificate_file, error));
  OMMAI_TRY(check_key(tls, key_file, options->key_file != NULL, error));
  int result = gnutls_certificate_set_x509_key_mem(credentials, &certificate, &key, GNUTLS_X509_FMT_PEM);
  if (result < 0) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "ssl_certfile", "ssl_certfile, ssl_keyfile: %s and %s: %s",
                            options->certificate_file, key_file, gnutls_strerror(result));
  }
  if (!tls->authorities) return OMMA_OK;
  result = gnutls_certificate_set_x509_trust_mem(credentials, &authorities, GNUTLS_X509_FMT_PEM);
  if (result > 0) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, "ssl_ca_certs", "ssl_ca_certs: %s: %s", options->authorities_file,
                          result ? gnutls_strerror(result) : "holds no certificate");
}

enum omma_status ommai_tls_load(const struct omma_tls_options *options, const struct omma_allocator *allocator,
                                struct ommai_tls *tls, struct omma_error *error) {
  *tls = (struct ommai_tls){.allocator = allocator, .clients = options->clients};
  if (!options->certificate_file && !options->key_file && !options->authorities_file && !options->clients) return OMMA_OK;
  OMMAI_TRY(check_options(options, error));
  /* one file may hold both */
  const char *key_file = options->key_file ? options->key_file : options->certificate_file;
  OMMAI_TRY(read_file(tls, "ssl_certfile", options->certificate_file, &tls->certificate, &tls->certificate_size, error));
  OMMAI_TRY(read_file(tls, "ssl_keyfile", key_file, &tls->key, &tls->key_size, error));
  if (options->clients) {
    OMMAI_TRY(read_file(tls, "ssl_ca_certs", options->authorities_file, &tls->authorities, &tls->authorities_size, error));
  }
  gnutls_certificate_credentials_t credentials;
  if (gnutls_certificate_allocate_credentials(&credentials) < 0) return ommai_fail_memory(error, "TLS", 1);
  enum omma_status status = check_texts(tls, options, credentials, error);
  gnutls_certificate_free_credentials(credentials);
  return status;
}

static void wipe(const struct ommai_tls *tls, char *text, size_t size) {
  if (!text) return;
  explicit_bzero(text, size);
  ommai_release(tls->allocator, text, size + 1, 1);
}

void ommai_tls_free(struct ommai_tls *tls) {
  wipe(tls, tls->key, tls->key_size);
  wipe(tls, tls->certificate, tls->certificate_size); /* which may hold the key as well */
  wipe(tls, tls->authorities, tls->authorities_size);
  *tls = (struct ommai_tls){0};
}

/* Called in the handshake; not 0 ends it. Who must show a certificate and shows none does not get
 * here. */
static int check_client(gnutls_session_t session) {
  unsigned n_shown = 0, faults = 0;
  if (!gnutls_certificate_get_peers(session, &n_shown) || n_shown == 0) return 0;
  return gnutls_certificate_verify_peers2(session, &faults) < 0 || faults ? GNUTLS_E_CERTIFICATE_ERROR : 0;
}

/* libmicrohttpd asks for a certificate where it knows authorities, but looks at none. */
void ommai_tls_open(const struct ommai_tls *tls, struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info =
      tls->clients ? MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION) : NULL;
  if (!info) return;
  gnutls_session_t session = info->tls_session;
  bool needed = tls->clients == OMMA_CLIENT_CERTIFICATES_REQUIRED;
  gnutls_certificate_server_set_request(session, needed ? GNUTLS_CERT_REQUIRE : GNUTLS_CERT_REQUEST);
  gnutls_session_set_verify_function(session, check_client);
}

void ommai_tls_send(struct MHD_Connection *connection, const char *text, size_t size) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
  if (info) gnutls_record_send(info->tls_session, text, size);
}
