/* Files and folders for tests: a temporary folder, raw bytes, and safetensors files from a header
 * text. */
#pragma once

#include <omma/status.h>
#include <stddef.h>

#define TEST_PATH_SIZE 512

/* A new empty folder; its path into out. Goes, where it is still there, when the process ends. */
void test_folder_create(char out[TEST_PATH_SIZE]);
/* Removes the folder and what is in it. */
void test_folder_remove(const char *folder);
/* How many files are in the folder. */
int test_folder_count(const char *folder);

/* folder/name into out. Returns out. */
const char *test_path(char out[TEST_PATH_SIZE], const char *folder, const char *name);

/* The state of tests that write into a folder of their own: its setup and teardown, and the object
 * that *state points to. */
struct test_folder {
  char folder[TEST_PATH_SIZE];
  char path[TEST_PATH_SIZE]; /* of a file inside, which is not there yet */
  struct omma_error error;
};
int test_folder_setup(void **state);
int test_folder_teardown(void **state);

void test_write_file(const char *path, const void *bytes, size_t size);

/* A text file below `root`, in folders that are made: what a machine has in /proc and /sys. */
void test_write_at(const char *root, const char *file, const char *text);

/* A safetensors file with this JSON header (not padded) and `data_size` bytes 0, 1, 2, ... after
 * it. */
void test_write_safetensors(const char *path, const char *header, size_t data_size);
