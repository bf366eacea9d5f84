/* Small decoders of every kind with random weights, made without a checkpoint, and the same network
 * in double precision. */
#pragma once

#include "language/decoder.h"

/* BIASED: grouped, biased q, k, v. MOE: grouped, normed q and k, a softmax router, every layer
 * routed. MLA: one dense layer, then routed ones with groups, a bias for the choice and shared
 * experts. RECURRENT: layers with toy_mixer around a grouped one. WINDOW: layers that see 100
 * positions around one that sees all. BRANCHES: neighbours of a head turn together, and what
 * attention and feed-forward part give is normed. */
enum decoder_kind {
  DECODER_BIASED,
  DECODER_MOE,
  DECODER_MLA,
  DECODER_RECURRENT,
  DECODER_WINDOW,
  DECODER_BRANCHES,
  DECODER_KINDS
};

enum { DECODER_HIDDEN = 48, DECODER_VOCAB = 67 };

/* A matrix [n_out, n_in], and a vector, as the network in double precision reads them. */
struct decoder_matrix {
  float *weight, *bias;
  int64_t n_out, n_in;
};

struct decoder_fixture {
  struct ommai_decoder decoder;
  struct omma_attention_context *context;
  const struct omma_allocator *allocator;
  float *embedding;
  struct decoder_matrix matrices[512]; /* in the order of making */
  int n_matrices;
};

/* The allocator must outlive the decoder. */
void decoder_fixture_make(struct decoder_fixture *fixture, enum decoder_kind kind, enum omma_dtype dtype, int n_workers,
                          const struct omma_allocator *allocator);
void decoder_fixture_free(struct decoder_fixture *fixture);

/* Logits [DECODER_VOCAB] of the last of n tokens, positions 0, 1, 2 ..., in double precision. */
void decoder_fixture_oracle(const struct decoder_fixture *fixture, const int32_t *tokens, int64_t n, double *logits);
