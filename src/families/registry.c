#include <stdio.h>
#include <string.h>

#include "families/family.h"
#include "families/vector_rules.h"

#define FAMILY_POINTER(name, words) &ommai_family_##name,
#define FAMILY_NAME(name, words) " " #name

static const struct ommai_family *const families[] = {OMMAI_FAMILIES(FAMILY_POINTER)};

const struct ommai_family *ommai_family_find(const char *model_type) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    if (strcmp(families[i]->model_type, model_type) == 0) return families[i];
  }
  return NULL;
}

const char *ommai_family_list(void) { return &OMMAI_FAMILIES(FAMILY_NAME)[1]; }

const char *ommai_vector_model_name(enum omma_model_task task) {
  size_t i = 0;
  while (!families[i]->vectors) i++;
  return families[i]->vectors->models[task];
}

static void add_name(char *list, size_t size, const char *name) {
  size_t n = strlen(list);
  snprintf(list + n, size - n, "%s%s", n ? " " : "", name);
}

void ommai_vector_family_lists(char *of_inputs, char *of_tokens, size_t size) {
  *of_inputs = *of_tokens = '\0';
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    if (families[i]->vectors) add_name(of_inputs, size, families[i]->model_type);
    if (families[i]->token_vectors) add_name(of_tokens, size, families[i]->model_type);
  }
}
