/* What a half-typed line of a conversation may become: commands at its beginning, paths at its
 * end. */
#pragma once

#include "cli/core/paths.h"

/* One way to go on: `name` for people; `rest` follows what is typed, written as ommai_pasted_path
 * reads it, with a blank, a slash or the closing quote after it. */
typedef void (*ommai_take_completion)(void *context, const char *name, const char *rest);

/* Hands out every way to go on after `typed`, the line up to the cursor: commands, then names in
 * their order. */
void ommai_complete_line(const char *typed, ommai_take_completion take, void *context);
