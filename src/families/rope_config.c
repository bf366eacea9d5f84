#include "families/rope_config.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "families/config_keys.h"
#include "families/model_config.h"

#define MAX_NUMBER 1e6

/* Of rope_scaling and rope_parameters the first that is not empty. */
static enum omma_status find_rope(const json_t *text, const char *where, json_t **rope, struct omma_error *error) {
  OMMAI_TRY(ommai_json_object(text, where, "rope_scaling", false, rope, error));
  if (*rope && json_object_size(*rope) > 0) return OMMA_OK;
  OMMAI_TRY(ommai_json_object(text, where, "rope_parameters", false, rope, error));
  if (*rope && json_object_size(*rope) == 0) *rope = NULL;
  return OMMA_OK;
}

/* Older files have "type" where newer ones have "rope_type"; "mrope" is the plain rotation with
 * sections. */
static enum omma_status read_kind(const json_t *rope, const char *where, enum ommai_scaling_kind *kind,
                                  struct omma_error *error) {
  static const struct {
    const char *name;
    enum ommai_scaling_kind kind;
  } known[] = {{"default", OMMAI_SCALING_NONE},
               {"mrope", OMMAI_SCALING_NONE},
               {"linear", OMMAI_SCALING_LINEAR},
               {"yarn", OMMAI_SCALING_YARN}};
  const char *name = "default", *key = json_object_get(rope, "rope_type") ? "rope_type" : "type";
  OMMAI_TRY(ommai_json_string(rope, where, key, false, &name, error));
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(name, known[i].name) != 0) continue;
    *kind = known[i].kind;
    return OMMA_OK;
  }
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, key,
                          "%s: key \"%s\": \"%.60s\" is not supported; known: default, mrope, linear, yarn", where, key, name);
}

/* yarn's logarithmic growth. */
static double grow(double factor, double strength) { return factor <= 1 ? 1 : 0.1 * strength * log(factor) + 1; }

/* A number where 0, like none, means the default. */
static enum omma_status read_or(const json_t *rope, const char *where, const char *key, double fallback, double *out,
                                struct omma_error *error) {
  *out = 0;
  OMMAI_TRY(ommai_config_number(rope, where, key, 0, MAX_NUMBER, out, error));
  if (*out == 0) *out = fallback;
  return OMMA_OK;
}

static enum omma_status read_attention_factor(const json_t *rope, const char *where, struct ommai_rope_scaling *scaling,
                                              struct omma_error *error) {
  double strength = 0, strength_all = 0;
  OMMAI_TRY(ommai_config_number(rope, where, "mscale", 0, MAX_NUMBER, &strength, error));
  OMMAI_TRY(ommai_config_number(rope, where, "mscale_all_dim", 0, MAX_NUMBER, &strength_all, error));
  scaling->attention_factor = strength != 0 && strength_all != 0
                                  ? grow(scaling->factor, strength) / grow(scaling->factor, strength_all)
                                  : grow(scaling->factor, 1);
  return ommai_config_positive(rope, where, "attention_factor", MAX_NUMBER, &scaling->attention_factor, error);
}

static enum omma_status parse_yarn(const json_t *rope, const char *where, int64_t max_positions,
                                   struct ommai_rope_scaling *scaling, struct omma_error *error) {
  scaling->original_positions = max_positions;
  scaling->truncate = true;
  OMMAI_TRY(ommai_json_integer(rope, where, "original_max_position_embeddings", false, 1, OMMAI_CONFIG_MAX_POSITIONS,
                               &scaling->original_positions, error));
  if (scaling->factor == 0) scaling->factor = (double)max_positions / (double)scaling->original_positions;
  OMMAI_TRY(read_attention_factor(rope, where, scaling, error));
  OMMAI_TRY(read_or(rope, where, "beta_fast", 32, &scaling->beta_fast, error));
  OMMAI_TRY(read_or(rope, where, "beta_slow", 1, &scaling->beta_slow, error));
  return ommai_json_boolean(rope, where, "truncate", false, &scaling->truncate, error);
}

/* Positions beyond the trained ones, as vLLM counts them. */
static enum omma_status extend(const char *where, const struct ommai_rope_scaling *scaling, int64_t *max_positions,
                               struct omma_error *error) {
  double from = (double)(scaling->kind == OMMAI_SCALING_YARN ? scaling->original_positions : *max_positions);
  double positions = floor(from * scaling->factor);
  if (!(positions >= 1 && positions <= OMMAI_CONFIG_MAX_POSITIONS)) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "factor",
                            "%s: key \"factor\": %g times %g positions: expected 1 to %d of them", where, scaling->factor, from,
                            OMMAI_CONFIG_MAX_POSITIONS);
  }
  *max_positions = (int64_t)positions;
  return OMMA_OK;
}

/* The share of a head that is rotated; `fallback` where no key gives it, 0: only 1 is taken. */
static enum omma_status parse_part(const json_t *text, const json_t *rope, const char *where, double fallback,
                                   struct ommai_decoder_config *config, struct omma_error *error) {
  double part = fallback != 0 ? fallback : 1;
  if (fallback != 0) OMMAI_TRY(ommai_config_positive(text, where, "partial_rotary_factor", 1, &part, error));
  if (rope) OMMAI_TRY(ommai_config_positive(rope, where, "partial_rotary_factor", 1, &part, error));
  int64_t rotated = (int64_t)((double)config->head_dim * part);
  if (fallback != 0) config->rotary_dim = rotated;
  if (part == 1 || (fallback != 0 && rotated >= 2 && rotated % 2 == 0)) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "partial_rotary_factor",
                          "%s: key \"partial_rotary_factor\": expected %s, found %g", where,
                          fallback != 0 ? "an even number of rotated values of each head" : "1", part);
}

static enum omma_status parse_scaling(const json_t *rope, const char *where, struct ommai_decoder_config *config,
                                      struct omma_error *error) {
  struct ommai_rope_scaling *scaling = &config->rope_scaling;
  OMMAI_TRY(read_kind(rope, where, &scaling->kind, error));
  if (scaling->kind == OMMAI_SCALING_NONE) return OMMA_OK;
  /* For yarn null is the ratio of the two lengths; a missing key is an error there as here. */
  const json_t *factor = json_object_get(rope, "factor");
  if (scaling->kind == OMMAI_SCALING_LINEAR || !factor) {
    double needed;
    OMMAI_TRY(ommai_json_number(rope, where, "factor", true, &needed, error));
  }
  OMMAI_TRY(ommai_config_positive(rope, where, "factor", MAX_NUMBER, &scaling->factor, error));
  if (scaling->kind == OMMAI_SCALING_YARN) OMMAI_TRY(parse_yarn(rope, where, config->max_positions, scaling, error));
  return extend(where, scaling, &config->max_positions, error);
}

enum omma_status ommai_rope_parse(const json_t *text, const char *where, double default_theta, double default_part,
                                  struct ommai_decoder_config *config, json_t **rope, struct omma_error *error) {
  OMMAI_TRY(find_rope(text, where, rope, error));
  config->rope_theta = default_theta;
  config->rope_scaling = (struct ommai_rope_scaling){0};
  OMMAI_TRY(ommai_json_number(text, where, "rope_theta", false, &config->rope_theta, error));
  OMMAI_TRY(parse_part(text, *rope, where, default_part, config, error));
  if (*rope) {
    OMMAI_TRY(ommai_json_number(*rope, where, "rope_theta", false, &config->rope_theta, error));
    OMMAI_TRY(parse_scaling(*rope, where, config, error));
  }
  return ommai_config_check_theta(where, config->rope_theta, error);
}

enum omma_status ommai_rope_score_factor(const json_t *rope, const char *where, const struct ommai_rope_scaling *scaling,
                                         double *factor, struct omma_error *error) {
  double strength = 0;
  *factor = 1;
  if (scaling->kind == OMMAI_SCALING_NONE) return OMMA_OK;
  OMMAI_TRY(ommai_config_number(rope, where, "mscale_all_dim", 0, MAX_NUMBER, &strength, error));
  if (strength != 0) *factor = grow(scaling->factor, strength) * grow(scaling->factor, strength);
  return OMMA_OK;
}
