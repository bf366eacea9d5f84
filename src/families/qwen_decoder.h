/* The language models of the Qwen vision-language families: config keys and tensor names of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3-VL MoE.
 * Source: transformers' modeling_qwen2_5_vl.py, modeling_qwen3_vl.py, modeling_qwen3_vl_moe.py and the released checkpoints. */
#ifndef OMMAI_FAMILIES_QWEN_DECODER_H
#define OMMAI_FAMILIES_QWEN_DECODER_H

#include "base/json.h"
#include "families/weight_loader.h"
#include "language/decoder.h"

/* QWEN2: biased q, k, v; contiguous rotary sections. QWEN3: normed q and k, own head_dim, interleaved sections; MOE: the same with
 * MoE layers. */
enum ommai_qwen_variant { OMMAI_QWEN2, OMMAI_QWEN3, OMMAI_QWEN3_MOE };

/* Reads the text part of config.json (root; `path` for messages): `text_config`, or for QWEN2 the top level where that is missing.
 * All but n_deepstack is filled in. Errors: FORMAT, UNSUPPORTED. */
enum omma_status ommai_qwen_decoder_parse(const json_t *root, const char *path, enum ommai_qwen_variant variant,
                                          struct ommai_decoder_config *config, struct omma_error *error);

/* Names the tensors, below "model.language_model" or "model": what the checkpoint has, else as the variant was released. */
enum omma_status ommai_qwen_decoder_load(struct ommai_weight_loader *loader, enum ommai_qwen_variant variant,
                                         struct ommai_decoder *decoder, struct omma_error *error);

#endif
