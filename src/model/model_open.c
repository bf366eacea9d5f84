#include "model/model_open.h"

#include <sodium.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/plural.h"
#include "base/sized.h"
#include "base/team.h"
#include "families/generation_config.h"
#include "families/gguf_files.h"
#include "families/vector_rules.h"
#include "grammar/token_trie.h"
#include "model/draft_model.h"
#include "model/input_prompts.h"

enum omma_status ommai_model_open_checkpoint(const struct omma_model *model, struct ommai_checkpoint **checkpoint,
                                             struct omma_error *error) {
  struct ommai_quantization *quantization; /* the model's own is not for two threads at once */
  if (model->gguf) return ommai_gguf_model_checkpoint(model->gguf, checkpoint, error);
  OMMAI_TRY(ommai_quantization_read(&model->documents, &model->allocator, &quantization, error));
  enum omma_status status =
      ommai_quantization_open_checkpoint(quantization, model->directory, &model->allocator, checkpoint, error);
  ommai_quantization_destroy(quantization);
  return status;
}

int64_t ommai_model_weight_bytes(const struct omma_model *model) {
  return model->network.weight_bytes * (1 + model->n_copies) + (model->draft ? model->draft->network.weight_bytes : 0);
}

int64_t ommai_model_linear_scratch_bytes(const struct omma_model *model) {
  return model->network.linear_scratch_bytes * (1 + model->n_copies) +
         (model->draft ? model->draft->network.linear_scratch_bytes : 0);
}

/* An estimate needs no tokens. */
static enum omma_status read_tokenizer(struct omma_model *model, struct omma_error *error) {
  bool found;
  if (model->gguf) {
    OMMAI_TRY(ommai_gguf_model_tokenizer(model->gguf, &model->tokenizer, error));
  } else if (model->config_only) {
    OMMAI_TRY(ommai_tokenizer_present(model->directory, &found, error));
    if (!found) return OMMA_OK;
  }
  if (!model->tokenizer) OMMAI_TRY(ommai_tokenizer_load(model->directory, &model->allocator, &model->tokenizer, error));
  int32_t known = ommai_tokenizer_vocab_size(model->tokenizer);
  if (known > model->config.text.vocab_size) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "vocab_size",
                            "%s: tokenizer.json knows token %d, config.json's vocab_size is %lld", model->directory, known - 1,
                            (long long)model->config.text.vocab_size);
  }
  return OMMA_OK;
}

static enum omma_status read_chat_template(struct omma_model *model, const struct omma_model_options *options,
                                           struct omma_error *error) {
  if (options->chat_template < OMMA_CHAT_TEMPLATE_OWN || options->chat_template > OMMA_CHAT_TEMPLATE_UNUSED) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "chat_template", "chat_template: no such use: %d",
                            (int)options->chat_template);
  }
  OMMAI_TRY(ommai_chat_template_read(&model->documents, options->chat_template_file,
                                     options->chat_template == OMMA_CHAT_TEMPLATE_FAMILY, &model->allocator,
                                     model->network.family, &model->chat, error));
  bool later = model->config_only || options->chat_template == OMMA_CHAT_TEMPLATE_UNUSED;
  return later ? OMMA_OK : ommai_model_require_chat(model, error);
}

static enum omma_status choose_generation(struct omma_model *model, const struct omma_model_options *options,
                                          struct omma_error *error) {
  struct ommai_generation_config *generation = &model->config.generation;
  OMMAI_TRY(ommai_generation_config_choose(options->generation_config, options->override_generation_config, &model->allocator,
                                           model->config.text.vocab_size, generation, error));
  if (!model->tokenizer) return OMMA_OK;
  return ommai_generation_config_add_eos(&model->documents, &model->allocator, model->tokenizer, generation, error);
}

static enum omma_status choose_context(struct omma_model *model, int64_t max_model_len, struct omma_error *error) {
  int64_t limit = model->config.text.max_positions;
  model->max_model_len = max_model_len ? max_model_len : limit;
  if (model->max_model_len >= 1 && model->max_model_len <= limit) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "max_model_len",
                          "max_model_len: expected 1 to %lld, the context of this checkpoint, found %lld", (long long)limit,
                          (long long)max_model_len);
}

/* GGUF files are opened whole, which takes little time: sizes are counted by the types that their
 * tensors have. */
static enum omma_status open_source(struct omma_model *model, const struct omma_model_options *options,
                                    struct omma_error *error) {
  model->documents.directory = model->directory;
  if (!ommai_gguf_files_meant(model->directory)) {
    if (!options->mmproj) return OMMA_OK;
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "mmproj",
                            "mmproj: %s is not a GGUF file: it has its vision tower itself", model->directory);
  }
  OMMAI_TRY(ommai_gguf_model_open(model->directory, options->mmproj, &model->allocator, &model->gguf, error));
  model->documents = *ommai_gguf_model_documents(model->gguf);
  return ommai_model_open_checkpoint(model, &model->checkpoint, error);
}

/* Before the weights are packed. */
static void debug_plan(const struct omma_model *model) {
  const struct ommai_network *network = &model->network;
  OMMAI_DEBUG(&model->log, "model: %s: %s at level %s, %d thread%s, context of %lld tokens, chat template %s", model->directory,
              model->config.model_type, ommai_cpu_level_name(network->level), network->n_threads,
              ommai_plural(network->n_threads), (long long)model->max_model_len,
              model->chat.problem[0] ? "missing" : "its own");
  OMMAI_DEBUG(&model->log, "model: %lld parameters, %lld of them of the tower; %lld bytes of weights",
              (long long)network->n_parameters, (long long)network->n_vision_parameters, (long long)network->weight_bytes);
}

/* Who computes where, if that is for several engines. */
static enum omma_status share_cpus(struct omma_model *model, struct omma_model_options *options, struct omma_error *error) {
  struct ommai_cpu_room room;
  _Static_assert(OMMA_MAX_ENGINES == OMMAI_MAX_ENGINES, "one limit");
  if (options->n_engines < OMMA_ENGINES_AUTO || options->n_engines > OMMA_MAX_ENGINES) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "n_engines",
                            "n_engines: expected 1 to %d, or %d for one on each memory node, found %d", OMMA_MAX_ENGINES,
                            OMMA_ENGINES_AUTO, options->n_engines);
  }
  model->n_engines = ommai_max_i64(options->n_engines, 1);
  if (options->n_engines == 0 || options->n_engines == 1) return OMMA_OK;
  ommai_cpu_room_below(model->machine, &room);
  if (options->n_engines == OMMA_ENGINES_AUTO && room.nodes == 1) return OMMA_OK;
  model->shares = ommai_allocate(&model->allocator, 1, sizeof *model->shares);
  if (!model->shares) return ommai_fail_memory(error, "engines", sizeof *model->shares);
  ommai_cpu_shares(&room, (int)ommai_max_i64(options->n_engines, 0), options->n_threads, model->shares);
  model->n_engines = model->shares->n_engines;
  model->network.n_teams = model->shares->most_of_place;
  options->n_threads = model->shares->threads;
  return OMMA_OK;
}

/* What image preparation and structured output share. */
static enum omma_status make_shared(struct omma_model *model, const struct omma_model_options *options,
                                    struct omma_error *error) {
  int64_t store = options->known_image_bytes ? options->known_image_bytes : OMMAI_DEFAULT_IMAGE_STORE_BYTES;
  int n_threads = (int)ommai_min_i64((int64_t)model->network.n_threads * model->n_engines, OMMA_TEAM_MAX_THREADS);
  OMMAI_TRY(ommai_image_team_create(n_threads, &model->allocator, &model->image_team, error));
  model->trie = ommai_allocate(&model->allocator, 1, sizeof *model->trie);
  if (!model->trie) return ommai_fail_memory(error, "model", sizeof *model->trie);
  OMMAI_TRY(ommai_pixel_budget_create(options->max_resized_bytes, &model->allocator, &model->pixel_budget, error));
  return ommai_image_store_create(ommai_max_i64(store, 0), &model->allocator, &model->image_store, error);
}

/* By threads on the CPUs of the engines that read them: memory lies where it is first written. */
static enum omma_status pack_at(const struct omma_model *model, int place, struct ommai_network *network,
                                const struct omma_model_options *options, struct omma_error *error) {
  cpu_set_t cpus = ommai_cpu_shares_at(model->shares, place), before;
  struct ommai_team *team = NULL;
  int n_threads = (int)ommai_min_i64(CPU_COUNT(&cpus), OMMA_TEAM_MAX_THREADS);
  ommai_cpu_bind(&cpus, &before);
  enum omma_status status = ommai_team_create(n_threads, true, &model->allocator, &team, error);
  if (status == OMMA_OK) {
    status = ommai_network_pack(network, model->checkpoint, ommai_team_interface(team), options, error);
  }
  ommai_team_destroy(team);
  ommai_cpu_bind(&before, &cpus);
  return status;
}

/* The weights for each place. */
static enum omma_status pack_copies(struct omma_model *model, const struct omma_model_options *options, const char *declared,
                                    struct omma_error *error) {
  OMMAI_TRY(pack_at(model, 0, &model->network, options, error));
  for (int i = 0; i < model->n_copies; i++) {
    ommai_network_like(&model->network, &model->copies[i]);
    OMMAI_TRY(ommai_network_plan(&model->copies[i], options, declared, model->checkpoint, error));
    OMMAI_TRY(pack_at(model, i + 1, &model->copies[i], options, error));
  }
  return OMMA_OK;
}

/* Which is there once, however many engines draft with it. */
static enum omma_status pack_draft(struct omma_model *model, struct omma_error *error) {
  const struct omma_team *team = ommai_image_team_borrow(model->image_team);
  enum omma_status status = ommai_draft_model_pack(model->draft, team, error);
  ommai_image_team_return(model->image_team, team);
  return status;
}

static enum omma_status pack_weights(struct omma_model *model, const struct omma_model_options *options, const char *declared,
                                     struct omma_error *error) {
  struct ommai_network *network = &model->network;
  if (!model->checkpoint) OMMAI_TRY(ommai_model_open_checkpoint(model, &model->checkpoint, error));
  enum omma_status status;
  if (model->n_copies) {
    status = pack_copies(model, options, declared, error);
  } else {
    const struct omma_team *team = ommai_image_team_borrow(model->image_team); /* no images yet */
    status = ommai_network_pack(network, model->checkpoint, team, options, error);
    ommai_image_team_return(model->image_team, team);
  }
  if (status == OMMA_OK && model->draft) status = pack_draft(model, error);
  if (status == OMMA_OK && network->has_decoder) model->config.stored_type = network->decoder.embedding_type;
  return status;
}

static enum omma_status open_network(struct omma_model *model, const struct omma_model_options *options,
                                     struct omma_error *error) {
  struct ommai_network *network = &model->network;
  const char *declared = model->gguf ? ommai_gguf_model_description(model->gguf) : NULL;
  struct omma_model_options wanted = *options;
  /* which changes nothing, also where no matrix of the files is quantised */
  if (model->gguf && wanted.quantization && strcmp(wanted.quantization, "gguf") == 0) wanted.quantization = NULL;
  OMMAI_TRY(ommai_network_plan(network, &wanted, declared, model->checkpoint, error));
  debug_plan(model);
  if (options->draft_model && network->has_decoder) {
    OMMAI_TRY(ommai_draft_model_read(options->draft_model, model, options, &model->draft, error));
  }
  if (options->before_weights) OMMAI_TRY(options->before_weights(options->before_weights_context, model, error));
  if (!options->config_only) OMMAI_TRY(pack_weights(model, &wanted, declared, error));
  model->bf16_embeddings = model->config.stored_type == OMMA_BF16 && options->weights != OMMA_WEIGHTS_F32;
  if (model->checkpoint) ommai_checkpoint_fingerprint(model->checkpoint, model->fingerprint);
  ommai_linear_context_describe(network->linear_context, model->linear_description, sizeof model->linear_description);
  OMMAI_DEBUG(&model->log, "model: open%s: %s", network->packed ? "" : " without weights", model->linear_description);
  return OMMA_OK;
}

static enum omma_status allocate_copies(struct omma_model *model, struct omma_error *error) {
  int n = model->shares ? model->shares->n_places - 1 : 0;
  if (n == 0) return OMMA_OK;
  model->copies = ommai_allocate(&model->allocator, (size_t)n, sizeof *model->copies);
  if (!model->copies) return ommai_fail_memory(error, "copies of the weights", (size_t)n * sizeof *model->copies);
  model->n_copies = n;
  return OMMA_OK;
}

static enum omma_status open_model(struct omma_model *model, const struct omma_model_options *given, struct omma_error *error) {
  if (given->draft_head && given->draft_model) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "draft_model", "draft_model: not together with draft_head");
  }
  if (sodium_init() < 0) return ommai_fail(error, OMMA_ERROR_INTERNAL, "libsodium cannot be initialised");
  struct omma_model_options shared = *given, *options = &shared;
  OMMAI_TRY(share_cpus(model, options, error));
  OMMAI_TRY(open_source(model, options, error));
  OMMAI_TRY(ommai_network_read(&model->network, &model->documents, options, &model->config, error));
  OMMAI_TRY(allocate_copies(model, error));
  OMMAI_TRY(ommai_task_choose(model->network.family, &model->documents, options->task, &model->allocator, &model->config,
                              &model->task, error));
  if (model->task == OMMA_TASK_EMBED) {
    OMMAI_TRY(ommai_input_prompts_read(&model->documents, &model->allocator, &model->input_prompts, error));
  }
  OMMAI_TRY(choose_context(model, options->max_model_len, error));
  OMMAI_TRY(read_chat_template(model, options, error));
  OMMAI_TRY(read_tokenizer(model, error));
  OMMAI_TRY(choose_generation(model, options, error));
  OMMAI_TRY(make_shared(model, options, error));
  return open_network(model, options, error);
}

enum omma_status ommai_model_require_tokenizer(const struct omma_model *model, struct omma_error *error) {
  if (model->tokenizer) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_IO,
                    "%s: neither tokenizer.json nor tiktoken.model is there: without one text has no tokens", model->directory);
}

enum omma_status ommai_model_require_processor(const struct omma_model *model, struct omma_error *error) {
  if (!model->config.image.published) return OMMA_OK;
  return ommai_fail(
      error, OMMA_ERROR_IO,
      "%s/preprocessor_config.json: no such file; it belongs to the checkpoint, only estimates are made without it",
      model->directory);
}

enum omma_status ommai_model_require_chat(const struct omma_model *model, struct omma_error *error) {
  if (model->chat.jinja) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "chat_template",
                          "%s; prompts in another form than the model's own make it worse", model->chat.problem);
}

enum omma_status ommai_model_open_on(const char *machine, const char *directory, const struct omma_model_options *options,
                                     struct omma_model **out, struct omma_error *error) {
  OMMAI_TAKE_OPTIONS(omma_model_options, options, error);
  if (!directory || !*directory) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "model", "model: no directory given");
  const struct omma_allocator *allocator = options->allocator ? options->allocator : &ommai_default_allocator;
  struct omma_model *model = ommai_allocate(allocator, 1, sizeof *model);
  if (!model) return ommai_fail_memory(error, "model", sizeof *model);
  model->allocator = *allocator;
  model->machine = machine;
  if (options->log) model->log = *options->log;
  model->pin_threads = !options->no_pinning;
  model->config_only = options->config_only;
  model->directory_size = strlen(directory);
  model->directory = ommai_duplicate(allocator, directory, model->directory_size);
  enum omma_status status =
      model->directory ? open_model(model, options, error) : ommai_fail_memory(error, "model", model->directory_size);
  if (status != OMMA_OK) {
    omma_model_close(model);
    return status;
  }
  *out = model;
  return OMMA_OK;
}

enum omma_status omma_model_open(const char *directory, const struct omma_model_options *options, struct omma_model **model,
                                 struct omma_error *error) {
  return ommai_model_open_on("", directory, options, model, error);
}

void omma_model_close(struct omma_model *model) {
  if (!model || model->is_kept) return;
  ommai_draft_model_close(model->draft);
  for (int i = 0; i < model->n_copies; i++) ommai_network_free(&model->copies[i]);
  ommai_release(&model->allocator, model->copies, (size_t)model->n_copies, sizeof *model->copies);
  ommai_release(&model->allocator, model->shares, 1, sizeof *model->shares);
  ommai_network_free(&model->network);
  ommai_checkpoint_close(model->checkpoint);
  ommai_gguf_model_close(model->gguf);
  if (model->trie) ommai_token_trie_destroy(atomic_load(&model->trie->trie));
  ommai_release(&model->allocator, model->trie, 1, sizeof *model->trie);
  ommai_tokenizer_destroy(model->tokenizer);
  json_decref(model->input_prompts);
  ommai_chat_choice_free(&model->chat);
  ommai_image_store_destroy(model->image_store);
  ommai_pixel_budget_destroy(model->pixel_budget);
  ommai_image_team_destroy(model->image_team);
  struct omma_allocator allocator = model->allocator;
  ommai_release(&allocator, model->directory, model->directory_size + 1, 1);
  ommai_release(&allocator, model, 1, sizeof *model);
}
