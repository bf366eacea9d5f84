/* The metadata of a model in GGUF files, as the documents of the checkpoint that they were
 * converted from: config.json, preprocessor_config.json and video_preprocessor_config.json,
 * generation_config.json, and the chat template in tokenizer_config.json. */
#pragma once

#include "families/documents.h"
#include "families/gguf_architectures.h"

/* The documents, as in struct ommai_documents.made; the caller decrefs. What the files lack
 * is the family's published value. Errors: FORMAT (a key that is missing or wrong, by name),
 * UNSUPPORTED, MEMORY. */
enum omma_status ommai_gguf_documents_make(const struct ommai_gguf_files *files,
                                           const struct ommai_gguf_architecture *architecture, json_t **documents,
                                           struct omma_error *error);
