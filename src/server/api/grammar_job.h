/* Requests for structured output: the grammar is compiled on a thread of its own, so that no worker
 * is blocked meanwhile. */
#pragma once

#include <jansson.h>
#include <omma/omma.h>

#include "server/core/job_queue.h"

struct ommai_http_call;

/* Part of a request's job, and its first member. */
struct ommai_grammar_job {
  struct ommai_job job;
  struct ommai_http_call *call;
  const json_t *root;
  struct omma_grammar *grammar; /* so that it stays until the request is read */
  void (*go_on)(struct ommai_job *job);
};

/* Whether the grammar that a request in the form of /v1/chat/completions asks for has to be
 * compiled first. Then the job is handed over: `go_on` is run with it on a worker, where the
 * grammar is found or why there is none. What the arguments name must live until then. */
bool ommai_grammar_job_start(struct ommai_grammar_job *job, struct ommai_http_call *call, const json_t *root,
                             void (*go_on)(struct ommai_job *job));
/* Releases its grammar. A zeroed job, which was never started, is allowed. */
void ommai_grammar_job_end(struct ommai_grammar_job *job);
