/* Files and folders for tests: a temporary folder, raw bytes, and safetensors files from a header text. */
#ifndef OMMA_TEST_WEIGHTS_FILES_H
#define OMMA_TEST_WEIGHTS_FILES_H

#include <stddef.h>

#define TEST_PATH_SIZE 512

/* A new empty folder; its path into out. */
void test_folder_create(char out[TEST_PATH_SIZE]);
/* Removes the folder and the files in it (it has no folders inside). */
void test_folder_remove(const char *folder);
/* How many files are in the folder. */
int test_folder_count(const char *folder);

/* folder/name into out. Returns out. */
const char *test_path(char out[TEST_PATH_SIZE], const char *folder, const char *name);

void test_write_file(const char *path, const void *bytes, size_t size);

/* A safetensors file with this JSON header (not padded) and `data_size` bytes 0, 1, 2, ... behind it. */
void test_write_safetensors(const char *path, const char *header, size_t data_size);

#endif
