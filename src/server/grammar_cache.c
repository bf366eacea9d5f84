#include "server/grammar_cache.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"

void ommai_grammar_cache_init(struct ommai_grammar_cache *cache, const struct omma_allocator *allocator) {
  *cache = (struct ommai_grammar_cache){.allocator = allocator};
  pthread_mutex_init(&cache->lock, NULL);
}

static void free_entry(struct ommai_grammar_cache *cache, struct ommai_cached_grammar *entry) {
  if (!entry->grammar) return;
  omma_grammar_destroy(entry->grammar);
  ommai_release(cache->allocator, (char *)entry->key.text, entry->key.text_size + 1, 1);
  *entry = (struct ommai_cached_grammar){.grammar = NULL};
}

void ommai_grammar_cache_free(struct ommai_grammar_cache *cache) {
  if (!cache->allocator) return;
  for (size_t i = 0; i < OMMAI_GRAMMAR_CACHE_ENTRIES; i++) free_entry(cache, &cache->entries[i]);
  pthread_mutex_destroy(&cache->lock);
}

static bool same(const struct omma_grammar_options *a, const struct omma_grammar_options *b) {
  return a->kind == b->kind && a->compact_json == b->compact_json && a->text_size == b->text_size &&
         !memcmp(a->text, b->text, a->text_size);
}

/* Under the lock: the grammar with one more user, or NULL. */
static struct omma_grammar *find(struct ommai_grammar_cache *cache, const struct omma_grammar_options *options) {
  for (size_t i = 0; i < OMMAI_GRAMMAR_CACHE_ENTRIES; i++) {
    struct ommai_cached_grammar *entry = &cache->entries[i];
    if (!entry->grammar || !same(&entry->key, options)) continue;
    entry->last_use = ++cache->n_uses;
    return omma_grammar_share(entry->grammar);
  }
  return NULL;
}

/* Under the lock: instead of the one that was not used for longest. Without memory it is not
 * kept. */
static void keep(struct ommai_grammar_cache *cache, const struct omma_grammar_options *options, struct omma_grammar *grammar) {
  struct ommai_cached_grammar *oldest = &cache->entries[0];
  for (size_t i = 1; i < OMMAI_GRAMMAR_CACHE_ENTRIES; i++) {
    if (cache->entries[i].last_use < oldest->last_use) oldest = &cache->entries[i];
  }
  char *text = ommai_duplicate(cache->allocator, options->text, options->text_size);
  if (!text) return;
  free_entry(cache, oldest);
  *oldest = (struct ommai_cached_grammar){.key = *options, .grammar = omma_grammar_share(grammar), .last_use = ++cache->n_uses};
  oldest->key.text = text;
}

enum omma_status ommai_grammar_cache_get(struct ommai_grammar_cache *cache, const struct omma_model *model,
                                         const struct omma_grammar_options *options, struct omma_grammar **grammar,
                                         struct omma_error *error) {
  bool kept = cache->allocator && options->text_size <= OMMAI_GRAMMAR_CACHE_MAX_TEXT;
  if (kept) {
    pthread_mutex_lock(&cache->lock);
    *grammar = find(cache, options);
    pthread_mutex_unlock(&cache->lock);
    if (*grammar) return OMMA_OK;
  }
  OMMAI_TRY(omma_grammar_create(model, options, grammar, error));
  if (!kept) return OMMA_OK;
  pthread_mutex_lock(&cache->lock);
  keep(cache, options, *grammar);
  pthread_mutex_unlock(&cache->lock);
  return OMMA_OK;
}
