#include "support/guarded.h"

#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define UNPOISON(pointer, size) __asan_unpoison_memory_region(pointer, size)
#else
#define UNPOISON(pointer, size) ((void)(pointer), (void)(size))
#endif

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* Pages of small rooms that were given back, by their number, without access like their neighbours:
 * half of the time of an allocation is that of new ones. Threads take and put them as they are. */
enum { KEPT_PAGES = 8, KEPT = 16 };
static unsigned char *kept[KEPT_PAGES + 1][KEPT];

static unsigned char *take_kept(size_t pages) {
  for (int i = 0; pages <= KEPT_PAGES && i < KEPT; i++) {
    unsigned char *map = __atomic_load_n(&kept[pages][i], __ATOMIC_RELAXED);
    if (map) map = __atomic_exchange_n(&kept[pages][i], NULL, __ATOMIC_ACQ_REL);
    if (map) return map;
  }
  return NULL;
}

static bool keep(unsigned char *map, size_t pages) {
  if (pages == 0 || pages > KEPT_PAGES || mprotect(map + page_size(), pages * page_size(), PROT_NONE) != 0) return false;
  for (int i = 0; i < KEPT; i++) {
    unsigned char *none = NULL;
    if (__atomic_compare_exchange_n(&kept[pages][i], &none, map, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return true;
  }
  return false;
}

static struct guarded map_pages(size_t size, int access) {
  size_t page = page_size(), room = (size + page - 1) / page * page;
  struct guarded memory = {.size = size, .map_size = room + 2 * page, .map = take_kept(room / page)};
  if (!memory.map) memory.map = mmap(NULL, memory.map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory.map != MAP_FAILED);
  memory.data = memory.map + page;
  if (room > 0 && access != PROT_NONE) assert_int_equal(mprotect(memory.data, room, access), 0);
  return memory;
}

/* Larger rooms get all their pages at once, where the system can do that, and else by faults. */
static void populate(unsigned char *data, size_t room) {
#ifdef MADV_POPULATE_WRITE
  if (room > KEPT_PAGES * page_size()) (void)madvise(data, room, MADV_POPULATE_WRITE);
#else
  (void)data, (void)room;
#endif
}

struct guarded guarded_new(size_t size, bool at_end) {
  struct guarded memory = map_pages(size, PROT_READ | PROT_WRITE);
  size_t room = memory.map_size - 2 * page_size();
  populate(memory.data, room);
  memset(memory.data, 0xff, room);
  if (at_end) memory.data += room - size;
  return memory;
}

struct guarded guarded_untouchable(size_t size) {
  return map_pages(size, PROT_NONE);
}

void guarded_check(const struct guarded *memory, const char *name) {
  size_t page = page_size();
  const unsigned char *end = memory->map + memory->map_size - page;
  for (const unsigned char *at = memory->map + page; at < end; at++) {
    if (at == memory->data) at += memory->size;
    if (at < end && *at != 0xff) fail_msg("%s: byte %td outside was written", name, at - memory->data);
  }
}

/* An arena leaves what it did not hand out poisoned, also for whatever is mapped here next. */
void guarded_free(struct guarded *memory) {
  UNPOISON(memory->map, memory->map_size);
  if (memory->map && !keep(memory->map, memory->map_size / page_size() - 2)) munmap(memory->map, memory->map_size);
  memory->map = NULL;
}

/* The bytes of an allocation, up to where the next aligned one could begin. */
static size_t aligned_size(size_t size) { return (size + 63) / 64 * 64; }

static void *allocate(void *context, size_t size, size_t alignment) {
  assert_true(alignment <= 64 && size < SIZE_MAX / 2);
  struct guarded memory = guarded_new(aligned_size(size), context != NULL);
  return memory.data;
}

static void release(void *context, void *pointer, size_t size) {
  size_t page = page_size(), room = (aligned_size(size) + page - 1) / page * page;
  struct guarded memory = {.data = pointer, .size = size, .map_size = room + 2 * page};
  memory.map = memory.data - page - (context ? room - aligned_size(size) : 0);
  guarded_check(&memory, "an allocation");
  guarded_free(&memory);
}

struct omma_allocator guarded_allocator(bool at_end) {
  static char any;
  return (struct omma_allocator){at_end ? &any : NULL, allocate, release};
}
