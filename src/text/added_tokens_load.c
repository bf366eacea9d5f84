/* Added tokens and the last steps of loading a tokenizer: token_loader.h. */
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "text/marked_spaces.h"
#include "text/nfc.h"
#include "text/token_loader.h"

enum { MAX_WHERE = PATH_MAX + 64 };

/* An added token that the set has already, from the other file or twice in one: fine when it is the
 * same. */
static enum omma_status find_added(struct ommai_token_loader *loader, const char *where, const struct ommai_added_token *token,
                                   bool *known) {
  const struct ommai_added_set *set = &loader->tokenizer->added;
  *known = false;
  for (size_t i = 0; i < set->n; i++) {
    bool same_text = set->tokens[i].size == token->size && memcmp(set->tokens[i].content, token->content, token->size) == 0;
    if (same_text != (set->tokens[i].id == token->id)) {
      return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: token \"%.64s\" with id %d contradicts \"%.64s\" with id %d",
                        where, token->content, (int)token->id, set->tokens[i].content, (int)set->tokens[i].id);
    }
    if (same_text) *known = true;
  }
  return OMMA_OK;
}

/* A token that is looked for in normalised text must be in normal form itself. */
static enum omma_status check_normal(struct ommai_token_loader *loader, const char *where,
                                     const struct ommai_added_token *token) {
  const struct ommai_tokenizer *tokenizer = loader->tokenizer;
  const struct omma_allocator *allocator = loader->allocator;
  struct ommai_nfc_text normal = {.text = token->content, .size = token->size};
  if (!token->normalized) return OMMA_OK;
  if (tokenizer->normalize) OMMAI_TRY(ommai_nfc(token->content, token->size, allocator, &normal, loader->error));
  if (tokenizer->marked_spaces) {
    OMMAI_TRY(ommai_marked_spaces_normalize(token->content, token->size, allocator, &normal, loader->error));
  }
  bool same = normal.size == token->size && memcmp(normal.text, token->content, token->size) == 0;
  ommai_nfc_release(&normal, allocator);
  if (same) return OMMA_OK;
  return ommai_fail_field(loader->error, OMMA_ERROR_UNSUPPORTED, "content",
                          "%s: key \"content\": expected normalised text, found \"%.64s\"", where, token->content);
}

enum omma_status ommai_token_loader_add(struct ommai_token_loader *loader, const char *where, const json_t *object,
                                        int64_t id) {
  struct ommai_added_token token = {.id = (int32_t)id};
  struct ommai_added_set *set = &loader->tokenizer->added;
  bool single_word = false, special = false, known;
  OMMAI_TRY(ommai_json_string(object, where, "content", true, &token.content, loader->error));
  OMMAI_TRY(ommai_json_boolean(object, where, "single_word", false, &single_word, loader->error));
  OMMAI_TRY(ommai_json_boolean(object, where, "lstrip", false, &token.strip_left, loader->error));
  OMMAI_TRY(ommai_json_boolean(object, where, "rstrip", false, &token.strip_right, loader->error));
  OMMAI_TRY(ommai_json_boolean(object, where, "special", false, &special, loader->error));
  token.normalized = !special;
  OMMAI_TRY(ommai_json_boolean(object, where, "normalized", false, &token.normalized, loader->error));
  token.size = strlen(token.content);
  if (token.size == 0 || token.size > OMMAI_VOCABULARY_MAX_TOKEN_BYTES) {
    return ommai_fail_field(loader->error, OMMA_ERROR_FORMAT, "content",
                            "%s: key \"content\": expected 1 to %d bytes, found %zu", where, OMMAI_VOCABULARY_MAX_TOKEN_BYTES,
                            token.size);
  }
  if (single_word) {
    return ommai_fail_field(loader->error, OMMA_ERROR_UNSUPPORTED, "single_word",
                            "%s: key \"single_word\": expected false, found true", where);
  }
  OMMAI_TRY(check_normal(loader, where, &token));
  OMMAI_TRY(find_added(loader, where, &token, &known));
  if (known) return OMMA_OK;
  if (token.id > loader->max_id) loader->max_id = token.id;
  loader->special[set->n] = special;
  set->tokens[set->n++] = token;
  return OMMA_OK;
}

/* An integer without sign or leading zeros; -1 for anything else. */
static int64_t parse_id(const char *text) {
  int64_t id = 0;
  if (text[0] == '\0' || (text[0] == '0' && text[1])) return -1;
  for (; *text; text++) {
    if (*text < '0' || *text > '9' || id >= OMMAI_VOCABULARY_MAX_IDS) return -1;
    id = id * 10 + (*text - '0');
  }
  return id < OMMAI_VOCABULARY_MAX_IDS ? id : -1;
}

/* added_tokens_decoder of tokenizer_config.json, an object from id to token; NULL where there is
 * none. */
static enum omma_status config_decoder(struct ommai_token_loader *loader, json_t **decoder) {
  *decoder = NULL;
  if (!loader->config) return OMMA_OK;
  return ommai_json_object(loader->config, loader->config_path, "added_tokens_decoder", false, decoder, loader->error);
}

enum omma_status ommai_token_loader_begin_added(struct ommai_token_loader *loader, size_t n_more) {
  json_t *decoder;
  OMMAI_TRY(config_decoder(loader, &decoder));
  size_t n = n_more + json_object_size(decoder);
  if (n > OMMAI_ADDED_MAX_TOKENS) {
    return ommai_fail_field(loader->error, OMMA_ERROR_LIMIT, "added_tokens", "%s: added_tokens: %zu, more than %zu",
                            loader->path, n, OMMAI_ADDED_MAX_TOKENS);
  }
  OMMAI_TRY(ommai_added_init(&loader->tokenizer->added, n, loader->allocator, loader->error));
  loader->special = ommai_allocate(loader->allocator, n, 1);
  if (!loader->special) return ommai_fail_memory(loader->error, "added tokens", n);
  return OMMA_OK;
}

enum omma_status ommai_token_loader_add_config(struct ommai_token_loader *loader) {
  json_t *decoder, *object;
  OMMAI_TRY(config_decoder(loader, &decoder));
  const char *key;
  json_object_foreach(decoder, key, object) {
    char where[MAX_WHERE];
    snprintf(where, sizeof where, "%s: added_tokens_decoder.%.20s", loader->config_path, key);
    int64_t id = parse_id(key);
    if (id < 0 || !json_is_object(object)) {
      return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: expected an id from 0 to %lld and an object", where,
                        (long long)OMMAI_VOCABULARY_MAX_IDS - 1);
    }
    OMMAI_TRY(ommai_token_loader_add(loader, where, object, id));
  }
  return OMMA_OK;
}

/* Moves the contents into memory of the tokenizer. */
enum omma_status ommai_token_loader_own_added(struct ommai_token_loader *loader) {
  struct ommai_tokenizer *tokenizer = loader->tokenizer;
  struct ommai_added_set *set = &tokenizer->added;
  for (size_t i = 0; i < set->n; i++) tokenizer->added_text_size += set->tokens[i].size;
  tokenizer->added_text = ommai_allocate(loader->allocator, tokenizer->added_text_size, 1);
  if (!tokenizer->added_text) return ommai_fail_memory(loader->error, "added tokens", tokenizer->added_text_size);
  char *at = tokenizer->added_text;
  for (size_t i = 0; i < set->n; i++) {
    memcpy(at, set->tokens[i].content, set->tokens[i].size);
    set->tokens[i].content = at;
    at += set->tokens[i].size;
  }
  return OMMA_OK;
}

/* Gives added tokens their ids: a new id, or the one that the vocabulary has for the same token. */
enum omma_status ommai_token_loader_place_added(struct ommai_token_loader *loader, bool spelled) {
  struct ommai_vocabulary *vocabulary = &loader->tokenizer->vocabulary;
  for (size_t i = 0; i < loader->tokenizer->added.n; i++) {
    const struct ommai_added_token *added = &loader->tokenizer->added.tokens[i];
    char bytes[OMMAI_VOCABULARY_MAX_TOKEN_BYTES];
    size_t size;
    bool findable = spelled && ommai_token_loader_spell(loader, added->content, added->size, bytes, &size);
    if (!spelled) {
      memcpy(bytes, added->content, added->size);
      size = added->size;
    }
    int32_t listed = findable ? ommai_vocabulary_find(vocabulary, bytes, size) : -1;
    const struct ommai_token *token = ommai_vocabulary_get(vocabulary, added->id);
    bool same = token && token->size == size && memcmp(vocabulary->bytes + token->offset, bytes, size) == 0;
    if ((token && !same) || (listed >= 0 && listed != added->id)) {
      return ommai_fail(loader->error, OMMA_ERROR_FORMAT,
                        "%s: added token \"%.*s\" with id %d contradicts %s (which has it at %d)", loader->path,
                        (int)added->size, added->content, (int)added->id, loader->vocabulary_name, (int)listed);
    }
    unsigned flags = OMMAI_TOKEN_ADDED | (loader->special[i] ? OMMAI_TOKEN_SPECIAL : 0u);
    if (!token) OMMAI_TRY(ommai_vocabulary_add(vocabulary, added->id, bytes, size, 0, false, loader->error));
    vocabulary->tokens[added->id].flags |= (uint16_t)flags;
  }
  ommai_added_sort(&loader->tokenizer->added);
  return OMMA_OK;
}

enum omma_status ommai_token_loader_find_bytes(struct ommai_token_loader *loader) {
  struct ommai_tokenizer *tokenizer = loader->tokenizer;
  if (tokenizer->marked_spaces) tokenizer->bpe.characters = &tokenizer->vocabulary;
  if (tokenizer->marked_spaces && ommai_vocabulary_find(&tokenizer->vocabulary, " ", 1) < 0) {
    return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: %s: the mark of a space, U+2581, has no token", loader->path,
                      loader->vocabulary_name);
  }
  for (int byte = 0; byte < 256; byte++) {
    char text = (char)byte;
    int32_t id =
        tokenizer->marked_spaces ? loader->byte_tokens[byte] - 1 : ommai_vocabulary_find(&tokenizer->vocabulary, &text, 1);
    if (id < 0) {
      return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: %s: byte 0x%02x has no token", loader->path,
                        loader->vocabulary_name, byte);
    }
    tokenizer->bpe.byte_ids[byte] = id;
  }
  return OMMA_OK;
}
