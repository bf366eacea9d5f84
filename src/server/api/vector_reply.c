#include "server/api/vector_requests.h"

#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "base/json.h"
#include "base/json_writer.h"

/* ---- what replies have in common ---- */

static void begin_usage(const struct ommai_vector_reply *reply, struct ommai_text *out) {
  int64_t n = 0;
  for (size_t i = 0; i < reply->inputs->n; i++) n += reply->results[i].n_tokens;
  ommai_put_begin(out, "usage", "{");
  OMMAI_PUT_INTEGERS(out, {"prompt_tokens", n}, {"total_tokens", n});
}

static void add_head(const struct ommai_vector_reply *reply, struct ommai_text *out) {
  ommai_put_begin(out, NULL, "{");
  OMMAI_PUT_STRINGS(out, {"id", reply->id}, {"object", "list"});
  ommai_put_integer(out, "created", reply->created);
  ommai_put_string(out, "model", reply->model);
  ommai_put_begin(out, "data", "[");
}

static void add_end(const struct ommai_vector_reply *reply, struct ommai_text *out) {
  ommai_put_end(out, "]");
  begin_usage(reply, out);
  ommai_put_integer(out, "completion_tokens", 0);
  ommai_put_nulls(out, "prompt_tokens_details", "completion_tokens_details", NULL);
  ommai_put_end(out, "}}");
}

/* ---- vectors ---- */

static void add_result(const struct ommai_vector_reply *reply, const struct ommai_vector_result *result, const char *key,
                       struct ommai_text *out) {
  if (reply->fields->format == OMMAI_VECTOR_BASE64) {
    ommai_vector_add_base64(out, key, reply->fields, result->values, result->n_rows * result->width);
  } else if (!reply->has_token_vectors) {
    ommai_vector_add_floats(out, key, result->values, result->n_rows * result->width);
  } else {
    ommai_put_begin(out, key, "[");
    for (int64_t row = 0; row < result->n_rows; row++) {
      ommai_vector_add_floats(out, NULL, result->values + row * result->width, result->width);
    }
    ommai_put_end(out, "]");
  }
}

static void write_vectors(const struct ommai_vector_reply *reply, struct ommai_text *out) {
  bool pooling = reply->rules->is_pooling;
  add_head(reply, out);
  for (size_t i = 0; i < reply->inputs->n; i++) {
    ommai_put_begin(out, NULL, "{");
    ommai_put_integer(out, "index", (int64_t)i);
    ommai_put_string(out, "object", pooling ? "pooling" : "embedding");
    add_result(reply, &reply->results[i], pooling ? "data" : "embedding", out);
    ommai_put_end(out, "}");
  }
  add_end(reply, out);
}

/* ---- scores ---- */

struct score {
  size_t index;
  float value;
};

/* Of two vectors of any length, as torch's cosine_similarity. */
static float cosine(const struct ommai_vector_result *a, const struct ommai_vector_result *b) {
  double product = 0, length_a = 0, length_b = 0;
  for (int64_t i = 0; i < a->width; i++) {
    product += (double)a->values[i] * b->values[i];
    length_a += (double)a->values[i] * a->values[i];
    length_b += (double)b->values[i] * b->values[i];
  }
  return (float)(product / fmax(sqrt(length_a * length_b), 1e-8));
}

static float max_sim(const struct ommai_vector_result *query, const struct ommai_vector_result *document) {
  const struct omma_vectors a = {query->n_rows, query->width, query->values},
                            b = {document->n_rows, document->width, document->values};
  return (float)omma_vectors_max_sim(&a, &b);
}

static float score_of(const struct ommai_vector_reply *reply, size_t document) {
  const struct ommai_vector_inputs *inputs = reply->inputs;
  if (inputs->kind == OMMAI_VECTOR_PAIRS) return reply->results[document].values[0];
  const struct ommai_vector_result *a = &reply->results[inputs->n_queries > 1 ? document : 0],
                                   *b = &reply->results[inputs->n_queries + document];
  return reply->has_token_vectors ? max_sim(a, b) : cosine(a, b);
}

static int compare_scores(const void *a, const void *b) {
  const struct score *left = a, *right = b;
  if (left->value != right->value) return left->value < right->value ? 1 : -1;
  return (left->index > right->index) - (left->index < right->index);
}

/* A document as it came: a text, or parts. */
static void add_document(const struct ommai_vector_inputs *inputs, size_t index, struct ommai_text *out) {
  const json_t *document = json_is_array(inputs->documents) ? json_array_get(inputs->documents, index) : inputs->documents;
  ommai_put_begin(out, "document", "{");
  if (ommai_json_is_text(document)) {
    ommai_put_text(out, "text", json_string_value(document), json_string_length(document));
    ommai_put_null(out, "multi_modal");
  } else {
    ommai_put_null(out, "text");
    ommai_put_value(out, "multi_modal", json_object_get(document, "content"), 0);
  }
  ommai_put_end(out, "}");
}

static void write_ranking(const struct ommai_vector_reply *reply, const struct score *scores, struct ommai_text *out) {
  const size_t n = reply->inputs->n_documents, top_n = (size_t)reply->fields->top_n;
  ommai_put_begin(out, NULL, "{");
  OMMAI_PUT_STRINGS(out, {"id", reply->id}, {"model", reply->model});
  begin_usage(reply, out);
  ommai_put_end(out, "}");
  ommai_put_begin(out, "results", "[");
  for (size_t i = 0; i < (top_n && top_n < n ? top_n : n); i++) {
    ommai_put_begin(out, NULL, "{");
    ommai_put_integer(out, "index", (int64_t)scores[i].index);
    add_document(reply->inputs, scores[i].index, out);
    ommai_put_number(out, "relevance_score", scores[i].value, 9);
    ommai_put_end(out, "}");
  }
  ommai_put_end(out, "]}");
}

static void write_scores(const struct ommai_vector_reply *reply, struct ommai_text *out) {
  const size_t n = reply->inputs->n_documents;
  struct score *scores = ommai_allocate(out->allocator, n, sizeof *scores);
  out->failed |= !scores;
  if (!scores) return;
  for (size_t i = 0; i < n; i++) scores[i] = (struct score){i, score_of(reply, i)};
  if (reply->rules->is_reranking) {
    qsort(scores, n, sizeof *scores, compare_scores);
    write_ranking(reply, scores, out);
  } else {
    add_head(reply, out);
    for (size_t i = 0; i < n; i++) {
      ommai_put_begin(out, NULL, "{");
      ommai_put_integer(out, "index", (int64_t)i);
      ommai_put_string(out, "object", "score");
      ommai_put_number(out, "score", scores[i].value, 9);
      ommai_put_end(out, "}");
    }
    add_end(reply, out);
  }
  ommai_release(out->allocator, scores, n, sizeof *scores);
}

const char *ommai_vector_reply_write(const struct ommai_vector_reply *reply, struct ommai_text *out) {
  if (reply->rules->is_cohere) {
    ommai_cohere_embed_write(reply, out);
  } else if (reply->rules->is_scoring) {
    write_scores(reply, out);
  } else if (reply->fields->format == OMMAI_VECTOR_BYTES) {
    for (size_t i = 0; i < reply->inputs->n; i++) {
      ommai_vector_add_binary(out, reply->fields, reply->results[i].values, reply->results[i].n_rows * reply->results[i].width);
    }
    return "application/octet-stream";
  } else {
    write_vectors(reply, out);
  }
  return "application/json";
}
