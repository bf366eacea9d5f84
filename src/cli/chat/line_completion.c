#include "cli/chat/line_completion.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli/chat/chat_session.h"
#include "cli/core/pasted_paths.h"

static void complete_command(const char *typed, ommai_take_completion take, void *context) {
  size_t size = strlen(typed);
  const char *command;
  for (size_t i = 0; size && (command = ommai_session_command(i)); i++) {
    if (strncmp(command, typed, size) == 0) take(context, command, command + size);
  }
}

/* `name` as it is written after an open quote, or after none (0), and `ending` as it is. False when
 * there is no room. */
static bool quote_name(const char *name, char quote, const char *ending, char *out, size_t size) {
  const char *special = quote == '\'' ? "'" : quote ? "\"\\" : " \t'\"\\";
  /* Between single quotes nothing can be escaped: they are closed and opened again around the
   * escape. */
  const char *before = quote == '\'' ? "'\\" : "\\", *after = quote == '\'' ? "'" : "";
  size_t length = 0;
  for (; *name; name++) {
    bool escaped = strchr(special, *name) != NULL;
    length += (size_t)snprintf(out + length, size - length, "%s%c%s", escaped ? before : "", *name, escaped ? after : "");
    if (length >= size) return false;
  }
  return (size_t)snprintf(out + length, size - length, "%s", ending) < size - length;
}

/* Names with control characters would confuse the line and the terminal. */
static int is_shown(const struct dirent *entry) {
  const char *name = entry->d_name;
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return false;
  while ((unsigned char)*name >= 0x20 && *name != 0x7f) name++;
  return !*name;
}

static bool is_folder(const char *folder, const char *name) {
  char path[OMMAI_MAX_PATH];
  struct stat status;
  return ommai_path_join(path, sizeof path, folder, name) && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static void complete_path(const char *typed, ommai_take_completion take, void *context) {
  char path[OMMAI_MAX_PATH], rest[OMMAI_MAX_PATH];
  const char *folder = ".", *start = path;
  char quote;
  if (!ommai_last_word(typed, path, sizeof path, &quote)) return;
  char *slash = strrchr(path, '/');
  if (slash) {
    start = slash + 1;
    *slash = '\0';
    folder = slash == path ? "/" : path;
  }
  struct dirent **entries;
  int count = scandir(folder, &entries, is_shown, alphasort);
  if (count < 0) return;
  size_t size = strlen(start);
  const char *closed = quote == '\'' ? "' " : quote ? "\" " : " ";
  for (int i = 0; i < count; i++) {
    const char *name = entries[i]->d_name;
    if (strncmp(name, start, size) == 0 && (name[0] != '.' || start[0] == '.')) {
      const char *ending = is_folder(folder, name) ? "/" : closed;
      if (quote_name(name + size, quote, ending, rest, sizeof rest)) take(context, name, rest);
    }
    free(entries[i]);
  }
  free(entries);
}

void ommai_complete_line(const char *typed, ommai_take_completion take, void *context) {
  complete_command(typed, take, context);
  complete_path(typed, take, context);
}
