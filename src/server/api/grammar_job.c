#include "server/api/grammar_job.h"

#include "server/api/structured_output.h"
#include "server/api/tool_request.h"
#include "server/http/http_call.h"
#include "server/state/server_state.h"

/* The grammar as it is read later; false where there is none yet, or the request is wrong. */
static bool find(struct ommai_server *server, const json_t *root, bool make, struct omma_grammar **grammar,
                 struct ommai_api_error *error) {
  struct ommai_tool_request tools;
  return ommai_structured_output_read(server, root, make, grammar, error) &&
         ommai_tool_request_read(server, root, make, &tools, grammar, error);
}

static void compile(struct ommai_job *queued) {
  struct ommai_grammar_job *job = (struct ommai_grammar_job *)queued;
  struct ommai_server *server = job->call->server;
  struct ommai_api_error error;
  /* an error is found again when the request is read */
  if (!ommai_http_call_is_gone(job->call)) (void)find(server, job->root, true, &job->grammar, &error);
  job->job.run = job->go_on;
  ommai_job_queue_push_again(server->jobs, &job->job);
}

bool ommai_grammar_job_start(struct ommai_grammar_job *job, struct ommai_http_call *call, const json_t *root,
                             void (*go_on)(struct ommai_job *job)) {
  struct ommai_api_error error = {0};
  struct omma_grammar *grammar = NULL;
  bool found = find(call->server, root, false, &grammar, &error);
  omma_grammar_destroy(grammar);
  if (found || error.status != 503) return false;
  job->job.run = compile;
  job->job.client = call->job.client;
  job->call = call;
  job->root = root;
  job->go_on = go_on;
  ommai_job_queue_push_grammar(call->server->jobs, &job->job);
  return true;
}

void ommai_grammar_job_end(struct ommai_grammar_job *job) {
  omma_grammar_destroy(job->grammar);
  job->grammar = NULL;
}
