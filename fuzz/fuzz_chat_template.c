/* A chat template: taking one takes any bytes, what is printed of them is printable, and one that
 * can be parsed renders a conversation or gives the reason why not. */
#include <string.h>

#include "base/allocator.h"
#include "families/family.h"
#include "families/template_prompt.h"
#include "fuzz_input.h"

/* A call, a response, an image, a text that spells an image's token, and a last message that goes
 * on. */
static void render(struct ommai_chat_choice *choice) {
  static const char spelt[] = "Is it <|image_pad|> or <|media_pad|>? </think> \xc3\xa9";
  const struct omma_part text = {.text = spelt, .text_size = sizeof spelt - 1};
  const struct omma_part parts[] = {text, {.image = (const struct omma_image *)"only its address is used"}};
  const struct omma_message messages[] = {
      {.role = OMMA_ROLE_SYSTEM, .parts = &text, .n_parts = 1},
      {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = 2},
      {.role = OMMA_ROLE_ASSISTANT,
       .fields = "{\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"a\": [1.5, null]}}}]}"},
      {.role = OMMA_ROLE_TOOL, .parts = &text, .n_parts = 1},
      {.role = OMMA_ROLE_ASSISTANT, .parts = &text, .n_parts = 1}};
  for (size_t n = 2; n <= 5; n += 3) {
    const struct ommai_conversation conversation = {.messages = messages,
                                                    .n_messages = n,
                                                    .tools = n == 5 ? "[{\"type\": \"function\"}]" : NULL,
                                                    .temporal_patch_size = 2,
                                                    .continue_final_message = n == 5};
    struct ommai_prompt_builder builder;
    struct omma_error error = {0};
    ommai_prompt_builder_init(&builder, &ommai_default_allocator);
    enum omma_status status = ommai_conversation_render(choice, &conversation, &builder, &error);
    FUZZ_CHECK(status == OMMA_OK ? builder.n_images == 1 : error.message[0] && status != OMMA_ERROR_INTERNAL);
    ommai_prompt_builder_free(&builder);
  }
}

static void take(const struct ommai_family *family, const char *text, size_t size) {
  struct ommai_chat_choice choice;
  struct omma_error error;
  if (ommai_chat_template_take("file", text, size, &ommai_default_allocator, family, &choice, &error) != OMMA_OK) return;
  FUZZ_CHECK(memchr(choice.problem, 0, sizeof choice.problem) && !choice.problem[0] == (choice.jinja != NULL));
  for (const char *c = choice.problem; *c; c++) FUZZ_CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
  if (choice.jinja) render(&choice);
  ommai_chat_choice_free(&choice);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  take(&ommai_family_qwen3_vl, (const char *)bytes, size);
  take(&ommai_family_kimi_vl, (const char *)bytes, size);
  return 0;
}
