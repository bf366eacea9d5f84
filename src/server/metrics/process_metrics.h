/* What prometheus_client exports of a process (process_resident_memory_bytes and its like), from
 * /proc. */
#pragma once

#include "base/text_buffer.h"

/* Writes what can be read; nothing where there is no /proc. Thread-safe. */
void ommai_process_metrics_write(struct ommai_text *out);
