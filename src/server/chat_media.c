#include "server/chat_media.h"

#include <inttypes.h>

#include "base/allocator.h"
#include "server/media.h"
#include "server/media_video.h"
#include "server/server_state.h"

/* Pixels of all pictures and frames of a request, 1.5 GiB. */
#define MAX_DECODED_PIXELS (INT64_C(512) << 20)

/* Where a request's pictures are loaded to. */
struct loading {
  struct ommai_exchange *exchange;
  struct ommai_chat_request *request;
  int64_t pixels; /* decoded so far */
};

static bool client_is_gone(void *exchange) { return ommai_exchange_is_gone(exchange); }

/* An operator who lets single pictures be larger than all may be has said that there is memory. */
static bool count_pixels(struct loading *loading, const struct omma_image *image, struct ommai_api_error *error) {
  int64_t one = loading->exchange->server->image_limits.max_pixels, limit = one > MAX_DECODED_PIXELS ? one : MAX_DECODED_PIXELS;
  loading->pixels += (int64_t)omma_image_width(image) * omma_image_height(image);
  return loading->pixels <= limit ||
         ommai_api_fail(error, 400, "image",
                        "The pictures and frames of a request may have at most %" PRId64 " pixels together.", limit);
}

static bool make_room(struct loading *loading, struct ommai_media_part *media, size_t n_images, struct ommai_api_error *error) {
  media->images = ommai_allocate(loading->request->allocator, n_images, sizeof *media->images);
  if (!media->images) return ommai_api_fail(error, 503, NULL, "The server has no memory for this request now.");
  media->n_images = n_images;
  return true;
}

static bool load_image(struct loading *loading, struct ommai_media_part *media, struct omma_part *part,
                       struct ommai_api_error *error) {
  struct ommai_stop stop = {client_is_gone, loading->exchange};
  if (!make_room(loading, media, 1, error) ||
      !ommai_media_load(loading->exchange->server, media->url, media->url_size, &stop, &media->images[0], error)) {
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
      return false;
    }
  }
  media->video = (struct omma_video){
      .frames = (const struct omma_image *const *)media->images, .n_frames = media->n_images, .fps = fields->fps};
  part->video = &media->video;
  return true;
}

bool ommai_chat_media_load(struct ommai_exchange *exchange, struct ommai_chat_request *request, struct ommai_api_error *error) {
  struct loading loading = {.exchange = exchange, .request = request};
  for (size_t i = 0; i < request->n_parts_used; i++) {
    struct ommai_media_part *media = &request->media[i];
    if (!media->url) continue;
    if (ommai_exchange_is_gone(exchange)) return true;
    bool (*load)(struct loading *, struct ommai_media_part *, struct omma_part *, struct ommai_api_error *) =
        media->is_video ? load_video : load_image;
    if (!load(&loading, media, &request->parts[i], error)) return false;
  }
  return true;
}

void ommai_chat_media_destroy(const struct ommai_chat_request *request, struct ommai_media_part *media) {
  for (size_t i = 0; i < media->n_images; i++) omma_image_destroy(media->images[i]);
  ommai_release(request->allocator, media->images, media->n_images, sizeof *media->images);
}
