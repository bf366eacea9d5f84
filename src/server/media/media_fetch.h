/* The bytes of an http(s) URL, for images that requests name. */
#pragma once

#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text_buffer.h"
#include "server/core/api_error.h"

/* What may be fetched. */
struct ommai_fetch_rules {
  char *const
      /* exact names, upper and lower case alike, any port; all that redirects lead through must be
       * among them */
      *hosts;
  size_t n_hosts;
  bool private_addresses; /* connect to addresses that are not public as well */
  /* of all that one request has fetched, redirects included: what its deadline comes from */
  int64_t timeout_ms;
  size_t max_bytes;
};

/* What ends work that takes long. */
struct ommai_stop {
  bool (*ask)(void *context); /* asked now and then, at least each second; true ends it */
  void *context;
  int64_t deadline_ns; /* of ommai_clock_ns */
};

/* Once before and once after all fetches of the process. Errors: UNSUPPORTED (a build without
 * libcurl), INTERNAL. */
enum omma_status ommai_media_fetch_start(struct omma_error *error);
void ommai_media_fetch_end(void);

/* Appends the reply's body to `body` and waits for it. Any thread. False with *error filled, status
 * 400 where the URL is not one that may be fetched (without hosts or libcurl none is), 422 where it
 * cannot be (also when a redirect leads astray); its message names neither address nor path. `url`
 * need not end in NUL. Proxies, credentials, cookies and other settings of the environment are not
 * used; certificates are checked. */
bool ommai_media_fetch(const struct ommai_fetch_rules *rules, const char *url, size_t url_size, const struct ommai_stop *stop,
                       struct ommai_text *body, struct ommai_api_error *error);
