/* Opening models, and what calls need of an open one. */
#pragma once

#include "model/model.h"

/* omma_model_open on a machine whose files are below `machine` (ommai_cpu_room). */
enum omma_status ommai_model_open_on(const char *machine, const char *directory, const struct omma_model_options *options,
                                     struct omma_model **model, struct omma_error *error);

/* What a config_only model may lack and a call needs: the tokenizer's file,
 * preprocessor_config.json. Errors: IO. */
enum omma_status ommai_model_require_tokenizer(const struct omma_model *model, struct omma_error *error);
enum omma_status ommai_model_require_processor(const struct omma_model *model, struct omma_error *error);
/* That prompts of chats can be rendered as the checkpoint wants them, or that the caller takes the
 * nearest form. Errors: UNSUPPORTED. */
enum omma_status ommai_model_require_chat(const struct omma_model *model, struct omma_error *error);

/* Of the model with all its copies, and its draft model: all weights, and the linear layers'
 * scratch memory. */
int64_t ommai_model_weight_bytes(const struct omma_model *model);
int64_t ommai_model_linear_scratch_bytes(const struct omma_model *model);

/* Opens the weights of the model, of which the caller closes them before the model. Errors: as
 * ommai_checkpoint_open. */
enum omma_status ommai_model_open_checkpoint(const struct omma_model *model, struct ommai_checkpoint **checkpoint,
                                             struct omma_error *error);
