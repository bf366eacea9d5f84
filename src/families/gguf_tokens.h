/* The tokenizer in a GGUF file's keys, tokenizer.ggml.*. */
#pragma once

#include "text/tokenizer.h"
#include "weights/gguf.h"

/* Makes the tokenizer, whose ids are those of the checkpoint that the file was converted from. The
 * caller destroys it. Errors: FORMAT with the key; UNSUPPORTED for a tokenizer of another kind, by
 * name; LIMIT; MEMORY. */
enum omma_status ommai_gguf_tokens_load(const struct ommai_gguf *file, const struct omma_allocator *allocator,
                                        struct ommai_tokenizer **tokenizer, struct omma_error *error);
