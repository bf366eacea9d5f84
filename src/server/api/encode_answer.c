/* The worker that makes an answer and the submitted request each hold a reference. The engine's
 * thread leaves the outcome in the answer and hands it back to a worker, which publishes, replies
 * and frees: publishing copies megabytes and may wait for a disk. */
#include "server/api/chat_job.h"

#include <inttypes.h>
#include <omma/omma.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/allocator.h"
#include "base/json_writer.h"
#include "base/text_buffer.h"
#include "server/api/reply_format.h"
#include "server/api/request_log.h"
#include "server/http/access.h"
#include "server/publish/encoding_memory.h"
#include "server/state/server_state.h"

#define ID_SIZE (OMMAI_REQUEST_ID_SIZE + 16)

struct encode_answer {
  struct ommai_job job; /* first */
  struct ommai_http_call *call;
  const struct omma_allocator *allocator;
  struct omma_request *request;
  char (*keys)[OMMAI_ENCODING_KEY_SIZE]; /* [n_images] */
  size_t n_images;
  const char *model; /* as the request names it */
  struct omma_embeddings *embeddings;
  struct omma_result result;
};

/* ---- what is published of an image ---- */

/* The header's length is a multiple of this, so that values are aligned. */
enum { LENGTH_BYTES = 8, ALIGNMENT = 64 };

static void add_header(const struct omma_model_info *info, const char *model_name, const struct omma_image_embeddings *image,
                       size_t size, struct ommai_text *out) {
  const int64_t *grid = image->grid_thw;
  ommai_put_begin(out, NULL, "{");
  ommai_put_begin(out, "__metadata__", "{");
  OMMAI_PUT_STRINGS(out, {"producer", "ommatidia"}, {"version", omma_version()}, {"model", model_name},
                    {"fingerprint", info->fingerprint}, {"numeric_mode", info->vision_weights}, {"isa", info->isa});
  ommai_put_format(out, "image_grid_thw", "%" PRId64 ",%" PRId64 ",%" PRId64, grid[0], grid[1], grid[2]);
  ommai_put_end(out, "}");
  ommai_put_begin(out, "ec_cache", "{");
  ommai_put_string(out, "dtype", info->bf16_embeddings ? "BF16" : "F32");
  ommai_put_begin(out, "shape", "[");
  ommai_put_integer(out, NULL, image->n_tokens);
  ommai_put_integer(out, NULL, (1 + image->n_deepstack) * image->width);
  ommai_put_end(out, "]");
  ommai_put_begin(out, "data_offsets", "[");
  ommai_put_integer(out, NULL, 0);
  ommai_put_integer(out, NULL, (int64_t)size);
  ommai_put_end(out, "]}}");
}

/* Appends the file: [n_tokens, (1 + n_deepstack) * width] in bf16 or f32 as info->bf16_embeddings
 * gives; its metadata name the model by `model_name` and by its fingerprint, how the tower computed
 * ("numeric_mode", "isa", "version"), and the image's grid of patches ("image_grid_thw":
 * "1,16,22"). False when memory is out. */
static bool encoding_body_write(const struct omma_model_info *info, const char *model_name,
                                const struct omma_embeddings *embeddings, size_t index, struct ommai_text *out) {
  static const char blanks[ALIGNMENT] = "                                                               ";
  struct omma_image_embeddings image;
  char length[LENGTH_BYTES];
  omma_embeddings_get(embeddings, index, &image);
  size_t width = (size_t)((1 + image.n_deepstack) * image.width);
  size_t size = (size_t)image.n_tokens * width * (info->bf16_embeddings ? sizeof(uint16_t) : sizeof(float));
  struct ommai_text header = ommai_text_of(out->allocator);
  add_header(info, model_name, &image, size, &header);
  size_t padding = (ALIGNMENT - (LENGTH_BYTES + header.size) % ALIGNMENT) % ALIGNMENT;
  ommai_text_append(&header, blanks, padding);
  for (size_t i = 0; i < sizeof length; i++) length[i] = (char)((uint64_t)header.size >> (8 * i));
  bool good = !header.failed && ommai_text_reserve(out, sizeof length + header.size + size);
  if (good) {
    ommai_text_append(out, length, sizeof length);
    ommai_text_append(out, header.data, header.size);
    omma_embeddings_copy_rows(embeddings, index, info->bf16_embeddings ? OMMA_BF16 : OMMA_F32, out->data + out->size);
    out->size += size;
  }
  ommai_text_free(&header);
  return good;
}

static void free_answer(struct encode_answer *answer) {
  omma_embeddings_destroy(answer->embeddings);
  omma_request_destroy(answer->request);
  ommai_release(answer->allocator, answer->keys, answer->n_images, sizeof *answer->keys);
  ommai_http_call_release(answer->call);
  ommai_release(answer->allocator, answer, 1, sizeof *answer);
}

/* ---- the outcome ---- */

static bool publish_image(struct encode_answer *answer, size_t index, struct omma_error *error) {
  struct ommai_server *server = answer->call->server;
  struct ommai_text body = ommai_text_of(answer->allocator);
  bool good = encoding_body_write(&server->config.info, server->config.model_names[0], answer->embeddings, index, &body);
  *error = (struct omma_error){.status = OMMA_ERROR_MEMORY};
  if (good && server->encoding_directory.opened) {
    good = ommai_encoding_directory_write(&server->encoding_directory, answer->keys[index], body.data, body.size, error) ==
           OMMA_OK;
  }
  if (good) return ommai_encoding_memory_put(&server->encodings, answer->keys[index], &body);
  ommai_text_free(&body);
  return false;
}

static bool publish(struct encode_answer *answer) {
  struct omma_error error;
  for (size_t i = 0; i < answer->n_images; i++) {
    if (publish_image(answer, i, &error)) continue;
    ommai_http_call_fail_from(answer->call, "publishing embeddings", &error);
    return false;
  }
  return true;
}

/* Whether an image before has the same key: an entry stands for all of them. */
static bool is_repeated(const struct encode_answer *answer, size_t index) {
  size_t i = 0;
  while (strcmp(answer->keys[i], answer->keys[index]) != 0) i++;
  return i < index;
}

/* {KEY: {"modality": "image", "item_indices": [...], "metadata": {"image_grid_thw": [...]}}}, as
 * vLLM 0.33 writes it. */
static void write_params(const struct encode_answer *answer, struct ommai_text *out) {
  ommai_put_begin(out, NULL, "{");
  for (size_t i = 0; i < answer->n_images; i++) {
    struct omma_image_embeddings image;
    if (is_repeated(answer, i)) continue;
    ommai_put_begin(out, answer->keys[i], "{");
    ommai_put_string(out, "modality", "image");
    ommai_put_begin(out, "item_indices", "[");
    for (size_t j = i; j < answer->n_images; j++) {
      if (!strcmp(answer->keys[i], answer->keys[j])) ommai_put_integer(out, NULL, (int64_t)j);
    }
    ommai_put_end(out, "]");
    omma_embeddings_get(answer->embeddings, i, &image);
    ommai_put_begin(out, "metadata", "{");
    ommai_put_begin(out, "image_grid_thw", "[");
    for (int side = 0; side < 3; side++) ommai_put_integer(out, NULL, image.grid_thw[side]);
    ommai_put_end(out, "]}}");
  }
  ommai_put_end(out, "}");
}

static void reply(struct encode_answer *answer) {
  char id[ID_SIZE];
  snprintf(id, sizeof id, "%s%s", ommai_chat_reply_format.id_prefix, answer->call->request_id);
  struct ommai_text out = ommai_text_of(answer->allocator);
  struct ommai_text params = ommai_text_of(answer->allocator);
  write_params(answer, &params);
  const struct ommai_reply_head head = {
      .id = id, .created = (int64_t)time(NULL), .model = answer->model, .ec_transfer_params = &params};
  const struct ommai_reply_part part = {.text = "", .finish_reason = "stop", .stop_token = -1};
  const struct ommai_usage usage = {
      .prompt_tokens = answer->result.n_prompt_tokens, .cached_tokens = 0, .reasoning_tokens = -1};
  ommai_chat_reply_format.whole(&out, &head, &part, 1, &usage);
  out.failed |= params.failed;
  ommai_http_call_reply(answer->call, 200, "application/json", &out);
  ommai_text_free(&params);
}

static void end_answer(struct ommai_job *job) {
  static const struct omma_error cancelled = {.status = OMMA_ERROR_CANCELLED};
  struct encode_answer *answer = (struct encode_answer *)job;
  const struct omma_result *result = &answer->result;
  if (result->finish != OMMA_FINISH_STOP) {
    ommai_http_call_fail_from(answer->call, "encoding", result->finish == OMMA_FINISH_ERROR ? &result->error : &cancelled);
  } else if (publish(answer)) {
    reply(answer);
  }
  free_answer(answer);
}

/* ---- on the engine's thread ---- */

static void on_progress(void *context, enum omma_stage stage, int64_t done, int64_t total) {
  struct encode_answer *answer = context;
  ommai_access_log_progress(answer->call, stage, done, total, (int64_t)answer->n_images);
}

static void on_embeddings(void *context, struct omma_embeddings *embeddings) {
  struct encode_answer *answer = context;
  answer->embeddings = embeddings;
}

static void on_finish(void *context, const struct omma_result *result) {
  struct encode_answer *answer = context;
  struct ommai_http_call *call = answer->call;
  answer->result = *result;
  ommai_access_add(call, result, true, 0);
  answer->job.run = end_answer;
  ommai_job_queue_push_urgent(call->server->jobs, &answer->job);
}

/* ---- the request ---- */

static bool check_request(const struct ommai_chat_request *request, struct ommai_api_error *error) {
  const struct ommai_answer_fields *fields = &request->fields;
  if (request->n_images == 0) {
    return ommai_api_fail(error, 400, "messages",
                          "This server only encodes images (--mm-encoder-only): the messages have none.");
  }
  if (request->n_videos) {
    return ommai_api_fail(error, 400, "messages", "This server only encodes images (--mm-encoder-only), not videos.");
  }
  if (fields->stream) return ommai_api_fail(error, 400, "stream", "stream: this server only encodes images: ask without it.");
  if (!fields->default_max_tokens && fields->sampling.max_tokens > 1) {
    return ommai_api_fail(
        error, 400, fields->max_tokens_field,
        "%s: this server only encodes images (--mm-encoder-only) and generates no text: ask with 1 or without.",
        fields->max_tokens_field);
  }
  return true;
}

/* The images' uuids. */
static bool take_keys(struct encode_answer *answer, const struct ommai_chat_request *request, struct ommai_api_error *error) {
  size_t n = 0;
  answer->n_images = (size_t)request->n_images;
  answer->keys = ommai_allocate(answer->allocator, answer->n_images, sizeof *answer->keys);
  if (!answer->keys) return ommai_api_fail_memory(error);
  for (size_t i = 0; i < request->n_parts_used; i++) {
    const char *uuid = request->parts[i].image_name;
    if (!request->media[i].url) continue;
    if (!uuid) {
      return ommai_api_fail(
          error, 400, "uuid",
          "image %zu has no uuid, which its embeddings are published under; SHA-256 of its URL is a good one.", n);
    }
    if (!ommai_encoding_key_valid(uuid)) {
      return ommai_api_fail(error, 400, "uuid",
                            "image %zu: uuid must be 1 to %d letters, digits, '-', '_' and '.', a letter or digit first.", n,
                            OMMAI_ENCODING_KEY_SIZE - 1);
    }
    memcpy(answer->keys[n++], uuid, strlen(uuid) + 1);
  }
  return true;
}

static bool make_request(struct encode_answer *answer, const struct ommai_chat_request *source, struct ommai_api_error *error) {
  struct omma_error cause = {0};
  const struct ommai_server *server = answer->call->server;
  const struct omma_request_options options = {.tools = source->tools_text,
                                               .chat_template_kwargs = source->template_text,
                                               .max_model_len = omma_engine_max_model_len(server->engine),
                                               .priority = source->fields.priority};
  return omma_request_create(server->config.model, source->messages, source->n_messages, &options, &answer->request, &cause) ==
             OMMA_OK ||
         ommai_server_fail(&server->config, "preparing a request", &cause, error);
}

/* The engine has it from here on, or it is over. */
static void submit(struct encode_answer *answer) {
  struct ommai_http_call *call = answer->call;
  const struct omma_callbacks callbacks = {
      .context = answer, .on_progress = on_progress, .on_embeddings = on_embeddings, .on_finish = on_finish};
  struct omma_error cause = {0};
  uint64_t id = 0;
  ommai_http_call_retain(call); /* the answer may be gone when submit returns */
  if (omma_engine_submit(call->server->engine, answer->request, &callbacks, &id, &cause) == OMMA_OK) {
    ommai_http_call_add_engine_id(call, id);
  } else {
    ommai_http_call_fail_from(answer->call, "submitting a request", &cause);
    free_answer(answer);
  }
  ommai_http_call_release(call);
}

static struct encode_answer *make_answer(struct ommai_http_call *call, const struct ommai_chat_request *request) {
  struct encode_answer *answer = ommai_allocate(call->allocator, 1, sizeof *answer);
  if (!answer) return NULL;
  ommai_http_call_retain(call);
  answer->call = call;
  answer->allocator = call->allocator;
  answer->model = request->fields.model;
  return answer;
}

bool ommai_encode_answer(struct ommai_http_call *call, struct ommai_chat_request *request, struct ommai_api_error *error) {
  struct encode_answer *answer = make_answer(call, request);
  if (!answer) return ommai_api_fail_memory(error);
  ommai_request_log(call, &request->fields, request->n_images);
  bool good = check_request(request, error) && take_keys(answer, request, error) && make_request(answer, request, error);
  if (good) {
    submit(answer);
  } else {
    free_answer(answer);
  }
  return good;
}
