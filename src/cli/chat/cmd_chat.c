/* omma chat: asks a model about images, videos and texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/chat/chat_answer.h"
#include "cli/chat/chat_boxes.h"
#include "cli/chat/chat_session.h"
#include "cli/chat/chat_settings.h"
#include "cli/chat/chat_values.h"
#include "cli/chat/chat_words.h"
#include "cli/chat/conversation.h"
#include "cli/chat/mentioned_images.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/core/json_out.h"
#include "cli/core/paths.h"
#include "cli/core/text_lines.h"
#include "cli/model/image_sources.h"
#include "cli/model/model_options.h"
#include "cli/model/room.h"

/* The settings of a conversation. */
static const struct ommai_command set_command = {.name = "/set",
                                                 .groups = {&ommai_chat_sampling_options, &ommai_chat_note_options}};

/* What one run of the command owns. */
struct chat {
  const char *command;              /* "chat", or "run", whose first word is the model */
  struct ommai_chat_values *values; /* with what stands besides the options */
  char *input;                      /* the prompt from standard input */
  struct ommai_mentioned mentioned; /* by the question, where it is a word */
  const char *prompt;
  size_t prompt_size;
  bool interactive;
  /* [n_attachments], images and then videos; taken over by the conversation */
  struct omma_part *attachments;
  size_t n_attachments;
  double decode_image; /* seconds for reading and decoding them */
  bool given;          /* to the conversation: only their list is left */
  struct omma_engine_options engine_options;
  struct ommai_answer_constraint form;
  struct omma_grammar *grammar; /* of the form; NULL: answers are free */
  struct omma_model *model;
  struct omma_engine *engine;
  struct ommai_conversation conversation;
};

static int check(const struct chat *chat) {
  const struct ommai_chat_values *values = chat->values;
  if (values->stop.count > OMMA_MAX_STOP_STRINGS) {
    return ommai_usage_error("%s: --stop: given %zu times, at most %d are possible", chat->command, values->stop.count,
                             OMMA_MAX_STOP_STRINGS);
  }
  if (values->boxes && !values->images.count)
    return ommai_usage_error("%s: --boxes: needs --image, an image to draw on", chat->command);
  if (values->logprobs.given && !values->json)
    return ommai_usage_error("%s: --logprobs: needs --json, which prints them", chat->command);
  for (size_t i = 0; i < values->stop.count; i++) {
    if (!values->stop.items[i][0]) return ommai_usage_error("%s: --stop '': must not be empty", chat->command);
  }
  if (values->boxes) return ommai_chat_boxes_check_path(values->boxes, values->images.items, values->images.count);
  return OMMAI_EXIT_DONE;
}

static int read_prompt(struct chat *chat) {
  OMMAI_TRY_CODE(ommai_read_input(&chat->input, &chat->prompt_size));
  chat->prompt = chat->input;
  if (chat->prompt_size && chat->prompt[chat->prompt_size - 1] == '\n') chat->prompt_size--;
  return OMMAI_EXIT_DONE;
}

static int find_prompt(struct chat *chat, size_t n_from_standard_input) {
  const struct ommai_chat_values *values = chat->values;
  if (n_from_standard_input > 1) return ommai_usage_error("%s: -: standard input is one image, not several", chat->command);
  if (values->prompt) {
    chat->prompt = values->prompt;
    chat->prompt_size = strlen(values->prompt);
  } else if (n_from_standard_input) {
    return ommai_usage_error("%s: -: needs a question (--prompt TEXT): standard input is the image", chat->command);
  } else if (isatty(STDIN_FILENO)) {
    if (values->json) return ommai_usage_error("%s: --json: needs --prompt, or a prompt on standard input", chat->command);
    if (values->boxes) return ommai_usage_error("%s: --boxes: needs --prompt, or a prompt on standard input", chat->command);
    chat->interactive = true;
    return OMMAI_EXIT_DONE;
  } else {
    OMMAI_TRY_CODE(read_prompt(chat));
  }
  if (!ommai_text_is_blank(chat->prompt, chat->prompt_size)) return OMMAI_EXIT_DONE;
  return ommai_usage_error("%s: nothing to ask: the question is empty (--prompt \"What is in this picture?\")", chat->command);
}

static struct ommai_attachment_options attachment_options(const struct ommai_chat_values *values) {
  return (struct ommai_attachment_options){.sizes = ommai_common_image_options(&values->common), .fps = values->fps};
}

static struct ommai_answer_options answer_options(const struct chat *chat) {
  const struct ommai_chat_values *values = chat->values;
  struct omma_sampling sampling = ommai_chat_values_sampling(values);
  sampling.grammar = chat->grammar;
  return (struct ommai_answer_options){.sampling = sampling, .stream = !values->json, .details = values->json};
}

static const char *finish_name(enum omma_finish finish) {
  switch (finish) {
    case OMMA_FINISH_STOP: return "stop";
    case OMMA_FINISH_LENGTH: return "length";
    case OMMA_FINISH_CANCELLED: return "cancelled";
    case OMMA_FINISH_ERROR: return "error";
    case OMMA_FINISH_REPETITION: return "repetition";
  }
  return "error";
}

static int print_json(const struct chat *chat, const struct ommai_answer *answer, const struct ommai_boxes *boxes) {
  const struct ommai_chat_values *values = chat->values;
  const struct omma_result *result = &answer->result;
  const struct omma_timings *t = &result->timings;
  struct ommai_text out = ommai_json_begin();
  ommai_put_list(&out, "prompt_token_ids", &answer->prompt_ids);
  ommai_put_list(&out, "token_ids", &answer->ids);
  ommai_put_text(&out, "text", answer->text, answer->text_size);
  ommai_put_string(&out, "finish_reason", finish_name(result->finish));
  ommai_put_begin(&out, "usage", "{");
  OMMAI_PUT_INTEGERS(&out, {"prompt_tokens", result->n_prompt_tokens}, {"completion_tokens", result->n_completion_tokens},
                     {"total_tokens", result->n_prompt_tokens + result->n_completion_tokens});
  ommai_put_end(&out, "}");
  ommai_put_begin(&out, "timings", "{");
  OMMAI_PUT_REALS(&out, {"decode_image", chat->decode_image}, {"queue", t->queue}, {"preprocess", t->preprocess},
                  {"encode", t->encode}, {"prefill", t->prefill}, {"decode", t->decode});
  ommai_put_end(&out, "}");
  if (values->logprobs.given) ommai_put_list(&out, "logprobs", &answer->logprobs);
  if (values->images.count) ommai_put_boxes(&out, "boxes", boxes);
  return ommai_json_end(&out);
}

/* What stands after a whole answer: the rest of the output, and the drawn boxes. */
static int print_answer(const struct chat *chat, const struct ommai_answer *answer) {
  const struct ommai_chat_values *values = chat->values;
  struct ommai_boxes boxes = {0};
  int code = OMMAI_EXIT_DONE;
  if (values->boxes || values->json) {
    code = ommai_chat_boxes(chat->model, chat->attachments, values->images.count, answer->text, answer->text_size, &boxes);
  }
  if (code == OMMAI_EXIT_DONE) code = values->json ? print_json(chat, answer, &boxes) : ommai_finish_output();
  if (code == OMMAI_EXIT_DONE && values->boxes) {
    code = ommai_chat_boxes_save(&boxes, chat->attachments, values->images.count, values->boxes);
  }
  ommai_boxes_release(&boxes);
  if (values->common.verbose) ommai_answer_note(answer, chat->decode_image);
  return code;
}

static int answer_once(struct chat *chat) {
  const struct ommai_chat_values *values = chat->values;
  struct ommai_answer_options options = answer_options(chat);
  struct ommai_answer answer;
  int code = ommai_answer(chat->model, chat->engine, &chat->conversation, &options, &answer);
  if (answer.too_long) ommai_failed_call(&answer.error);
  bool open_line = !values->json && answer.text_size && answer.text[answer.text_size - 1] != '\n';
  if (open_line) putchar('\n');
  if (code == OMMAI_EXIT_DONE && answer.interrupted) {
    ommai_failed("interrupted");
    code = ommai_interrupt_status();
  } else if (code == OMMAI_EXIT_DONE) {
    code = print_answer(chat, &answer);
  }
  ommai_answer_release(&answer);
  return code;
}

/* A conversation, whose options /set changes. */
struct changed {
  const struct chat *chat;
  struct ommai_session_options *options;
};

static void take_settings(void *context) {
  const struct changed *changed = context;
  changed->options->answering = answer_options(changed->chat);
  changed->options->verbose = changed->chat->values->common.verbose;
}

static int converse(struct chat *chat) {
  const struct ommai_chat_values first = *chat->values;
  struct ommai_session_options options = {.attaching = attachment_options(chat->values),
                                          .kv_cache_bytes = chat->engine_options.kv_cache_bytes,
                                          .decode_image = chat->decode_image,
                                          .history = !chat->values->no_history};
  struct changed changed = {chat, &options};
  struct ommai_chat_settings settings = {
      .command = &set_command, .values = chat->values, .first = &first, .changed = take_settings, .context = &changed};
  options.settings = &settings;
  take_settings(&changed);
  chat->given = true;
  int code =
      ommai_chat_session(chat->model, chat->engine, &options, chat->attachments, chat->n_attachments, &chat->conversation);
  ommai_chat_settings_release(&settings);
  return code;
}

static size_t count_attachments(const struct ommai_chat_values *values) { return values->images.count + values->videos.count; }

static int load_attachments(struct chat *chat) {
  const struct ommai_chat_values *values = chat->values;
  struct ommai_attachment_options options = attachment_options(values);
  size_t n = count_attachments(values);
  double start = ommai_clock_seconds();
  chat->attachments = ommai_allocate(&ommai_default_allocator, n, sizeof *chat->attachments);
  if (!chat->attachments) return ommai_failed("chat: out of memory: a list of %zu images and videos", n);
  for (; chat->n_attachments < n; chat->n_attachments++) {
    size_t i = chat->n_attachments, n_images = values->images.count;
    OMMAI_TRY_CODE(i < n_images ? ommai_attach_image(values->images.items[i], &options, &chat->attachments[i])
                            : ommai_attach_video(values->videos.items[i - n_images], &options, &chat->attachments[i]));
  }
  chat->decode_image = ommai_clock_seconds() - start;
  return OMMAI_EXIT_DONE;
}

/* The conversation as far as it is known: what is asked too, unless people will type that. */
static int begin_conversation(struct chat *chat) {
  const char *system = chat->values->system;
  struct ommai_conversation *conversation = &chat->conversation;
  if (system) {
    OMMAI_TRY_CODE(ommai_conversation_add(conversation, OMMA_ROLE_SYSTEM, NULL, 0, system, strlen(system)));
  }
  if (chat->interactive) return OMMAI_EXIT_DONE;
  chat->given = true;
  return ommai_conversation_add(conversation, OMMA_ROLE_USER, chat->attachments, chat->n_attachments, chat->prompt,
                                chat->prompt_size);
}

/* Refuses images that the model cannot take, by their names. */
static enum omma_status check_images(const struct chat *chat, const struct omma_model *model, struct omma_error *error) {
  for (size_t i = 0; i < chat->values->images.count; i++) {
    const struct omma_part *part = &chat->attachments[i];
    struct omma_image_sizes sizes;
    enum omma_status status = omma_model_image_sizes(model, omma_image_width(part->image), omma_image_height(part->image),
                                                     &part->image_options, &sizes, error);
    if (status == OMMA_OK) continue;
    ommai_error_prefix(error, "%.200s", chat->values->images.items[i]);
    return status;
  }
  return OMMA_OK;
}

/* Of the conversation and each answer together. */
static void warn_of_max_tokens(const struct chat *chat, int64_t n_tokens) {
  if (chat->values->max_tokens < n_tokens) return;
  ommai_warn("%s: --max-tokens %lld: prompt and answer may have %lld tokens together, so an answer ends earlier", chat->command,
             (long long)chat->values->max_tokens, (long long)n_tokens);
}

/* Refuses what cannot be before time goes into packing weights: a wrong form of answers, a question
 * that does not fit, or images of the first. The engine gets the memory that was estimated. */
static enum omma_status check_room(void *context, const struct omma_model *model, struct omma_error *error) {
  struct chat *chat = context;
  const struct omma_message images = {.role = OMMA_ROLE_USER, .parts = chat->attachments, .n_parts = chat->n_attachments};
  struct omma_memory_estimate estimate;
  struct omma_grammar *grammar;
  OMMAI_TRY(check_images(chat, model, error));
  OMMAI_TRY(ommai_answer_constraint_compile(&chat->form, model, &grammar, error));
  omma_grammar_destroy(grammar);
  OMMAI_TRY(omma_estimate_memory(model, &chat->engine_options, 0, &estimate, error));
  chat->engine_options.kv_cache_bytes = estimate.kv_cache_bytes;
  OMMAI_TRY(ommai_room_check_total(model, &estimate, OMMAI_ROOM_OPTIONS_OF_CHAT, error));
  if (!chat->interactive) {
    OMMAI_TRY(ommai_room_check_prompt(model, &estimate, chat->conversation.messages, chat->conversation.count, error));
  } else if (chat->n_attachments) {
    OMMAI_TRY(ommai_room_check_prompt(model, &estimate, &images, 1, error));
  }
  warn_of_max_tokens(chat, estimate.max_model_len);
  if (chat->values->common.verbose) ommai_room_note(model, &estimate);
  return OMMA_OK;
}

static int start(struct chat *chat) {
  const struct ommai_chat_values *values = chat->values;
  struct ommai_check check = {.run = check_room, .context = chat};
  struct omma_error error;
  chat->engine_options = (struct omma_engine_options){.kv_cache_bytes = values->common.kv_cache_bytes, .max_sequences = 1};
  int code = load_attachments(chat);
  if (code == OMMAI_EXIT_DONE) code = begin_conversation(chat);
  if (code == OMMAI_EXIT_DONE) code = ommai_open_model_checked(&values->common, false, &check, &chat->model);
  if (code == OMMAI_EXIT_DONE && values->boxes) code = ommai_chat_boxes_check(chat->model);
  if (code != OMMAI_EXIT_DONE) return code;
  if (omma_engine_create(chat->model, &chat->engine_options, &chat->engine, &error) != OMMA_OK)
    return ommai_room_failed(&error, OMMAI_ROOM_OPTIONS_OF_CHAT);
  if (ommai_answer_constraint_compile(&chat->form, chat->model, &chat->grammar, &error) != OMMA_OK)
    return ommai_failed_call(&error);
  ommai_chat_values_recommend(chat->values, chat->model);
  ommai_common_note_demo(chat->command, &values->common);
  return OMMAI_EXIT_DONE;
}

static int ask_or_converse(struct chat *chat) {
  int code = start(chat);
  if (code == OMMAI_EXIT_DONE) code = chat->interactive ? converse(chat) : answer_once(chat);
  omma_engine_destroy(chat->engine);
  omma_grammar_destroy(chat->grammar);
  ommai_conversation_release(&chat->conversation);
  omma_model_close(chat->model);
  for (size_t i = 0; !chat->given && i < chat->n_attachments; i++) ommai_attachment_release(&chat->attachments[i]);
  ommai_release(&ommai_default_allocator, chat->attachments, count_attachments(chat->values), sizeof *chat->attachments);
  return code;
}

/* Adds the images that a question among the words mentions. That of --prompt is taken as it is. */
static int take_mentioned(struct chat *chat, struct ommai_chat_words *words) {
  char path[OMMAI_MAX_PATH];
  if (!words->prompt) return OMMAI_EXIT_DONE;
  if (words->prompt == chat->values->prompt) {
    if (ommai_mentions_image(words->prompt, path, sizeof path))
      ommai_warn("%s: --prompt: %s is a word of the question: --image %s shows it to the model", chat->command, path, path);
    return OMMAI_EXIT_DONE;
  }
  int code =
      ommai_mentioned_images(chat->command, "--prompt TEXT takes a question as it stands", words->prompt, &chat->mentioned);
  if (code != OMMAI_EXIT_DONE) return code;
  for (size_t i = 0; i < chat->mentioned.n_images; i++) words->images.items[words->images.count++] = chat->mentioned.images[i];
  words->prompt = chat->mentioned.question;
  return code;
}

/* Adds the words that stand besides the options to those of the options, which `images` has room
 * for. */
static int take_words(struct chat *chat, const struct ommai_strings *arguments, const char **images) {
  struct ommai_chat_values *values = chat->values;
  bool model_first = strcmp(chat->command, "run") == 0;
  struct ommai_chat_words words = {
      .model = values->common.model, .prompt = values->prompt, .images = {.items = images, .count = values->images.count}};
  if (values->images.count) memcpy(images, values->images.items, values->images.count * sizeof *images);
  OMMAI_TRY_CODE(ommai_chat_words_sort(chat->command, arguments, model_first, &words));
  if (model_first && !words.model) {
    return ommai_usage_error(
        "run: which model? Give its Hugging Face directory or GGUF file: omma run DIR (`omma chat` asks the demo model)");
  }
  OMMAI_TRY_CODE(take_mentioned(chat, &words));
  values->common.model = words.model;
  values->prompt = words.prompt;
  values->images = words.images;
  int code = check(chat);
  if (code == OMMAI_EXIT_DONE) code = ommai_answer_constraint_read(chat->command, &values->form, &chat->form);
  if (code == OMMAI_EXIT_DONE) code = ommai_check_model_path(&values->common);
  return code == OMMAI_EXIT_DONE ? find_prompt(chat, words.n_from_standard_input) : code;
}

static int run(const char *command, const void *given, const struct ommai_strings *arguments) {
  struct ommai_chat_values values = *(const struct ommai_chat_values *)given;
  struct chat chat = {.command = command, .values = &values};
  size_t room = values.images.count + arguments->count + OMMAI_MAX_MENTIONED;
  const char **images = ommai_allocate(&ommai_default_allocator, room, sizeof *images);
  if (!images) return ommai_failed("%s: out of memory: a list of %zu words", command, room);
  int code = take_words(&chat, arguments, images);
  if (code == OMMAI_EXIT_DONE) code = ask_or_converse(&chat);
  ommai_release(&ommai_default_allocator, images, room, sizeof *images);
  ommai_answer_constraint_release(&chat.form);
  ommai_mentioned_release(&chat.mentioned);
  free(chat.input);
  return code;
}

static int run_chat(const void *given, const struct ommai_strings *arguments) { return run("chat", given, arguments); }
static int run_run(const void *given, const struct ommai_strings *arguments) { return run("run", given, arguments); }

#define QUESTION_GROUPS                                                                                                      \
  {                                                                                                                          \
    &ommai_chat_question_options, &ommai_chat_sampling_options, &ommai_chat_constraint_options, &ommai_image_options,        \
        &ommai_model_options, &ommai_weight_options, &ommai_engine_options, &ommai_template_options, &ommai_machine_options, \
        &ommai_chat_other_options                                                                                            \
  }

const struct ommai_command ommai_command_chat = {
    .name = "chat",
    .alias = "generate",
    .summary = "ask about images, videos and texts; a conversation without a question",
    .arguments = "[DIR] [IMAGE...] [QUESTION]",
    .details =
        "Asks a model and writes its answer as it comes. DIR is the model, a directory or a GGUF file, as with --model; files "
        "that exist are images, as with --image; the question may also be given by --prompt. Without one it is read from "
        "standard input; where that is a terminal, a conversation begins (/help lists its commands). Ctrl-C ends an answer. "
        "Sampling defaults come from the model's generation_config.json; where it has none, decoding is greedy.",
    .examples = {"omma chat photo.jpg \"What is in this picture?\"",
                 "omma chat models/my-model first.png second.png \"What changed?\" --json", "omma chat models/my-model"},
    .groups = QUESTION_GROUPS,
    .values_size = sizeof(struct ommai_chat_values),
    .max_arguments = SIZE_MAX,
    .run = run_chat,
};

const struct ommai_command ommai_command_run = {
    .name = "run",
    .summary = "chat with the model in a directory",
    .arguments = "DIR [IMAGE...] [QUESTION]",
    .details =
        "The same as `omma chat --model DIR`, for those who know `ollama run`. DIR is a Hugging Face directory (config.json, "
        "tokenizer.json, *.safetensors), or a GGUF file with its --mmproj: nothing is downloaded.",
    .examples = {"omma run models/my-model photo.jpg \"What is in this picture?\""},
    .groups = QUESTION_GROUPS,
    .values_size = sizeof(struct ommai_chat_values),
    .max_arguments = SIZE_MAX,
    .run = run_run,
};
