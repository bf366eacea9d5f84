#include "engine/beginnings.h"

#include <string.h>

#include "base/checked.h"
#include "request/request.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS };

static void set_tokens(struct ommai_beginning *beginning, const struct omma_request *request) {
  int64_t most = ommai_min_i64(PAGE, (int64_t)request->n_tokens), n = 0;
  for (; n < most && request->tokens[n].image < 0; n++) beginning->tokens[n] = request->tokens[n];
  beginning->n_tokens = n;
}

static bool is_same(const struct ommai_prompt_token *a, const struct ommai_prompt_token *b) {
  return a->token == b->token && b->image < 0 && !memcmp(a->position, b->position, sizeof a->position);
}

/* The prompt's last token is computed in any case: its row is wanted. */
static int64_t n_shared(const struct ommai_beginning *beginning, const struct omma_request *request) {
  int64_t most = ommai_min_i64(beginning->n_tokens, (int64_t)request->n_tokens - 1), n = 0;
  while (n < most && is_same(&beginning->tokens[n], &request->tokens[n])) n++;
  return n;
}

int64_t ommai_beginnings_find(struct ommai_beginnings *beginnings, const struct omma_request *request,
                              struct ommai_beginning **found) {
  int64_t longest = 0;
  *found = NULL;
  for (int i = 0; i < OMMAI_MAX_BEGINNINGS; i++) {
    int64_t n = n_shared(&beginnings->kept[i], request);
    if (n < OMMAI_MIN_BEGINNING || n <= longest) continue;
    longest = n;
    *found = &beginnings->kept[i];
  }
  if (*found) (*found)->last_use = ++beginnings->n_uses;
  return longest;
}

int64_t ommai_beginnings_see(struct ommai_beginnings *beginnings, const struct omma_request *request) {
  int64_t n = n_shared(&beginnings->previous, request);
  set_tokens(&beginnings->previous, request);
  return n;
}

struct ommai_beginning *ommai_beginnings_keep(struct ommai_beginnings *beginnings, const struct omma_request *request) {
  struct ommai_beginning *oldest = &beginnings->kept[0];
  for (int i = 1; i < OMMAI_MAX_BEGINNINGS; i++) {
    if (beginnings->kept[i].last_use < oldest->last_use) oldest = &beginnings->kept[i];
  }
  set_tokens(oldest, request);
  oldest->last_use = ++beginnings->n_uses;
  return oldest;
}
