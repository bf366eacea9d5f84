/* A stand-in for the library of omma.h, with scripted behaviour that the real engine does not
 * show on demand: slow tokens, full queues, failures in mid-stream. Tokens of a prompt are its
 * bytes; the answer repeats the last text's words, one per token, unless the prompt's texts hold
 * directives:
 *
 *   [[tokens=N]]     answer "w0 w1 ... "       [[pace_ms=N]]   time between tokens
 *                    [[first_ms=N]]  time before the first
 *   [[size=N]]       bytes per token           [[error_at=N]]  internal failure instead of token N
 *   [[die=1]]        the engine fails for good [[refuse=S]]    omma_request_create fails with
 *                    status S
 *   [[progress=N]]   N steps of encoding are reported before the first token, 10 ms from one to the
 *                    next
 *   [[queue=N]]      before that, N places in the queue, from N to 1 at the same pace
 *   [[show=1]]       answer with the sampling fields and images that arrived
 *   [[think=N]]      the first N tokens are reasoning, where it is separated; no more of them
 *                    than the budget allows
 *
 * A model that is a directory (--model) holds answers: a prompt with an image is answered by the
 * file whose name is the CRC-32 of the image file's bytes in 8 hexadecimal digits; else by the one
 * with the name of its size (WIDTHxHEIGHT) or "other"; one without a file is refused. */
#include <inttypes.h>
#include <omma/vectors.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "fake_sleep.h"
#include "fake_vectors.h"

#define VOCABULARY 256
#define CONTEXT 4096
#define IMAGE_TOKENS 16
#define DEFAULT_PIXELS 178956970 /* as omma.h documents */
#define MAX_TEXT 65536
#define MAX_RUNNING 2048
#define SECRET "/secret/checkpoint/model.safetensors"

struct omma_model {
  const char *answers; /* a directory; empty: none */
  enum omma_model_task task;
};

struct omma_image {
  int32_t width, height;
  uint32_t crc; /* of the file */
};

struct omma_request {
  int32_t *prompt;
  size_t n_prompt;
  char text[MAX_TEXT];
  char shown[8192]; /* prompt and images, with [[show=1]] */
  struct omma_sampling sampling;
  char *stop[OMMA_MAX_STOP_STRINGS];
  int32_t stop_tokens[256];
  int64_t n_tokens, pace_ms, first_ms, size, error_at, die, show, progress, queue, think;
  enum omma_request_kind kind;
  int64_t dimensions, raw_vectors;
};

struct job {
  const struct omma_request *request;
  struct omma_callbacks callbacks;
  uint64_t id;
  int64_t due_ns, index;
  size_t offset;
  bool used, cancelled;
};

struct omma_engine {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct job jobs[MAX_RUNNING];
  int64_t limit;
  uint64_t next_id;
  bool stopping;
  struct omma_engine_stats stats;
};

static struct omma_model the_model;

const char *omma_version(void) { return "0.0.0-fake"; }

enum omma_status omma_model_open(const char *directory, const struct omma_model_options *options, struct omma_model **model,
                                 struct omma_error *error) {
  (void)error;
  the_model.answers = directory;
  the_model.task = options && options->task ? options->task : OMMA_TASK_GENERATE;
  *model = &the_model;
  return OMMA_OK;
}

void omma_model_close(struct omma_model *model) { (void)model; }

void omma_model_get_info(const struct omma_model *model, struct omma_model_info *info) {
  *info = (struct omma_model_info){.task = model->task,
                                   .directory = "/secret/checkpoint/",
                                   .max_model_len = CONTEXT,
                                   .vocab_size = VOCABULARY,
                                   .recommended_temperature = -1,
                                   .kv_cache = "bf16",
                                   .chat_template = "the fake",
                                   .chat_template_has_tools = true};
}

/* ---- images: the header alone ---- */

static int32_t big_endian(const uint8_t *bytes) {
  return (int32_t)((uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3]);
}

static bool is_png(const uint8_t *bytes, size_t size) { return size >= 4 && !memcmp(bytes, "\x89PNG", 4); }

enum omma_status omma_image_probe(const void *data, size_t size, const struct omma_image_limits *limits,
                                  struct omma_image_header *header, struct omma_error *error) {
  const uint8_t *bytes = data;
  struct omma_image found = {.width = 8, .height = 8};
  bool png = is_png(bytes, size), jpeg = size >= 2 && bytes[0] == 0xff && bytes[1] == 0xd8;
  if (!png && !jpeg) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "cannot identify image: its %zu bytes are in no known image format", size);
  }
  if (png && size >= 24) found = (struct omma_image){.width = big_endian(bytes + 16), .height = big_endian(bytes + 20)};
  int64_t max_pixels = limits && limits->max_pixels ? limits->max_pixels : DEFAULT_PIXELS;
  if ((int64_t)found.width * found.height > max_pixels) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "image of %d x %d pixels: at most %" PRId64 " are allowed", found.width,
                      found.height, max_pixels);
  }
  *header = (struct omma_image_header){found.width, found.height, (int64_t)found.width * found.height * 3};
  return OMMA_OK;
}

static uint32_t crc32_of(const uint8_t *bytes, size_t size) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < size; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc;
}

enum omma_status omma_image_decode(const void *data, size_t size, const struct omma_image_limits *limits,
                                   struct omma_image **image, struct omma_error *error) {
  const uint8_t *bytes = data;
  struct omma_image_header header = {.width = 0};
  enum omma_status status = omma_image_probe(data, size, limits, &header, error);
  if (status != OMMA_OK) return status;
  bool whole = is_png(bytes, size) ? size >= 45 && !memcmp(bytes + size - 8, "IEND", 4)
                                   : bytes[size - 2] == 0xff && bytes[size - 1] == 0xd9;
  if (!whole) return ommai_fail(error, OMMA_ERROR_FORMAT, "image file is truncated: the data breaks off after %zu bytes", size);
  *image = malloc(sizeof **image);
  if (!*image) return ommai_fail_memory(error, "image", sizeof **image);
  **image = (struct omma_image){header.width, header.height, crc32_of(bytes, size)};
  return OMMA_OK;
}

/* Knows none. */
enum omma_status omma_image_recall(const struct omma_model *model, const void *bytes, size_t size,
                                   const struct omma_image_limits *limits, const struct omma_image_options *options,
                                   struct omma_image **image, struct omma_error *error) {
  (void)model, (void)bytes, (void)size, (void)limits, (void)options, (void)error;
  *image = NULL;
  return OMMA_OK;
}

/* An image is a token, as in requests. */
enum omma_status omma_model_image_sizes(const struct omma_model *model, int32_t width, int32_t height,
                                        const struct omma_image_options *options, struct omma_image_sizes *sizes,
                                        struct omma_error *error) {
  (void)model, (void)options, (void)error;
  *sizes = (struct omma_image_sizes){.width = width, .height = height, .n_tokens = 1};
  return OMMA_OK;
}

enum omma_status omma_model_video_sizes(const struct omma_model *model, int32_t width, int32_t height, size_t n_frames,
                                        const struct omma_image_options *options, struct omma_image_sizes *sizes,
                                        struct omma_error *error) {
  (void)n_frames;
  return omma_model_image_sizes(model, width, height, options, sizes, error);
}

void omma_image_destroy(struct omma_image *image) { free(image); }
int32_t omma_image_width(const struct omma_image *image) { return image->width; }
int32_t omma_image_height(const struct omma_image *image) { return image->height; }

/* ---- text: bytes ---- */

enum omma_status omma_tokenize(const struct omma_model *model, const char *text, size_t text_size, int32_t *tokens,
                               size_t capacity, size_t *n_tokens, struct omma_error *error) {
  (void)model, (void)error;
  for (size_t i = 0; i < text_size && i < capacity; i++) tokens[i] = (unsigned char)text[i];
  *n_tokens = text_size;
  return OMMA_OK;
}

enum omma_status omma_count_tokens(const struct omma_model *model, const char *text, size_t text_size, size_t limit,
                                   size_t *n_tokens, struct omma_error *error) {
  (void)model, (void)text, (void)limit, (void)error;
  *n_tokens = text_size;
  return OMMA_OK;
}

enum omma_status omma_detokenize(const struct omma_model *model, const int32_t *tokens, size_t n_tokens, bool skip_special,
                                 char *text, size_t capacity, size_t *text_size, struct omma_error *error) {
  (void)model, (void)skip_special, (void)error;
  for (size_t i = 0; i < n_tokens && i < capacity; i++) text[i] = (char)tokens[i];
  *text_size = n_tokens;
  return OMMA_OK;
}

/* ---- requests ---- */

enum omma_status omma_reasoning_find(const char *parser, struct omma_reasoning *reasoning, struct omma_error *error) {
  if (strcmp(parser, "angles") != 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "reasoning_parser", "no reasoning parser \"%s\"; there is angles",
                            parser);
  }
  *reasoning = (struct omma_reasoning){"<<", ">>", NULL, NULL};
  return OMMA_OK;
}

static int64_t directive(const char *text, const char *name, int64_t standard) {
  char key[40];
  snprintf(key, sizeof key, "[[%s=", name);
  const char *found = strstr(text, key);
  return found ? strtoll(found + strlen(key), NULL, 10) : standard;
}

static void copy_sampling(struct omma_request *request, const struct omma_sampling *sampling) {
  request->sampling = *sampling;
  for (size_t i = 0; i < sampling->n_stop; i++) request->stop[i] = strdup(sampling->stop[i]);
  for (size_t i = 0; i < sampling->n_stop_token_ids; i++) request->stop_tokens[i] = sampling->stop_token_ids[i];
}

/* What arrived, for tests of the fields' way through the server. */
static void describe(struct omma_request *request) {
  const struct omma_sampling *s = &request->sampling;
  snprintf(request->text, sizeof request->text,
           "t=%g p=%g m=%g k=%" PRId64 " seed=%" PRIu64 " r=%g pp=%g fp=%g min=%" PRId64 " eos=%d%s", s->temperature, s->top_p,
           s->min_p, s->top_k, s->seed, s->repetition_penalty, s->presence_penalty, s->frequency_penalty, s->min_tokens,
           s->ignore_eos, request->shown);
  size_t used = strlen(request->text);
  const struct omma_repetition_detection *detection = &s->repetition_detection;
  if (s->no_repeat_ngram_size || detection->max_pattern_size) {
    used += (size_t)snprintf(request->text + used, sizeof request->text - used,
                             " ngram=%" PRId64 " repeat=%" PRId64 ",%" PRId64 ",%" PRId64, s->no_repeat_ngram_size,
                             detection->max_pattern_size, detection->min_pattern_size, detection->min_count);
  }
  if (s->reasoning) {
    snprintf(request->text + used, sizeof request->text - used, " end=%s budget=%" PRId64,
             s->reasoning->forced_end ? s->reasoning->forced_end : s->reasoning->end,
             s->limits_thinking ? s->max_thinking_tokens : -1);
  }
}

static void describe_prompt(struct omma_request *request, const struct omma_message *messages, size_t n_messages,
                            bool continued) {
  size_t used = (size_t)snprintf(request->shown, sizeof request->shown, " c=%d", continued);
  for (size_t i = 0; i < n_messages; i++) {
    for (size_t j = 0; j < messages[i].n_parts && used < 4096; j++) {
      const struct omma_part *part = &messages[i].parts[j];
      used += (size_t)snprintf(request->shown + used, 200, " role%d:", (int)messages[i].role);
      if (part->image) {
        used += (size_t)snprintf(request->shown + used, 200, "image(%dx%d,%" PRId64 ",%" PRId64 ")", part->image->width,
                                 part->image->height, part->image_options.min_pixels, part->image_options.max_pixels);
      } else if (part->video) {
        used += (size_t)snprintf(request->shown + used, 200, "video(%zux%dx%d,%g,%s)", part->video->n_frames,
                                 part->video->frames[0]->width, part->video->frames[0]->height, part->video->fps,
                                 part->image_name ? part->image_name : "");
      } else {
        used += (size_t)snprintf(request->shown + used, 200, "text(%zu)", part->text_size);
      }
    }
    if (messages[i].fields && used < 4096) {
      used += (size_t)snprintf(request->shown + used, 1000, " role%d+%.900s", (int)messages[i].role, messages[i].fields);
    }
  }
}

/* The answer that is written down for an image. */
static enum omma_status find_answer(const struct omma_model *model, const struct omma_image *image,
                                    struct omma_request *request, struct omma_error *error) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%08" PRIx32, model->answers, image->crc);
  FILE *file = fopen(path, "rb");
  if (!file) {
    snprintf(path, sizeof path, "%s/%dx%d", model->answers, image->width, image->height);
    file = fopen(path, "rb");
  }
  if (!file) {
    snprintf(path, sizeof path, "%s/other", model->answers);
    file = fopen(path, "rb");
  }
  if (!file) return ommai_fail(error, OMMA_ERROR_ARGUMENT, "no answer to this image");
  request->text[fread(request->text, 1, sizeof request->text - 1, file)] = '\0';
  fclose(file);
  return OMMA_OK;
}

static void read_directives(struct omma_request *request, const char *all) {
  request->n_tokens = directive(all, "tokens", -1);
  request->pace_ms = directive(all, "pace_ms", 0);
  request->first_ms = directive(all, "first_ms", 0);
  request->size = directive(all, "size", 0);
  request->error_at = directive(all, "error_at", -1);
  request->die = directive(all, "die", 0);
  request->show = directive(all, "show", 0);
  request->think = directive(all, "think", 0);
  request->progress = directive(all, "progress", 0);
  request->queue = directive(all, "queue", 0);
}

enum omma_status omma_request_create(const struct omma_model *model, const struct omma_message *messages, size_t n_messages,
                                     const struct omma_request_options *options, struct omma_request **request,
                                     struct omma_error *error) {
  enum omma_status status = OMMA_OK;
  const struct omma_image *image = NULL;
  size_t n_prompt = 0, n_all = 0;
  char *all = calloc(1, MAX_TEXT);
  struct omma_request *made = calloc(1, sizeof *made);
  for (size_t i = 0; i < n_messages; i++) {
    for (size_t j = 0; j < messages[i].n_parts; j++) {
      const struct omma_part *part = &messages[i].parts[j];
      const char *text = part->text ? part->text : "";
      bool media = part->image || part->video;
      n_prompt += media ? IMAGE_TOKENS : part->text_size;
      if (part->image) image = part->image;
      if (media || part->text_size >= MAX_TEXT - n_all) continue;
      memcpy(all + n_all, text, part->text_size);
      n_all += part->text_size;
      snprintf(made->text, sizeof made->text, "%.*s", (int)part->text_size, text);
    }
  }
  if (n_prompt + 1 > CONTEXT) {
    status = ommai_fail_field(error, OMMA_ERROR_LIMIT, "input_tokens",
                              "This model's maximum context length is %d tokens. However, your prompt contains at least %zu "
                              "input tokens.",
                              CONTEXT, n_prompt);
  } else if (directive(all, "refuse", 0)) {
    status = ommai_fail(error, (enum omma_status)directive(all, "refuse", 0), "%s: refused", SECRET);
  }
  if (status == OMMA_OK && image && *model->answers) status = find_answer(model, image, made, error);
  read_directives(made, all);
  copy_sampling(made, &options->sampling);
  if (!made->sampling.reasoning) {
    made->think = 0;
  } else if (made->sampling.limits_thinking && made->think > made->sampling.max_thinking_tokens) {
    made->think = made->sampling.max_thinking_tokens;
  }
  if (made->show) {
    describe_prompt(made, messages, n_messages, options->continue_final_message);
    size_t shown = strlen(made->shown);
    if (options->tools) snprintf(made->shown + shown, 1000, " tools=%.900s", options->tools);
    describe(made);
  }
  made->kind = options->kind;
  made->dimensions = options->dimensions;
  made->raw_vectors = options->raw_vectors;
  if (status == OMMA_OK && (made->dimensions < 0 || made->dimensions > FAKE_VECTOR_WIDTH)) {
    status = ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "dimensions", "dimensions: expected 1 to %d, found %" PRId64,
                              FAKE_VECTOR_WIDTH, made->dimensions);
  }
  made->n_prompt = n_prompt;
  made->prompt = calloc(n_prompt + 1, sizeof *made->prompt);
  for (size_t i = 0; i < n_prompt; i++) made->prompt[i] = i < n_all ? (unsigned char)all[i] : 7;
  free(all);
  if (status == OMMA_OK) {
    *request = made;
  } else {
    omma_request_destroy(made);
  }
  return status;
}

enum omma_status omma_count_prompt_tokens(const struct omma_model *model, const struct omma_message *messages,
                                          size_t n_messages, const struct omma_request_options *options, int64_t *n_tokens,
                                          struct omma_error *error) {
  struct omma_request *request;
  enum omma_status status = omma_request_create(model, messages, n_messages, options, &request, error);
  if (status != OMMA_OK) return status;
  *n_tokens = (int64_t)request->n_prompt;
  omma_request_destroy(request);
  return OMMA_OK;
}

enum omma_status omma_request_copy(const struct omma_request *source, const struct omma_sampling *sampling,
                                   struct omma_request **request, struct omma_error *error) {
  struct omma_request *made = malloc(sizeof *made);
  (void)error;
  *made = *source;
  memset(made->stop, 0, sizeof made->stop);
  copy_sampling(made, sampling);
  made->prompt = calloc(made->n_prompt + 1, sizeof *made->prompt);
  memcpy(made->prompt, source->prompt, made->n_prompt * sizeof *made->prompt);
  if (made->show) {
    strcat(made->shown, " copy");
    describe(made);
  }
  *request = made;
  return OMMA_OK;
}

/* A prompt of ids is the text of its bytes. */
enum omma_status omma_request_create_tokens(const struct omma_model *model, const int32_t *tokens, size_t n_tokens,
                                            const struct omma_request_options *options, struct omma_request **request,
                                            struct omma_error *error) {
  if (n_tokens == 0) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "prompt", "prompt: expected at least one token");
  char *text = calloc(n_tokens, 1);
  struct omma_part part = {.text = text, .text_size = n_tokens};
  struct omma_message message = {.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1};
  for (size_t i = 0; i < n_tokens; i++) text[i] = (char)tokens[i];
  enum omma_status status = omma_request_create(model, &message, 1, options, request, error);
  free(text);
  return status;
}

void omma_request_destroy(struct omma_request *request) {
  if (!request) return;
  for (size_t i = 0; i < OMMA_MAX_STOP_STRINGS; i++) free(request->stop[i]);
  free(request->prompt);
  free(request);
}

const int32_t *omma_request_prompt(const struct omma_request *request, size_t *n_tokens) {
  *n_tokens = request->n_prompt;
  return request->prompt;
}

/* ---- engine ---- */

/* The next token's text; false at the end of the answer. */
static bool next_text(struct job *job, char *text, size_t *size) {
  const struct omma_request *request = job->request;
  if (request->n_tokens >= 0) {
    if (job->index >= request->n_tokens) return false;
    *size = (size_t)snprintf(text, MAX_TEXT, "w%" PRId64 " ", job->index);
    while ((int64_t)*size < request->size && *size < MAX_TEXT - 1) text[(*size)++] = 'x';
    return true;
  }
  const char *rest = request->text + job->offset;
  if (!*rest) return false;
  *size = strcspn(rest, " ");
  while (rest[*size] == ' ') ++*size;
  memcpy(text, rest, *size);
  job->offset += *size;
  return true;
}

static void finish(struct omma_engine *engine, struct job *job, enum omma_finish how, const char *stop, int32_t stop_token) {
  struct omma_result result = {.finish = how,
                               .n_prompt_tokens = (int64_t)job->request->n_prompt,
                               .n_completion_tokens = job->index,
                               .n_reasoning_tokens = job->index < job->request->think ? job->index : job->request->think,
                               .stop_token = stop_token,
                               .stop_string = stop};
  if (how == OMMA_FINISH_ERROR) ommai_fail(&result.error, OMMA_ERROR_INTERNAL, "%s: scripted failure", SECRET);
  pthread_mutex_lock(&engine->lock);
  engine->stats.n_finished[how]++;
  engine->stats.n_running--;
  pthread_mutex_unlock(&engine->lock);
  if (job->callbacks.on_finish) job->callbacks.on_finish(job->callbacks.context, &result);
  pthread_mutex_lock(&engine->lock);
  job->used = false;
  pthread_mutex_unlock(&engine->lock);
}

static bool ends_by_token(const struct omma_request *request, int32_t token) {
  for (size_t i = 0; i < request->sampling.n_stop_token_ids; i++) {
    if (request->stop_tokens[i] == token) return true;
  }
  return false;
}

static const char *ends_by_string(const struct omma_request *request, char *text, size_t *size) {
  for (size_t i = 0; i < request->sampling.n_stop; i++) {
    char *found = memmem(text, *size, request->stop[i], strlen(request->stop[i]));
    if (found) {
      *size = (size_t)(found - text);
      return request->stop[i];
    }
  }
  return NULL;
}

static void report_step(const struct job *job, enum omma_stage stage, int64_t done, int64_t total) {
  nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  job->callbacks.on_progress(job->callbacks.context, stage, done, total);
}

static void report_progress(const struct job *job) {
  int64_t total = job->request->progress;
  for (int64_t place = job->request->queue; place > 0; place--) report_step(job, OMMA_STAGE_QUEUED, 0, place);
  for (int64_t i = 0; total && i <= total; i++) report_step(job, OMMA_STAGE_ENCODE, i, total);
}

static void hand_vectors(const struct job *job) {
  const struct omma_request *request = job->request;
  float values[FAKE_VECTOR_WIDTH];
  struct omma_vectors vectors = {.n_rows = 1, .values = values};
  vectors.width =
      fake_vector(request->kind, request->prompt, request->n_prompt, request->dimensions, request->raw_vectors, values);
  job->callbacks.on_vectors(job->callbacks.context, &vectors);
}

/* One token of one job, the callbacks called without the lock. */
static void step(struct omma_engine *engine, struct job *job) {
  static char text[MAX_TEXT], ahead[MAX_TEXT];
  const struct omma_request *request = job->request;
  struct omma_top_logprob top[OMMA_MAX_TOP_LOGPROBS];
  size_t size = 0, ignored;
  if (request->die) {
    pthread_mutex_lock(&engine->lock);
    engine->stats.alive = false;
    pthread_mutex_unlock(&engine->lock);
  }
  if (request->die || job->index == request->error_at) {
    finish(engine, job, OMMA_FINISH_ERROR, NULL, -1);
    return;
  }
  if (job->index == 0 && job->callbacks.on_progress) report_progress(job);
  if (request->kind >= OMMA_REQUEST_EMBED) {
    hand_vectors(job);
    finish(engine, job, OMMA_FINISH_STOP, NULL, -1);
    return;
  }
  if (!next_text(job, text, &size)) size = 0;
  int32_t token = size ? (unsigned char)text[0] : 0;
  const char *stop = ends_by_string(request, text, &size);
  bool by_token = ends_by_token(request, token);
  struct job look = {.request = request, .index = job->index + 1, .offset = job->offset};
  bool over = !next_text(&look, ahead, &ignored);
  bool full = request->sampling.max_tokens && job->index + 1 >= request->sampling.max_tokens;
  bool think = job->index < request->think;
  struct omma_token_event event = {.index = job->index, .token = token, .has_logprob = true, .in_reasoning = think};
  event.text = event.reasoning = text;
  event.text_size = think ? 0 : size;
  event.reasoning_size = think ? size : 0;
  event.logprob = -0.5f;
  event.top = top;
  event.n_top = request->sampling.n_top_logprobs;
  for (int i = 0; i < event.n_top; i++) top[i] = (struct omma_top_logprob){'a' + i, -0.5f * (float)(i + 1)};
  event.last = stop || by_token || over || full;
  event.finish = full && !stop && !by_token ? OMMA_FINISH_LENGTH : OMMA_FINISH_STOP;
  job->index++;
  bool go_on = !job->callbacks.on_token || job->callbacks.on_token(job->callbacks.context, &event);
  if (event.last) {
    finish(engine, job, event.finish, stop, by_token ? token : -1);
  } else if (!go_on) {
    finish(engine, job, OMMA_FINISH_CANCELLED, NULL, -1);
  } else {
    job->due_ns = ommai_clock_ns() + request->pace_ms * 1000000;
  }
}

/* Under the lock: the job that is due first, and how long until then. */
static struct job *next_job(struct omma_engine *engine, int64_t *wait_ns) {
  struct job *first = NULL;
  for (int i = 0; i < MAX_RUNNING; i++) {
    struct job *job = &engine->jobs[i];
    if (!job->used) continue;
    if (job->cancelled) {
      *wait_ns = 0;
      return job;
    }
    if (!first || job->due_ns < first->due_ns) first = job;
  }
  *wait_ns = first ? first->due_ns - ommai_clock_ns() : 1000000000;
  return first;
}

static void *compute(void *context) {
  struct omma_engine *engine = context;
  for (;;) {
    int64_t wait_ns;
    pthread_mutex_lock(&engine->lock);
    struct job *job = next_job(engine, &wait_ns);
    if (!job && engine->stopping) break;
    if (job && engine->stopping) job->cancelled = true;
    if (wait_ns > 0 && !engine->stopping) {
      struct timespec until;
      clock_gettime(CLOCK_MONOTONIC, &until);
      int64_t at = (int64_t)until.tv_sec * 1000000000 + until.tv_nsec + wait_ns;
      until = (struct timespec){.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
      pthread_cond_timedwait(&engine->changed, &engine->lock, &until);
      pthread_mutex_unlock(&engine->lock);
      continue;
    }
    bool cancelled = job && job->cancelled;
    pthread_mutex_unlock(&engine->lock);
    if (cancelled) {
      finish(engine, job, OMMA_FINISH_CANCELLED, NULL, -1);
    } else if (job) {
      step(engine, job);
    }
  }
  pthread_mutex_unlock(&engine->lock);
  return NULL;
}

enum omma_status omma_engine_create(struct omma_model *model, const struct omma_engine_options *options,
                                    struct omma_engine **engine, struct omma_error *error) {
  (void)model, (void)error;
  struct omma_engine *made = calloc(1, sizeof *made);
  pthread_mutex_init(&made->lock, NULL);
  ommai_clock_condition_init(&made->changed);
  made->limit = options && options->queue_limit ? options->queue_limit : MAX_RUNNING;
  made->stats.alive = true;
  made->next_id = 1;
  pthread_create(&made->thread, NULL, compute, made);
  *engine = made;
  return OMMA_OK;
}

void omma_engine_destroy(struct omma_engine *engine) {
  if (!engine) return;
  pthread_mutex_lock(&engine->lock);
  engine->stopping = true;
  pthread_cond_broadcast(&engine->changed);
  pthread_mutex_unlock(&engine->lock);
  pthread_join(engine->thread, NULL);
  pthread_cond_destroy(&engine->changed);
  pthread_mutex_destroy(&engine->lock);
  free(engine);
}

enum omma_status omma_engine_submit(struct omma_engine *engine, const struct omma_request *request,
                                    const struct omma_callbacks *callbacks, uint64_t *id, struct omma_error *error) {
  enum omma_status status = OMMA_OK;
  pthread_mutex_lock(&engine->lock);
  struct job *job = engine->jobs;
  while (job < engine->jobs + MAX_RUNNING && job->used) job++;
  if (!engine->stats.alive) {
    status = ommai_fail(error, OMMA_ERROR_INTERNAL, "%s: the engine is dead", SECRET);
  } else if (fake_is_asleep()) {
    status = ommai_fail_field(error, OMMA_ERROR_BUSY, "asleep", "asleep");
  } else if (job == engine->jobs + MAX_RUNNING || engine->stats.n_running >= engine->limit) {
    status = ommai_fail(error, OMMA_ERROR_BUSY, "queue is full");
  } else {
    *job = (struct job){.request = request, .callbacks = *callbacks, .id = engine->next_id++, .used = true};
    job->due_ns = ommai_clock_ns() + request->first_ms * 1000000;
    engine->stats.n_running++;
    *id = job->id;
    pthread_cond_broadcast(&engine->changed);
  }
  pthread_mutex_unlock(&engine->lock);
  return status;
}

int64_t omma_engine_max_model_len(const struct omma_engine *engine) {
  (void)engine;
  return CONTEXT;
}

void omma_engine_cancel(struct omma_engine *engine, uint64_t id) {
  pthread_mutex_lock(&engine->lock);
  for (int i = 0; i < MAX_RUNNING; i++) {
    if (engine->jobs[i].used && engine->jobs[i].id == id) engine->jobs[i].cancelled = true;
  }
  pthread_cond_broadcast(&engine->changed);
  pthread_mutex_unlock(&engine->lock);
}

void omma_engine_get_stats(const struct omma_engine *engine, struct omma_engine_stats *stats) {
  pthread_mutex_t *lock = (pthread_mutex_t *)&engine->lock;
  pthread_mutex_lock(lock);
  *stats = engine->stats;
  pthread_mutex_unlock(lock);
}

int omma_engine_count(const struct omma_engine *engine) {
  (void)engine;
  return 1;
}

void omma_engine_get_stats_of(const struct omma_engine *engine, int index, struct omma_engine_stats *stats) {
  (void)index;
  omma_engine_get_stats(engine, stats);
}

/* The scripted engine only generates: nothing is ever in these. */

void omma_embeddings_destroy(struct omma_embeddings *embeddings) { (void)embeddings; }

void omma_embeddings_get(const struct omma_embeddings *embeddings, size_t index, struct omma_image_embeddings *out) {
  (void)embeddings, (void)index;
  *out = (struct omma_image_embeddings){0};
}

void omma_embeddings_copy_rows(const struct omma_embeddings *embeddings, size_t index, enum omma_dtype type, void *rows) {
  (void)embeddings, (void)index, (void)type, (void)rows;
}
