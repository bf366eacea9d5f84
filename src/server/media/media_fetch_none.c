/* In a build without libcurl. */
#include "base/error.h"
#include "server/media/media_fetch.h"

enum omma_status ommai_media_fetch_start(struct omma_error *error) {
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "allowed_media_domains",
                          "this program was built without an HTTP client, so that it cannot fetch images: install libcurl "
                          "(Debian: libcurl4-openssl-dev) and build again");
}

void ommai_media_fetch_end(void) {}

bool ommai_media_fetch(const struct ommai_fetch_rules *rules, const char *url, size_t url_size, const struct ommai_stop *stop,
                       struct ommai_text *body, struct ommai_api_error *error) {
  (void)rules;
  (void)url;
  (void)url_size;
  (void)stop;
  (void)body;
  return ommai_api_fail(error, 400, "image_url",
                        "This server fetches no images, for it was built without libcurl: send them as data: URLs.");
}
