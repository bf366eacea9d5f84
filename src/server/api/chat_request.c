#include "server/api/chat_request.h"

#include <inttypes.h>
#include <string.h>

#include "base/allocator.h"
#include "base/json.h"
#include "server/api/media.h"
#include "server/api/message_fields.h"
#include "server/core/request_json.h"
#include "server/state/server_state.h"

/* "messages[3].content[0]": where a part stands, for errors. */
#define WHERE_SIZE (OMMAI_CHAT_LOCATION_SIZE + 32)
#define DEFAULT_FPS 1.0

void ommai_chat_source_free(const struct ommai_chat_source *source) {
  json_decref(source->root);
  json_decref(source->original);
  json_decref(source->locations);
}

const char *ommai_chat_location(const struct ommai_chat_request *request, size_t index,
                                char location[OMMAI_CHAT_LOCATION_SIZE]) {
  const char *given = json_string_value(json_array_get(request->source.locations, index));
  if (given) {
    snprintf(location, OMMAI_CHAT_LOCATION_SIZE, "%s", given);
  } else {
    snprintf(location, OMMAI_CHAT_LOCATION_SIZE, "messages[%zu]", index);
  }
  return location;
}

/* An image may become as large as the operator allows, where that was set, and no larger. */
static bool check_area(const struct ommai_server *server, const char *field, int64_t area, struct ommai_api_error *error) {
  int64_t max_pixels = server->config.settings.image_options.max_pixels;
  return !max_pixels || area <= max_pixels ||
         ommai_api_fail(error, 400, field, "%s %" PRId64 " is larger than this server's limit, max_pixels %" PRId64 ".", field,
                        area, max_pixels);
}

static bool read_pixels(const struct ommai_server *server, const json_t *object, struct omma_image_options *options,
                        struct ommai_api_error *error) {
  if (!ommai_field_integer(object, "min_pixels", 1, INT32_MAX, &options->min_pixels, error) ||
      !ommai_field_integer(object, "max_pixels", 1, INT32_MAX, &options->max_pixels, error) ||
      !check_area(server, "max_pixels", options->max_pixels, error) ||
      !check_area(server, "min_pixels", options->min_pixels, error)) {
    return false;
  }
  if (options->max_pixels && options->min_pixels > options->max_pixels) {
    return ommai_api_fail(error, 400, "min_pixels", "min_pixels %" PRId64 " is larger than max_pixels %" PRId64 ".",
                          options->min_pixels, options->max_pixels);
  }
  return true;
}

static bool read_processor_options(const struct ommai_server *server, const json_t *root, struct omma_image_options *options,
                                   struct ommai_api_error *error) {
  static const char *const known[] = {"min_pixels", "max_pixels", NULL};
  const json_t *object;
  return ommai_field_object(root, "mm_processor_kwargs", known, &object, error) &&
         (!object || read_pixels(server, object, options, error));
}

/* {"video": {"fps", "num_frames"}}, as vLLM has it. */
static bool read_media_options(const json_t *root, struct ommai_video_fields *fields, struct ommai_api_error *error) {
  static const char FIELD[] = "media_io_kwargs";
  static const char *const known[] = {"video", NULL}, *const known_of_video[] = {"fps", "num_frames", NULL};
  const json_t *object, *video;
  *fields = (struct ommai_video_fields){.fps = DEFAULT_FPS, .max_frames = -1};
  if (!ommai_field_object(root, FIELD, known, &object, error)) return false;
  if (!object) return true;
  video = ommai_field_get(object, "video");
  if (!video) return true;
  if (!ommai_field_members(video, FIELD, "media_io_kwargs: video", known_of_video, error)) return false;
  if (!ommai_field_number(video, "fps", OMMA_MIN_VIDEO_FPS, OMMA_MAX_VIDEO_FPS, false, &fields->fps, error)) return false;
  if (!ommai_field_integer(video, "num_frames", -1, INT32_MAX, &fields->max_frames, error)) return false;
  return fields->max_frames != 0 || ommai_api_fail(error, 400, FIELD, "num_frames must be greater than 0 or -1, got 0.");
}

static bool read_role(const json_t *message, const char *where, enum omma_role *role, struct ommai_api_error *error) {
  static const struct {
    const char *name;
    enum omma_role role;
  } roles[] = {{"system", OMMA_ROLE_SYSTEM},
               {"developer", OMMA_ROLE_SYSTEM},
               {"user", OMMA_ROLE_USER},
               {"assistant", OMMA_ROLE_ASSISTANT},
               {"tool", OMMA_ROLE_TOOL}};
  const char *name = NULL;
  if (!ommai_field_string(message, "role", &name, error)) return false;
  if (!name) return ommai_api_fail(error, 400, "messages", "%s has no role.", where);
  for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
    if (!strcmp(name, roles[i].name)) {
      *role = roles[i].role;
      return true;
    }
  }
  return ommai_api_fail(error, 400, "messages", "%s: role must be system, developer, user, assistant or tool, got \"%.80s\".",
                        where, name);
}

static struct omma_part *add_part(struct ommai_chat_request *request) { return &request->parts[request->n_parts_used++]; }

static void add_text(struct ommai_chat_request *request, const json_t *text) {
  struct omma_part *part = add_part(request);
  part->text = json_string_value(text);
  part->text_size = json_string_length(text);
}

/* Where a part has its image or video: {"image_url": {"url", "detail"}} and {"image_url": "..."}
 * are both in use; so with video_url. And Anthropic's {"source": {"type": "url", "url"}} and
 * {"source": {"type": "base64", "media_type", "data"}}. */
static bool find_media(const json_t *part, const char *type, const char *where, struct ommai_media_part *media,
                       const json_t **options, struct ommai_api_error *error) {
  static const char *const of_url[] = {"url", "detail", "format", "min_pixels", "max_pixels", NULL}, *const of_source[] = {
                                                                                                         "type", "url",
                                                                                                         "media_type", "data",
                                                                                                         NULL};
  bool is_source = !strcmp(type, "image");
  const char *field = is_source ? "source" : media->is_video ? "video_url" : "image_url";
  const json_t *holder = ommai_field_get(part, field), *url = holder;
  *options = json_is_object(holder) ? holder : NULL;
  if (is_source) {
    const char *kind = json_string_value(json_object_get(holder, "type"));
    media->is_base64 = kind && !strcmp(kind, "base64");
    if (!media->is_base64 && (!kind || strcmp(kind, "url") != 0)) {
      return ommai_api_fail(error, 400, field,
                            "%s has no source of type base64 or url (a part of type image_url has its image in image_url).",
                            where);
    }
  }
  if (*options && !ommai_field_members(holder, field, where, is_source ? of_source : of_url, error)) return false;
  if (json_is_object(holder)) url = ommai_field_get(holder, media->is_base64 ? "data" : "url");
  if (!ommai_json_is_text(url)) {
    return ommai_api_fail(error, 400, field, "%s has no %s with %s.", where, field, media->is_base64 ? "data" : "a url");
  }
  media->url = json_string_value(url);
  media->url_size = json_string_length(url);
  return true;
}

static bool add_media(const struct ommai_server *server, struct ommai_chat_request *request, const json_t *source,
                      const char *type, const char *where, struct ommai_api_error *error) {
  struct ommai_media_part media = {.is_video = !strcmp(type, "video_url")};
  const char *kind = media.is_video ? "video" : "image", *name = NULL;
  int64_t *count = media.is_video ? &request->n_videos : &request->n_images,
          limit = media.is_video ? server->config.settings.limit_videos_per_prompt
                                 : server->config.settings.limit_images_per_prompt;
  struct omma_image_options options = request->image_options;
  const json_t *holder;
  if (!find_media(source, type, where, &media, &holder, error) || (holder && !read_pixels(server, holder, &options, error)) ||
      !read_pixels(server, source, &options, error) || !ommai_field_string(source, "uuid", &name, error)) {
    return false;
  }
  request->media[request->n_parts_used] = media;
  struct omma_part *part = add_part(request);
  part->image_options = options;
  part->image_name = name;
  part->image_name_suffices = server->config.settings.trust_media_uuids;
  return ++*count <= limit ||
         ommai_api_fail(error, 400, kind, "At most %" PRId64 " %s(s) may be provided in one prompt.", limit, kind);
}

static bool add_content_part(const struct ommai_server *server, struct ommai_chat_request *request, const json_t *source,
                             const char *where, struct ommai_api_error *error) {
  static const char *const media_types[] = {"image_url", "input_image", "video_url", "image", NULL};
  static const char *const text_types[] = {"text", "input_text", "output_text", NULL};
  const char *type = NULL;
  if (!json_is_object(source)) {
    return ommai_api_fail(error, 400, "messages", "%s must be an object, got %s.", where, ommai_json_kind(source));
  }
  if (!ommai_field_string(source, "type", &type, error)) return false;
  if (!type) return ommai_api_fail(error, 400, "messages", "%s has no type.", where);
  if (ommai_word_is_among(type, media_types)) return add_media(server, request, source, type, where, error);
  if (!ommai_word_is_among(type, text_types)) {
    return ommai_api_fail(error, 400, "messages",
                          "%s: unknown part type \"%.80s\"; known are text, input_text, image_url, input_image and video_url.",
                          where, type);
  }
  const json_t *text = ommai_field_get(source, "text");
  if (!ommai_json_is_text(text)) return ommai_api_fail(error, 400, "messages", "%s has no text.", where);
  add_text(request, text);
  return true;
}

static bool read_message(const struct ommai_server *server, struct ommai_chat_request *request, size_t index,
                         struct ommai_api_error *error) {
  const json_t *source = json_array_get(ommai_field_get(request->root, "messages"), index);
  struct omma_message *message = &request->messages[index];
  char location[OMMAI_CHAT_LOCATION_SIZE], where[WHERE_SIZE];
  snprintf(where, sizeof where, "%s", ommai_chat_location(request, index, location));
  if (!json_is_object(source)) {
    return ommai_api_fail(error, 400, "messages", "%s must be an object, got %s.", where, ommai_json_kind(source));
  }
  if (!read_role(source, where, &message->role, error)) return false;
  const json_t *content = ommai_field_get(source, "content");
  size_t first = request->n_parts_used;
  if (ommai_json_is_text(content)) {
    add_text(request, content);
  } else if (json_is_array(content)) {
    for (size_t i = 0; i < json_array_size(content); i++) {
      snprintf(where, sizeof where, "%s.content[%zu]", location, i);
      if (!add_content_part(server, request, json_array_get(content, i), where, error)) return false;
    }
  } else if (content || message->role != OMMA_ROLE_ASSISTANT) {
    return ommai_api_fail(error, 400, "messages", "%s: content must be a string or an array, got %s.", where,
                          content ? ommai_json_kind(content) : "null");
  }
  message->parts = request->parts + first;
  message->n_parts = request->n_parts_used - first;
  return ommai_message_fields_read(source, location, message->role, request->texts, &message->fields, error);
}

static size_t count_parts(const json_t *messages) {
  size_t n_parts = 0;
  for (size_t i = 0; i < json_array_size(messages); i++) {
    const json_t *content = json_object_get(json_array_get(messages, i), "content");
    n_parts += json_is_array(content) ? json_array_size(content) : 1;
  }
  return n_parts;
}

static bool read_messages(const struct ommai_server *server, struct ommai_chat_request *request,
                          struct ommai_api_error *error) {
  const json_t *messages;
  if (!ommai_field_array(request->root, "messages", &messages, error)) return false;
  if (!messages) return ommai_api_fail_body(error, "body.messages", "Field required: messages.");
  size_t n_messages = json_array_size(messages), n_parts = count_parts(messages);
  if (n_messages == 0) return ommai_api_fail(error, 400, "messages", "messages must hold at least one message, got [].");
  request->n_messages = n_messages;
  request->n_parts = n_parts;
  request->messages = ommai_allocate(request->allocator, n_messages, sizeof *request->messages);
  request->parts = ommai_allocate(request->allocator, n_parts, sizeof *request->parts);
  request->media = ommai_allocate(request->allocator, n_parts, sizeof *request->media);
  if (!request->messages || !request->parts || !request->media) return ommai_api_fail_memory(error);
  for (size_t i = 0; i < n_messages; i++) {
    if (!read_message(server, request, i, error)) return false;
  }
  return true;
}

/* The end of the prompt: a new turn of the assistant, the last message continued, or its end. */
static bool read_prompt_end(struct ommai_chat_request *request, struct ommai_api_error *error) {
  bool continued = false, opened;
  if (!ommai_field_boolean(request->root, "continue_final_message", &continued, error)) return false;
  opened = !continued;
  if (!ommai_field_boolean(request->root, "add_generation_prompt", &opened, error)) return false;
  if (continued && opened) {
    return ommai_api_fail(error, 400, "continue_final_message",
                          "continue_final_message and add_generation_prompt cannot both be true.");
  }
  if (continued && request->messages[request->n_messages - 1].role != OMMA_ROLE_ASSISTANT) {
    return ommai_api_fail(error, 400, "continue_final_message",
                          "continue_final_message needs a last message of the assistant.");
  }
  request->continue_final_message = continued;
  request->no_generation_prompt = !continued && !opened;
  return true;
}

static bool read_logprobs(const json_t *root, struct omma_sampling *sampling, struct ommai_api_error *error) {
  int64_t n_top = 0;
  if (!ommai_field_boolean(root, "logprobs", &sampling->logprobs, error) ||
      !ommai_field_integer(root, "top_logprobs", 0, OMMA_MAX_TOP_LOGPROBS, &n_top, error)) {
    return false;
  }
  if (n_top && !sampling->logprobs) {
    return ommai_api_fail(error, 400, "top_logprobs", "when using `top_logprobs`, `logprobs` must be set to true.");
  }
  sampling->n_top_logprobs = (int)n_top;
  return true;
}

/* Fields of OpenAI's chats that would change the answer: tools as they were called before, and
 * answers that are not text. */
static bool refuse_fields(const json_t *root, struct ommai_api_error *error) {
  static const char *const keys[] = {"functions", "function_call"};
  const json_t *modalities, *modality;
  size_t index;
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    const json_t *value = ommai_field_get(root, keys[i]);
    const char *word = json_string_value(value);
    bool neutral = !value || (json_is_array(value) && json_array_size(value) == 0) || (word && !strcmp(word, "none"));
    if (neutral) continue;
    return ommai_api_fail(error, 400, keys[i], "%s is not supported: use tools and tool_choice.", keys[i]);
  }
  if (!ommai_field_array(root, "modalities", &modalities, error)) return false;
  json_array_foreach(modalities, index, modality) {
    const char *word = json_string_value(modality);
    if (word && !strcmp(word, "text")) continue;
    return ommai_api_fail(error, 400, "modalities", "modalities[%zu]: \"%.40s\" is not supported; \"text\" is.", index,
                          word ? word : ommai_json_kind(modality));
  }
  return true;
}

static bool refuse_echo(const json_t *root, struct ommai_api_error *error) {
  bool echo = false;
  if (!ommai_field_boolean(root, "echo", &echo, error)) return false;
  return !echo || ommai_api_fail(error, 400, "echo", "echo true is not supported.");
}

/* Tools, and what the chat template gets besides. */
static bool read_template_fields(struct ommai_chat_request *request, bool messages_only, struct ommai_api_error *error) {
  const json_t *kwargs;
  struct omma_grammar **grammar = &request->fields.sampling.grammar;
  if (!ommai_field_object(request->root, "chat_template_kwargs", NULL, &kwargs, error)) return false;
  if (messages_only) {
    if (!ommai_tool_list_read(request->root, &request->tools.tools, error)) return false;
    if (json_array_size(request->tools.tools) == 0) request->tools.tools = NULL;
  } else if (!ommai_tool_request_read(request->server, request->root, false, &request->tools, grammar, error)) {
    return false;
  }
  /* The marks around calls may be special tokens. */
  bool marks = request->tools.format == OMMAI_TOOLS_OBJECTS || request->tools.format == OMMAI_TOOLS_SECTIONS;
  if (marks) request->fields.sampling.keep_special_tokens = true;
  return ommai_json_text_keep(request->tools.tools, request->texts, &request->tools_text, error) &&
         ommai_json_text_keep(json_object_size(kwargs) ? kwargs : NULL, request->texts, &request->template_text, error);
}

bool ommai_chat_request_read(struct ommai_server *server, const struct ommai_chat_source *source, bool messages_only,
                             struct ommai_chat_request *request, struct ommai_api_error *error) {
  const json_t *root = source->root;
  struct ommai_answer_fields *fields = &request->fields;
  *request = (struct ommai_chat_request){.allocator = server->config.allocator,
                                         .server = server,
                                         .source = *source,
                                         .root = root,
                                         .image_options = server->config.settings.image_options,
                                         .texts = json_array()};
  if (!read_processor_options(server, root, &request->image_options, error) ||
      !read_media_options(root, &request->video, error) || !read_messages(server, request, error) ||
      !read_prompt_end(request, error)) {
    return false;
  }
  if (messages_only) {
    return ommai_model_read(&server->config, root, &fields->model, error) && read_template_fields(request, true, error);
  }
  return ommai_answer_fields_read(server, root, 0, fields, error) && refuse_echo(root, error) && refuse_fields(root, error) &&
         ommai_reasoning_read(&server->config.reasoning, root, &fields->sampling, &fields->shows_reasoning, error) &&
         read_logprobs(root, &fields->sampling, error) && read_template_fields(request, false, error);
}

/* What has been read and decoded of all parts. */
static void release_media(struct ommai_chat_request *request) {
  for (size_t i = 0; i < request->n_parts_used; i++) {
    struct ommai_media_part *media = &request->media[i];
    for (size_t j = 0; j < media->n_images; j++) {
      if (media->images) omma_image_destroy(media->images[j]);
      if (media->files) ommai_media_file_free(request->server, &media->files[j]);
    }
    ommai_release(request->allocator, media->images, media->n_images, sizeof *media->images);
    ommai_release(request->allocator, media->files, media->n_images, sizeof *media->files);
  }
  if (request->media_bytes) ommai_media_budget_give_back(&request->server->media_budget, request->media_bytes);
}

void ommai_chat_request_destroy(struct ommai_chat_request *request) {
  release_media(request);
  ommai_answer_fields_free(request->server, &request->fields);
  ommai_release(request->allocator, request->media, request->n_parts, sizeof *request->media);
  ommai_release(request->allocator, request->parts, request->n_parts, sizeof *request->parts);
  ommai_release(request->allocator, request->messages, request->n_messages, sizeof *request->messages);
  ommai_chat_source_free(&request->source);
  json_decref(request->texts);
  *request = (struct ommai_chat_request){.allocator = request->allocator, .server = request->server};
}
