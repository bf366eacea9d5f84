/* The language model of DeepSeek-V3's kind, as in Kimi-VL: MLA, sigmoid router, shared experts. Source: transformers'
 * modeling_deepseek_v3.py and the released checkpoints. */
#ifndef OMMAI_FAMILIES_DEEPSEEK_DECODER_H
#define OMMAI_FAMILIES_DEEPSEEK_DECODER_H

#include "base/json.h"
#include "families/weight_loader.h"
#include "language/decoder.h"

/* Reads text_config of config.json (root; `path` for messages). Errors: FORMAT, UNSUPPORTED. */
enum omma_status ommai_deepseek_decoder_parse(const json_t *root, const char *path, struct ommai_decoder_config *config,
                                              struct omma_error *error);

/* Names the tensors, PREFIX.model.* and PREFIX.lm_head. */
enum omma_status ommai_deepseek_decoder_load(struct ommai_weight_loader *loader, const char *prefix,
                                             struct ommai_decoder *decoder, struct omma_error *error);

#endif
