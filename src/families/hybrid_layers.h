/* Decoders most of whose layers are gated delta nets, and the others attention with output gates:
 * their keys and tensors. Source: transformers' configuration_qwen3_5.py and modeling_qwen3_5.py.
 * */
#pragma once

#include "base/json.h"
#include "families/decoder_loader.h"

/* Reads which layers are which, from layer_types or full_attention_interval, and the sizes of the
 * gated delta nets; refuses attention without output gates. Errors: FORMAT, UNSUPPORTED. */
enum omma_status ommai_hybrid_parse(const json_t *text, const char *where, struct ommai_decoder_config *config,
                                    struct omma_error *error);

/* PREFIX.linear_attn of a gated delta net. */
enum omma_status ommai_hybrid_load_delta(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                         const char *prefix, int64_t index, struct ommai_decoder_layer *layer,
                                         struct omma_error *error);

/* q, k and v of PREFIX.self_attn, whose q_proj has a head's queries and then its gates. */
enum omma_status ommai_hybrid_load_qkv(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                       const char *prefix, int64_t index, struct ommai_decoder_layer *layer,
                                       struct omma_error *error);

/* Weights [n] of a norm that was loaded, where it was packed, to what it multiplies by: 1 + weight.
 * */
void ommai_hybrid_finish_norm(const struct ommai_weight_loader *loader, float *weight, int64_t n);
