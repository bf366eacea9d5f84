#include "engine/kept_page.h"

#include <omma/attention.h>
#include <string.h>

#include "request/request.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS };

/* Where the image begins that token `index` belongs to: its rows stand in order, a video's perhaps
 * with text between. */
static int64_t first_token_of_image(const struct omma_request *request, int64_t index) {
  int32_t image = request->tokens[index].image;
  while (index > 0 && (request->tokens[index].image != image || request->tokens[index].image_row > 0)) index--;
  return index;
}

static int64_t find_images(const struct omma_request *request, int64_t first, struct omma_kv_page_image *images) {
  int64_t n = 0;
  int32_t last = -1;
  for (int64_t i = first; i < first + PAGE; i++) {
    int32_t image = request->tokens[i].image;
    if (image < 0 || image == last) continue;
    last = image;
    images[n].first_token = first_token_of_image(request, i) - first;
    memcpy(images[n].key, request->keys[image].bytes, sizeof images[n].key);
    n++;
  }
  return n;
}

void ommai_kept_page_report(const struct omma_kv_events *events, const struct omma_request *request, int64_t page) {
  struct omma_kv_page_image images[PAGE];
  if (!events->stored) return;
  const struct omma_kv_page event = {.key = request->page_keys[page],
                                     .parent = page ? &request->page_keys[page - 1] : NULL,
                                     .tokens = request->ids + page * PAGE,
                                     .images = images,
                                     .n_images = find_images(request, page * PAGE, images),
                                     .cache_salt = page ? NULL : request->cache_salt};
  events->stored(events->context, &event);
}
