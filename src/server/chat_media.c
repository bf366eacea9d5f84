#include "server/chat_media.h"

#include <inttypes.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "server/media.h"
#include "server/media_video.h"
#include "server/server_state.h"

/* Decoded pixels of all pictures and frames of one request: 1.5 GiB at 3 bytes each. */
#define MAX_DECODED_PIXELS (INT64_C(512) << 20)

/* Where a request's pictures are loaded to. */
struct loading {
  struct ommai_exchange *exchange;
  struct ommai_chat_request *request;
  struct ommai_stop stop;
  int64_t pixels; /* decoded so far */
};

static bool client_is_gone(void *exchange) { return ommai_exchange_is_gone(exchange); }

static bool count_pixels(struct loading *loading, const struct omma_image *image, struct ommai_api_error *error) {
  loading->pixels += (int64_t)omma_image_width(image) * omma_image_height(image);
  return loading->pixels <= MAX_DECODED_PIXELS ||
         ommai_api_fail(error, 400, "image",
                        "The pictures and frames of a request may have at most %" PRId64 " pixels together.",
                        MAX_DECODED_PIXELS);
}

static bool make_room(struct loading *loading, struct ommai_media_part *media, size_t n_images, struct ommai_api_error *error) {
  media->images = ommai_allocate(loading->request->allocator, n_images, sizeof *media->images);
  if (!media->images) return ommai_api_fail_memory(error);
  media->n_images = n_images;
  return true;
}

static bool load_image(struct loading *loading, struct ommai_media_part *media, struct omma_part *part,
                       struct ommai_api_error *error) {
  if (!make_room(loading, media, 1, error) ||
      !ommai_media_load(loading->exchange->server, media->url, media->url_size, &loading->stop, &media->images[0], error)) {
    return false;
  }
  part->image = media->images[0];
  return count_pixels(loading, part->image, error);
}

static bool load_video(struct loading *loading, struct ommai_media_part *media, struct omma_part *part,
                       struct ommai_api_error *error) {
  const struct ommai_video_fields *fields = &loading->request->video;
  size_t max_frames = fields->max_frames < 0 ? 0 : (size_t)fields->max_frames;
  struct ommai_video_frames frames;
  if (!ommai_video_frames_open(media->url, media->url_size, max_frames, &frames, error) ||
      !make_room(loading, media, frames.n_left, error)) {
    return false;
  }
  for (size_t i = 0; frames.n_left; i++) {
    if (ommai_exchange_is_gone(loading->exchange)) return true;
    if (!ommai_video_frames_next(loading->exchange->server, &frames, &media->images[i], error) ||
        !count_pixels(loading, media->images[i], error)) {
      return ommai_api_error_prefix(error, "frame %zu", i);
    }
  }
  media->video = (struct omma_video){
      .frames = (const struct omma_image *const *)media->images, .n_frames = media->n_images, .fps = fields->fps};
  part->video = &media->video;
  return true;
}

static bool load_part(struct loading *loading, size_t index, struct ommai_api_error *error) {
  struct ommai_media_part *media = &loading->request->media[index];
  struct omma_part *part = &loading->request->parts[index];
  if (!media->url || ommai_exchange_is_gone(loading->exchange)) return true;
  return media->is_video ? load_video(loading, media, part, error) : load_image(loading, media, part, error);
}

static bool load_parts(struct ommai_exchange *exchange, struct ommai_chat_request *request, struct ommai_api_error *error) {
  struct loading loading = {.exchange = exchange, .request = request};
  loading.stop = (struct ommai_stop){.ask = client_is_gone,
                                     .context = exchange,
                                     .deadline_ns = ommai_clock_ns() + exchange->server->fetch_rules.timeout_ms * 1000000};
  for (size_t i = 0, index = 0; i < request->n_messages; i++) {
    for (size_t j = 0; j < request->messages[i].n_parts; j++) {
      if (!load_part(&loading, index++, error)) return ommai_api_error_prefix(error, "messages[%zu].content[%zu]", i, j);
    }
  }
  return true;
}

bool ommai_chat_media_load(struct ommai_exchange *exchange, struct ommai_chat_request *request, struct ommai_api_error *error) {
  int64_t start = ommai_clock_ns();
  bool done = load_parts(exchange, request, error);
  if (request->n_images + request->n_videos) ommai_access_set_decode(exchange, (double)(ommai_clock_ns() - start) * 1e-9);
  return done;
}

void ommai_chat_media_destroy(const struct ommai_chat_request *request, struct ommai_media_part *media) {
  for (size_t i = 0; i < media->n_images; i++) omma_image_destroy(media->images[i]);
  ommai_release(request->allocator, media->images, media->n_images, sizeof *media->images);
}
