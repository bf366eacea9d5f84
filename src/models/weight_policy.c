#include "models/weight_policy.h"

#include <omma/omma.h>
#include <string.h>

#include "base/error.h"

struct ommai_weight_kind ommai_weight_kind_dense(enum omma_dtype compute) {
  return (struct ommai_weight_kind){.format = OMMAI_FORMAT_BF16, .compute = compute};
}

enum omma_status ommai_weight_kind_quantize(const char *name, struct ommai_weight_kind dense, struct ommai_weight_kind *kind,
                                            struct omma_error *error) {
  static const struct {
    const char *name;
    enum ommai_weight_format format;
    int64_t group;
  } methods[] = {{"int8", OMMAI_FORMAT_INT8, 0},
                 {"int4", OMMAI_FORMAT_INT4, OMMA_INT4_GROUP},
                 {"int4-g32", OMMAI_FORMAT_INT4, 32},
                 {"int4-g64", OMMAI_FORMAT_INT4, 64},
                 {"int4-g128", OMMAI_FORMAT_INT4, 128}};
  *kind = dense;
  if (!name || strcmp(name, "none") == 0) return OMMA_OK;
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    if (strcmp(name, methods[i].name) != 0) continue;
    *kind = (struct ommai_weight_kind){methods[i].format, dense.compute, methods[i].group, OMMAI_INPUTS_SYMMETRIC};
    return OMMA_OK;
  }
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "quantization",
                          "quantization: no such method: %.60s; expected none, int8, int4, int4-g32, int4-g64 or int4-g128",
                          name);
}

/* The kind of layers that 4 bits would harm most, or that are few. */
static struct ommai_weight_kind at_least_int8(struct ommai_weight_kind text) {
  const struct ommai_weight_kind int8 = {OMMAI_FORMAT_INT8, text.compute, 0, OMMAI_INPUTS_SYMMETRIC};
  return text.format == OMMAI_FORMAT_INT4 ? int8 : text;
}

struct ommai_weight_policy ommai_weight_policy_make(struct ommai_weight_kind tower, bool gated_tower,
                                                    struct ommai_weight_kind text) {
  /* The patch embedding is never in int8. Towers with gated layers are nearer to int8's bounds (a product of two has long tails, which
   * eight bits hold badly, and RMSNorm swells what is wrong in short rows): what adds to their residual, and their mergers, are not. */
  bool is_int8 = tower.format == OMMAI_FORMAT_INT8;
  const struct ommai_weight_kind plain = is_int8 ? ommai_weight_kind_dense(tower.compute) : tower,
                                 adding = gated_tower ? plain : tower, fine = at_least_int8(text);
  return (struct ommai_weight_policy){{[OMMAI_ROLE_PATCH_EMBED] = plain,
                                       [OMMAI_ROLE_TOWER_QKV] = tower,
                                       [OMMAI_ROLE_TOWER_PROJ] = adding,
                                       [OMMAI_ROLE_TOWER_FC1] = tower,
                                       [OMMAI_ROLE_TOWER_FC2] = adding,
                                       [OMMAI_ROLE_MERGER] = adding,
                                       [OMMAI_ROLE_TEXT_QKV] = text,
                                       [OMMAI_ROLE_TEXT_O] = text,
                                       [OMMAI_ROLE_GATE_UP] = text,
                                       [OMMAI_ROLE_DOWN] = text,
                                       [OMMAI_ROLE_EXPERT] = text,
                                       [OMMAI_ROLE_LATENT] = fine,
                                       [OMMAI_ROLE_ROUTER] = {.format = OMMAI_FORMAT_F32, .compute = OMMA_F32},
                                       [OMMAI_ROLE_LM_HEAD] = fine}};
}
