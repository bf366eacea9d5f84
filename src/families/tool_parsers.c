/* The names of tool parsers, and how each finds calls. */
#include <omma/omma.h>
#include <string.h>

#include "base/error.h"

enum omma_status omma_tool_parser_find(const char *name, enum omma_tool_format *format, struct omma_error *error) {
  static const struct {
    const char *name;
    enum omma_tool_format format;
  } parsers[] = {{"hermes", OMMA_TOOLS_OBJECTS}, {"kimi_k2", OMMA_TOOLS_SECTIONS}};
  for (size_t i = 0; name && i < sizeof parsers / sizeof *parsers; i++) {
    if (strcmp(parsers[i].name, name) != 0) continue;
    *format = parsers[i].format;
    return OMMA_OK;
  }
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "tool_call_parser",
                          "no tool call parser \"%.60s\"; there are hermes (Qwen's models) and kimi_k2", name ? name : "");
}
