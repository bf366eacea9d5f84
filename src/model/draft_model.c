#include "model/draft_model.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "language/state.h"

#define FIELD "draft_model"

static enum omma_status refuse(const struct ommai_draft_model *draft, const char *why, struct omma_error *error) {
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, FIELD, "draft_model: %s: %s", draft->directory, why);
}

/* ---- the same tokens ---- */

static bool is_same_token(const struct ommai_tokenizer *a, const struct ommai_tokenizer *b, int32_t id) {
  const char *bytes[2] = {NULL, NULL};
  size_t size[2] = {0, 0};
  bool special[2] = {false, false};
  bool known = ommai_tokenizer_token_bytes(a, id, &bytes[0], &size[0], &special[0]);
  if (known != ommai_tokenizer_token_bytes(b, id, &bytes[1], &size[1], &special[1])) return false;
  return !known || (size[0] == size[1] && special[0] == special[1] && memcmp(bytes[0], bytes[1], size[0]) == 0);
}

/* Rows of the output layer beyond the tokens are padding: the draft model may have fewer. */
static enum omma_status check_tokens(const struct ommai_draft_model *draft, const struct omma_model *model,
                                     struct omma_error *error) {
  struct ommai_tokenizer *own;
  bool found;
  if (draft->config.text.vocab_size > model->config.text.vocab_size) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, FIELD,
                            "draft_model: %s: vocab_size %lld is more than the model's, %lld", draft->directory,
                            (long long)draft->config.text.vocab_size, (long long)model->config.text.vocab_size);
  }
  if (!model->tokenizer) return OMMA_OK; /* an estimate */
  OMMAI_TRY(ommai_tokenizer_present(draft->directory, &found, error));
  if (!found) return refuse(draft, "it has no tokenizer, by which its tokens are seen to be the model's", error);
  OMMAI_TRY(ommai_tokenizer_load(draft->directory, &draft->allocator, &own, error));
  int32_t n = ommai_tokenizer_vocab_size(model->tokenizer), id = 0;
  bool same = ommai_tokenizer_vocab_size(own) == n && n <= draft->config.text.vocab_size;
  while (same && id < n && is_same_token(model->tokenizer, own, id)) id++;
  ommai_tokenizer_destroy(own);
  if (!same) return refuse(draft, "its tokenizer has another number of tokens than the model's", error);
  if (id == n) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, FIELD, "draft_model: %s: token %d is another one than the model's",
                          draft->directory, (int)id);
}

/* ---- the same pages ---- */

static enum omma_status check_layers(const struct ommai_draft_model *draft, const struct omma_model *model,
                                     struct omma_error *error) {
  struct ommai_state_layout own, others;
  ommai_state_layout_make(&draft->config.text, draft->network.decoder.kv_type, &own);
  ommai_state_layout_make(&model->config.text, model->network.decoder.kv_type, &others);
  if (own.n_groups != 1 || own.groups[0].state.kind != OMMAI_STATE_PAGES) {
    return refuse(draft, "layers with windows or recurrent states cannot draft; expected layers that see the whole context",
                  error);
  }
  if (others.n_groups == 0 || others.groups[0].state.kind != OMMAI_STATE_PAGES) {
    return refuse(draft, "the model has no layer that sees the whole context, next to whose keys its own could lie", error);
  }
  if (draft->config.text.max_positions >= model->max_model_len) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, FIELD,
                          "draft_model: %s: its context of %lld tokens is shorter than the model's, %lld (max_model_len)",
                          draft->directory, (long long)draft->config.text.max_positions, (long long)model->max_model_len);
}

static enum omma_status read(struct ommai_draft_model *draft, const struct omma_model *model,
                             const struct omma_model_options *options, struct omma_error *error) {
  const struct ommai_documents documents = {.directory = draft->directory};
  const struct omma_model_options own = {.weights = options->weights,
                                         .kv_cache = options->kv_cache,
                                         .isa = options->isa,
                                         .n_threads = options->n_threads,
                                         .allocator = options->allocator,
                                         .config_only = true};
  draft->network.text_only = true;
  draft->network.n_teams = model->n_engines;
  OMMAI_TRY(ommai_network_read(&draft->network, &documents, &own, &draft->config, error));
  if (draft->config.text.headless) return refuse(draft, "it has no output layer", error);
  OMMAI_TRY(ommai_network_plan(&draft->network, &own, NULL, NULL, error));
  OMMAI_TRY(check_layers(draft, model, error));
  return check_tokens(draft, model, error);
}

enum omma_status ommai_draft_model_read(const char *directory, const struct omma_model *model,
                                        const struct omma_model_options *options, struct ommai_draft_model **out,
                                        struct omma_error *error) {
  const struct omma_allocator *allocator = &model->allocator;
  struct ommai_draft_model *draft = ommai_allocate(allocator, 1, sizeof *draft);
  if (!draft) return ommai_fail_memory(error, FIELD, sizeof *draft);
  draft->allocator = *allocator;
  draft->directory_size = strlen(directory);
  draft->directory = ommai_duplicate(allocator, directory, draft->directory_size);
  enum omma_status status =
      draft->directory ? read(draft, model, options, error) : ommai_fail_memory(error, FIELD, draft->directory_size);
  if (status != OMMA_OK) {
    ommai_draft_model_close(draft);
    return status;
  }
  *out = draft;
  return OMMA_OK;
}

enum omma_status ommai_draft_model_pack(struct ommai_draft_model *draft, const struct omma_team *team,
                                        struct omma_error *error) {
  static const struct omma_model_options no_progress = {0};
  OMMAI_TRY(ommai_quantization_open_checkpoint(draft->network.quantization, draft->directory, &draft->allocator,
                                               &draft->checkpoint, error));
  return ommai_network_pack(&draft->network, draft->checkpoint, team, &no_progress, error);
}

void ommai_draft_model_close(struct ommai_draft_model *draft) {
  if (!draft) return;
  struct omma_allocator allocator = draft->allocator;
  ommai_network_free(&draft->network);
  ommai_checkpoint_close(draft->checkpoint);
  ommai_release(&allocator, draft->directory, draft->directory_size + 1, 1);
  ommai_release(&allocator, draft, 1, sizeof *draft);
}
