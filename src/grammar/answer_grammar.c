#include "grammar/answer_grammar.h"

#include "base/error.h"
#include "base/json.h"
#include "grammar/gbnf.h"
#include "grammar/json_text.h"
#include "grammar/regex.h"
#include "grammar/schema.h"

/* The text as JSON; the caller decrefs. */
static enum omma_status parse_json(const struct ommai_grammar_source *source, json_t **value, struct omma_error *error) {
  const size_t flags = JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
  json_error_t reason;
  bool no_memory;
  *value = ommai_json_parse_large(source->text, source->size, flags, false, &reason, &no_memory);
  if (*value) return OMMA_OK;
  if (no_memory) return ommai_fail_memory(error, "schema", source->size);
  return ommai_fail(error, OMMA_ERROR_FORMAT, "invalid JSON at line %d, column %d: %s", reason.line, reason.column,
                    reason.text);
}

static enum omma_status add_schema(const struct ommai_grammar_source *source, struct ommai_grammar_builder *builder,
                                   struct ommai_scratch *scratch, int32_t *root, struct omma_error *error) {
  const struct ommai_schema_options options = {.compact = source->compact};
  json_t *schema;
  OMMAI_TRY(parse_json(source, &schema, error));
  enum omma_status status = ommai_schema_compile(schema, &options, builder, scratch, root, error);
  json_decref(schema);
  return status;
}

static enum omma_status add_object(const struct ommai_grammar_source *source, struct ommai_grammar_builder *builder,
                                   struct ommai_scratch *scratch, int32_t *root, struct omma_error *error) {
  struct ommai_json_text json = {.builder = builder, .compact = source->compact};
  (void)scratch;
  (void)error;
  *root = ommai_json_rule(&json, OMMAI_JSON_OBJECT);
  return OMMA_OK;
}

static enum omma_status add_regex(const struct ommai_grammar_source *source, struct ommai_grammar_builder *builder,
                                  struct ommai_scratch *scratch, int32_t *root, struct omma_error *error) {
  struct ommai_regex *regex;
  OMMAI_TRY(ommai_regex_parse(scratch, source->text, source->size, false, &regex, error));
  *root = ommai_builder_rule(builder);
  struct ommai_grammar_rule ends = ommai_builder_ends(builder, *root);
  ommai_builder_regex(builder, ends.start, regex, OMMAI_CHARS_RAW, ends.end);
  return OMMA_OK;
}

static enum omma_status add_texts(const json_t *list, struct ommai_grammar_builder *builder, struct ommai_scratch *scratch,
                                  int32_t *root, struct omma_error *error) {
  size_t n = json_array_size(list);
  if (n == 0 || n > OMMAI_ANSWER_GRAMMAR_MAX_CHOICES) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "expected a list of 1 to %d strings", OMMAI_ANSWER_GRAMMAR_MAX_CHOICES);
  }
  struct ommai_literal *texts = ommai_scratch_take(scratch, n, sizeof *texts);
  if (!texts) return ommai_scratch_fail(scratch, error);
  for (size_t i = 0; i < n; i++) {
    const json_t *text = json_array_get(list, i);
    if (!json_string_length(text)) {
      return ommai_fail(error, OMMA_ERROR_FORMAT, "entry %zu: expected a string that is not empty", i);
    }
    texts[i] = (struct ommai_literal){json_string_value(text), json_string_length(text)};
  }
  *root = ommai_builder_rule(builder);
  struct ommai_grammar_rule ends = ommai_builder_ends(builder, *root);
  ommai_builder_choice(builder, ends.start, texts, n, ends.end);
  return OMMA_OK;
}

static enum omma_status add_choice(const struct ommai_grammar_source *source, struct ommai_grammar_builder *builder,
                                   struct ommai_scratch *scratch, int32_t *root, struct omma_error *error) {
  json_t *list;
  OMMAI_TRY(parse_json(source, &list, error));
  enum omma_status status = add_texts(list, builder, scratch, root, error);
  json_decref(list);
  return status;
}

static enum omma_status add_gbnf(const struct ommai_grammar_source *source, struct ommai_grammar_builder *builder,
                                 struct ommai_scratch *scratch, int32_t *root, struct omma_error *error) {
  return ommai_gbnf_compile(source->text, source->size, builder, scratch, root, error);
}

static enum omma_status compile(const struct ommai_grammar_source *source, struct ommai_grammar_builder *builder,
                                struct ommai_scratch *scratch, struct ommai_grammar **grammar, struct omma_error *error) {
  static enum omma_status (*const adders[])(const struct ommai_grammar_source *, struct ommai_grammar_builder *,
                                            struct ommai_scratch *, int32_t *,
                                            struct omma_error *) = {add_schema, add_object, add_regex, add_choice, add_gbnf};
  int32_t root = 0;
  /* for reading them */
  if (!ommai_scratch_work(scratch, 4 * (int64_t)source->size)) return ommai_scratch_fail(scratch, error);
  OMMAI_TRY(adders[source->kind](source, builder, scratch, &root, error));
  enum omma_status status = ommai_grammar_create(builder, root, scratch, grammar, error);
  bool whole = source->kind == OMMAI_ANSWER_JSON_SCHEMA && status != OMMA_OK && status != OMMA_ERROR_MEMORY;
  if (whole) ommai_error_prefix(error, "#");
  return status;
}

enum omma_status ommai_answer_grammar_create(const struct ommai_grammar_source *source, const struct omma_allocator *allocator,
                                             struct ommai_grammar **grammar, struct omma_error *error) {
  struct ommai_grammar_builder builder;
  struct ommai_scratch scratch;
  if (source->size > OMMAI_ANSWER_GRAMMAR_MAX_BYTES) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "at most %zu bytes are allowed, found %zu", OMMAI_ANSWER_GRAMMAR_MAX_BYTES,
                      source->size);
  }
  ommai_builder_init(&builder, allocator);
  ommai_scratch_init(&scratch, allocator);
  scratch.max_work = source->max_work ? source->max_work : OMMAI_GRAMMAR_MAX_WORK;
  enum omma_status status = compile(source, &builder, &scratch, grammar, error);
  if (status == OMMA_OK) (*grammar)->work = scratch.work;
  ommai_builder_free(&builder);
  ommai_scratch_free(&scratch);
  return status;
}
