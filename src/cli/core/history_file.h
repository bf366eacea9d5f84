/* The lines of earlier conversations, in a file of the user: one a line, the oldest first. What
 * goes wrong is reported once, as a note. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* At most this many are kept. */
#define OMMAI_HISTORY_LINES 1000

/* Hands out the last OMMAI_HISTORY_LINES lines, and cuts a file that has twice as many down to
 * them. Without a file there are none. False when it cannot be used. */
bool ommai_history_load(const char *path, void (*take)(void *context, const char *line), void *context);

/* Adds a line at the end, so that conversations side by side lose none. Makes the file (for its
 * owner alone) and the folders above it. False when it cannot. */
bool ommai_history_append(const char *path, const char *line);
