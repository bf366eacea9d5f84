/* The inside of omma_model: configuration, tokenizer, network. Immutable once open, but for the
 * mark of its one engine. */
#pragma once

#include <omma/omma.h>
#include <stdatomic.h>

#include "base/cpu_share.h"
#include "families/chat_template.h"
#include "families/gguf_model.h"
#include "model/checkpoint_fingerprint.h"
#include "model/image_store.h"
#include "model/image_team.h"
#include "model/network.h"
#include "model/pixel_budget.h"
#include "text/tokenizer.h"
#include "weights/checkpoint.h"

struct ommai_token_trie;

/* The tree of a model's tokens, made when the first grammar asks for it. */
struct ommai_shared_trie {
  _Atomic(struct ommai_token_trie *) trie;
};

struct omma_model {
  struct omma_allocator allocator;
  struct omma_log log; /* without a function: nothing is logged */
  char *directory;
  size_t directory_size;
  struct ommai_gguf_model *gguf; /* NULL: a directory of Hugging Face files */
  struct ommai_documents documents;
  bool pin_threads, config_only;
  bool bf16_embeddings; /* what those of images are published as, else f32 */
  struct ommai_image_team *image_team;
  struct ommai_pixel_budget *pixel_budget; /* of resized images */
  struct ommai_image_store *image_store;
  struct ommai_model_config config;
  struct ommai_draft_model *draft; /* that drafts tokens (model/draft_model.h); NULL: none */
  struct ommai_network network;    /* of the config, and not packed of config_only models */
  const char *machine;             /* below which CPUs are looked up while it is opened */
  int n_engines;                   /* that share it; 0 counts as 1 */
  /* Of several engines, else NULL: their CPUs; and the network once more for each place but the
   * first, in the order of places. */
  struct ommai_cpu_shares *shares;
  struct ommai_network *copies; /* [n_copies] */
  int n_copies;
  struct ommai_chat_choice chat;
  enum omma_model_task task; /* never AUTO */
  json_t *input_prompts;     /* of models of vectors, by kind of input; NULL: none */
  int64_t max_model_len;
  struct ommai_shared_trie *trie;      /* of the tokens, for grammars */
  struct ommai_tokenizer *tokenizer;   /* NULL for a config_only model whose directory has none */
  struct ommai_checkpoint *checkpoint; /* stays open: embedding rows are read from it */
  char linear_description[320];
  char fingerprint[OMMAI_FINGERPRINT_SIZE]; /* empty: without weights */
  atomic_bool has_engine;
  bool is_kept; /* an engine that did not end still uses it */
};

/* The network for the engine of this number: the one of its place. */
static inline const struct ommai_network *ommai_model_network(const struct omma_model *model, int engine) {
  int place = model->shares ? model->shares->of[engine].place : 0;
  return place && model->copies ? &model->copies[place - 1] : &model->network;
}
