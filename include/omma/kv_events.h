/* What an engine keeps of prompts, told as it comes and goes: what omma_engine_options.kv_events
 * is. */
#ifndef OMMA_KV_EVENTS_H
#define OMMA_KV_EVENTS_H

#include <stdint.h>

/* Names a page of keys and values by all that its content depends on: the tokens of the page and of
 * those before it, their positions, images, and the request's cache_salt. Stable between processes
 * and versions as long as these are computed the same. */
struct omma_kv_page_key {
  uint8_t bytes[32];
};

/* An image or video of which a page has tokens. */
struct omma_kv_page_image {
  uint8_t key[32]; /* names the image, as the page's key depends on it */
  /* the image's first one, counted from the page's first; negative where it stands in an earlier
   * page */
  int64_t first_token;
};

/* OMMA_ATTENTION_PAGE_TOKENS tokens of a prompt. Pointers live during the call. */
struct omma_kv_page {
  struct omma_kv_page_key key;
  const struct omma_kv_page_key *parent; /* of the page before; NULL: the prompt begins here */
  /* [OMMA_ATTENTION_PAGE_TOKENS] as omma_request_prompt has them */
  const int32_t *tokens;
  const struct omma_kv_page_image *images;
  int64_t n_images;       /* at most OMMA_ATTENTION_PAGE_TOKENS, in order */
  const char *cache_salt; /* of a prompt's first page; NULL: none */
};

/* Who is told. Called by the engine's thread between two steps, in order: both must be quick and
 * must not call the engine. */
struct omma_kv_events {
  void *context;
  /* later prompts that begin alike find it from now on */
  void (*stored)(void *context, const struct omma_kv_page *page);
  /* a page that was stored is there no more */
  void (*removed)(void *context, const struct omma_kv_page_key *page_key);
};

#endif
