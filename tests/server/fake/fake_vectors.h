/* Vectors and scores of the scripted engine, which follow from the bytes of prompts. */
#pragma once

#include <omma/vectors.h>

#define FAKE_VECTOR_WIDTH 16

/* Writes a vector, of length 1 unless raw, or a score. Returns its width. */
int64_t fake_vector(enum omma_request_kind kind, const int32_t *prompt, size_t n_prompt, int64_t dimensions, int64_t raw,
                    float values[FAKE_VECTOR_WIDTH]);
