/* Loading a tokenizer: settings -> added tokens by name -> tokens by id -> the byte alphabet -> merges. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "text/byte_alphabet.h"
#include "text/nfc.h"
#include "text/tokenizer_document.h"
#include "text/tokenizer_parts.h"
#include "text/tokenizer_settings.h"

#define MAX_FILE_BYTES ((size_t)64 << 20)
#define MAX_CONFIG_BYTES ((size_t)16 << 20)

enum { MAX_WHERE = PATH_MAX + 64 };

struct loader {
  struct ommai_tokenizer *tokenizer;
  char path[PATH_MAX], config_path[PATH_MAX];
  struct ommai_tokenizer_document document;
  json_t *config;         /* tokenizer_config.json, or NULL */
  unsigned char *special; /* [tokenizer->added.capacity]: flags of the added tokens before they are sorted */
  int32_t max_id;         /* over all tokens */
  const struct omma_allocator *allocator;
  struct omma_error *error;
};

/* ---- added tokens ------------------------------------------------------------------------------------------------------- */

/* An added token that the set has already, from the other file or twice in one: fine when it is the same. */
static enum omma_status known_added(struct loader *loader, const char *where, const struct ommai_added_token *token,
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
static enum omma_status check_normal(struct loader *loader, const char *where, const struct ommai_added_token *token) {
  if (!token->normalized || !loader->tokenizer->normalize) return OMMA_OK;
  struct ommai_nfc_text normal;
  OMMAI_TRY(ommai_nfc(token->content, token->size, loader->allocator, &normal, loader->error));
  bool same = normal.size == token->size && memcmp(normal.text, token->content, token->size) == 0;
  ommai_nfc_release(&normal, loader->allocator);
  if (same) return OMMA_OK;
  return ommai_fail_field(loader->error, OMMA_ERROR_UNSUPPORTED, "content",
                          "%s: key \"content\": expected normalised text, found \"%.64s\"", where, token->content);
}

static enum omma_status read_added(struct loader *loader, const char *where, const json_t *object, int64_t id) {
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
  OMMAI_TRY(known_added(loader, where, &token, &known));
  if (known) return OMMA_OK;
  if (token.id > loader->max_id) loader->max_id = token.id;
  loader->special[set->n] = special;
  set->tokens[set->n++] = token;
  return OMMA_OK;
}

/* added_tokens of tokenizer.json: an array of objects with ids. */
static enum omma_status read_added_array(struct loader *loader, const json_t *array) {
  for (size_t i = 0; i < json_array_size(array); i++) {
    char where[MAX_WHERE];
    snprintf(where, sizeof where, "%s: added_tokens[%zu]", loader->path, i);
    const json_t *object = json_array_get(array, i);
    if (!json_is_object(object)) return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: expected an object", where);
    int64_t id;
    OMMAI_TRY(ommai_json_integer(object, where, "id", true, 0, OMMAI_VOCABULARY_MAX_IDS - 1, &id, loader->error));
    OMMAI_TRY(read_added(loader, where, object, id));
  }
  return OMMA_OK;
}

/* A whole number without sign or leading zeros; -1 for anything else. */
static int64_t parse_id(const char *text) {
  int64_t id = 0;
  if (text[0] == '\0' || (text[0] == '0' && text[1])) return -1;
  for (; *text; text++) {
    if (*text < '0' || *text > '9' || id >= OMMAI_VOCABULARY_MAX_IDS) return -1;
    id = id * 10 + (*text - '0');
  }
  return id < OMMAI_VOCABULARY_MAX_IDS ? id : -1;
}

/* added_tokens_decoder of tokenizer_config.json: an object from id to token. */
static enum omma_status read_added_decoder(struct loader *loader, json_t *decoder) {
  const char *key;
  json_t *object;
  json_object_foreach(decoder, key, object) {
    char where[MAX_WHERE];
    snprintf(where, sizeof where, "%s: added_tokens_decoder.%.20s", loader->config_path, key);
    int64_t id = parse_id(key);
    if (id < 0 || !json_is_object(object)) {
      return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: expected an id from 0 to %lld and an object", where,
                        (long long)OMMAI_VOCABULARY_MAX_IDS - 1);
    }
    OMMAI_TRY(read_added(loader, where, object, id));
  }
  return OMMA_OK;
}

/* Moves the contents into memory of the tokenizer. */
static enum omma_status own_added(struct loader *loader) {
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

static enum omma_status load_added(struct loader *loader) {
  json_t *array, *decoder = NULL;
  OMMAI_TRY(ommai_json_array(loader->document.root, loader->path, "added_tokens", false, &array, loader->error));
  if (loader->config) {
    OMMAI_TRY(ommai_json_object(loader->config, loader->config_path, "added_tokens_decoder", false, &decoder, loader->error));
  }
  size_t n = json_array_size(array) + json_object_size(decoder);
  if (n > OMMAI_ADDED_MAX_TOKENS) {
    return ommai_fail_field(loader->error, OMMA_ERROR_LIMIT, "added_tokens", "%s: added_tokens: %zu, more than %zu",
                            loader->path, n, OMMAI_ADDED_MAX_TOKENS);
  }
  OMMAI_TRY(ommai_added_init(&loader->tokenizer->added, n, loader->allocator, loader->error));
  loader->special = ommai_allocate(loader->allocator, n, 1);
  if (!loader->special) return ommai_fail_memory(loader->error, "added tokens", n);
  OMMAI_TRY(read_added_array(loader, array));
  OMMAI_TRY(read_added_decoder(loader, decoder));
  return own_added(loader);
}

/* ---- tokens by id ------------------------------------------------------------------------------------------------------- */

/* The bytes that a token stands for: what it spells in the byte alphabet, or, as the official decoder does, its text where a
 * character of it is not of the alphabet. True when it spells bytes. out holds `size` bytes. */
static bool token_bytes(const char *text, size_t size, char *out, size_t *out_size) {
  if (ommai_byte_alphabet_decode(text, size, out, out_size)) return true;
  memcpy(out, text, size);
  *out_size = size;
  return false;
}

static enum omma_status load_vocab(struct loader *loader) {
  struct ommai_json_cursor cursor = loader->document.vocab;
  struct ommai_document_token token;
  char bytes[OMMAI_DOCUMENT_MAX_STRING];
  for (bool done = false;;) {
    OMMAI_TRY(ommai_document_next_token(&loader->document, &cursor, &token, &done, loader->error));
    if (done) return OMMA_OK;
    size_t size;
    bool spelled = token_bytes(token.text, token.size, bytes, &size);
    if (size == 0 || size > OMMAI_VOCABULARY_MAX_TOKEN_BYTES) {
      return ommai_fail(loader->error, OMMA_ERROR_FORMAT,
                        "%s: model.vocab: id %d: expected a token of 1 to %d bytes, found %zu", loader->path, (int)token.id,
                        OMMAI_VOCABULARY_MAX_TOKEN_BYTES, size);
    }
    if (ommai_vocabulary_add(&loader->tokenizer->vocabulary, token.id, bytes, size, 0, spelled, loader->error) != OMMA_OK) {
      ommai_error_prefix(loader->error, "%s: model.vocab", loader->path);
      return OMMA_ERROR_FORMAT;
    }
  }
}

/* Gives added tokens their ids: a new id, or the one that the vocabulary has for the same token. */
static enum omma_status place_added(struct loader *loader) {
  struct ommai_vocabulary *vocabulary = &loader->tokenizer->vocabulary;
  for (size_t i = 0; i < loader->tokenizer->added.n; i++) {
    const struct ommai_added_token *added = &loader->tokenizer->added.tokens[i];
    char bytes[OMMAI_VOCABULARY_MAX_TOKEN_BYTES];
    size_t size;
    bool spelled = token_bytes(added->content, added->size, bytes, &size);
    int32_t listed = spelled ? ommai_vocabulary_find(vocabulary, bytes, size) : -1;
    const struct ommai_token *token = ommai_vocabulary_get(vocabulary, added->id);
    bool same = token && token->size == size && memcmp(vocabulary->bytes + token->offset, bytes, size) == 0;
    if ((token && !same) || (listed >= 0 && listed != added->id)) {
      return ommai_fail(loader->error, OMMA_ERROR_FORMAT,
                        "%s: added token \"%.*s\" with id %d contradicts model.vocab (which has it at %d)", loader->path,
                        (int)added->size, added->content, (int)added->id, (int)listed);
    }
    unsigned flags = OMMAI_TOKEN_ADDED | (loader->special[i] ? OMMAI_TOKEN_SPECIAL : 0u);
    if (!token) OMMAI_TRY(ommai_vocabulary_add(vocabulary, added->id, bytes, size, 0, false, loader->error));
    vocabulary->tokens[added->id].flags |= (uint16_t)flags;
  }
  return OMMA_OK;
}

static enum omma_status load_tokens(struct loader *loader) {
  const struct ommai_tokenizer_document *document = &loader->document;
  if (document->max_id > loader->max_id) loader->max_id = document->max_id;
  if (loader->max_id >= OMMAI_VOCABULARY_MAX_IDS) {
    return ommai_fail(loader->error, OMMA_ERROR_LIMIT, "%s: model.vocab: id %d: expected at most %lld", loader->path,
                      (int)loader->max_id, (long long)OMMAI_VOCABULARY_MAX_IDS - 1);
  }
  /* So many tokens cannot all have an id of their own. */
  if (document->n_tokens > (size_t)loader->max_id + 1) {
    return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: model.vocab: %zu tokens, but the largest id is %d", loader->path,
                      document->n_tokens, (int)loader->max_id);
  }
  OMMAI_TRY(ommai_vocabulary_init(&loader->tokenizer->vocabulary, loader->max_id + 1,
                                  document->token_bytes + loader->tokenizer->added_text_size, document->n_tokens,
                                  loader->allocator, loader->error));
  OMMAI_TRY(load_vocab(loader));
  OMMAI_TRY(place_added(loader));
  ommai_added_sort(&loader->tokenizer->added);
  return OMMA_OK;
}

/* ---- bytes and merges --------------------------------------------------------------------------------------------------- */

static enum omma_status load_byte_ids(struct loader *loader) {
  for (int byte = 0; byte < 256; byte++) {
    char text = (char)byte;
    int32_t id = ommai_vocabulary_find(&loader->tokenizer->vocabulary, &text, 1);
    if (id < 0) {
      return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: model.vocab: byte 0x%02x has no token", loader->path, byte);
    }
    loader->tokenizer->bpe.byte_ids[byte] = id;
  }
  return OMMA_OK;
}

/* Looks up one merge: both parts and what they make must be tokens. */
static bool resolve_merge(const struct ommai_vocabulary *vocabulary, const struct ommai_document_merge *text,
                          struct ommai_merge *merge) {
  char joined[2 * OMMAI_DOCUMENT_MAX_STRING];
  size_t left, right;
  if (!ommai_byte_alphabet_decode(text->left, text->left_size, joined, &left)) return false;
  if (!ommai_byte_alphabet_decode(text->right, text->right_size, joined + left, &right)) return false;
  merge->left = ommai_vocabulary_find(vocabulary, joined, left);
  merge->right = ommai_vocabulary_find(vocabulary, joined + left, right);
  merge->result = ommai_vocabulary_find(vocabulary, joined, left + right);
  return merge->left >= 0 && merge->right >= 0 && merge->result >= 0;
}

static enum omma_status load_merges(struct loader *loader) {
  struct ommai_tokenizer *tokenizer = loader->tokenizer;
  size_t n_merges = loader->document.n_merges;
  if (n_merges > OMMAI_BPE_MAX_MERGES) {
    return ommai_fail(loader->error, OMMA_ERROR_LIMIT, "%s: model.merges: %zu, more than %zu", loader->path, n_merges,
                      OMMAI_BPE_MAX_MERGES);
  }
  OMMAI_TRY(ommai_bpe_init(&tokenizer->bpe, n_merges, loader->allocator, loader->error));
  struct ommai_json_cursor cursor = loader->document.merges;
  struct ommai_document_merge text;
  for (int32_t rank = 0;; rank++) {
    bool done = false;
    OMMAI_TRY(ommai_document_next_merge(&loader->document, &cursor, &text, &done, loader->error));
    if (done) return load_byte_ids(loader);
    struct ommai_merge merge = {.rank = rank};
    if (!resolve_merge(&tokenizer->vocabulary, &text, &merge)) {
      return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: model.merges[%d]: \"%.64s\" and \"%.64s\" or both are no tokens",
                        loader->path, (int)rank, text.left, text.right);
    }
    if (!ommai_bpe_add(&tokenizer->bpe, merge)) {
      return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: model.merges[%d]: collides with too many others", loader->path,
                        (int)rank);
    }
  }
}

/* ---- all together ------------------------------------------------------------------------------------------------------- */

static enum omma_status load_settings(struct loader *loader) {
  struct ommai_tokenizer_settings settings;
  OMMAI_TRY(ommai_tokenizer_settings_read(loader->document.root, loader->path, &settings, loader->error));
  const char *missing = !loader->document.vocab.text ? "vocab" : !loader->document.merges.text ? "merges" : NULL;
  if (missing) {
    return ommai_fail_field(loader->error, OMMA_ERROR_FORMAT, missing, "%s: model: key \"%s\" is missing or of a wrong type",
                            loader->path, missing);
  }
  loader->tokenizer->normalize = settings.normalize;
  loader->tokenizer->whole_pieces = settings.whole_pieces;
  enum omma_status status =
      ommai_splitter_create(settings.pattern, strlen(settings.pattern), &loader->tokenizer->splitter, loader->error);
  if (status != OMMA_OK) ommai_error_prefix(loader->error, "%s: pre_tokenizer", loader->path);
  return status;
}

static enum omma_status load_all(struct loader *loader) {
  OMMAI_TRY(ommai_tokenizer_document_open(loader->path, MAX_FILE_BYTES, loader->allocator, &loader->document, loader->error));
  if (ommai_file_exists(loader->config_path)) {
    OMMAI_TRY(ommai_json_load_file(loader->config_path, MAX_CONFIG_BYTES, loader->allocator, &loader->config, loader->error));
  }
  OMMAI_TRY(load_settings(loader));
  OMMAI_TRY(load_added(loader));
  OMMAI_TRY(load_tokens(loader));
  return load_merges(loader);
}

enum omma_status ommai_tokenizer_load(const char *directory, const struct omma_allocator *allocator,
                                      struct ommai_tokenizer **tokenizer, struct omma_error *error) {
  struct loader loader = {.allocator = allocator, .error = error, .max_id = -1};
  if (!ommai_path_join(loader.path, sizeof loader.path, directory, "tokenizer.json") ||
      !ommai_path_join(loader.config_path, sizeof loader.config_path, directory, "tokenizer_config.json")) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT, "tokenizer: the directory's name is too long");
  }
  loader.tokenizer = ommai_allocate(allocator, 1, sizeof *loader.tokenizer);
  if (!loader.tokenizer) return ommai_fail_memory(error, "tokenizer", sizeof *loader.tokenizer);
  loader.tokenizer->allocator = *allocator;
  enum omma_status status = load_all(&loader);
  ommai_release(allocator, loader.special, loader.tokenizer->added.capacity, 1);
  ommai_tokenizer_document_close(&loader.document, allocator);
  json_decref(loader.config);
  if (status == OMMA_OK) {
    *tokenizer = loader.tokenizer;
  } else {
    ommai_tokenizer_destroy(loader.tokenizer);
  }
  return status;
}
