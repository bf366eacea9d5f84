/* In which format a model's weights are packed and in which type their layers compute, by what a
 * layer is for. Made once, from the options; everything that counts, estimates or packs asks it. */
#pragma once

#include <omma/omma.h>

#include "linear/linear.h"

/* What a layer is for. ROLE_MLA: what the heads of MLA make of the compressed values. */
enum ommai_weight_role {
  OMMAI_ROLE_PATCH_EMBED,
  OMMAI_ROLE_TOWER_QKV,
  OMMAI_ROLE_TOWER_PROJ,
  OMMAI_ROLE_TOWER_FC1,
  OMMAI_ROLE_TOWER_FC2,
  OMMAI_ROLE_MERGER,
  OMMAI_ROLE_TEXT_QKV,
  OMMAI_ROLE_TEXT_O,
  OMMAI_ROLE_GATE_UP,
  OMMAI_ROLE_DOWN,
  OMMAI_ROLE_EXPERT,
  OMMAI_ROLE_MLA,
  OMMAI_ROLE_ROUTER,
  OMMAI_ROLE_LM_HEAD,
  OMMAI_ROLE_STATE_PROJECTION,
  OMMAI_WEIGHT_ROLES
};

/* Dense weights for computing in f32 are asked for as BF16: those that the checkpoint has in bf16
 * stay so, which loses nothing; others are kept as f32. */
struct ommai_weight_kind {
  enum ommai_weight_format format;
  enum omma_dtype compute;
  int64_t group; /* quantised: inputs that share a scale; 0: all */
  enum ommai_linear_inputs inputs;
};

struct ommai_weight_policy {
  struct ommai_weight_kind kinds[OMMAI_WEIGHT_ROLES];
  /* The language model's layers that a file stores as integers with scales are kept so; false: they
   * are expanded to the kinds of `kinds`. */
  bool keeps_stored;
};

/* The type that layers compute in; of int8 layers, that of what goes in and out. */
enum omma_dtype ommai_weight_type_compute(enum omma_weight_type wanted, enum ommai_cpu_level level);

struct ommai_weight_kind ommai_weight_kind_dense(enum omma_dtype compute);

/* A tower's, that computes in `compute`. */
struct ommai_weight_kind ommai_weight_kind_of_tower(enum omma_weight_type wanted, enum omma_dtype compute);

/* What such layers are said to compute in: a quantised format's name, or the type's. */
const char *ommai_weight_kind_name(const struct ommai_weight_kind *kind);

/* What becomes of `dense` by a name of omma_quantization_method (NULL: none). declared: what
 * the checkpoint is already, "awq" or "awq: ...", NULL: not quantised. Errors (field
 * "quantization"): ARGUMENT, UNSUPPORTED (not what the checkpoint is). */
enum omma_status ommai_weight_kind_quantize(const char *name, const char *declared, struct ommai_weight_kind dense,
                                            struct ommai_weight_kind *kind, struct omma_error *error);

/* `tower` and `text` are what was asked for; gated_tower: its blocks have gated layers. */
struct ommai_weight_policy ommai_weight_policy_make(struct ommai_weight_kind tower, bool gated_tower,
                                                    struct ommai_weight_kind text);
