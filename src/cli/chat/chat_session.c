#include "cli/chat/chat_session.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/plural.h"
#include "cli/chat/line_editor.h"
#include "cli/chat/mentioned_images.h"
#include "cli/core/diagnostics.h"
#include "cli/core/history_file.h"
#include "cli/core/interrupt.h"
#include "cli/core/pasted_paths.h"
#include "cli/core/paths.h"
#include "cli/core/question.h"
#include "cli/core/text_lines.h"
#include "cli/model/room.h"

#define MAX_PENDING 64

static const char next_question[] = "the next question";
static const char not_asked[] = "the question was not asked; between \"\"\" and \"\"\" it is asked as it stands";
static const char first_prompt[] = "> ", further_prompt[] = "... ";

struct session {
  struct omma_model *model;
  struct omma_engine *engine;
  const struct ommai_session_options *options;
  struct ommai_conversation *conversation;
  struct ommai_line_editor *editor; /* NULL: lines are read as they come */
  size_t n_kept;                    /* messages that /reset leaves */
  struct omma_part pending[MAX_PENDING];
  size_t n_pending;    /* images and videos for the next question */
  double decode_image; /* seconds that they took to be read and decoded */
  /* they belong to a question that did not fit, and wait for it to be asked anew */
  bool taken_back;
  int code; /* exit code at the end */
};

static void discard_pending(struct session *session) {
  for (size_t i = 0; i < session->n_pending; i++) ommai_attachment_release(&session->pending[i]);
  session->n_pending = 0;
  session->decode_image = 0;
  session->taken_back = false;
}

/* Whether one more can go with the next question; reports what is wrong. */
static bool can_attach(const struct session *session, const char *kind, const char *source) {
  if (!*source) {
    ommai_note("%s: a file is missing: /%s PATH", kind, kind);
    return false;
  }
  if (session->n_pending < MAX_PENDING) return true;
  ommai_note("%s: %s: at most %d images and videos go with one question", kind, source, MAX_PENDING);
  return false;
}

/* `which`: the question that it goes with. */
static bool add_image(struct session *session, const char *source, const char *which) {
  struct omma_part *part = &session->pending[session->n_pending];
  struct omma_image_sizes sizes;
  struct omma_error error;
  if (!can_attach(session, "image", source)) return false;
  double start = ommai_clock_seconds();
  if (ommai_attach_image(source, &session->options->attaching, part) != OMMAI_EXIT_DONE) return false;
  if (omma_model_image_sizes(session->model, omma_image_width(part->image), omma_image_height(part->image),
                             &part->image_options, &sizes, &error) != OMMA_OK) {
    ommai_attachment_release(part);
    return ommai_failed("image: %s: %s", source, error.message) == OMMAI_EXIT_DONE;
  }
  session->decode_image += ommai_clock_seconds() - start;
  session->n_pending++;
  printf("(%dx%d, goes with %s)\n", (int)omma_image_width(part->image), (int)omma_image_height(part->image), which);
  return true;
}

/* A path as a terminal pastes it, or what /video otherwise takes, as it is. */
static void add_video(struct session *session, const char *line) {
  struct omma_part *part = &session->pending[session->n_pending];
  char path[OMMAI_MAX_PATH];
  const char *rest = line;
  bool pasted = ommai_pasted_path(&rest, path, sizeof path) == OMMAI_WORD_FOUND && !rest[strspn(rest, " \t")];
  const char *source = pasted ? path : line;
  if (!can_attach(session, "video", source)) return;
  double start = ommai_clock_seconds();
  if (ommai_attach_video(source, &session->options->attaching, part) != OMMAI_EXIT_DONE) return;
  session->decode_image += ommai_clock_seconds() - start;
  session->n_pending++;
  printf("(%zu frames, go with the next question)\n", part->video->n_frames);
}

/* The images of a line; one path may also stand there with its blanks as they are. */
static void add_images(struct session *session, const char *line) {
  char path[OMMAI_MAX_PATH];
  enum ommai_word word;
  if (!*line || ommai_file_exists(line)) {
    add_image(session, line, next_question);
  } else {
    while ((word = ommai_pasted_path(&line, path, sizeof path)) == OMMAI_WORD_FOUND) add_image(session, path, next_question);
    if (word == OMMAI_WORD_BROKEN) ommai_note("image: a quote is open, or a path is longer than %d bytes", OMMAI_MAX_PATH - 1);
  }
}

static void reset(struct session *session, const char *none) {
  (void)none;
  bool wait = session->taken_back && session->n_pending;
  ommai_conversation_truncate(session->conversation, session->n_kept);
  if (!wait) discard_pending(session);
  session->taken_back = false;
  puts(wait ? "(a new conversation; the images of the last question wait for the next)" : "(a new conversation)");
}

/* A conversation begins with its system message: setting one begins a new conversation. Images that
 * wait are kept. */
static void set_system(struct session *session, const char *text) {
  ommai_conversation_truncate(session->conversation, 0);
  session->n_kept = 0;
  if (*text) {
    if (ommai_conversation_add(session->conversation, OMMA_ROLE_SYSTEM, NULL, 0, text, strlen(text)) != OMMAI_EXIT_DONE) {
      return;
    }
    session->n_kept = 1;
  }
  puts(*text ? "(a new conversation with this system message)" : "(a new conversation without a system message)");
}

/* The text after a command word, in letters of either case, or NULL when the line is not that
 * command. */
static const char *command_argument(const char *line, const char *command) {
  size_t size = strlen(command);
  if (strncasecmp(line, command, size) != 0 || (line[size] && line[size] != ' ')) return NULL;
  return line + size + strspn(line + size, " ");
}

/* Tokens of the conversation as it is; 0 where that cannot be known. */
static int64_t count_tokens(const struct session *session) {
  const struct ommai_conversation *conversation = session->conversation;
  int64_t n_tokens = 0;
  if (!conversation->count) return 0;
  omma_count_prompt_tokens(session->model, conversation->messages, conversation->count, NULL, &n_tokens, NULL);
  return n_tokens;
}

/* A question that does not fit after those before it: its images wait again, and what helps is
 * reported. */
static void take_back(struct session *session, const struct omma_error *refusal) {
  const struct ommai_conversation *conversation = session->conversation;
  const struct omma_engine_options options = {.kv_cache_bytes = session->options->kv_cache_bytes, .max_sequences = 1};
  const struct omma_message question = conversation->messages[conversation->count - 1];
  struct omma_memory_estimate estimate;
  struct omma_error error;
  bool alone = omma_estimate_memory(session->model, &options, 0, &estimate, &error) == OMMA_OK;
  estimate.max_model_len = omma_engine_max_model_len(session->engine);
  alone = alone && ommai_room_check_prompt(session->model, &estimate, &question, 1, &error) == OMMA_OK;
  session->n_pending = ommai_conversation_take_back(session->conversation, session->pending);
  if (!alone) {
    discard_pending(session);
    ommai_note("the question was taken back, it does not fit by itself: %s", error.message);
    return;
  }
  session->taken_back = true;
  ommai_failed_call(refusal);
  ommai_note(
      "the question was taken back: the conversation so far fills %lld of %lld tokens, images included. /reset begins a "
      "new one, in which the question can be asked again%s",
      (long long)count_tokens(session), (long long)omma_engine_max_model_len(session->engine),
      session->n_pending ? "; its images wait" : "");
}

static void ask(struct session *session, const char *question) {
  size_t before = session->conversation->count;
  size_t n_attachments = session->n_pending;
  double decode_image = session->decode_image;
  session->n_pending = 0;
  discard_pending(session);
  if (ommai_conversation_add(session->conversation, OMMA_ROLE_USER, session->pending, n_attachments, question,
                             strlen(question)) != OMMAI_EXIT_DONE) {
    return;
  }
  struct ommai_answer answer;
  int code = ommai_answer(session->model, session->engine, session->conversation, &session->options->answering, &answer);
  if (code == OMMAI_EXIT_DONE) {
    puts(answer.interrupted ? " (interrupted)" : "");
    if (session->options->verbose) ommai_answer_note(&answer, decode_image);
    code = ommai_conversation_add(session->conversation, OMMA_ROLE_ASSISTANT, NULL, 0, answer.text, answer.text_size);
  }
  if (code != OMMAI_EXIT_DONE && answer.too_long) {
    take_back(session, &answer.error);
  } else if (code != OMMAI_EXIT_DONE) {
    ommai_conversation_truncate(session->conversation, before);
    ommai_note("the question was taken back: ask again, or begin anew with /reset");
  }
  ommai_answer_release(&answer);
}

/* A question whose paths of images are loaded. Where one cannot be, it is not asked. */
static void ask_with_images(struct session *session, const char *question) {
  struct ommai_mentioned mentioned;
  size_t before = session->n_pending;
  bool taken = ommai_mentioned_images("chat", not_asked, question, &mentioned) == OMMAI_EXIT_DONE;
  for (size_t i = 0; taken && i < mentioned.n_images; i++) {
    taken = add_image(session, mentioned.images[i], "this question");
    if (!taken) ommai_note("%s", not_asked);
  }
  if (taken && !ommai_text_is_blank(mentioned.question, strlen(mentioned.question))) {
    ask(session, mentioned.question);
  } else if (!taken) {
    while (session->n_pending > before) ommai_attachment_release(&session->pending[--session->n_pending]);
  }
  ommai_mentioned_release(&mentioned);
}

static void set(struct session *session, const char *words) {
  static const char system[] = "system ";
  if (strncmp(words, system, sizeof system - 1) == 0) {
    set_system(session, words + sizeof system - 1);
  } else {
    ommai_chat_settings_command(session->options->settings, words);
  }
}

static void print_help(struct session *session, const char *none);

struct command {
  const char *name; /* with a blank where something may follow */
  const char *arguments;
  void (*run)(struct session *, const char *argument); /* NULL: leaves */
  const char *help;                                    /* NULL: as the one before */
};

static const struct command commands[] = {
    {"/image ", "PATH...", add_images,
     "images for the next question; paths alone on a line, typed, pasted or dropped, do the same, and so do\n"
     "paths in a question"},
    {"/video ", "PATH", add_video, "a video for the next question: a folder of frames, or their files with commas between"},
    {"/system ", "TEXT", set_system, "begin a new conversation with this system message; without TEXT, with none"},
    {"/set ", "NAME VALUE", set,
     "change a setting, such as temperature; /set alone shows all, VALUE default takes a change back"},
    {"/reset", "", reset, "begin a new conversation; /clear does the same"},
    {"/clear", "", reset, NULL},
    {"/help", "", print_help, "this text; /? does the same"},
    {"/?", "", print_help, NULL},
    {"/bye", "", NULL, "leave; /quit, /exit, quit or exit alone on a line and the end of input (Ctrl-D) do the same"},
    {"/quit", "", NULL, NULL},
    {"/exit", "", NULL, NULL},
};
#define N_COMMANDS (sizeof commands / sizeof *commands)

const char *ommai_session_command(size_t index) { return index < N_COMMANDS ? commands[index].name : NULL; }

static void print_help(struct session *session, const char *none) {
  (void)none;
  for (size_t i = 0; i < N_COMMANDS; i++) {
    const char *rest = commands[i].help;
    if (!rest) continue;
    printf("%s%-*s", commands[i].name, 17 - (int)strlen(commands[i].name), commands[i].arguments);
    for (int line = 0; *rest; line++) {
      size_t size = strcspn(rest, "\n");
      printf("%*s%.*s\n", line ? 17 : 0, "", (int)size, rest);
      rest += size + (rest[size] == '\n');
    }
  }
  puts(
      "\"\"\" begins a question of several lines, up to the next \"\"\", which is asked as it stands. Ctrl-C ends an answer "
      "or\n"
      "clears the line. Everything else is a question.");
  if (session->editor) {
    puts(
        "A pasted text of several lines is one question. The arrow keys bring earlier lines back, Ctrl-R looks for one,\n"
        "Tab completes paths and commands. Ctrl-C twice at the empty prompt leaves.");
  }
}

static const struct command *find_command(const char *line, const char **argument) {
  for (size_t i = 0; i < N_COMMANDS; i++) {
    char name[16];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(commands[i].name, " "), commands[i].name);
    if ((*argument = command_argument(line, name))) return &commands[i];
  }
  return NULL;
}

/* Without a slash nothing may stand after the word: a question could begin so. */
static bool is_farewell(const char *line) {
  const char *rest = command_argument(line, "quit");
  if (!rest) rest = command_argument(line, "exit");
  return rest && !*rest;
}

/* Refuses a line that begins with a slash and a word, which names no file: no command is meant for
 * the model. */
static bool refuse_command(const char *line) {
  char word[64], list[160] = "";
  size_t size = strcspn(line, " \t");
  if (line[0] != '/' || !isalpha((unsigned char)line[1]) || size >= sizeof word || strcspn(line + 1, "/.") < size - 1)
    return false;
  snprintf(word, sizeof word, "%.*s", (int)size, line);
  if (access(word, F_OK) == 0) return false;
  for (size_t i = 0; i < N_COMMANDS; i++) {
    const char *name = commands[i].name;
    ommai_list_entry(list, sizeof list, "%.*s", (int)strcspn(name, " "), name);
  }
  ommai_note("%s: no such command; there are %s", word, list);
  return true;
}

/* A line that may be a command, a list of paths, or a question. False when the session is over. */
static bool handle_line(struct session *session, const char *line) {
  const char *argument;
  const struct command *command = find_command(line, &argument);
  if (is_farewell(line) || (command && !command->run)) return false;
  if (command) {
    command->run(session, argument);
  } else if (ommai_pasted_images(line) || (strpbrk(line, "/.") && ommai_file_exists(line))) {
    add_images(session, line);
  } else if (!refuse_command(line)) {
    ask_with_images(session, line);
  }
  return true;
}

/* What was typed, or stands between quotes. False when the session is over. */
static bool handle(struct session *session, const struct ommai_question *question) {
  const char *text = question->text, *argument = command_argument(text, "/system");
  if (ommai_text_is_blank(text, strlen(text))) return true;
  if (argument) {
    set_system(session, argument);
  } else if (question->quoted) {
    ask(session, text);
  } else if (strchr(text, '\n') && !ommai_pasted_images(text)) {
    ask_with_images(session, text);
  } else {
    return handle_line(session, text);
  }
  return true;
}

/* Reads a line after a prompt, to be released with free(). A terminal that edits its lines itself
 * drops what was typed at a signal, and does not report whether there was any. */
static enum ommai_line_end take_line(const struct session *session, const char *prompt, char **line) {
  if (session->editor) return ommai_line_editor_read(session->editor, prompt, line);
  size_t capacity = 0;
  *line = NULL;
  fputs(prompt, stdout);
  fflush(stdout);
  /* A terminal hands out one line at a time, so none waits in stdin's buffer. */
  enum ommai_wait wait = ommai_interrupt_wait_for(STDIN_FILENO);
  if (wait == OMMAI_WAIT_READY && getline(line, &capacity, stdin) >= 0) {
    (*line)[strcspn(*line, "\r\n")] = '\0';
    return OMMAI_LINE_READ;
  }
  free(*line);
  *line = NULL;
  clearerr(stdin); /* a Ctrl-D that ends a question only */
  return wait == OMMAI_WAIT_READY ? OMMAI_LINE_END_OF_INPUT : OMMAI_LINE_CLEARED;
}

/* Reads lines up to the end of a question. */
static enum ommai_line_end take_question(const struct session *session, struct ommai_question *question) {
  enum ommai_line_end end;
  *question = (struct ommai_question){0};
  do {
    char *line;
    end = take_line(session, question->open ? further_prompt : first_prompt, &line);
    if (end == OMMAI_LINE_READ && !ommai_question_add(question, line)) end = OMMAI_LINE_END_OF_INPUT;
    free(line);
  } while (end == OMMAI_LINE_READ && question->open);
  bool begun = end != OMMAI_LINE_READ && question->open;
  if (end != OMMAI_LINE_READ) ommai_question_release(question);
  return begun && !ommai_interrupt_terminates() ? OMMAI_LINE_CLEARED : end;
}

/* Reads the next question; what was typed before Ctrl-C is dropped. False at the end of input,
 * after Ctrl-C twice in a row where nothing was typed, and when the program is to end. */
static bool read_question(struct session *session, struct ommai_question *question) {
  bool asked = false;
  for (;;) {
    ommai_interrupt_defer();
    enum ommai_line_end end = take_question(session, question);
    bool terminated = ommai_interrupt_terminates();
    ommai_interrupt_resume();
    if (end == OMMAI_LINE_READ) return true;
    if (terminated || end == OMMAI_LINE_END_OF_INPUT || (end == OMMAI_LINE_INTERRUPTED && asked)) {
      puts("");
      session->code = end == OMMAI_LINE_END_OF_INPUT ? OMMAI_EXIT_DONE : ommai_interrupt_status();
      return false;
    }
    asked = end == OMMAI_LINE_INTERRUPTED;
    if (asked) {
      puts("\n(Ctrl-C again, Ctrl-D or /bye leaves)");
    } else {
      puts(session->editor && ommai_interrupted() ? "^C" : "\n(Ctrl-D or /bye leaves)");
    }
  }
}

static void converse(struct session *session) {
  bool go_on = true;
  puts("Ask a question; /help lists the commands.");
  while (go_on) {
    struct ommai_question question;
    go_on = read_question(session, &question);
    if (!go_on) return;
    if (session->editor && !ommai_text_is_blank(question.text, question.size))
      ommai_line_editor_remember(session->editor, question.text);
    go_on = handle(session, &question);
    ommai_question_release(&question);
    if (go_on && ommai_interrupt_terminates()) {
      session->code = ommai_interrupt_status();
      go_on = false;
    }
  }
}

int ommai_chat_session(struct omma_model *model, struct omma_engine *engine, const struct ommai_session_options *options,
                       struct omma_part *attachments, size_t n_attachments, struct ommai_conversation *conversation) {
  struct session session = {.model = model,
                            .engine = engine,
                            .options = options,
                            .conversation = conversation,
                            .n_kept = conversation->count,
                            .decode_image = options->decode_image};
  char history[OMMAI_MAX_PATH];
  for (size_t i = 0; i < n_attachments; i++) {
    if (session.n_pending < MAX_PENDING) {
      session.pending[session.n_pending++] = attachments[i];
    } else {
      ommai_attachment_release(&attachments[i]);
    }
  }
  if (n_attachments > MAX_PENDING) ommai_warn("only the first %d images and videos go with the first question", MAX_PENDING);
  bool keep = options->history && ommai_history_path(history, sizeof history);
  session.editor = ommai_line_editor_create(keep ? history : NULL);
  converse(&session);
  ommai_line_editor_destroy(session.editor);
  discard_pending(&session);
  int code = ommai_finish_output();
  return session.code == OMMAI_EXIT_DONE ? code : session.code;
}
