/* The text of an answer that may hold tool calls. Byte 0 chooses their form; what comes out must
 * not depend on how the text is cut. */
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "fuzz_input.h"
#include "server/api/tool_calls.h"

struct outcome {
  struct ommai_tool_parser parser;
  struct ommai_text content;
};

/* Pieces of `step` bytes, each a little larger than the one before. */
static void parse(enum ommai_tool_format format, const char *text, size_t size, size_t step, struct outcome *outcome) {
  outcome->content = ommai_text_of(&ommai_default_allocator);
  FUZZ_CHECK(ommai_tool_parser_init(&outcome->parser, format, "f", &ommai_default_allocator));
  for (size_t at = 0, n; at < size; at += n) {
    n = step++ < size - at ? step : size - at;
    FUZZ_CHECK(ommai_tool_parser_feed(&outcome->parser, text + at, n, &outcome->content));
    ommai_tool_parser_forget(&outcome->parser);
  }
  FUZZ_CHECK(ommai_tool_parser_finish(&outcome->parser, &outcome->content));
  FUZZ_CHECK(outcome->parser.n_calls <= OMMAI_MAX_TOOL_CALLS && outcome->content.size <= size);
}

static void expect_same(const struct ommai_text *a, const struct ommai_text *b) {
  FUZZ_CHECK(a->size == b->size && (!a->size || memcmp(a->data, b->data, a->size) == 0));
}

static void release(struct outcome *outcome) {
  ommai_tool_parser_free(&outcome->parser);
  ommai_text_free(&outcome->content);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  struct outcome whole, cut;
  if (size < 1) return 0;
  enum ommai_tool_format format = (enum ommai_tool_format)(bytes[0] % (OMMAI_TOOLS_NAMED + 1));
  parse(format, (const char *)bytes + 1, size - 1, size, &whole);
  parse(format, (const char *)bytes + 1, size - 1, bytes[0] / 8, &cut);
  expect_same(&whole.content, &cut.content);
  FUZZ_CHECK(whole.parser.n_calls == cut.parser.n_calls && whole.parser.broken == cut.parser.broken);
  for (size_t i = 0; i < whole.parser.n_calls; i++) {
    const struct ommai_tool_call *a = &whole.parser.calls[i], *b = &cut.parser.calls[i];
    expect_same(&a->name, &b->name);
    expect_same(&a->arguments, &b->arguments);
    FUZZ_CHECK(a->complete == b->complete && a->name.size > 0 && memchr(a->id, 0, sizeof a->id));
  }
  release(&whole);
  release(&cut);
  return 0;
}
