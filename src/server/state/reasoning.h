/* Reasoning at the beginning of answers: the marks that the server looks for, and what requests
 * set about it. */
#pragma once

#include <jansson.h>
#include <omma/omma.h>
#include <stdbool.h>

#include "server/core/api_error.h"

#define OMMAI_MAX_FORCED_END 1024 /* bytes */

/* Zero-initialised: answers are one text. */
struct ommai_reasoning {
  bool on;
  struct omma_reasoning marks; /* forced_end points below, or is NULL */
  char forced_end[OMMAI_MAX_FORCED_END + 1];
};

/* Takes the marks of a parser (NULL: none), and of vLLM's --reasoning-config (NULL: none) what is
 * written when a budget is used up. The struct must stay where it is. Errors: ARGUMENT (field
 * "reasoning_parser" or "reasoning_config"), FORMAT (no JSON; "reasoning_config"), MEMORY. */
enum omma_status ommai_reasoning_take(const char *parser, const char *config, struct ommai_reasoning *reasoning,
                                      struct omma_error *error);

/* Reads thinking_token_budget, reasoning_effort and include_reasoning of a chat into the sampling
 * and *shown: whether the reply has the reasoning. False with *error filled. */
bool ommai_reasoning_read(const struct ommai_reasoning *reasoning, const json_t *root, struct omma_sampling *sampling,
                          bool *shown, struct ommai_api_error *error);
