#include "weights/stored_layers.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "weights/layer_tensors.h"
#include "weights/safetensors.h"
#include "weights/tensor_index.h"

#define WEIGHT ".weight"

struct ommai_stored_layers {
  struct omma_allocator allocator;
  int64_t count;
  struct ommai_stored_layer *layers; /* [count] */
  char *names;                       /* all names, each with its NUL */
  size_t names_size;
};

/* ---- which tensors are layers ---- */

/* What a layer's codes are called after its name, and of what type they are, by format. */
static const struct {
  const char *suffix;
  enum ommai_tensor_type type;
} formats[] = {
    [OMMAI_STORAGE_PACKED] = {".weight_packed", OMMAI_TENSOR_I32}, [OMMAI_STORAGE_INT8] = {WEIGHT, OMMAI_TENSOR_I8},
    [OMMAI_STORAGE_FLOAT8] = {WEIGHT, OMMAI_TENSOR_F8_E4M3},       [OMMAI_STORAGE_AWQ] = {".qweight", OMMAI_TENSOR_I32},
    [OMMAI_STORAGE_GPTQ] = {".qweight", OMMAI_TENSOR_I32},
};

/* Where `name` ends with `suffix` and has something before it, the length of that; else 0. */
static size_t before_suffix(const char *name, const char *suffix) {
  size_t name_size = strlen(name), suffix_size = strlen(suffix);
  if (name_size <= suffix_size || strcmp(name + name_size - suffix_size, suffix) != 0) return 0;
  return name_size - suffix_size;
}

/* Scales of what goes in and out of layers and caches: weights do not need them. */
static bool is_activation_scale(const char *name) {
  static const char *const suffixes[] = {"input_scale",      "input_zero_point", "output_scale", "output_zero_point",
                                         "activation_scale", ".k_scale",         ".v_scale",     ".q_scale"};
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    if (before_suffix(name, suffixes[i])) return true;
  }
  return false;
}

/* Whether the tensor holds a layer's codes; tensors->name is then the layer's. */
static bool begin_layer(const struct ommai_tensor *tensor, struct ommai_layer_tensors *tensors) {
  size_t size = before_suffix(tensor->name, formats[OMMAI_STORAGE_PACKED].suffix);
  if (!size) size = before_suffix(tensor->name, formats[OMMAI_STORAGE_AWQ].suffix);
  bool is_typed = tensor->type == OMMAI_TENSOR_I8 || tensor->type == OMMAI_TENSOR_F8_E4M3;
  if (!size && is_typed) size = before_suffix(tensor->name, WEIGHT);
  tensors->is_parameter = !size && tensor->type == OMMAI_TENSOR_F8_E4M3;
  if (tensors->is_parameter) size = strlen(tensor->name);
  tensors->codes = tensor;
  tensors->name = tensor->name;
  tensors->name_size = (int)(size <= OMMAI_LAYER_MAX_NAME ? size : OMMAI_LAYER_MAX_NAME + 1);
  return size != 0;
}

/* ---- one layer ---- */

static enum omma_status check_name(const struct ommai_layer_tensors *tensors, struct omma_error *error) {
  if (tensors->name_size <= OMMAI_LAYER_MAX_NAME) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_LIMIT,
                    "tensor \"%.60s...\": a name of more than the limit of %d bytes for quantised layers", tensors->name,
                    OMMAI_LAYER_MAX_NAME);
}

static enum omma_status check_format(const struct ommai_layer_tensors *tensors, const struct ommai_storage *storage,
                                     struct omma_error *error) {
  const char *suffix = tensors->is_parameter ? "" : formats[storage->format].suffix;
  enum ommai_tensor_type type = formats[storage->format].type;
  if (tensors->codes->type == type && strcmp(tensors->codes->name + tensors->name_size, suffix) == 0) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_FORMAT,
                    "%.200s: tensor \"%.200s\" of type %s: quantization_config gives this layer as \"%.*s%s\" of type %s",
                    ommai_safetensors_path(tensors->codes->file), tensors->codes->name,
                    ommai_tensor_type_name(tensors->codes->type), tensors->name_size, tensors->name, suffix,
                    ommai_tensor_type_name(type));
}

static enum omma_status read_format(const struct ommai_layer_tensors *tensors, const struct ommai_storage *storage,
                                    struct ommai_stored_layer *layer, struct omma_error *error) {
  switch (storage->format) {
    case OMMAI_STORAGE_PACKED: return ommai_read_packed_layer(tensors, storage, layer, error);
    case OMMAI_STORAGE_INT8: return ommai_read_int8_layer(tensors, storage, layer, error);
    case OMMAI_STORAGE_FLOAT8: return ommai_read_float8_layer(tensors, storage, layer, error);
    case OMMAI_STORAGE_AWQ: return ommai_read_awq_layer(tensors, storage, layer, error);
    case OMMAI_STORAGE_GPTQ: return ommai_read_gptq_layer(tensors, storage, layer, error);
  }
  return ommai_fail(error, OMMA_ERROR_INTERNAL, "no such format of storage: %d", (int)storage->format);
}

/* The tensor that stands for the layer, with the place of its codes. */
static void finish_tensor(const struct ommai_layer_tensors *tensors, const char *name, struct ommai_stored_layer *layer) {
  struct ommai_tensor *tensor = &layer->tensor;
  tensor->name = name;
  tensor->type = OMMAI_TENSOR_QUANTISED;
  tensor->n_elements = 1;
  for (int i = 0; i < tensor->n_dims; i++) tensor->n_elements *= tensor->shape[i];
  tensor->data = tensors->codes->data;
  tensor->size_bytes = tensors->codes->size_bytes;
  tensor->file_offset = tensors->codes->file_offset;
  tensor->file = tensors->codes->file;
  tensor->stored = &layer->matrix;
}

/* The layer's name and what follows it in a plain checkpoint, which must not be there as well, into
 * `name`. Its length with the NUL is returned. */
static size_t place_name(const struct ommai_layer_tensors *tensors, char *name) {
  const char *suffix = tensors->is_parameter ? "" : WEIGHT;
  size_t layer_size = (size_t)tensors->name_size, suffix_size = strlen(suffix) + 1;
  memcpy(name, tensors->name, layer_size);
  memcpy(name + layer_size, suffix, suffix_size);
  return layer_size + suffix_size;
}

static enum omma_status read_layer(struct ommai_layer_tensors *tensors, ommai_storage_lookup lookup, void *context, char *name,
                                   size_t *name_size, struct ommai_stored_layer *layer, struct omma_error *error) {
  struct ommai_storage storage = {0};
  char layer_name[OMMAI_LAYER_MAX_NAME + 1] = "";
  OMMAI_TRY(check_name(tensors, error));
  memcpy(layer_name, tensors->name, (size_t)tensors->name_size);
  OMMAI_TRY(lookup(context, layer_name, &storage, error));
  OMMAI_TRY(check_format(tensors, &storage, error));
  *name_size = place_name(tensors, name);
  if (strcmp(name, tensors->codes->name) != 0) {
    OMMAI_TRY(ommai_layer_refuse_tensor(tensors, WEIGHT, "the same layer is there quantised as well", error));
  }
  OMMAI_TRY(read_format(tensors, &storage, layer, error));
  finish_tensor(tensors, name, layer);
  return OMMA_OK;
}

/* ---- all layers ---- */

static enum omma_status allocate(struct ommai_stored_layers *self, const struct ommai_tensor *const *sorted, int64_t count,
                                 struct omma_error *error) {
  struct ommai_layer_tensors tensors;
  for (int64_t i = 0; i < count; i++) {
    if (is_activation_scale(sorted[i]->name) || !begin_layer(sorted[i], &tensors)) continue;
    self->count++;
    self->names_size += strlen(sorted[i]->name) + 1; /* never shorter than the plain name */
  }
  self->layers = ommai_allocate(&self->allocator, (size_t)self->count, sizeof *self->layers);
  self->names = ommai_allocate(&self->allocator, self->names_size, 1);
  if (self->layers && self->names) return OMMA_OK;
  return ommai_fail_memory(error, "the table of quantised layers", (size_t)self->count * sizeof *self->layers);
}

static enum omma_status read_layers(struct ommai_stored_layers *self, struct ommai_layer_tensors *tensors,
                                    ommai_storage_lookup lookup, void *context, struct omma_error *error) {
  struct ommai_stored_layer *layer = self->layers;
  char *name = self->names;
  for (int64_t i = 0; i < tensors->count; i++) {
    size_t name_size = 0;
    if (is_activation_scale(tensors->sorted[i]->name)) {
      tensors->used[i] = true;
    } else if (begin_layer(tensors->sorted[i], tensors)) {
      tensors->used[i] = true;
      OMMAI_TRY(read_layer(tensors, lookup, context, name, &name_size, layer, error));
      name += name_size;
      layer++;
    }
  }
  return OMMA_OK;
}

enum omma_status ommai_stored_layers_create(const struct ommai_tensor *const *sorted, int64_t count, bool *used,
                                            ommai_storage_lookup lookup, void *context, const struct omma_allocator *allocator,
                                            struct ommai_stored_layers **layers, struct omma_error *error) {
  struct ommai_layer_tensors tensors = {.sorted = sorted, .count = count, .used = used};
  struct ommai_stored_layers *self = ommai_allocate(allocator, 1, sizeof *self);
  enum omma_status status;
  if (!self) return ommai_fail_memory(error, "the table of quantised layers", sizeof *self);
  self->allocator = *allocator;
  OMMAI_TRY_GOTO(allocate(self, sorted, count, error), failed);
  OMMAI_TRY_GOTO(read_layers(self, &tensors, lookup, context, error), failed);
  *layers = self;
  return OMMA_OK;
failed:
  ommai_stored_layers_destroy(self);
  return status;
}

void ommai_stored_layers_destroy(struct ommai_stored_layers *layers) {
  if (!layers) return;
  struct omma_allocator allocator = layers->allocator;
  ommai_release(&allocator, layers->names, layers->names_size, 1);
  ommai_release(&allocator, layers->layers, (size_t)layers->count, sizeof *layers->layers);
  ommai_release(&allocator, layers, 1, sizeof *layers);
}

int64_t ommai_stored_layers_count(const struct ommai_stored_layers *layers) { return layers->count; }

const struct ommai_tensor *ommai_stored_layers_at(const struct ommai_stored_layers *layers, int64_t index) {
  return &layers->layers[index].tensor;
}
