#include "request/prefix_key.h"

#include <omma/attention.h>
#include <sodium.h>
#include <string.h>

#include "model/prepared_image.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS };

size_t ommai_prefix_key_count(size_t n_tokens) { return n_tokens ? (n_tokens - 1) / PAGE : 0; }

static void add(crypto_generichash_state *state, const void *bytes, size_t size) {
  crypto_generichash_update(state, bytes, size);
}

static void add_token(crypto_generichash_state *state, const struct ommai_prompt_token *token,
                      const struct ommai_image_key *images) {
  unsigned char kind = token->image >= 0;
  add(state, &kind, sizeof kind);
  add(state, &token->token, sizeof token->token);
  add(state, token->position, sizeof token->position);
  if (!kind) return;
  add(state, images[token->image].bytes, sizeof images[token->image].bytes);
  add(state, &token->image_row, sizeof token->image_row);
}

void ommai_prefix_keys(const struct ommai_prompt_token *tokens, size_t n_tokens, const struct ommai_image_key *images,
                       const char *salt, struct omma_kv_page_key *keys) {
  struct omma_kv_page_key previous = {{0}};
  if (salt) crypto_generichash(previous.bytes, sizeof previous.bytes, (const unsigned char *)salt, strlen(salt), NULL, 0);
  for (size_t page = 0; page < ommai_prefix_key_count(n_tokens); page++) {
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof keys[page].bytes);
    add(&state, previous.bytes, sizeof previous.bytes);
    for (size_t i = page * PAGE; i < (page + 1) * PAGE; i++) add_token(&state, &tokens[i], images);
    crypto_generichash_final(&state, keys[page].bytes, sizeof keys[page].bytes);
    previous = keys[page];
  }
}
