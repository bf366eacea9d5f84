/* Loading a tokenizer: settings -> added tokens by name -> tokens by id -> the byte alphabet ->
 * merges. */
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "text/token_loader.h"
#include "text/tokenizer_document.h"
#include "text/tokenizer_settings.h"

#define MAX_FILE_BYTES ((size_t)64 << 20)
#define MAX_CONFIG_BYTES ((size_t)16 << 20)

enum { MAX_WHERE = PATH_MAX + 64 };

/* Loading from tokenizer.json. */
struct loader {
  struct ommai_token_loader *common;
  struct ommai_tokenizer_document document;
};

/* ---- added tokens and tokens by id ----------------------------------------------------------- */

/* added_tokens of tokenizer.json: an array of objects with ids. */
static enum omma_status read_added_array(struct loader *loader, const json_t *array) {
  for (size_t i = 0; i < json_array_size(array); i++) {
    char where[MAX_WHERE];
    snprintf(where, sizeof where, "%s: added_tokens[%zu]", loader->common->path, i);
    const json_t *object = json_array_get(array, i);
    if (!json_is_object(object)) return ommai_fail(loader->common->error, OMMA_ERROR_FORMAT, "%s: expected an object", where);
    int64_t id;
    OMMAI_TRY(ommai_json_integer(object, where, "id", true, 0, OMMAI_VOCABULARY_MAX_IDS - 1, &id, loader->common->error));
    OMMAI_TRY(ommai_token_loader_add(loader->common, where, object, id));
  }
  return OMMA_OK;
}

static enum omma_status load_added(struct loader *loader) {
  struct ommai_token_loader *common = loader->common;
  json_t *array;
  OMMAI_TRY(ommai_json_array(loader->document.root, common->path, "added_tokens", false, &array, common->error));
  OMMAI_TRY(ommai_token_loader_begin_added(common, json_array_size(array)));
  OMMAI_TRY(read_added_array(loader, array));
  OMMAI_TRY(ommai_token_loader_add_config(common));
  return ommai_token_loader_own_added(common);
}

static enum omma_status load_vocab(struct loader *loader) {
  struct ommai_json_cursor cursor = loader->document.vocab;
  struct ommai_document_token token;
  for (bool done = false;;) {
    OMMAI_TRY(ommai_document_next_token(&loader->document, &cursor, &token, &done, loader->common->error));
    if (done) return OMMA_OK;
    OMMAI_TRY(ommai_token_loader_add_spelled(loader->common, token.id, token.text, token.size));
  }
}

static enum omma_status load_tokens(struct loader *loader) {
  const struct ommai_tokenizer_document *document = &loader->document;
  if (document->max_id > loader->common->max_id) loader->common->max_id = document->max_id;
  if (loader->common->max_id >= OMMAI_VOCABULARY_MAX_IDS) {
    return ommai_fail(loader->common->error, OMMA_ERROR_LIMIT, "%s: model.vocab: id %d: expected at most %lld",
                      loader->common->path, (int)loader->common->max_id, (long long)OMMAI_VOCABULARY_MAX_IDS - 1);
  }
  /* That many tokens cannot all have an id of their own. */
  if (document->n_tokens > (size_t)loader->common->max_id + 1) {
    return ommai_fail(loader->common->error, OMMA_ERROR_FORMAT, "%s: model.vocab: %zu tokens, but the largest id is %d",
                      loader->common->path, document->n_tokens, (int)loader->common->max_id);
  }
  OMMAI_TRY(ommai_vocabulary_init(&loader->common->tokenizer->vocabulary, loader->common->max_id + 1,
                                  document->token_bytes + loader->common->tokenizer->added_text_size, document->n_tokens,
                                  loader->common->allocator, loader->common->error));
  OMMAI_TRY(load_vocab(loader));
  return ommai_token_loader_place_added(loader->common, true);
}

static enum omma_status load_merges(struct loader *loader) {
  OMMAI_TRY(ommai_token_loader_begin_merges(loader->common, loader->document.n_merges));
  struct ommai_json_cursor cursor = loader->document.merges;
  struct ommai_document_merge text;
  for (int32_t rank = 0;; rank++) {
    bool done = false;
    OMMAI_TRY(ommai_document_next_merge(&loader->document, &cursor, &text, &done, loader->common->error));
    if (done) return ommai_token_loader_find_bytes(loader->common);
    OMMAI_TRY(ommai_token_loader_add_merge(loader->common, rank, text.left, text.left_size, text.right, text.right_size));
  }
}

/* ---- all together ---------------------------------------------------------------------------- */

static enum omma_status load_settings(struct loader *loader) {
  struct ommai_tokenizer_settings settings;
  OMMAI_TRY(ommai_tokenizer_settings_read(loader->document.root, loader->common->path, &settings, loader->common->error));
  const char *missing = !loader->document.vocab.text ? "vocab" : !loader->document.merges.text ? "merges" : NULL;
  if (missing) {
    return ommai_fail_field(loader->common->error, OMMA_ERROR_FORMAT, missing,
                            "%s: model: key \"%s\" is missing or of a wrong type", loader->common->path, missing);
  }
  struct ommai_tokenizer *tokenizer = loader->common->tokenizer;
  tokenizer->normalize = settings.normalize;
  tokenizer->marked_spaces = settings.marked_spaces;
  tokenizer->whole_pieces = settings.whole_pieces;
  if (!settings.pattern) return OMMA_OK;
  enum omma_status status =
      ommai_splitter_create(settings.pattern, strlen(settings.pattern), &tokenizer->splitter, loader->common->error);
  if (status != OMMA_OK) ommai_error_prefix(loader->common->error, "%s: pre_tokenizer", loader->common->path);
  return status;
}

static enum omma_status load_document(struct loader *loader) {
  struct ommai_token_loader *common = loader->common;
  OMMAI_TRY(ommai_tokenizer_document_open(common->path, MAX_FILE_BYTES, common->allocator, &loader->document, common->error));
  OMMAI_TRY(load_settings(loader));
  OMMAI_TRY(load_added(loader));
  OMMAI_TRY(load_tokens(loader));
  return load_merges(loader);
}

/* tokenizer.json where it is there, else tiktoken.model; a message about neither names the
 * first. */
static enum omma_status load_all(struct ommai_token_loader *common, const char *directory) {
  char ranks[PATH_MAX];
  bool found, has_ranks = false;
  OMMAI_TRY(ommai_file_find(common->config_path, sizeof common->config_path, directory, "tokenizer_config.json", &found,
                            common->error));
  if (found) {
    OMMAI_TRY(ommai_json_load_file(common->config_path, MAX_CONFIG_BYTES, common->allocator, &common->config, common->error));
  }
  OMMAI_TRY(ommai_file_find(common->path, sizeof common->path, directory, "tokenizer.json", &found, common->error));
  if (!found) OMMAI_TRY(ommai_file_find(ranks, sizeof ranks, directory, "tiktoken.model", &has_ranks, common->error));
  if (has_ranks) {
    memcpy(common->path, ranks, sizeof ranks);
    return ommai_token_loader_load_ranks(common);
  }
  struct loader loader = {.common = common};
  enum omma_status status = load_document(&loader);
  ommai_tokenizer_document_close(&loader.document, common->allocator);
  return status;
}

enum omma_status ommai_tokenizer_present(const char *directory, bool *found, struct omma_error *error) {
  char path[PATH_MAX];
  OMMAI_TRY(ommai_file_find(path, sizeof path, directory, "tokenizer.json", found, error));
  return *found ? OMMA_OK : ommai_file_find(path, sizeof path, directory, "tiktoken.model", found, error);
}

static void find_longest(struct ommai_tokenizer *tokenizer) {
  for (int32_t id = 0; id < tokenizer->vocabulary.n_ids; id++) {
    const struct ommai_token *token = ommai_vocabulary_get(&tokenizer->vocabulary, id);
    if (token && token->size > tokenizer->longest_token) tokenizer->longest_token = token->size;
  }
  for (size_t i = 0; i < tokenizer->added.n; i++) {
    if (tokenizer->added.tokens[i].strip_left || tokenizer->added.tokens[i].strip_right) tokenizer->longest_token = 0;
  }
}

/* The directory's files, or a list. */
static enum omma_status load(const char *directory, const struct ommai_token_list *list, const struct omma_allocator *allocator,
                             struct ommai_tokenizer **tokenizer, struct omma_error *error) {
  struct ommai_token_loader loader = {
      .vocabulary_name = "model.vocab", .merges_name = "model.merges", .allocator = allocator, .error = error, .max_id = -1};
  loader.tokenizer = ommai_allocate(allocator, 1, sizeof *loader.tokenizer);
  if (!loader.tokenizer) return ommai_fail_memory(error, "tokenizer", sizeof *loader.tokenizer);
  loader.tokenizer->allocator = *allocator;
  enum omma_status status = list ? ommai_token_loader_load_list(&loader, list) : load_all(&loader, directory);
  ommai_release(allocator, loader.special, loader.tokenizer->added.capacity, 1);
  json_decref(loader.config);
  if (status == OMMA_OK) {
    find_longest(loader.tokenizer);
    *tokenizer = loader.tokenizer;
  } else {
    ommai_tokenizer_destroy(loader.tokenizer);
  }
  return status;
}

enum omma_status ommai_tokenizer_load(const char *directory, const struct omma_allocator *allocator,
                                      struct ommai_tokenizer **tokenizer, struct omma_error *error) {
  return load(directory, NULL, allocator, tokenizer, error);
}

enum omma_status ommai_tokenizer_make(const struct ommai_token_list *list, const struct omma_allocator *allocator,
                                      struct ommai_tokenizer **tokenizer, struct omma_error *error) {
  return load(NULL, list, allocator, tokenizer, error);
}
