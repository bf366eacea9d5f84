/* Tokens and merges that are spelled in the byte alphabet: token_loader.h. */
#include <string.h>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/token_loader.h"
#include "text/tokenizer_document.h"

/* The bytes that a token stands for: what it spells in the byte alphabet, or, as the official
 * decoder does, its text where a character of it is not of the alphabet. True when it spells
 * bytes. out holds `size` bytes. */
static bool token_bytes(const char *text, size_t size, char *out, size_t *out_size) {
  if (ommai_byte_alphabet_decode(text, size, out, out_size)) return true;
  memcpy(out, text, size);
  *out_size = size;
  return false;
}

enum omma_status ommai_token_loader_add_spelled(struct ommai_token_loader *loader, int32_t id, const char *text, size_t size) {
  char bytes[OMMAI_DOCUMENT_MAX_STRING];
  size_t n_bytes;
  bool spelled = token_bytes(text, size, bytes, &n_bytes);
  if (n_bytes == 0 || n_bytes > OMMAI_VOCABULARY_MAX_TOKEN_BYTES) {
    return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: %s: id %d: expected a token of 1 to %d bytes, found %zu",
                      loader->path, loader->vocabulary_name, (int)id, OMMAI_VOCABULARY_MAX_TOKEN_BYTES, n_bytes);
  }
  if (ommai_vocabulary_add(&loader->tokenizer->vocabulary, id, bytes, n_bytes, 0, spelled, loader->error) == OMMA_OK) {
    return OMMA_OK;
  }
  ommai_error_prefix(loader->error, "%s: %s", loader->path, loader->vocabulary_name);
  return OMMA_ERROR_FORMAT;
}

enum omma_status ommai_token_loader_begin_merges(struct ommai_token_loader *loader, size_t n_merges) {
  if (n_merges > OMMAI_BPE_MAX_MERGES) {
    return ommai_fail(loader->error, OMMA_ERROR_LIMIT, "%s: %s: %zu, more than %zu", loader->path, loader->merges_name,
                      n_merges, OMMAI_BPE_MAX_MERGES);
  }
  return ommai_bpe_init(&loader->tokenizer->bpe, n_merges, loader->allocator, loader->error);
}

/* Both parts of a merge and what they make must be tokens. */
static bool resolve(const struct ommai_vocabulary *vocabulary, const char *left, size_t left_size, const char *right,
                    size_t right_size, struct ommai_merge *merge) {
  char joined[2 * OMMAI_DOCUMENT_MAX_STRING];
  size_t n_left, n_right;
  if (!ommai_byte_alphabet_decode(left, left_size, joined, &n_left)) return false;
  if (!ommai_byte_alphabet_decode(right, right_size, joined + n_left, &n_right)) return false;
  merge->left = ommai_vocabulary_find(vocabulary, joined, n_left);
  merge->right = ommai_vocabulary_find(vocabulary, joined + n_left, n_right);
  merge->result = ommai_vocabulary_find(vocabulary, joined, n_left + n_right);
  return merge->left >= 0 && merge->right >= 0 && merge->result >= 0;
}

enum omma_status ommai_token_loader_add_merge(struct ommai_token_loader *loader, int32_t rank, const char *left,
                                              size_t left_size, const char *right, size_t right_size) {
  struct ommai_merge merge = {.rank = rank};
  if (!resolve(&loader->tokenizer->vocabulary, left, left_size, right, right_size, &merge)) {
    return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: %s[%d]: \"%.*s\" and \"%.*s\" or both are not tokens",
                      loader->path, loader->merges_name, (int)rank, (int)(left_size < 64 ? left_size : 64), left,
                      (int)(right_size < 64 ? right_size : 64), right);
  }
  if (ommai_bpe_add(&loader->tokenizer->bpe, merge)) return OMMA_OK;
  return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: %s[%d]: collides with too many others", loader->path,
                    loader->merges_name, (int)rank);
}
