/* A chat request in typed format: what the JSON of /v1/chat/completions and of /tokenize with
 * messages becomes. */
#pragma once

#include <jansson.h>
#include <omma/omma.h>
#include <stdbool.h>

#include "server/api/answer_fields.h"
#include "server/api/tool_request.h"

struct ommai_http_call;
struct ommai_media_file;
struct ommai_server;

/* A chat as its endpoint brings it, with a reference to each. */
struct ommai_chat_source {
  json_t *root;     /* in the format of /v1/chat/completions */
  json_t *original; /* what came, where that had another format, else NULL */
  /* where each message stands in `original`, as texts for errors; NULL: "messages[i]" */
  json_t *locations;
};
void ommai_chat_source_free(const struct ommai_chat_source *source);

/* What a part of a message names by a URL: an image or a video. url is NULL for text. */
struct ommai_media_part {
  const char *url; /* or an image's base64 by itself */
  size_t url_size;
  bool is_base64;
  bool is_video;
  /* [n_images]: the image or the frames, as they were sent, until decoded */
  struct ommai_media_file *files;
  struct omma_image **images; /* [n_images], NULL until decoded */
  size_t n_images;
  struct omma_video video;
};

/* media_io_kwargs.video */
struct ommai_video_fields {
  double fps;         /* frames a second that were sampled */
  int64_t max_frames; /* how many of those sent are looked at; -1: all */
};

/* Strings belong to the JSON document, which is kept as long. */
struct ommai_chat_request {
  const struct omma_allocator *allocator;
  struct ommai_chat_source source;
  const json_t *root; /* of the source */
  struct omma_message *messages;
  size_t n_messages;
  struct omma_part *parts;        /* of all messages, one after the other */
  struct ommai_media_part *media; /* one per part */
  size_t n_parts;                 /* room for parts */
  size_t n_parts_used;
  int64_t n_images, n_videos;
  struct ommai_video_fields video;
  struct ommai_server *server;
  int64_t media_bytes; /* taken of the server's budget for its images */
  struct omma_image_options image_options;
  bool continue_final_message, no_generation_prompt;
  struct ommai_tool_request tools;
  json_t *texts; /* an array of strings: JSON that prompts are made with */
  /* `tools` and chat_template_kwargs among them; NULL: none */
  const char *tools_text, *template_text;
  struct ommai_answer_fields fields;
};

/* Reads and checks everything but the images and videos. `source` is taken over, also by a failing
 * call. With messages_only, fields that concern the answer are not read. False with *error filled;
 * destroy in any case. */
bool ommai_chat_request_read(struct ommai_server *server, const struct ommai_chat_source *source, bool messages_only,
                             struct ommai_chat_request *request, struct ommai_api_error *error);

#define OMMAI_CHAT_LOCATION_SIZE 64
/* Where a message of the request stands in what the client sent, for errors: "messages[3]". Returns
 * `location`. */
const char *ommai_chat_location(const struct ommai_chat_request *request, size_t index,
                                char location[OMMAI_CHAT_LOCATION_SIZE]);

void ommai_chat_request_destroy(struct ommai_chat_request *request);
