/* How much memory this process holds, as the kernel counts it (Linux), and that it holds no more than it uses. */
#ifndef OMMAI_CLI_MEMORY_USE_H
#define OMMAI_CLI_MEMORY_USE_H

#include <stdint.h>

/* Blocks of 4 MiB and more go back to the system when they are freed. By default the C library keeps what was freed for blocks of the
 * same size, so that a process holds more than was planned. Call it once, before anything large is allocated. */
void ommai_memory_return_large(void);

/* Begins to watch: forgets the peak so far. Returns the bytes held now, for ommai_memory_peak_since. */
int64_t ommai_memory_watch(void);

/* The most bytes held since then beyond those held at `start`. -1 where the kernel does not tell. */
int64_t ommai_memory_peak_since(int64_t start);

#endif
