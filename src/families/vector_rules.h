/* Models that were trained for vectors of inputs, or for scores of documents: the form of their
 * prompts and images, which differs from that of chats, and how they are recognised. */
#pragma once

#include <omma/model.h>

#include "families/model_config.h"

/* Of a family. */
struct ommai_vector_rules {
  const char *models[OMMA_TASK_SCORE + 1]; /* by task: what released ones are called */
  const char *instruction;                 /* of vectors, where none is given */
  const char *nothing;                     /* the text of an input without parts */
  /* Of scores: the system's message, the instruction where none is given, and what stands before
   * the instruction, the query and the document in the user's message. */
  const char *score_system, *score_instruction;
  const char *before_instruction, *before_query, *before_document;
  const char *yes, *no;   /* the tokens whose logits are compared */
  size_t score_kept_last; /* tokens at a prompt's end that are kept beyond the limit */
  int64_t max_tokens;
  /* Limits of a resized image's area, and how it is resized. */
  int64_t min_pixels, max_pixels, score_max_pixels;
  /* Of a video's frames, each; and of all together twice this. */
  int64_t frame_min_pixels, frame_max_pixels, video_pixels, score_video_pixels;
  enum ommai_resize_rule resize_rule;
};

struct ommai_family;

/* What the model is for: as `wanted` says, or for AUTO and POOLING by its files and name. Sets what
 * of its config then differs. Errors: UNSUPPORTED (field "task"), ARGUMENT, and those of
 * documents. */
enum omma_status ommai_task_choose(const struct ommai_family *family, const struct ommai_documents *documents,
                                   enum omma_model_task wanted, const struct omma_allocator *allocator,
                                   struct ommai_model_config *config, enum omma_model_task *task, struct omma_error *error);
