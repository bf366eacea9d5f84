#include "cli/core/command_list.h"

#include <string.h>

/* The number of words of `name` that stand at the beginning of the words; 0 when it is another
 * command. */
static int match_name(const char *name, size_t n, char *const *words) {
  const char *space = strchr(name, ' ');
  size_t first = space ? (size_t)(space - name) : strlen(name);
  if (n < 1 || strlen(words[0]) != first || memcmp(words[0], name, first) != 0) return 0;
  if (!space) return 1;
  return n >= 2 && strcmp(words[1], space + 1) == 0 ? 2 : 0;
}

const struct ommai_command *ommai_command_find(size_t n, char *const *words, int *n_words) {
  for (size_t i = 0; i < ommai_n_commands; i++) {
    *n_words = match_name(ommai_commands[i]->name, n, words);
    if (*n_words == 0 && ommai_commands[i]->alias) *n_words = match_name(ommai_commands[i]->alias, n, words);
    if (*n_words) return ommai_commands[i];
  }
  return NULL;
}

const char *ommai_command_second_word(const struct ommai_command *command, const char *word) {
  size_t size = strlen(word);
  return size && strncmp(command->name, word, size) == 0 && command->name[size] == ' ' ? command->name + size + 1 : NULL;
}

const struct ommai_command *ommai_command_elsewhere(size_t n, char *const *words) {
  bool completes = n && strcmp(words[0], "__complete") == 0, helps = n && strcmp(words[0], "help") == 0;
  size_t first = completes || helps;
  int n_words;
  if (helps && n > 1 && strcmp(words[1], "--man") == 0) first++;
  if (completes) n--; /* the last word is not whole yet */
  const struct ommai_command *command = first < n ? ommai_command_find(n - first, words + first, &n_words) : NULL;
  return command && command->program ? command : NULL;
}
