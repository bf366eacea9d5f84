#include "server/api/tool_calls.h"

#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/json.h"
#include "base/json_writer.h"

/* Where in the answer the text is. */
enum {
  TEXT,         /* before the first call */
  OBJECT,       /* in the object of a call */
  HEAD,         /* between the mark of a call and that of its arguments */
  ARGUMENTS,    /* NAMED: all of the text from the first that is no blank */
  BETWEEN,      /* after a call: nothing is shown */
  LIST_OPEN,    /* before the bracket */
  LIST_BETWEEN, /* after a member of it */
  LIST_END,
  PLAIN /* after what is no call: all is content */
};

static const char OBJECT_BEGIN[] = "<tool_call>", SECTION_BEGIN[] = "<|tool_calls_section_begin|>",
                  CALL_BEGIN[] = "<|tool_call_begin|>", ARGUMENTS_BEGIN[] = "<|tool_call_argument_begin|>",
                  CALL_END[] = "<|tool_call_end|>", SECTION_END[] = "<|tool_calls_section_end|>";

static bool is_blank(char byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

/* ---- calls ---- */

static void make_id(char id[OMMAI_TOOL_ID_SIZE]) {
  unsigned char random[16];
  char digits[2 * sizeof random + 1];
  randombytes_buf(random, sizeof random);
  sodium_bin2hex(digits, sizeof digits, random, sizeof random);
  snprintf(id, OMMAI_TOOL_ID_SIZE, "chatcmpl-tool-%s", digits);
}

static struct ommai_tool_call *last_call(struct ommai_tool_parser *parser) { return &parser->calls[parser->n_calls - 1]; }

/* The call that is read has become visible: this name, and the arguments that came before it. NULL:
 * there are too many. */
static struct ommai_tool_call *add_call(struct ommai_tool_parser *parser, const char *name, size_t size) {
  if (parser->n_calls == OMMAI_MAX_TOOL_CALLS) return NULL;
  if (!parser->calls) parser->calls = ommai_allocate(parser->allocator, OMMAI_MAX_TOOL_CALLS, sizeof *parser->calls);
  if (!parser->calls) {
    parser->failed = true;
    return NULL;
  }
  struct ommai_tool_call *call = &parser->calls[parser->n_calls++];
  call->name = ommai_text_of(parser->allocator);
  ommai_text_append(&call->name, name, size);
  call->arguments = parser->arguments;
  parser->arguments = ommai_text_of(parser->allocator);
  parser->visible = true;
  parser->raw.size = 0;
  make_id(call->id);
  return call;
}

static void begin_call(struct ommai_tool_parser *parser, int state, const char *mark) {
  parser->state = state;
  parser->visible = false;
  parser->object = (struct ommai_tool_object){0};
  parser->name.size = parser->arguments.size = parser->raw.size = 0;
  ommai_text_add(&parser->raw, mark);
}

/* What was taken for a call is none: it is content, as all that follows. */
static void give_up(struct ommai_tool_parser *parser, struct ommai_text *content) {
  parser->broken = true;
  parser->state = PLAIN;
  if (!parser->visible) ommai_text_append(content, parser->raw.data, parser->raw.size);
  parser->raw.size = 0;
}

static bool is_json(const struct ommai_text *text) {
  json_error_t reason;
  bool no_memory;
  json_t *value = ommai_json_parse_large(text->data ? text->data : "", text->size, JSON_DECODE_ANY | JSON_ALLOW_NUL, true,
                                         &reason, &no_memory);
  json_decref(value);
  return value != NULL;
}

/* In sections a call is one by its head, whatever its arguments are; one without is left out. As in
 * vLLM. */
static void end_section_call(struct ommai_tool_parser *parser) {
  parser->state = BETWEEN;
  if (!parser->visible) return;
  last_call(parser)->complete = true;
  if (!last_call(parser)->arguments.size) ommai_put_begin(&last_call(parser)->arguments, NULL, "{}");
}

static void end_call(struct ommai_tool_parser *parser, struct ommai_text *content) {
  if (!parser->visible || !is_json(&last_call(parser)->arguments)) {
    give_up(parser, content);
    return;
  }
  last_call(parser)->complete = true;
  parser->state = parser->format == OMMAI_TOOLS_LIST ? LIST_BETWEEN : BETWEEN;
}

static void add_arguments(struct ommai_tool_parser *parser, char byte) {
  ommai_text_append(parser->visible ? &last_call(parser)->arguments : &parser->arguments, &byte, 1);
}

/* ---- marks ---- */

static bool begins(const char *mark, const char *text, size_t size) {
  return mark && size <= strlen(mark) && memcmp(text, mark, size) == 0;
}

/* Takes a byte while one of two marks is looked for; `other` may be NULL. Bytes that are not a
 * mark's go to `out`, where there is one. True after the mark. */
static bool seek_either(struct ommai_tool_parser *parser, char byte, const char *mark, const char *other,
                        struct ommai_text *out) {
  struct ommai_text *held = &parser->held;
  size_t skip = 0;
  ommai_text_append(held, &byte, 1);
  while (skip < held->size && !begins(mark, held->data + skip, held->size - skip) &&
         !begins(other, held->data + skip, held->size - skip)) {
    skip++;
  }
  if (out) ommai_text_append(out, held->data, skip);
  if (skip) memmove(held->data, held->data + skip, held->size - skip);
  held->size -= skip;
  bool ended = held->size && held->size == strlen(begins(mark, held->data, held->size) ? mark : other);
  if (ended) held->size = 0;
  return ended;
}

static bool seek(struct ommai_tool_parser *parser, char byte, const char *mark, struct ommai_text *out) {
  return seek_either(parser, byte, mark, NULL, out);
}

/* ---- states ---- */

static void take_text(struct ommai_tool_parser *parser, char byte, struct ommai_text *content) {
  if (parser->format == OMMAI_TOOLS_OBJECTS) {
    if (seek(parser, byte, OBJECT_BEGIN, content)) begin_call(parser, OBJECT, OBJECT_BEGIN);
  } else if (seek(parser, byte, SECTION_BEGIN, content)) {
    parser->state = BETWEEN;
  }
}

static void take_between(struct ommai_tool_parser *parser, char byte) {
  if (parser->format == OMMAI_TOOLS_OBJECTS) {
    if (seek(parser, byte, OBJECT_BEGIN, NULL)) begin_call(parser, OBJECT, OBJECT_BEGIN);
  } else if (seek(parser, byte, CALL_BEGIN, NULL)) {
    begin_call(parser, HEAD, CALL_BEGIN);
  }
}

/* Name and arguments may come in either order. */
static bool show_object(struct ommai_tool_parser *parser) {
  json_error_t reason;
  bool no_memory;
  json_t *name = ommai_json_parse_large(parser->name.data, parser->name.size, JSON_DECODE_ANY, true, &reason, &no_memory);
  bool good = json_string_length(name) && add_call(parser, json_string_value(name), json_string_length(name));
  json_decref(name);
  return good;
}

static void take_object(struct ommai_tool_parser *parser, char byte, struct ommai_text *content) {
  if (!parser->visible) ommai_text_append(&parser->raw, &byte, 1);
  enum ommai_tool_byte kind = ommai_tool_object_take(&parser->object, byte);
  if (kind == OMMAI_TOOL_BYTE_NAME && !parser->visible) ommai_text_append(&parser->name, &byte, 1);
  if (kind == OMMAI_TOOL_BYTE_ARGUMENTS) add_arguments(parser, byte);
  bool known = parser->object.name_ended && parser->arguments.size;
  if (known && !parser->visible && !parser->failed && !show_object(parser)) kind = OMMAI_TOOL_BYTE_BROKEN;
  if (kind == OMMAI_TOOL_BYTE_BROKEN) give_up(parser, content);
  if (kind == OMMAI_TOOL_BYTE_END) end_call(parser, content);
}

/* "functions.NAME:0": the identifier ends after the digits of the last colon that has some, the
 * name before the first colon. */
static void show_head(struct ommai_tool_parser *parser) {
  static const char PREFIX[] = "functions.";
  const char *at = parser->name.data, *end = at + parser->name.size, *id_end = NULL;
  while (at < end && is_blank(*at)) at++;
  for (const char *i = at + 1; i < end; i++) {
    if (*i == ':' && strspn(i + 1, "0123456789")) id_end = i + 1 + strspn(i + 1, "0123456789");
  }
  if (!id_end) return;
  const char *colon = memchr(at, ':', (size_t)(id_end - at)), *name = at;
  if (begins(PREFIX, at, sizeof PREFIX - 1)) name += sizeof PREFIX - 1;
  struct ommai_tool_call *call = name < colon ? add_call(parser, name, (size_t)(colon - name)) : NULL;
  if (call && id_end - at < OMMAI_TOOL_ID_SIZE) snprintf(call->id, sizeof call->id, "%.*s", (int)(id_end - at), at);
}

static void take_head(struct ommai_tool_parser *parser, char byte) {
  if (!seek(parser, byte, ARGUMENTS_BEGIN, &parser->name)) return;
  ommai_text_append(&parser->name, "", 1);
  parser->name.size -= !parser->name.failed;
  if (!parser->name.failed) show_head(parser);
  parser->state = ARGUMENTS;
}

static void take_named(struct ommai_tool_parser *parser, char byte) {
  if (!parser->visible && (is_blank(byte) || !add_call(parser, parser->name.data, parser->name.size))) return;
  ommai_text_append(&last_call(parser)->arguments, &byte, 1);
}

static void take_arguments(struct ommai_tool_parser *parser, char byte) {
  if (parser->format == OMMAI_TOOLS_NAMED) {
    take_named(parser, byte);
    return;
  }
  struct ommai_text *arguments = parser->visible ? &last_call(parser)->arguments : NULL;
  bool begun = (arguments && arguments->size) || parser->held.size || !is_blank(byte);
  if (begun && seek_either(parser, byte, CALL_END, SECTION_END, arguments)) end_section_call(parser);
}

static void take_list(struct ommai_tool_parser *parser, char byte, struct ommai_text *content) {
  bool opens = parser->state == LIST_OPEN;
  if (opens) ommai_text_append(&parser->raw, &byte, 1);
  if (is_blank(byte)) return;
  if (byte == (opens ? '[' : ',')) {
    begin_call(parser, OBJECT, "");
  } else if (!opens && byte == ']') {
    parser->state = LIST_END;
  } else {
    give_up(parser, content);
  }
}

static void take(struct ommai_tool_parser *parser, char byte, struct ommai_text *content) {
  switch (parser->state) {
    case TEXT: take_text(parser, byte, content); break;
    case OBJECT: take_object(parser, byte, content); break;
    case HEAD: take_head(parser, byte); break;
    case ARGUMENTS: take_arguments(parser, byte); break;
    case BETWEEN: take_between(parser, byte); break;
    case LIST_OPEN:
    case LIST_BETWEEN: take_list(parser, byte, content); break;
    case PLAIN: ommai_text_append(content, &byte, 1); break;
    default: break;
  }
}

/* ---- interface ---- */

static bool is_sound(struct ommai_tool_parser *parser, const struct ommai_text *content) {
  const struct ommai_text *texts[] = {content, &parser->held, &parser->raw, &parser->name, &parser->arguments};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) parser->failed |= texts[i] && texts[i]->failed;
  for (size_t i = 0; i < parser->n_calls; i++) {
    parser->failed |= parser->calls[i].name.failed || parser->calls[i].arguments.failed;
  }
  return !parser->failed;
}

bool ommai_tool_parser_init(struct ommai_tool_parser *parser, enum ommai_tool_format format, const char *name,
                            const struct omma_allocator *allocator) {
  const struct ommai_text empty = ommai_text_of(allocator);
  *parser = (struct ommai_tool_parser){
      .format = format, .allocator = allocator, .state = TEXT, .held = empty, .raw = empty, .name = empty, .arguments = empty};
  if (format == OMMAI_TOOLS_NONE) parser->state = PLAIN;
  if (format == OMMAI_TOOLS_LIST) parser->state = LIST_OPEN;
  if (format == OMMAI_TOOLS_NAMED) {
    parser->state = ARGUMENTS;
    ommai_text_add(&parser->name, name);
  }
  return is_sound(parser, NULL);
}

bool ommai_tool_parser_feed(struct ommai_tool_parser *parser, const char *text, size_t size, struct ommai_text *content) {
  if (parser->state == PLAIN) {
    ommai_text_append(content, text, size);
  } else {
    for (size_t i = 0; i < size && !parser->failed; i++) take(parser, text[i], content);
  }
  return is_sound(parser, content);
}

bool ommai_tool_parser_finish(struct ommai_tool_parser *parser, struct ommai_text *content) {
  if (parser->state == TEXT) ommai_text_append(content, parser->held.data, parser->held.size);
  if (parser->format == OMMAI_TOOLS_NAMED) {
    if (parser->visible) last_call(parser)->complete = is_json(&last_call(parser)->arguments);
  } else if (parser->format == OMMAI_TOOLS_SECTIONS) {
    if (parser->state == ARGUMENTS) end_section_call(parser);
  } else if (parser->format != OMMAI_TOOLS_LIST && parser->state == OBJECT) {
    give_up(parser, content);
  }
  parser->held.size = 0;
  parser->state = PLAIN;
  return is_sound(parser, content);
}

bool ommai_tool_parser_has_news(const struct ommai_tool_parser *parser) {
  for (size_t i = 0; i < parser->n_calls; i++) {
    if (!parser->calls[i].name_used || parser->calls[i].arguments_used < parser->calls[i].arguments.size) return true;
  }
  return false;
}

void ommai_tool_parser_forget(struct ommai_tool_parser *parser) {
  for (size_t i = 0; i < parser->n_calls; i++) {
    parser->calls[i].name_used = true;
    parser->calls[i].arguments_used = parser->calls[i].arguments.size;
  }
}

bool ommai_tool_parser_called(const struct ommai_tool_parser *parser) { return parser->n_calls && !parser->broken; }

bool ommai_tool_parser_is_text(const struct ommai_tool_parser *parser) {
  bool must_call = parser->format == OMMAI_TOOLS_LIST || parser->format == OMMAI_TOOLS_NAMED;
  return parser->broken || (!parser->n_calls && !must_call);
}

void ommai_tool_parser_free(struct ommai_tool_parser *parser) {
  for (size_t i = 0; i < parser->n_calls; i++) {
    ommai_text_free(&parser->calls[i].name);
    ommai_text_free(&parser->calls[i].arguments);
  }
  if (parser->calls) ommai_release(parser->allocator, parser->calls, OMMAI_MAX_TOOL_CALLS, sizeof *parser->calls);
  if (parser->allocator) {
    ommai_text_free(&parser->held);
    ommai_text_free(&parser->raw);
    ommai_text_free(&parser->name);
    ommai_text_free(&parser->arguments);
  }
  *parser = (struct ommai_tool_parser){.format = OMMAI_TOOLS_NONE};
}
