/* The library's own allocator, and checked allocation through any allocator. */
#pragma once

#include <omma/host.h>

/* The C library's aligned_alloc/free. Thread-safe. */
extern const struct omma_allocator ommai_default_allocator;

#define OMMAI_HUGE_PAGE ((size_t)2 << 20) /* bytes */

/* The same for large buffers: on Linux, those of 2 MiB and more are asked for in huge pages. Images
 * and their scratch live shortly, and faulting in thousands of small pages takes longer than
 * decoding or resizing into them does; weights, keys and values are streamed at the memory's rate,
 * which small pages hold up by a tenth. */
extern const struct omma_allocator ommai_huge_page_allocator;

/* The same, but what is large is mapped for itself: so it goes back to the system as soon as it is
 * released. For what lives shortly and may be many times as large as everything else. */
extern const struct omma_allocator ommai_mapped_allocator;

/* The mapped one in place of the library's own, or the host's. */
const struct omma_allocator *ommai_mapped_instead(const struct omma_allocator *allocator);

#define OMMAI_ALIGNMENT 64

/* `count * size` bytes, 64-aligned, zeroed; NULL when the product overflows, is larger than
 * PTRDIFF_MAX, or memory is out. A count or size of 0 gives a valid pointer to release. */
void *ommai_allocate(const struct omma_allocator *allocator, size_t count, size_t size);

/* The same without the zeroes: for large buffers, of which only the part in use shall be
 * touched. */
void *ommai_allocate_uninitialised(const struct omma_allocator *allocator, size_t count, size_t size);

/* Gives back what either returned for the same count and size. NULL is allowed. */
void ommai_release(const struct omma_allocator *allocator, void *pointer, size_t count, size_t size);

/* Gives the whole pages of the memory back to the system: what they hold is lost, and whoever
 * writes there again gets others. Memory that is no allocation of the process's own may stay. */
void ommai_discard(void *memory, size_t size);

/* The C library gives the system what it keeps of released memory, where it can. */
void ommai_trim(void);

/* A copy of `size` bytes plus a NUL, to be released with ommai_release(allocator, p, size + 1,
 * 1). */
char *ommai_duplicate(const struct omma_allocator *allocator, const char *text, size_t size);
