/* The grammars that were asked for last, compiled: clients ask with the same schema again and
 * again. Thread-safe. */
#ifndef OMMAI_SERVER_GRAMMAR_CACHE_H
#define OMMAI_SERVER_GRAMMAR_CACHE_H

#include <omma/omma.h>
#include <pthread.h>

#define OMMAI_GRAMMAR_CACHE_ENTRIES 16
/* Longer texts are compiled each time. */
#define OMMAI_GRAMMAR_CACHE_MAX_TEXT ((size_t)64 << 10)

struct ommai_cached_grammar {
  struct omma_grammar_options key; /* its text is the cache's own */
  struct omma_grammar *grammar;    /* NULL: the entry is free */
  int64_t last_use;
};

struct ommai_grammar_cache {
  const struct omma_allocator *allocator;
  pthread_mutex_t lock;
  struct ommai_cached_grammar entries[OMMAI_GRAMMAR_CACHE_ENTRIES];
  int64_t n_uses;
};

void ommai_grammar_cache_init(struct ommai_grammar_cache *cache, const struct omma_allocator *allocator);
/* One that was not initialised is all zeroes. */
void ommai_grammar_cache_free(struct ommai_grammar_cache *cache);

/* A grammar of these options; the caller destroys it. Errors: as omma_grammar_create. */
enum omma_status ommai_grammar_cache_get(struct ommai_grammar_cache *cache, const struct omma_model *model,
                                         const struct omma_grammar_options *options, struct omma_grammar **grammar,
                                         struct omma_error *error);

#endif
