/* What the program that manages services (systemd) gets to know of this one: sd_notify(3)'s
 * protocol, datagrams to the socket that NOTIFY_SOCKET names, a path or "@NAME" (abstract).
 * Without the variable nothing is sent. */
#pragma once

#include <stdint.h>

/* Sends assignments, such as "READY=1\nSTATUS=serving", with lines between them. Waits for a second
 * at most where nobody reads. */
void ommai_service_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What this program is called among the services whose traces a collector gets: OTEL_SERVICE_NAME,
 * else its own name. */
const char *ommai_service_name(void);

/* How often WATCHDOG=1 is to be sent: half of WATCHDOG_USEC; 0: not at all (it is not set, or
 * WATCHDOG_PID names another process). */
int64_t ommai_service_watchdog_ms(void);

/* An omma_progress callback that reports how much of a model is loaded, once a second, and that the
 * start may take longer. `context` is an int64_t, 0 at the beginning. */
void ommai_service_loading(void *context, int64_t done, int64_t total);
