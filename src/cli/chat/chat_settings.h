/* What /set changes in a conversation: fields of the command's struct of values, by the options'
 * tables. */
#pragma once

#include "cli/core/options.h"

struct ommai_chat_settings {
  /* whose options they are: flags, numbers, integers, lists of texts */
  const struct ommai_command *command;
  void *values;                   /* the struct that they fill */
  const void *first;              /* a copy of it as the conversation began, for "default" */
  void (*changed)(void *context); /* called after a change */
  void *context;
  struct ommai_kept_text *kept; /* texts that were set; zeroed */
};

/* Does what stands after /set: "NAME VALUE" changes a setting, "NAME default" takes the change
 * back, and "NAME" or nothing shows one or all. A name may be spelled with dashes or underscores,
 * or as in llama.cpp and ollama, whose word "parameter" may stand before it. What is wrong is
 * reported. */
void ommai_chat_settings_command(struct ommai_chat_settings *settings, const char *words);

void ommai_chat_settings_release(struct ommai_chat_settings *settings);
