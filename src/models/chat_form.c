#include "models/chat_form.h"

#include "base/error.h"

/* Parts of a turn in order; a picture is its markers with nothing between. */
static enum omma_status render_parts(const struct ommai_chat_form *form, const struct omma_message *message, size_t index,
                                     struct ommai_prompt_builder *builder, struct omma_error *error) {
  for (size_t i = 0; i < message->n_parts; i++) {
    const struct omma_part *part = &message->parts[i];
    if (!part->image) {
      OMMAI_TRY(ommai_prompt_text(builder, part->text, part->text_size, error));
      continue;
    }
    if (message->role != OMMA_ROLE_USER && !form->pictures_anywhere) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "messages", "messages[%zu]: only user messages can hold pictures",
                              index);
    }
    OMMAI_TRY(ommai_prompt_string(builder, form->picture_begin, error));
    OMMAI_TRY(ommai_prompt_picture(builder, part, error));
    OMMAI_TRY(ommai_prompt_string(builder, form->picture_end, error));
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
                                        size_t n_messages, bool continue_final_message, struct ommai_prompt_builder *builder,
                                        struct omma_error *error) {
  if (form->default_system && n_messages > 0 && messages[0].role != OMMA_ROLE_SYSTEM) {
    OMMAI_TRY(render_default_system(form, builder, error));
  }
  for (size_t i = 0; i < n_messages; i++) {
    if (messages[i].role == OMMA_ROLE_SYSTEM && i > 0 && !form->late_system) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "messages", "messages[%zu]: a system message must be the first", i);
    }
    OMMAI_TRY(ommai_prompt_string(builder, form->turn_begin[messages[i].role], error));
    OMMAI_TRY(render_parts(form, &messages[i], i, builder, error));
    if (i + 1 == n_messages && continue_final_message) return OMMA_OK;
    OMMAI_TRY(ommai_prompt_string(builder, form->turn_end, error));
  }
  return ommai_prompt_string(builder, form->turn_begin[OMMA_ROLE_ASSISTANT], error);
}
