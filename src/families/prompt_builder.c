#include "families/prompt_builder.h"

#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"

void ommai_prompt_builder_init(struct ommai_prompt_builder *builder, const struct omma_allocator *allocator) {
  *builder = (struct ommai_prompt_builder){.allocator = *allocator};
}

void ommai_prompt_builder_free(struct ommai_prompt_builder *builder) {
  ommai_release(&builder->allocator, builder->text, builder->capacity, 1);
  ommai_release(&builder->allocator, builder->images, builder->image_capacity, sizeof *builder->images);
}

/* A larger copy of `old`; NULL when memory is out, with the old one untouched. */
static void *grow(const struct omma_allocator *allocator, void *old, size_t used, size_t old_capacity, size_t capacity,
                  size_t element) {
  void *larger = ommai_allocate(allocator, capacity, element);
  if (!larger) return NULL;
  if (used) memcpy(larger, old, used * element);
  ommai_release(allocator, old, old_capacity, element);
  return larger;
}

enum omma_status ommai_prompt_text(struct ommai_prompt_builder *builder, const char *text, size_t size,
                                   struct omma_error *error) {
  if (size > OMMAI_PROMPT_MAX_BYTES - builder->size) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "messages", "messages: more than %zu bytes of text",
                            OMMAI_PROMPT_MAX_BYTES);
  }
  if (builder->size + size > builder->capacity) {
    size_t capacity = 2 * (builder->size + size) + 256;
    char *larger = grow(&builder->allocator, builder->text, builder->size, builder->capacity, capacity, 1);
    if (!larger) return ommai_fail_memory(error, "prompt text", capacity);
    builder->text = larger;
    builder->capacity = capacity;
  }
  if (size) memcpy(builder->text + builder->size, text, size);
  builder->size += size;
  return OMMA_OK;
}

enum omma_status ommai_prompt_string(struct ommai_prompt_builder *builder, const char *text, struct omma_error *error) {
  return ommai_prompt_text(builder, text, strlen(text), error);
}

/* Adds the tokens of a part's temporal patch, or of all, at this place. */
static enum omma_status add_image(struct ommai_prompt_builder *builder, const struct omma_part *part, int64_t temporal_patch,
                                  struct omma_error *error) {
  if (builder->n_images == builder->image_capacity) {
    size_t capacity = 2 * builder->image_capacity + 8;
    struct ommai_prompt_image *larger =
        grow(&builder->allocator, builder->images, builder->n_images, builder->image_capacity, capacity, sizeof *larger);
    if (!larger) return ommai_fail_memory(error, "prompt images", capacity * sizeof *larger);
    builder->images = larger;
    builder->image_capacity = capacity;
  }
  builder->images[builder->n_images++] = (struct ommai_prompt_image){builder->size, part, temporal_patch};
  return OMMA_OK;
}

double ommai_video_fps(const struct omma_video *video) { return video->fps > 0 ? video->fps : OMMAI_DEFAULT_VIDEO_FPS; }

/* "<1.5 seconds>", whatever the process's locale writes for the point. */
static enum omma_status add_time(struct ommai_prompt_builder *builder, double seconds, struct omma_error *error) {
  char number[64], text[96];
  int length = snprintf(number, sizeof number, "%.1f", seconds);
  snprintf(text, sizeof text, "<%.*s.%c seconds>", (int)strspn(number, "0123456789"), number, number[length - 1]);
  return ommai_prompt_string(builder, text, error);
}

/* A temporal patch's time is the middle between its first and last frame's. Source:
 * _calculate_timestamps of the official processor. */
static enum omma_status add_timed(struct ommai_prompt_builder *builder, const struct ommai_media_marks *marks,
                                  const struct omma_part *part, int64_t temporal_patch_size, struct omma_error *error) {
  int64_t last = (int64_t)part->video->n_frames - 1;
  double fps = ommai_video_fps(part->video);
  for (int64_t temporal_patch = 0, frame = 0; frame <= last; temporal_patch++, frame += temporal_patch_size) {
    double begin = (double)frame / fps, end = (double)ommai_min_i64(frame + temporal_patch_size - 1, last) / fps;
    OMMAI_TRY(add_time(builder, (begin + end) / 2, error));
    OMMAI_TRY(ommai_prompt_string(builder, marks->image_begin, error));
    OMMAI_TRY(add_image(builder, part, temporal_patch, error));
    OMMAI_TRY(ommai_prompt_string(builder, marks->image_end, error));
  }
  return OMMA_OK;
}

enum omma_status ommai_prompt_media(struct ommai_prompt_builder *builder, const struct ommai_media_marks *marks,
                                    const struct omma_part *part, int64_t temporal_patch_size, struct omma_error *error) {
  if (part->video && marks->video == OMMAI_VIDEO_TIMED) return add_timed(builder, marks, part, temporal_patch_size, error);
  return add_image(builder, part, OMMAI_ALL_TEMPORAL_PATCHES, error);
}
