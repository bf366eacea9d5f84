#include "cli/core/option_hints.h"

#include "cli/core/foreign_options.h"

const struct ommai_option_hint *ommai_option_hint(const char *word, size_t size) {
  const struct ommai_option_hint *hint = ommai_option_hints;
  while (hint->word && !ommai_option_spelled(word, size, hint->word)) hint++;
  return hint->word ? hint : NULL;
}
