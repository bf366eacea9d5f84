/* A directory where an encoder node leaves embeddings for vLLM's ECExampleConnector:
 * KEY/encoder_cache.safetensors. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ommai_encoding_directory {
  bool opened; /* false: there is none */
  int descriptor;
  const struct omma_allocator *allocator;
  int64_t budget; /* bytes of all files; 0: without limit */
  pthread_mutex_t lock;
  int64_t bytes; /* of all files when they were looked at, and of what was written since */
};

/* Opens the directory, and makes it where only its last part is missing. `budget`: bytes that all
 * files in it may take, 0 for no limit. The allocator must live as long. Errors: ARGUMENT (field
 * "ec_transfer_config"). */
enum omma_status ommai_encoding_directory_open(const char *path, int64_t budget, const struct omma_allocator *allocator,
                                               struct ommai_encoding_directory *directory, struct omma_error *error);
void ommai_encoding_directory_close(struct ommai_encoding_directory *directory);

/* Writes a file of another name in the directory and renames it to KEY/encoder_cache.safetensors,
 * so that whoever finds that has all of it; KEY must be a folder, not a link to one. Where the
 * budget would be exceeded, the oldest files are removed first, by whomever they were written. The
 * key must be valid (ommai_encoding_key_valid). Any thread. On failure nothing is left of it.
 * Errors: IO. */
enum omma_status ommai_encoding_directory_write(struct ommai_encoding_directory *directory, const char *key, const char *bytes,
                                                size_t size, struct omma_error *error);
