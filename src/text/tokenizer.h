/* Text to token ids and back, for the byte-level BPE that a checkpoint's tokenizer.json or
 * tiktoken.model describes, or that of characters with byte fallback.
 *
 * Encoding: added tokens are cut out of the text (leftmost, then longest), what lies between is
 * normalised to Unicode form C where the file asks for it, cut into pieces by the file's pattern,
 * and each piece's bytes are joined by lowest merge rank. Ids are those of the official
 * `tokenizers` library without added special tokens (no BOS), whose Unicode tables are followed too
 * (unicode.h). */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of text that one call encodes. */
#define OMMAI_TOKENIZER_MAX_TEXT ((size_t)8 << 20)

struct ommai_tokenizer; /* immutable after loading; any number of threads may use it */

/* Loads DIRECTORY/tokenizer.json, and DIRECTORY/tokenizer_config.json for added tokens that only
 * it names, if it is there. Accepted: model BPE without dropout; normalizer null or NFC;
 * pre_tokenizer ByteLevel with its own pattern, or a Sequence of Split (Regex, Isolated) and
 * ByteLevel (use_regex false), no prefix space; decoder ByteLevel; post_processor null or
 * ByteLevel. With byte fallback: a normalizer that replaces spaces by U+2581, no pre_tokenizer,
 * the decoder that undoes both; tokens <0xHH> of all bytes. Without tokenizer.json,
 * DIRECTORY/tiktoken.model: lines of "base64-bytes rank", ranks are ids; the 256 special tokens
 * after them are named by tokenizer_config.json or else <|reserved_token_ID|>; no normalisation;
 * the split pattern of the released checkpoints in this form (rank_load.c). The allocator is
 * copied. The caller destroys the tokenizer. Errors: IO, FORMAT, UNSUPPORTED, LIMIT (each with
 * the key), MEMORY. */
enum omma_status ommai_tokenizer_load(const char *directory, const struct omma_allocator *allocator,
                                      struct ommai_tokenizer **tokenizer, struct omma_error *error);
/* A tokenizer in lists, as GGUF files have it. Texts are not ended by NUL and may be anything until
 * they were checked. */
struct ommai_listed_text {
  const char *text;
  size_t size;
};
enum ommai_listed_kind {
  OMMAI_LISTED_NORMAL,  /* bytes, spelled in the byte alphabet, or as SentencePiece does */
  OMMAI_LISTED_SPECIAL, /* an added token, its text as it is: a marker */
  OMMAI_LISTED_ADDED,   /* an added token that is text */
  OMMAI_LISTED_UNUSED   /* a padding id */
};
struct ommai_token_list {
  const char *name; /* of the file, for messages */
  size_t n_tokens;
  const struct ommai_listed_text *tokens;
  const enum ommai_listed_kind *kinds; /* [n_tokens] */
  /* Two tokens with a space between, by rank. With ranks they are not looked at: the normal tokens
   * come first, and their ids are ranks as in tiktoken.model, with the same pattern. */
  size_t n_merges;
  const struct ommai_listed_text *merges;
  bool ranks;
  /* [n_tokens], as SentencePiece has them, or NULL. With scores there are no merges, pattern and
   * normalisation: the pair whose token has the highest score is joined first, where scores are
   * equal that of the lower id; tokens have marked spaces and <0xHH> for bytes
   * (marked_spaces.h). */
  const float *scores;
  const char *pattern; /* cuts text into pieces; in the dialect of tokenizer.json */
  bool normalize;      /* to form C */
  bool whole_pieces;   /* a piece that is a token is not made of others; not looked at with ranks */
};

/* Makes a tokenizer of the lists, which are not needed any more then. Errors: FORMAT, LIMIT (each
 * with the number of the entry), MEMORY. */
enum omma_status ommai_tokenizer_make(const struct ommai_token_list *list, const struct omma_allocator *allocator,
                                      struct ommai_tokenizer **tokenizer, struct omma_error *error);

void ommai_tokenizer_destroy(struct ommai_tokenizer *tokenizer);

/* Whether `directory` has a file that ommai_tokenizer_load reads tokens from. Errors: ARGUMENT, IO
 * (what is there is no file). */
enum omma_status ommai_tokenizer_present(const char *directory, bool *found, struct omma_error *error);

/* Encodes `size` bytes of UTF-8. *count becomes the number of ids, which is never more than 3 *
 * size. ids may be NULL to ask for it. parse_added false: added tokens in the text are plain text.
 * Errors: FORMAT (invalid UTF-8, with the byte offset), ARGUMENT (`capacity` ids are too few; the
 * first ones are written and *count is set), LIMIT (text too long, or the file's pattern needs too
 * many steps), MEMORY. */
enum omma_status ommai_tokenizer_encode(const struct ommai_tokenizer *tokenizer, const char *text, size_t size,
                                        bool parse_added, int32_t *ids, size_t capacity, size_t *count,
                                        struct omma_error *error);

/* Counts ids as ommai_tokenizer_encode with added tokens makes them, but no further than to
 * `limit`: where there are that many or more, *count is at least `limit` and at most what there
 * are. A text too long for fewer is not looked at: a token covers at most the longest one's bytes,
 * and form C is at least a quarter as long as the text. Errors: as there. */
enum omma_status ommai_tokenizer_count(const struct ommai_tokenizer *tokenizer, const char *text, size_t size, size_t limit,
                                       size_t *count, struct omma_error *error);

/* The bytes of n ids, one after the other; cut-off characters are left as they are (utf8.h replaces
 * them). *size becomes the number of bytes; out may be NULL to ask for it. Ids past the known
 * tokens have no text. skip_special leaves out special tokens. Errors: ARGUMENT (a negative id, or
 * `capacity` is too small; *size is then set). */
enum omma_status ommai_tokenizer_decode(const struct ommai_tokenizer *tokenizer, const int32_t *ids, size_t n,
                                        bool skip_special, char *out, size_t capacity, size_t *size, struct omma_error *error);

/* The bytes of one token, which live as long as the tokenizer: at most
 * OMMAI_VOCABULARY_MAX_TOKEN_BYTES. False and no bytes where the id has none. is_special may be
 * NULL. */
bool ommai_tokenizer_token_bytes(const struct ommai_tokenizer *tokenizer, int32_t id, const char **bytes, size_t *size,
                                 bool *is_special);

/* The largest known id plus one. */
int32_t ommai_tokenizer_vocab_size(const struct ommai_tokenizer *tokenizer);

/* How many tokens the file's own vocabulary (model.vocab) has; tokens that are only added do not
 * count. */
int32_t ommai_tokenizer_base_size(const struct ommai_tokenizer *tokenizer);

/* The id of the token with this text: an added token, else a token of the vocabulary. False when
 * there is none. */
bool ommai_tokenizer_find(const struct ommai_tokenizer *tokenizer, const char *text, int32_t *id);
