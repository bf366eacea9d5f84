/* The JSON of answers: chunks of a stream and whole replies, keys in the order that vLLM writes
 * them. What the endpoints' replies have in common is here; each endpoint's own format is a table
 * of functions. */
#pragma once

#include <omma/omma.h>
#include <stdbool.h>

#include "base/json_writer.h"
#include "server/api/tool_calls.h"

#define OMMAI_LOGPROB_LISTS 4

enum ommai_reply_item { OMMAI_ITEM_NONE, OMMAI_ITEM_REASONING, OMMAI_ITEM_TEXT, OMMAI_ITEM_CALL };

/* How far a reply has come, for formats that write an answer as a list of items: reasoning,
 * text, calls of tools. They are for one answer a request. */
struct ommai_reply_state {
  int64_t n_events;
  int n_items; /* begun */
  enum ommai_reply_item open;
  struct ommai_text text, logprobs; /* of the open item; of a call its arguments */
  const struct ommai_tool_call *call;
  bool has_calls;                /* there was one */
  struct ommai_text items;       /* those that are over, as JSON with commas between */
  const char *finish_reason;     /* of the answer, when it is over */
  struct ommai_text stop_string; /* that ended it; with its NUL */
};

void ommai_reply_state_init(struct ommai_reply_state *state, const struct omma_allocator *allocator);
void ommai_reply_state_free(struct ommai_reply_state *state);

/* What all pieces of one reply share. */
struct ommai_reply_head {
  const char *id; /* "chatcmpl-..." */
  int64_t created;
  const char *model;
  int64_t prompt_tokens;
  const struct ommai_text *request_fields; /* members of a JSON object, without its braces */
  struct ommai_reply_state *state;
  bool has_tools;     /* that answers may call */
  bool has_reasoning; /* answers begin with it, so that one without content has null there */
  /* of the one prompt of a chat, as in struct ommai_reply_part */
  const struct ommai_text *prompt_ids, *prompt_logprobs;
  const struct ommai_text *ec_transfer_params; /* of a chat, JSON; NULL: none */
};

struct ommai_usage {
  int64_t prompt_tokens, completion_tokens;
  /* of the completion's; -1: reasoning is not separated */
  int64_t reasoning_tokens;
  int64_t cached_tokens; /* of the prompt; -1: not known yet */
  /* a JSON object that stands after the usage as `ommatidia`; NULL: none */
  const struct ommai_text *own;
};

/* Log-probabilities of an answer's tokens, or a span of them: JSON lists without their brackets;
 * which are in use is the format's. */
struct ommai_logprobs {
  struct ommai_text lists[OMMAI_LOGPROB_LISTS];
  int64_t n_characters; /* of all tokens since the answer's beginning */
};

/* One choice's answer, or a span of it. */
struct ommai_reply_part {
  int index;
  const char *text;
  size_t text_size;
  const char *reasoning; /* text that goes before; NULL: there is none */
  size_t reasoning_size;
  bool in_reasoning;                     /* of a span: it ends inside the reasoning */
  const struct ommai_logprobs *logprobs; /* NULL: they were not asked for */
  const char *finish_reason;             /* NULL: goes on */
  const char *stop_string;               /* what ended it: a string, */
  int32_t stop_token;                    /* or one of the request's stop tokens, or -1 */
  /* [n_calls] tools that it calls; in a stream, what of them is not used yet is new */
  const struct ommai_tool_call *calls;
  size_t n_calls;
  /* JSON lists without their brackets; NULL: not asked for, or reported before. */
  const struct ommai_text *token_ids, *prompt_ids, *prompt_logprobs;
};

struct ommai_reply_format {
  const char *id_prefix;
  /* An answer is a list of items: `usage` ends each stream, whether or not the request asks for it,
   * and log-probabilities are of the text alone. */
  bool as_items;
  /* Each appends one event, `data: {...}` and an empty line, or several, or none. usage: NULL for
   * none. */
  void (*begin)(struct ommai_text *out, const struct ommai_reply_head *head, int index,
                /* before a choice's first text; NULL: there is no such event */
                const struct ommai_usage *usage);
  void (*delta)(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *part,
                const struct ommai_usage *usage);
  void (*usage)(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_usage *usage);
  /* A whole reply. */
  void (*whole)(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *parts, int n_parts,
                const struct ommai_usage *usage);
  /* One more token: its text as the model's detokenizer gives it, and the likeliest others. */
  void (*add_logprob)(struct ommai_logprobs *logprobs, const struct omma_model *model, const struct omma_token_event *event);
  /* A prompt's first token, which nothing stands before, in front of the others; NULL: prompts are
   * not part of answers. */
  void (*add_unscored)(struct ommai_logprobs *logprobs, const struct omma_model *model, int32_t token);
};

extern const struct ommai_reply_format ommai_chat_reply_format, ommai_completion_reply_format, ommai_responses_reply_format,
    ommai_messages_reply_format;

/* How a format writes the items of an answer. `out` NULL: no events are written. */
struct ommai_item_format {
  /* head->state->open has just begun; more of it; it is over, `cut_off` by the limit of tokens. */
  void (*open)(struct ommai_text *out, const struct ommai_reply_head *head);
  void (*grow)(struct ommai_text *out, const struct ommai_reply_head *head, const char *text, size_t size,
               const struct ommai_text *logprobs);
  void (*close)(struct ommai_text *out, const struct ommai_reply_head *head, bool cut_off);
};

/* Adds a part of the answer to its items, and keeps in head->state what the next one goes on
 * from. */
void ommai_reply_take_items(const struct ommai_item_format *format, struct ommai_text *out, const struct ommai_reply_head *head,
                            const struct ommai_reply_part *part);

/* As ommai_reply_format.add_logprob: the objects of a chat, in the first list. */
void ommai_reply_add_chat_logprob(struct ommai_logprobs *logprobs, const struct omma_model *model,
                                  const struct omma_token_event *event);

/* `{"id":...,"object":object,"created":...,"model":...`, in an event or alone. */
void ommai_reply_add_head(struct ommai_text *out, const struct ommai_reply_head *head, const char *object);
void ommai_reply_begin_event(struct ommai_text *out, const struct ommai_reply_head *head, const char *object);
/* The usage, where there is one, and the end of the object and of the event. */
void ommai_reply_end_event(struct ommai_text *out, const struct ommai_usage *usage);
/* The event of a stream that has the usage and no choice. */
void ommai_reply_add_usage_event(struct ommai_text *out, const struct ommai_reply_head *head, const char *object,
                                 const struct ommai_usage *usage);
/* The member `ommatidia`, where it was asked for. */
void ommai_reply_add_own(struct ommai_text *out, const struct ommai_usage *usage);
/* One entry of prompt_logprobs: {"ID":{"logprob","rank","decoded_token"},...}, the prompt's token
 * first. */
void ommai_reply_add_prompt_logprob(struct ommai_text *list, const struct omma_model *model,
                                    const struct omma_prompt_token_event *event);
/* The members `finish_reason` and `stop_reason`. */
void ommai_reply_add_reasons(struct ommai_text *out, const struct ommai_reply_part *part);
/* The members from `service_tier` to `usage` of a whole reply. */
void ommai_reply_add_whole_usage(struct ommai_text *out, const struct ommai_usage *usage);

#define OMMAI_TOKEN_TEXT_SIZE 512

/* A token's text; returns its size. */
size_t ommai_reply_token_text(const struct omma_model *model, int32_t token, char text[OMMAI_TOKEN_TEXT_SIZE]);
/* As JSON can hold it. */
double ommai_reply_logprob(float logprob);

/* "stop", "length" or "repetition"; NULL for the other ends, which are errors. */
const char *ommai_finish_reason(enum omma_finish finish);
