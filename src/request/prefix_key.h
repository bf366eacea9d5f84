/* Keys of KV pages: a hash of everything that their content depends on: the tokens of the page and
 * of all pages before it, their positions, and for rows of images the image and the row. */
#pragma once

#include <omma/kv_events.h>
#include <stddef.h>

#include "base/tokens.h"

struct ommai_image_key;

/* How many pages of a prompt may be taken over from another one: whole pages, and never the last
 * token, whose logits are wanted. */
size_t ommai_prefix_key_count(size_t n_tokens);

/* Keys of the first pages of a prompt, tokens [n_tokens] with the keys of its images, into
 * keys[ommai_prefix_key_count(n_tokens)]. 256-bit hashes: a hit crosses users. `salt` (may be NULL)
 * begins the chain, so that prompts with different salts share nothing. */
void ommai_prefix_keys(const struct ommai_prompt_token *tokens, size_t n_tokens, const struct ommai_image_key *images,
                       const char *salt, struct omma_kv_page_key *keys);
