#include "families/quantization.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/allocator.h"
#include "base/error.h"
#include "families/quantization_schemes.h"

enum { MAX_VARIANTS = 4, VARIANT_SIZE = 448 };

static const struct method {
  const char *name;
  enum omma_status (*parse)(const json_t *config, const char *where, struct ommai_quantization *out, struct omma_error *error);
} methods[] = {
    {"compressed-tensors", ommai_quantization_parse_compressed_tensors},
    {"fp8", ommai_quantization_parse_fp8},
    {"awq", ommai_quantization_parse_awq},
    {"gptq", ommai_quantization_parse_gptq},
};

/* ---- for people ---- */

static void describe_storage(const struct ommai_storage *storage, char *out, size_t size) {
  if (storage->format == OMMAI_STORAGE_FLOAT8) {
    if (storage->block[0]) {
      snprintf(out, size, "8-bit floats in blocks of %lld x %lld", (long long)storage->block[0], (long long)storage->block[1]);
    } else {
      snprintf(out, size, "8-bit floats");
    }
  } else if (storage->group) {
    snprintf(out, size, "%d-bit integers in groups of %lld", storage->bits, (long long)storage->group);
  } else {
    snprintf(out, size, "%d-bit integers, a scale for each output", storage->bits);
  }
}

static void describe(struct ommai_quantization *self) {
  char first[80];
  describe_storage(&self->schemes[0], first, sizeof first);
  if (self->n_schemes == 1) {
    snprintf(self->description, sizeof self->description, "%s: %s", self->method, first);
  } else {
    snprintf(self->description, sizeof self->description, "%s: %s and %d more schemes", self->method, first,
             self->n_schemes - 1);
  }
}

/* ---- where it stands ---- */

static enum omma_status refuse_method(const char *where, const char *name, struct omma_error *error) {
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "quantization_config",
                          "%s: %.60s is not supported; compressed-tensors, fp8, awq and gptq are: take one of these, or the "
                          "checkpoint that it was made from",
                          where, name);
}

static enum omma_status parse_method(const json_t *config, const char *where, const char *otherwise,
                                     struct ommai_quantization *self, struct omma_error *error) {
  bool old_bitsandbytes = json_object_get(config, "load_in_8bit") || json_object_get(config, "load_in_4bit");
  /* whose name was not known at first */
  const char *name = old_bitsandbytes ? "bitsandbytes" : otherwise;
  OMMAI_TRY(ommai_json_string(config, where, "quant_method", false, &name, error));
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    if (strcasecmp(methods[i].name, name) != 0) continue;
    self->method = methods[i].name;
    OMMAI_TRY(methods[i].parse(config, where, self, error));
    if (self->n_schemes == 0) {
      return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: it gives no layer's quantisation", where);
    }
    describe(self);
    return OMMA_OK;
  }
  return refuse_method(where, name, error);
}

static enum omma_status create(const json_t *config, const char *where, const char *otherwise,
                               const struct omma_allocator *allocator, struct ommai_quantization **out,
                               struct omma_error *error) {
  enum omma_status status;
  struct ommai_quantization *self = ommai_allocate(allocator, 1, sizeof *self);
  if (!self) return ommai_fail_memory(error, "quantization_config", sizeof *self);
  self->allocator = *allocator;
  self->otherwise = -1;
  OMMAI_TRY_GOTO(ommai_name_list_create(allocator, &self->targets, error), failed);
  OMMAI_TRY_GOTO(ommai_name_list_create(allocator, &self->skipped, error), failed);
  OMMAI_TRY_GOTO(parse_method(config, where, otherwise, self, error), failed);
  *out = self;
  return OMMA_OK;
failed:
  ommai_quantization_destroy(self);
  return status;
}

void ommai_quantization_destroy(struct ommai_quantization *quantization) {
  if (!quantization) return;
  struct omma_allocator allocator = quantization->allocator;
  ommai_name_list_destroy(quantization->targets);
  ommai_name_list_destroy(quantization->skipped);
  ommai_release(&allocator, quantization, 1, sizeof *quantization);
}

/* Places and names of old, or of other tools, that would be passed over in silence. */
static enum omma_status refuse_other_places(const json_t *root, const char *path, struct omma_error *error) {
  char where[OMMAI_DOCUMENT_PATH_SIZE + 64];
  const json_t *tower = json_object_get(root, "vision_config");
  const json_t *config = json_object_get(tower, "quantization_config");
  if (config && !json_is_null(config)) {
    snprintf(where, sizeof where, "%s: vision_config: quantization_config", path);
    return refuse_method(where, "a tower that is quantised by itself", error);
  }
  config = json_object_get(root, "compression_config");
  if (!config || json_is_null(config)) return OMMA_OK;
  snprintf(where, sizeof where, "%s: compression_config", path);
  return refuse_method(where, "this format of compressed-tensors' first versions", error);
}

static enum omma_status read_config(const json_t *root, const char *path, const struct omma_allocator *allocator,
                                    struct ommai_quantization **out, struct omma_error *error) {
  char where[OMMAI_DOCUMENT_PATH_SIZE + 64];
  json_t *config, *text;
  OMMAI_TRY(refuse_other_places(root, path, error));
  OMMAI_TRY(ommai_json_object(root, path, "quantization_config", false, &config, error));
  snprintf(where, sizeof where, "%s: quantization_config", path);
  if (config) return create(config, where, "a method without a name", allocator, out, error);
  text = json_object_get(root, "text_config");
  if (!json_is_object(text)) return OMMA_OK;
  snprintf(where, sizeof where, "%s: text_config", path);
  OMMAI_TRY(ommai_json_object(text, where, "quantization_config", false, &config, error));
  snprintf(where, sizeof where, "%s: text_config: quantization_config", path);
  return config ? create(config, where, "a method without a name", allocator, out, error) : OMMA_OK;
}

/* config.json; and where it has nothing AutoGPTQ's own file, which need not name the method. */
enum omma_status ommai_quantization_read(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                         struct ommai_quantization **quantization, struct omma_error *error) {
  char path[OMMAI_DOCUMENT_PATH_SIZE];
  json_t *root;
  *quantization = NULL;
  OMMAI_TRY(ommai_document_require(documents, "config.json", allocator, path, &root, error));
  enum omma_status status = read_config(root, path, allocator, quantization, error);
  json_decref(root);
  if (status != OMMA_OK || *quantization) return status;
  OMMAI_TRY(ommai_document_find(documents, "quantize_config.json", allocator, path, &root, error));
  if (!root) return OMMA_OK;
  status = create(root, path, "gptq", allocator, quantization, error);
  json_decref(root);
  return status;
}

const char *ommai_quantization_description(const struct ommai_quantization *quantization) { return quantization->description; }

/* ---- layers ---- */

/* A layer's names: as the checkpoint has it, and as the model's class may call it, whose outermost
 * part is, or is not, part of the name, and whose language model may lie one level deeper. Returns
 * how many. */
static int name_variants(const char *layer, char names[MAX_VARIANTS][VARIANT_SIZE]) {
  static const char outer[] = "model.", inner[] = "language_model.";
  const char *rest = strncmp(layer, outer, sizeof outer - 1) == 0 ? layer + sizeof outer - 1 : layer;
  bool is_inner = strncmp(rest, inner, sizeof inner - 1) == 0;
  const char *core = is_inner ? rest + sizeof inner - 1 : rest;
  snprintf(names[0], VARIANT_SIZE, "%s", layer);
  snprintf(names[1], VARIANT_SIZE, "%s%s", rest == layer ? outer : "", rest);
  snprintf(names[2], VARIANT_SIZE, "%s%s%s", outer, is_inner ? "" : inner, core);
  snprintf(names[3], VARIANT_SIZE, "%s%s", is_inner ? "" : inner, core);
  return MAX_VARIANTS;
}

/* The value of the layer in a list, by any of its names; -1 for none. */
static enum omma_status look_up(struct ommai_name_list *list, const char *layer, int *value, struct omma_error *error) {
  char names[MAX_VARIANTS][VARIANT_SIZE];
  int n_names = name_variants(layer, names);
  *value = -1;
  for (int i = 0; i < n_names && *value < 0; i++) *value = ommai_name_list_find(list, names[i]);
  for (int i = 0; i < n_names && *value < 0; i++) OMMAI_TRY(ommai_name_list_match(list, names[i], value, error));
  return OMMA_OK;
}

/* The scheme of a layer that is quantised; -1 for none. */
static enum omma_status find_scheme(struct ommai_quantization *self, const char *layer, int *scheme, struct omma_error *error) {
  *scheme = -1;
  /* A single scheme for all is theirs whatever their names. */
  if (self->n_schemes > 1 || self->otherwise < 0) OMMAI_TRY(look_up(self->targets, layer, scheme, error));
  if (*scheme < 0) *scheme = self->otherwise;
  return OMMA_OK;
}

enum omma_status ommai_quantization_storage(void *context, const char *layer, struct ommai_storage *storage,
                                            struct omma_error *error) {
  struct ommai_quantization *self = context;
  int scheme;
  OMMAI_TRY(find_scheme(self, layer, &scheme, error));
  if (scheme < 0) {
    return ommai_fail(error, OMMA_ERROR_FORMAT,
                      "layer \"%.200s\" is stored quantised, but no target of quantization_config names it", layer);
  }
  *storage = self->schemes[scheme];
  return OMMA_OK;
}

enum omma_status ommai_quantization_expect(struct ommai_quantization *quantization, const char *layer, int64_t n_in,
                                           bool *is_stored, struct ommai_stored_matrix *out, struct omma_error *error) {
  int skipped, scheme;
  *out = (struct ommai_stored_matrix){0};
  OMMAI_TRY(look_up(quantization->skipped, layer, &skipped, error));
  OMMAI_TRY(find_scheme(quantization, layer, &scheme, error));
  *is_stored = skipped < 0 && scheme >= 0;
  if (!*is_stored || quantization->may_be_mixed) return OMMA_OK;
  const struct ommai_storage *storage = &quantization->schemes[scheme];
  int64_t group = storage->group && storage->group < n_in ? storage->group : n_in;
  if (storage->format == OMMAI_STORAGE_FLOAT8 || n_in % group) return OMMA_OK;
  out->bits = storage->bits;
  out->group = group;
  out->has_minimums = storage->has_zeros;
  out->zero = storage->bits == 4 && !storage->has_zeros ? 8 : 0;
  return OMMA_OK;
}

enum omma_status ommai_quantization_open_checkpoint(struct ommai_quantization *quantization, const char *directory,
                                                    const struct omma_allocator *allocator,
                                                    struct ommai_checkpoint **checkpoint, struct omma_error *error) {
  struct ommai_checkpoint *opened;
  OMMAI_TRY(ommai_checkpoint_open(directory, allocator, &opened, error));
  enum omma_status status =
      quantization ? ommai_checkpoint_read_quantised(opened, ommai_quantization_storage, quantization, error) : OMMA_OK;
  if (status == OMMA_OK) {
    *checkpoint = opened;
  } else {
    ommai_checkpoint_close(opened);
  }
  return status;
}
