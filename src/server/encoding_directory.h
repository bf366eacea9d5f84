/* A directory where an encoder node leaves embeddings for vLLM's ECExampleConnector:
 * KEY/encoder_cache.safetensors. */
#ifndef OMMAI_SERVER_ENCODING_DIRECTORY_H
#define OMMAI_SERVER_ENCODING_DIRECTORY_H

#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>

struct ommai_encoding_directory {
  bool opened; /* false: there is none */
  int descriptor;
};

/* Opens the directory, and makes it where only its last part is missing. Errors: ARGUMENT (field
 * "ec_transfer_config"). */
enum omma_status ommai_encoding_directory_open(const char *path, struct ommai_encoding_directory *directory,
                                               struct omma_error *error);
void ommai_encoding_directory_close(struct ommai_encoding_directory *directory);

/* Writes a file of another name in the directory and renames it to KEY/encoder_cache.safetensors,
 * so that whoever finds that has all of it. The key must be valid (ommai_encoding_key_valid). Any
 * thread. On failure nothing is left of it. Errors: IO. */
enum omma_status ommai_encoding_directory_write(const struct ommai_encoding_directory *directory, const char *key,
                                                const char *bytes, size_t size, struct omma_error *error);

#endif
