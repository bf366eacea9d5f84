#include <string.h>

#include "families/family.h"

/* X(model_type): adding a family is one entry here. */
#define FAMILIES(X) X(qwen2_vl) X(qwen2_5_vl) X(qwen3_vl) X(qwen3_vl_moe) X(kimi_vl)

#define FAMILY_POINTER(name) &ommai_family_##name,
#define FAMILY_NAME(name) " " #name

static const struct ommai_family *const families[] = {FAMILIES(FAMILY_POINTER)};

const struct ommai_family *ommai_family_find(const char *model_type) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    if (strcmp(families[i]->model_type, model_type) == 0) return families[i];
  }
  return NULL;
}

const char *ommai_family_list(void) { return &FAMILIES(FAMILY_NAME)[1]; }
