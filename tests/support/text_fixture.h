/* The stored cases of tests/data/text: texts in hexadecimal digits and what the official library
 * makes of them; and folders of tokenizer files that a test writes itself. */
#pragma once

#include <jansson.h>

#include "support/test.h"
#include "support/weights_files.h"
#include "text/tokenizer.h"

#define OMMA_N_TEXT_FIXTURES 5
extern const char *const text_fixture_names[OMMA_N_TEXT_FIXTURES];

/* Bytes from hexadecimal digits, in memory to free(), with a NUL after them. */
char *text_fixture_bytes(const json_t *digits, size_t *size);

/* An array of numbers as ids, in memory to free(). */
int32_t *text_fixture_ids(const json_t *array, size_t *count);

/* A JSON file of root/data/text (root: OMMA_TEST_DATA); fails the test when it cannot be read. */
json_t *text_fixture_json(const char *root, const char *name);

/* A tokenizer of root/data/text; fails the test when it cannot be loaded. */
struct ommai_tokenizer *text_fixture_tokenizer(const char *root, const char *name);

/* Loads root/data/text/name with the n-th allocation failing, for every n. */
void text_fixture_fail_allocations(const char *root, const char *name);

/* A folder for one test's files, and where they go. */
struct text_folder {
  char path[TEST_PATH_SIZE], tokenizer[TEST_PATH_SIZE], ranks[TEST_PATH_SIZE], config[TEST_PATH_SIZE];
};

/* Setup and teardown: the test's state is a struct text_folder. */
int text_folder_make(void **state);
int text_folder_remove(void **state);
#define TEXT_FOLDER_TEST(test) cmocka_unit_test_setup_teardown(test, text_folder_make, text_folder_remove)

/* Writes a text file anew. */
void text_folder_write(const char *path, const char *text);
