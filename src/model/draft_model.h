/* A second, smaller model that drafts tokens: the language model of a checkpoint directory, whose
 * tokens are those of the model that it drafts for. Its keys and values lie under the same page
 * numbers, so its layers must all keep pages of the whole context. Immutable once packed. */
#pragma once

#include "model/model.h"

struct ommai_draft_model {
  struct omma_allocator allocator;
  char *directory;
  size_t directory_size;
  struct ommai_model_config config;
  struct ommai_network network; /* without a tower */
  struct ommai_checkpoint *checkpoint;
};

/* Everything but the weights; `options` are those of the model. Errors: those of opening a model;
 * UNSUPPORTED (field "draft_model": another tokenizer or a shorter context, layers that keep other
 * things than pages); nothing stays. */
enum omma_status ommai_draft_model_read(const char *directory, const struct omma_model *model,
                                        const struct omma_model_options *options, struct ommai_draft_model **draft,
                                        struct omma_error *error);
/* Packs its weights on the team. Errors: FORMAT, IO, MEMORY. */
enum omma_status ommai_draft_model_pack(struct ommai_draft_model *draft, const struct omma_team *team,
                                        struct omma_error *error);
/* NULL is allowed. */
void ommai_draft_model_close(struct ommai_draft_model *draft);
