/* What benchmarks run on: segmentations from the command line, random tensors, images of noise,
 * random tokens; and how answers are waited for. */
#pragma once

#include <omma/attention.h>
#include <omma/omma.h>

/* Borders of packed segments: [count + 1], the first 0. */
struct ommai_segments {
  int64_t *borders;
  size_t count, capacity;
};

/* Reads a list of lengths: entries `N` (a segment of N tokens) or `NxC` (C segments of N) with
 * commas between them, or the name of a file with such entries, separated by commas, blanks or
 * line breaks. Returns an exit code. */
int ommai_segments_parse(const char *text, struct ommai_segments *segments);
void ommai_segments_release(struct ommai_segments *segments);

/* q [n_tokens, heads, head_dim] and k [n_tokens, kv_heads, head_dim] packed, v [n_tokens, kv_heads,
 * head_dim] a view into rows [q | k | v], out packed; all in one block. */
struct ommai_attention_inputs {
  struct omma_attention_tensors tensors;
  void *memory;
  size_t size;
};

/* Random values, about normal, the same for the same seed. Returns an exit code. */
int ommai_attention_inputs_create(int64_t n_tokens, int64_t heads, int64_t kv_heads, int64_t head_dim, enum omma_dtype dtype,
                                  uint64_t seed, struct ommai_attention_inputs *inputs);
void ommai_attention_inputs_release(struct ommai_attention_inputs *inputs);

/* An image of noise, the same for the same seed. Returns an exit code. */
int ommai_noise_image(int32_t width, int32_t height, uint64_t seed, struct omma_image **image);

/* n token ids drawn from those that have a text and are not markers, the same for the same seed.
 * Returns an exit code. */
int ommai_random_tokens(const struct omma_model *model, uint64_t seed, int32_t *tokens, size_t n);

/* Asks for n answers to a request at once, with these callbacks, and waits until all have ended.
 * Errors: why one of them could not be submitted, or failed. */
enum omma_status ommai_ask_together(struct omma_engine *engine, const struct omma_request *request, int64_t n,
                                    const struct omma_callbacks *callbacks, struct omma_error *error);
