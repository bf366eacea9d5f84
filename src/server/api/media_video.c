#include "server/api/media_video.h"

#include <string.h>
#include <strings.h>

#define FIELD "video_url"

bool ommai_video_frames_open(const char *url, size_t url_size, size_t max_frames, struct ommai_video_frames *frames,
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
  *frames = (struct ommai_video_frames){.at = url + head_size, .end = url + url_size, .n_left = 1};
  for (const char *at = frames->at; (at = memchr(at, ',', (size_t)(frames->end - at))); at++) frames->n_left++;
  if (max_frames && frames->n_left > max_frames) frames->n_left = max_frames;
  if (frames->n_left <= OMMA_MAX_VIDEO_FRAMES) return true;
  return ommai_api_fail(error, 400, FIELD, "A video may have at most %d frames, found %zu.", OMMA_MAX_VIDEO_FRAMES,
                        frames->n_left);
}

bool ommai_video_frames_next(const struct ommai_server *server, struct ommai_video_frames *frames,
                             struct ommai_media_file *file, struct ommai_api_error *error) {
  const char *comma = memchr(frames->at, ',', (size_t)(frames->end - frames->at));
  const char *end = comma ? comma : frames->end;
  bool done = ommai_media_read_base64(server, FIELD, frames->at, (size_t)(end - frames->at), file, error);
  frames->at = comma ? comma + 1 : frames->end;
  frames->n_left--;
  return done;
}
