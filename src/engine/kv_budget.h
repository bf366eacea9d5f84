/* How much memory keys and values get where no option gives a size. */
#pragma once

#include <stdint.h>

/* Bytes for keys and values: `needed` (those of all sequences that run at once, at their longest),
 * but at most what is left of `room` bytes (as ommai_memory_room; -1: not known) after `taken`,
 * what everything else will still take, and a reserve for decoded images, bodies and the system.
 * An eighth of the room in any case, so that a small machine still answers short questions: pages
 * that are not used take no memory. */
int64_t ommai_kv_budget(int64_t needed, int64_t room, int64_t taken);
