#include "cli/chat/chat_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "cli/core/diagnostics.h"
#include "cli/core/nearest.h"

#define MAX_VALUE 1024

/* A text that a setting points to. */
struct ommai_kept_text {
  struct ommai_kept_text *next;
  const char *item; /* the text, as the only one of a list */
  char text[];
};

static void *field_of(const struct ommai_chat_settings *settings, const struct ommai_option *option) {
  return (char *)settings->values + option->offset;
}

/* The setting text[size], also by the name of another program's option. */
static const struct ommai_option *find(const struct ommai_chat_settings *settings, const char *text, size_t size) {
  const struct ommai_option *option = ommai_option_find(settings->command, text, size);
  char word[64];
  if (option || size + sizeof "--" > sizeof word) return option;
  snprintf(word, sizeof word, "--%.*s", (int)size, text);
  for (char *at = word; *at; at++) {
    if (*at == '_') *at = '-';
  }
  return ommai_option_find_elsewhere(settings->command, word, strlen(word));
}

static void show(const struct ommai_chat_settings *settings, const struct ommai_option *option) {
  char about[OMMAI_OPTION_VALUE_SIZE], value[64];
  const void *field = field_of(settings, option);
  ommai_option_describe_value(option, about, sizeof about);
  ommai_option_show(option, settings->values, value, sizeof value);
  if (option->type != OMMAI_OPTION_STRINGS) {
    printf("%-20s %-8s %s\n", option->name, value, about);
    return;
  }
  const struct ommai_strings *list = field;
  printf("%-20s %s", option->name, list->count ? "" : value);
  for (size_t i = 0; i < list->count; i++) printf("%s'%s'", i ? " " : "", list->items[i]);
  puts("");
}

/* A list of one text, which is kept. */
static bool set_list(struct ommai_chat_settings *settings, struct ommai_strings *list, const char *text) {
  size_t size = strlen(text) + 1;
  struct ommai_kept_text *kept = malloc(sizeof *kept + size);
  if (!kept) return ommai_failed("/set: out of memory: a text of %zu bytes", size) == OMMAI_EXIT_DONE;
  memcpy(kept->text, text, size);
  kept->item = kept->text;
  kept->next = settings->kept;
  settings->kept = kept;
  *list = (struct ommai_strings){&kept->item, 1, 0};
  return true;
}

static bool set(struct ommai_chat_settings *settings, const struct ommai_option *option, const char *value) {
  void *field = field_of(settings, option);
  if (strcmp(value, "default") == 0) {
    memcpy(field, (const char *)settings->first + option->offset, ommai_option_member_size(option));
    return true;
  }
  if (option->type == OMMAI_OPTION_STRINGS) return set_list(settings, field, value);
  return ommai_option_set(settings->command, option, value, settings->values);
}

static void show_all(const struct ommai_chat_settings *settings) {
  for (struct ommai_option_cursor c = {0}; ommai_next_option(settings->command, &c);) show(settings, c.option);
}

static void refuse(const struct ommai_chat_settings *settings, const char *name, size_t size) {
  char list[512] = "";
  char wanted[OMMAI_NEAREST_MAX_NAME + 2]; /* one that is cut off is still too long */
  snprintf(wanted, sizeof wanted, "%.*s", (int)size, name);
  for (char *at = wanted; *at; at++) {
    if (*at == '_') *at = '-';
  }
  struct ommai_nearest search = {.wanted = wanted};
  for (struct ommai_option_cursor c = {0}; ommai_next_option(settings->command, &c);) {
    ommai_nearest_offer(&search, c.option->name);
  }
  if (search.best) {
    ommai_note("/set %.*s: no such setting, did you mean %s? (/set alone shows all)", (int)size, name, search.best);
    return;
  }
  for (struct ommai_option_cursor c = {0}; ommai_next_option(settings->command, &c);) {
    ommai_list_entry(list, sizeof list, "%s", c.option->name);
  }
  ommai_note("/set %.*s: no such setting; there are %s", (int)size, name, list);
}

void ommai_chat_settings_command(struct ommai_chat_settings *settings, const char *words) {
  static const char parameter[] = "parameter ";
  if (strncmp(words, parameter, sizeof parameter - 1) == 0) words += sizeof parameter - 1;
  size_t size = strcspn(words, " \t");
  const char *rest = words + size + strspn(words + size, " \t");
  char value[MAX_VALUE];
  snprintf(value, sizeof value, "%s", rest);
  for (size_t n = strlen(value); n && strchr(" \t", value[n - 1]); n--) value[n - 1] = '\0';
  const struct ommai_option *option = find(settings, words, size);
  if (!size) {
    show_all(settings);
  } else if (!option) {
    refuse(settings, words, size);
  } else if (strlen(rest) >= sizeof value) {
    ommai_note("/set %s: the value is longer than %zu bytes", option->name, sizeof value - 1);
  } else if (!*value && option->type != OMMAI_OPTION_FLAG) {
    show(settings, option);
  } else if (set(settings, option, *value ? value : "true")) {
    settings->changed(settings->context);
    show(settings, option);
  }
}

void ommai_chat_settings_release(struct ommai_chat_settings *settings) {
  for (struct ommai_kept_text *next; settings->kept; settings->kept = next) {
    next = settings->kept->next;
    free(settings->kept);
  }
}
