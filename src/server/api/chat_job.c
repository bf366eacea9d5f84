#include "server/api/chat_job.h"

#include "base/allocator.h"
#include "server/api/grammar_job.h"
#include "server/core/job_queue.h"
#include "server/http/http_call.h"
#include "server/state/server_state.h"

struct chat_job {
  struct ommai_grammar_job grammar; /* first: a job is its chat_job */
  struct ommai_http_call *call;
  struct ommai_chat_source source; /* until the request has it */
  bool messages_only;
  struct ommai_chat_request request;
  ommai_chat_handler handle;
};

static void destroy(struct chat_job *job) {
  struct ommai_http_call *call = job->call;
  if (job->request.server) ommai_chat_request_destroy(&job->request);
  ommai_chat_source_free(&job->source);
  ommai_grammar_job_end(&job->grammar);
  ommai_release(call->allocator, job, 1, sizeof *job);
  ommai_http_call_let_go(call);
}

static void run(struct ommai_job *queued) {
  struct chat_job *job = (struct chat_job *)queued;
  struct ommai_http_call *call = job->call;
  struct ommai_api_error error;
  bool good = ommai_http_call_is_gone(call) || (ommai_chat_media_load(call, &job->request, &error) &&
                                                (ommai_http_call_is_gone(call) || job->handle(call, &job->request, &error)));
  if (!good) ommai_http_call_fail(call, &error);
  destroy(job);
}

/* Reads the request and goes on with it, or leaves that to the queue of those with images. */
static void read_request(struct ommai_job *queued) {
  struct chat_job *job = (struct chat_job *)queued;
  struct ommai_http_call *call = job->call;
  const struct ommai_chat_source source = job->source;
  struct ommai_api_error error;
  if (ommai_http_call_is_gone(call)) {
    destroy(job);
    return;
  }
  job->source = (struct ommai_chat_source){0};
  job->grammar.job.run = run;
  if (!ommai_chat_request_read(call->server, &source, job->messages_only, &job->request, &error)) {
    ommai_http_call_fail(call, &error);
    destroy(job);
  } else if (job->request.n_images + job->request.n_videos == 0) {
    run(&job->grammar.job);
  } else {
    ommai_job_queue_push_media(call->server->jobs, &job->grammar.job);
  }
}

bool ommai_chat_job_start(struct ommai_http_call *call, const struct ommai_chat_source *source, bool messages_only,
                          ommai_chat_handler handle, struct ommai_api_error *error) {
  struct chat_job *job = ommai_allocate(call->allocator, 1, sizeof *job);
  if (!job) {
    ommai_chat_source_free(source);
    return ommai_api_fail_memory(error);
  }
  job->call = call;
  job->source = *source;
  job->messages_only = messages_only;
  job->handle = handle;
  ommai_http_call_keep(call);
  bool waits = !messages_only && ommai_grammar_job_start(&job->grammar, call, source->root, read_request);
  if (!waits) read_request(&job->grammar.job);
  return true;
}
