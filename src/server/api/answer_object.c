#include "server/api/answer_object.h"

#include "base/allocator.h"
#include "server/state/server_state.h"

bool ommai_call_answer_init_choices(struct ommai_call_answer *answer, const struct ommai_tool_request *tools) {
  bool good = true;
  for (int i = 0; i < OMMAI_MAX_CHOICES; i++) {
    struct ommai_answer_choice *choice = &answer->choices[i];
    enum ommai_tool_format format = tools && i < answer->n_choices ? tools->format : OMMAI_TOOLS_NONE;
    good &= ommai_tool_parser_init(&choice->tools, format, tools ? tools->name : NULL, answer->allocator);
    choice->answer = answer;
    choice->index = i;
    choice->text = ommai_text_of(answer->allocator);
    choice->reasoning = ommai_text_of(answer->allocator);
    choice->token_ids = ommai_text_of(answer->allocator);
    answer->prompt_ids[i] = ommai_text_of(answer->allocator);
    answer->prompt_scores[i] = ommai_text_of(answer->allocator);
    for (int j = 0; j < OMMAI_LOGPROB_LISTS; j++) choice->logprobs.lists[j] = ommai_text_of(answer->allocator);
    choice->stop_string = ommai_text_of(answer->allocator);
  }
  return good;
}

void ommai_call_answer_free(struct ommai_call_answer *answer) {
  if (!answer) return;
  for (int i = 0; i < OMMAI_MAX_CHOICES; i++) {
    struct ommai_answer_choice *choice = &answer->choices[i];
    omma_request_destroy(choice->request);
    ommai_text_free(&choice->text);
    ommai_text_free(&choice->reasoning);
    ommai_tool_parser_free(&choice->tools);
    ommai_text_free(&choice->token_ids);
    ommai_text_free(&answer->prompt_ids[i]);
    ommai_text_free(&answer->prompt_scores[i]);
    for (int j = 0; j < OMMAI_LOGPROB_LISTS; j++) ommai_text_free(&choice->logprobs.lists[j]);
    ommai_text_free(&choice->stop_string);
  }
  ommai_text_free(&answer->images);
  ommai_text_free(&answer->request_fields);
  ommai_reply_state_free(&answer->reply_state);
  ommai_http_call_release(answer->call);
  ommai_release(answer->allocator, answer, 1, sizeof *answer);
}

static void free_answer_job(struct ommai_job *job) { ommai_call_answer_free((struct ommai_call_answer *)job); }

/* Freeing returns an image's megabytes to the system, which takes time that the engine's thread has
 * better use for. */
void ommai_call_answer_release(struct ommai_call_answer *answer) {
  if (atomic_fetch_sub(&answer->references, 1) != 1) return;
  answer->job.run = free_answer_job;
  ommai_job_queue_push_urgent(answer->call->server->jobs, &answer->job);
}

struct ommai_text *ommai_answer_choice_prompt_scores(const struct ommai_answer_choice *choice) {
  struct ommai_call_answer *answer = choice->answer;
  return answer->prompt_logprobs ? &answer->prompt_scores[choice->index / answer->n_per_prompt] : NULL;
}

bool ommai_answer_choice_failed(const struct ommai_answer_choice *choice) {
  const struct ommai_text *scores = ommai_answer_choice_prompt_scores(choice);
  bool failed = choice->text.failed || choice->token_ids.failed || choice->reasoning.failed || choice->tools.failed ||
                (scores && scores->failed);
  for (int i = 0; i < OMMAI_LOGPROB_LISTS; i++) failed |= choice->logprobs.lists[i].failed;
  return failed;
}
