/* random and random-mm: prompts of a stated number of tokens, and images of noise. The draws and
 * their order are those of vLLM's client, so that the same seed and tokenizer make the same
 * requests. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/growing.h"
#include "bench_client/data_set.h"
#include "image_out/image_part.h"
#include "bench_client/numpy_random.h"
#include "text/utf8.h"

/* How often a prompt is decoded and encoded again until its tokens keep their number. */
#define MAX_TRIES 10

struct maker {
  const struct ommai_data_settings *settings;
  struct ommai_data_set *set;
  struct omma_error *error;
  struct ommai_numpy_random random;
  int32_t base_size; /* ids below are drawn */
  int32_t *allowed;  /* [base_size], the first n_allowed in use: what prompts are made of */
  size_t n_allowed;
  int64_t *numbers; /* [3][n_requests]: input lengths, output lengths, offsets into `allowed` */
  int32_t *ids;     /* [ids_capacity] */
  size_t ids_capacity;
  int32_t *prefix; /* [prefix_capacity], the first n_prefix in use */
  size_t n_prefix, prefix_capacity;
  char *text; /* [text_capacity] */
  size_t text_capacity;
  uint8_t *pixels; /* [pixels_capacity] */
  size_t pixels_capacity;
};

static bool reserve_ids(struct maker *maker, size_t count, size_t more) {
  return ommai_grow((void **)&maker->ids, &maker->ids_capacity, count, more, sizeof *maker->ids, maker->set->allocator);
}

static bool reserve_text(struct maker *maker, size_t kept, size_t more) {
  return ommai_grow((void **)&maker->text, &maker->text_capacity, kept, more, 1, maker->set->allocator);
}

static enum omma_status out_of_memory(const struct maker *maker) { return ommai_fail_memory(maker->error, "a prompt", 0); }

static enum omma_status find_allowed(struct maker *maker) {
  const struct ommai_tokenizer *tokenizer = maker->settings->tokenizer;
  maker->base_size = ommai_tokenizer_base_size(tokenizer);
  maker->allowed = ommai_allocate(maker->set->allocator, (size_t)maker->base_size, sizeof *maker->allowed);
  if (!maker->allowed) return out_of_memory(maker);
  for (int32_t id = 0; id < maker->base_size; id++) {
    const char *bytes;
    size_t size;
    bool is_special;
    ommai_tokenizer_token_bytes(tokenizer, id, &bytes, &size, &is_special);
    if (!is_special) maker->allowed[maker->n_allowed++] = id;
  }
  if (maker->n_allowed) return OMMA_OK;
  return ommai_fail(maker->error, OMMA_ERROR_ARGUMENT, "the tokenizer has no tokens but special ones");
}

static void draw_lengths(struct maker *maker, const struct ommai_length *length, int64_t min_length, int64_t *out) {
  double mean = (double)length->mean;
  int64_t low = ommai_max_i64((int64_t)floor(mean * (1 - length->ratio)), min_length);
  int64_t high = ommai_max_i64((int64_t)ceil(mean * (1 + length->ratio)), min_length);
  for (int64_t i = 0; i < maker->settings->n_requests; i++) out[i] = ommai_numpy_random_integer(&maker->random, low, high);
}

/* ids[0, n) to text with U+FFFD for what is not UTF-8, as decoders in Python do. *size: bytes in
 * `text`. */
static enum omma_status decode(struct maker *maker, size_t n, size_t *size) {
  const struct ommai_tokenizer *tokenizer = maker->settings->tokenizer;
  size_t raw;
  OMMAI_TRY(ommai_tokenizer_decode(tokenizer, maker->ids, n, false, NULL, 0, &raw, maker->error));
  /* After the result, which is up to three times as long, stand the bytes it is made from. */
  if (!reserve_text(maker, 0, 4 * raw + 1)) return out_of_memory(maker);
  char *bytes = maker->text + 3 * raw;
  OMMAI_TRY(ommai_tokenizer_decode(tokenizer, maker->ids, n, false, bytes, raw, &raw, maker->error));
  *size = ommai_utf8_replace(bytes, raw, maker->text, 3 * raw);
  return OMMA_OK;
}

/* Makes text out of ids[0, *n) that has `wanted` tokens when encoded: cuts it, or adds random ids.
 * Some tokenizers never give the number; then *n differs from it in the end. */
static enum omma_status settle(struct maker *maker, size_t *n, size_t wanted, size_t *size) {
  const struct ommai_tokenizer *tokenizer = maker->settings->tokenizer;
  for (int tries = MAX_TRIES;; tries--) {
    OMMAI_TRY(decode(maker, *n, size));
    if (!reserve_ids(maker, 0, 3 * *size + wanted)) return out_of_memory(maker);
    OMMAI_TRY(ommai_tokenizer_encode(tokenizer, maker->text, *size, true, maker->ids, maker->ids_capacity, n, maker->error));
    if (tries <= 0 || *n == wanted) return OMMA_OK;
    while (*n < wanted) {
      maker->ids[(*n)++] = (int32_t)ommai_numpy_random_integer(&maker->random, 0, maker->base_size - 1);
    }
    *n = wanted;
  }
}

static enum omma_status make_prefix(struct maker *maker) {
  size_t n = (size_t)maker->settings->prefix_len, size;
  if (n == 0) return OMMA_OK;
  if (!reserve_ids(maker, 0, n)) return out_of_memory(maker);
  for (size_t i = 0; i < n; i++) {
    maker->ids[i] = maker->allowed[ommai_numpy_random_integer(&maker->random, 0, (int64_t)maker->n_allowed - 1)];
  }
  size_t settled = n;
  OMMAI_TRY(settle(maker, &settled, n, &size));
  if (!ommai_grow((void **)&maker->prefix, &maker->prefix_capacity, 0, settled, sizeof *maker->prefix, maker->set->allocator)) {
    return out_of_memory(maker);
  }
  memcpy(maker->prefix, maker->ids, settled * sizeof *maker->prefix);
  maker->n_prefix = settled;
  return OMMA_OK;
}

/* The prompt of request `index` into `text`; *n gets its tokens. */
static enum omma_status make_prompt(struct maker *maker, size_t index, size_t *n, size_t *size) {
  size_t n_requests = (size_t)maker->settings->n_requests, length = (size_t)maker->numbers[index];
  size_t offset = (size_t)maker->numbers[2 * n_requests + index];
  *n = maker->n_prefix + length;
  if (!reserve_ids(maker, 0, *n)) return out_of_memory(maker);
  if (maker->n_prefix) memcpy(maker->ids, maker->prefix, maker->n_prefix * sizeof *maker->ids);
  for (size_t i = 0; i < length; i++) {
    maker->ids[maker->n_prefix + i] = maker->allowed[(offset + index + i) % maker->n_allowed];
  }
  return settle(maker, n, (size_t)maker->settings->prefix_len + length, size);
}

static enum omma_status add_image(struct maker *maker, json_t *media) {
  const struct ommai_data_settings *settings = maker->settings;
  double weights[OMMAI_MAX_IMAGE_BUCKETS];
  for (size_t i = 0; i < settings->n_buckets; i++) weights[i] = settings->buckets[i].weight;
  const struct ommai_image_bucket *bucket =
      &settings->buckets[ommai_numpy_random_choice(&maker->random, weights, settings->n_buckets)];
  size_t size = (size_t)bucket->height * (size_t)bucket->width * 3;
  if (!ommai_grow((void **)&maker->pixels, &maker->pixels_capacity, 0, size, 1, maker->set->allocator)) {
    return ommai_fail_memory(maker->error, "an image", size);
  }
  ommai_numpy_random_bytes(&maker->random, maker->pixels, size);
  json_t *part;
  OMMAI_TRY(
      ommai_image_part_from_pixels(maker->pixels, bucket->width, bucket->height, maker->set->allocator, &part, maker->error));
  return json_array_append_new(media, part) == 0 ? OMMA_OK : out_of_memory(maker);
}

static enum omma_status add_images(struct maker *maker, json_t *media) {
  const struct ommai_data_settings *settings = maker->settings;
  double mean = (double)settings->images;
  int64_t low = (int64_t)floor(mean * (1 - settings->images_ratio));
  int64_t high = ommai_min_i64(settings->image_limit, (int64_t)ceil(mean * (1 + settings->images_ratio)));
  if (low > high) {
    return ommai_fail(maker->error, OMMA_ERROR_ARGUMENT, "random-mm: %lld images per request at least, but %lld at most",
                      (long long)low, (long long)high);
  }
  int64_t n = ommai_numpy_random_integer(&maker->random, low, high);
  for (int64_t i = 0; i < n; i++) OMMAI_TRY(add_image(maker, media));
  return OMMA_OK;
}

/* The prompt in `text` as JSON, cut by the server where it counts more tokens. */
static enum omma_status take_prompt(struct maker *maker, size_t n_tokens, size_t size, json_t **prompt) {
  struct ommai_server_tokenizer *server = maker->settings->server_tokenizer;
  char *cut = NULL;
  size_t cut_size = 0;
  if (server) OMMAI_TRY(ommai_server_tokenizer_cut(server, maker->text, size, n_tokens, &cut, &cut_size, maker->error));
  *prompt = cut ? json_stringn(cut, cut_size) : json_stringn(maker->text, size);
  if (cut) ommai_release(server->allocator, cut, cut_size + 1, 1);
  return *prompt ? OMMA_OK : out_of_memory(maker);
}

static enum omma_status add_request(struct maker *maker, size_t index) {
  bool images = maker->settings->kind == OMMAI_DATA_RANDOM_MM;
  size_t n_tokens, size;
  json_t *prompt;
  OMMAI_TRY(make_prompt(maker, index, &n_tokens, &size));
  OMMAI_TRY(take_prompt(maker, n_tokens, size, &prompt));
  json_t *media = images ? json_array() : NULL;
  enum omma_status status = media || !images ? OMMA_OK : out_of_memory(maker);
  if (status == OMMA_OK && images) status = add_images(maker, media);
  if (status == OMMA_OK) {
    status = ommai_data_set_add(maker->set, prompt, media, NULL, (int64_t)n_tokens,
                                maker->numbers[(size_t)maker->settings->n_requests + index], maker->error);
  }
  json_decref(prompt);
  json_decref(media);
  return status;
}

static enum omma_status make_all(struct maker *maker) {
  const struct ommai_data_settings *settings = maker->settings;
  size_t n = (size_t)settings->n_requests;
  int64_t shortest = settings->prefix_len + (int64_t)floor((double)settings->input.mean * (1 - settings->input.ratio));
  if (settings->kind == OMMAI_DATA_RANDOM && shortest < 1) {
    return ommai_fail(maker->error, OMMA_ERROR_ARGUMENT, "random prompts may come out empty: raise --random-input-len (%lld)",
                      (long long)settings->input.mean);
  }
  OMMAI_TRY(find_allowed(maker));
  ommai_numpy_random_init(&maker->random, settings->seed);
  draw_lengths(maker, &settings->input, 0, maker->numbers);
  draw_lengths(maker, &settings->output, 1, maker->numbers + n);
  for (size_t i = 0; i < n; i++) {
    maker->numbers[2 * n + i] = ommai_numpy_random_integer(&maker->random, 0, maker->base_size - 1);
  }
  OMMAI_TRY(make_prefix(maker));
  for (size_t i = 0; i < n; i++) OMMAI_TRY(add_request(maker, i));
  return OMMA_OK;
}

enum omma_status ommai_data_random(const struct ommai_data_settings *settings, struct ommai_data_set *set,
                                   struct omma_error *error) {
  const struct omma_allocator *allocator = set->allocator;
  struct maker maker = {.settings = settings, .set = set, .error = error};
  size_t n = (size_t)settings->n_requests;
  maker.numbers = ommai_allocate(allocator, n, 3 * sizeof *maker.numbers);
  enum omma_status status = maker.numbers ? make_all(&maker) : out_of_memory(&maker);
  ommai_release(allocator, maker.pixels, maker.pixels_capacity, 1);
  ommai_release(allocator, maker.text, maker.text_capacity, 1);
  ommai_release(allocator, maker.prefix, maker.prefix_capacity, sizeof *maker.prefix);
  ommai_release(allocator, maker.ids, maker.ids_capacity, sizeof *maker.ids);
  ommai_release(allocator, maker.numbers, n, 3 * sizeof *maker.numbers);
  ommai_release(allocator, maker.allowed, (size_t)maker.base_size, sizeof *maker.allowed);
  return status;
}
