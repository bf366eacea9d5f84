/* An image's embeddings as others get them: a safetensors file with one tensor, "ec_cache", as
 * vLLM's ECExampleConnector has it. */
#pragma once

#include <omma/omma.h>

#include "base/text_buffer.h"

/* Appends the file: [n_tokens, (1 + n_deepstack) * width] in bf16 or f32 as info->bf16_embeddings
 * gives; its metadata name the model by `model_name` and by its fingerprint, how the tower computed
 * ("numeric_mode", "isa", "version"), and the image's grid of patches ("image_grid_thw":
 * "1,16,22"). False when memory is out. */
bool ommai_encoding_body_write(const struct omma_model_info *info, const char *model_name,
                               const struct omma_embeddings *embeddings, size_t index, struct ommai_text *out);
