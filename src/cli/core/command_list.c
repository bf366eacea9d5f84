#include "cli/core/command_list.h"

#include <string.h>

#include "cli/core/commands.h"

const struct ommai_command *const ommai_commands[] = {
    &ommai_command_chat,          &ommai_command_run,          &ommai_command_serve,
    &ommai_command_batch,         &ommai_command_embed,        &ommai_command_rerank,
    &ommai_command_read,          &ommai_command_encode,       &ommai_command_preprocess,
    &ommai_command_tokenize,      &ommai_command_detokenize,   &ommai_command_plan,
    &ommai_command_info,          &ommai_command_verify,       &ommai_command_bench_attention,
    &ommai_command_bench_encoder, &ommai_command_bench_decode, &ommai_command_bench_read,
    &ommai_command_bench_serve,   &ommai_command_bench_scale,
};
const size_t ommai_n_commands = sizeof ommai_commands / sizeof *ommai_commands;

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
