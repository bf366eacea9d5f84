#include "cli/chat_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/diagnostics.h"

#define MAX_PENDING 64

struct session {
  struct omma_model *model;
  struct omma_engine *engine;
  const struct ommai_answer_options *options;
  const struct ommai_attachment_options *attaching;
  struct ommai_conversation *conversation;
  size_t n_kept; /* messages that /reset leaves */
  struct omma_part pending[MAX_PENDING];
  size_t n_pending; /* pictures and videos for the next question */
};

static void drop_pending(struct session *session) {
  for (size_t i = 0; i < session->n_pending; i++) ommai_attachment_release(&session->pending[i]);
  session->n_pending = 0;
}

/* Whether one more can go with the next question; says what is wrong. */
static bool can_attach(const struct session *session, const char *kind, const char *source) {
  if (!*source) {
    ommai_note("%s: a file is missing: /%s PATH", kind, kind);
    return false;
  }
  if (session->n_pending < MAX_PENDING) return true;
  ommai_note("%s: %s: at most %d pictures and videos go with one question", kind, source, MAX_PENDING);
  return false;
}

static void add_image(struct session *session, const char *source) {
  struct omma_part *part = &session->pending[session->n_pending];
  if (!can_attach(session, "image", source)) return;
  if (ommai_attach_image(source, session->attaching, part) != OMMAI_EXIT_DONE) return;
  session->n_pending++;
  printf("(%dx%d, goes with the next question)\n", (int)omma_image_width(part->image), (int)omma_image_height(part->image));
}

static void add_video(struct session *session, const char *source) {
  struct omma_part *part = &session->pending[session->n_pending];
  if (!can_attach(session, "video", source)) return;
  if (ommai_attach_video(source, session->attaching, part) != OMMAI_EXIT_DONE) return;
  session->n_pending++;
  printf("(%zu frames, go with the next question)\n", part->video->n_frames);
}

static void reset(struct session *session) {
  ommai_conversation_truncate(session->conversation, session->n_kept);
  drop_pending(session);
  puts("(a new conversation)");
}

static void print_help(void) {
  puts(
      "/image PATH  a picture for the next question\n"
      "/video PATH  a video for the next question: a folder of frames, or their files with commas between\n"
      "/reset       begin a new conversation\n"
      "/help        this text\n"
      "/quit        leave; the end of input (Ctrl-D) does the same\n"
      "Ctrl-C ends an answer. Everything else is a question.");
}

/* The text behind a command word, or NULL when the line is not that command. */
static const char *command_argument(const char *line, const char *command) {
  size_t size = strlen(command);
  if (strncmp(line, command, size) != 0 || (line[size] && line[size] != ' ')) return NULL;
  return line + size + strspn(line + size, " ");
}

static void ask(struct session *session, const char *question) {
  size_t before = session->conversation->count;
  size_t n_attachments = session->n_pending;
  session->n_pending = 0;
  if (ommai_conversation_add(session->conversation, OMMA_ROLE_USER, session->pending, n_attachments, question,
                             strlen(question)) != OMMAI_EXIT_DONE) {
    return;
  }
  struct ommai_answer answer;
  int code = ommai_answer(session->model, session->engine, session->conversation, session->options, &answer);
  if (code == OMMAI_EXIT_DONE) {
    puts(answer.interrupted ? " (interrupted)" : "");
    code = ommai_conversation_add(session->conversation, OMMA_ROLE_ASSISTANT, NULL, 0, answer.text, answer.text_size);
  }
  if (code != OMMAI_EXIT_DONE) {
    ommai_conversation_truncate(session->conversation, before);
    ommai_note("the question was taken back: ask again, or begin anew with /reset");
  }
  ommai_answer_release(&answer);
}

/* False when the session is over. */
static bool handle_line(struct session *session, const char *line) {
  const char *argument;
  if (!*line) return true;
  if (command_argument(line, "/quit") || command_argument(line, "/exit")) return false;
  if ((argument = command_argument(line, "/image"))) {
    add_image(session, argument);
  } else if ((argument = command_argument(line, "/video"))) {
    add_video(session, argument);
  } else if (command_argument(line, "/reset")) {
    reset(session);
  } else if (command_argument(line, "/help")) {
    print_help();
  } else if (line[0] == '/' && line[1] && !strpbrk(line + 1, " /")) {
    ommai_note("%s: no such command: /help lists them", line);
  } else {
    ask(session, line);
  }
  return true;
}

int ommai_chat_session(struct omma_model *model, struct omma_engine *engine, const struct ommai_answer_options *options,
                       const struct ommai_attachment_options *attaching, struct omma_part *attachments, size_t n_attachments,
                       struct ommai_conversation *conversation) {
  struct session session = {.model = model,
                            .engine = engine,
                            .options = options,
                            .attaching = attaching,
                            .conversation = conversation,
                            .n_kept = conversation->count};
  for (size_t i = 0; i < n_attachments; i++) {
    if (session.n_pending < MAX_PENDING) {
      session.pending[session.n_pending++] = attachments[i];
    } else {
      ommai_attachment_release(&attachments[i]);
    }
  }
  if (n_attachments > MAX_PENDING) ommai_warn("only the first %d pictures and videos go with the first question", MAX_PENDING);
  char *line = NULL;
  size_t capacity = 0;
  bool more = true;
  puts("Ask a question; /help lists the commands.");
  while (more) {
    fputs("> ", stdout);
    fflush(stdout);
    ssize_t length = getline(&line, &capacity, stdin);
    if (length < 0) break;
    line[strcspn(line, "\r\n")] = '\0';
    more = handle_line(&session, line);
  }
  if (more) putchar('\n');
  free(line);
  drop_pending(&session);
  return ommai_finish_output();
}
