/* Reading JSON documents with messages that state which file and key is wrong. A thin layer over
 * jansson. */
#pragma once

#include <jansson.h>
#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stdint.h>

/* What a value is, for messages: "an array", "null". */
const char *ommai_json_kind(const json_t *value);

/* json_loadb, but that *no_memory distinguishes the want of memory from wrong JSON; either gives
 * NULL. Thread-safe. */
json_t *ommai_json_parse(const char *text, size_t size, size_t flags, json_error_t *reason, bool *no_memory);

/* The same for texts of clients and models: a number beyond 64 bits is a string that
 * ommai_json_large knows. No string of the text is taken for one: where it begins with the
 * noncharacter that marks them, U+FDD0, it begins with U+FFFD instead. What is dumped needs
 * ommai_json_restore before it is parsed so again. With `halves`, half of a surrogate pair is
 * U+FFFD. */
json_t *ommai_json_parse_large(const char *text, size_t size, size_t flags, bool halves, json_error_t *reason, bool *no_memory);

/* The text of such a number, or NULL for any other value. */
const char *ommai_json_large(const json_t *value);

/* A string that is not such a number. */
bool ommai_json_is_text(const json_t *value);

/* Whether a word is one of a list that ends in NULL. */
bool ommai_word_is_among(const char *word, const char *const *list);
/* A key of the object that is none of `known`, which ends in NULL; NULL: it has no other. */
const char *ommai_json_other_key(const json_t *object, const char *const *known);

/* As parsing does with strings: a text that begins with U+FDD0 begins with U+FFFD then. */
void ommai_json_unmark(char *text, size_t size);

/* Makes numbers in dumped JSON of what ommai_json_large knows, in place; its new size. */
size_t ommai_json_restore(char *text, size_t size);

/* json_dumps and that: a text that ends in NUL, to be released with free(); NULL when memory is
 * out. */
char *ommai_json_dump_large(const json_t *value, size_t flags);

/* Parses a file of at most `limit` bytes whose top level must be an object. Duplicate keys are
 * refused. The caller decrefs. Errors: IO, LIMIT, FORMAT, MEMORY. */
enum omma_status ommai_json_load_file(const char *path, size_t limit, const struct omma_allocator *allocator, json_t **root,
                                      struct omma_error *error);

/* The same from memory; `name` stands for the path in messages. */
enum omma_status ommai_json_load(const char *name, const char *data, size_t size, json_t **root, struct omma_error *error);

/* An integer; 2.0 counts as 2, as some writers store it so. False for anything else. */
bool ommai_json_whole(const json_t *value, int64_t *out);

/* Typed reads of object[key]. `where` is the path and the keys down to the object, for messages. A
 * missing key or JSON null leaves *out unchanged (its value is the default) and is an error only
 * when `required`. Integers must be whole and within [low, high]; numbers must be finite. */
enum omma_status ommai_json_integer(const json_t *object, const char *where, const char *key, bool required, int64_t low,
                                    int64_t high, int64_t *out, struct omma_error *error);
enum omma_status ommai_json_number(const json_t *object, const char *where, const char *key, bool required, double *out,
                                   struct omma_error *error);
enum omma_status ommai_json_boolean(const json_t *object, const char *where, const char *key, bool required, bool *out,
                                    struct omma_error *error);
/* Strings live as long as the document. */
enum omma_status ommai_json_string(const json_t *object, const char *where, const char *key, bool required, const char **out,
                                   struct omma_error *error);
/* Objects and arrays: *out is NULL where the key is missing and not required. */
enum omma_status ommai_json_object(const json_t *object, const char *where, const char *key, bool required, json_t **out,
                                   struct omma_error *error);
enum omma_status ommai_json_array(const json_t *object, const char *where, const char *key, bool required, json_t **out,
                                  struct omma_error *error);

/* An array of at most `capacity` integers in [low, high] into out; *count is its length. */
enum omma_status ommai_json_integers(const json_t *object, const char *where, const char *key, bool required, int64_t low,
                                     int64_t high, int64_t *out, size_t capacity, size_t *count, struct omma_error *error);
