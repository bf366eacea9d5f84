/* A chat template: cutting and comparing take any bytes, and what is told of them is fit to be printed. */
#include <string.h>

#include "base/allocator.h"
#include "fuzz_input.h"
#include "models/family.h"
#include "models/template_pieces.h"

static void compare(const struct ommai_family *family, const char *text, size_t size) {
  struct ommai_chat_choice choice;
  struct omma_error error;
  if (ommai_chat_template_compare("file", text, size, &ommai_default_allocator, family, &choice, &error) != OMMA_OK) return;
  FUZZ_CHECK(choice.variant && choice.variant->name && memchr(choice.difference, 0, sizeof choice.difference));
  for (const char *c = choice.difference; *c; c++) FUZZ_CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
  ommai_chat_choice_free(&choice);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  const char *text = (const char *)bytes;
  struct ommai_template_pieces pieces;
  struct omma_error error;
  size_t end = 0;
  enum omma_status status = ommai_template_cut(text, size, &ommai_default_allocator, &pieces, &error);
  FUZZ_CHECK(status == OMMA_OK || status == OMMA_ERROR_LIMIT);
  for (size_t i = 0; i < pieces.count; i++) {
    FUZZ_CHECK(pieces.items[i].at >= end && pieces.items[i].at + pieces.items[i].size <= size);
    FUZZ_CHECK(ommai_template_line(text, size, pieces.items[i].at) <= size + 1);
    end = pieces.items[i].at + pieces.items[i].size;
  }
  ommai_template_pieces_free(&pieces);
  compare(&ommai_family_qwen3_vl, text, size);
  compare(&ommai_family_kimi_vl, text, size);
  return 0;
}
