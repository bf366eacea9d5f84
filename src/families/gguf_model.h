/* A model in GGUF files, presented as the checkpoint directory that it was converted from:
 * documents, tokenizer, tensors. */
#pragma once

#include "families/documents.h"
#include "text/tokenizer.h"
#include "weights/checkpoint.h"

/* Immutable once open; any number of threads may use it. */
struct ommai_gguf_model;

/* Opens and checks the files: ommai_gguf_files_open (gguf_files.h) lists which. Errors: as there,
 * and FORMAT or UNSUPPORTED with the key or the tensor. */
enum omma_status ommai_gguf_model_open(const char *path, const char *mmproj, const struct omma_allocator *allocator,
                                       struct ommai_gguf_model **model, struct omma_error *error);
/* NULL is allowed. Checkpoints made of it are closed before. */
void ommai_gguf_model_close(struct ommai_gguf_model *model);

const struct ommai_documents *ommai_gguf_model_documents(const struct ommai_gguf_model *model);

/* The types of the language model's matrices with how many there are, "gguf: 120 Q4_K, 29 Q6_K, 1
 * F32", and NULL where none is quantised. Lives as long as the model. */
const char *ommai_gguf_model_description(const struct ommai_gguf_model *model);

/* The caller closes the checkpoint and destroys the tokenizer. */
enum omma_status ommai_gguf_model_checkpoint(const struct ommai_gguf_model *model, struct ommai_checkpoint **checkpoint,
                                             struct omma_error *error);
enum omma_status ommai_gguf_model_tokenizer(const struct ommai_gguf_model *model, struct ommai_tokenizer **tokenizer,
                                            struct omma_error *error);
