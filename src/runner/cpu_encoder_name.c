/* A name for what images become in this tower, for outputs that engines share. */
#include <sodium.h>
#include <string.h>

#include "base/error.h"
#include "runner/cpu_inside.h"

/* Bytes of each tensor that distinguish one checkpoint from another, and values of one that is
 * stored quantised. */
#define SAMPLE_BYTES 1024
#define SAMPLE_VALUES 64
/* Between formats of names and values. */
#define FORMAT_NAME "omma-encoding-1"

static void add(crypto_generichash_state *state, const void *bytes, size_t size) {
  crypto_generichash_update(state, bytes, size);
}

static void add_text(crypto_generichash_state *state, const char *text) { add(state, text, strlen(text) + 1); }

static void add_tensor(crypto_generichash_state *state, const struct ommai_tensor *tensor) {
  float values[SAMPLE_VALUES];
  add_text(state, tensor->name);
  add_text(state, ommai_tensor_type_name(tensor->type));
  add(state, tensor->shape, sizeof tensor->shape);
  if (tensor->type == OMMAI_TENSOR_QUANTISED) {
    int64_t n = tensor->n_elements < SAMPLE_VALUES ? tensor->n_elements : SAMPLE_VALUES;
    if (ommai_tensor_to_f32(tensor, 0, n, values)) add(state, values, (size_t)n * sizeof *values);
  } else {
    add(state, tensor->data, tensor->size_bytes < SAMPLE_BYTES ? (size_t)tensor->size_bytes : SAMPLE_BYTES);
  }
}

/* How the tower computes, and what pixels become. */
static void add_numerics(crypto_generichash_state *state, const struct omma_model *model) {
  const struct ommai_patch_spec *patches = &model->config.image.patches;
  add_text(state, omma_version());
  add_text(state, ommai_cpu_level_name(model->network.level));
  for (int role = OMMAI_ROLE_PATCH_EMBED; role <= OMMAI_ROLE_MERGER; role++) {
    const struct ommai_weight_kind *kind = &model->network.policy.kinds[role];
    const int64_t numbers[] = {kind->format, kind->compute, kind->group, kind->inputs};
    add(state, numbers, sizeof numbers);
  }
  add(state, patches->mean, sizeof patches->mean);
  add(state, patches->std, sizeof patches->std);
}

static int add_piece(const char *text, size_t size, void *state) {
  add(state, text, size);
  return 0;
}

static enum omma_status add_config(crypto_generichash_state *state, const struct omma_model *model, struct omma_error *error) {
  char path[OMMAI_DOCUMENT_PATH_SIZE];
  json_t *root;
  OMMAI_TRY(ommai_document_require(&model->documents, "config.json", &model->allocator, path, &root, error));
  bool failed = json_dump_callback(root, add_piece, state, JSON_SORT_KEYS | JSON_COMPACT) != 0;
  json_decref(root);
  return failed ? ommai_fail_memory(error, path, 0) : OMMA_OK;
}

enum omma_status ommai_cpu_name_encoder(const struct ommai_runner *runner, uint8_t digest[32], struct omma_error *error) {
  const struct omma_model *model = ommai_cpu_inside_const(runner)->model;
  crypto_generichash_state state;
  crypto_generichash_init(&state, NULL, 0, 32);
  add_text(&state, FORMAT_NAME);
  add_numerics(&state, model);
  OMMAI_TRY(add_config(&state, model, error));
  for (int64_t i = 0; i < ommai_checkpoint_count(model->checkpoint); i++) {
    add_tensor(&state, ommai_checkpoint_at(model->checkpoint, i));
  }
  crypto_generichash_final(&state, digest, 32);
  return OMMA_OK;
}
