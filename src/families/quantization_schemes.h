/* How the methods' configurations are read, one function for each method. For quantization.c. */
#pragma once

#include "base/json.h"
#include "families/name_list.h"
#include "weights/storage.h"

#define OMMAI_QUANTIZATION_MAX_SCHEMES 1024

struct ommai_quantization {
  struct omma_allocator allocator;
  const char *method; /* a constant */
  struct ommai_storage schemes[OMMAI_QUANTIZATION_MAX_SCHEMES];
  int n_schemes;
  /* the scheme of layers that no target names; -1: there are none */
  int otherwise;
  bool may_be_mixed;               /* groups may not be runs of inputs */
  struct ommai_name_list *skipped; /* layers that are left as they are */
  struct ommai_name_list *targets; /* the values are schemes */
  char description[160];
};

/* `config` is the quantization_config, `where` the path and the keys down to it. Errors: FORMAT,
 * UNSUPPORTED, LIMIT, MEMORY. */
enum omma_status ommai_quantization_parse_compressed_tensors(const json_t *config, const char *where,
                                                             struct ommai_quantization *out, struct omma_error *error);
enum omma_status ommai_quantization_parse_fp8(const json_t *config, const char *where, struct ommai_quantization *out,
                                              struct omma_error *error);
enum omma_status ommai_quantization_parse_awq(const json_t *config, const char *where, struct ommai_quantization *out,
                                              struct omma_error *error);
enum omma_status ommai_quantization_parse_gptq(const json_t *config, const char *where, struct ommai_quantization *out,
                                               struct omma_error *error);
