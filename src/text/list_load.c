/* A tokenizer in lists: token_loader.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "text/token_loader.h"
#include "text/tokenizer_document.h"
#include "text/utf8.h"

static enum omma_status fail_entry(const struct ommai_token_loader *loader, const char *list, size_t at, const char *what) {
  return ommai_fail(loader->error, OMMA_ERROR_FORMAT, "%s: %s[%zu]: %s", loader->path, list, at, what);
}

static enum omma_status check_text(const struct ommai_token_loader *loader, const char *list, size_t at,
                                   struct ommai_listed_text text) {
  size_t wrong;
  if (text.size < 1 || text.size > OMMAI_DOCUMENT_MAX_STRING) {
    return fail_entry(loader, list, at, "expected a text that is not empty, and no longer than two tokens can be");
  }
  if (!ommai_utf8_valid(text.text, text.size, &wrong) || memchr(text.text, 0, text.size)) {
    return fail_entry(loader, list, at, "expected UTF-8");
  }
  return OMMA_OK;
}

/* What the loader asks before it reads: valid texts, the number of added tokens, the bytes of the
 * others. */
struct counts {
  size_t n_added, n_normal, bytes;
};

static enum omma_status count_tokens(struct ommai_token_loader *loader, const struct ommai_token_list *list,
                                     struct counts *counts) {
  if (list->n_tokens > (size_t)OMMAI_VOCABULARY_MAX_IDS) {
    return ommai_fail(loader->error, OMMA_ERROR_LIMIT, "%s: %s: %zu tokens, more than %lld", loader->path,
                      loader->vocabulary_name, list->n_tokens, (long long)OMMAI_VOCABULARY_MAX_IDS);
  }
  for (size_t i = 0; i < list->n_tokens; i++) {
    enum ommai_listed_kind kind = list->kinds[i];
    if (kind == OMMAI_LISTED_UNUSED) continue;
    OMMAI_TRY(check_text(loader, loader->vocabulary_name, i, list->tokens[i]));
    loader->max_id = (int32_t)i;
    if (kind != OMMAI_LISTED_NORMAL) {
      counts->n_added++;
    } else if (list->ranks && counts->n_normal != i) {
      return fail_entry(loader, loader->vocabulary_name, i, "expected normal tokens, which are ranks, before all others");
    } else {
      counts->n_normal++;
      counts->bytes += list->tokens[i].size;
    }
  }
  return OMMA_OK;
}

/* Added tokens in the form of the files; the objects live in `objects`. */
static enum omma_status name_added(struct ommai_token_loader *loader, const struct ommai_token_list *list, json_t *objects) {
  for (size_t i = 0; i < list->n_tokens; i++) {
    enum ommai_listed_kind kind = list->kinds[i];
    char where[PATH_MAX + 64];
    if (kind != OMMAI_LISTED_SPECIAL && kind != OMMAI_LISTED_ADDED) continue;
    snprintf(where, sizeof where, "%s: %s[%zu]", loader->path, loader->vocabulary_name, i);
    json_t *object = json_pack("{s:s%, s:b, s:b}", "content", list->tokens[i].text, list->tokens[i].size, "special",
                               kind == OMMAI_LISTED_SPECIAL, "normalized", 0);
    if (!object || json_array_append_new(objects, object) != 0) return ommai_fail_memory(loader->error, "added tokens", 0);
    OMMAI_TRY(ommai_token_loader_add(loader, where, object, (int64_t)i));
  }
  return OMMA_OK;
}

static enum omma_status load_added(struct ommai_token_loader *loader, const struct ommai_token_list *list, size_t n_added) {
  OMMAI_TRY(ommai_token_loader_begin_added(loader, n_added));
  json_t *objects = json_array();
  enum omma_status status = objects ? name_added(loader, list, objects) : ommai_fail_memory(loader->error, "added tokens", 0);
  if (status == OMMA_OK) status = ommai_token_loader_own_added(loader);
  json_decref(objects);
  return status;
}

static enum omma_status load_tokens(struct ommai_token_loader *loader, const struct ommai_token_list *list,
                                    const struct counts *counts) {
  struct ommai_tokenizer *tokenizer = loader->tokenizer;
  OMMAI_TRY(ommai_vocabulary_init(&tokenizer->vocabulary, loader->max_id + 1, counts->bytes + tokenizer->added_text_size,
                                  counts->n_normal, loader->allocator, loader->error));
  for (size_t i = 0; i < list->n_tokens; i++) {
    if (list->kinds[i] != OMMAI_LISTED_NORMAL) continue;
    OMMAI_TRY(ommai_token_loader_add_spelled(loader, (int32_t)i, list->tokens[i].text, list->tokens[i].size));
  }
  return ommai_token_loader_place_added(loader, true);
}

static enum omma_status load_merges(struct ommai_token_loader *loader, const struct ommai_token_list *list) {
  OMMAI_TRY(ommai_token_loader_begin_merges(loader, list->n_merges));
  for (size_t i = 0; i < list->n_merges; i++) {
    struct ommai_listed_text text = list->merges[i];
    OMMAI_TRY(check_text(loader, loader->merges_name, i, text));
    const char *space = memchr(text.text + 1, ' ', text.size - 1);
    if (!space) return fail_entry(loader, loader->merges_name, i, "expected two tokens with a space between");
    size_t left = (size_t)(space - text.text);
    OMMAI_TRY(ommai_token_loader_add_merge(loader, (int32_t)i, text.text, left, space + 1, text.size - left - 1));
  }
  return OMMA_OK;
}

/* A token that is joined of others, and its score. */
struct scored {
  float score;
  int32_t id;
};

static int compare_scores(const void *a, const void *b) {
  const struct scored *left = a, *right = b;
  if (left->score != right->score) return left->score > right->score ? -1 : 1;
  return left->id < right->id ? -1 : 1;
}

static enum omma_status merge_sorted(struct ommai_token_loader *loader, const struct ommai_token_list *list,
                                     struct scored *scored, int32_t *ids) {
  int32_t n = 0;
  for (size_t i = 0; i < list->n_tokens; i++) {
    if (list->kinds[i] != OMMAI_LISTED_NORMAL) continue;
    if (list->scores[i] != list->scores[i]) return fail_entry(loader, "scores", i, "expected a number");
    scored[n++] = (struct scored){list->scores[i], (int32_t)i};
  }
  qsort(scored, (size_t)n, sizeof *scored, compare_scores);
  for (int32_t i = 0; i < n; i++) ids[i] = scored[i].id;
  return ommai_token_loader_merge_ranks(loader, ids, n);
}

static enum omma_status merge_scores(struct ommai_token_loader *loader, const struct ommai_token_list *list) {
  const struct omma_allocator *allocator = loader->allocator;
  struct scored *scored = ommai_allocate(allocator, list->n_tokens, sizeof *scored);
  int32_t *ids = ommai_allocate(allocator, list->n_tokens, sizeof *ids);
  enum omma_status status = scored && ids ? merge_sorted(loader, list, scored, ids)
                                          : ommai_fail_memory(loader->error, "scores", list->n_tokens * sizeof *scored);
  ommai_release(allocator, ids, list->n_tokens, sizeof *ids);
  ommai_release(allocator, scored, list->n_tokens, sizeof *scored);
  return status;
}

/* How text is cut, and how tokens are spelled. */
static enum omma_status load_settings(struct ommai_token_loader *loader, const struct ommai_token_list *list) {
  struct ommai_tokenizer *tokenizer = loader->tokenizer;
  tokenizer->normalize = list->normalize;
  tokenizer->whole_pieces = list->whole_pieces;
  tokenizer->marked_spaces = list->scores != NULL;
  if (list->scores) return OMMA_OK;
  return list->ranks ? ommai_token_loader_split_ranks(loader)
                     : ommai_splitter_create(list->pattern, strlen(list->pattern), &tokenizer->splitter, loader->error);
}

enum omma_status ommai_token_loader_load_list(struct ommai_token_loader *loader, const struct ommai_token_list *list) {
  struct counts counts = {0};
  snprintf(loader->path, sizeof loader->path, "%s", list->name);
  loader->vocabulary_name = "tokens";
  loader->merges_name = "merges";
  OMMAI_TRY(load_settings(loader, list));
  OMMAI_TRY(count_tokens(loader, list, &counts));
  OMMAI_TRY(load_added(loader, list, counts.n_added));
  OMMAI_TRY(load_tokens(loader, list, &counts));
  OMMAI_TRY(list->scores  ? merge_scores(loader, list)
            : list->ranks ? ommai_token_loader_merge_ranks(loader, NULL, (int32_t)counts.n_normal)
                          : load_merges(loader, list));
  return ommai_token_loader_find_bytes(loader);
}
