/* What a request gives about tools: `tools`, `tool_choice` and `parallel_tool_calls` of
 * /v1/chat/completions. Endpoints with another form of them bring it into this one first. */
#pragma once

#include <jansson.h>
#include <omma/omma.h>
#include <stdbool.h>

#include "server/api/tool_calls.h"
#include "server/core/api_error.h"

struct ommai_server;

/* Tools of one request. */
#define OMMAI_MAX_TOOLS 256

struct ommai_tool_request {
  /* the array, for the prompt; it belongs to the request's document. NULL: the prompt has none */
  const json_t *tools;
  const char *name; /* the function that tool_choice names, else NULL */
  /* How calls stand in answers, NONE where there are none to be found: give it and `name` to
   * ommai_tool_parser_init. */
  enum ommai_tool_format format;
};

/* Reads `tools` alone, for prompts without answers, which may list none: *tools becomes the array,
 * or NULL where there is none. False with *error filled. */
bool ommai_tool_list_read(const json_t *root, const json_t **tools, struct ommai_api_error *error);

/* Reads and checks them. Where a call must come (tool_choice "required" or a named function),
 * *grammar becomes the grammar that holds answers to it, else it stays as it is; one that was
 * there is destroyed, as tools go before other wishes for the answer's form. `make`: as
 * ommai_structured_output_read. False with *error filled: what vLLM refuses too, and a schema that
 * is not supported, by its key. */
bool ommai_tool_request_read(struct ommai_server *server, const json_t *root, bool make, struct ommai_tool_request *request,
                             struct omma_grammar **grammar, struct ommai_api_error *error);
