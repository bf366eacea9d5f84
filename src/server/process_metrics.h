/* What prometheus_client exports of a process (process_resident_memory_bytes and its like), from
 * /proc. */
#ifndef OMMAI_SERVER_PROCESS_METRICS_H
#define OMMAI_SERVER_PROCESS_METRICS_H

#include "server/text_buffer.h"

/* Writes what can be read; nothing where there is no /proc. Thread-safe. */
void ommai_process_metrics_write(struct ommai_text *out);

#endif
