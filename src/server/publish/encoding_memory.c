#include "server/publish/encoding_memory.h"

#include <string.h>

#include "base/allocator.h"
#include "base/clock.h"

#define ALPHANUMERIC "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

bool ommai_encoding_key_valid(const char *key) {
  size_t size = strspn(key, ALPHANUMERIC "-_.");
  return size > 0 && size < OMMAI_ENCODING_KEY_SIZE && !key[size] && strspn(key, ALPHANUMERIC) > 0;
}

struct ommai_kept_encoding {
  struct ommai_kept_encoding *newer, *older;
  char key[OMMAI_ENCODING_KEY_SIZE];
  int64_t kept_ns;
  struct ommai_text body;
};

void ommai_encoding_memory_init(struct ommai_encoding_memory *memory, size_t budget, int64_t ttl_ns,
                                const struct omma_allocator *allocator) {
  *memory = (struct ommai_encoding_memory){.allocator = allocator, .budget = budget, .ttl_ns = ttl_ns};
  pthread_mutex_init(&memory->lock, NULL);
}

/* Under the lock, as all down to the calls. */
static void evict_kept(struct ommai_encoding_memory *memory, struct ommai_kept_encoding *kept) {
  *(kept->older ? &kept->older->newer : &memory->oldest) = kept->newer;
  *(kept->newer ? &kept->newer->older : &memory->newest) = kept->older;
  memory->bytes -= kept->body.size;
  ommai_text_free(&kept->body);
  ommai_release(memory->allocator, kept, 1, sizeof *kept);
}

static void evict_expired(struct ommai_encoding_memory *memory) {
  int64_t now_ns = ommai_clock_ns();
  while (memory->ttl_ns && memory->oldest && now_ns - memory->oldest->kept_ns > memory->ttl_ns)
    evict_kept(memory, memory->oldest);
}

static struct ommai_kept_encoding *find_kept(const struct ommai_encoding_memory *memory, const char *key) {
  struct ommai_kept_encoding *kept = memory->newest;
  while (kept && strcmp(kept->key, key) != 0) kept = kept->older;
  return kept;
}

static void link_newest(struct ommai_encoding_memory *memory, struct ommai_kept_encoding *kept) {
  kept->older = memory->newest;
  *(memory->newest ? &memory->newest->newer : &memory->oldest) = kept;
  memory->newest = kept;
  memory->bytes += kept->body.size;
}

/* The calls. */

void ommai_encoding_memory_free(struct ommai_encoding_memory *memory) {
  if (!memory->allocator) return;
  while (memory->oldest) evict_kept(memory, memory->oldest);
  pthread_mutex_destroy(&memory->lock);
}

bool ommai_encoding_memory_put(struct ommai_encoding_memory *memory, const char *key, struct ommai_text *body) {
  struct ommai_kept_encoding *kept = NULL;
  if (body->size <= memory->budget) kept = ommai_allocate(memory->allocator, 1, sizeof *kept);
  bool fits = body->size <= memory->budget;
  pthread_mutex_lock(&memory->lock);
  evict_expired(memory);
  struct ommai_kept_encoding *before = find_kept(memory, key);
  if (before) evict_kept(memory, before);
  while (kept && memory->bytes + body->size > memory->budget) evict_kept(memory, memory->oldest);
  if (kept) {
    memcpy(kept->key, key, strlen(key) + 1);
    kept->kept_ns = ommai_clock_ns();
    kept->body = *body;
    link_newest(memory, kept);
  }
  pthread_mutex_unlock(&memory->lock);
  if (kept) {
    *body = ommai_text_of(body->allocator);
  } else {
    ommai_text_free(body);
  }
  return kept || !fits;
}

bool ommai_encoding_memory_get(struct ommai_encoding_memory *memory, const char *key, struct ommai_text *out) {
  pthread_mutex_lock(&memory->lock);
  evict_expired(memory);
  const struct ommai_kept_encoding *kept = find_kept(memory, key);
  if (kept) ommai_text_append(out, kept->body.data, kept->body.size);
  pthread_mutex_unlock(&memory->lock);
  return kept != NULL;
}
