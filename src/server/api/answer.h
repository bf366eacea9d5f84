/* Answers to a request: from prompts to requests of the engine, and from its callbacks to the
 * reply. */
#pragma once

#include "server/api/answer_fields.h"
#include "server/api/reply_format.h"
#include "server/api/tool_request.h"
#include "server/http/http_call.h"

/* What an endpoint made of the JSON; read during the call alone. */
struct ommai_answer_source {
  const struct ommai_answer_fields *fields;
  const struct ommai_reply_format *format;
  /* how calls stand in the answers; NULL: there are none */
  const struct ommai_tool_request *tools;
  /* what the reply repeats of the request; NULL: nothing */
  const struct ommai_text *request_fields;
  /* each gets fields->n answers; at most OMMAI_MAX_CHOICES in all */
  int n_prompts;
  int64_t n_images; /* and videos, in the prompts */
  /* Makes a request of prompt `index`, once; its further answers come from copies. */
  enum omma_status (*make_request)(const void *context, int index, const struct omma_sampling *sampling,
                                   struct omma_request **request, struct omma_error *error);
  /* Appends the text that comes before the answers to prompt `index`. False with *error filled;
   * NULL: there is none. */
  bool (*echo)(const void *context, int index, struct ommai_text *out, struct ommai_api_error *error);
  bool prompt_only;   /* what is generated is left out of the answers */
  bool echo_logprobs; /* log-probabilities of an answer begin with those of its prompt */
  /* Appends each image to a list (ommai_own_add_image); NULL: there are none. */
  void (*add_images)(const void *context, struct ommai_text *list);
  const void *context;
};

/* Prepares the requests and submits them; the reply, or what fails later, goes to the call. False
 * with *error filled: nothing was submitted. On a worker. */
bool ommai_answer_begin(struct ommai_http_call *call, const struct ommai_answer_source *source, struct ommai_api_error *error);
