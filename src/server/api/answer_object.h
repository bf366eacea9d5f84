/* An answer as it is made: one call and up to OMMAI_MAX_CHOICES requests, a prompt's choice i drawn
 * with seed + i. The worker that makes it and every submitted request hold a reference; the last
 * reference, wherever it is dropped, hands the answer to a worker to be freed. Choices are touched
 * by the worker until they are submitted (answer.c) and by the engine's thread afterwards
 * (answer_events.c). */
#pragma once

#include <stdatomic.h>

#include "server/api/answer_fields.h"
#include "server/api/reply_format.h"
#include "server/api/tool_request.h"
#include "server/http/http_call.h"

#define OMMAI_ID_PREFIX_SIZE 16

struct ommai_call_answer;

struct ommai_answer_choice {
  struct ommai_call_answer *answer;
  int index;
  struct omma_request *request;
  bool begun; /* the event before its text is out */
  /* sent once, with the first event; NULL: not asked for, or already sent */
  const struct ommai_text *prompt_ids;
  /* Not sent: the last token's of a stream, else everything. */
  struct ommai_text text, reasoning;
  bool in_reasoning; /* so was the last token */
  /* of a stream from its start; of a whole reply once the text is complete */
  struct ommai_tool_parser tools;
  struct ommai_logprobs logprobs;
  struct ommai_text token_ids;
  int64_t n_tokens, n_cached_tokens, n_reasoning_tokens;
  int64_t first_token_ns, last_token_ns; /* since the request arrived */
  struct ommai_text stop_string;
  int32_t stop_token;
  enum omma_finish finish;
};

struct ommai_call_answer {
  struct ommai_job job; /* that frees it; first */
  struct ommai_http_call *call;
  const struct omma_allocator *allocator;
  atomic_int references;
  atomic_int n_open;                     /* choices without an end */
  atomic_int n_ended[OMMAI_MAX_CHOICES]; /* of each prompt's, those that ended by themselves */
  char id[OMMAI_ID_PREFIX_SIZE + OMMAI_REQUEST_ID_SIZE];
  const struct ommai_reply_format *format;
  bool has_tools;
  struct ommai_reply_head head;
  struct ommai_reply_state reply_state; /* engine's thread */
  struct ommai_text request_fields;
  bool stream, include_usage, continuous_usage, logprobs, token_ids, prompt_logprobs, echo_logprobs, prompt_only,
      shows_reasoning;
  int32_t stop_token_ids[OMMAI_FIELD_MAX_STOP_TOKENS];
  size_t n_stop_token_ids;
  int64_t n_prompt_tokens, max_tokens; /* max_tokens: of each answer; 0: the context that is left */
  int n_choices, n_per_prompt;
  int n_top; /* of log-probabilities in answers */
  int64_t n_images;
  struct ommai_own_wishes own;
  /* of the first choice; engine's thread */
  struct ommai_own_progress progress;
  /* as ommai_own_add_image writes them */
  struct ommai_text images;
  /* of the prompts */
  struct ommai_text prompt_ids[OMMAI_MAX_CHOICES], prompt_scores[OMMAI_MAX_CHOICES];
  struct ommai_answer_choice choices[OMMAI_MAX_CHOICES];
};

/* Makes the choices of an answer that has their number and its allocator, and zeros in them. tools:
 * how calls stand in them; NULL: there are none. False: no memory; free it all the same. */
bool ommai_call_answer_init_choices(struct ommai_call_answer *answer, const struct ommai_tool_request *tools);
void ommai_call_answer_free(struct ommai_call_answer *answer);

/* Drops a reference; any thread. */
void ommai_call_answer_release(struct ommai_call_answer *answer);

/* The log-probabilities of the choice's prompt, for all answers to it; NULL: not asked for. */
struct ommai_text *ommai_answer_choice_prompt_scores(const struct ommai_answer_choice *choice);

/* Whether memory was out for something that the choice keeps. */
bool ommai_answer_choice_failed(const struct ommai_answer_choice *choice);

/* What the engine calls for a choice. Everything that it reads is set before the first submit. */
struct omma_callbacks ommai_answer_choice_callbacks(struct ommai_answer_choice *choice);

/* Sends the images as a comment of the stream. */
void ommai_call_answer_push_images(struct ommai_call_answer *answer);
