/* Images are loaded in four rounds over the parts: files and headers; images that are known by
 * their files' bytes; what the headers of the others promise is summed up and refused or
 * given its memory; then pixels. So nothing is decoded for a request that could not be
 * answered. */
#include "server/api/chat_job.h"

#include <inttypes.h>
#include <omma/omma.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "server/api/media.h"
#include "server/core/api_error.h"
#include "server/http/access.h"
#include "server/http/http_call.h"
#include "server/state/server_state.h"

/* Image files of one request that are read from files or fetched; those in its body are bounded
 * with it. */
#define MAX_FILE_BYTES (INT64_C(256) << 20)
/* How long a request waits for memory to decode its images in. */
#define BUDGET_WAIT_NS INT64_C(60000000000)

/* Where a request's images are loaded to. */
struct loading {
  struct ommai_http_call *call;
  struct ommai_server *server;
  struct ommai_chat_request *request;
  struct ommai_stop stop;
  int64_t file_bytes; /* read so far */
  int64_t n_tokens;   /* of the prompt, at least */
  /* kept until the request is made; more at the worst moment of one decoding */
  int64_t pixel_bytes, scratch_bytes;
  int64_t cpu_end_ns; /* of ommai_clock_thread_ns */
};

typedef bool (*part_step)(struct loading *loading, struct ommai_media_part *media, struct omma_part *part,
                          struct ommai_api_error *error);

/* ---- the frames of a video ---- */

/* Frames that are not read yet; the text is borrowed. */
struct video_frames {
  const char *at, *end;
  size_t n_left;
};

#define FIELD "video_url"

/* The first max_frames frames of the URL, all of them with 0. False with *error filled: not such a
 * URL, or more than OMMA_MAX_VIDEO_FRAMES. `url` need not end in NUL. */
static bool video_frames_open(const char *url, size_t url_size, size_t max_frames, struct video_frames *frames,
                              struct ommai_api_error *error) {
  static const char HEAD[] = "data:video/jpeg;base64,";
  const size_t head_size = sizeof HEAD - 1;
  if (url_size < head_size || strncasecmp(url, HEAD, head_size) != 0) {
    int shown = url_size < 40 ? (int)url_size : 40;
    return ommai_api_fail(error, 400, FIELD,
                          "A video is sent as its frames, \"%s\" and the base64 of each image, commas between them; "
                          "got \"%.*s\".",
                          HEAD, shown, url);
  }
  *frames = (struct video_frames){.at = url + head_size, .end = url + url_size, .n_left = 1};
  for (const char *at = frames->at; (at = memchr(at, ',', (size_t)(frames->end - at))); at++) frames->n_left++;
  if (max_frames && frames->n_left > max_frames) frames->n_left = max_frames;
  if (frames->n_left <= OMMA_MAX_VIDEO_FRAMES) return true;
  return ommai_api_fail(error, 400, FIELD, "A video may have at most %d frames, found %zu.", OMMA_MAX_VIDEO_FRAMES,
                        frames->n_left);
}

/* Reads the next frame's file, of which there must be one; its format is recognised by its content.
 * False with *error filled. The file is to be freed in any case. */
static bool video_frames_next(const struct ommai_server *server, struct video_frames *frames, struct ommai_media_file *file,
                              struct ommai_api_error *error) {
  const char *comma = memchr(frames->at, ',', (size_t)(frames->end - frames->at));
  const char *end = comma ? comma : frames->end;
  bool done = ommai_media_read_base64(server, FIELD, frames->at, (size_t)(end - frames->at), file, error);
  frames->at = comma ? comma + 1 : frames->end;
  frames->n_left--;
  return done;
}

/* ---- loading ---- */

static bool client_is_gone(void *call) { return ommai_http_call_is_gone(call); }

/* One step for all parts that name media, until the client leaves. */
static bool for_each_part(struct loading *loading, part_step step, struct ommai_api_error *error) {
  struct ommai_chat_request *request = loading->request;
  for (size_t i = 0, index = 0; i < request->n_messages; i++) {
    for (size_t j = 0; j < request->messages[i].n_parts; j++, index++) {
      if (!request->media[index].url || ommai_http_call_is_gone(loading->call)) continue;
      if (!step(loading, &request->media[index], &request->parts[index], error)) {
        char location[OMMAI_CHAT_LOCATION_SIZE];
        return ommai_api_error_prefix(error, "%s.content[%zu]", ommai_chat_location(request, i, location), j);
      }
    }
  }
  return true;
}

static bool make_room(struct loading *loading, struct ommai_media_part *media, size_t n_images, struct ommai_api_error *error) {
  const struct omma_allocator *allocator = loading->request->allocator;
  media->images = ommai_allocate(allocator, n_images, sizeof *media->images);
  media->files = ommai_allocate(allocator, n_images, sizeof *media->files);
  media->n_images = n_images;
  return (media->images && media->files) || ommai_api_fail_memory(error);
}

static bool count_file(struct loading *loading, const struct ommai_media_file *file, struct ommai_api_error *error) {
  loading->file_bytes += (int64_t)file->size;
  return loading->file_bytes <= MAX_FILE_BYTES ||
         ommai_api_fail(error, 400, "image", "The image files of a request may have at most %" PRId64 " bytes together.",
                        MAX_FILE_BYTES);
}

static bool read_frames(struct loading *loading, struct ommai_media_part *media, struct ommai_api_error *error) {
  const struct ommai_video_fields *fields = &loading->request->video;
  size_t max_frames = fields->max_frames < 0 ? 0 : (size_t)fields->max_frames;
  struct video_frames frames = {0};
  if (!video_frames_open(media->url, media->url_size, max_frames, &frames, error) ||
      !make_room(loading, media, frames.n_left, error)) {
    return false;
  }
  for (size_t i = 0; frames.n_left && !ommai_http_call_is_gone(loading->call); i++) {
    if (!video_frames_next(loading->server, &frames, &media->files[i], error) ||
        !count_file(loading, &media->files[i], error)) {
      return ommai_api_error_prefix(error, "frame %zu", i);
    }
  }
  return true;
}

static bool read_files(struct loading *loading, struct ommai_media_part *media, struct omma_part *part,
                       struct ommai_api_error *error) {
  (void)part;
  if (media->is_video) return read_frames(loading, media, error);
  struct ommai_media_file *file;
  if (!make_room(loading, media, 1, error)) return false;
  file = &media->files[0];
  bool read = media->is_base64 ? ommai_media_read_base64(loading->server, "data", media->url, media->url_size, file, error)
                               : ommai_media_read(loading->server, media->url, media->url_size, &loading->stop, file, error);
  return read && count_file(loading, file, error);
}

/* An image that was resized before needs neither pixels nor memory for them. Frames of a video are
 * resized together and not kept. */
static bool recall(struct loading *loading, struct ommai_media_part *media, struct omma_part *part,
                   struct ommai_api_error *error) {
  return media->is_video ||
         ommai_media_recall(loading->server, &media->files[0], &part->image_options, &media->images[0], error);
}

/* Adds what the headers promise: memory, and tokens of the prompt. */
static bool add_sizes(struct loading *loading, struct ommai_media_part *media, struct omma_part *part,
                      struct ommai_api_error *error) {
  const struct omma_image_header *first = &media->files[0].header;
  struct omma_error cause = {0};
  struct omma_image_sizes size;
  for (size_t i = 0; i < media->n_images; i++) {
    if (media->images[i]) continue;
    const struct omma_image_header *header = &media->files[i].header;
    int64_t pixel_bytes = (int64_t)header->width * header->height * 3;
    loading->pixel_bytes += pixel_bytes;
    loading->scratch_bytes = ommai_max_i64(loading->scratch_bytes, header->decode_bytes - pixel_bytes);
  }
  enum omma_status status = media->is_video ? omma_model_video_sizes(loading->server->config.model, first->width, first->height,
                                                                     media->n_images, &part->image_options, &size, &cause)
                                            : omma_model_image_sizes(loading->server->config.model, first->width, first->height,
                                                                     &part->image_options, &size, &cause);
  if (status != OMMA_OK) return ommai_api_fail_from(error, &cause);
  loading->n_tokens += size.n_tokens;
  return true;
}

static bool check_context(const struct loading *loading, struct ommai_api_error *error) {
  int64_t limit = loading->server->config.info.max_model_len;
  return loading->n_tokens < limit || ommai_api_fail(error, 400, "input_tokens",
                                                     "This model's maximum context length is %" PRId64
                                                     " tokens. However, the images of your prompt alone are %" PRId64
                                                     " tokens. Please send fewer or smaller images, or lower max_pixels.",
                                                     limit, loading->n_tokens);
}

static bool take_memory(struct loading *loading, struct ommai_api_error *error) {
  struct ommai_stop stop = loading->stop;
  int64_t bytes = loading->pixel_bytes + loading->scratch_bytes;
  if (bytes == 0) return true;
  stop.deadline_ns = ommai_clock_ns() + BUDGET_WAIT_NS;
  if (!ommai_media_budget_take(&loading->server->media_budget, bytes, &stop, error)) return false;
  loading->request->media_bytes = bytes;
  return true;
}

static bool decode_one(struct loading *loading, struct ommai_media_file *file, struct omma_image **image,
                       struct ommai_api_error *error) {
  int64_t left_ms = (loading->cpu_end_ns - ommai_clock_thread_ns()) / 1000000;
  return ommai_media_decode(loading->server, file, ommai_max_i64(left_ms, 1), image, error);
}

static bool decode(struct loading *loading, struct ommai_media_part *media, struct omma_part *part,
                   struct ommai_api_error *error) {
  for (size_t i = 0; i < media->n_images; i++) {
    if (ommai_http_call_is_gone(loading->call)) return true;
    if (!media->images[i] && !decode_one(loading, &media->files[i], &media->images[i], error)) {
      return media->is_video ? ommai_api_error_prefix(error, "frame %zu", i) : false;
    }
  }
  if (!media->is_video) {
    part->image = media->images[0];
    return true;
  }
  media->video = (struct omma_video){.frames = (const struct omma_image *const *)media->images,
                                     .n_frames = media->n_images,
                                     .fps = loading->request->video.fps};
  part->video = &media->video;
  return true;
}

static bool load(struct ommai_http_call *call, struct ommai_chat_request *request, struct ommai_api_error *error) {
  struct ommai_server *server = call->server;
  struct loading loading = {.call = call, .server = server, .request = request};
  loading.stop = (struct ommai_stop){.ask = client_is_gone,
                                     .context = call,
                                     .deadline_ns = ommai_clock_ns() + server->config.fetch_rules.timeout_ms * 1000000};
  if (!for_each_part(&loading, read_files, error)) return false;
  if (ommai_http_call_is_gone(call)) return true;
  if (!for_each_part(&loading, recall, error) || !for_each_part(&loading, add_sizes, error) ||
      !check_context(&loading, error) || !take_memory(&loading, error))
    return false;
  loading.cpu_end_ns = ommai_clock_thread_ns() + server->config.settings.media_cpu_ms * 1000000;
  return for_each_part(&loading, decode, error);
}

bool ommai_chat_media_load(struct ommai_http_call *call, struct ommai_chat_request *request, struct ommai_api_error *error) {
  int64_t start = ommai_clock_ns();
  bool done = load(call, request, error);
  if (request->n_images + request->n_videos) ommai_access_set_decode(call, (double)(ommai_clock_ns() - start) * 1e-9);
  return done;
}
