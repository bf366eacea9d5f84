/* From messages to a request: check -> chat template -> images sized -> text between them counted
 * -> images and videos resized -> tokens and positions; or from ids. */
#include "request/request_make.h"

#include <string.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/plural.h"
#include "base/sized.h"
#include "families/template_prompt.h"
#include "model/image_prepare.h"
#include "model/image_sizes.h"
#include "model/model_open.h"
#include "request/prefix_key.h"
#include "request/prompt_positions.h"
#include "request/vectors.h"
#include "text/utf8.h"

/* Bytes of a text up to which it is encoded before it is known to fit. */
#define ENCODED_AT_ONCE ((size_t)16 << 10)

static enum omma_status check_part(const struct omma_model *model, const struct omma_part *part, struct omma_error *error) {
  if (part->image && part->video) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "messages", "both image and video");
  }
  if (part->video) return ommai_check_video(model, part->video, error);
  if (part->image) return OMMA_OK;
  if (part->text_size == 0 && part->text && *part->text) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "messages", "a text without text_size, the number of its bytes");
  }
  if (part->text_size == 0) return OMMA_OK;
  if (!part->text) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "messages", "neither text nor image");
  size_t offset;
  if (ommai_utf8_valid(part->text, part->text_size, &offset)) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, "messages", "invalid UTF-8 at byte %zu", offset);
}

static enum omma_status check_messages(const struct omma_model *model, const struct omma_message *messages, size_t n_messages,
                                       struct omma_error *error) {
  if (n_messages == 0) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "messages", "messages: expected at least one");
  for (size_t i = 0; i < n_messages; i++) {
    if (messages[i].role < OMMA_ROLE_SYSTEM || messages[i].role > OMMA_ROLE_TOOL) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "messages", "messages[%zu]: unknown role %d", i,
                              (int)messages[i].role);
    }
    for (size_t j = 0; j < messages[i].n_parts; j++) {
      enum omma_status status = check_part(model, &messages[i].parts[j], error);
      if (status == OMMA_OK) continue;
      ommai_error_prefix(error, "messages[%zu]: part %zu", i, j);
      return status;
    }
  }
  return OMMA_OK;
}

static enum omma_status fail_too_long(const struct omma_model *model, size_t n_tokens, struct omma_error *error) {
  return ommai_fail_field(error, OMMA_ERROR_LIMIT, "input_tokens",
                          "This model's maximum context length is %lld tokens. However, your prompt contains at least %zu "
                          "input tokens. Please reduce the length of the input prompt",
                          (long long)model->max_model_len, n_tokens);
}

/* Whether the model's context, and that of the engine that is to take the request, hold the whole
 * prompt. */
static enum omma_status check_length(const struct omma_model *model, const struct omma_request_options *options,
                                     size_t n_tokens, struct omma_error *error) {
  if (n_tokens >= (size_t)model->max_model_len) return fail_too_long(model, n_tokens, error);
  return options->max_model_len ? ommai_request_check_context(options->max_model_len, n_tokens, error) : OMMA_OK;
}

/* The next image or video from run *at on, which moves after it; NULL after the last. */
static const struct omma_part *next_part(const struct ommai_prompt_builder *prompt, size_t *at) {
  while (*at < prompt->n_images) {
    const struct ommai_prompt_image *run = &prompt->images[(*at)++];
    if (run->temporal_patch <= 0) return run->part;
  }
  return NULL;
}

static enum omma_status allocate_images(struct omma_request *request, size_t n, struct omma_error *error) {
  request->images = ommai_allocate(&request->allocator, n, sizeof *request->images);
  request->keys = ommai_allocate(&request->allocator, n, sizeof *request->keys);
  request->n_images = n;
  if (request->images && request->keys) return OMMA_OK;
  return ommai_fail_memory(error, "images", n * sizeof *request->images);
}

static enum omma_status take_images(struct omma_request *request, const struct ommai_prompt_builder *prompt,
                                    struct omma_error *error) {
  size_t n = 0;
  for (size_t at = 0; next_part(prompt, &at);) n++;
  if (n > OMMAI_REQUEST_MAX_IMAGES) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image", "image: at most %d images in a request, found %zu",
                            OMMAI_REQUEST_MAX_IMAGES, n);
  }
  return allocate_images(request, n, error);
}

static enum omma_status size_part(const struct omma_model *model, const struct omma_part *part,
                                  struct ommai_prepared_image *image, struct omma_error *error) {
  const struct omma_image *first = part->video ? part->video->frames[0] : part->image;
  int32_t width = omma_image_width(first), height = omma_image_height(first);
  if (!part->video) return ommai_size_image(model, width, height, &part->image_options, image, error);
  return ommai_size_video(model, width, height, part->video->n_frames, &part->image_options, image, error);
}

static enum omma_status prepare_part(const struct omma_model *model, const struct omma_part *part,
                                     struct ommai_prepared_image *image, struct omma_error *error) {
  if (part->video) return ommai_prepare_video(model, part->video, image, error);
  return ommai_prepare_image(model, part->image, image, error);
}

static enum omma_status fail_part(const struct omma_part *part, size_t index, enum omma_status status,
                                  struct omma_error *error) {
  ommai_error_prefix(error, "%s %zu", part->video ? "video" : "image", index + 1);
  return status;
}

static int64_t resized_pixels(const struct ommai_prepared_image *image) {
  return (int64_t)image->sizes.resized_width * image->sizes.resized_height * image->n_frames;
}

/* What they become; a prompt that they make too long is refused before anything is resized. */
static enum omma_status size_images(struct omma_request *request, const struct ommai_prompt_builder *prompt,
                                    struct omma_error *error) {
  const struct omma_part *part;
  size_t n_tokens = 0;
  int64_t n_pixels = 0;
  for (size_t at = 0, index = 0; (part = next_part(prompt, &at)); index++) {
    struct ommai_prepared_image *image = &request->images[index];
    enum omma_status status = size_part(request->model, part, image, error);
    if (status != OMMA_OK) return fail_part(part, index, status, error);
    n_tokens += (size_t)image->sizes.n_tokens;
    n_pixels += resized_pixels(image);
  }
  if (n_pixels > OMMAI_REQUEST_MAX_RESIZED_PIXELS) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image",
                            "the images and frames of a request may have at most %lld pixels together after the resize, "
                            "found %lld: lower min_pixels or max_pixels",
                            (long long)OMMAI_REQUEST_MAX_RESIZED_PIXELS, (long long)n_pixels);
  }
  return n_tokens < (size_t)request->model->max_model_len ? OMMA_OK : fail_too_long(request->model, n_tokens, error);
}

static enum omma_status prepare_images(struct omma_request *request, const struct ommai_prompt_builder *prompt,
                                       struct omma_error *error) {
  int64_t start = ommai_clock_ns();
  const struct omma_part *part;
  for (size_t at = 0, index = 0; (part = next_part(prompt, &at)); index++) {
    enum omma_status status = prepare_part(request->model, part, &request->images[index], error);
    if (status != OMMA_OK) return fail_part(part, index, status, error);
    request->keys[index] = ommai_prepared_image_key(&request->images[index], part->image_name, part->image_name_suffices);
  }
  if (request->n_images) request->preprocess_seconds = (double)(ommai_clock_ns() - start) * 1e-9;
  return OMMA_OK;
}

/* The text before image `index` (or after the last one) is [*begin, the result). */
static size_t piece_end(const struct ommai_prompt_builder *prompt, size_t index, size_t *begin) {
  *begin = index ? prompt->images[index - 1].at : 0;
  return index < prompt->n_images ? prompt->images[index].at : prompt->size;
}

/* Ids of one piece of text, into ids. */
static enum omma_status encode_piece(const struct omma_request *request, const struct ommai_prompt_builder *prompt,
                                     size_t index, int32_t *ids, size_t capacity, size_t *count, struct omma_error *error) {
  size_t begin, end = piece_end(prompt, index, &begin);
  *count = request->n_text_ids;
  if (request->text_ids) memcpy(ids, request->text_ids, request->n_text_ids * sizeof *ids);
  if (end == begin || request->text_ids) return OMMA_OK;
  enum omma_status status =
      ommai_tokenizer_encode(request->model->tokenizer, prompt->text + begin, end - begin, true, ids, capacity, count, error);
  if (status != OMMA_OK) ommai_error_prefix(error, "messages");
  return status;
}

static bool is_too_long(const struct omma_truncation *truncation, size_t n_tokens) {
  return truncation->n_tokens > 0 && n_tokens > (size_t)truncation->n_tokens;
}

/* Whether a prompt may be cut that is too long. */
static enum omma_status check_cut(const struct omma_request *request, const struct omma_truncation *truncation, size_t n_tokens,
                                  struct omma_error *error) {
  static const char FIELD[] = "truncate_prompt_tokens";
  if (request->n_images && !ommai_request_reads(request)) {
    return ommai_fail_field(
        error, OMMA_ERROR_ARGUMENT, FIELD,
        "%s: a prompt with images is not cut, and this one has at least %zu tokens, which is more than %lld", FIELD, n_tokens,
        (long long)truncation->n_tokens);
  }
  if (n_tokens < (size_t)OMMA_MAX_TRUNCATED_TOKENS) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_LIMIT, FIELD, "%s: at most %lld tokens of a prompt are looked at", FIELD,
                          (long long)OMMA_MAX_TRUNCATED_TOKENS);
}

/* A short text is encoded at once, which counts its tokens too. */
static enum omma_status encode_text(struct omma_request *request, const struct ommai_prompt_builder *prompt, size_t *total,
                                    struct omma_error *error) {
  size_t room = 3 * prompt->size; /* more than there can be */
  request->text_ids = ommai_allocate_uninitialised(&request->allocator, room, sizeof *request->text_ids);
  if (!request->text_ids) return ommai_fail_memory(error, "prompt", room * sizeof *request->text_ids);
  request->text_room = room;
  enum omma_status status = ommai_tokenizer_encode(request->model->tokenizer, prompt->text, prompt->size, true,
                                                   request->text_ids, room, &request->n_text_ids, error);
  if (status != OMMA_OK) ommai_error_prefix(error, "messages");
  *total = request->n_text_ids;
  return status;
}

/* A prompt that does not fit is counted no further than that takes: its text may be much longer
 * than the context. */
static enum omma_status count_tokens(struct omma_request *request, const struct ommai_prompt_builder *prompt,
                                     const struct omma_request_options *options, struct omma_error *error) {
  bool cuts = options->truncation.n_tokens > 0;
  size_t total = 0, count, limit = cuts ? (size_t)OMMA_MAX_TRUNCATED_TOKENS : (size_t)request->model->max_model_len;
  bool at_once = prompt->n_images == 0 && prompt->size <= ENCODED_AT_ONCE;
  if (at_once) OMMAI_TRY(encode_text(request, prompt, &total, error));
  for (size_t i = 0; i < request->n_images; i++) total += (size_t)request->images[i].sizes.n_tokens;
  for (size_t i = 0; i <= prompt->n_images && total < limit && !at_once; i++) {
    size_t begin, end = piece_end(prompt, i, &begin);
    enum omma_status status =
        ommai_tokenizer_count(request->model->tokenizer, prompt->text + begin, end - begin, limit - total, &count, error);
    if (status != OMMA_OK) ommai_error_prefix(error, "messages");
    OMMAI_TRY(status);
    total += count;
  }
  request->n_tokens = total;
  if (is_too_long(&options->truncation, total)) return check_cut(request, &options->truncation, total, error);
  return check_length(request->model, options, total, error);
}

/* The time position of a video's temporal patch. */
static int32_t time_of(const struct ommai_model_config *config, const struct omma_video *video, int64_t temporal_patch) {
  double seconds = (double)config->vision.temporal_patch_size / ommai_video_fps(video);
  if (config->video.time_by_temporal_patch) return (int32_t)temporal_patch;
  return ommai_position_time(temporal_patch, seconds, config->video.tokens_per_second);
}

/* Places a run of an image's or video's tokens from token `first` on; returns how many. */
static size_t place_run(struct omma_request *request, const struct ommai_prompt_image *run, size_t index, size_t first,
                        int32_t *counter) {
  const struct omma_image_sizes *sizes = &request->images[index].sizes;
  const struct ommai_model_config *config = &request->model->config;
  const struct omma_video *video = run->part->video;
  int64_t merge = config->vision.merge_size, columns = sizes->grid_thw[2] / merge, rows = sizes->grid_thw[1] / merge;
  int64_t area = rows * columns, begin = run->temporal_patch > 0 ? run->temporal_patch * area : 0;
  int64_t count = run->temporal_patch == OMMAI_ALL_TEMPORAL_PATCHES ? sizes->n_tokens : area;
  for (int64_t i = 0; i < count; i++) {
    struct ommai_prompt_token *token = &request->tokens[first + (size_t)i];
    *token = (struct ommai_prompt_token){
        .token = video ? config->video.token : config->image_token, .image = (int32_t)index, .image_row = (int32_t)(begin + i)};
    if (config->text.rope_1d) {
      ommai_position_text(counter, token->position);
    } else {
      int32_t time = video ? time_of(config, video, i / area) : 0;
      ommai_position_image(*counter, time, i % area / columns, i % columns, token->position);
    }
    request->ids[first + (size_t)i] = token->token;
  }
  if (!config->text.rope_1d) ommai_position_after_image(counter, rows, columns);
  return (size_t)count;
}

static enum omma_status place_tokens(struct omma_request *request, const struct ommai_prompt_builder *prompt,
                                     struct omma_error *error) {
  int32_t counter = 0;
  size_t at = 0, n_placed = 0, count;
  for (size_t i = 0; i <= prompt->n_images; i++) {
    OMMAI_TRY(encode_piece(request, prompt, i, request->ids + at, request->n_tokens - at, &count, error));
    for (size_t j = at; j < at + count; j++) {
      request->tokens[j] = (struct ommai_prompt_token){.token = request->ids[j], .image = -1};
      ommai_position_text(&counter, request->tokens[j].position);
    }
    at += count;
    if (i == prompt->n_images) break;
    n_placed += prompt->images[i].temporal_patch <= 0;
    at += place_run(request, &prompt->images[i], n_placed - 1, at, &counter);
  }
  request->next_position = counter;
  return OMMA_OK;
}

static enum omma_status take_salt(struct omma_request *request, const char *salt, struct omma_error *error) {
  if (!salt) return OMMA_OK;
  request->cache_salt = ommai_duplicate(&request->allocator, salt, strlen(salt));
  return request->cache_salt ? OMMA_OK : ommai_fail_memory(error, "cache_salt", strlen(salt));
}

/* The salt is copied: the events of kept pages carry it too. */
static enum omma_status name_pages(struct omma_request *request, const char *salt, struct omma_error *error) {
  OMMAI_TRY(take_salt(request, salt, error));
  ommai_prefix_keys(request->tokens, request->n_tokens, request->keys, request->cache_salt, request->page_keys);
  return OMMA_OK;
}

/* All that is known from the text and the sizes of images. */
static enum omma_status measure(struct omma_request *request, const struct ommai_prompt_builder *prompt,
                                const struct omma_request_options *options, struct omma_error *error) {
  OMMAI_TRY(take_images(request, prompt, error));
  OMMAI_TRY(size_images(request, prompt, error));
  return count_tokens(request, prompt, options, error);
}

/* Without a token there is no row whose state could be read. */
static enum omma_status fail_empty(struct omma_error *error) {
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "prompt", "prompt: expected at least one token");
}

/* Ids as they came, each at its own position; a prompt that is too long is cut. */
static enum omma_status take_tokens(struct omma_request *request, const int32_t *tokens, size_t n_tokens,
                                    const struct omma_request_options *options, struct omma_error *error) {
  const struct omma_model *model = request->model;
  int32_t counter = 0;
  if (n_tokens == 0) return fail_empty(error);
  if (is_too_long(&options->truncation, n_tokens)) {
    if (!options->truncation.keep_first) tokens += n_tokens - (size_t)options->truncation.n_tokens;
    n_tokens = (size_t)options->truncation.n_tokens;
  }
  OMMAI_TRY(check_length(model, options, n_tokens, error));
  request->n_tokens = n_tokens;
  OMMAI_TRY(ommai_request_allocate_prompt(request, error));
  for (size_t i = 0; i < n_tokens; i++) {
    if (tokens[i] < 0 || tokens[i] >= model->config.text.vocab_size) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "prompt",
                              "prompt: token %zu: expected an id from 0 to %lld, found %d", i,
                              (long long)model->config.text.vocab_size - 1, (int)tokens[i]);
    }
    request->ids[i] = tokens[i];
    request->tokens[i] = (struct ommai_prompt_token){.token = tokens[i], .image = -1};
    ommai_position_text(&counter, request->tokens[i].position);
  }
  request->next_position = counter;
  return name_pages(request, options->cache_salt, error);
}

/* A text that is too long, of which all tokens are made once. */
static enum omma_status assemble_cut(struct omma_request *request, const struct ommai_prompt_builder *prompt,
                                     const struct omma_request_options *options, struct omma_error *error) {
  size_t n = request->n_tokens, count;
  int32_t *ids = ommai_allocate(&request->allocator, n, sizeof *ids);
  request->n_tokens = 0;
  if (!ids) return ommai_fail_memory(error, "prompt", n * sizeof *ids);
  enum omma_status status = encode_piece(request, prompt, 0, ids, n, &count, error);
  if (status == OMMA_OK) status = take_tokens(request, ids, count, options, error);
  ommai_release(&request->allocator, ids, n, sizeof *ids);
  ommai_request_free_text_ids(request);
  return status;
}

static enum omma_status assemble(struct omma_request *request, const struct ommai_prompt_builder *prompt,
                                 const struct omma_request_options *options, struct omma_error *error) {
  OMMAI_TRY(measure(request, prompt, options, error));
  if (request->n_tokens == 0) return fail_empty(error);
  bool too_long = is_too_long(&options->truncation, request->n_tokens);
  if (too_long && !ommai_request_reads(request)) return assemble_cut(request, prompt, options, error);
  OMMAI_TRY(prepare_images(request, prompt, error));
  OMMAI_TRY(ommai_request_allocate_prompt(request, error));
  OMMAI_TRY(place_tokens(request, prompt, error));
  ommai_request_free_text_ids(request);
  if (too_long) {
    OMMAI_TRY(ommai_request_shorten(request, (size_t)options->truncation.n_tokens, error));
    OMMAI_TRY(check_length(request->model, options, request->n_tokens, error));
  }
  return name_pages(request, options->cache_salt, error);
}

/* No member of a later version may be set. */
static enum omma_status check_reserved(const struct omma_request_options *options, struct omma_error *error) {
  for (size_t i = 0; i < sizeof options->reserved / sizeof *options->reserved; i++) {
    if (options->reserved[i] == 0) continue;
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "reserved",
                            "reserved: a member is set that this library does not have");
  }
  return OMMA_OK;
}

#define OMMAI_TAKE_REQUEST_OPTIONS(options, error)          \
  OMMAI_TAKE_OPTIONS(omma_request_options, options, error); \
  OMMAI_TRY(check_reserved(options, error))

/* A request without a prompt. */
static enum omma_status create_empty(const struct omma_model *model, const struct omma_request_options *options,
                                     struct omma_request **out, struct omma_error *error) {
  enum omma_request_kind kind = options->kind;
  if ((unsigned)kind > OMMA_REQUEST_SCORE) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "kind", "kind: there is no kind %d of requests", (int)kind);
  }
  struct omma_request *request = ommai_allocate(&model->allocator, 1, sizeof *request);
  if (!request) return ommai_fail_memory(error, "request", sizeof *request);
  request->allocator = model->allocator;
  request->model = model;
  request->kind = kind;
  if (kind == OMMA_REQUEST_DEFAULT) request->kind = model->network.has_decoder ? OMMA_REQUEST_GENERATE : OMMA_REQUEST_ENCODE;
  request->priority = options->priority;
  request->whole = options->whole;
  enum omma_status status = ommai_request_set_sampling(request, &options->sampling, error);
  if (status == OMMA_OK) status = ommai_request_set_vectors(request, options, error);
  if (status == OMMA_OK) {
    *out = request;
  } else {
    omma_request_destroy(request);
  }
  return status;
}

/* A request that `make` fills from the messages in the family's chat template. */
static enum omma_status create_from_messages(const struct omma_model *model, const struct omma_message *messages,
                                             size_t n_messages, const struct omma_request_options *options,
                                             enum omma_status (*make)(struct omma_request *,
                                                                      const struct ommai_prompt_builder *,
                                                                      const struct omma_request_options *, struct omma_error *),
                                             struct omma_request **out, struct omma_error *error) {
  OMMAI_TRY(ommai_model_require_tokenizer(model, error));
  OMMAI_TRY(ommai_model_require_processor(model, error));
  OMMAI_TRY(ommai_model_require_chat(model, error));
  OMMAI_TRY(check_messages(model, messages, n_messages, error));
  struct omma_request *request = NULL;
  OMMAI_TRY(create_empty(model, options, &request, error));
  const struct ommai_conversation conversation = {.messages = messages,
                                                  .n_messages = n_messages,
                                                  .tools = options->tools,
                                                  .kwargs = options->chat_template_kwargs,
                                                  .temporal_patch_size = model->config.vision.temporal_patch_size,
                                                  .continue_final_message = options->continue_final_message,
                                                  .no_generation_prompt = options->no_generation_prompt};
  struct ommai_prompt_builder prompt;
  ommai_prompt_builder_init(&prompt, &model->allocator);
  enum omma_status status;
  OMMAI_TRY_GOTO(ommai_conversation_render(&model->chat, &conversation, &prompt, error), done);
  ommai_reasoning_rules_open(&request->reasoning, &prompt, &messages[n_messages - 1], options->continue_final_message);
  OMMAI_TRY_GOTO(make(request, &prompt, options, error), done);
  *out = request;
  request = NULL;
done:
  ommai_prompt_builder_free(&prompt);
  omma_request_destroy(request);
  return status;
}

static void debug_prompt(const struct omma_request *request) {
  OMMAI_DEBUG(&request->model->log, "prompt: %zu token%s, %zu image%s, whose resizing took %.1f ms", request->n_tokens,
              ommai_plural((int64_t)request->n_tokens), request->n_images, ommai_plural((int64_t)request->n_images),
              request->preprocess_seconds * 1e3);
}

enum omma_status omma_request_create(const struct omma_model *model, const struct omma_message *messages, size_t n_messages,
                                     const struct omma_request_options *options, struct omma_request **out,
                                     struct omma_error *error) {
  OMMAI_TAKE_REQUEST_OPTIONS(options, error);
  OMMAI_TRY(create_from_messages(model, messages, n_messages, options, assemble, out, error));
  debug_prompt(*out);
  return OMMA_OK;
}

enum omma_status ommai_request_create_prompt(const struct omma_model *model, const struct omma_message *messages,
                                             size_t n_messages, const struct ommai_prompt_builder *prompt,
                                             const struct omma_request_options *options, struct omma_request **out,
                                             struct omma_error *error) {
  struct omma_request *request;
  OMMAI_TRY(check_reserved(options, error));
  OMMAI_TRY(ommai_model_require_tokenizer(model, error));
  OMMAI_TRY(ommai_model_require_processor(model, error));
  OMMAI_TRY(check_messages(model, messages, n_messages, error));
  OMMAI_TRY(create_empty(model, options, &request, error));
  enum omma_status status = assemble(request, prompt, options, error);
  if (status == OMMA_OK) {
    debug_prompt(request);
    *out = request;
  } else {
    omma_request_destroy(request);
  }
  return status;
}

enum omma_status omma_count_prompt_tokens(const struct omma_model *model, const struct omma_message *messages,
                                          size_t n_messages, const struct omma_request_options *options, int64_t *n_tokens,
                                          struct omma_error *error) {
  struct omma_request *request;
  OMMAI_TAKE_REQUEST_OPTIONS(options, error);
  OMMAI_TRY(create_from_messages(model, messages, n_messages, options, measure, &request, error));
  *n_tokens = (int64_t)request->n_tokens;
  if (is_too_long(&options->truncation, request->n_tokens)) *n_tokens = options->truncation.n_tokens;
  omma_request_destroy(request);
  return OMMA_OK;
}

enum omma_status omma_request_create_tokens(const struct omma_model *model, const int32_t *tokens, size_t n_tokens,
                                            const struct omma_request_options *options, struct omma_request **out,
                                            struct omma_error *error) {
  struct omma_request *request = NULL;
  OMMAI_TAKE_REQUEST_OPTIONS(options, error);
  OMMAI_TRY(create_empty(model, options, &request, error));
  enum omma_status status = take_tokens(request, tokens, n_tokens, options, error);
  if (status == OMMA_OK) {
    debug_prompt(request);
    *out = request;
  } else {
    omma_request_destroy(request);
  }
  return status;
}

static enum omma_status copy_prompt(const struct omma_request *source, struct omma_request *request, struct omma_error *error) {
  request->n_tokens = source->n_tokens;
  OMMAI_TRY(ommai_request_allocate_prompt(request, error));
  memcpy(request->ids, source->ids, source->n_tokens * sizeof *source->ids);
  memcpy(request->tokens, source->tokens, source->n_tokens * sizeof *source->tokens);
  memcpy(request->page_keys, source->page_keys, source->n_page_keys * sizeof *source->page_keys);
  OMMAI_TRY(take_salt(request, source->cache_salt, error));
  request->next_position = source->next_position;
  request->reasoning.open = source->reasoning.open;
  OMMAI_TRY(allocate_images(request, source->n_images, error));
  for (size_t i = 0; i < source->n_images; i++) {
    request->images[i] = ommai_prepared_image_share(&source->images[i]);
    request->keys[i] = source->keys[i];
  }
  return OMMA_OK;
}

enum omma_status omma_request_copy(const struct omma_request *source, const struct omma_sampling *sampling,
                                   struct omma_request **out, struct omma_error *error) {
  struct omma_request *request = NULL;
  OMMAI_TAKE_OPTIONS(omma_sampling, sampling, error);
  const struct omma_request_options options = {.sampling = *sampling,
                                               .kind = source->kind,
                                               .priority = source->priority,
                                               .whole = source->whole,
                                               .dimensions = source->dimensions,
                                               .raw_vectors = source->raw_vectors};
  OMMAI_TRY(create_empty(source->model, &options, &request, error));
  enum omma_status status = copy_prompt(source, request, error);
  if (status == OMMA_OK) {
    *out = request;
  } else {
    omma_request_destroy(request);
  }
  return status;
}
