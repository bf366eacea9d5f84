/* A family's built-in chat template, as strings: what stands around turns, images and videos. */
#ifndef OMMAI_FAMILIES_BUILTIN_TEMPLATE_H
#define OMMAI_FAMILIES_BUILTIN_TEMPLATE_H

#include "families/prompt_builder.h"

#define OMMAI_CHAT_N_ROLES (OMMA_ROLE_ASSISTANT + 1)

/* How the tokens of a video stand, always between the markers of an image. */
enum ommai_video_layout {
  OMMAI_VIDEO_NONE,  /* the family takes no videos */
  OMMAI_VIDEO_WHOLE, /* all in one run */
  /* each temporal patch's between markers of its own, after its time: "<1.5 seconds>" */
  OMMAI_VIDEO_TIMED
};

#define OMMAI_DEFAULT_VIDEO_FPS 2.0

struct ommai_builtin_template {
  /* by role; the assistant's also ends a prompt that asks for an answer */
  const char *turn_begin[OMMAI_CHAT_N_ROLES];
  /* Answers begin with a thought between these marks, and a prompt that asks for one has
   * thought_begin and a line end after. Of earlier turns only what follows a thought is rendered.
   * NULL: answers are text as any other. */
  const char *thought_begin, *thought_end;
  const char *turn_end;
  const char *image_begin, *image_end; /* around an image's tokens */
  /* that a template writes between them; NULL: the family takes no videos */
  const char *image_token, *video_token;
  enum ommai_video_layout video;
  /* the first turn where the conversation does not begin with a system message; or NULL */
  const char *default_system;
  bool allow_system_anywhere;         /* system messages may follow others */
  bool images_in[OMMAI_CHAT_N_ROLES]; /* which messages hold images */
};

/* The frames a second of a video. */
double ommai_video_fps(const struct omma_video *video);

/* Writes what stands between the markers that a template puts around an image or video. Errors:
 * LIMIT, MEMORY. */
enum omma_status ommai_builtin_template_media(const struct ommai_builtin_template *template, const struct omma_part *part,
                                              int64_t temporal_patch_size, struct ommai_prompt_builder *builder,
                                              struct omma_error *error);

/* Writes the conversation by this template. temporal_patch_size: frames that make a temporal patch
 * of a video. continue_final_message: the last message stays open and no answer is asked for.
 * Errors: ARGUMENT (a role or part where the template has no place for it, or a last message that
 * it would change), LIMIT, MEMORY. */
enum omma_status ommai_builtin_template_render(const struct ommai_builtin_template *template,
                                               const struct omma_message *messages, size_t n_messages,
                                               int64_t temporal_patch_size, bool continue_final_message,
                                               struct ommai_prompt_builder *builder, struct omma_error *error);

#endif
