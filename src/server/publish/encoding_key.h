/* What embeddings are published under: the uuid of an image, which vLLM calls its mm_hash. It
 * becomes a part of paths. */
#pragma once

#include <stdbool.h>

#define OMMAI_ENCODING_KEY_SIZE 129 /* with its NUL */

/* True for 1 to 128 ASCII letters, digits, "-", "_" and ".", the first of them a letter or
 * digit. */
bool ommai_encoding_key_valid(const char *key);
