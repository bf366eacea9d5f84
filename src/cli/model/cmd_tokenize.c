/* omma tokenize, omma detokenize */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/json.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/json_out.h"
#include "cli/core/plain_text.h"
#include "cli/model/image_sources.h"
#include "cli/model/model_options.h"

/* Of both commands. */
struct values {
  struct ommai_common common;
  const char *text, *tokens;
  bool skip_special;
  bool json;
};

/* Token ids in memory of the default allocator. */
struct ids {
  int32_t *items;
  size_t count, capacity;
};

static int make_ids(struct ids *ids, size_t capacity) {
  *ids = (struct ids){.items = ommai_allocate(&ommai_default_allocator, capacity, sizeof *ids->items), .capacity = capacity};
  return ids->items ? OMMAI_EXIT_DONE : ommai_failed("tokens: out of memory: %zu ids", capacity);
}

static void release_ids(struct ids *ids) {
  ommai_release(&ommai_default_allocator, ids->items, ids->capacity, sizeof *ids->items);
}

static int print_ids(const struct ids *ids) {
  struct ommai_text out = ommai_json_begin();
  ommai_put_begin(&out, "tokens", "[");
  for (size_t i = 0; i < ids->count; i++) ommai_put_integer(&out, NULL, ids->items[i]);
  ommai_put_end(&out, "]");
  ommai_put_integer(&out, "count", (int64_t)ids->count);
  return ommai_json_end(&out);
}

static int tokenize(const struct omma_model *model, const char *text, size_t size) {
  struct omma_error error;
  size_t count;
  if (omma_tokenize(model, text, size, NULL, 0, &count, &error) != OMMA_OK) return ommai_failed_call(&error);
  struct ids ids;
  int code = make_ids(&ids, count);
  if (code != OMMAI_EXIT_DONE) return code;
  if (omma_tokenize(model, text, size, ids.items, ids.capacity, &ids.count, &error) != OMMA_OK) {
    code = ommai_failed_call(&error);
  } else {
    code = print_ids(&ids);
  }
  release_ids(&ids);
  return code;
}

static int run_tokenize(const void *given, const struct ommai_strings *arguments) {
  struct values values = *(const struct values *)given;
  struct ommai_strings words = *arguments;
  const char *text = values.text;
  int code = ommai_common_take_model_of("tokenize", OMMAI_FURTHER_TEXTS, &words, &values.common);
  if (code != OMMAI_EXIT_DONE) return code;
  if (text && words.count) return ommai_usage_error("tokenize: '%s': --text gives a text already", words.items[0]);
  if (words.count > 1) return ommai_usage_error("tokenize: '%s': put a text of several words in quotes", words.items[1]);
  if (words.count) text = words.items[0];
  struct omma_model *model = NULL;
  char *input = NULL;
  size_t size = text ? strlen(text) : 0;
  if (!text) code = ommai_read_input(&input, &size);
  if (code == OMMAI_EXIT_DONE) code = ommai_open_model(&values.common, true, &model);
  if (code == OMMAI_EXIT_DONE) code = tokenize(model, text ? text : input, size);
  omma_model_close(model);
  free(input);
  return code;
}

static int wrong_id(const char *text) {
  return ommai_usage_error("detokenize: '%.40s': not a token id: give numbers, or JSON such as {\"tokens\":[1,2]}", text);
}

/* Adds the numbers of a plain list: separated by blanks or commas. */
static int add_plain(const char *text, struct ids *ids) {
  static const char separators[] = " ,\t\r\n";
  for (text += strspn(text, separators); *text; text += strspn(text, separators)) {
    char word[24];
    size_t size = strcspn(text, separators);
    int64_t id;
    snprintf(word, sizeof word, "%.*s", (int)(size < sizeof word ? size : sizeof word), text);
    if (size >= sizeof word || !ommai_parse_integer(word, false, &id) || id < 0 || id > INT32_MAX) return wrong_id(word);
    ids->items[ids->count++] = (int32_t)id;
    text += size;
  }
  return OMMAI_EXIT_DONE;
}

/* Adds the ids of {"tokens":[...]} or of a bare array. */
static int add_json(const char *text, size_t size, struct ids *ids) {
  json_error_t error;
  bool no_memory;
  json_t *root = ommai_json_parse(text, size, 0, &error, &no_memory);
  const json_t *array = json_is_object(root) ? json_object_get(root, "tokens") : root;
  int code = OMMAI_EXIT_DONE;
  if (no_memory) {
    code = ommai_failed("detokenize: out of memory: %zu bytes of JSON", size);
  } else if (!root) {
    code = ommai_failed("detokenize: broken JSON: %s at byte %d", error.text, error.position);
  } else if (!json_is_array(array)) {
    code = ommai_failed("detokenize: the JSON has no array \"tokens\"");
  }
  for (size_t i = 0; code == OMMAI_EXIT_DONE && i < json_array_size(array); i++) {
    const json_t *item = json_array_get(array, i);
    json_int_t id = json_integer_value(item);
    if (!json_is_integer(item) || id < 0 || id > INT32_MAX) {
      code = ommai_failed("detokenize: tokens[%zu] is not a token id", i);
    } else {
      ids->items[ids->count++] = (int32_t)id;
    }
  }
  json_decref(root);
  return code;
}

/* The words of the command line with blanks between; release with free(). */
static int join_words(const struct ommai_strings *words, char **text, size_t *size) {
  FILE *memory = open_memstream(text, size);
  if (!memory) return ommai_failed("detokenize: out of memory: the ids");
  for (size_t i = 0; i < words->count; i++) fprintf(memory, "%s ", words->items[i]);
  if (fclose(memory) == 0) return OMMAI_EXIT_DONE;
  return ommai_failed("detokenize: out of memory: the ids");
}

/* The text that holds the ids: of --tokens, of the words besides the options, or of standard input.
 * `*input` is released with free(). */
static int find_ids(const struct values *values, const struct ommai_strings *words, char **input, const char **text,
                    size_t *size) {
  int code = OMMAI_EXIT_DONE;
  if (values->tokens && words->count) return ommai_usage_error("detokenize: '%s': --tokens gives ids already", words->items[0]);
  *text = values->tokens;
  if (values->tokens) {
    *size = strlen(values->tokens);
  } else {
    code = words->count ? join_words(words, input, size) : ommai_read_input(input, size);
    *text = *input;
  }
  return code;
}

/* Reads the ids of a text. Every id takes two bytes at least with its separator, which bounds their
 * number. */
static int read_ids(const char *text, size_t size, struct ids *ids) {
  OMMAI_TRY_CODE(make_ids(ids, size / 2 + 1));
  const char *start = text + strspn(text, " \t\r\n");
  return *start == '{' || *start == '[' ? add_json(text, size, ids) : add_plain(text, ids);
}

static int print_text(const struct omma_model *model, const struct values *values, const struct ids *ids) {
  struct omma_error error;
  size_t size;
  if (omma_detokenize(model, ids->items, ids->count, values->skip_special, NULL, 0, &size, &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  char *text = ommai_allocate(&ommai_default_allocator, size + 1, 1);
  if (!text) return ommai_failed("detokenize: out of memory: %zu bytes of text", size);
  int code;
  size_t again;
  if (omma_detokenize(model, ids->items, ids->count, values->skip_special, text, size, &again, &error) != OMMA_OK) {
    code = ommai_failed_call(&error);
  } else if (values->json) {
    struct ommai_text out = ommai_json_begin();
    ommai_put_text(&out, "text", text, size);
    code = ommai_json_end(&out);
  } else {
    struct ommai_terminal_rest rest = {0};
    ommai_print_answer(stdout, &rest, text, size);
    ommai_terminal_end(stdout, &rest);
    code = ommai_finish_output();
  }
  ommai_release(&ommai_default_allocator, text, size + 1, 1);
  return code;
}

static int run_detokenize(const void *given, const struct ommai_strings *arguments) {
  struct values values = *(const struct values *)given;
  struct ommai_strings words = *arguments;
  struct omma_model *model = NULL;
  struct ids ids = {0};
  char *input = NULL;
  const char *text = NULL;
  size_t size = 0;
  int code = ommai_common_take_model_of("detokenize", OMMAI_FURTHER_TEXTS, &words, &values.common);
  if (code == OMMAI_EXIT_DONE) code = find_ids(&values, &words, &input, &text, &size);
  if (code == OMMAI_EXIT_DONE) code = read_ids(text, size, &ids);
  if (code == OMMAI_EXIT_DONE) code = ommai_open_model(&values.common, true, &model);
  if (code == OMMAI_EXIT_DONE) code = print_text(model, &values, &ids);
  omma_model_close(model);
  release_ids(&ids);
  free(input);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option tokenize_table[] = {
    OMMAI_STRING("text", text, "TEXT", "the text", .otherwise = "standard input, byte for byte"),
};
static const struct ommai_option_group tokenize_options = OMMAI_OPTION_GROUP("Text", tokenize_table);

static const struct ommai_option detokenize_table[] = {
    OMMAI_STRING("tokens", tokens, "IDS", "token ids, separated by commas or blanks, or JSON as omma tokenize prints it",
                 .otherwise = "standard input"),
    OMMAI_FLAG("skip-special", skip_special, "leave out special tokens"),
    OMMAI_FLAG("json", json, "print a JSON object, {\"text\": ...}"),
};
static const struct ommai_option_group detokenize_options = OMMAI_OPTION_GROUP("Tokens", detokenize_table);

const struct ommai_command ommai_command_tokenize = {
    .name = "tokenize",
    .summary = "token ids of a text, as JSON",
    .arguments = "[DIR] [TEXT]",
    .max_arguments = SIZE_MAX,
    .details =
        "Prints {\"tokens\": [...], \"count\": N} for a text, the model's markers in it recognised. Without TEXT it is read "
        "from standard input. DIR is the model, as with --model; where the text is the name of one, it goes after --text. "
        "Needs "
        "no weights.",
    .examples = {"omma tokenize \"two red circles\""},
    .groups = {&tokenize_options, &ommai_model_options, &ommai_machine_options},
    .values_size = sizeof(struct values),
    .run = run_tokenize,
};

const struct ommai_command ommai_command_detokenize = {
    .name = "detokenize",
    .summary = "the text of token ids",
    .arguments = "[DIR] [ID...]",
    .max_arguments = SIZE_MAX,
    .details =
        "Prints the text of token ids, with nothing added, so that `omma tokenize | omma detokenize` gives its input back. "
        "DIR is the model, as with --model. Needs no weights.",
    .examples = {"omma tokenize \"two red circles\" | omma detokenize"},
    .groups = {&detokenize_options, &ommai_model_options, &ommai_machine_options},
    .values_size = sizeof(struct values),
    .run = run_detokenize,
};
