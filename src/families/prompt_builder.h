/* A prompt under construction: text that is tokenised between its images and videos. A family's
 * chat template writes into it. */
#ifndef OMMAI_FAMILIES_PROMPT_BUILDER_H
#define OMMAI_FAMILIES_PROMPT_BUILDER_H

#include <omma/host.h>
#include <omma/omma.h>

/* The largest rendered prompt, in bytes. */
#define OMMAI_PROMPT_MAX_BYTES ((size_t)8 << 20)

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
/* Adds the tokens of a part's temporal patch, or of all, at this place; markers are text that the
 * family writes around them. */
enum omma_status ommai_prompt_image(struct ommai_prompt_builder *builder, const struct omma_part *part, int64_t temporal_patch,
                                    struct omma_error *error);

#endif
