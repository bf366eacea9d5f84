/* What the released files of Qwen2-VL and Qwen2.5-VL share: how images are prepared, and the
 * chat template. */
#ifndef OMMAI_FAMILIES_QWEN2_FILES_H
#define OMMAI_FAMILIES_QWEN2_FILES_H

#include "families/chat_template.h"
#include "families/model_config.h"

/* preprocessor_config.json, less the sizes that config.json has. There is no file for videos. */
#define OMMAI_QWEN2_PREPROCESSOR                          \
  "{\"min_pixels\": 3136, \"max_pixels\": 12845056,"      \
  " \"image_mean\": [0.48145466, 0.4578275, 0.40821073]," \
  " \"image_std\": [0.26862954, 0.26130258, 0.27577711]}"

/* Of transformers' Qwen2VLImageProcessor and Qwen2VLVideoProcessor. */
extern const struct ommai_processor_defaults ommai_qwen2_processor_defaults;

extern const struct ommai_builtin_template ommai_qwen2_builtin_template;

#endif
