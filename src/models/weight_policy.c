#include "models/weight_policy.h"

struct ommai_weight_kind ommai_weight_kind_dense(enum omma_dtype compute) {
  return (struct ommai_weight_kind){OMMAI_FORMAT_BF16, compute};
}

struct ommai_weight_policy ommai_weight_policy_make(struct ommai_weight_kind tower, bool gated_tower,
                                                    struct ommai_weight_kind text) {
  /* The patch embedding is never in int8. Towers with gated layers are nearer to int8's bounds (a product of two has long tails, which
   * eight bits hold badly, and RMSNorm swells what is wrong in short rows): what adds to their residual, and their mergers, are not. */
  bool is_int8 = tower.format == OMMAI_FORMAT_INT8;
  const struct ommai_weight_kind plain = is_int8 ? ommai_weight_kind_dense(tower.compute) : tower,
                                 adding = gated_tower ? plain : tower;
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
                                       [OMMAI_ROLE_LATENT] = text,
                                       [OMMAI_ROLE_ROUTER] = {OMMAI_FORMAT_F32, OMMA_F32},
                                       [OMMAI_ROLE_LM_HEAD] = text}};
}
