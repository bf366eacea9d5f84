#include "families/prompt_builder.h"

#include <string.h>

#include "base/allocator.h"
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

enum omma_status ommai_prompt_image(struct ommai_prompt_builder *builder, const struct omma_part *part, int64_t temporal_patch,
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
