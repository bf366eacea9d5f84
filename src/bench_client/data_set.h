/* Data sets: what the requests of a run ask. Each kind fills a list of ready request bodies. */
#pragma once

#include <jansson.h>
#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench_client/server_queries.h"
#include "text/tokenizer.h"

/* The bodies of requests to /v1/chat/completions and /v1/completions, key by key as vLLM's
 * benchmark sends them. */
struct ommai_body_fields {
  bool chat;
  const char *model;
  bool ignore_eos;
  int64_t logprobs;    /* completions only; negative: none */
  const json_t *extra; /* an object that is laid over the body, or NULL */
};

/* Makes one body. `prompt` is a string, a list of content parts or a list of messages; `media`,
 * content parts after the text (an object, a list, or NULL); both are borrowed. A completion takes
 * a string and no media. *body is *size bytes in jansson's memory, released with free. Errors:
 * ARGUMENT, MEMORY. */
enum omma_status ommai_body_make(const struct ommai_body_fields *fields, const json_t *prompt, const json_t *media,
                                 int64_t output_len, char **body, size_t *size, struct omma_error *error);

enum ommai_data_kind { OMMAI_DATA_RANDOM, OMMAI_DATA_RANDOM_MM, OMMAI_DATA_CUSTOM_IMAGE, OMMAI_DATA_SHAREGPT, OMMAI_DATA_HF };

/* An image size of random-mm and how often it is drawn. */
struct ommai_image_bucket {
  int32_t height, width;
  double weight;
};
#define OMMAI_MAX_IMAGE_BUCKETS 64

/* Tokens per request that random prompts have around `mean`: uniform in [floor(mean * (1 - ratio)),
 * ceil(mean * (1 + ratio))]. */
struct ommai_length {
  int64_t mean;
  double ratio; /* in [0, 1) */
};

struct ommai_data_settings {
  enum ommai_data_kind kind;
  const char *path;   /* file or directory; NULL for random data */
  int64_t n_requests; /* custom_image takes 0 for all lines */
  uint32_t seed;
  bool keep_order;    /* files are not shuffled */
  bool no_oversample; /* fewer lines than n_requests make fewer requests */
  bool inline_images; /* custom_image: references to images are sent as data: URLs */
  /* of files; negative: what the data gives, or the kind's default */
  int64_t output_len;
  struct ommai_length input, output; /* of random data */
  int64_t prefix_len;
  struct ommai_image_bucket buckets[OMMAI_MAX_IMAGE_BUCKETS];
  size_t n_buckets;
  int64_t images; /* per request */
  /* in [0, 1]: the spread of their number, as in ommai_length */
  double images_ratio;
  int64_t image_limit; /* per request, at most */
  /* random: cuts prompts that the server finds too long; may be NULL */
  struct ommai_server_tokenizer *server_tokenizer;
  /* NULL: prompts of files count as 1 token; random data needs one */
  const struct ommai_tokenizer *tokenizer;
  /* called for every request that is made; may be NULL */
  void (*progress)(void *context, int64_t done, int64_t total);
  void *progress_context;
};

/* One question. */
struct ommai_sample {
  char *body; /* [body_size], jansson's memory */
  size_t body_size;
  int64_t prompt_len, output_len; /* as counted here; -1 where only the server knows */
  json_t *answers;                /* accepted answers, a list of strings, or NULL */
};

/* samples[n_samples] and the request order: picks[n_picks] are indices into samples, more than
 * there are samples where the data is repeated to reach n_requests. */
struct ommai_data_set {
  const struct omma_allocator *allocator;
  const struct ommai_data_settings *settings; /* while it is made */
  struct ommai_body_fields fields;
  struct ommai_sample *samples;
  size_t n_samples, samples_capacity;
  size_t *picks;
  size_t n_picks, picks_capacity;
};

/* Makes the data set: the same settings and files give the same requests. `fields` is copied; what
 * it points to must live as long. Release in every case. Errors: ARGUMENT, IO, FORMAT (with file
 * and line), UNSUPPORTED, LIMIT, MEMORY. */
enum omma_status ommai_data_set_make(const struct ommai_data_settings *settings, const struct ommai_body_fields *fields,
                                     const struct omma_allocator *allocator, struct ommai_data_set *set,
                                     struct omma_error *error);
void ommai_data_set_release(struct ommai_data_set *set);

/* For the kinds: adds a sample; prompt, media (may be NULL) and answers (may be NULL) are
 * borrowed. */
enum omma_status ommai_data_set_add(struct ommai_data_set *set, const json_t *prompt, const json_t *media,
                                    const json_t *answers, int64_t prompt_len, int64_t output_len, struct omma_error *error);

/* The kinds, each in its own file. */
enum omma_status ommai_data_random(const struct ommai_data_settings *settings, struct ommai_data_set *set,
                                   struct omma_error *error);
enum omma_status ommai_data_custom_image(const struct ommai_data_settings *settings, struct ommai_data_set *set,
                                         struct omma_error *error);
enum omma_status ommai_data_sharegpt(const struct ommai_data_settings *settings, struct ommai_data_set *set,
                                     struct omma_error *error);
enum omma_status ommai_data_hf(const struct ommai_data_settings *settings, struct ommai_data_set *set,
                               struct omma_error *error);

/* order[n], released with ommai_release(set->allocator, order, n, sizeof *order): 0 to n - 1,
 * shuffled as Python's random.shuffle does after random.seed(seed), or unshuffled where the
 * settings require it. Errors: MEMORY. */
enum omma_status ommai_data_order(const struct ommai_data_settings *settings, const struct ommai_data_set *set, size_t n,
                                  size_t **order, struct omma_error *error);

/* Tokens of a text; 1 where there is no tokenizer. */
enum omma_status ommai_data_count_tokens(const struct ommai_tokenizer *tokenizer, const char *text, size_t size, int64_t *count,
                                         struct omma_error *error);
