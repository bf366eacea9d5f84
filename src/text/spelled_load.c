/* Tokens and merges as files spell them: token_loader.h. */
#include <string.h>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/marked_spaces.h"
#include "text/token_loader.h"
#include "text/tokenizer_document.h"

bool ommai_token_loader_spell(const struct ommai_token_loader *loader, const char *text, size_t size, char *out,
                              size_t *out_size) {
  if (!loader->tokenizer->marked_spaces) {
    if (ommai_byte_alphabet_decode(text, size, out, out_size)) return true;
    memcpy(out, text, size);
    *out_size = size;
    return false;
  }
  int byte = ommai_marked_spaces_byte(text, size);
  *out_size = byte < 0 ? ommai_marked_spaces_decode(text, size, out) : 1;
  if (byte >= 0) *out = (char)byte;
  return byte < 0 && !memchr(text, ' ', size);
}

enum omma_status ommai_token_loader_add_spelled(struct ommai_token_loader *loader, int32_t id, const char *text, size_t size) {
  char bytes[OMMAI_DOCUMENT_MAX_STRING];
  size_t n_bytes;
  bool spelled = ommai_token_loader_spell(loader, text, size, bytes, &n_bytes);
  int byte = loader->tokenizer->marked_spaces ? ommai_marked_spaces_byte(text, size) : -1;
  if (byte >= 0) loader->byte_tokens[byte] = id + 1;
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
static bool resolve(const struct ommai_token_loader *loader, const char *left, size_t left_size, const char *right,
                    size_t right_size, struct ommai_merge *merge) {
  const struct ommai_vocabulary *vocabulary = &loader->tokenizer->vocabulary;
  char joined[2 * OMMAI_DOCUMENT_MAX_STRING];
  size_t n_left, n_right;
  if (!ommai_token_loader_spell(loader, left, left_size, joined, &n_left)) return false;
  if (!ommai_token_loader_spell(loader, right, right_size, joined + n_left, &n_right)) return false;
  merge->left = ommai_vocabulary_find(vocabulary, joined, n_left);
  merge->right = ommai_vocabulary_find(vocabulary, joined + n_left, n_right);
  merge->result = ommai_vocabulary_find(vocabulary, joined, n_left + n_right);
  return merge->left >= 0 && merge->right >= 0 && merge->result >= 0;
}

enum omma_status ommai_token_loader_add_merge(struct ommai_token_loader *loader, int32_t rank, const char *left,
                                              size_t left_size, const char *right, size_t right_size) {
  struct ommai_merge merge = {.rank = rank};
  if (!resolve(loader, left, left_size, right, right_size, &merge)) {
    return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: %s[%d]: \"%.*s\" and \"%.*s\" or both are not tokens",
                      loader->path, loader->merges_name, (int)rank, (int)(left_size < 64 ? left_size : 64), left,
                      (int)(right_size < 64 ? right_size : 64), right);
  }
  if (ommai_bpe_add(&loader->tokenizer->bpe, merge)) return OMMA_OK;
  return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: %s[%d]: collides with too many others", loader->path,
                    loader->merges_name, (int)rank);
}
