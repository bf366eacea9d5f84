/* Vectors of texts, images and videos, by which they are searched for, and scores of documents for
 * a query. The rules for all calls of omma/omma.h apply here.
 *
 * Models are trained for either, and for prompts of a fixed form, which these calls write
 * (docs/embeddings.md). A request goes to an engine as any other; omma_callbacks.on_vectors gets
 * the result. */
#ifndef OMMA_VECTORS_H
#define OMMA_VECTORS_H

#include <omma/omma.h>

#ifdef __cplusplus
extern "C" {
#endif

/* EMBED: one row, or one for each token of the prompt (omma_model_info.token_vector_width), of
 * length 1 unless raw_vectors is set. SCORE: one row of width 1, from 0 to 1 unless raw_vectors is
 * set. */
struct omma_vectors {
  int64_t n_rows, width;
  const float *values; /* [n_rows, width] */
};

/* Prepares a request for the vector of an input: videos, then images, then texts of `parts`;
 * nothing at all has a vector too. instruction: what the vector is for; NULL or empty: the model's
 * own. Where each token has a vector, the input is one text or one image, without instruction. A
 * prompt longer than options->truncation.n_tokens (0: the model's limit for inputs, or what the
 * context holds) keeps its special tokens, its images and the first of its other tokens. Of the
 * options, `kind` and those of chats and sampling have no effect. Errors: UNSUPPORTED (field
 * "model": the model's task is another; "instruction", "dimensions" or "messages": vectors of
 * tokens), ARGUMENT (field "dimensions"), and those of omma_request_create. */
OMMA_API enum omma_status omma_request_create_embed(const struct omma_model *model, const char *instruction,
                                                    const struct omma_part *parts, size_t n_parts,
                                                    const struct omma_request_options *options, struct omma_request **request,
                                                    struct omma_error *error);
/* Prepares a request for the score of a document for a query, likewise. */
OMMA_API enum omma_status omma_request_create_score(const struct omma_model *model, const char *instruction,
                                                    const struct omma_part *query, size_t n_query,
                                                    const struct omma_part *document, size_t n_document,
                                                    const struct omma_request_options *options, struct omma_request **request,
                                                    struct omma_error *error);

/* The text that the checkpoint has for a kind of input, such as "query"
 * (config_sentence_transformers.json: prompts, or config.json: task_instructions); NULL where it
 * names no such kind. Lives as long as the model. */
OMMA_API const char *omma_model_input_prompt(const struct omma_model *model, const char *input_type);
/* The kinds that it names, by index; NULL after the last one. */
OMMA_API const char *omma_model_input_type(const struct omma_model *model, size_t index);

/* The score of a document for a query, whose tokens have vectors: the sum over the query's rows of
 * the largest product with one of the document's, in double and in order; NaN where their widths
 * differ. */
OMMA_API double omma_vectors_max_sim(const struct omma_vectors *query, const struct omma_vectors *document);

#ifdef __cplusplus
}
#endif

#endif
