/* generation_config.json: how requests are sampled that do not set it themselves, and the tokens
 * that end an answer. Read as vLLM 0.32 reads it: do_sample and the file's other keys mean
 * nothing. */
#pragma once

#include "families/model_config.h"
#include "text/tokenizer.h"

/* Reads generation_config.json; where it is missing, eos_token_id of `config` (config.json), else
 * of its text_config. A value out of the range that a request may ask for is refused. Errors:
 * FORMAT with the key as `field`, IO, MEMORY. */
enum omma_status ommai_generation_config_read(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                              const json_t *config, int64_t vocab_size,
                                              struct ommai_generation_config *generation, struct omma_error *error);

/* Changes what was read. `source`: NULL or "auto" is the checkpoint's own file; "vllm" keeps the
 * stop tokens alone; else a directory whose generation_config.json counts instead (stop tokens
 * too, where it has some), and whose max_new_tokens bounds every answer. `overrides`: a JSON
 * object with keys of that file that count before it (null: as if the file did not have it;
 * max_new_tokens then bounds every answer), or NULL; eos_token_id in it means nothing. Errors:
 * ARGUMENT with the option as `field`, or as above. */
enum omma_status ommai_generation_config_choose(const char *source, const char *overrides,
                                                const struct omma_allocator *allocator, int64_t vocab_size,
                                                struct ommai_generation_config *generation, struct omma_error *error);

/* Adds the token that tokenizer_config.json names as eos_token, where there is one. Errors: FORMAT,
 * IO, MEMORY. */
enum omma_status ommai_generation_config_add_eos(const struct ommai_documents *documents,
                                                 const struct omma_allocator *allocator,
                                                 const struct ommai_tokenizer *tokenizer,
                                                 struct ommai_generation_config *generation, struct omma_error *error);
