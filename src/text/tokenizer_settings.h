/* The settings in a tokenizer.json: which of them this tokenizer can follow, and their values. */
#pragma once

#include <stddef.h>

#include "base/json.h"

struct ommai_tokenizer_settings {
  /* cuts text into pieces; lives as long as the document; NULL: it is one piece */
  const char *pattern;
  bool normalize;     /* to form C */
  bool marked_spaces; /* marked_spaces.h */
  bool whole_pieces;  /* model.ignore_merges */
};

/* Reads normalizer, pre_tokenizer, post_processor, decoder and the model's switches of the document
 * that came from `path`. Errors: FORMAT (wrong type, missing key), UNSUPPORTED; both name the
 * key. */
enum omma_status ommai_tokenizer_settings_read(const json_t *root, const char *path, struct ommai_tokenizer_settings *settings,
                                               struct omma_error *error);
