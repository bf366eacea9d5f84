/* The reasoning parsers by name, and the marks that each looks for. */
#include <omma/omma.h>
#include <string.h>

#include "base/error.h"

static const struct {
  const char *parser;
  struct omma_reasoning marks;
} PARSERS[] = {{"qwen3", {"<think>", "</think>", NULL, "<tool_call>"}},
               {"deepseek_r1", {"<think>", "</think>", NULL, NULL}},
               {"holo2", {"<think>", "</think>", NULL, NULL}},
               {"mimo", {"<think>", "</think>", NULL, NULL}},
               {"kimi_k2", {"<think>", "</think>", NULL, "<|tool_calls_section_begin|>"}},
               {"kimi_vl", {"\xe2\x97\x81think\xe2\x96\xb7", "\xe2\x97\x81/think\xe2\x96\xb7", NULL, NULL}}};

enum omma_status omma_reasoning_find(const char *parser, struct omma_reasoning *reasoning, struct omma_error *error) {
  for (size_t i = 0; parser && i < sizeof PARSERS / sizeof PARSERS[0]; i++) {
    if (strcmp(PARSERS[i].parser, parser) != 0) continue;
    *reasoning = PARSERS[i].marks;
    return OMMA_OK;
  }
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "reasoning_parser",
                          "no reasoning parser \"%.60s\"; there are qwen3, deepseek_r1, holo2, mimo, kimi_k2 (all for "
                          "<think>...</think>) and kimi_vl",
                          parser ? parser : "");
}
