/* Whether a model, its context and a question fit into this machine's memory: reported before
 * weights are packed, with the options that help. */
#pragma once

#include <omma/omma.h>

/* Warns where the weights alone take more memory than is free. */
void ommai_room_warn_of_weights(const struct omma_model *model);

/* Options that make a estimate smaller, as the commands have them. */
#define OMMAI_ROOM_OPTIONS_OF_CHAT "--kv-cache-bytes, --max-model-len or --max-pixels"
#define OMMAI_ROOM_OPTIONS_OF_PLANNING "--kv-cache-bytes, --max-model-len, --max-num-seqs or --max-pixels"
#define OMMAI_ROOM_OPTIONS_OF_SERVING "--kv-cache-bytes, --max-model-len, --max-num-seqs, --max-pixels or --encoder-cache-bytes"

#define OMMAI_ROOM_OPTIONS_OF_ENCODING "--max-num-seqs, --max-pixels or --encoder-cache-bytes"

/* Warns where the estimate in all takes more memory than is free, naming `options`; not where the
 * weights alone do. */
void ommai_room_warn_of_total(const struct omma_model *model, const struct omma_memory_estimate *estimate, const char *options);

/* As these warn, but fails where the kernel would end the process instead of swapping: where a
 * control group, such as a container's, leaves less. Errors: MEMORY. */
enum omma_status ommai_room_check_weights(const struct omma_model *model, struct omma_error *error);
enum omma_status ommai_room_check_total(const struct omma_model *model, const struct omma_memory_estimate *estimate,
                                        const char *options, struct omma_error *error);

/* Reports an error as ommai_failed_call does; where memory ran out, also that `options` (NULL:
 * none) make the need smaller. */
int ommai_room_failed(const struct omma_error *error, const char *options);

/* Warns where prompt and answer may have fewer tokens together than the context limit; false where
 * they may not. */
bool ommai_room_warn_of_context(const struct omma_model *model, const struct omma_memory_estimate *estimate);

/* Notes how many tokens prompt and answer may have together, and the memory for that. */
void ommai_room_note(const struct omma_model *model, const struct omma_memory_estimate *estimate);

/* What to do about a prompt that is too long for an engine of `estimate`: names --max-pixels, and
 * --kv-cache-bytes where memory is what lacks. n_image_tokens of the n_tokens are those of
 * n_images images. */
void ommai_room_advise(const struct omma_model *model, const struct omma_memory_estimate *estimate, int64_t n_tokens,
                       int64_t n_images, int64_t n_image_tokens, char *out, size_t size);

/* Warns where an image at the largest area, that of `sizes` or else the model's, would be refused
 * as too long a prompt. */
void ommai_room_warn_of_largest(const struct omma_model *model, const struct omma_memory_estimate *estimate,
                                const struct omma_image_options *sizes);

/* Whether a prompt, and one token after it, fits into an engine of `estimate`. Errors: those of
 * omma_count_prompt_tokens, LIMIT ("input_tokens") with advice. */
enum omma_status ommai_room_check_prompt(const struct omma_model *model, const struct omma_memory_estimate *estimate,
                                         const struct omma_message *messages, size_t n_messages, struct omma_error *error);
