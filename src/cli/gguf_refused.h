/* Models in llama.cpp's format, which are told from those that are read here. */
#ifndef OMMAI_CLI_GGUF_REFUSED_H
#define OMMAI_CLI_GGUF_REFUSED_H

#include <stdbool.h>

/* Whether `path` is a GGUF file, or a directory that has such files, *.gguf, and no config.json. */
bool ommai_is_gguf(const char *path);

#endif
