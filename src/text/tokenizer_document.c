#include "text/tokenizer_document.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"

/* A span of the file that the tree does not get. */
struct cut {
  size_t first, last;
};

/* Keys in the tree's upper levels that are compared with names; longer ones are simply others. */
enum { MAX_KEY = 256 };

static enum omma_status broken(const struct ommai_tokenizer_document *document, const struct ommai_json_cursor *cursor,
                               const char *key, const char *expected, struct omma_error *error) {
  size_t byte = (size_t)(cursor->text - document->data) + cursor->at;
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%s: %s: expected %s at byte %zu of %zu", document->path, key,
                          expected, byte, document->data_size);
}

/* Moves to the next item of an object or array. A cursor is at 0 before the first one. */
static bool next_item(struct ommai_json_cursor *cursor, char end, bool *done) {
  if (cursor->at == 0) {
    *done = ommai_json_cursor_take(cursor, end);
    return true;
  }
  bool more;
  if (!ommai_json_cursor_next(cursor, end, &more)) return false;
  *done = !more;
  return true;
}

enum omma_status ommai_document_next_token(const struct ommai_tokenizer_document *document, struct ommai_json_cursor *cursor,
                                           struct ommai_document_token *token, bool *done, struct omma_error *error) {
  const char *key = "model.vocab";
  if (!next_item(cursor, '}', done)) return broken(document, cursor, key, "\",\" or \"}\"", error);
  if (*done) return OMMA_OK;
  if (!ommai_json_cursor_string(cursor, token->text, sizeof token->text, &token->size)) {
    return broken(document, cursor, key, "a token (valid, not too long)", error);
  }
  if (!ommai_json_cursor_take(cursor, ':') || !ommai_json_cursor_number(cursor, &token->id)) {
    return broken(document, cursor, key, "a token's id", error);
  }
  return OMMA_OK;
}

/* Splits "left right" in place. */
static bool split_merge(struct ommai_document_merge *merge) {
  char *space = memchr(merge->left, ' ', merge->left_size);
  if (!space) return false;
  size_t at = (size_t)(space - merge->left);
  merge->right_size = merge->left_size - at - 1;
  memcpy(merge->right, space + 1, merge->right_size + 1);
  merge->left_size = at;
  *space = '\0';
  return !memchr(merge->right, ' ', merge->right_size);
}

static bool read_pair(struct ommai_json_cursor *cursor, struct ommai_document_merge *merge) {
  return ommai_json_cursor_string(cursor, merge->left, sizeof merge->left, &merge->left_size) &&
         ommai_json_cursor_take(cursor, ',') &&
         ommai_json_cursor_string(cursor, merge->right, sizeof merge->right, &merge->right_size) &&
         ommai_json_cursor_take(cursor, ']');
}

enum omma_status ommai_document_next_merge(const struct ommai_tokenizer_document *document, struct ommai_json_cursor *cursor,
                                           struct ommai_document_merge *merge, bool *done, struct omma_error *error) {
  const char *key = "model.merges";
  if (!next_item(cursor, ']', done)) return broken(document, cursor, key, "\",\" or \"]\"", error);
  if (*done) return OMMA_OK;
  bool good;
  if (ommai_json_cursor_take(cursor, '[')) {
    good = read_pair(cursor, merge);
  } else {
    good = ommai_json_cursor_string(cursor, merge->left, sizeof merge->left, &merge->left_size) && split_merge(merge);
  }
  return good ? OMMA_OK : broken(document, cursor, key, "two tokens", error);
}

/* First reading of model.vocab: syntax and counts. */
static enum omma_status count_tokens(struct ommai_tokenizer_document *document, struct ommai_json_cursor *cursor,
                                     struct omma_error *error) {
  struct ommai_document_token token;
  for (bool done = false;;) {
    OMMAI_TRY(ommai_document_next_token(document, cursor, &token, &done, error));
    if (done) return OMMA_OK;
    document->n_tokens++;
    document->token_bytes += token.size;
    if (token.id > document->max_id) document->max_id = token.id;
  }
}

static enum omma_status count_merges(struct ommai_tokenizer_document *document, struct ommai_json_cursor *cursor,
                                     struct omma_error *error) {
  struct ommai_document_merge merge;
  for (bool done = false;;) {
    OMMAI_TRY(ommai_document_next_merge(document, cursor, &merge, &done, error));
    if (done) return OMMA_OK;
    document->n_merges++;
  }
}

/* Takes the value of a large key: `own` is set to its inside, `cut` to the same span of the file. A
 * value of another kind is left to the tree, whose reader reports what is wrong with it. */
static enum omma_status take_large(struct ommai_tokenizer_document *document, struct ommai_json_cursor *cursor, bool vocab,
                                   struct cut *cut, struct omma_error *error) {
  struct ommai_json_cursor *own = vocab ? &document->vocab : &document->merges;
  if (own->text || !ommai_json_cursor_take(cursor, vocab ? '{' : '[')) {
    ommai_json_cursor_skip(cursor);
    return OMMA_OK;
  }
  *own = (struct ommai_json_cursor){cursor->text + cursor->at, cursor->size - cursor->at, 0};
  struct ommai_json_cursor inside = *own;
  OMMAI_TRY(vocab ? count_tokens(document, &inside, error) : count_merges(document, &inside, error));
  own->size = inside.at;
  *cut = (struct cut){cursor->at, cursor->at + inside.at - 1};
  cursor->at += inside.at;
  return OMMA_OK;
}

/* Walks the keys of one object, the file's or (inside) the model's. A file that is no JSON ends the
 * walk early: the tree's parser finds that out. */
static enum omma_status walk(struct ommai_tokenizer_document *document, struct ommai_json_cursor *cursor, bool inside,
                             struct cut cuts[2], struct omma_error *error) {
  bool more = ommai_json_cursor_take(cursor, '{');
  while (more) {
    char key[MAX_KEY];
    size_t size;
    if (!ommai_json_cursor_string(cursor, key, sizeof key, &size) || !ommai_json_cursor_take(cursor, ':')) break;
    bool vocab = strcmp(key, "vocab") == 0;
    if (inside && (vocab || strcmp(key, "merges") == 0)) {
      OMMAI_TRY(take_large(document, cursor, vocab, &cuts[vocab], error));
    } else if (!inside && strcmp(key, "model") == 0) {
      OMMAI_TRY(walk(document, cursor, true, cuts, error));
    } else if (!ommai_json_cursor_skip(cursor)) {
      break;
    }
    if (!ommai_json_cursor_next(cursor, '}', &more)) break;
  }
  return OMMA_OK;
}

/* Parses the file without the cuts. */
static enum omma_status parse_rest(struct ommai_tokenizer_document *document, struct cut cuts[2],
                                   const struct omma_allocator *allocator, struct omma_error *error) {
  struct cut first = cuts[0].first < cuts[1].first ? cuts[0] : cuts[1];
  struct cut second = cuts[0].first < cuts[1].first ? cuts[1] : cuts[0];
  size_t size = document->data_size - (first.last - first.first) - (second.last - second.first);
  char *rest = ommai_allocate(allocator, size, 1);
  if (!rest) return ommai_fail_memory(error, document->path, size);
  size_t used = first.first;
  memcpy(rest, document->data, first.first);
  memcpy(rest + used, document->data + first.last, second.first - first.last);
  used += second.first - first.last;
  memcpy(rest + used, document->data + second.last, document->data_size - second.last);
  enum omma_status status = ommai_json_load(document->path, rest, size, &document->root, error);
  ommai_release(allocator, rest, size, 1);
  return status;
}

enum omma_status ommai_tokenizer_document_open(const char *path, size_t limit, const struct omma_allocator *allocator,
                                               struct ommai_tokenizer_document *document, struct omma_error *error) {
  *document = (struct ommai_tokenizer_document){.path = path, .max_id = -1};
  OMMAI_TRY(ommai_file_read(path, limit, allocator, &document->data, &document->data_size, error));
  struct ommai_json_cursor cursor = {document->data, document->data_size, 0};
  struct cut cuts[2] = {{0, 0}, {0, 0}};
  enum omma_status status = walk(document, &cursor, false, cuts, error);
  if (status == OMMA_OK) status = parse_rest(document, cuts, allocator, error);
  if (status != OMMA_OK) ommai_tokenizer_document_close(document, allocator);
  return status;
}

void ommai_tokenizer_document_close(struct ommai_tokenizer_document *document, const struct omma_allocator *allocator) {
  if (document->data) ommai_release(allocator, document->data, document->data_size + 1, 1);
  json_decref(document->root);
  *document = (struct ommai_tokenizer_document){0};
}
