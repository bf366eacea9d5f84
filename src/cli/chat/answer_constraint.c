#include "cli/chat/answer_constraint.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"

enum { MAX_BYTES = 1 << 20 };

/* A schema begins with a brace (or is true or false); a grammar has a rule. What does not is a
 * file's name. */
static bool is_text(enum omma_grammar_kind kind, const char *value) {
  if (kind == OMMA_GRAMMAR_REGEX) return true;
  if (kind == OMMA_GRAMMAR_GBNF) return strstr(value, "::=") != NULL;
  value += strspn(value, " \t\r\n");
  return value[0] == '{' || !strcmp(value, "true") || !strcmp(value, "false");
}

static int read_text(const char *command, const char *value, struct ommai_answer_constraint *constraint) {
  struct omma_error error;
  constraint->options.text = value;
  constraint->options.text_size = strlen(value);
  if (is_text(constraint->options.kind, value)) return OMMAI_EXIT_DONE;
  if (ommai_file_read(value, MAX_BYTES, &ommai_default_allocator, &constraint->text, &constraint->options.text_size, &error) !=
      OMMA_OK)
    return ommai_usage_error("%s: %s: neither a text of that kind nor a file: %s", command, constraint->option, error.message);
  constraint->options.text = constraint->text;
  return OMMAI_EXIT_DONE;
}

int ommai_answer_constraint_read(const char *command, const struct ommai_constraint_values *values,
                                 struct ommai_answer_constraint *constraint) {
  const struct {
    const char *value, *option;
    enum omma_grammar_kind kind;
  } ways[] = {{values->json_schema, "--json-schema", OMMA_GRAMMAR_JSON_SCHEMA},
              {values->regex, "--regex", OMMA_GRAMMAR_REGEX},
              {values->grammar, "--grammar", OMMA_GRAMMAR_GBNF}};
  const char *value = NULL;
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    if (!ways[i].value) continue;
    if (value)
      return ommai_usage_error("%s: %s: only one of it and %s can be given", command, ways[i].option, constraint->option);
    value = ways[i].value;
    constraint->option = ways[i].option;
    constraint->options.kind = ways[i].kind;
  }
  return value ? read_text(command, value, constraint) : OMMAI_EXIT_DONE;
}

void ommai_answer_constraint_release(struct ommai_answer_constraint *constraint) {
  if (constraint->text) ommai_release(&ommai_default_allocator, constraint->text, constraint->options.text_size + 1, 1);
}

enum omma_status ommai_answer_constraint_compile(const struct ommai_answer_constraint *constraint,
                                                 const struct omma_model *model, struct omma_grammar **grammar,
                                                 struct omma_error *error) {
  *grammar = NULL;
  if (!constraint->option) return OMMA_OK;
  enum omma_status status = omma_grammar_create(model, &constraint->options, grammar, error);
  if (status != OMMA_OK) ommai_error_prefix(error, "%s", constraint->option);
  return status;
}
