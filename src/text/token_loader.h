/* What the ways to load a tokenizer share: a tokenizer.json with its merges, a file of ranks, and a
 * list of tokens in memory. All read added tokens by name, then give all tokens their ids, then
 * find the tokens of the single bytes. */
#pragma once

#include <limits.h>

#include "base/json.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

/* A tokenizer under construction; one thread. The tokenizer is half-built until the last step. */
struct ommai_token_loader {
  struct ommai_tokenizer *tokenizer;
  char path[PATH_MAX];         /* of the vocabulary's file */
  const char *vocabulary_name; /* what messages call the vocabulary in that file */
  const char *merges_name;     /* and the merges */
  char config_path[PATH_MAX];
  json_t *config; /* tokenizer_config.json, or NULL */
  /* [tokenizer->added.capacity]: flags of the added tokens before they are sorted */
  unsigned char *special;
  int32_t byte_tokens[256]; /* the id of <0xHH>, plus 1; 0: none */
  int32_t max_id;           /* over all tokens so far; -1: none */
  const struct omma_allocator *allocator;
  struct omma_error *error;
};

/* ---- added tokens, in added_tokens_load.c ---- */

/* Makes room for the entries of tokenizer_config.json and n_more others. Errors: LIMIT, MEMORY. */
enum omma_status ommai_token_loader_begin_added(struct ommai_token_loader *loader, size_t n_more);

/* Takes one added token, an object in the form of the files; `where` is for messages. The object
 * must live until ommai_token_loader_own_added. An equal one may be there already. Errors: FORMAT,
 * UNSUPPORTED. */
enum omma_status ommai_token_loader_add(struct ommai_token_loader *loader, const char *where, const json_t *object, int64_t id);

/* Takes those of tokenizer_config.json, where there is one. Errors: FORMAT, UNSUPPORTED. */
enum omma_status ommai_token_loader_add_config(struct ommai_token_loader *loader);

/* Moves the contents into memory of the tokenizer. Errors: MEMORY. */
enum omma_status ommai_token_loader_own_added(struct ommai_token_loader *loader);

/* ---- tokens by id ---- */

/* Gives added tokens their ids: a new id, or the one that the vocabulary has for the same token;
 * then sorts them. spelled: the vocabulary's file spells tokens (ommai_token_loader_spell), so that
 * an added token may be listed there. Errors: FORMAT. */
enum omma_status ommai_token_loader_place_added(struct ommai_token_loader *loader, bool spelled);

/* Finds the tokens of the 256 bytes, and with marked spaces that of the mark. Errors: FORMAT (one
 * is missing). */
enum omma_status ommai_token_loader_find_bytes(struct ommai_token_loader *loader);

/* ---- tokens and merges as files spell them, in spelled_load.c ---- */

/* The bytes that `size` bytes of valid UTF-8 stand for, spelled in the byte alphabet or with marked
 * spaces; as the official decoders do, a text with other characters stands for itself. False for
 * such a text, and for <0xHH>, the token of a byte: they are not found by their bytes. out holds
 * `size` bytes. */
bool ommai_token_loader_spell(const struct ommai_token_loader *loader, const char *text, size_t size, char *out,
                              size_t *out_size);

/* Sets the token of an id that is spelled so. size is at most OMMAI_DOCUMENT_MAX_STRING. Errors:
 * FORMAT. */
enum omma_status ommai_token_loader_add_spelled(struct ommai_token_loader *loader, int32_t id, const char *text, size_t size);

/* Makes room for merges. Errors: LIMIT, MEMORY. */
enum omma_status ommai_token_loader_begin_merges(struct ommai_token_loader *loader, size_t n_merges);

/* Adds a merge, which joins two tokens, spelled likewise, to a third. Errors: FORMAT. */
enum omma_status ommai_token_loader_add_merge(struct ommai_token_loader *loader, int32_t rank, const char *left,
                                              size_t left_size, const char *right, size_t right_size);

/* ---- a list of tokens, in list_load.c ---- */

/* Errors: as ommai_tokenizer_make. */
enum omma_status ommai_token_loader_load_list(struct ommai_token_loader *loader, const struct ommai_token_list *list);

/* ---- the file of ranks, in rank_load.c ---- */

/* Makes the splitter for vocabularies of ranks. Errors: as ommai_splitter_create. */
enum omma_status ommai_token_loader_split_ranks(struct ommai_token_loader *loader);

/* Makes the merges of a vocabulary whose tokens are joined in the order `ids` [n]; NULL: in that of
 * the ids 0 .. n - 1. Errors: FORMAT, LIMIT, MEMORY. */
enum omma_status ommai_token_loader_merge_ranks(struct ommai_token_loader *loader, const int32_t *ids, int32_t n);

/* Loads the vocabulary from loader->path, lines of "base64-bytes rank" where the rank is the id,
 * and makes the merges from it. The 256 ids after the last rank are special tokens, named by
 * tokenizer_config.json or else <|reserved_token_ID|>. Errors: IO, FORMAT with the line, LIMIT,
 * MEMORY. */
enum omma_status ommai_token_loader_load_ranks(struct ommai_token_loader *loader);
