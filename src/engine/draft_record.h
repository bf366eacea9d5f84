/* What a sequence keeps of its drafts; draft.h makes them. */
#pragma once

#include <omma/omma.h>
#include <stdint.h>

/* Whether drafts have paid lately. */
struct ommai_draft_record {
  float share;   /* of draft tokens that were right, lately */
  int64_t pause; /* steps without drafts yet to come */
};

/* What a draft head drafted after the answer's first `after` tokens. */
struct ommai_head_draft {
  int64_t after, n;
  int32_t tokens[OMMA_MAX_DRAFT_TOKENS];
};
