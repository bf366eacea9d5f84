#include "text/tokenizer.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "text/marked_spaces.h"
#include "text/nfc.h"
#include "text/tokenizer_parts.h"
#include "text/utf8.h"

/* One call of encode. */
struct encoding {
  const struct ommai_tokenizer *tokenizer;
  struct ommai_split split;
  struct ommai_id_sink sink;
  size_t limit; /* ids are counted so far; SIZE_MAX: all of them */
  bool parse_added;
  struct omma_error *error;
};

void ommai_tokenizer_destroy(struct ommai_tokenizer *tokenizer) {
  if (!tokenizer) return;
  struct omma_allocator allocator = tokenizer->allocator;
  ommai_vocabulary_clear(&tokenizer->vocabulary, &allocator);
  ommai_bpe_clear(&tokenizer->bpe, &allocator);
  ommai_added_clear(&tokenizer->added, &allocator);
  ommai_release(&allocator, tokenizer->added_text, tokenizer->added_text_size, 1);
  ommai_splitter_destroy(tokenizer->splitter);
  ommai_release(&allocator, tokenizer, 1, sizeof *tokenizer);
}

/* A special token is never the meaning of a plain piece, even where the vocabulary lists it. */
static int32_t whole_piece(const struct ommai_tokenizer *tokenizer, const char *piece, size_t size) {
  int32_t id = ommai_vocabulary_find(&tokenizer->vocabulary, piece, size);
  return id >= 0 && !(tokenizer->vocabulary.tokens[id].flags & OMMAI_TOKEN_SPECIAL) ? id : -1;
}

/* The fewest ids that `size` bytes can have once they are normalised. */
static size_t fewest_ids(const struct ommai_tokenizer *tokenizer, size_t size) {
  size_t longest = tokenizer->longest_token;
  return longest ? size / longest + (size % longest != 0) : 0;
}

/* True where the limit is reached, with `size` bytes more; they then count as few as they can
 * be. */
static bool is_full(struct encoding *encoding, size_t size) {
  size_t fewest = fewest_ids(encoding->tokenizer, size);
  if (encoding->sink.count < encoding->limit && fewest < encoding->limit - encoding->sink.count) return false;
  if (encoding->sink.count < encoding->limit) encoding->sink.count += fewest;
  return true;
}

static enum omma_status encode_piece(struct encoding *encoding, const char *piece, size_t size) {
  const struct ommai_tokenizer *tokenizer = encoding->tokenizer;
  int32_t id = tokenizer->whole_pieces ? whole_piece(tokenizer, piece, size) : -1;
  if (id < 0) return ommai_bpe_encode(&tokenizer->bpe, piece, size, &tokenizer->allocator, &encoding->sink, encoding->error);
  ommai_id_sink_put(&encoding->sink, id);
  return OMMA_OK;
}

static enum omma_status encode_plain(struct encoding *encoding, const char *text, size_t size) {
  if (!encoding->tokenizer->splitter) return is_full(encoding, size) ? OMMA_OK : encode_piece(encoding, text, size);
  OMMAI_TRY(ommai_split_text(&encoding->split, text, size, encoding->error));
  for (;;) {
    size_t first, last;
    OMMAI_TRY(ommai_split_next(&encoding->split, &first, &last, encoding->error));
    if (first == last || is_full(encoding, last - first)) return OMMA_OK;
    OMMAI_TRY(encode_piece(encoding, text + first, last - first));
  }
}

/* Cuts out the added tokens of one kind and gives what lies between to `rest`. */
static enum omma_status cut_added(struct encoding *encoding, bool normalized, const char *text, size_t size,
                                  enum omma_status (*rest)(struct encoding *, const char *, size_t)) {
  const struct ommai_added_set *set = &encoding->tokenizer->added;
  for (size_t at = 0; at < size && !is_full(encoding, 0);) {
    size_t first = size, last = size;
    const struct ommai_added_token *token = NULL;
    if (encoding->parse_added) token = ommai_added_next(set, normalized, text, size, at, &first, &last);
    if (first > at) OMMAI_TRY(rest(encoding, text + at, first - at));
    if (token) ommai_id_sink_put(&encoding->sink, token->id);
    at = last;
  }
  return OMMA_OK;
}

static enum omma_status encode_normalized(struct encoding *encoding, const char *text, size_t size) {
  return cut_added(encoding, true, text, size, encode_plain);
}

static enum omma_status encode_between(struct encoding *encoding, const char *text, size_t size) {
  const struct ommai_tokenizer *tokenizer = encoding->tokenizer;
  const struct omma_allocator *allocator = &tokenizer->allocator;
  struct ommai_nfc_text normal = {.text = text, .size = size};
  if (tokenizer->normalize) OMMAI_TRY(ommai_nfc(text, size, allocator, &normal, encoding->error));
  if (tokenizer->marked_spaces) OMMAI_TRY(ommai_marked_spaces_normalize(text, size, allocator, &normal, encoding->error));
  enum omma_status status = encode_normalized(encoding, normal.text, normal.size);
  ommai_nfc_release(&normal, allocator);
  return status;
}

static enum omma_status encode(struct encoding *encoding, const char *text, size_t size) {
  const struct ommai_tokenizer *tokenizer = encoding->tokenizer;
  struct omma_error *error = encoding->error;
  size_t offset;
  if (size > OMMAI_TOKENIZER_MAX_TEXT) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "text: %zu bytes, more than %zu", size, OMMAI_TOKENIZER_MAX_TEXT);
  }
  if (!ommai_utf8_valid(text, size, &offset)) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "text: invalid UTF-8 at byte %zu (0x%02x)", offset,
                      (unsigned char)text[offset]);
  }
  if (tokenizer->splitter) OMMAI_TRY(ommai_split_begin(&encoding->split, tokenizer->splitter, &tokenizer->allocator, error));
  enum omma_status status = cut_added(encoding, false, text, size, encode_between);
  ommai_split_end(&encoding->split);
  return status;
}

enum omma_status ommai_tokenizer_encode(const struct ommai_tokenizer *tokenizer, const char *text, size_t size,
                                        bool parse_added, int32_t *ids, size_t capacity, size_t *count,
                                        struct omma_error *error) {
  *count = 0;
  if (size == 0) return OMMA_OK;
  struct encoding encoding = {.tokenizer = tokenizer, .limit = SIZE_MAX, .parse_added = parse_added, .error = error};
  encoding.sink = (struct ommai_id_sink){.ids = ids, .capacity = ids ? capacity : 0};
  OMMAI_TRY(encode(&encoding, text, size));
  *count = encoding.sink.count;
  if (ids && *count > capacity) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "ids", "ids: room for %zu, needs %zu", capacity, *count);
  }
  return OMMA_OK;
}

enum omma_status ommai_tokenizer_count(const struct ommai_tokenizer *tokenizer, const char *text, size_t size, size_t limit,
                                       size_t *count, struct omma_error *error) {
  *count = fewest_ids(tokenizer, tokenizer->normalize || tokenizer->marked_spaces ? size / OMMAI_NFC_MAX_SHRINKING : size);
  if (size == 0 || *count >= limit) return OMMA_OK;
  struct encoding encoding = {.tokenizer = tokenizer, .limit = limit, .parse_added = true, .error = error};
  OMMAI_TRY(encode(&encoding, text, size));
  *count = encoding.sink.count;
  return OMMA_OK;
}

bool ommai_tokenizer_token_bytes(const struct ommai_tokenizer *tokenizer, int32_t id, const char **bytes, size_t *size,
                                 bool *is_special) {
  const struct ommai_token *token = ommai_vocabulary_get(&tokenizer->vocabulary, id);
  *bytes = token ? tokenizer->vocabulary.bytes + token->offset : "";
  *size = token ? token->size : 0;
  if (is_special) *is_special = token && token->flags & OMMAI_TOKEN_SPECIAL;
  return token != NULL;
}

enum omma_status ommai_tokenizer_decode(const struct ommai_tokenizer *tokenizer, const int32_t *ids, size_t n,
                                        bool skip_special, char *out, size_t capacity, size_t *size, struct omma_error *error) {
  size_t written = 0;
  for (size_t i = 0; i < n; i++) {
    if (ids[i] < 0) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "ids", "ids[%zu]: expected 0 or more, found %d", i, (int)ids[i]);
    }
    const char *bytes;
    size_t length;
    bool special;
    ommai_tokenizer_token_bytes(tokenizer, ids[i], &bytes, &length, &special);
    if (special && skip_special) continue;
    if (out && written <= capacity && length <= capacity - written) memcpy(out + written, bytes, length);
    written += length;
  }
  *size = written;
  if (out && written > capacity) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "out", "out: room for %zu bytes, needs %zu", capacity, written);
  }
  return OMMA_OK;
}

int32_t ommai_tokenizer_vocab_size(const struct ommai_tokenizer *tokenizer) { return tokenizer->vocabulary.n_ids; }

int32_t ommai_tokenizer_base_size(const struct ommai_tokenizer *tokenizer) {
  const struct ommai_vocabulary *vocabulary = &tokenizer->vocabulary;
  int32_t count = 0;
  for (int32_t id = 0; id < vocabulary->n_ids; id++) {
    const struct ommai_token *token = ommai_vocabulary_get(vocabulary, id);
    if (!token) continue;
    bool only_added = token->flags & OMMAI_TOKEN_ADDED &&
                      ommai_vocabulary_find(vocabulary, vocabulary->bytes + token->offset, token->size) != id;
    count += !only_added;
  }
  return count;
}

bool ommai_tokenizer_find(const struct ommai_tokenizer *tokenizer, const char *text, int32_t *id) {
  size_t size = strlen(text);
  const struct ommai_added_token *added = ommai_added_find(&tokenizer->added, text, size);
  *id = added ? added->id : ommai_vocabulary_find(&tokenizer->vocabulary, text, size);
  return *id >= 0;
}
