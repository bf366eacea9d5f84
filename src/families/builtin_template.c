#include "families/builtin_template.h"

#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"

double ommai_video_fps(const struct omma_video *video) { return video->fps > 0 ? video->fps : OMMAI_DEFAULT_VIDEO_FPS; }

/* "<1.5 seconds>", whatever the process's locale writes for the point. */
static enum omma_status render_time(double seconds, struct ommai_prompt_builder *builder, struct omma_error *error) {
  char number[64], text[96];
  int length = snprintf(number, sizeof number, "%.1f", seconds);
  snprintf(text, sizeof text, "<%.*s.%c seconds>", (int)strspn(number, "0123456789"), number, number[length - 1]);
  return ommai_prompt_string(builder, text, error);
}

/* A temporal patch's time is the middle between its first and last frame's. Source:
 * _calculate_timestamps of the official processor. */
static enum omma_status render_timed(const struct ommai_builtin_template *template, const struct omma_part *part,
                                     int64_t temporal_patch_size, struct ommai_prompt_builder *builder,
                                     struct omma_error *error) {
  int64_t last = (int64_t)part->video->n_frames - 1;
  double fps = ommai_video_fps(part->video);
  for (int64_t temporal_patch = 0, frame = 0; frame <= last; temporal_patch++, frame += temporal_patch_size) {
    double begin = (double)frame / fps, end = (double)ommai_min_i64(frame + temporal_patch_size - 1, last) / fps;
    OMMAI_TRY(render_time((begin + end) / 2, builder, error));
    OMMAI_TRY(ommai_prompt_string(builder, template->image_begin, error));
    OMMAI_TRY(ommai_prompt_image(builder, part, temporal_patch, error));
    OMMAI_TRY(ommai_prompt_string(builder, template->image_end, error));
  }
  return OMMA_OK;
}

enum omma_status ommai_builtin_template_media(const struct ommai_builtin_template *template, const struct omma_part *part,
                                              int64_t temporal_patch_size, struct ommai_prompt_builder *builder,
                                              struct omma_error *error) {
  if (part->video && template->video == OMMAI_VIDEO_TIMED)
    return render_timed(template, part, temporal_patch_size, builder, error);
  return ommai_prompt_image(builder, part, OMMAI_ALL_TEMPORAL_PATCHES, error);
}

/* Parts of a turn in order; an image is its markers with nothing between. */
static enum omma_status render_parts(const struct ommai_builtin_template *template, const struct omma_message *message,
                                     size_t index, int64_t temporal_patch_size, struct ommai_prompt_builder *builder,
                                     struct omma_error *error) {
  for (size_t i = 0; i < message->n_parts; i++) {
    const struct omma_part *part = &message->parts[i];
    if (!part->image && !part->video) {
      OMMAI_TRY(ommai_prompt_text(builder, part->text, part->text_size, error));
      continue;
    }
    if (!template->images_in[message->role]) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "messages", "messages[%zu]: only user%s messages can hold %s", index,
                              template->images_in[OMMA_ROLE_SYSTEM] ? " and system" : "", part->video ? "videos" : "images");
    }
    OMMAI_TRY(ommai_prompt_string(builder, template->image_begin, error));
    OMMAI_TRY(ommai_builtin_template_media(template, part, temporal_patch_size, builder, error));
    OMMAI_TRY(ommai_prompt_string(builder, template->image_end, error));
  }
  return OMMA_OK;
}

static enum omma_status render_default_system(const struct ommai_builtin_template *template,
                                              struct ommai_prompt_builder *builder, struct omma_error *error) {
  OMMAI_TRY(ommai_prompt_string(builder, template->turn_begin[OMMA_ROLE_SYSTEM], error));
  OMMAI_TRY(ommai_prompt_string(builder, template->default_system, error));
  return ommai_prompt_string(builder, template->turn_end, error);
}

/* ---- answers with thoughts ---- */

/* Byte `index` of a message's text, counted from its end where `back`; -1 where there is none, or
 * an image before it. */
static int text_byte(const struct omma_message *message, size_t index, bool back) {
  for (size_t i = 0; i < message->n_parts; i++) {
    const struct omma_part *part = &message->parts[back ? message->n_parts - 1 - i : i];
    if (part->image || part->video) return -1;
    if (index < part->text_size) return (unsigned char)part->text[back ? part->text_size - 1 - index : index];
    index -= part->text_size;
  }
  return -1;
}

/* A message that brings a tool's response is no question. */
static bool is_tool_response(const struct omma_message *message) {
  static const char begin[] = "<tool_response>", end[] = "</tool_response>";
  for (size_t i = 0; i < sizeof begin - 1; i++) {
    if (text_byte(message, i, false) != begin[i]) return false;
  }
  for (size_t i = 0; i < sizeof end - 1; i++) {
    if (text_byte(message, i, true) != end[sizeof end - 2 - i]) return false;
  }
  return true;
}

/* The last question's index; where there is none, that of the last message. */
static size_t find_question(const struct omma_message *messages, size_t n_messages) {
  for (size_t i = n_messages; i-- > 0;) {
    if (messages[i].role == OMMA_ROLE_USER && !is_tool_response(&messages[i])) return i;
  }
  return n_messages - 1;
}

/* A span of text. */
struct span {
  const char *at, *end;
};

static struct span strip_line_ends(struct span span) {
  while (span.at < span.end && *span.at == '\n') span.at++;
  while (span.end > span.at && span.end[-1] == '\n') span.end--;
  return span;
}

static struct span as_span(const char *text) { return (struct span){text, text + strlen(text)}; }

/* The first or last place of `wanted`, or NULL. */
static const char *find(struct span text, struct span wanted, bool last) {
  size_t size = (size_t)(wanted.end - wanted.at), whole = (size_t)(text.end - text.at);
  size_t n = whole < size ? 0 : whole - size + 1;
  for (size_t i = 0; i < n; i++) {
    const char *at = text.at + (last ? n - 1 - i : i);
    if (memcmp(at, wanted.at, size) == 0) return at;
  }
  return NULL;
}

/* The thought in an answer, empty where it has none, and what follows it. */
static void split_answer(const struct ommai_builtin_template *template, struct span text, struct span *thought,
                         struct span *rest) {
  const char *end = find(text, as_span(template->thought_end), false);
  *thought = (struct span){text.at, text.at};
  *rest = text;
  if (!end) return;
  rest->at = find(text, as_span(template->thought_end), true) + strlen(template->thought_end);
  while (rest->at < rest->end && *rest->at == '\n') rest->at++;
  *thought = (struct span){text.at, end};
  const char *begin = find(*thought, as_span(template->thought_begin), true);
  if (begin) thought->at = begin + strlen(template->thought_begin);
  *thought = strip_line_ends(*thought);
}

/* Python's strip, of the blanks within ASCII. */
static struct span strip_blanks(struct span span) {
  while (span.at < span.end && strchr(" \t\n\v\f\r", *span.at) && *span.at) span.at++;
  while (span.end > span.at && strchr(" \t\n\v\f\r", span.end[-1]) && span.end[-1]) span.end--;
  return span;
}

static enum omma_status write_span(struct span span, struct ommai_prompt_builder *builder, struct omma_error *error) {
  return ommai_prompt_text(builder, span.at, (size_t)(span.end - span.at), error);
}

/* Writes an answer's text as the template does: where it belongs to the running turn, after its
 * thought; else without it. */
static enum omma_status write_answer(const struct ommai_builtin_template *template, struct span text, bool running, bool last,
                                     struct ommai_prompt_builder *builder, struct omma_error *error) {
  struct span thought, rest;
  split_answer(template, text, &thought, &rest);
  if (!running || (!last && thought.at == thought.end)) return write_span(rest, builder, error);
  while (rest.at < rest.end && *rest.at == '\n') rest.at++;
  OMMAI_TRY(ommai_prompt_string(builder, template->thought_begin, error));
  OMMAI_TRY(ommai_prompt_string(builder, "\n", error));
  OMMAI_TRY(write_span(thought, builder, error));
  OMMAI_TRY(ommai_prompt_string(builder, "\n", error));
  OMMAI_TRY(ommai_prompt_string(builder, template->thought_end, error));
  OMMAI_TRY(ommai_prompt_string(builder, "\n\n", error));
  return write_span(rest, builder, error);
}

/* Which turn is rendered. */
struct turn {
  size_t index, n_messages, question; /* question: see find_question */
  bool continued;
};

/* An answer that goes on must stand in the prompt as it is, but for blanks around it. */
static enum omma_status check_continued(const struct ommai_builtin_template *template, size_t index, struct span text,
                                        struct span written, struct omma_error *error) {
  if (find(written, strip_blanks(text), false)) return OMMA_OK;
  return ommai_fail_field(
      error, OMMA_ERROR_ARGUMENT, "messages",
      "messages[%zu]: the chat template changes this text, so it cannot be continued: a thought stands between "
      "\"%s\\n\" and \"\\n%s\\n\\n\"",
      index, template->thought_begin, template->thought_end);
}

/* Rewrites the answer that stands from byte `start` to the end. */
static enum omma_status rewrite_answer(const struct ommai_builtin_template *template, const struct turn *turn, size_t start,
                                       struct ommai_prompt_builder *builder, struct omma_error *error) {
  size_t size = builder->size - start;
  bool running = turn->index > turn->question, last = turn->index + 1 == turn->n_messages;
  char *copy = ommai_duplicate(&builder->allocator, builder->text + start, size);
  if (!copy) return ommai_fail_memory(error, "prompt text", size);
  const struct span text = {copy, copy + size};
  builder->size = start;
  enum omma_status status = write_answer(template, text, running, last, builder, error);
  if (status == OMMA_OK && turn->continued) {
    const struct span written = {builder->text + start, builder->text + builder->size};
    status = check_continued(template, turn->index, text, written, error);
  }
  ommai_release(&builder->allocator, copy, size + 1, 1);
  return status;
}

/* ---- conversations ---- */

static enum omma_status render_turn(const struct ommai_builtin_template *template, const struct omma_message *message,
                                    const struct turn *turn, int64_t temporal_patch_size, struct ommai_prompt_builder *builder,
                                    struct omma_error *error) {
  if (message->role == OMMA_ROLE_SYSTEM && turn->index > 0 && !template->allow_system_anywhere) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "messages", "messages[%zu]: a system message must be the first",
                            turn->index);
  }
  OMMAI_TRY(ommai_prompt_string(builder, template->turn_begin[message->role], error));
  size_t start = builder->size;
  OMMAI_TRY(render_parts(template, message, turn->index, temporal_patch_size, builder, error));
  if (template->thought_begin && message->role == OMMA_ROLE_ASSISTANT) {
    OMMAI_TRY(rewrite_answer(template, turn, start, builder, error));
  }
  return turn->continued ? OMMA_OK : ommai_prompt_string(builder, template->turn_end, error);
}

enum omma_status ommai_builtin_template_render(const struct ommai_builtin_template *template,
                                               const struct omma_message *messages, size_t n_messages,
                                               int64_t temporal_patch_size, bool continue_final_message,
                                               struct ommai_prompt_builder *builder, struct omma_error *error) {
  if (template->default_system && n_messages > 0 && messages[0].role != OMMA_ROLE_SYSTEM) {
    OMMAI_TRY(render_default_system(template, builder, error));
  }
  struct turn turn = {.n_messages = n_messages, .question = find_question(messages, n_messages)};
  for (; turn.index < n_messages; turn.index++) {
    turn.continued = continue_final_message && turn.index + 1 == n_messages;
    OMMAI_TRY(render_turn(template, &messages[turn.index], &turn, temporal_patch_size, builder, error));
  }
  if (continue_final_message && n_messages > 0) return OMMA_OK;
  OMMAI_TRY(ommai_prompt_string(builder, template->turn_begin[OMMA_ROLE_ASSISTANT], error));
  if (!template->thought_begin) return OMMA_OK;
  OMMAI_TRY(ommai_prompt_string(builder, template->thought_begin, error));
  return ommai_prompt_string(builder, "\n", error);
}
