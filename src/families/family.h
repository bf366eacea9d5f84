/* A model family: everything that is particular to it, as functions. The registry is the one list of families. */
#ifndef OMMAI_FAMILIES_FAMILY_H
#define OMMAI_FAMILIES_FAMILY_H

#include "families/chat_template.h"
#include "families/model_config.h"
#include "families/weight_loader.h"

struct ommai_family {
  const char *model_type; /* of config.json */

  /* Reads config.json (root; `path` for messages) into config's vision, text and special ids. */
  enum omma_status (*parse_config)(const json_t *root, const char *path, struct ommai_model_config *config,
                                   struct omma_error *error);

  /* Names every tensor to the loader, which fills the structs when it packs. */
  enum omma_status (*load_vision)(struct ommai_weight_loader *loader, struct ommai_vision_tower *tower,
                                  struct omma_error *error);
  enum omma_status (*load_text)(struct ommai_weight_loader *loader, struct ommai_decoder *decoder, struct omma_error *error);

  const struct ommai_default_processor *published;
  const struct ommai_processor_defaults *defaults;
  const struct ommai_chat_variant *variants; /* its known chat templates */
  enum omma_box_unit box_unit;               /* of the boxes in its answers; NONE: it was not trained on a JSON form of them */
};

/* The family for a model_type, or NULL; and the list of all, separated by blanks, for messages. */
const struct ommai_family *ommai_family_find(const char *model_type);
const char *ommai_family_list(void);

extern const struct ommai_family ommai_family_qwen2_vl;
extern const struct ommai_family ommai_family_qwen2_5_vl;
extern const struct ommai_family ommai_family_qwen3_vl;
extern const struct ommai_family ommai_family_qwen3_vl_moe;
extern const struct ommai_family ommai_family_kimi_vl;

#endif
