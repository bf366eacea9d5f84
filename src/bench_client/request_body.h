/* The bodies of requests to /v1/chat/completions and /v1/completions, key by key as vLLM's
 * benchmark sends them. */
#pragma once

#include <jansson.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stdint.h>

struct ommai_body_fields {
  bool chat;
  const char *model;
  bool ignore_eos;
  int64_t logprobs;    /* completions only; negative: none */
  const json_t *extra; /* an object that is laid over the body, or NULL */
};

/* Makes one body. `prompt` is a string, a list of content parts or a list of messages; `media`,
 * content parts after the text (an object, a list, or NULL); both are borrowed. A completion takes
 * a string and no media. *body is *size bytes in jansson's memory, released with free. Errors:
 * ARGUMENT, MEMORY. */
enum omma_status ommai_body_make(const struct ommai_body_fields *fields, const json_t *prompt, const json_t *media,
                                 int64_t output_len, char **body, size_t *size, struct omma_error *error);
