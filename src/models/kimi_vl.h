/* The tower of Kimi-VL, for its family and for tests. */
#ifndef OMMAI_MODELS_KIMI_VL_H
#define OMMAI_MODELS_KIMI_VL_H

#include "base/json.h"
#include "models/weight_loader.h"
#include "vision/vision_tower.h"

/* Reads the tower's part of config.json (root; `path` for messages). *config is zero before. Errors: FORMAT, UNSUPPORTED. */
enum omma_status ommai_kimi_vl_parse_vision(const json_t *root, const char *path, struct ommai_vision_config *config,
                                            struct omma_error *error);

/* Names the tower's tensors to the loader, as family.h says. */
enum omma_status ommai_kimi_vl_load_vision(struct ommai_weight_loader *loader, struct ommai_vision_tower *tower,
                                           struct omma_error *error);

#endif
