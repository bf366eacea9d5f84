/* A vocabulary of ranks, as the tiktoken library stores it: token_loader.h.
 *
 * Merging by such a file joins the adjacent pair whose joined bytes have the lowest rank. Written
 * as merges: every way to cut a token into two tokens is a merge with the token's rank; both then
 * join the same pairs in the same order. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "text/token_loader.h"

#define MAX_FILE_BYTES ((size_t)64 << 20)

/* Special tokens after the last rank. The official code names two more, for which the released
 * models have no rows. */
enum { N_RESERVED = 256 };

/* How text is cut before merging. The file does not hold it: the released checkpoints carry it in
 * their own Python code. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
static const char pattern[] =
    "[\\p{Han}]+"
    "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" CONTRACTION
    "|\\p{N}{1,3}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+"
    "|\\s+(?!\\S)"
    "|\\s+";

/* The file, and a place in it. */
struct rank_file {
  char *data;
  size_t size, at;
  int64_t line; /* of the last line read, from 1 */
};

struct rank_entry {
  char bytes[OMMAI_VOCABULARY_MAX_TOKEN_BYTES];
  size_t size;
  int32_t rank;
};

/* An integer of digits alone in text[0, size); -1 for anything else or more than the largest id. */
static int64_t parse_rank(const char *text, size_t size) {
  int64_t rank = 0;
  if (size == 0 || size > 7) return -1;
  for (size_t i = 0; i < size; i++) {
    if (text[i] < '0' || text[i] > '9') return -1;
    rank = rank * 10 + (text[i] - '0');
  }
  return rank < OMMAI_VOCABULARY_MAX_IDS - N_RESERVED ? rank : -1;
}

/* Reads the next line that is not empty; sets *done at the end of the file. */
static enum omma_status next_entry(const struct ommai_token_loader *loader, struct rank_file *file, struct rank_entry *entry,
                                   bool *done) {
  const char *line;
  size_t length;
  do {
    *done = file->at == file->size;
    if (*done) return OMMA_OK;
    line = file->data + file->at;
    const char *end = memchr(line, '\n', file->size - file->at);
    length = end ? (size_t)(end - line) : file->size - file->at;
    file->at += length + (end != NULL);
    file->line++;
    if (length && line[length - 1] == '\r') length--;
  } while (length == 0);
  const char *space = memchr(line, ' ', length);
  size_t encoded = space ? (size_t)(space - line) : 0;
  int64_t rank = space ? parse_rank(space + 1, length - encoded - 1) : -1;
  bool good = rank >= 0 && sodium_base642bin((unsigned char *)entry->bytes, sizeof entry->bytes, line, encoded, NULL,
                                             &entry->size, NULL, sodium_base64_VARIANT_ORIGINAL) == 0;
  if (!good || entry->size == 0) {
    return ommai_fail(loader->error, OMMA_ERROR_FORMAT,
                      "%s: line %lld: expected the base64 form of 1 to %d bytes, a space and a rank below %lld", loader->path,
                      (long long)file->line, OMMAI_VOCABULARY_MAX_TOKEN_BYTES,
                      (long long)OMMAI_VOCABULARY_MAX_IDS - N_RESERVED);
  }
  entry->rank = (int32_t)rank;
  return OMMA_OK;
}

static void rewind_file(struct rank_file *file) {
  file->at = 0;
  file->line = 0;
}

/* Reads all lines once for sizes: the tokens, their bytes, the largest rank. */
static enum omma_status measure(struct ommai_token_loader *loader, struct rank_file *file, size_t *n_tokens, size_t *n_bytes) {
  struct rank_entry entry;
  *n_tokens = *n_bytes = 0;
  for (bool done = false;;) {
    OMMAI_TRY(next_entry(loader, file, &entry, &done));
    if (done) break;
    ++*n_tokens;
    *n_bytes += entry.size;
    if (entry.rank > loader->max_id) loader->max_id = entry.rank;
  }
  rewind_file(file);
  if (*n_tokens == (size_t)(loader->max_id + 1) && *n_tokens > 0) return OMMA_OK;
  return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: %zu tokens, but the largest rank is %d: expected every rank once",
                    loader->path, *n_tokens, (int)loader->max_id);
}

/* Names the reserved ids that tokenizer_config.json did not name. The objects live in `names`. */
static enum omma_status name_reserved(struct ommai_token_loader *loader, int32_t first, json_t *names) {
  bool named[N_RESERVED] = {false};
  for (size_t i = 0; i < loader->tokenizer->added.n; i++) {
    int32_t id = loader->tokenizer->added.tokens[i].id;
    if (id >= first && id < first + N_RESERVED) named[id - first] = true;
  }
  for (int32_t i = 0; i < N_RESERVED; i++) {
    if (named[i]) continue;
    char text[64];
    snprintf(text, sizeof text, "<|reserved_token_%d|>", (int)(first + i));
    json_t *object = json_pack("{s:s, s:b}", "content", text, "special", 1);
    if (!object || json_array_append_new(names, object) != 0) return ommai_fail_memory(loader->error, "reserved tokens", 0);
    OMMAI_TRY(ommai_token_loader_add(loader, loader->path, object, first + i));
  }
  return OMMA_OK;
}

static enum omma_status load_added(struct ommai_token_loader *loader, int32_t n_ranks) {
  OMMAI_TRY(ommai_token_loader_begin_added(loader, N_RESERVED));
  OMMAI_TRY(ommai_token_loader_add_config(loader));
  json_t *names = json_array();
  enum omma_status status =
      names ? name_reserved(loader, n_ranks, names) : ommai_fail_memory(loader->error, "reserved tokens", 0);
  if (status == OMMA_OK) status = ommai_token_loader_own_added(loader);
  json_decref(names);
  return status;
}

static enum omma_status add_tokens(struct ommai_token_loader *loader, struct rank_file *file) {
  struct rank_entry entry;
  for (bool done = false;;) {
    OMMAI_TRY(next_entry(loader, file, &entry, &done));
    if (done) break;
    if (ommai_vocabulary_add(&loader->tokenizer->vocabulary, entry.rank, entry.bytes, entry.size, 0, true, loader->error) !=
        OMMA_OK) {
      ommai_error_prefix(loader->error, "%s: line %lld", loader->path, (long long)file->line);
      return OMMA_ERROR_FORMAT;
    }
  }
  rewind_file(file);
  return OMMA_OK;
}

/* Adds (or, with bpe NULL, only counts) every way to cut each ranked token into two tokens. */
static enum omma_status make_merges(struct ommai_token_loader *loader, const int32_t *ids, int32_t n_ranks,
                                    struct ommai_bpe *bpe, size_t *count) {
  const struct ommai_vocabulary *vocabulary = &loader->tokenizer->vocabulary;
  *count = 0;
  for (int32_t rank = 0; rank < n_ranks; rank++) {
    int32_t id = ids ? ids[rank] : rank;
    const struct ommai_token *token = &vocabulary->tokens[id];
    const char *bytes = vocabulary->bytes + token->offset;
    for (size_t cut = 1; cut < token->size; cut++) {
      struct ommai_merge merge = {.rank = rank, .result = id};
      merge.left = ommai_vocabulary_find(vocabulary, bytes, cut);
      if (merge.left < 0) continue;
      merge.right = ommai_vocabulary_find(vocabulary, bytes + cut, token->size - cut);
      if (merge.right < 0) continue;
      ++*count;
      if (bpe && !ommai_bpe_add(bpe, merge)) {
        return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: rank %d collides with too many others", loader->path,
                          (int)rank);
      }
    }
  }
  if (*count <= OMMAI_BPE_MAX_MERGES) return OMMA_OK;
  return ommai_fail(loader->error, OMMA_ERROR_LIMIT, "%s: %zu pairs of tokens make a token, more than %zu", loader->path,
                    *count, OMMAI_BPE_MAX_MERGES);
}

enum omma_status ommai_token_loader_merge_ranks(struct ommai_token_loader *loader, const int32_t *ids, int32_t n) {
  struct ommai_bpe *bpe = &loader->tokenizer->bpe;
  size_t n_merges;
  OMMAI_TRY(make_merges(loader, ids, n, NULL, &n_merges));
  OMMAI_TRY(ommai_bpe_init(bpe, n_merges, loader->allocator, loader->error));
  return make_merges(loader, ids, n, bpe, &n_merges);
}

static enum omma_status load_file(struct ommai_token_loader *loader, struct rank_file *file) {
  size_t n_tokens, n_bytes;
  struct ommai_tokenizer *tokenizer = loader->tokenizer;
  OMMAI_TRY(measure(loader, file, &n_tokens, &n_bytes));
  int32_t n_ranks = (int32_t)n_tokens;
  OMMAI_TRY(load_added(loader, n_ranks));
  OMMAI_TRY(ommai_vocabulary_init(&tokenizer->vocabulary, loader->max_id + 1, n_bytes + tokenizer->added_text_size, n_tokens,
                                  loader->allocator, loader->error));
  OMMAI_TRY(add_tokens(loader, file));
  OMMAI_TRY(ommai_token_loader_place_added(loader, false));
  OMMAI_TRY(ommai_token_loader_merge_ranks(loader, NULL, n_ranks));
  return ommai_token_loader_find_bytes(loader);
}

enum omma_status ommai_token_loader_split_ranks(struct ommai_token_loader *loader) {
  loader->tokenizer->whole_pieces = true;
  return ommai_splitter_create(pattern, sizeof pattern - 1, &loader->tokenizer->splitter, loader->error);
}

enum omma_status ommai_token_loader_load_ranks(struct ommai_token_loader *loader) {
  struct rank_file file = {0};
  loader->vocabulary_name = "the ranks";
  OMMAI_TRY(ommai_token_loader_split_ranks(loader));
  OMMAI_TRY(ommai_file_read(loader->path, MAX_FILE_BYTES, loader->allocator, &file.data, &file.size, loader->error));
  enum omma_status status = load_file(loader, &file);
  ommai_release(loader->allocator, file.data, file.size + 1, 1);
  return status;
}
