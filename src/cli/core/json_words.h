/* Options whose value is JSON: a list of strings, as in `--allowed-origins
 * '["https://example.org"]'`, or an object. */
#pragma once

#include <jansson.h>

#include "cli/core/options.h"

/* Zero-initialised: nothing to release. */
struct ommai_json_words {
  json_t *document; /* holds the words */
  struct ommai_strings words;
};

/* Reads `text`. Returns OMMAI_EXIT_DONE, or another exit code after saying what is wrong. Release
 * in every case. */
int ommai_json_words_read(const char *command, const char *flag, const char *text, struct ommai_json_words *list);
void ommai_json_words_release(struct ommai_json_words *list);

/* Reads the object `text`, with keys among `known`, which ends in NULL; NULL: any. Drop *object in
 * every case. Errors: ARGUMENT (a key), FORMAT, MEMORY. */
enum omma_status ommai_json_option_read(const char *flag, const char *text, const char *const *known, json_t **object,
                                        struct omma_error *error);

/* A key of the option's object that is none of `known` (ends in NULL) would go unseen. Errors:
 * ARGUMENT. */
enum omma_status ommai_json_check_keys(const json_t *object, const char *flag, const char *const *known,
                                       struct omma_error *error);
