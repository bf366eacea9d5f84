#include "families/template_prompt.h"

#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"

/* Marks in the rendered text, of bytes that no UTF-8 has: a mark is MARK and one of these. Where a
 * text from outside spells an image's or video's token it gets a mark instead, and the last
 * message's end one, so that what the template writes can be distinguished from them. */
#define MARK '\xff'
enum { MARK_IMAGE = '0', MARK_VIDEO = '1', MARK_END = '2', MARK_TEXT = '3' };
/* the blank shows whether the template strips texts */
static const char end_mark[] = {MARK, MARK_END, ' ', '\0'};

struct rendering {
  const struct ommai_chat_choice *choice;
  const struct ommai_media_marks *marks;
  const struct ommai_conversation *conversation;
  struct ommai_prompt_builder *builder;
  struct omma_error *error;
};

/* ---- variables ---- */

/* The text with marks for tokens that it spells. `parsed`: from ommai_json_parse_large, so that it
 * may be a number. NULL when memory is out. */
static json_t *guarded_text(const struct ommai_media_marks *marks, const struct omma_allocator *allocator, const char *text,
                            size_t size, bool parsed, const char *suffix) {
  const char *const tokens[] = {marks->image_token, marks->video_token};
  size_t room = size + strlen(suffix), n = 0;
  char *out = ommai_allocate(allocator, room, 1);
  if (!out) return NULL;
  for (size_t at = 0; at < size;) {
    size_t length = 0;
    for (int i = 0; i < 2 && !length; i++) {
      size_t wanted = tokens[i] ? strlen(tokens[i]) : 0;
      if (!wanted || size - at < wanted || memcmp(text + at, tokens[i], wanted) != 0) continue;
      out[n++] = MARK;
      out[n++] = (char)(MARK_IMAGE + i);
      length = wanted;
    }
    if (!length) out[n++] = text[at];
    at += length ? length : 1;
  }
  if (!parsed) ommai_json_unmark(out, n);
  memcpy(out + n, suffix, strlen(suffix));
  json_t *json = json_stringn_nocheck(out, n + strlen(suffix));
  ommai_release(allocator, out, room, 1);
  return json;
}

static json_t *guarded_json(const struct rendering *rendering, const json_t *text) {
  return guarded_text(rendering->marks, &rendering->builder->allocator, json_string_value(text), json_string_length(text), true,
                      "");
}

/* The same in all texts of a document from outside. */
static bool guard(const struct rendering *rendering, json_t *json) {
  const char *key;
  json_t *value;
  size_t i;
  json_array_foreach(json, i, value) {
    bool good =
        json_is_string(value) ? json_array_set_new(json, i, guarded_json(rendering, value)) == 0 : guard(rendering, value);
    if (!good) return false;
  }
  json_object_foreach(json, key, value) {
    bool good = json_is_string(value) ? json_object_set_new_nocheck(json, key, guarded_json(rendering, value)) == 0
                                      : guard(rendering, value);
    if (!good) return false;
  }
  return true;
}

/* A document from outside, of the kind that the field has. */
static enum omma_status parse_document(const struct rendering *rendering, const char *field, const char *text, bool array,
                                       json_t **json) {
  json_error_t reason;
  bool no_memory;
  *json = ommai_json_parse_large(text, strlen(text), JSON_ALLOW_NUL, true, &reason, &no_memory);
  bool good = *json && (array ? json_is_array(*json) : json_is_object(*json));
  if (good && guard(rendering, *json)) return OMMA_OK;
  json_decref(*json);
  *json = NULL;
  if (no_memory || good) return ommai_fail_memory(rendering->error, field, strlen(text));
  return ommai_fail_field(rendering->error, OMMA_ERROR_FORMAT, field, "%s: expected a JSON %s", field,
                          array ? "array" : "object");
}

static json_t *part_content(const struct rendering *rendering, const struct omma_part *part, const char *suffix, bool alone) {
  if (part->image || part->video) return json_pack("{s:s}", "type", part->image ? "image" : "video");
  const char *text = part->text_size ? part->text : "";
  json_t *json = guarded_text(rendering->marks, &rendering->builder->allocator, text, part->text_size, false, suffix);
  return alone ? json : json_pack("{s:s,s:o}", "type", "text", "text", json);
}

/* The text that stands for a part of a list in a string: its own, or the marks of an image or
 * video. Writes it to `out` where that is not NULL; returns its length. */
static size_t part_text(const struct ommai_media_marks *marks, const json_t *part, char *out) {
  const json_t *text = json_object_get(part, "text");
  if (text) {
    if (out) memcpy(out, json_string_value(text), json_string_length(text));
    return json_string_length(text);
  }
  const char *type = json_string_value(json_object_get(part, "type"));
  bool video = type && strcmp(type, "video") == 0 && marks->video_token;
  const char *const words[] = {marks->image_begin, video ? marks->video_token : marks->image_token, marks->image_end};
  size_t length = 0;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t size = strlen(words[i]);
    if (out) memcpy(out + length, words[i], size);
    length += size;
  }
  return length;
}

/* The parts of a list one after the other, as a string. NULL when memory is out. */
static json_t *joined_parts(const struct rendering *rendering, const json_t *list) {
  const struct omma_allocator *allocator = &rendering->builder->allocator;
  const json_t *part;
  size_t i, size = 0, at = 0;
  json_array_foreach(list, i, part) size += part_text(rendering->marks, part, NULL);
  char *text = ommai_allocate(allocator, size + 1, 1);
  if (!text) return NULL;
  json_array_foreach(list, i, part) at += part_text(rendering->marks, part, text + at);
  json_t *joined = json_stringn_nocheck(text, at);
  ommai_release(allocator, text, size + 1, 1);
  return joined;
}

/* One text is a string, as usual clients send it, where the template takes strings; else there is a
 * list of parts, which is joined where it takes strings alone. */
static json_t *message_content(const struct rendering *rendering, const struct omma_message *message, bool continued) {
  size_t last_text = message->n_parts;
  for (size_t i = 0; i < message->n_parts; i++) {
    if (!message->parts[i].image && !message->parts[i].video) last_text = i;
  }
  if (message->n_parts == 0) return json_string_nocheck(continued ? end_mark : "");
  bool alone = message->n_parts == 1 && last_text == 0 && !rendering->choice->lists_alone;
  json_t *list = alone ? NULL : json_array();
  for (size_t i = 0; i < message->n_parts; i++) {
    json_t *part = part_content(rendering, &message->parts[i], continued && i == last_text ? end_mark : "", alone);
    if (alone) return part;
    if (json_array_append_new(list, part) == 0) continue;
    json_decref(list);
    return NULL;
  }
  if (!rendering->choice->strings_alone) return list;
  json_t *joined = joined_parts(rendering, list);
  json_decref(list);
  return joined;
}

static enum omma_status add_message(const struct rendering *rendering, size_t index, json_t *list) {
  static const char *const roles[] = {"system", "user", "assistant", "tool"};
  const struct ommai_conversation *conversation = rendering->conversation;
  const struct omma_message *message = &conversation->messages[index];
  bool continued = conversation->continue_final_message && index + 1 == conversation->n_messages;
  json_t *fields = NULL, *content = message_content(rendering, message, continued);
  json_t *made = json_pack("{s:s,s:o}", "role", roles[message->role], "content", content);
  enum omma_status status = OMMA_OK;
  if (message->fields) status = parse_document(rendering, "messages", message->fields, false, &fields);
  if (fields && json_object_update_missing(made, fields)) status = ommai_fail_memory(rendering->error, "messages", 1);
  json_decref(fields);
  if (json_array_append_new(list, made) && status == OMMA_OK) status = ommai_fail_memory(rendering->error, "messages", 1);
  return status;
}

/* Names that the template reads and that a request may set, for a message. */
static void list_switches(const struct ommai_jinja *jinja, char *out, size_t room) {
  size_t at = 0, size, used = 0;
  const char *name;
  snprintf(out, room, "none");
  while ((name = ommai_jinja_next_read(jinja, &at, &size))) {
    if (ommai_chat_template_variable(name, size)) continue;
    int added = snprintf(out + used, room - used, "%s%.*s", used ? ", " : "", (int)size, name);
    if (added < 0 || (size_t)added >= room - used) break;
    used += (size_t)added;
  }
}

static enum omma_status add_kwargs(const struct rendering *rendering, json_t *variables) {
  const struct ommai_jinja *jinja = rendering->choice->jinja;
  const char *text = rendering->conversation->kwargs, *key;
  json_t *kwargs, *value;
  enum omma_status status = OMMA_OK;
  if (!text) return OMMA_OK;
  OMMAI_TRY(parse_document(rendering, "chat_template_kwargs", text, false, &kwargs));
  json_object_foreach(kwargs, key, value) {
    if (ommai_chat_template_variable(key, strlen(key)) || !ommai_jinja_reads(jinja, key)) {
      char names[200];
      list_switches(jinja, names, sizeof names);
      status = ommai_fail_field(
          rendering->error, OMMA_ERROR_ARGUMENT, "chat_template_kwargs",
          "chat_template_kwargs: \"%.80s\" is nothing that this model's chat template reads; it reads: %s", key, names);
      break;
    }
  }
  if (status == OMMA_OK && json_object_update(variables, kwargs)) {
    status = ommai_fail_memory(rendering->error, "chat_template_kwargs", strlen(text));
  }
  json_decref(kwargs);
  return status;
}

static enum omma_status add_tools(const struct rendering *rendering, json_t *variables) {
  json_t *tools = NULL;
  if (rendering->conversation->tools) {
    if (!ommai_jinja_reads(rendering->choice->jinja, "tools")) {
      return ommai_fail_field(rendering->error, OMMA_ERROR_UNSUPPORTED, "tools",
                              "tools: this model's chat template has no tools; --chat-template gives the model another one");
    }
    OMMAI_TRY(parse_document(rendering, "tools", rendering->conversation->tools, true, &tools));
  }
  if (json_object_set_new(variables, "tools", tools ? tools : json_null()) == 0) return OMMA_OK;
  return ommai_fail_memory(rendering->error, "tools", 1);
}

static enum omma_status add_variables(const struct rendering *rendering, json_t *variables) {
  const struct ommai_conversation *conversation = rendering->conversation;
  json_t *messages = json_array();
  bool opened = !conversation->continue_final_message && !conversation->no_generation_prompt;
  if (json_object_set_new(variables, "messages", messages) || json_object_set_new(variables, "documents", json_null()) ||
      json_object_set_new(variables, "add_generation_prompt", json_boolean(opened)) ||
      (rendering->choice->special_tokens && json_object_update(variables, rendering->choice->special_tokens))) {
    return ommai_fail_memory(rendering->error, "chat template", 1);
  }
  for (size_t i = 0; i < conversation->n_messages; i++) OMMAI_TRY(add_message(rendering, i, messages));
  OMMAI_TRY(add_tools(rendering, variables));
  return add_kwargs(rendering, variables);
}

/* ---- from the rendered text to the prompt ---- */

/* The next image or video of the conversation, in the order of the messages. */
static const struct omma_part *next_part(const struct ommai_conversation *conversation, bool video, size_t *message,
                                         size_t *part) {
  for (; *message < conversation->n_messages; ++*message, *part = 0) {
    const struct omma_message *at = &conversation->messages[*message];
    while (*part < at->n_parts) {
      const struct omma_part *candidate = &at->parts[(*part)++];
      if (video ? candidate->video != NULL : candidate->image != NULL) return candidate;
    }
  }
  return NULL;
}

struct places {
  size_t message[2], part[2]; /* of images, of videos */
};

static enum omma_status place_media(const struct rendering *rendering, struct places *places, bool video) {
  const struct omma_part *part = next_part(rendering->conversation, video, &places->message[video], &places->part[video]);
  if (part) {
    return ommai_prompt_media(rendering->builder, rendering->marks, part, rendering->conversation->temporal_patch_size,
                              rendering->error);
  }
  return ommai_fail_field(rendering->error, OMMA_ERROR_ARGUMENT, "messages",
                          "messages: the chat template writes more %s than there are", video ? "videos" : "images");
}

static bool stands_at(const char *text, const char *end, const char *word) {
  return word && (size_t)(end - text) >= strlen(word) && memcmp(text, word, strlen(word)) == 0;
}

/* What the mark at *text stands for; *text moves after it. Nothing, where the template took it
 * apart, or wrote the last text more than once. */
static enum omma_status write_mark(const struct rendering *rendering, const char **text, const char *end) {
  char kind = end - *text > 1 ? (*text)[1] : '\0';
  const char *token = NULL;
  if (kind == MARK_IMAGE) token = rendering->marks->image_token;
  if (kind == MARK_VIDEO) token = rendering->marks->video_token;
  if (stands_at(*text, end, end_mark)) {
    *text += sizeof end_mark - 1;
  } else {
    *text += token || kind == MARK_END ? 2 : 1;
  }
  return token ? ommai_prompt_string(rendering->builder, token, rendering->error) : OMMA_OK;
}

/* Copies [text, end) with images and videos in place of their tokens, and what marks stand for. */
static enum omma_status write_prompt(const struct rendering *rendering, const char *text, const char *end) {
  const struct ommai_media_marks *marks = rendering->marks;
  struct places places = {{0}, {0}};
  const char *plain = text;
  while (text < end) {
    bool mark = *text == MARK, image = stands_at(text, end, marks->image_token),
         video = !image && stands_at(text, end, marks->video_token);
    if (!mark && !image && !video) {
      text++;
      continue;
    }
    OMMAI_TRY(ommai_prompt_text(rendering->builder, plain, (size_t)(text - plain), rendering->error));
    if (mark) {
      OMMAI_TRY(write_mark(rendering, &text, end));
    } else {
      OMMAI_TRY(place_media(rendering, &places, video));
      text += strlen(image ? marks->image_token : marks->video_token);
    }
    plain = text;
  }
  OMMAI_TRY(ommai_prompt_text(rendering->builder, plain, (size_t)(text - plain), rendering->error));
  for (int video = 0; video < 2; video++) {
    if (!next_part(rendering->conversation, video, &places.message[video], &places.part[video])) continue;
    return ommai_fail_field(rendering->error, OMMA_ERROR_ARGUMENT, "messages", "messages: the chat template leaves out %s",
                            video ? "a video" : "an image");
  }
  return OMMA_OK;
}

/* Where a prompt ends whose last message goes on: at its mark; without blanks before it where the
 * template takes off those after texts. */
static const char *find_end(const char *text, const char *end) {
  for (const char *at = end - 2; at >= text; at--) {
    if (at[0] != MARK || at[1] != MARK_END) continue;
    bool stripped = end - at < 3 || at[2] != ' ';
    while (stripped && at > text && strchr(" \t\n\v\f\r", at[-1])) at--;
    return at;
  }
  return NULL;
}

/* ---- nothing is left out ---- */

/* The texts of the messages, one after the other. */
struct text_walk {
  json_t *messages;
  size_t message, part;
};

/* The next text: its string, and where to put another. NULL: there is none. */
static json_t *next_text(struct text_walk *walk, json_t **holder) {
  for (; walk->message < json_array_size(walk->messages); walk->message++, walk->part = 0) {
    json_t *message = json_array_get(walk->messages, walk->message), *content = json_object_get(message, "content");
    if (json_is_string(content) && walk->part++ == 0) {
      *holder = message;
      return content;
    }
    while (walk->part < json_array_size(content)) {
      json_t *part = json_array_get(content, walk->part++), *text = json_object_get(part, "text");
      if (!text) continue;
      *holder = part;
      return text;
    }
  }
  return NULL;
}

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* A text without the mark of the end and the blanks around it, which templates may take off. */
static const char *core_of(const json_t *text, size_t *size) {
  const char *at = json_string_value(text), *end = at + json_string_length(text);
  const size_t mark = sizeof end_mark - 1;
  if ((size_t)(end - at) >= mark && memcmp(end - mark, end_mark, mark) == 0) end -= mark;
  while (at < end && is_blank(*at)) at++;
  while (end > at && is_blank(end[-1])) end--;
  *size = (size_t)(end - at);
  return at;
}

/* Whether all texts stand in the rendered one, one behind the other. */
static bool has_all_texts(json_t *messages, const char *rendered, size_t size) {
  const char *at = rendered, *end = rendered + size;
  struct text_walk walk = {.messages = messages};
  json_t *holder, *text;
  while ((text = next_text(&walk, &holder))) {
    size_t wanted;
    const char *core = core_of(text, &wanted), *found = memmem(at, (size_t)(end - at), core, wanted);
    if (!found) return false;
    at = found + wanted;
  }
  return true;
}

/* A mark at a text's end with the text's number. */
static int write_text_mark(char out[32], size_t number) { return snprintf(out, 32, "%c%c%zu;", MARK, MARK_TEXT, number); }

static enum omma_status mark_texts(const struct rendering *rendering, json_t *messages) {
  const struct omma_allocator *allocator = &rendering->builder->allocator;
  struct text_walk walk = {.messages = messages};
  json_t *holder, *text;
  for (size_t number = 0; (text = next_text(&walk, &holder)); number++) {
    char mark[32];
    size_t size = json_string_length(text), mark_size = (size_t)write_text_mark(mark, number);
    char *marked = ommai_allocate(allocator, size + mark_size, 1);
    if (!marked) return ommai_fail_memory(rendering->error, "messages", size + mark_size);
    memcpy(marked, json_string_value(text), size);
    memcpy(marked + size, mark, mark_size);
    json_t *made = json_stringn_nocheck(marked, size + mark_size);
    ommai_release(allocator, marked, size + mark_size, 1);
    if (json_object_set_new(holder, holder == json_array_get(messages, walk.message) ? "content" : "text", made)) {
      return ommai_fail_memory(rendering->error, "messages", size);
    }
  }
  return OMMA_OK;
}

/* Of each text that is not blank. */
static enum omma_status check_marks(const struct rendering *rendering, json_t *messages, const char *text, size_t size) {
  struct text_walk walk = {.messages = messages};
  json_t *holder, *marked;
  for (size_t number = 0; (marked = next_text(&walk, &holder)); number++) {
    char mark[32];
    size_t wanted, mark_size = (size_t)write_text_mark(mark, number);
    (void)core_of(marked, &wanted);
    if (wanted == mark_size || memmem(text, size, mark, mark_size)) continue;
    return ommai_fail_field(rendering->error, OMMA_ERROR_ARGUMENT, "messages",
                            "messages[%zu]: the chat template leaves this text out", walk.message);
  }
  return OMMA_OK;
}

/* Where texts are changed on purpose, as answers whose reasoning is taken out: rendered once more
 * with a mark at the end of each, none of which may be missing. A template that cannot take marks
 * is believed. */
static enum omma_status render_marked(const struct rendering *rendering, json_t *variables) {
  json_t *messages = json_object_get(variables, "messages");
  struct omma_error error;
  char *text;
  size_t size;
  OMMAI_TRY(mark_texts(rendering, messages));
  enum omma_status status =
      ommai_jinja_render(rendering->choice->jinja, variables, OMMAI_PROMPT_MAX_BYTES, &text, &size, &error);
  if (status != OMMA_OK)
    return status == OMMA_ERROR_MEMORY ? ommai_fail(rendering->error, status, "%s", error.message) : OMMA_OK;
  status = check_marks(rendering, messages, text, size);
  ommai_release(&rendering->builder->allocator, text, size + 1, 1);
  return status;
}

/* ---- the whole ---- */

/* The last text, which is to go on, must stand in the prompt [text, end) as it is. Source: as
 * transformers 5.23 does. */
static enum omma_status check_continued(const struct rendering *rendering, json_t *messages, const char *text,
                                        const char *end) {
  struct text_walk walk = {.messages = messages};
  json_t *holder, *next, *last = NULL;
  size_t size = 0;
  while ((next = next_text(&walk, &holder))) last = next;
  const char *core = last ? core_of(last, &size) : "";
  if (end && memmem(text, (size_t)(end - text), core, size)) return OMMA_OK;
  return ommai_fail_field(rendering->error, OMMA_ERROR_ARGUMENT, "messages",
                          "messages[%zu]: the chat template changes this text, so it cannot be continued",
                          rendering->conversation->n_messages - 1);
}

static enum omma_status finish(const struct rendering *rendering, json_t *messages, const char *text, size_t size) {
  const char *end = text + size;
  if (rendering->conversation->continue_final_message) {
    end = find_end(text, end);
    OMMAI_TRY(check_continued(rendering, messages, text, end));
  }
  return write_prompt(rendering, text, end);
}

static enum omma_status render_with(const struct rendering *rendering, json_t *variables) {
  char *text;
  size_t size;
  OMMAI_TRY(add_variables(rendering, variables));
  OMMAI_TRY(ommai_jinja_render(rendering->choice->jinja, variables, OMMAI_PROMPT_MAX_BYTES, &text, &size, rendering->error));
  json_t *messages = json_object_get(variables, "messages");
  enum omma_status status = finish(rendering, messages, text, size);
  if (status == OMMA_OK && !has_all_texts(messages, text, size)) {
    status = render_marked(rendering, variables);
  }
  ommai_release(&rendering->builder->allocator, text, size + 1, 1);
  return status;
}

/* Calls that a template would pass over in silence. */
static enum omma_status check_calls(const struct ommai_chat_choice *choice, const struct ommai_conversation *conversation,
                                    struct omma_error *error) {
  if (ommai_jinja_mentions(choice->jinja, "tool_calls")) return OMMA_OK;
  for (size_t i = 0; i < conversation->n_messages; i++) {
    const char *fields = conversation->messages[i].fields;
    if (conversation->messages[i].role != OMMA_ROLE_TOOL && !(fields && strstr(fields, "\"tool_calls\""))) continue;
    return ommai_fail_field(
        error, OMMA_ERROR_UNSUPPORTED, "messages",
        "messages[%zu]: this model's chat template has no tools; --chat-template gives the model another one", i);
  }
  return OMMA_OK;
}

enum omma_status ommai_conversation_render(const struct ommai_chat_choice *choice,
                                           const struct ommai_conversation *conversation, struct ommai_prompt_builder *builder,
                                           struct omma_error *error) {
  OMMAI_TRY(check_calls(choice, conversation, error));
  const struct rendering rendering = {choice, choice->marks, conversation, builder, error};
  json_t *variables = json_object();
  enum omma_status status = variables ? render_with(&rendering, variables) : ommai_fail_memory(error, "chat template", 1);
  json_decref(variables);
  return status;
}
