#include "models/chat_form.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"

double ommai_video_fps(const struct omma_video *video) { return video->fps > 0 ? video->fps : OMMAI_DEFAULT_VIDEO_FPS; }

/* One run of tokens between its markers. */
static enum omma_status render_run(const struct ommai_chat_form *form, const struct omma_part *part, int64_t plane,
                                   struct ommai_prompt_builder *builder, struct omma_error *error) {
  OMMAI_TRY(ommai_prompt_string(builder, form->picture_begin, error));
  OMMAI_TRY(ommai_prompt_picture(builder, part, plane, error));
  return ommai_prompt_string(builder, form->picture_end, error);
}

/* "<1.5 seconds>", whatever the process's locale writes for the point. */
static enum omma_status render_time(double seconds, struct ommai_prompt_builder *builder, struct omma_error *error) {
  char number[64], text[96];
  int length = snprintf(number, sizeof number, "%.1f", seconds);
  snprintf(text, sizeof text, "<%.*s.%c seconds>", (int)strspn(number, "0123456789"), number, number[length - 1]);
  return ommai_prompt_string(builder, text, error);
}

/* A plane's time is the middle between its first and last frame's. Source: _calculate_timestamps of the official processor. */
static enum omma_status render_timed(const struct ommai_chat_form *form, const struct omma_part *part, int64_t plane_frames,
                                     struct ommai_prompt_builder *builder, struct omma_error *error) {
  int64_t last = (int64_t)part->video->n_frames - 1;
  double fps = ommai_video_fps(part->video);
  OMMAI_TRY(ommai_prompt_string(builder, form->picture_begin, error));
  for (int64_t plane = 0, frame = 0; frame <= last; plane++, frame += plane_frames) {
    double begin = (double)frame / fps, end = (double)ommai_min_i64(frame + plane_frames - 1, last) / fps;
    OMMAI_TRY(render_time((begin + end) / 2, builder, error));
    OMMAI_TRY(render_run(form, part, plane, builder, error));
  }
  return ommai_prompt_string(builder, form->picture_end, error);
}

/* Parts of a turn in order; a picture is its markers with nothing between. */
static enum omma_status render_parts(const struct ommai_chat_form *form, const struct omma_message *message, size_t index,
                                     int64_t plane_frames, struct ommai_prompt_builder *builder, struct omma_error *error) {
  for (size_t i = 0; i < message->n_parts; i++) {
    const struct omma_part *part = &message->parts[i];
    if (!part->image && !part->video) {
      OMMAI_TRY(ommai_prompt_text(builder, part->text, part->text_size, error));
      continue;
    }
    if (message->role != OMMA_ROLE_USER && !form->pictures_anywhere) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "messages", "messages[%zu]: only user messages can hold %s", index,
                              part->video ? "videos" : "pictures");
    }
    OMMAI_TRY(part->video && form->video == OMMAI_VIDEO_TIMED ? render_timed(form, part, plane_frames, builder, error)
                                                              : render_run(form, part, OMMAI_ALL_PLANES, builder, error));
  }
  return OMMA_OK;
}

static enum omma_status render_default_system(const struct ommai_chat_form *form, struct ommai_prompt_builder *builder,
                                              struct omma_error *error) {
  OMMAI_TRY(ommai_prompt_string(builder, form->turn_begin[OMMA_ROLE_SYSTEM], error));
  OMMAI_TRY(ommai_prompt_string(builder, form->default_system, error));
  return ommai_prompt_string(builder, form->turn_end, error);
}

enum omma_status ommai_chat_form_render(const struct ommai_chat_form *form, const struct omma_message *messages,
                                        size_t n_messages, int64_t plane_frames, bool continue_final_message,
                                        struct ommai_prompt_builder *builder, struct omma_error *error) {
  if (form->default_system && n_messages > 0 && messages[0].role != OMMA_ROLE_SYSTEM) {
    OMMAI_TRY(render_default_system(form, builder, error));
  }
  for (size_t i = 0; i < n_messages; i++) {
    if (messages[i].role == OMMA_ROLE_SYSTEM && i > 0 && !form->late_system) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "messages", "messages[%zu]: a system message must be the first", i);
    }
    OMMAI_TRY(ommai_prompt_string(builder, form->turn_begin[messages[i].role], error));
    OMMAI_TRY(render_parts(form, &messages[i], i, plane_frames, builder, error));
    if (i + 1 == n_messages && continue_final_message) return OMMA_OK;
    OMMAI_TRY(ommai_prompt_string(builder, form->turn_end, error));
  }
  return ommai_prompt_string(builder, form->turn_begin[OMMA_ROLE_ASSISTANT], error);
}
