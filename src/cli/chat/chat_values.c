#include "cli/chat/chat_values.h"

#include <math.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/model/image_sources.h"
#include "cli/model/sampling_options.h"

#define OMMAI_VALUES struct ommai_chat_values

static const struct ommai_option sampling_table[] = {
    OMMAI_INTEGER("max-tokens", max_tokens, "N", 1, INT32_MAX, "maximum number of tokens in the answer", .letter = 'n',
                  .otherwise = "the model's, else what the context leaves",
                  .elsewhere = "--predict --n-predict --num-predict --max-new-tokens"),
    OMMAI_INTEGER("min-tokens", min_tokens, "N", 0, INT32_MAX, "minimum number of tokens in the answer", .initial = "0"),
    OMMAI_TEMPERATURE_OPTION(temperature, 2, .otherwise = "the model's, else 0", .elsewhere = "--temp"),
    OMMAI_TOP_P_OPTION(top_p, .above_minimum = true, .otherwise = "the model's, else 1"),
    OMMAI_TOP_K_OPTION(top_k, .otherwise = "the model's, else 0"),
    OMMAI_MIN_P_OPTION(min_p, .otherwise = "the model's, else 0"),
    OMMAI_INTEGER("seed", seed, "S", 0, INT64_MAX, "seed of the sampler: the same request and seed give the same answer",
                  .initial = "0", .elsewhere = "-s"),
    OMMAI_REPETITION_PENALTY_OPTION(repetition_penalty, 100, .above_minimum = true, .otherwise = "the model's, else 1",
                                    .elsewhere = "--repeat-penalty"),
    OMMAI_PRESENCE_PENALTY_OPTION(presence_penalty, 2, .otherwise = "the model's, else 0"),
    OMMAI_FREQUENCY_PENALTY_OPTION(frequency_penalty, 2, .otherwise = "the model's, else 0"),
    OMMAI_STRINGS("stop", stop, "TEXT", "end the answer before this text", .elsewhere = "-r --reverse-prompt"),
    OMMAI_FLAG("ignore-eos", ignore_eos, "keep generating after the model's end-of-sequence token"),
};
const struct ommai_option_group ommai_chat_sampling_options = OMMAI_OPTION_GROUP("Answer", sampling_table);

static const struct ommai_option note_table[] = {
    OMMAI_FLAG("verbose", common.verbose, "note after each answer what it took"),
};
const struct ommai_option_group ommai_chat_note_options = OMMAI_OPTION_GROUP("Notes", note_table);

static const struct ommai_option question_table[] = {
    OMMAI_WORDS("image", images, "FILE",
                "images (JPEG, PNG, WebP, GIF, BMP; HEIC, AVIF, TIFF where built with them): files, file:// URLs, data: URLs, "
                "or - for standard input; images come before the text",
                .letter = 'i', .takes = ommai_is_image_source),
    OMMAI_STRINGS(
        "video", videos, "FRAMES",
        "video: a directory of image files in the order of their names, or files separated by commas; after the images"),
    OMMAI_NUMBER("fps", fps, "F", 0.01, 1000, "frames per second of a video; all frames are used", .initial = "2"),
    OMMAI_STRING("prompt", prompt, "TEXT", "the question", .letter = 'p',
                 .otherwise = "standard input; a conversation where that is a terminal"),
    OMMAI_STRING("system", system, "TEXT", "system message", .elsewhere = "-sys --system-prompt"),
    OMMAI_FLAG(
        "json", json,
        "print one JSON object at the end: ids, text, finish_reason, usage, timings in seconds, boxes in pixels of the images"),
    OMMAI_STRING("boxes", boxes, "FILE.png",
                 "draw the answer's bounding boxes on the first image; boxes on image N go to FILE-N.png"),
    OMMAI_INTEGER("logprobs", logprobs, "K", 0, OMMA_MAX_TOP_LOGPROBS,
                  "with --json: log probabilities of each token and of the K most likely"),
    OMMAI_FLAG("no-history", no_history,
               "in a conversation: neither read nor write the history file, ~/.local/state/omma/history"),
};
const struct ommai_option_group ommai_chat_question_options = OMMAI_OPTION_GROUP("Question", question_table);

static const struct ommai_option form_table[] = {
    OMMAI_STRING(
        "json-schema", form.json_schema, "SCHEMA",
        "constrain the answer to JSON of this JSON Schema: a file, or its text; supported keywords: docs/structured-output.md",
        .elsewhere = "-j"),
    OMMAI_STRING("regex", form.regex, "PATTERN",
                 "constrain the answer to a text that this regular expression matches as a whole"),
    OMMAI_STRING("grammar", form.grammar, "GBNF",
                 "constrain the answer to this grammar in GBNF, llama.cpp's notation: a file, or its text"),
};
const struct ommai_option_group ommai_chat_constraint_options = OMMAI_OPTION_GROUP("Form of the answer", form_table);

static const struct ommai_option other_table[] = {
    OMMAI_NUMBER("temp", temperature, "T", 0, 2, "the same as --temperature"),
    OMMAI_INTEGER("n-predict", max_tokens, "N", 1, INT32_MAX, "the same as --max-tokens"),
    OMMAI_SIZE("ctx-size", common.max_model_len, "SIZE", 1, INT64_MAX, "the same as --max-model-len"),
};
const struct ommai_option_group ommai_chat_other_options = OMMAI_OPTION_GROUP("By llama.cpp's names", other_table);

static void recommend(struct ommai_optional_number *setting, double recommended) {
  if (!setting->given) *setting = (struct ommai_optional_number)OMMAI_GIVEN(recommended);
}

void ommai_chat_values_recommend(struct ommai_chat_values *values, const struct omma_model *model) {
  struct omma_model_info info;
  omma_model_get_info(model, &info);
  double repetition = info.recommended_repetition_penalty; /* 0: none */
  recommend(&values->temperature, fmax(info.recommended_temperature, 0));
  recommend(&values->top_p, info.recommended_top_p > 0 ? info.recommended_top_p : 1);
  recommend(&values->min_p, info.recommended_min_p);
  if (!values->top_k.given) values->top_k = (struct ommai_optional_integer)OMMAI_GIVEN(info.recommended_top_k);
  recommend(&values->repetition_penalty, repetition > 0 ? repetition : 1);
  recommend(&values->presence_penalty, info.recommended_presence_penalty);
  recommend(&values->frequency_penalty, info.recommended_frequency_penalty);
  if (!values->max_tokens) values->max_tokens = info.recommended_max_tokens;
}

struct omma_sampling ommai_chat_values_sampling(const struct ommai_chat_values *values) {
  return (struct omma_sampling){
      .temperature = values->temperature.value,
      .top_p = values->top_p.value,
      .min_p = values->min_p.value,
      .top_k = values->top_k.value,
      .seed = (uint64_t)values->seed,
      .repetition_penalty = values->repetition_penalty.value,
      .presence_penalty = values->presence_penalty.value,
      .frequency_penalty = values->frequency_penalty.value,
      .max_tokens = values->max_tokens,
      .min_tokens = values->min_tokens,
      .stop = values->stop.items,
      .n_stop = values->stop.count,
      .ignore_eos = values->ignore_eos,
      .logprobs = values->logprobs.given,
      .n_top_logprobs = (int)values->logprobs.value,
  };
}

enum { MAX_BYTES = 1 << 20 };

/* A schema begins with a brace (or is true or false); a grammar has a rule. What does not is a
 * file's name. */
static bool is_text(enum omma_grammar_kind kind, const char *value) {
  if (kind == OMMA_GRAMMAR_REGEX) return true;
  if (kind == OMMA_GRAMMAR_GBNF) return strstr(value, "::=") != NULL;
  value += strspn(value, " \t\r\n");
  return value[0] == '{' || !strcmp(value, "true") || !strcmp(value, "false");
}

static int read_text(const char *command, const char *value, struct ommai_answer_constraint *constraint) {
  struct omma_error error;
  constraint->options.text = value;
  constraint->options.text_size = strlen(value);
  if (is_text(constraint->options.kind, value)) return OMMAI_EXIT_DONE;
  if (ommai_file_read(value, MAX_BYTES, &ommai_default_allocator, &constraint->text, &constraint->options.text_size, &error) !=
      OMMA_OK)
    return ommai_usage_error("%s: %s: neither a text of that kind nor a file: %s", command, constraint->option, error.message);
  constraint->options.text = constraint->text;
  return OMMAI_EXIT_DONE;
}

int ommai_answer_constraint_read(const char *command, const struct ommai_constraint_values *values,
                                 struct ommai_answer_constraint *constraint) {
  const struct {
    const char *value, *option;
    enum omma_grammar_kind kind;
  } ways[] = {{values->json_schema, "--json-schema", OMMA_GRAMMAR_JSON_SCHEMA},
              {values->regex, "--regex", OMMA_GRAMMAR_REGEX},
              {values->grammar, "--grammar", OMMA_GRAMMAR_GBNF}};
  const char *value = NULL;
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    if (!ways[i].value) continue;
    if (value)
      return ommai_usage_error("%s: %s: only one of it and %s can be given", command, ways[i].option, constraint->option);
    value = ways[i].value;
    constraint->option = ways[i].option;
    constraint->options.kind = ways[i].kind;
  }
  return value ? read_text(command, value, constraint) : OMMAI_EXIT_DONE;
}

void ommai_answer_constraint_release(struct ommai_answer_constraint *constraint) {
  if (constraint->text) ommai_release(&ommai_default_allocator, constraint->text, constraint->options.text_size + 1, 1);
}

enum omma_status ommai_answer_constraint_compile(const struct ommai_answer_constraint *constraint,
                                                 const struct omma_model *model, struct omma_grammar **grammar,
                                                 struct omma_error *error) {
  *grammar = NULL;
  if (!constraint->option) return OMMA_OK;
  enum omma_status status = omma_grammar_create(model, &constraint->options, grammar, error);
  if (status != OMMA_OK) ommai_error_prefix(error, "%s", constraint->option);
  return status;
}
