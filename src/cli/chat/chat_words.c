#include "cli/chat/chat_words.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli/core/diagnostics.h"
#include "cli/core/pasted_paths.h"
#include "cli/core/paths.h"
#include "cli/model/image_sources.h"
#include "cli/model/model_options.h"

static bool is_directory(const char *word) {
  struct stat found;
  return stat(word, &found) == 0 && S_ISDIR(found.st_mode);
}

static bool is_model(const char *directory) {
  char config[OMMAI_MAX_PATH];
  return ommai_path_join(config, sizeof config, directory, "config.json") && ommai_file_exists(config);
}

static int take_directory(const char *command, const char *word, struct ommai_chat_words *sorted) {
  char pattern[OMMAI_MAX_PATH];
  if (sorted->model) return ommai_usage_error("%s: %s: the model is given already (%s)", command, word, sorted->model);
  if (is_directory(word) && !is_model(word) && !ommai_is_gguf(word)) {
    return ommai_usage_error(
        "%s: %s: a directory without config.json is not a model (%s* gives the images in it, each as an image, and --video %s "
        "all as "
        "the frames of one video)",
        command, word, ommai_directory_pattern(word, pattern, sizeof pattern), word);
  }
  sorted->model = word;
  return OMMAI_EXIT_DONE;
}

/* One word with a slash in it, or with the ending of an image's name. */
static bool looks_like_path(const char *word) {
  return !strpbrk(word, " \t\r\n") && (strchr(word, '/') || ommai_ends_as_image(word));
}

static int take_prompt(const char *command, const char *word, struct ommai_chat_words *sorted) {
  if (looks_like_path(word)) {
    return ommai_failed("%s: %s: no such file or directory (a question that looks like a path goes after --prompt)", command,
                        word);
  }
  if (sorted->prompt) {
    return ommai_usage_error("%s: '%s': the question is '%s' already: put a question of several words in quotes", command, word,
                             sorted->prompt);
  }
  sorted->prompt = word;
  return OMMAI_EXIT_DONE;
}

static int take_word(const char *command, const char *word, struct ommai_chat_words *sorted) {
  if (is_directory(word) || ommai_is_meant_as_gguf(word)) return take_directory(command, word, sorted);
  if (!ommai_is_image_source(word)) return take_prompt(command, word, sorted);
  sorted->images.items[sorted->images.count++] = word;
  return OMMAI_EXIT_DONE;
}

int ommai_chat_words_sort(const char *command, const struct ommai_strings *words, bool model_first,
                          struct ommai_chat_words *sorted) {
  int code = OMMAI_EXIT_DONE;
  size_t first = 0;
  if (model_first && !sorted->model && words->count) sorted->model = words->items[first++];
  for (size_t i = first; i < words->count && code == OMMAI_EXIT_DONE; i++) code = take_word(command, words->items[i], sorted);
  for (size_t i = 0; i < sorted->images.count; i++)
    sorted->n_from_standard_input += ommai_is_standard_input(sorted->images.items[i]);
  return code;
}
