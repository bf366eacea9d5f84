/* The stored cases of tests/data/text: texts in hexadecimal digits and what the official library makes of them. */
#ifndef OMMA_TEST_TEXT_FIXTURE_H
#define OMMA_TEST_TEXT_FIXTURE_H

#include <jansson.h>

#include "support/test.h"
#include "text/tokenizer.h"

#define OMMA_N_TEXT_FIXTURES 4
extern const char *const text_fixture_names[OMMA_N_TEXT_FIXTURES];

/* Bytes from hexadecimal digits, in memory to free(), with a NUL behind them. */
char *text_fixture_bytes(const json_t *digits, size_t *size);

/* An array of numbers as ids, in memory to free(). */
int32_t *text_fixture_ids(const json_t *array, size_t *count);

/* A JSON file of root/data/text (root: OMMA_TEST_DATA); fails the test when it cannot be read. */
json_t *text_fixture_json(const char *root, const char *name);

/* A tokenizer of root/data/text; fails the test when it cannot be loaded. */
struct ommai_tokenizer *text_fixture_tokenizer(const char *root, const char *name);

#endif
