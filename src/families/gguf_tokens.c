#include "families/gguf_tokens.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"

/* Digits in threes. */
#define GLM_PATTERN                                                          \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| " \
  "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* How text is cut before merging, by tokenizer.ggml.pre. The files lack the pattern itself; these
 * are those in the tokenizer.json of the checkpoints that are converted under these names, and
 * with it whether text is brought to form C. */
static const struct splitting {
  const char *name, *pattern;
  bool normalize, ranks, whole_pieces;
} splittings[] = {
    {"qwen2",
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     true, false, false},
    /* marks go with letters */
    {"qwen35",
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
     "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     true, false, false},
    {"chatglm-bpe", GLM_PATTERN, false, false, false},
    {"glm4", GLM_PATTERN, false, false, true},
    {"kimi-k2", NULL, false, true, false},
};
static const struct splitting by_scores = {.name = "default"};

static bool is_text(struct ommai_gguf_text text, const char *expected) {
  return text.size == strlen(expected) && memcmp(text.bytes, expected, text.size) == 0;
}

static enum omma_status fail_kind(const struct ommai_gguf *file, const char *key, struct ommai_gguf_text found,
                                  const char *known, struct omma_error *error) {
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, key, "%.200s: key \"%s\": \"%.*s\" is not supported; known: %s",
                          ommai_gguf_path(file), key, (int)(found.size < 40 ? found.size : 40), found.bytes, known);
}

static enum omma_status find_splitting(const struct ommai_gguf *file, const struct splitting **splitting,
                                       struct omma_error *error) {
  static const char model_key[] = "tokenizer.ggml.model", pre_key[] = "tokenizer.ggml.pre";
  struct ommai_gguf_text model, pre;
  OMMAI_TRY(ommai_gguf_string(file, model_key, true, &model, error));
  *splitting = &by_scores;
  if (is_text(model, "llama")) return OMMA_OK;
  OMMAI_TRY(ommai_gguf_string(file, pre_key, true, &pre, error));
  if (!is_text(model, "gpt2")) return fail_kind(file, model_key, model, "gpt2, llama", error);
  for (size_t i = 0; i < sizeof splittings / sizeof *splittings; i++) {
    *splitting = &splittings[i];
    if (is_text(pre, splittings[i].name)) return OMMA_OK;
  }
  return fail_kind(file, pre_key, pre, "qwen2, qwen35, chatglm-bpe, glm4, kimi-k2", error);
}

/* The lists of a file, in memory for the time of loading. */
struct lists {
  struct ommai_listed_text *tokens, *merges;
  enum ommai_listed_kind *kinds;
  float *scores; /* NULL: there are merges, or ranks */
  size_t n_tokens, n_merges;
};

static enum omma_status read_texts(const char *what, struct ommai_gguf_array array, const struct omma_allocator *allocator,
                                   struct ommai_listed_text **out, struct omma_error *error) {
  *out = ommai_allocate(allocator, array.count, sizeof **out);
  if (!*out) return ommai_fail_memory(error, what, (size_t)array.count * sizeof **out);
  for (size_t i = 0; array.left; i++) {
    struct ommai_gguf_text text = ommai_gguf_next_string(&array);
    (*out)[i] = (struct ommai_listed_text){text.bytes, text.size};
  }
  return OMMA_OK;
}

/* The kinds that the format counts from 1: normal, unknown, control, user-defined, unused, byte. */
static const struct {
  enum ommai_listed_kind kind;
  bool with_bytes; /* only where bytes have tokens of their own */
} kinds[] = {[1] = {OMMAI_LISTED_NORMAL, false}, [2] = {OMMAI_LISTED_SPECIAL, true}, [3] = {OMMAI_LISTED_SPECIAL, false},
             [4] = {OMMAI_LISTED_ADDED, false},  [5] = {OMMAI_LISTED_UNUSED, false}, [6] = {OMMAI_LISTED_NORMAL, true}};

static enum omma_status read_kinds(const struct ommai_gguf *file, struct lists *lists, const struct omma_allocator *allocator,
                                   struct omma_error *error) {
  static const char key[] = "tokenizer.ggml.token_type";
  struct ommai_gguf_array types;
  OMMAI_TRY(ommai_gguf_numbers(file, key, true, &types, error));
  if (types.count != lists->n_tokens) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%.200s: key \"%s\": %zu types of %zu tokens", ommai_gguf_path(file),
                            key, (size_t)types.count, lists->n_tokens);
  }
  lists->kinds = ommai_allocate(allocator, lists->n_tokens, sizeof *lists->kinds);
  if (!lists->kinds) return ommai_fail_memory(error, key, lists->n_tokens * sizeof *lists->kinds);
  for (size_t i = 0; types.left; i++) {
    double type = ommai_gguf_next_number(&types);
    int at = type >= 1 && type <= 6 && type == (int)type ? (int)type : 0;
    if (at == 0 || (kinds[at].with_bytes && !lists->scores)) {
      return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, key, "%.200s: key \"%s\": token %zu has type %g: expected %s",
                              ommai_gguf_path(file), key, i, type,
                              lists->scores ? "1 to 6" : "1, 3, 4 or 5, of byte-level tokens");
    }
    lists->kinds[i] = kinds[at].kind;
  }
  return OMMA_OK;
}

static enum omma_status read_scores(const struct ommai_gguf *file, struct lists *lists, const struct omma_allocator *allocator,
                                    struct omma_error *error) {
  static const char key[] = "tokenizer.ggml.scores";
  struct ommai_gguf_array scores;
  OMMAI_TRY(ommai_gguf_numbers(file, key, true, &scores, error));
  if (scores.count != lists->n_tokens) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%.200s: key \"%s\": %zu scores of %zu tokens",
                            ommai_gguf_path(file), key, (size_t)scores.count, lists->n_tokens);
  }
  lists->scores = ommai_allocate(allocator, lists->n_tokens, sizeof *lists->scores);
  if (!lists->scores) return ommai_fail_memory(error, key, lists->n_tokens * sizeof *lists->scores);
  for (size_t i = 0; scores.left; i++) lists->scores[i] = (float)ommai_gguf_next_number(&scores);
  return OMMA_OK;
}

static enum omma_status read_lists(const struct ommai_gguf *file, const struct splitting *splitting, struct lists *lists,
                                   const struct omma_allocator *allocator, struct omma_error *error) {
  static const char tokens_key[] = "tokenizer.ggml.tokens", merges_key[] = "tokenizer.ggml.merges";
  struct ommai_gguf_array tokens, merges;
  OMMAI_TRY(ommai_gguf_strings(file, tokens_key, true, &tokens, error));
  bool scores = splitting == &by_scores;
  OMMAI_TRY(ommai_gguf_strings(file, merges_key, !splitting->ranks && !scores, &merges, error));
  lists->n_tokens = (size_t)tokens.count;
  lists->n_merges = (size_t)merges.count;
  OMMAI_TRY(read_texts(tokens_key, tokens, allocator, &lists->tokens, error));
  OMMAI_TRY(read_texts(merges_key, merges, allocator, &lists->merges, error));
  if (scores) OMMAI_TRY(read_scores(file, lists, allocator, error));
  return read_kinds(file, lists, allocator, error);
}

enum omma_status ommai_gguf_tokens_load(const struct ommai_gguf *file, const struct omma_allocator *allocator,
                                        struct ommai_tokenizer **tokenizer, struct omma_error *error) {
  const struct splitting *splitting;
  struct lists lists = {0};
  OMMAI_TRY(find_splitting(file, &splitting, error));
  enum omma_status status = read_lists(file, splitting, &lists, allocator, error);
  const struct ommai_token_list list = {.name = ommai_gguf_path(file),
                                        .n_tokens = lists.n_tokens,
                                        .tokens = lists.tokens,
                                        .kinds = lists.kinds,
                                        .n_merges = lists.n_merges,
                                        .merges = lists.merges,
                                        .ranks = splitting->ranks,
                                        .scores = lists.scores,
                                        .pattern = splitting->pattern,
                                        .normalize = splitting->normalize,
                                        .whole_pieces = splitting->whole_pieces};
  if (status == OMMA_OK) status = ommai_tokenizer_make(&list, allocator, tokenizer, error);
  ommai_release(allocator, lists.tokens, lists.n_tokens, sizeof *lists.tokens);
  ommai_release(allocator, lists.merges, lists.n_merges, sizeof *lists.merges);
  ommai_release(allocator, lists.scores, lists.n_tokens, sizeof *lists.scores);
  ommai_release(allocator, lists.kinds, lists.n_tokens, sizeof *lists.kinds);
  return status;
}
