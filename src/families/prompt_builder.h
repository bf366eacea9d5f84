/* A prompt under construction: text that is tokenised between its images and videos. */
#pragma once

#include <omma/host.h>
#include <omma/omma.h>

/* The largest rendered prompt, in bytes. */
#define OMMAI_PROMPT_MAX_BYTES ((size_t)8 << 20)

#define OMMAI_DEFAULT_VIDEO_FPS 2.0

/* How the tokens of a video stand, always between the markers of an image. */
enum ommai_video_layout {
  OMMAI_VIDEO_NONE,  /* the family takes no videos */
  OMMAI_VIDEO_WHOLE, /* all in one run */
  /* each temporal patch's between markers of its own, after its time: "<1.5 seconds>" */
  OMMAI_VIDEO_TIMED
};

/* What a family's chat templates write for images and videos. */
struct ommai_media_marks {
  const char *image_begin, *image_end; /* around an image's tokens */
  /* between them, once for an image or video; NULL: the family takes no videos */
  const char *image_token, *video_token;
  enum ommai_video_layout video;
};

/* All temporal patches of an image or video, in one run. */
#define OMMAI_ALL_TEMPORAL_PATCHES (-1)

/* A run of an image's or video's tokens in the rendered text: it stands where `at` bytes of text
 * are before it. */
struct ommai_prompt_image {
  size_t at;
  const struct omma_part *part;
  /* OMMAI_ALL_TEMPORAL_PATCHES, or the one whose tokens stand here: 0 first, the others of the
   * part follow in order */
  int64_t temporal_patch;
};

struct ommai_prompt_builder {
  struct omma_allocator allocator;
  char *text;
  size_t size, capacity;
  struct ommai_prompt_image *images;
  size_t n_images, image_capacity;
};

void ommai_prompt_builder_init(struct ommai_prompt_builder *builder, const struct omma_allocator *allocator);
void ommai_prompt_builder_free(struct ommai_prompt_builder *builder);

/* Adds text. Errors: LIMIT, MEMORY. */
enum omma_status ommai_prompt_text(struct ommai_prompt_builder *builder, const char *text, size_t size,
                                   struct omma_error *error);
/* The same for a constant string. */
enum omma_status ommai_prompt_string(struct ommai_prompt_builder *builder, const char *text, struct omma_error *error);
/* Adds what stands in place of an image's or video's token: its tokens, for a timed video with
 * times and markers between. temporal_patch_size: frames that make a temporal patch of a video.
 * Errors: LIMIT, MEMORY. */
enum omma_status ommai_prompt_media(struct ommai_prompt_builder *builder, const struct ommai_media_marks *marks,
                                    const struct omma_part *part, int64_t temporal_patch_size, struct omma_error *error);

/* The frames a second of a video. */
double ommai_video_fps(const struct omma_video *video);
