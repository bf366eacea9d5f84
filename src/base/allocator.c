#include "base/allocator.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/checked.h"

static void *libc_allocate(void *context, size_t size, size_t alignment) {
  (void)context;
  return aligned_alloc(alignment, size);
}

static void libc_release(void *context, void *pointer, size_t size) {
  (void)context;
  (void)size;
  free(pointer);
}

const struct omma_allocator ommai_default_allocator = {NULL, libc_allocate, libc_release};

static void *huge_page_allocate(void *context, size_t size, size_t alignment) {
#ifdef MADV_HUGEPAGE
  const size_t huge_page = OMMAI_HUGE_PAGE;
  if (size >= huge_page && size <= PTRDIFF_MAX - huge_page) {
    size_t rounded = (size + huge_page - 1) / huge_page * huge_page;
    void *pointer = aligned_alloc(huge_page, rounded);
    /* The end in small pages: a whole one would take up to two megabytes that no estimate counts. A
     * refusal only means small pages. */
    if (pointer) (void)madvise(pointer, size / huge_page * huge_page, MADV_HUGEPAGE);
    return pointer;
  }
#endif
  return libc_allocate(context, size, alignment);
}

const struct omma_allocator ommai_huge_page_allocator = {NULL, huge_page_allocate, libc_release};

/* From here on a mapping is worth its two calls of the system. */
#define MIN_MAPPED ((size_t)32 << 10)

static void *mapped_allocate(void *context, size_t size, size_t alignment) {
  if (size < MIN_MAPPED) return libc_allocate(context, size, alignment);
  void *pointer = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pointer == MAP_FAILED ? NULL : pointer;
}

static void mapped_release(void *context, void *pointer, size_t size) {
  if (size < MIN_MAPPED) {
    libc_release(context, pointer, size);
  } else {
    (void)munmap(pointer, size);
  }
}

const struct omma_allocator ommai_mapped_allocator = {NULL, mapped_allocate, mapped_release};

const struct omma_allocator *ommai_mapped_instead(const struct omma_allocator *allocator) {
  return allocator->allocate == libc_allocate ? &ommai_mapped_allocator : allocator;
}

/* The size really asked for: at least one line, a multiple of the alignment. False on overflow. */
static bool rounded_size(size_t count, size_t size, size_t *out) {
  size_t bytes;
  if (!ommai_mul_size(count, size, &bytes) || bytes > PTRDIFF_MAX - OMMAI_ALIGNMENT) return false;
  if (bytes == 0) bytes = 1;
  *out = (bytes + OMMAI_ALIGNMENT - 1) / OMMAI_ALIGNMENT * OMMAI_ALIGNMENT;
  return true;
}

void *ommai_allocate_uninitialised(const struct omma_allocator *allocator, size_t count, size_t size) {
  size_t bytes;
  if (!rounded_size(count, size, &bytes)) return NULL;
  return allocator->allocate(allocator->context, bytes, OMMAI_ALIGNMENT);
}

void *ommai_allocate(const struct omma_allocator *allocator, size_t count, size_t size) {
  void *pointer = ommai_allocate_uninitialised(allocator, count, size);
  if (pointer && count && size) memset(pointer, 0, count * size);
  return pointer;
}

void ommai_release(const struct omma_allocator *allocator, void *pointer, size_t count, size_t size) {
  size_t bytes;
  if (pointer && rounded_size(count, size, &bytes)) allocator->release(allocator->context, pointer, bytes);
}

void ommai_discard(void *memory, size_t size) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)memory, end = begin + size;
  uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  if (memory && last > first) (void)madvise((void *)first, last - first, MADV_DONTNEED);
}

void ommai_trim(void) {
#ifdef __GLIBC__
  (void)malloc_trim(0);
#endif
}

char *ommai_duplicate(const struct omma_allocator *allocator, const char *text, size_t size) {
  if (size == SIZE_MAX) return NULL;
  char *copy = ommai_allocate(allocator, size + 1, 1);
  if (copy && size) memcpy(copy, text, size);
  return copy;
}
