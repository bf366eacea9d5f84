/* Writes texts that grammars allow, token by token at random: what the scripts next to it check
 * against other programs.
 *
 *   grammar_walk MODEL [--time]
 *
 * MODEL is a directory with tokenizer.json. Each line of standard input is a JSON object {"kind",
 * "text", "compact", "walks", "seed", "tokens"}, or with "prefix" instead of walks; each line of
 * output the answer to it: {"error"}, {"texts", "unfinished"}, or {"allowed", "ends"}: the tokens
 * that may follow the prefix. With "instances", a list of texts, the answer has "accepted" too,
 * which of them the grammar allows. With --time, percentiles of the processor time that a mask
 * takes, and a compilation, are written to standard error, and the slowest masks: the line of
 * their request, the text before them, how many states were made and pages touched for the first
 * time. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "grammar/answer_grammar.h"
#include "grammar/token_mask.h"

enum { MAX_LINE = 1 << 22, MAX_TEXT = 1 << 20, MAX_TIMES = 1 << 20, N_SLOWEST = 20, MAX_END = 40 };

struct slow_mask {
  double us, wall_us;
  int64_t line, n_states, n_faults;
  char end[MAX_END + 1]; /* of the text before it */
};

struct program {
  struct ommai_tokenizer *tokenizer;
  struct ommai_token_trie *trie;
  uint64_t random;
  char text[MAX_TEXT];
  size_t size;
  double mask_us[MAX_TIMES], compile_us[MAX_TIMES];
  size_t n_masks, n_compiled;
  int64_t n_lines;
  struct slow_mask slowest[N_SLOWEST]; /* by time, the slowest first */
};

static uint64_t draw(struct program *program) {
  program->random = program->random * 6364136223846793005u + 1442695040888963407u;
  return program->random >> 33;
}

static void keep_time(double *times, size_t *n, int64_t start) {
  if (*n < MAX_TIMES) times[(*n)++] = (double)(ommai_clock_thread_ns() - start) * 1e-3;
}

static int64_t count_faults(void) {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) ? 0 : usage.ru_minflt;
}

static void keep_slowest(struct program *program, struct slow_mask mask) {
  size_t n_end = program->size < MAX_END ? program->size : MAX_END;
  int at = N_SLOWEST - 1;
  if (mask.us <= program->slowest[at].us) return;
  memcpy(mask.end, program->text + program->size - n_end, n_end);
  for (; at > 0 && program->slowest[at - 1].us < mask.us; at--) program->slowest[at] = program->slowest[at - 1];
  program->slowest[at] = mask;
}

static const uint32_t *get_mask(struct program *program, struct ommai_token_masks *masks, struct ommai_mask_position *position,
                                bool *ends, bool *goes_on) {
  int64_t n_states = ommai_token_masks_n_states(masks), n_faults = count_faults();
  int64_t wall = ommai_clock_ns(), start = ommai_clock_thread_ns();
  const uint32_t *mask = ommai_token_masks_get(masks, position, ends, goes_on);
  keep_time(program->mask_us, &program->n_masks, start);
  keep_slowest(program, (struct slow_mask){.us = (double)(ommai_clock_thread_ns() - start) * 1e-3,
                                           .wall_us = (double)(ommai_clock_ns() - wall) * 1e-3,
                                           .line = program->n_lines,
                                           .n_states = ommai_token_masks_n_states(masks) - n_states,
                                           .n_faults = count_faults() - n_faults});
  return mask;
}

static bool is_end(const struct program *program, int32_t token) {
  for (size_t i = 0; i < program->trie->n_end_tokens; i++) {
    if (program->trie->end_tokens[i] == token) return true;
  }
  return false;
}

/* A token that closes something, where one is allowed; else any: half the time a short one, so that
 * texts end. */
static int32_t choose(struct program *program, const uint32_t *mask, bool closing) {
  static const char *const closers[] = {"\"", "]", "}", ",", ":"};
  for (size_t i = 0; closing && i < sizeof closers / sizeof closers[0]; i++) {
    int32_t token;
    if (ommai_tokenizer_find(program->tokenizer, closers[i], &token) && ommai_mask_has(mask, token)) return token;
  }
  int32_t best = -1;
  size_t best_size = 0;
  int64_t n_allowed = 0;
  for (int32_t token = 0; token < program->trie->vocab_size; token++)
    n_allowed += ommai_mask_has(mask, token) && !is_end(program, token);
  for (int try = 0; n_allowed && try < (closing ? 8 : 1); try++) {
    const char *bytes;
    size_t size;
    int64_t left = (int64_t)(draw(program) % (uint64_t)n_allowed);
    int32_t token = 0;
    while (!ommai_mask_has(mask, token) || is_end(program, token) || left-- > 0) token++;
    ommai_tokenizer_token_bytes(program->tokenizer, token, &bytes, &size, NULL);
    if (best < 0 || size < best_size) best = token, best_size = size;
  }
  return best;
}

/* One text into program->text; false when it did not come to an end in `limit` tokens. */
static bool walk(struct program *program, struct ommai_token_masks *masks, int64_t limit) {
  struct ommai_mask_position position = ommai_token_masks_start(masks);
  program->size = 0;
  for (int64_t i = 0; i < 4 * limit; i++) {
    bool ends, goes_on;
    const uint32_t *mask = get_mask(program, masks, &position, &ends, &goes_on);
    if (ends && (!goes_on || i > limit || draw(program) % 3 == 0)) return true;
    int32_t token = choose(program, mask, i > limit || draw(program) % 4 == 0);
    const char *bytes;
    size_t size;
    if (token < 0) return false;
    ommai_tokenizer_token_bytes(program->tokenizer, token, &bytes, &size, NULL);
    if (!ommai_token_masks_advance(masks, &position, bytes, size) || program->size + size > MAX_TEXT) return false;
    memcpy(program->text + program->size, bytes, size);
    program->size += size;
  }
  return false;
}

static json_t *walk_many(struct program *program, struct ommai_token_masks *masks, const json_t *request) {
  json_t *texts = json_array();
  int64_t unfinished = 0, limit = json_integer_value(json_object_get(request, "tokens"));
  program->random = (uint64_t)json_integer_value(json_object_get(request, "seed"));
  for (int64_t i = 0; i < json_integer_value(json_object_get(request, "walks")); i++) {
    if (walk(program, masks, limit ? limit : 200)) {
      json_array_append_new(texts, json_stringn(program->text, program->size));
    } else {
      unfinished++;
    }
  }
  return json_pack("{s:o,s:I}", "texts", texts, "unfinished", (json_int_t)unfinished);
}

static json_t *list_allowed(struct program *program, struct ommai_token_masks *masks, const json_t *prefix) {
  struct ommai_mask_position position = ommai_token_masks_start(masks);
  bool ends, goes_on;
  json_t *allowed = json_array();
  if (ommai_token_masks_advance(masks, &position, json_string_value(prefix), json_string_length(prefix))) {
    const uint32_t *mask = get_mask(program, masks, &position, &ends, &goes_on);
    for (int32_t token = 0; token < program->trie->vocab_size; token++) {
      if (ommai_mask_has(mask, token) && !is_end(program, token)) json_array_append_new(allowed, json_integer(token));
    }
  }
  return json_pack("{s:o,s:b}", "allowed", allowed, "ends", position.state >= 0 && ends);
}

/* Which of the texts the grammar allows as a whole. */
static json_t *judge(struct ommai_token_masks *masks, const json_t *instances) {
  json_t *accepted = json_array(), *text;
  size_t index;
  json_array_foreach(instances, index, text) {
    struct ommai_mask_position position = ommai_token_masks_start(masks);
    bool ends = false, goes_on;
    if (ommai_token_masks_advance(masks, &position, json_string_value(text), json_string_length(text))) {
      (void)ommai_token_masks_get(masks, &position, &ends, &goes_on);
    }
    json_array_append_new(accepted, json_boolean(ends));
  }
  return accepted;
}

static json_t *answer(struct program *program, const json_t *request) {
  static const char *const kinds[] = {"json", "json_object", "regex", "choice", "grammar"};
  const char *kind = json_string_value(json_object_get(request, "kind"));
  const json_t *text = json_object_get(request, "text"), *prefix = json_object_get(request, "prefix");
  const json_t *instances = json_object_get(request, "instances");
  struct ommai_grammar *grammar;
  struct ommai_token_masks *masks;
  struct omma_error error;
  int index = 0;
  while (index < 4 && strcmp(kinds[index], kind)) index++;
  int64_t start = ommai_clock_thread_ns();
  const struct ommai_grammar_source source = {.kind = (enum ommai_answer_kind)index,
                                              .text = json_string_value(text),
                                              .size = json_string_length(text),
                                              .compact = json_is_true(json_object_get(request, "compact"))};
  if (ommai_answer_grammar_create(&source, &ommai_default_allocator, &grammar, &error) != OMMA_OK) {
    return json_pack("{s:s}", "error", error.message);
  }
  keep_time(program->compile_us, &program->n_compiled, start);
  if (ommai_token_masks_create(grammar, program->trie, 0, &masks, &error) != OMMA_OK) exit(1);
  json_t *reply = prefix ? list_allowed(program, masks, prefix) : walk_many(program, masks, request);
  if (instances) json_object_set_new(reply, "accepted", judge(masks, instances));
  ommai_token_masks_destroy(masks);
  ommai_grammar_destroy(grammar);
  return reply;
}

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static void report(const char *what, double *times, size_t n) {
  static const double shares[] = {0.5, 0.9, 0.99, 0.999, 1};
  qsort(times, n, sizeof *times, compare);
  fprintf(stderr, "%s (%zu), microseconds:", what, n);
  for (size_t i = 0; n && i < sizeof shares / sizeof shares[0]; i++) {
    size_t at = (size_t)(shares[i] * (double)(n - 1));
    fprintf(stderr, "  p%g %.1f", shares[i] * 100, times[at]);
  }
  fprintf(stderr, "\n");
}

static void report_slowest(const struct program *program) {
  for (int i = 0; i < N_SLOWEST && program->slowest[i].us > 0; i++) {
    const struct slow_mask *mask = &program->slowest[i];
    json_t *end = json_stringn_nocheck(mask->end, strlen(mask->end));
    char *quoted = json_dumps(end, JSON_ENCODE_ANY);
    fprintf(stderr, "line %lld: %.1f us (wall %.1f), %lld states, %lld pages, after %s\n", (long long)mask->line, mask->us,
            mask->wall_us, (long long)mask->n_states, (long long)mask->n_faults, quoted ? quoted : "other bytes");
    free(quoted);
    json_decref(end);
  }
}

static bool load(struct program *program, const char *directory) {
  struct omma_error error;
  int32_t end[2];
  size_t n_end = 0;
  if (ommai_tokenizer_load(directory, &ommai_default_allocator, &program->tokenizer, &error) != OMMA_OK) {
    fprintf(stderr, "%s\n", error.message);
    return false;
  }
  n_end += ommai_tokenizer_find(program->tokenizer, "<|im_end|>", &end[n_end]);
  int64_t start = ommai_clock_ns();
  if (ommai_token_trie_create(program->tokenizer, ommai_tokenizer_vocab_size(program->tokenizer), end, n_end,
                              &ommai_default_allocator, &program->trie, &error) != OMMA_OK) {
    return false;
  }
  fprintf(stderr, "%lld tokens, a tree of %zu nodes in %.1f ms\n", (long long)program->trie->vocab_size, program->trie->n_nodes,
          (double)(ommai_clock_ns() - start) * 1e-6);
  return true;
}

int main(int argc, char **argv) {
  static struct program program;
  static char line[MAX_LINE];
  if (argc < 2 || !load(&program, argv[1])) return 1;
  while (fgets(line, sizeof line, stdin)) {
    json_t *request = json_loads(line, 0, NULL);
    if (!request) return 1;
    program.n_lines++;
    program.size = 0;
    json_t *reply = answer(&program, request);
    if (!reply) return 1;
    json_dumpf(reply, stdout, JSON_COMPACT);
    printf("\n");
    fflush(stdout);
    json_decref(reply);
    json_decref(request);
  }
  if (argc > 2 && !strcmp(argv[2], "--time")) {
    report("compilations", program.compile_us, program.n_compiled);
    report("masks", program.mask_us, program.n_masks);
    report_slowest(&program);
  }
  ommai_token_trie_destroy(program.trie);
  ommai_tokenizer_destroy(program.tokenizer);
  return 0;
}
