/* The JSON of answers: chunks of a stream and whole replies, keys in the order that vLLM writes them. */
#ifndef OMMAI_SERVER_CHAT_REPLY_H
#define OMMAI_SERVER_CHAT_REPLY_H

#include <omma/omma.h>
#include <stdbool.h>

#include "server/text_buffer.h"

/* What all pieces of one reply share. */
struct ommai_reply_head {
  const char *id; /* "chatcmpl-..." */
  int64_t created;
  const char *model;
};

struct ommai_usage {
  int64_t prompt_tokens, completion_tokens;
};

/* One choice's answer, or a stretch of it. */
struct ommai_reply_part {
  int index;
  const char *text;
  size_t text_size;
  const char *logprobs; /* JSON entries with commas between; NULL: logprobs were not asked for */
  size_t logprobs_size;
  const char *finish_reason; /* NULL: goes on */
  const char *stop_string;   /* what ended it: a string, */
  int32_t stop_token;        /* or one of the request's stop tokens, or -1 */
};

/* Each appends one event, `data: {...}` and an empty line. usage: NULL for none. */
void ommai_reply_role_event(struct ommai_text *out, const struct ommai_reply_head *head, int index,
                            const struct ommai_usage *usage);
void ommai_reply_delta_event(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *part,
                             const struct ommai_usage *usage);
void ommai_reply_usage_event(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_usage *usage);

/* A whole reply. */
void ommai_reply_whole(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *parts,
                       int n_parts, const struct ommai_usage *usage);

/* One entry of logprobs.content: the token, its text as the model's detokenizer gives it, and the likeliest others. */
void ommai_reply_logprob(struct ommai_text *out, const struct omma_model *model, const struct omma_token_event *event);

/* "stop" or "length"; NULL for the other ends, which are errors. */
const char *ommai_finish_reason(enum omma_finish finish);

#endif
