#include "families/weight_policy.h"

#include <string.h>

#include "base/error.h"

enum omma_dtype ommai_weight_type_compute(enum omma_weight_type wanted, enum ommai_cpu_level level) {
  if (wanted == OMMA_WEIGHTS_AUTO || wanted == OMMA_WEIGHTS_INT8) {
    return level == OMMAI_CPU_AVX512_BF16 || level == OMMAI_CPU_NEON_BF16 ? OMMA_BF16 : OMMA_F32;
  }
  return wanted == OMMA_WEIGHTS_BF16 ? OMMA_BF16 : OMMA_F32;
}

struct ommai_weight_kind ommai_weight_kind_dense(enum omma_dtype compute) {
  return (struct ommai_weight_kind){.format = OMMAI_FORMAT_BF16, .compute = compute};
}

/* What a checkpoint is already, by vLLM's names. */
static const struct {
  const char *name, *declared;
} stored_methods[] = {{"compressed-tensors", "compressed-tensors"},
                      {"fp8", "fp8"},
                      {"awq", "awq"},
                      {"awq_marlin", "awq"},
                      {"gptq", "gptq"},
                      {"gptq_marlin", "gptq"},
                      {"gguf", "gguf"}};

static const struct {
  const char *name;
  enum ommai_weight_format format;
  int64_t group;
} made_methods[] = {{"int8", OMMAI_FORMAT_INT8, 0},
                    {"int4", OMMAI_FORMAT_INT4, OMMA_INT4_GROUP},
                    {"int4-g32", OMMAI_FORMAT_INT4, 32},
                    {"int4-g64", OMMAI_FORMAT_INT4, 64},
                    {"int4-g128", OMMAI_FORMAT_INT4, 128}};

static enum omma_status check_declared(const char *name, const char *method, const char *declared, struct omma_error *error) {
  size_t size = strlen(method);
  if (declared && strncmp(declared, method, size) == 0 && (declared[size] == ':' || !declared[size])) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "quantization",
                          "quantization: %s: this checkpoint is %s%.80s; int8 and int4 can be made of bf16, f16 and f32 "
                          "weights when they are loaded",
                          name, declared ? "quantised otherwise, " : "not quantised", declared ? declared : "");
}

enum omma_status ommai_weight_kind_quantize(const char *name, const char *declared, struct ommai_weight_kind dense,
                                            struct ommai_weight_kind *kind, struct omma_error *error) {
  *kind = dense;
  if (!name || strcmp(name, "none") == 0) return OMMA_OK;
  for (size_t i = 0; i < sizeof stored_methods / sizeof *stored_methods; i++) {
    if (strcmp(name, stored_methods[i].name) == 0) return check_declared(name, stored_methods[i].declared, declared, error);
  }
  for (size_t i = 0; i < sizeof made_methods / sizeof *made_methods; i++) {
    if (strcmp(name, made_methods[i].name) != 0) continue;
    if (declared) {
      return ommai_fail_field(
          error, OMMA_ERROR_UNSUPPORTED, "quantization",
          "quantization: %s is made from bf16, f16 or f32 weights, and this checkpoint is quantised already, %.80s: "
          "leave the option out",
          name, declared);
    }
    *kind = (struct ommai_weight_kind){made_methods[i].format, dense.compute, made_methods[i].group, OMMAI_INPUTS_SYMMETRIC};
    return OMMA_OK;
  }
  return ommai_fail_field(
      error, OMMA_ERROR_ARGUMENT, "quantization",
      "quantization: %.60s is not supported; expected none, int8, int4, int4-g32, int4-g64 or int4-g128, or what "
      "the checkpoint is: compressed-tensors, fp8, awq, gptq or gguf",
      name);
}

/* The kind of layers that 4 bits would harm most, or that are few. */
static struct ommai_weight_kind at_least_int8(struct ommai_weight_kind text) {
  const struct ommai_weight_kind int8 = {OMMAI_FORMAT_INT8, text.compute, 0, OMMAI_INPUTS_SYMMETRIC};
  return text.format == OMMAI_FORMAT_INT4 ? int8 : text;
}

struct ommai_weight_policy ommai_weight_policy_make(struct ommai_weight_kind tower, bool gated_tower,
                                                    struct ommai_weight_kind text) {
  /* The patch embedding is never in int8. Towers with gated layers are nearer to int8's bounds (a
   * product of two has long tails, which eight bits hold badly, and RMSNorm swells what is wrong
   * in short rows): what adds to their residual, and their mergers, are not. */
  bool is_int8 = tower.format == OMMAI_FORMAT_INT8;
  const struct ommai_weight_kind plain = is_int8 ? ommai_weight_kind_dense(tower.compute) : tower,
                                 adding = gated_tower ? plain : tower, fine = at_least_int8(text);
  return (struct ommai_weight_policy){.kinds = {[OMMAI_ROLE_PATCH_EMBED] = plain,
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
                                                [OMMAI_ROLE_MLA] = fine,
                                                [OMMAI_ROLE_ROUTER] = {.format = OMMAI_FORMAT_F32, .compute = OMMA_F32},
                                                [OMMAI_ROLE_LM_HEAD] = fine}};
}
