/* What the tables of the Qwen families share: sizes and names of towers, how images are prepared,
 * the form of prompts. */
#pragma once

#include "families/model_config.h"
#include "families/prompt_builder.h"
#include "families/token_vectors.h"

/* Members of struct ommai_vision_config, as the classes' defaults have them; widths differ. */
#define OMMAI_QWEN_TOWER                                                                                                  \
  .n_heads = 16, .temporal_patch_size = 2, .merge_size = 2, .in_channels = 3, .out_hidden_size = 3584, .norm_eps = 1e-6f, \
  .merger_norm_eps = 1e-6f, .rope = OMMAI_ROPE_HALF, .rope_theta = 10000.0

/* Members of struct ommai_tower_names. */
#define OMMAI_QWEN_TOWER_NAMES                                                                                     \
  .patch_embed = "patch_embed.proj", .patch_embed_dims = 5, .block = "blocks", .norm1 = "norm1", .norm2 = "norm2", \
  .qkv = "attn.qkv", .proj = "attn.proj", .apart = {"attn.q", "attn.k", "attn.v"}

/* Members of struct ommai_family, where the file names its own parts tower, tower_keys, tower_names
 * and published. */
#define OMMAI_QWEN_FAMILY                                                                           \
  .tower = &tower, .tower_keys = &tower_keys, .tower_names = &tower_names, .published = &published, \
  .image = {.resize_rule = OMMAI_RESIZE_INT16}, .image_token_key = "image_token_id", .video_token_key = "video_token_id"

/* preprocessor_config.json, less the sizes that config.json has. There is no file for videos. */
#define OMMAI_QWEN2_PREPROCESSOR "{\"min_pixels\": 3136, \"max_pixels\": 12845056," OMMAI_CLIP_KEYS "}"

/* Of transformers' Qwen2VLImageProcessor and Qwen2VLVideoProcessor. */
extern const struct ommai_processor_defaults ommai_qwen2_processor_defaults;

extern const struct ommai_media_marks ommai_qwen2_media_marks;

/* Turns between <|im_start|>ROLE and <|im_end|>, in Jinja; Qwen2-VL and Qwen2.5-VL begin with a
 * system message where the conversation has none. */
#define OMMAI_QWEN_TURNS                                                                                  \
  "{%- for message in messages -%}{{ '<|im_start|>' + message.role + '\n' }}"                             \
  "{%- for part in ([{'type': 'text', 'text': message.content}] if message.content is string else "       \
  "message.content) -%}"                                                                                  \
  "{{ part.text if part.type == 'text' else '<|vision_start|><|' + part.type + '_pad|><|vision_end|>' }}" \
  "{%- endfor -%}{{ '<|im_end|>\n' }}{%- endfor -%}"                                                      \
  "{{ '<|im_start|>assistant\n' if add_generation_prompt }}"
#define OMMAI_QWEN2_TURNS \
  "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' if messages[0].role != 'system' }}" OMMAI_QWEN_TURNS

/* Members of struct ommai_token_vector_rules. Source: ColQwen2Processor, ColQwen2_5_Processor and
 * ColQwen3Processor of colpali_engine, ColQwen2Processor of transformers. */
#define OMMAI_QWEN_PAGES                                                     \
  .before_image = "<|im_start|>user\n<|vision_start|>",                      \
  .after_image = "<|vision_end|>Describe the image.<|im_end|><|endoftext|>", \
  .query_suffix =                                                            \
      "<|endoftext|><|endoftext|><|endoftext|><|endoftext|><|endoftext|>"    \
      "<|endoftext|><|endoftext|><|endoftext|><|endoftext|><|endoftext|>",   \
  .other_query_prefix = "Query: "
