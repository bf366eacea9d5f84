/* Events about the pages of prompts that an engine keeps: omma_engine_options.kv_events. */
#ifndef OMMA_KV_EVENTS_H
#define OMMA_KV_EVENTS_H

#include <stdint.h>

/* Names a page of keys and values by everything on which its content depends: the tokens of the
 * page and of the pages before it, their positions, images, and the request's cache_salt. Stable
 * between processes and versions as long as these are computed in the same way. */
struct omma_kv_page_key {
  uint8_t bytes[32];
};

/* An image or video of which a page has tokens. */
struct omma_kv_page_image {
  uint8_t key[32]; /* names the image; the page's key depends on it */
  /* The image's first token, counted from the page's first token. Negative where it is in an
   * earlier page. */
  int64_t first_token;
};

/* A page: OMMA_ATTENTION_PAGE_TOKENS tokens of a prompt. Pointers live during the call. */
struct omma_kv_page {
  struct omma_kv_page_key key;
  const struct omma_kv_page_key *parent; /* the previous page; NULL: the prompt begins here */
  /* [OMMA_ATTENTION_PAGE_TOKENS], as in omma_request_prompt */
  const int32_t *tokens;
  const struct omma_kv_page_image *images;
  int64_t n_images;       /* at most OMMA_ATTENTION_PAGE_TOKENS, in order */
  const char *cache_salt; /* of a prompt's first page; NULL: none */
};

/* Receives the events. The engine's thread calls it between two steps, in order. The functions
 * must be quick and must not call the engine. The caller owns the context. */
struct omma_kv_events {
  void *context;
  /* From now on, later prompts that begin with the same tokens can use this page. */
  void (*stored)(void *context, const struct omma_kv_page *page);
  /* A stored page was evicted. */
  void (*removed)(void *context, const struct omma_kv_page_key *page_key);
  /* All stored pages are gone (omma_engine_sleep). */
  void (*cleared)(void *context);
};

#endif
