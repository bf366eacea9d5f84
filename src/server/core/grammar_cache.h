/* All compiled grammars: those of running requests, and those asked for last, as clients ask with
 * the same schema again and again. Requests with the same text share one. Their memory has a
 * budget. What was refused is remembered too. Thread-safe. */
#pragma once

#include <omma/omma.h>
#include <pthread.h>

/* Kept while no request has them, together at most an eighth of the budget. */
#define OMMAI_GRAMMAR_CACHE_IDLE 16
#define OMMAI_GRAMMAR_CACHE_REFUSALS 256
#define OMMAI_GRAMMAR_HASH_BYTES 32

struct ommai_cached_grammar {
  unsigned char hash[OMMAI_GRAMMAR_HASH_BYTES]; /* of kind and text */
  struct omma_grammar *grammar;
  size_t bytes;
  int64_t last_use;
};

struct ommai_refused_grammar {
  unsigned char hash[OMMAI_GRAMMAR_HASH_BYTES];
  struct omma_error error; /* status OK: the entry is free */
};

struct ommai_grammar_cache {
  const struct omma_allocator *allocator;
  int64_t max_cpu_ms; /* of a compilation */
  size_t budget;
  pthread_mutex_t lock;
  struct ommai_cached_grammar *entries; /* [n] */
  size_t n, capacity, bytes;
  struct ommai_refused_grammar refusals[OMMAI_GRAMMAR_CACHE_REFUSALS];
  int64_t n_uses, n_refusals;
  int64_t last_large_ns; /* when memory was last used that is to be given back */
};

void ommai_grammar_cache_init(struct ommai_grammar_cache *cache, size_t budget, int64_t max_cpu_ms,
                              const struct omma_allocator *allocator);
/* One that was not initialised is all zeroes. */
void ommai_grammar_cache_free(struct ommai_grammar_cache *cache);

/* A grammar of these options; the caller destroys it. `make`: it is compiled where it is not there,
 * which takes time. Errors: as omma_grammar_create; BUSY (there is no room next to those of other
 * requests, or it is not there and not to be made). */
enum omma_status ommai_grammar_cache_get(struct ommai_grammar_cache *cache, const struct omma_model *model,
                                         const struct omma_grammar_options *options, bool make, struct omma_grammar **grammar,
                                         struct omma_error *error);

/* Gives memory back to the system that is not needed any more; to be called twice a second. */
void ommai_grammar_cache_tidy(struct ommai_grammar_cache *cache);

/* Bytes of all grammars, and how many they are. */
void ommai_grammar_cache_count(struct ommai_grammar_cache *cache, size_t *bytes, size_t *n);
