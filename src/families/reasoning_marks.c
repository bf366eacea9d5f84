/* The reasoning parsers by name, and the marks that each looks for. */
#include <omma/omma.h>
#include <string.h>

#include "base/error.h"

static const struct {
  const char *parser;
  struct omma_reasoning marks;
} PARSERS[] = {{"qwen3", {"<think>", "</think>", NULL}},
               {"deepseek_r1", {"<think>", "</think>", NULL}},
               {"holo2", {"<think>", "</think>", NULL}},
               {"mimo", {"<think>", "</think>", NULL}},
               {"kimi_k2", {"<think>", "</think>", NULL}},
               {"kimi_vl", {"\xe2\x97\x81think\xe2\x96\xb7", "\xe2\x97\x81/think\xe2\x96\xb7", NULL}}};

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
