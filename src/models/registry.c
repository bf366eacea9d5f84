#include <string.h>

#include "models/family.h"

static const struct ommai_family *const families[] = {&ommai_family_qwen3_vl};

const struct ommai_family *ommai_family_find(const char *model_type) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    if (strcmp(families[i]->model_type, model_type) == 0) return families[i];
  }
  return NULL;
}

const char *ommai_family_list(void) { return "qwen3_vl"; }
