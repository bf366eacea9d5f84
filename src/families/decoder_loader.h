/* The tensors of a decoder that are named alike in all families: what follows a prefix such as
 * "model.layers.7". */
#pragma once

#include "families/weight_loader.h"
#include "language/decoder.h"

enum { OMMAI_DECODER_PREFIX_SIZE = 128 };

/* PREFIX.NAME as a vector [n]. */
enum omma_status ommai_decoder_load_vector(struct ommai_weight_loader *loader, const char *prefix, const char *name, int64_t n,
                                           float **out, struct omma_error *error);

/* PREFIX.NAME as one part of a stacked layer. */
struct ommai_linear_part ommai_decoder_part(const char *prefix, const char *name, int64_t n_out, bool has_bias);

/* Stacked parts as a layer for all rows; what prefill calls is made when packing. */
enum omma_status ommai_decoder_load_linear(struct ommai_weight_loader *loader, enum ommai_weight_role role,
                                           const struct ommai_linear_part *parts, int n_parts, int64_t n_in,
                                           struct ommai_linear_call call, struct ommai_decoder_linear *out,
                                           struct omma_error *error);
/* The same from matrices of opened tensors; and a layer for one task's rows. */
enum omma_status ommai_decoder_pack_linear(struct ommai_weight_loader *loader, enum ommai_weight_role role, const char *name,
                                           const struct ommai_linear_source *sources, int n_sources, int64_t n_in,
                                           struct ommai_linear_call call, struct ommai_decoder_linear *out,
                                           struct omma_error *error);
enum omma_status ommai_decoder_pack_tile_linear(struct ommai_weight_loader *loader, enum ommai_weight_role role,
                                                const char *name, const struct ommai_linear_source *sources, int n_sources,
                                                int64_t n_in, struct ommai_linear_call call,
                                                struct ommai_decoder_tile_linear *out, struct omma_error *error);

/* PREFIX.{gate,up,down}_proj.weight of the given intermediate size; fused: gate and up are one,
 * PREFIX.gate_up_proj.weight. */
enum omma_status ommai_decoder_load_dense(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                          const char *prefix, int64_t intermediate_size, bool fused,
                                          struct ommai_decoder_dense *out, struct omma_error *error);

/* PREFIX.gate.weight, the router of an MoE layer, and PREFIX.shared_expert_gate.weight where there
 * is one, in f32. */
enum omma_status ommai_decoder_load_router(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                           const char *prefix, struct ommai_decoder_tile_linear *out, struct omma_error *error);

/* PREFIX.experts.E.{gate,up,down}_proj.weight for every expert. */
enum omma_status ommai_decoder_load_experts(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                            const char *prefix, struct ommai_decoder_layer *layer, struct omma_error *error);

/* PREFIX.embed_tokens.weight, PREFIX.norm.weight, and HEAD.weight where the embedding is not
 * tied. */
enum omma_status ommai_decoder_load_ends(struct ommai_weight_loader *loader, const char *prefix, const char *head,
                                         struct ommai_decoder *decoder, struct omma_error *error);
