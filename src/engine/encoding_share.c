#include "engine/encoding_share.h"

#include <sodium.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "model/prepared_image.h"
#include "request/request.h"

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

enum omma_status ommai_encoding_share_init(struct ommai_encoding_share *share, const struct omma_encoding_store *store,
                                           const struct omma_model *model, struct omma_error *error) {
  crypto_generichash_state state;
  if (!store) return OMMA_OK;
  crypto_generichash_init(&state, NULL, 0, sizeof share->digest);
  add_text(&state, FORMAT_NAME);
  add_numerics(&state, model);
  OMMAI_TRY(add_config(&state, model, error));
  for (int64_t i = 0; i < ommai_checkpoint_count(model->checkpoint); i++) {
    add_tensor(&state, ommai_checkpoint_at(model->checkpoint, i));
  }
  crypto_generichash_final(&state, share->digest, sizeof share->digest);
  share->store = *store;
  return OMMA_OK;
}

static struct omma_encoding_key name_of(const struct ommai_encoding_share *share, const struct ommai_image_key *key) {
  struct omma_encoding_key name;
  crypto_generichash(name.bytes, sizeof name.bytes, key->bytes, sizeof key->bytes, share->digest, sizeof share->digest);
  return name;
}

static void find_one(struct ommai_encoding_share *share, struct ommai_encoder_cache *cache, const struct ommai_image_key *key,
                     size_t n_values) {
  struct omma_encoding_key name = name_of(share, key);
  float *values = ommai_allocate_uninitialised(&cache->allocator, n_values, sizeof *values);
  if (!values) return; /* it is encoded then */
  if (share->store.find(share->store.context, &name, values, n_values)) {
    atomic_fetch_add(&share->n_hits, 1);
    ommai_encoder_cache_put(cache, key, values, n_values);
  } else {
    atomic_fetch_add(&share->n_misses, 1);
    ommai_release(&cache->allocator, values, n_values, sizeof *values);
  }
}

void ommai_encoding_share_find(struct ommai_encoding_share *share, struct ommai_encoder_cache *cache,
                               const struct omma_request *request) {
  for (size_t i = 0; share->store.find && i < request->n_images; i++) {
    if (ommai_encoder_cache_has(cache, &request->keys[i])) continue;
    find_one(share, cache, &request->keys[i],
             (size_t)ommai_vision_output_size(&request->model->config.vision, request->images[i].sizes.n_tokens));
  }
}

void ommai_encoding_share_keep(const struct ommai_encoding_share *share, const struct ommai_encoded_image *image) {
  if (!share->store.keep) return;
  struct omma_encoding_key name = name_of(share, &image->key);
  share->store.keep(share->store.context, &name, image->values, image->n_values);
}
