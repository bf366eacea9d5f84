/* Whether a path names a model in GGUF files. */
#pragma once

#include <stdbool.h>

/* Whether `path` is a GGUF file, or a directory that has such files, *.gguf, and no config.json. */
bool ommai_is_gguf(const char *path);
