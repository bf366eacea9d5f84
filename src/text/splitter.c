#include "text/splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdbool.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "text/pattern.h"
#include "text/unicode.h"
#include "text/utf8.h"

/* Bounds of the matcher. A match first gets FIRST_STEPS and then twice as many each time it runs
 * out; what it was given is taken from the text's account of STEPS_PER_BYTE. The patterns in use
 * need at most about four steps per byte, in long runs of white space. */
enum { FIRST_STEPS = 64, STEPS_PER_BYTE = 160, STEPS_PER_TEXT = 65536, HEAP_KIB = 65536, MAX_NESTING = 100 };

/* A splitter is a compiled pattern and nothing else. */
static pcre2_code *code_of(const struct ommai_splitter *splitter) { return (pcre2_code *)(uintptr_t)splitter; }

static enum omma_status compile(const char *translated, pcre2_compile_context *context, pcre2_code **out,
                                struct omma_error *error) {
  /* "." stops at line feeds alone, whatever PCRE2 was built with. */
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context, MAX_NESTING);
  int reason;
  PCRE2_SIZE offset;
  pcre2_code *code =
      pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &reason, &offset, context);
  if (!code) {
    PCRE2_UCHAR message[128];
    pcre2_get_error_message(reason, message, sizeof message);
    return ommai_fail(error, OMMA_ERROR_FORMAT, "pattern: does not compile: %s (at byte %zu of %s)", (const char *)message,
                      (size_t)offset, translated);
  }
  uint32_t may_be_empty = 0;
  pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &may_be_empty);
  if (may_be_empty) {
    pcre2_code_free(code);
    return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "pattern: may match nothing");
  }
  /* Where there is no just-in-time compiler the interpreter does the same. */
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  *out = code;
  return OMMA_OK;
}

enum omma_status ommai_splitter_create(const char *pattern, size_t size, struct ommai_splitter **splitter,
                                       struct omma_error *error) {
  char translated[OMMAI_PATTERN_MAX_BYTES * OMMAI_PATTERN_MAX_GROWTH];
  OMMAI_TRY(ommai_pattern_translate(pattern, size, translated, sizeof translated, error));
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  if (!context) return ommai_fail_memory(error, "pattern", 0);
  pcre2_code *code = NULL;
  enum omma_status status = compile(translated, context, &code, error);
  if (status == OMMA_OK) *splitter = (struct ommai_splitter *)code;
  pcre2_compile_context_free(context);
  return status;
}

void ommai_splitter_destroy(struct ommai_splitter *splitter) { pcre2_code_free(code_of(splitter)); }

enum omma_status ommai_split_begin(struct ommai_split *split, const struct ommai_splitter *splitter,
                                   const struct omma_allocator *allocator, struct omma_error *error) {
  *split = (struct ommai_split){.splitter = splitter, .allocator = allocator};
  split->match_data = pcre2_match_data_create(1, NULL);
  split->match_context = pcre2_match_context_create(NULL);
  if (!split->match_data || !split->match_context) {
    ommai_split_end(split);
    return ommai_fail_memory(error, "pattern matcher", 0);
  }
  pcre2_set_heap_limit(split->match_context, HEAP_KIB);
  return OMMA_OK;
}

static void release_renamed(struct ommai_split *split) {
  if (split->renamed) ommai_release(split->allocator, split->renamed, split->size, 1);
  split->renamed = NULL;
}

void ommai_split_end(struct ommai_split *split) {
  release_renamed(split);
  pcre2_match_data_free(split->match_data);
  pcre2_match_context_free(split->match_context);
  *split = (struct ommai_split){0};
}

/* Puts a copy with stand-ins in place of the text where that needs it. A stand-in is as long as
 * what it stands for. */
static enum omma_status rename_characters(struct ommai_split *split, struct omma_error *error) {
  uint32_t instead;
  size_t at = ommai_unicode_next_stand_in(split->text, split->size, 0, &instead);
  if (at == split->size) return OMMA_OK;
  split->renamed = ommai_allocate(split->allocator, split->size, 1);
  if (!split->renamed) return ommai_fail_memory(error, "text", split->size);
  memcpy(split->renamed, split->text, split->size);
  while (at < split->size) {
    char bytes[OMMAI_UTF8_MAX_BYTES];
    size_t length = ommai_utf8_encode(instead, bytes);
    memcpy(split->renamed + at, bytes, length);
    at = ommai_unicode_next_stand_in(split->text, split->size, at + length, &instead);
  }
  split->text = split->renamed;
  return OMMA_OK;
}

enum omma_status ommai_split_text(struct ommai_split *split, const char *text, size_t size, struct omma_error *error) {
  release_renamed(split);
  split->text = text;
  split->size = size;
  split->at = split->match_first = split->match_last = 0;
  split->steps_left = (uint64_t)size * STEPS_PER_BYTE + STEPS_PER_TEXT;
  return rename_characters(split, error);
}

/* pcre2_match with a growing limit. Returns its result; PCRE2_ERROR_MATCHLIMIT when the account is
 * empty. */
static int match(struct ommai_split *split) {
  uint32_t options = PCRE2_NO_UTF_CHECK;
  for (uint64_t steps = FIRST_STEPS; steps <= split->steps_left;) {
    split->steps_left -= steps;
    pcre2_set_match_limit(split->match_context, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
    int result = pcre2_match(code_of(split->splitter), (PCRE2_SPTR)split->text, split->size, split->at, options,
                             split->match_data, split->match_context);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
      options |= PCRE2_NO_JIT;
    } else if (result == PCRE2_ERROR_MATCHLIMIT) {
      steps *= 2;
    } else {
      return result;
    }
  }
  return PCRE2_ERROR_MATCHLIMIT;
}

/* Finds the next match from split->at on and keeps it in the split; the end of the text stands for
 * none. */
static enum omma_status find_match(struct ommai_split *split, struct omma_error *error) {
  int result = match(split);
  split->match_first = split->match_last = split->size;
  if (result == PCRE2_ERROR_NOMATCH) return OMMA_OK;
  if (result < 0) {
    PCRE2_UCHAR message[128];
    pcre2_get_error_message(result, message, sizeof message);
    return ommai_fail(error, OMMA_ERROR_LIMIT, "text: byte %zu of a run of %zu: the tokenizer's pattern gives up: %s",
                      split->at, split->size, (const char *)message);
  }
  const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(split->match_data);
  if (ends[1] <= ends[0] || ends[0] < split->at || ends[1] > split->size) {
    return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "text: byte %zu: the tokenizer's pattern matches nothing", split->at);
  }
  split->match_first = ends[0];
  split->match_last = ends[1];
  return OMMA_OK;
}

enum omma_status ommai_split_next(struct ommai_split *split, size_t *first, size_t *last, struct omma_error *error) {
  *first = *last = split->at;
  if (split->at == split->size) return OMMA_OK;
  if (split->match_last <= split->at) OMMAI_TRY(find_match(split, error));
  *last = split->at < split->match_first ? split->match_first : split->match_last;
  split->at = *last;
  return OMMA_OK;
}
