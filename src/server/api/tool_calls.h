/* Tool calls in the text of an answer, taken apart while it comes.
 *
 * A parser belongs to one answer. Text goes in piece by piece, as tokens give it; what comes out is
 * content, text for the reader, and calls, each a name and the JSON of its arguments that grow
 * together. What comes out does not depend on how the text is cut into pieces.
 *
 * Usual order: init -> feed for each piece (then use new content and calls; see
 * ommai_tool_parser_forget) -> finish -> free. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text_buffer.h"
#include "server/api/tool_object.h"
#include "server/core/server_options.h"

/* Calls of one answer; text that begins another one is content. */
#define OMMAI_MAX_TOOL_CALLS 128
#define OMMAI_TOOL_ID_SIZE 96

struct ommai_tool_call {
  char id[OMMAI_TOOL_ID_SIZE]; /* "chatcmpl-tool-..."; of SECTIONS what the model wrote */
  struct ommai_text name;      /* UTF-8; complete when the call is visible */
  struct ommai_text arguments; /* JSON, as the model wrote it; grows */
  bool complete;               /* its end was there, and its arguments are JSON */
  bool name_used;              /* before the last ommai_tool_parser_forget */
  size_t arguments_used;       /* bytes of them that were there then */
};

struct ommai_tool_parser {
  enum ommai_tool_format format;
  struct ommai_tool_call *calls; /* [n_calls] those that are visible: their name is known */
  size_t n_calls;
  /* What began as a call is none. True also of one that was cut off, but where calls are a
   * grammar's: LIST and NAMED. */
  bool broken;

  /* The parser's own. */
  const struct omma_allocator *allocator;
  int state;
  bool visible;           /* the call that is read is the last of `calls` */
  struct ommai_text held; /* may be the beginning of a mark */
  struct ommai_text raw;  /* of a call that is not visible yet, with its mark */
  /* of the call that is read: as JSON, or what stands before SECTIONS' arguments */
  struct ommai_text name;
  struct ommai_text arguments;
  struct ommai_tool_object object;
  bool failed; /* memory ran out */
};

/* `name`: the function's, for NAMED, else NULL. False when memory is out; free it in every case. */
bool ommai_tool_parser_init(struct ommai_tool_parser *parser, enum ommai_tool_format format, const char *name,
                            const struct omma_allocator *allocator);

/* Takes the next piece of the answer and appends what of it is content to `content`. A call is
 * visible (is in `calls`) from the moment its name is known and its arguments begin. False when
 * memory is out. */
bool ommai_tool_parser_feed(struct ommai_tool_parser *parser, const char *text, size_t size, struct ommai_text *content);
/* The answer is over: what was held back is content, and a call without an end makes the parser
 * `broken`. Of LIST and NAMED nothing is content: the call stays, as far as it came. */
bool ommai_tool_parser_finish(struct ommai_tool_parser *parser, struct ommai_text *content);

/* True when a call has a name or arguments that came after the last ommai_tool_parser_forget: what
 * a stream sends next. */
bool ommai_tool_parser_has_news(const struct ommai_tool_parser *parser);
/* Marks all that is there as used. */
void ommai_tool_parser_forget(struct ommai_tool_parser *parser);

/* True when the answer is one or more calls, none of them broken. */
bool ommai_tool_parser_called(const struct ommai_tool_parser *parser);
/* True when a whole reply shows all of the answer's text as it is, and no calls. */
bool ommai_tool_parser_is_text(const struct ommai_tool_parser *parser);

void ommai_tool_parser_free(struct ommai_tool_parser *parser);
