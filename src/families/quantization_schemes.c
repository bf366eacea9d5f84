#include "families/quantization_schemes.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "families/config_keys.h"

/* Adds a scheme; *index is its place. Errors: LIMIT. */
static enum omma_status add_scheme(struct ommai_quantization *quantization, const char *where,
                                   const struct ommai_storage *storage, int *index, struct omma_error *error) {
  if (quantization->n_schemes == OMMAI_QUANTIZATION_MAX_SCHEMES) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "%s: more than the limit of %d schemes", where, OMMAI_QUANTIZATION_MAX_SCHEMES);
  }
  *index = quantization->n_schemes;
  quantization->schemes[quantization->n_schemes++] = *storage;
  return OMMA_OK;
}

enum { WHERE_SIZE = 4400, MAX_GROUP = 1 << 24 };

/* ---- what the methods share ---- */

static enum omma_status fail_value(const char *where, const char *key, const char *expected, const char *found,
                                   struct omma_error *error) {
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, key, "%s: key \"%s\": \"%.60s\" is not supported; expected %s", where,
                          key, found, expected);
}

/* Bits of integers. */
static enum omma_status parse_bits(const json_t *object, const char *where, const char *key, int *out,
                                   struct omma_error *error) {
  int64_t bits = *out;
  OMMAI_TRY(ommai_json_integer(object, where, key, *out == 0, 1, 64, &bits, error));
  if (bits != 4 && bits != 8) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, key,
                            "%s: key \"%s\": integers of 4 or 8 bits are supported, found %lld", where, key, (long long)bits);
  }
  *out = (int)bits;
  return OMMA_OK;
}

/* A group's inputs; -1 is one group of all, which is 0 here. */
static enum omma_status parse_group(const json_t *object, const char *where, const char *key, int64_t *out,
                                    struct omma_error *error) {
  int64_t group = *out ? *out : -1;
  OMMAI_TRY(ommai_json_integer(object, where, key, false, -1, MAX_GROUP, &group, error));
  if (group == 0)
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%s: key \"%s\": expected -1 or more than 0, found 0", where, key);
  *out = group < 0 ? 0 : group;
  return OMMA_OK;
}

/* The outputs and inputs of a block. */
static enum omma_status parse_block(const json_t *object, const char *where, const char *key, int64_t block[2],
                                    struct omma_error *error) {
  size_t count = 0;
  OMMAI_TRY(ommai_json_integers(object, where, key, false, 1, MAX_GROUP, block, 2, &count, error));
  if (count == 0 || count == 2) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%s: key \"%s\": expected two sizes", where, key);
}

static enum omma_status fail_strings(const char *where, const char *key, const json_t *found, struct omma_error *error) {
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%s: %s: expected strings, found %s", where, key,
                          ommai_json_kind(found));
}

static enum omma_status use_for_all(struct ommai_quantization *out, const char *where, const struct ommai_storage *storage,
                                    struct omma_error *error) {
  return add_scheme(out, where, storage, &out->otherwise, error);
}

/* ---- compressed-tensors (compressed_tensors/quantization/{quant_config,quant_args}.py) ---- */

static const char supported_formats[] = "pack-quantized, int-quantized, float-quantized, naive-quantized or mixed-precision";

/* How a group with this `format` of compressed-tensors is stored, whose type and bits are known. */
static enum omma_status choose_format(const char *format, bool is_float, const char *where, struct ommai_storage *storage,
                                      struct omma_error *error) {
  static const struct {
    const char *name;
    bool is_float;
    enum ommai_storage_format format;
  } known[] = {
      {"pack-quantized", false, OMMAI_STORAGE_PACKED}, {"int-quantized", false, OMMAI_STORAGE_INT8},
      {"naive-quantized", false, OMMAI_STORAGE_INT8},  {"float-quantized", true, OMMAI_STORAGE_FLOAT8},
      {"naive-quantized", true, OMMAI_STORAGE_FLOAT8},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i].name, format) != 0 || known[i].is_float != is_float) continue;
    storage->format = known[i].format;
    if (known[i].format == OMMAI_STORAGE_PACKED || storage->bits == 8) return OMMA_OK;
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "num_bits", "%s: %s of %d bits is not supported; 8 are", where,
                            format, storage->bits);
  }
  return fail_value(where, "format", supported_formats, format, error);
}

static enum omma_status parse_strategy(const json_t *weights, const char *where, bool is_float, struct ommai_storage *storage,
                                       struct omma_error *error) {
  const char *strategy =
      json_object_get(weights, "group_size") && !json_is_null(json_object_get(weights, "group_size")) ? "group" : "tensor";
  OMMAI_TRY(ommai_json_string(weights, where, "strategy", false, &strategy, error));
  OMMAI_TRY(parse_group(weights, where, "group_size", &storage->group, error));
  OMMAI_TRY(parse_block(weights, where, "block_structure", storage->block, error));
  if (strcmp(strategy, "group") != 0) storage->group = 0;
  if (strcmp(strategy, "block") != 0) storage->block[0] = storage->block[1] = 0;
  if (strcmp(strategy, "channel") == 0) return OMMA_OK;
  if (!is_float)
    return strcmp(strategy, "group") == 0 ? OMMA_OK : fail_value(where, "strategy", "group or channel", strategy, error);
  if (strcmp(strategy, "tensor") == 0 || (strcmp(strategy, "block") == 0 && storage->block[0])) return OMMA_OK;
  return fail_value(where, "strategy", "tensor, channel or block with its block_structure", strategy, error);
}

static enum omma_status parse_weights(const json_t *weights, const char *where, const char *format,
                                      struct ommai_storage *storage, struct omma_error *error) {
  const char *type = "int";
  bool symmetric = true;
  *storage = (struct ommai_storage){.bits = 8};
  OMMAI_TRY(parse_bits(weights, where, "num_bits", &storage->bits, error));
  OMMAI_TRY(ommai_json_string(weights, where, "type", false, &type, error));
  OMMAI_TRY(ommai_json_boolean(weights, where, "symmetric", false, &symmetric, error));
  OMMAI_TRY(ommai_config_refuse_true(weights, where, "dynamic", error));
  bool is_float = strcmp(type, "float") == 0;
  if (!is_float && strcmp(type, "int") != 0) return fail_value(where, "type", "int or float", type, error);
  if (is_float && !symmetric) return fail_value(where, "symmetric", "true for floats", "false", error);
  storage->has_zeros = !symmetric;
  OMMAI_TRY(choose_format(format, is_float, where, storage, error));
  return parse_strategy(weights, where, is_float, storage, error);
}

/* Layers that are left as they are: their names, expressions, or parts of names. */
static enum omma_status parse_skipped(const json_t *config, const char *where, const char *key, bool parts,
                                      struct ommai_quantization *out, struct omma_error *error) {
  char pattern[OMMAI_NAME_LIST_MAX_PATTERN + 16];
  json_t *list;
  const json_t *entry;
  size_t i;
  OMMAI_TRY(ommai_json_array(config, where, key, false, &list, error));
  json_array_foreach(list, i, entry) {
    const char *text = json_string_value(entry);
    if (!text) return fail_strings(where, key, entry, error);
    bool is_expression = strncmp(text, "re:", 3) == 0;
    if (is_expression) text += 3;
    snprintf(pattern, sizeof pattern, "%s%s%s", parts ? ".*\\Q" : "", text, parts ? "\\E" : "");
    OMMAI_TRY(ommai_name_list_add(out->skipped, where, parts ? pattern : text, parts || is_expression, 0, error));
  }
  return OMMA_OK;
}

/* "Linear" is a class, every layer that can be quantised here. */
static enum omma_status add_target(struct ommai_quantization *out, const char *where, const json_t *target, int scheme,
                                   struct omma_error *error) {
  const char *text = json_string_value(target);
  if (!text) return fail_strings(where, "targets", target, error);
  if (strcmp(text, "Linear") == 0) {
    if (out->otherwise < 0) out->otherwise = scheme;
    return OMMA_OK;
  }
  bool is_expression = strncmp(text, "re:", 3) == 0;
  return ommai_name_list_add(out->targets, where, is_expression ? text + 3 : text, is_expression, scheme, error);
}

/* A group without weights is about activations only. */
static enum omma_status parse_config_group(const json_t *group, const char *where, const char *format,
                                           struct ommai_quantization *out, struct omma_error *error) {
  struct ommai_storage storage;
  char weights_where[WHERE_SIZE];
  json_t *weights, *targets;
  const json_t *target;
  size_t i;
  int scheme = 0;
  OMMAI_TRY(ommai_json_object(group, where, "weights", false, &weights, error));
  if (!weights) return OMMA_OK;
  OMMAI_TRY(ommai_json_string(group, where, "format", false, &format, error));
  snprintf(weights_where, sizeof weights_where, "%.4300s: weights", where);
  OMMAI_TRY(parse_weights(weights, weights_where, format, &storage, error));
  OMMAI_TRY(add_scheme(out, where, &storage, &scheme, error));
  OMMAI_TRY(ommai_json_array(group, where, "targets", true, &targets, error));
  json_array_foreach(targets, i, target) OMMAI_TRY(add_target(out, where, target, scheme, error));
  return OMMA_OK;
}

/* What would change the values of weights: layers rotated, or thinned out. */
static enum omma_status refuse_transforms(const json_t *config, const char *where, struct omma_error *error) {
  const char *format = "dense";
  json_t *sparsity, *transform;
  char sparsity_where[WHERE_SIZE];
  OMMAI_TRY(ommai_json_object(config, where, "sparsity_config", false, &sparsity, error));
  snprintf(sparsity_where, sizeof sparsity_where, "%.4300s: sparsity_config", where);
  if (sparsity) OMMAI_TRY(ommai_json_string(sparsity, sparsity_where, "format", false, &format, error));
  if (strcmp(format, "dense") != 0) return fail_value(sparsity_where, "format", "dense", format, error);
  OMMAI_TRY(ommai_json_object(config, where, "transform_config", false, &transform, error));
  if (!transform || json_object_size(json_object_get(transform, "config_groups")) == 0) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "transform_config",
                          "%s: transform_config: transforms are not supported", where);
}

enum omma_status ommai_quantization_parse_compressed_tensors(const json_t *config, const char *where,
                                                             struct ommai_quantization *out, struct omma_error *error) {
  const char *format = NULL, *name;
  char group_where[WHERE_SIZE];
  json_t *groups, *group;
  OMMAI_TRY(ommai_config_expect_string(config, where, "quantization_status", "compressed", error));
  OMMAI_TRY(refuse_transforms(config, where, error));
  OMMAI_TRY(parse_skipped(config, where, "ignore", false, out, error));
  OMMAI_TRY(ommai_json_string(config, where, "format", true, &format, error));
  OMMAI_TRY(ommai_json_object(config, where, "config_groups", true, &groups, error));
  json_object_foreach(groups, name, group) {
    snprintf(group_where, sizeof group_where, "%s: config_groups: %.60s", where, name);
    if (!json_is_object(group)) {
      return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "config_groups", "%s: expected a scheme spelled out, found %s",
                              group_where, ommai_json_kind(group));
    }
    OMMAI_TRY(parse_config_group(group, group_where, format, out, error));
  }
  return OMMA_OK;
}

/* ---- fp8 (transformers' FineGrainedFP8Config, vLLM's Fp8Config) ---- */

enum omma_status ommai_quantization_parse_fp8(const json_t *config, const char *where, struct ommai_quantization *out,
                                              struct omma_error *error) {
  struct ommai_storage storage = {.format = OMMAI_STORAGE_FLOAT8, .bits = 8};
  OMMAI_TRY(ommai_config_expect_string(config, where, "fmt", "e4m3", error));
  OMMAI_TRY(parse_block(config, where, "weight_block_size", storage.block, error));
  return use_for_all(out, where, &storage, error);
}

/* ---- awq (AutoAWQ's config.json) ---- */

enum omma_status ommai_quantization_parse_awq(const json_t *config, const char *where, struct ommai_quantization *out,
                                              struct omma_error *error) {
  struct ommai_storage storage = {.format = OMMAI_STORAGE_AWQ, .has_zeros = true};
  const char *version = "gemm";
  OMMAI_TRY(parse_bits(config, where, "bits", &storage.bits, error));
  OMMAI_TRY(parse_group(config, where, "group_size", &storage.group, error));
  OMMAI_TRY(ommai_json_boolean(config, where, "zero_point", false, &storage.has_zeros, error));
  OMMAI_TRY(ommai_json_string(config, where, "version", false, &version, error));
  if (strcmp(version, "gemm") != 0 && strcmp(version, "GEMM") != 0)
    return fail_value(where, "version", "\"gemm\"", version, error);
  OMMAI_TRY(parse_skipped(config, where, "modules_to_not_convert", true, out, error));
  if (storage.bits == 4) return use_for_all(out, where, &storage, error);
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "bits", "%s: awq of %d bits is not supported; 4 are", where,
                          storage.bits);
}

/* ---- gptq (GPTQModel's quantization/config.py) ---- */

/* What a rule of `dynamic` may set anew. */
static enum omma_status parse_gptq_sizes(const json_t *object, const char *where, struct ommai_storage *storage,
                                         struct omma_error *error) {
  OMMAI_TRY(parse_bits(object, where, "bits", &storage->bits, error));
  return parse_group(object, where, "group_size", &storage->group, error);
}

/* Rules by expressions: "-:..." leaves layers as they are, "+:..." and others set sizes anew. */
static enum omma_status parse_dynamic(const json_t *config, const char *where, struct ommai_quantization *out,
                                      struct omma_error *error) {
  const char *pattern;
  json_t *rules, *rule;
  char rule_where[WHERE_SIZE];
  OMMAI_TRY(ommai_json_object(config, where, "dynamic", false, &rules, error));
  json_object_foreach(rules, pattern, rule) {
    struct ommai_storage storage = out->schemes[out->otherwise];
    int scheme = 0;
    snprintf(rule_where, sizeof rule_where, "%s: dynamic: %.60s", where, pattern);
    if (strncmp(pattern, "-:", 2) == 0) {
      OMMAI_TRY(ommai_name_list_add(out->skipped, rule_where, pattern + 2, true, 0, error));
      continue;
    }
    OMMAI_TRY(parse_gptq_sizes(rule, rule_where, &storage, error));
    OMMAI_TRY(add_scheme(out, where, &storage, &scheme, error));
    const char *expression = strncmp(pattern, "+:", 2) == 0 ? pattern + 2 : pattern;
    OMMAI_TRY(ommai_name_list_add(out->targets, rule_where, expression, true, scheme, error));
  }
  return OMMA_OK;
}

enum omma_status ommai_quantization_parse_gptq(const json_t *config, const char *where, struct ommai_quantization *out,
                                               struct omma_error *error) {
  struct ommai_storage storage = {.format = OMMAI_STORAGE_GPTQ};
  const char *version = "gptq";
  bool symmetric = true;
  OMMAI_TRY(parse_gptq_sizes(config, where, &storage, error));
  OMMAI_TRY(ommai_config_expect_string(config, where, "pack_dtype", "int32", error));
  OMMAI_TRY(ommai_config_refuse_true(config, where, "is_marlin_format", error));
  OMMAI_TRY(ommai_json_boolean(config, where, "sym", false, &symmetric, error));
  OMMAI_TRY(ommai_json_boolean(config, where, "desc_act", false, &out->may_be_mixed, error));
  storage.has_zeros = !symmetric; /* of the values; zeros are there either way */
  OMMAI_TRY(ommai_json_string(config, where, "format", false, &version, error));
  OMMAI_TRY(ommai_json_string(config, where, "checkpoint_format", false, &version, error));
  storage.zeros_less_one = strcmp(version, "gptq") == 0;
  if (!storage.zeros_less_one && strcmp(version, "gptq_v2") != 0) {
    return fail_value(where, "checkpoint_format", "\"gptq\" or \"gptq_v2\"", version, error);
  }
  OMMAI_TRY(use_for_all(out, where, &storage, error));
  return parse_dynamic(config, where, out, error);
}
