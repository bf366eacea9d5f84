/* The known chat templates, as the digests of their pieces (template_pieces.h). */
#ifndef OMMAI_FAMILIES_KNOWN_TEMPLATES_H
#define OMMAI_FAMILIES_KNOWN_TEMPLATES_H

#include <stddef.h>
#include <stdint.h>

struct ommai_known_template {
  const uint32_t *digests;
  size_t count;
};

/* Released. */
extern const struct ommai_known_template ommai_template_qwen2_5_vl;
extern const struct ommai_known_template ommai_template_qwen3_vl_instruct;
extern const struct ommai_known_template ommai_template_qwen3_vl_thinking;
extern const struct ommai_known_template ommai_template_kimi_vl;
/* This project's own: those of the test checkpoints and of the demo model. */
extern const struct ommai_known_template ommai_template_own_qwen2_5_vl;
extern const struct ommai_known_template ommai_template_own_qwen3_vl;
extern const struct ommai_known_template ommai_template_own_demo;
extern const struct ommai_known_template ommai_template_own_kimi_vl;

#endif
