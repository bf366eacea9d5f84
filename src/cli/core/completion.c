#include "cli/core/completion.h"

#include <string.h>

#include "cli/core/command_list.h"
#include "cli/core/completion_scripts.h"
#include "cli/core/diagnostics.h"

static const char *const shells[] = {"bash", "zsh", "fish", NULL};

struct completion {
  FILE *out;
  const char *wanted; /* what the candidates begin with */
};

/* Offers prefix + word, if it begins with what is wanted. */
static void offer(const struct completion *completion, const char *prefix, size_t prefix_size, const char *word,
                  const char *description) {
  char candidate[128];
  snprintf(candidate, sizeof candidate, "%.*s%s", (int)prefix_size, prefix, word);
  if (strncmp(candidate, completion->wanted, strlen(completion->wanted)) != 0) return;
  fprintf(completion->out, "%s\t%s\n", candidate, description);
}

static void offer_files(const struct completion *completion) { fputs(":files\n", completion->out); }

/* The first words of all commands, each once. */
static void offer_commands(const struct completion *completion) {
  const char *group = "";
  for (size_t i = 0; i < ommai_n_commands; i++) {
    const struct ommai_command *command = ommai_commands[i];
    const char *space = strchr(command->name, ' ');
    size_t size = space ? (size_t)(space - command->name) : strlen(command->name);
    if (space && strncmp(group, command->name, size + 1) == 0) continue;
    if (space) group = command->name;
    offer(completion, command->name, size, "", space ? "benchmarks" : command->summary);
    if (command->alias) offer(completion, "", 0, command->alias, command->summary);
  }
}

static void offer_second_words(const struct completion *completion, const char *first) {
  for (size_t i = 0; i < ommai_n_commands; i++) {
    const char *second = ommai_command_second_word(ommai_commands[i], first);
    if (second) offer(completion, "", 0, second, ommai_commands[i]->summary);
  }
}

static void offer_options(const struct completion *completion, const struct ommai_command *command) {
  for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) {
    char letter[2] = {c.option->letter};
    offer(completion, "--", 2, c.option->name, c.option->help);
    if (c.option->negatable) offer(completion, "--no-", 5, c.option->name, "turn it off");
    if (c.option->letter) offer(completion, "-", 1, letter, c.option->help);
  }
  offer(completion, "--help", 6, "", "options with their defaults and examples");
  offer(completion, "-h", 2, "", "options with their defaults and examples");
}

/* Whether the help calls the value of an option something that is a file or a folder. */
static bool is_path(const char *value) {
  static const char *const paths[] = {"FILE", "DIR", "PATH", "FRAMES", "SCHEMA", "GBNF"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    if (strncmp(value, paths[i], strlen(paths[i])) == 0) return true;
  }
  return strncmp(value, "OUT.", 4) == 0;
}

/* Values of an option; `prefix` is what of the word stands before the value. */
static void offer_values(const struct completion *completion, const struct ommai_option *option, const char *prefix,
                         size_t prefix_size) {
  const char *choice;
  for (int i = 0; (choice = ommai_option_choice(option, i)); i++) offer(completion, prefix, prefix_size, choice, option->help);
  if (option->value && is_path(option->value)) offer_files(completion);
}

static const struct ommai_option *find_option(const struct ommai_command *command, const char *word) {
  for (struct ommai_option_cursor c = {0}; ommai_next_option(command, &c);) {
    bool is_letter = word[1] && !word[2] && word[1] == c.option->letter;
    if (is_letter || (word[1] == '-' && ommai_option_spelled(word + 2, strcspn(word + 2, "="), c.option->name)))
      return c.option;
  }
  return NULL;
}

/* Completes a word of a command's options and arguments, which are words[n]. */
static void complete_arguments(const struct completion *completion, const struct ommai_command *command, size_t n,
                               char *const *words) {
  const struct ommai_option *waits = NULL; /* for a value */
  bool options_end = false;
  for (size_t i = 0; i + 1 < n; i++) {
    bool is_value = waits != NULL;
    waits = NULL;
    if (is_value || options_end || words[i][0] != '-') continue;
    options_end = strcmp(words[i], "--") == 0;
    const struct ommai_option *option = find_option(command, words[i]);
    if (option && option->type != OMMAI_OPTION_FLAG && !strchr(words[i], '=')) waits = option;
  }
  const char *word = completion->wanted, *equals = strchr(word, '=');
  const struct ommai_option *option = !options_end && word[0] == '-' && equals ? find_option(command, word) : NULL;
  if (waits) {
    offer_values(completion, waits, "", 0);
  } else if (option) {
    offer_values(completion, option, word, (size_t)(equals - word) + 1);
  } else if (word[0] == '-' && !options_end) {
    offer_options(completion, command);
  } else if (command->max_arguments) {
    offer_files(completion);
  }
}

static void offer_others(const struct completion *completion) {
  offer(completion, "", 0, "help", "all commands, or a command's options");
  offer(completion, "", 0, "completion", "print the completion script of a shell");
  offer(completion, "", 0, "--help", "all commands");
  offer(completion, "", 0, "--version", "the version");
}

void ommai_complete(size_t n, char *const *words, FILE *out) {
  struct completion completion = {out, n ? words[n - 1] : ""};
  int n_words;
  bool helps = n > 1 && strcmp(words[0], "help") == 0; /* a command's name follows it */
  const struct ommai_command *command = n > 1 ? ommai_command_find(n - 1, words, &n_words) : NULL;
  if (command) {
    complete_arguments(&completion, command, n - (size_t)n_words, words + n_words);
  } else if (n <= 1 || (helps && n == 2)) {
    offer_commands(&completion);
    if (!helps) offer_others(&completion);
  } else if (n == 2 && strcmp(words[0], "completion") == 0) {
    for (const char *const *shell = shells; *shell; shell++) offer(&completion, "", 0, *shell, "");
  } else if (n == (helps ? 3 : 2)) {
    offer_second_words(&completion, words[n - 2]);
  }
}

int ommai_completion_script(size_t n, char *const *words) {
  const char *shell = n ? words[0] : "";
  if (n == 1 && strcmp(shell, "bash") == 0) {
    fwrite(ommai_completion_bash, 1, ommai_completion_bash_size, stdout);
  } else if (n == 1 && strcmp(shell, "zsh") == 0) {
    fwrite(ommai_completion_zsh, 1, ommai_completion_zsh_size, stdout);
  } else if (n == 1 && strcmp(shell, "fish") == 0) {
    fwrite(ommai_completion_fish, 1, ommai_completion_fish_size, stdout);
  } else {
    return ommai_usage_error(
        "completion: expected bash, zsh or fish (usage: omma completion SHELL; `omma help` shows how to use it)");
  }
  return ommai_finish_output();
}
