/* A model family: everything that is particular to it, as functions. The registry is the one list of families. */
#ifndef OMMAI_MODELS_FAMILY_H
#define OMMAI_MODELS_FAMILY_H

#include "models/model_config.h"
#include "models/prompt_builder.h"
#include "models/weight_loader.h"

struct ommai_family {
  const char *model_type; /* of config.json */

  /* Reads config.json (root; `path` for messages) into config's vision, text and special ids. */
  enum omma_status (*parse_config)(const json_t *root, const char *path, struct ommai_model_config *config,
                                   struct omma_error *error);

  /* Names every tensor to the loader, which fills the structs when it packs. */
  enum omma_status (*load_vision)(struct ommai_weight_loader *loader, struct ommai_vision_tower *tower,
                                  struct omma_error *error);
  enum omma_status (*load_text)(struct ommai_weight_loader *loader, struct ommai_decoder *decoder, struct omma_error *error);

  /* Writes the conversation in the family's chat form. Errors: ARGUMENT (a role or part where the form has no place for it). */
  enum omma_status (*render_chat)(const struct omma_message *messages, size_t n_messages, bool continue_final_message,
                                  struct ommai_prompt_builder *builder, struct omma_error *error);
};

/* The family for a model_type, or NULL; and the list of all, separated by blanks, for messages. */
const struct ommai_family *ommai_family_find(const char *model_type);
const char *ommai_family_list(void);

extern const struct ommai_family ommai_family_qwen3_vl;
extern const struct ommai_family ommai_family_qwen3_vl_moe;

#endif
