#include "families/weight_policy.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/plural.h"
#include "kernels/dtype.h"

enum omma_dtype ommai_weight_type_compute(enum omma_weight_type wanted, enum ommai_cpu_level level) {
  if (wanted == OMMA_WEIGHTS_F32 || wanted == OMMA_WEIGHTS_BF16) return wanted == OMMA_WEIGHTS_BF16 ? OMMA_BF16 : OMMA_F32;
  return level == OMMAI_CPU_AVX512_BF16 || level == OMMAI_CPU_AMX || level == OMMAI_CPU_NEON_BF16 ? OMMA_BF16 : OMMA_F32;
}

struct ommai_weight_kind ommai_weight_kind_dense(enum omma_dtype compute) {
  return (struct ommai_weight_kind){.format = OMMAI_FORMAT_BF16, .compute = compute};
}

struct ommai_weight_kind ommai_weight_kind_of_tower(enum omma_weight_type wanted, enum omma_dtype compute) {
  struct ommai_weight_kind kind = ommai_weight_kind_dense(compute);
  for (enum ommai_weight_format format = 0; format < OMMAI_WEIGHT_FORMATS && wanted != OMMA_WEIGHTS_AUTO; format++) {
    if (ommai_linear_format(format)->tower == wanted) kind.format = format;
  }
  return kind;
}

const char *ommai_weight_kind_name(const struct ommai_weight_kind *kind) {
  const struct ommai_linear_format *format = ommai_linear_format(kind->format);
  return format->quantised ? format->name : ommai_dtype_name(kind->compute);
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
enum { N_STORED = sizeof stored_methods / sizeof *stored_methods };

/* How many words there are that lead to a format. */
static int count_made(void) {
  enum ommai_weight_format format;
  int count = 0;
  while (ommai_format_method(count, &format)) count++;
  return count;
}

/* "none", the formats' words, what a checkpoint may be already. */
bool omma_quantization_method(int index, struct omma_quantization_method *method) {
  enum ommai_weight_format format;
  const struct ommai_format_method *made = index > 0 ? ommai_format_method(index - 1, &format) : NULL;
  const int stored = index - 1 - count_made();
  *method = (struct omma_quantization_method){.name = "none"};
  if (made) {
    const struct ommai_linear_format *table = ommai_linear_format(format);
    *method = (struct omma_quantization_method){made->name, table->name, table->packing_share};
  } else if (stored >= 0 && stored < N_STORED) {
    method->name = stored_methods[stored].name;
  }
  return made || index == 0 || (stored >= 0 && stored < N_STORED);
}

/* The words from `first` to before `end`, as far as there are. */
static const char *list_methods(int first, int end, char *out, size_t size) {
  struct omma_quantization_method method;
  out[0] = '\0';
  for (int i = first; i < end && omma_quantization_method(i, &method); i++) ommai_list_entry(out, size, "%s", method.name);
  return out;
}

static enum omma_status check_declared(const char *name, const char *method, const char *declared, struct omma_error *error) {
  char made[160];
  size_t size = strlen(method);
  if (declared && strncmp(declared, method, size) == 0 && (declared[size] == ':' || !declared[size])) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "quantization",
                          "quantization: %s: this checkpoint is %s%.80s; what can be made of bf16, f16 and f32 weights when "
                          "they are loaded: %s",
                          name, declared ? "quantised otherwise, " : "not quantised", declared ? declared : "",
                          list_methods(1, 1 + count_made(), made, sizeof made));
}

enum omma_status ommai_weight_kind_quantize(const char *name, const char *declared, struct ommai_weight_kind dense,
                                            struct ommai_weight_kind *kind, struct omma_error *error) {
  enum ommai_weight_format format;
  char all[256];
  *kind = dense;
  if (!name || strcmp(name, "none") == 0) return OMMA_OK;
  for (int i = 0; i < N_STORED; i++) {
    if (strcmp(name, stored_methods[i].name) == 0) return check_declared(name, stored_methods[i].declared, declared, error);
  }
  for (int i = 0; i < count_made(); i++) {
    const struct ommai_format_method *method = ommai_format_method(i, &format);
    if (strcmp(name, method->name) != 0) continue;
    if (declared) {
      return ommai_fail_field(
          error, OMMA_ERROR_UNSUPPORTED, "quantization",
          "quantization: %s is made from bf16, f16 or f32 weights, and this checkpoint is quantised already, %.80s: "
          "leave the option out",
          name, declared);
    }
    *kind = (struct ommai_weight_kind){format, dense.compute, method->group, OMMAI_INPUTS_SYMMETRIC};
    return OMMA_OK;
  }
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "quantization",
                          "quantization: %.60s is not supported; expected one of %s", name,
                          list_methods(0, INT32_MAX, all, sizeof all));
}

/* Of layers that the format would harm most, or that are few. */
static struct ommai_weight_kind finer_kind(struct ommai_weight_kind text) {
  const enum ommai_weight_format finer = ommai_linear_format(text.format)->finer;
  return finer == text.format ? text : (struct ommai_weight_kind){finer, text.compute, 0, OMMAI_INPUTS_SYMMETRIC};
}

struct ommai_weight_policy ommai_weight_policy_make(struct ommai_weight_kind tower, bool gated_tower,
                                                    struct ommai_weight_kind text) {
  /* The patch embedding is never quantised. Towers with gated layers are nearer to the bounds of
   * eight bits (a product of two has long tails, which they hold badly, and RMSNorm swells what is
   * wrong in short rows): what adds to their residual, and their mergers, are not. */
  bool quantised = ommai_linear_format(tower.format)->quantised;
  const struct ommai_weight_kind plain = quantised ? ommai_weight_kind_dense(tower.compute) : tower,
                                 adding = gated_tower ? plain : tower, fine = finer_kind(text);
  return (struct ommai_weight_policy){
      .kinds = {[OMMAI_ROLE_PATCH_EMBED] = plain,
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
                [OMMAI_ROLE_LM_HEAD] = fine,
                [OMMAI_ROLE_STATE_PROJECTION] = {.format = OMMAI_FORMAT_F32, .compute = OMMA_F32}}};
}
