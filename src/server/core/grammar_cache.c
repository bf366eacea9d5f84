#include "server/core/grammar_cache.h"

#include <sodium.h>
#include <string.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/growing.h"

/* What every grammar takes at least, and more for each byte of its text where that is long: only to
 * see soon that there is no room. Texts from which on a request leaves much memory behind; how
 * long after such a one memory is given back. */
#define LEAST_BYTES ((size_t)4 << 20)
#define BYTES_A_BYTE 48
#define MOST_BYTES ((size_t)16 << 20)
#define LARGE_TEXT ((size_t)16 << 10)
#define TIDY_NS INT64_C(5000000000)

void ommai_grammar_cache_init(struct ommai_grammar_cache *cache, size_t budget, int64_t max_cpu_ms,
                              const struct omma_allocator *allocator) {
  *cache = (struct ommai_grammar_cache){.allocator = allocator, .budget = budget, .max_cpu_ms = max_cpu_ms};
  pthread_mutex_init(&cache->lock, NULL);
}

void ommai_grammar_cache_free(struct ommai_grammar_cache *cache) {
  if (!cache->allocator) return;
  for (size_t i = 0; i < cache->n; i++) omma_grammar_destroy(cache->entries[i].grammar);
  ommai_release(cache->allocator, cache->entries, cache->capacity, sizeof *cache->entries);
  pthread_mutex_destroy(&cache->lock);
}

static void hash_options(const struct omma_grammar_options *options, unsigned char hash[OMMAI_GRAMMAR_HASH_BYTES]) {
  const unsigned char head[2] = {(unsigned char)options->kind, options->compact_json};
  crypto_generichash_state state;
  crypto_generichash_init(&state, NULL, 0, OMMAI_GRAMMAR_HASH_BYTES);
  crypto_generichash_update(&state, head, sizeof head);
  crypto_generichash_update(&state, (const unsigned char *)options->text, options->text_size);
  crypto_generichash_final(&state, hash, OMMAI_GRAMMAR_HASH_BYTES);
}

/* ---- under the lock ---- */

/* The grammar with one more user, or what was wrong with it. False: neither is known. */
static bool find(struct ommai_grammar_cache *cache, const unsigned char *hash, struct omma_grammar **grammar,
                 struct omma_error *error) {
  for (size_t i = 0; i < cache->n; i++) {
    struct ommai_cached_grammar *entry = &cache->entries[i];
    if (memcmp(entry->hash, hash, sizeof entry->hash)) continue;
    entry->last_use = ++cache->n_uses;
    *grammar = omma_grammar_share(entry->grammar);
    return true;
  }
  for (size_t i = 0; i < OMMAI_GRAMMAR_CACHE_REFUSALS; i++) {
    const struct ommai_refused_grammar *refusal = &cache->refusals[i];
    if (refusal->error.status == OMMA_OK || memcmp(refusal->hash, hash, sizeof refusal->hash)) continue;
    *error = refusal->error;
    return true;
  }
  return false;
}

/* Grammars grow where another engine answers with them. */
static void weigh(struct ommai_grammar_cache *cache) {
  cache->bytes = 0;
  for (size_t i = 0; i < cache->n; i++) {
    cache->entries[i].bytes = omma_grammar_bytes(cache->entries[i].grammar);
    cache->bytes += cache->entries[i].bytes;
  }
}

/* Gives up the grammar that no request has and that was not used for longest. False: there is
 * none. */
static bool give_up_one(struct ommai_grammar_cache *cache) {
  size_t oldest = cache->n;
  for (size_t i = 0; i < cache->n; i++) {
    if (omma_grammar_is_shared(cache->entries[i].grammar)) continue;
    if (oldest == cache->n || cache->entries[i].last_use < cache->entries[oldest].last_use) oldest = i;
  }
  if (oldest == cache->n) return false;
  cache->bytes -= cache->entries[oldest].bytes;
  omma_grammar_destroy(cache->entries[oldest].grammar);
  cache->entries[oldest] = cache->entries[--cache->n];
  return true;
}

static bool make_room(struct ommai_grammar_cache *cache, size_t bytes) {
  weigh(cache);
  while (bytes > cache->budget || cache->bytes > cache->budget - bytes) {
    if (!give_up_one(cache)) return false;
  }
  return true;
}

static bool keep(struct ommai_grammar_cache *cache, const unsigned char *hash, struct omma_grammar *grammar) {
  struct ommai_cached_grammar entry = {.bytes = omma_grammar_bytes(grammar), .last_use = ++cache->n_uses};
  if (!make_room(cache, entry.bytes) ||
      !ommai_grow((void **)&cache->entries, &cache->capacity, cache->n, 1, sizeof *cache->entries, cache->allocator)) {
    return false;
  }
  memcpy(entry.hash, hash, sizeof entry.hash);
  entry.grammar = omma_grammar_share(grammar);
  cache->entries[cache->n++] = entry;
  cache->bytes += entry.bytes;
  return true;
}

/* Only what will be refused again. */
static void keep_refusal(struct ommai_grammar_cache *cache, const unsigned char *hash, enum omma_status status,
                         const struct omma_error *error) {
  struct ommai_refused_grammar *refusal = &cache->refusals[cache->n_refusals % OMMAI_GRAMMAR_CACHE_REFUSALS];
  if (status != OMMA_ERROR_FORMAT && status != OMMA_ERROR_UNSUPPORTED && status != OMMA_ERROR_LIMIT) return;
  memcpy(refusal->hash, hash, sizeof refusal->hash);
  refusal->error = *error;
  cache->n_refusals++;
}

/* ---- all ---- */

static enum omma_status fail_room(const struct ommai_grammar_cache *cache, struct omma_error *error) {
  return ommai_fail(error, OMMA_ERROR_BUSY, "there is no room next to the grammars of running requests (at most %zu MiB)",
                    cache->budget >> 20);
}

static enum omma_status make(struct ommai_grammar_cache *cache, const struct omma_model *model,
                             const struct omma_grammar_options *options, const unsigned char *hash,
                             struct omma_grammar **grammar, struct omma_error *error) {
  struct omma_grammar_options limited = *options;
  struct omma_grammar *made = NULL;
  limited.max_cpu_ms = cache->max_cpu_ms;
  size_t expected = LEAST_BYTES + options->text_size * BYTES_A_BYTE;
  if (expected > MOST_BYTES) expected = MOST_BYTES;
  pthread_mutex_lock(&cache->lock);
  bool room = make_room(cache, expected);
  pthread_mutex_unlock(&cache->lock);
  if (!room) return fail_room(cache, error);
  enum omma_status status = omma_grammar_create(model, &limited, &made, error);
  pthread_mutex_lock(&cache->lock);
  if (status != OMMA_OK) {
    keep_refusal(cache, hash, status, error);
  } else if (!keep(cache, hash, made)) {
    status = fail_room(cache, error);
  }
  pthread_mutex_unlock(&cache->lock);
  if (status != OMMA_OK) omma_grammar_destroy(made);
  *grammar = status == OMMA_OK ? made : NULL;
  return status;
}

enum omma_status ommai_grammar_cache_get(struct ommai_grammar_cache *cache, const struct omma_model *model,
                                         const struct omma_grammar_options *options, bool may_make,
                                         struct omma_grammar **grammar, struct omma_error *error) {
  unsigned char hash[OMMAI_GRAMMAR_HASH_BYTES];
  *grammar = NULL;
  hash_options(options, hash);
  pthread_mutex_lock(&cache->lock);
  bool found = find(cache, hash, grammar, error);
  if (options->text_size >= LARGE_TEXT || !found) cache->last_large_ns = ommai_clock_ns();
  pthread_mutex_unlock(&cache->lock);
  if (found) return *grammar ? OMMA_OK : error->status;
  return may_make ? make(cache, model, options, hash, grammar, error) : fail_room(cache, error);
}

void ommai_grammar_cache_tidy(struct ommai_grammar_cache *cache) {
  size_t n = 0, bytes = 0;
  pthread_mutex_lock(&cache->lock);
  weigh(cache);
  for (size_t i = 0; i < cache->n; i++) {
    if (omma_grammar_is_shared(cache->entries[i].grammar)) continue;
    n++;
    bytes += cache->entries[i].bytes;
  }
  for (; n > OMMAI_GRAMMAR_CACHE_IDLE || bytes > cache->budget / 8; n--) {
    size_t before = cache->bytes;
    if (!give_up_one(cache)) break;
    bytes -= before - cache->bytes;
  }
  bool trim = cache->last_large_ns && ommai_clock_ns() - cache->last_large_ns < TIDY_NS;
  pthread_mutex_unlock(&cache->lock);
  if (trim) ommai_trim(); /* of what parsing large requests leaves behind */
}

void ommai_grammar_cache_count(struct ommai_grammar_cache *cache, size_t *bytes, size_t *n) {
  pthread_mutex_lock(&cache->lock);
  weigh(cache);
  *bytes = cache->bytes;
  *n = cache->n;
  pthread_mutex_unlock(&cache->lock);
}
