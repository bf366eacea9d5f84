/* A file of settings in YAML, as `vllm serve --config` reads it: keys are options without their
 * dashes, with hyphens or underscores; a list is the words of an option that takes several, and a
 * mapping (or a list, where the option is one text) the JSON that the option is given on the
 * command line. */
#pragma once

#include <jansson.h>
#include <omma/status.h>

#include "cli/core/options.h"

/* Reads the settings of a file, of at most 1 MiB: an object of texts and lists of texts, or null
 * where a key has no value. Numbers, true and false are the texts that stand there, mappings are
 * JSON. The caller decrefs. Errors: IO, FORMAT (no YAML, no mapping, the same key twice, with the
 * line), LIMIT, MEMORY, UNSUPPORTED (a build without libyaml). */
enum omma_status ommai_config_file_load(const char *path, json_t **settings, struct omma_error *error);

/* Sets what the command line has not given from the file. False when it is wrong: the error has
 * been printed. Strings are those of *kept, which becomes the file's settings or NULL; decref it
 * after the values. */
bool ommai_config_file_take(const struct ommai_command *command, const char *path, const struct ommai_given *given,
                            void *values, json_t **kept);
