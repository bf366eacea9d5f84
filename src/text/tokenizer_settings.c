#include "text/tokenizer_settings.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* The pattern that ByteLevel brings with itself (GPT-2). */
static const char gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* What byte fallback comes with: marked_spaces.h. */
#define SPACE_MARK "\xE2\x96\x81"

enum { WHERE_SIZE = 320, INNER_WHERE_SIZE = WHERE_SIZE + 16 };

static enum omma_status unsupported(const char *where, const char *key, const char *expected, const char *found,
                                    struct omma_error *error) {
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, key, "%s: key \"%s\": expected %s, found %.64s", where, key, expected,
                          found);
}

/* object[key] must be this string where it is there at all, or is required. */
static enum omma_status expect_string(const json_t *object, const char *where, const char *key, bool required,
                                      const char *expected, struct omma_error *error) {
  const char *found = expected;
  OMMAI_TRY(ommai_json_string(object, where, key, required, &found, error));
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\"", expected);
  return strcmp(found, expected) == 0 ? OMMA_OK : unsupported(where, key, quoted, found, error);
}

static enum omma_status expect_false(const json_t *object, const char *where, const char *key, bool missing,
                                     struct omma_error *error) {
  bool value = missing;
  OMMAI_TRY(ommai_json_boolean(object, where, key, false, &value, error));
  return value ? unsupported(where, key, "false", "true", error) : OMMA_OK;
}

/* A Replace of one string by another. */
static enum omma_status expect_replace(const json_t *object, const char *where, const char *from, const char *to,
                                       struct omma_error *error) {
  json_t *pattern;
  OMMAI_TRY(expect_string(object, where, "type", true, "Replace", error));
  OMMAI_TRY(ommai_json_object(object, where, "pattern", true, &pattern, error));
  OMMAI_TRY(expect_string(pattern, where, "String", true, from, error));
  return expect_string(object, where, "content", true, to, error);
}

/* The Replace of spaces by marks, alone or in a Sequence. */
static enum omma_status read_marking(const json_t *object, const char *where, struct omma_error *error) {
  json_t *parts;
  const char *type = "";
  OMMAI_TRY(ommai_json_string(object, where, "type", true, &type, error));
  if (strcmp(type, "Sequence") == 0) {
    OMMAI_TRY(ommai_json_array(object, where, "normalizers", true, &parts, error));
    object = json_array_get(parts, 0);
    if (json_array_size(parts) != 1 || !json_is_object(object)) {
      return unsupported(where, "normalizers", "one Replace", "another number of them", error);
    }
  }
  return expect_replace(object, where, " ", SPACE_MARK, error);
}

static enum omma_status read_normalizer(const json_t *root, const char *path, struct ommai_tokenizer_settings *settings,
                                        struct omma_error *error) {
  json_t *normalizer;
  OMMAI_TRY(ommai_json_object(root, path, "normalizer", settings->marked_spaces, &normalizer, error));
  settings->normalize = normalizer && !settings->marked_spaces;
  if (!normalizer) return OMMA_OK;
  char where[WHERE_SIZE];
  snprintf(where, sizeof where, "%s: normalizer", path);
  if (settings->marked_spaces) return read_marking(normalizer, where, error);
  return expect_string(normalizer, where, "type", true, "NFC", error);
}

static enum omma_status read_byte_level(const json_t *object, const char *where, bool *own_pattern, struct omma_error *error) {
  OMMAI_TRY(expect_string(object, where, "type", true, "ByteLevel", error));
  OMMAI_TRY(expect_false(object, where, "add_prefix_space", true, error));
  *own_pattern = true;
  return ommai_json_boolean(object, where, "use_regex", false, own_pattern, error);
}

static enum omma_status read_split(const json_t *object, const char *where, const char **pattern, struct omma_error *error) {
  OMMAI_TRY(expect_string(object, where, "type", true, "Split", error));
  OMMAI_TRY(expect_string(object, where, "behavior", true, "Isolated", error));
  OMMAI_TRY(expect_false(object, where, "invert", false, error));
  json_t *holder;
  OMMAI_TRY(ommai_json_object(object, where, "pattern", true, &holder, error));
  const char *expression = NULL;
  OMMAI_TRY(ommai_json_string(holder, where, "Regex", false, &expression, error));
  if (!expression) return unsupported(where, "pattern", "a Regex", "another kind", error);
  *pattern = expression;
  return OMMA_OK;
}

/* A Sequence of an optional Split and one ByteLevel. */
static enum omma_status read_sequence(const json_t *object, const char *where, const char **pattern, bool *own_pattern,
                                      struct omma_error *error) {
  OMMAI_TRY(expect_string(object, where, "type", true, "Sequence", error));
  json_t *parts;
  OMMAI_TRY(ommai_json_array(object, where, "pretokenizers", true, &parts, error));
  size_t n = json_array_size(parts);
  if (n < 1 || n > 2) return unsupported(where, "pretokenizers", "Split and ByteLevel", "another number of them", error);
  for (size_t i = 0; i < n; i++) {
    if (!json_is_object(json_array_get(parts, i))) {
      return ommai_fail_field(error, OMMA_ERROR_FORMAT, "pretokenizers", "%s: pretokenizers[%zu]: expected an object", where,
                              i);
    }
  }
  char inner[INNER_WHERE_SIZE];
  snprintf(inner, sizeof inner, "%s.pretokenizers", where);
  if (n == 2) OMMAI_TRY(read_split(json_array_get(parts, 0), inner, pattern, error));
  return read_byte_level(json_array_get(parts, n - 1), inner, own_pattern, error);
}

static enum omma_status read_pre_tokenizer(const json_t *root, const char *path, const char **pattern,
                                           struct omma_error *error) {
  json_t *object;
  OMMAI_TRY(ommai_json_object(root, path, "pre_tokenizer", true, &object, error));
  char where[WHERE_SIZE];
  snprintf(where, sizeof where, "%s: pre_tokenizer", path);
  const char *type = "";
  bool own_pattern;
  *pattern = NULL;
  OMMAI_TRY(ommai_json_string(object, where, "type", true, &type, error));
  if (strcmp(type, "ByteLevel") == 0) {
    OMMAI_TRY(read_byte_level(object, where, &own_pattern, error));
  } else {
    OMMAI_TRY(read_sequence(object, where, pattern, &own_pattern, error));
  }
  if (own_pattern == (*pattern != NULL)) {
    return unsupported(where, "use_regex", *pattern ? "false after a Split" : "true without a Split",
                       own_pattern ? "true" : "false", error);
  }
  if (own_pattern) *pattern = gpt2_pattern;
  return OMMA_OK;
}

/* The last steps do not change ids as long as they are ByteLevel (post_processor: offsets; decoder:
 * bytes). */
static enum omma_status read_byte_level_step(const json_t *root, const char *path, const char *key, bool required,
                                             struct omma_error *error) {
  json_t *object;
  OMMAI_TRY(ommai_json_object(root, path, key, required, &object, error));
  if (!object) return OMMA_OK;
  char where[WHERE_SIZE];
  snprintf(where, sizeof where, "%s: %s", path, key);
  return expect_string(object, where, "type", true, "ByteLevel", error);
}

/* With marked spaces nothing is cut, the decoder turns tokens back to text in three steps, and what
 * comes last may add tokens around a text, which are not wanted here. */
static enum omma_status read_marked_steps(const json_t *root, const char *path, struct omma_error *error) {
  static const char *const steps[] = {"Replace", "ByteFallback", "Fuse"};
  char where[WHERE_SIZE];
  json_t *object, *decoders;
  const json_t *pre_tokenizer = json_object_get(root, "pre_tokenizer");
  if (pre_tokenizer && !json_is_null(pre_tokenizer)) return unsupported(path, "pre_tokenizer", "null", "another", error);
  OMMAI_TRY(ommai_json_object(root, path, "post_processor", false, &object, error));
  snprintf(where, sizeof where, "%s: post_processor", path);
  if (object) OMMAI_TRY(expect_string(object, where, "type", true, "TemplateProcessing", error));
  OMMAI_TRY(ommai_json_object(root, path, "decoder", true, &object, error));
  snprintf(where, sizeof where, "%s: decoder", path);
  OMMAI_TRY(expect_string(object, where, "type", true, "Sequence", error));
  OMMAI_TRY(ommai_json_array(object, where, "decoders", true, &decoders, error));
  for (size_t i = 0; i < json_array_size(decoders) || i < 3; i++) {
    const json_t *step = json_array_get(decoders, i);
    const char *type = json_string_value(json_object_get(step, "type"));
    if (i > 2 || !type || strcmp(type, steps[i]) != 0) {
      return unsupported(where, "decoders", "Replace, ByteFallback and Fuse", type ? type : "another", error);
    }
  }
  return expect_replace(json_array_get(decoders, 0), where, SPACE_MARK, " ", error);
}

static enum omma_status read_model(const json_t *root, const char *path, struct ommai_tokenizer_settings *settings,
                                   struct omma_error *error) {
  json_t *model;
  OMMAI_TRY(ommai_json_object(root, path, "model", true, &model, error));
  char where[WHERE_SIZE];
  snprintf(where, sizeof where, "%s: model", path);
  OMMAI_TRY(expect_string(model, where, "type", false, "BPE", error));
  double dropout = 0;
  OMMAI_TRY(ommai_json_number(model, where, "dropout", false, &dropout, error));
  if (dropout != 0) return unsupported(where, "dropout", "null", "a number", error);
  OMMAI_TRY(expect_string(model, where, "continuing_subword_prefix", false, "", error));
  OMMAI_TRY(expect_string(model, where, "end_of_word_suffix", false, "", error));
  settings->marked_spaces = settings->whole_pieces = false;
  OMMAI_TRY(ommai_json_boolean(model, where, "byte_fallback", false, &settings->marked_spaces, error));
  return ommai_json_boolean(model, where, "ignore_merges", false, &settings->whole_pieces, error);
}

enum omma_status ommai_tokenizer_settings_read(const json_t *root, const char *path, struct ommai_tokenizer_settings *settings,
                                               struct omma_error *error) {
  OMMAI_TRY(read_model(root, path, settings, error));
  OMMAI_TRY(read_normalizer(root, path, settings, error));
  settings->pattern = NULL;
  if (settings->marked_spaces) return read_marked_steps(root, path, error);
  OMMAI_TRY(read_pre_tokenizer(root, path, &settings->pattern, error));
  OMMAI_TRY(read_byte_level_step(root, path, "post_processor", false, error));
  return read_byte_level_step(root, path, "decoder", true, error);
}
