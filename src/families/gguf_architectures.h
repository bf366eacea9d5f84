/* The kinds of models that are read from GGUF files, with the names of their tensors. */
#pragma once

#include "families/gguf_names.h"

/* A kind of model that is read: the architecture of the language model's file and the projector of
 * the mmproj, which belong together. */
struct ommai_gguf_architecture {
  const char *name;       /* general.architecture */
  const char *projector;  /* clip.projector_type */
  const char *model_type; /* of config.json */
  const struct ommai_gguf_name *text, *tower;
  const char *series; /* how names of such models are spelt, in small letters and digits */
};

/* The entry for these files. Errors: UNSUPPORTED, by name, with those that are known; FORMAT where
 * the language model's name is that of another tower's series. */
enum omma_status ommai_gguf_architecture_find(const struct ommai_gguf_files *files,
                                              const struct ommai_gguf_architecture **architecture, struct omma_error *error);
