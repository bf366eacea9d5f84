#include "cli/model/bench_inputs.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/half.h"
#include "cli/core/diagnostics.h"
#include "cli/core/options.h"

#define MAX_FILE_BYTES ((size_t)64 << 20)
#define MAX_ENTRY 48
static const char separators[] = ", \t\r\n";

/* One entry of the list: `length` tokens, `count` times. */
static bool parse_entry(const char *entry, int64_t *length, int64_t *count) {
  char first[MAX_ENTRY];
  const char *x = strchr(entry, 'x');
  *count = 1;
  snprintf(first, sizeof first, "%.*s", (int)(x ? (size_t)(x - entry) : strlen(entry)), entry);
  return ommai_parse_integer(first, false, length) && *length >= 0 && *length < OMMA_ATTENTION_MAX_TOKENS &&
         (!x || (ommai_parse_integer(x + 1, false, count) && *count >= 1 && *count <= OMMA_ATTENTION_MAX_SEGMENTS));
}

/* Goes over the entries; with `segments->borders` it also stores them. */
static int read_entries(const char *text, const char *where, struct ommai_segments *segments) {
  int64_t n_tokens = 0;
  segments->count = 0;
  for (text += strspn(text, separators); *text; text += strspn(text, separators)) {
    char entry[MAX_ENTRY];
    int64_t length, count;
    size_t size = strcspn(text, separators);
    snprintf(entry, sizeof entry, "%.*s", (int)(size < sizeof entry ? size : sizeof entry), text);
    if (size >= sizeof entry || !parse_entry(entry, &length, &count)) {
      return ommai_usage_error("bench attention: --segments %.60s: '%s' is not a length: entries are N or NxCOUNT", where,
                               entry);
    }
    if ((int64_t)segments->count + count > OMMA_ATTENTION_MAX_SEGMENTS ||
        n_tokens + length * count > OMMA_ATTENTION_MAX_TOKENS) {
      return ommai_usage_error("bench attention: --segments %.60s: more than %lld segments or %lld tokens", where,
                               (long long)OMMA_ATTENTION_MAX_SEGMENTS, (long long)OMMA_ATTENTION_MAX_TOKENS);
    }
    for (int64_t i = 0; i < count; i++) {
      n_tokens += length;
      segments->count++;
      if (segments->borders) segments->borders[segments->count] = n_tokens;
    }
    text += size;
  }
  if (n_tokens > 0) return OMMAI_EXIT_DONE;
  return ommai_usage_error("bench attention: --segments %.60s: no tokens in it", where);
}

static int parse_text(const char *text, const char *where, struct ommai_segments *segments) {
  OMMAI_TRY_CODE(read_entries(text, where, segments));
  segments->capacity = segments->count + 1;
  segments->borders = ommai_allocate(&ommai_default_allocator, segments->capacity, sizeof *segments->borders);
  if (!segments->borders) return ommai_failed("bench attention: out of memory: %zu segments", segments->count);
  return read_entries(text, where, segments);
}

int ommai_segments_parse(const char *text, struct ommai_segments *segments) {
  *segments = (struct ommai_segments){0};
  if (!text[strspn(text, "0123456789x,")]) return parse_text(text, text, segments);
  struct omma_error error;
  char *data;
  size_t size;
  if (ommai_file_read(text, MAX_FILE_BYTES, &ommai_default_allocator, &data, &size, &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  int code = parse_text(data, text, segments);
  ommai_release(&ommai_default_allocator, data, size + 1, 1);
  return code;
}

void ommai_segments_release(struct ommai_segments *segments) {
  ommai_release(&ommai_default_allocator, segments->borders, segments->capacity, sizeof *segments->borders);
  *segments = (struct ommai_segments){0};
}

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* The sum of four uniform numbers, scaled to variance 1. */
static float next_value(uint64_t *state) {
  uint64_t bits = next_random(state);
  int64_t sum =
      (int64_t)(bits & 0xffff) + (int64_t)(bits >> 16 & 0xffff) + (int64_t)(bits >> 32 & 0xffff) + (int64_t)(bits >> 48);
  return (float)(sum - 2 * 0xffff) * (1.7320508f / 65536.0f);
}

static void fill(void *data, size_t count, enum omma_dtype dtype, uint64_t *state) {
  for (size_t i = 0; i < count; i++) {
    float value = next_value(state);
    switch (dtype) {
      case OMMA_F32: ((float *)data)[i] = value; break;
      case OMMA_BF16: ((ommai_bf16 *)data)[i] = ommai_bf16_from_f32(value); break;
      case OMMA_F16: ((ommai_f16 *)data)[i] = ommai_f16_from_f32(value); break;
      case OMMA_INT8: break; /* of keys and values with scales alone, which no input is */
    }
  }
}

int ommai_attention_inputs_create(int64_t n_tokens, int64_t heads, int64_t kv_heads, int64_t head_dim, enum omma_dtype dtype,
                                  uint64_t seed, struct ommai_attention_inputs *inputs) {
  size_t element = dtype == OMMA_F32 ? sizeof(float) : sizeof(uint16_t);
  size_t q_row = (size_t)(heads * head_dim), kv_row = (size_t)(kv_heads * head_dim), fused_row = q_row + 2 * kv_row;
  size_t row = 2 * q_row + kv_row + fused_row, total;
  *inputs = (struct ommai_attention_inputs){0};
  if (!ommai_mul_size((size_t)n_tokens, row, &total)) return ommai_failed("bench attention: the tensors are too large");
  inputs->memory = ommai_allocate(&ommai_default_allocator, total, element);
  if (!inputs->memory) return ommai_failed("bench attention: out of memory: tensors of %zu elements", total);
  inputs->size = total * element;
  uint64_t state = seed;
  size_t n = (size_t)n_tokens;
  fill(inputs->memory, n * (q_row + kv_row + fused_row), dtype, &state);
  char *k = (char *)inputs->memory + n * q_row * element, *fused = k + n * kv_row * element;
  inputs->tensors = (struct omma_attention_tensors){.q = inputs->memory,
                                                    .k = k,
                                                    .v = fused + (q_row + kv_row) * element,
                                                    .v_token_stride = (int64_t)fused_row,
                                                    .v_head_stride = head_dim,
                                                    .out = fused + n * fused_row * element};
  return OMMAI_EXIT_DONE;
}

void ommai_attention_inputs_release(struct ommai_attention_inputs *inputs) {
  ommai_release(&ommai_default_allocator, inputs->memory, inputs->size, 1);
  *inputs = (struct ommai_attention_inputs){0};
}

int ommai_noise_image(int32_t width, int32_t height, uint64_t seed, struct omma_image **image) {
  size_t count;
  if (!ommai_mul_size((size_t)width, (size_t)height, &count) || !ommai_mul_size(count, 3, &count)) {
    return ommai_failed("bench: an image of %d x %d is too large", (int)width, (int)height);
  }
  uint8_t *pixels = ommai_allocate(&ommai_default_allocator, count, 1);
  if (!pixels) return ommai_failed("bench: out of memory: an image of %zu bytes", count);
  for (size_t i = 0; i < count; i++) pixels[i] = (uint8_t)(next_random(&seed) >> 56);
  struct omma_error error;
  enum omma_status status = omma_image_from_rgb(width, height, pixels, image, &error);
  ommai_release(&ommai_default_allocator, pixels, count, 1);
  return status == OMMA_OK ? OMMAI_EXIT_DONE : ommai_failed_call(&error);
}

/* The ids that have a text and are not markers, into texts [vocab_size]; returns how many. */
static size_t find_texts(const struct omma_model *model, int32_t vocab_size, int32_t *texts) {
  size_t n = 0;
  for (int32_t id = 0; id < vocab_size; id++) {
    size_t size = 0;
    if (omma_detokenize(model, &id, 1, true, NULL, 0, &size, NULL) == OMMA_OK && size > 0) texts[n++] = id;
  }
  return n;
}

int ommai_random_tokens(const struct omma_model *model, uint64_t seed, int32_t *tokens, size_t n) {
  struct omma_model_info info;
  omma_model_get_info(model, &info);
  size_t vocab_size = (size_t)info.vocab_size;
  int32_t *texts = ommai_allocate(&ommai_default_allocator, vocab_size, sizeof *texts);
  if (!texts) return ommai_failed("bench: out of memory: %zu tokens", vocab_size);
  size_t n_texts = find_texts(model, (int32_t)info.vocab_size, texts);
  for (size_t i = 0; i < n && n_texts > 0; i++) tokens[i] = texts[next_random(&seed) % n_texts];
  ommai_release(&ommai_default_allocator, texts, vocab_size, sizeof *texts);
  return n_texts > 0 ? OMMAI_EXIT_DONE : ommai_failed("bench: %s: no token has a text", info.directory);
}

/* ---- answers ---- */

struct asked {
  const struct omma_callbacks *callbacks; /* the caller's */
  pthread_mutex_t lock;                   /* of the following */
  pthread_cond_t ended;
  int64_t n_open;
  struct omma_error error;
};

static bool on_token(void *context, const struct omma_token_event *event) {
  const struct omma_callbacks *callbacks = ((const struct asked *)context)->callbacks;
  return callbacks->on_token(callbacks->context, event);
}

static void end_one(struct asked *asked, const struct omma_error *error) {
  pthread_mutex_lock(&asked->lock);
  if (error) asked->error = *error;
  asked->n_open--;
  pthread_cond_signal(&asked->ended);
  pthread_mutex_unlock(&asked->lock);
}

static void on_finish(void *context, const struct omma_result *result) {
  struct asked *asked = context;
  if (asked->callbacks->on_finish) asked->callbacks->on_finish(asked->callbacks->context, result);
  end_one(asked, result->finish == OMMA_FINISH_ERROR ? &result->error : NULL);
}

enum omma_status ommai_ask_together(struct omma_engine *engine, const struct omma_request *request, int64_t n,
                                    const struct omma_callbacks *callbacks, struct omma_error *error) {
  struct asked asked = {.callbacks = callbacks, .n_open = n};
  const struct omma_callbacks own = {.context = &asked, .on_token = on_token, .on_finish = on_finish};
  enum omma_status status = OMMA_OK;
  struct omma_error cause;
  pthread_mutex_init(&asked.lock, NULL);
  pthread_cond_init(&asked.ended, NULL);
  for (int64_t i = 0; i < n; i++) {
    if (status == OMMA_OK) status = omma_engine_submit(engine, request, &own, NULL, &cause);
    if (status != OMMA_OK) end_one(&asked, &cause);
  }
  pthread_mutex_lock(&asked.lock);
  while (asked.n_open) pthread_cond_wait(&asked.ended, &asked.lock);
  pthread_mutex_unlock(&asked.lock);
  pthread_mutex_destroy(&asked.lock);
  pthread_cond_destroy(&asked.ended);
  *error = asked.error;
  return asked.error.status;
}
