/* How much memory this process holds, as the kernel counts it (Linux). */
#pragma once

#include <stdint.h>

/* Begins to watch: forgets the peak so far. Returns the bytes held now, for
 * ommai_memory_peak_since. */
int64_t ommai_memory_watch(void);

/* The peak of the bytes held since then beyond those held at `start`. -1 where the kernel does not
 * report it. */
int64_t ommai_memory_peak_since(int64_t start);

/* The bytes of code that this process holds: pages of the program and its libraries. -1 where the
 * kernel does not report it. */
int64_t ommai_memory_of_code(void);
