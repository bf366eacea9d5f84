/* The interactive conversation of `omma chat`. */
#pragma once

#include "cli/chat/chat_answer.h"
#include "cli/chat/chat_settings.h"
#include "cli/chat/conversation.h"

struct ommai_session_options {
  struct ommai_chat_settings *settings; /* of /set; a change changes this struct */
  struct ommai_answer_options answering;
  struct ommai_attachment_options attaching; /* of images and videos that questions add */
  int64_t kv_cache_bytes;                    /* of the engine, as asked for */
  /* seconds that the attachments given took to be read and decoded */
  double decode_image;
  bool verbose; /* note after each answer what it took */
  /* keep typed lines in a file, for the next conversation */
  bool history;
};

/* Reads questions from standard input, line by line, until its end or a line that leaves (/bye).
 * `conversation` may begin with a system message, which /reset keeps. The attachments go with the
 * first question; they are taken over. Returns an exit code, that of a signal when one ended
 * it. */
int ommai_chat_session(struct omma_model *model, struct omma_engine *engine, const struct ommai_session_options *options,
                       struct omma_part *attachments, size_t n_attachments, struct ommai_conversation *conversation);

/* The index-th word that begins a command, with a blank after it where more may follow; NULL after
 * the last. */
const char *ommai_session_command(size_t index);
