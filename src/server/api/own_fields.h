/* What this server reports beyond OpenAI's API, to requests that ask for it in their field
 * `ommatidia`. */
#pragma once

#include <jansson.h>
#include <omma/omma.h>
#include <stdbool.h>

#include "base/text_buffer.h"
#include "server/core/api_error.h"

struct ommai_access;

/* {"ommatidia": {"details": true, "progress": true}} */
struct ommai_own_wishes {
  bool details;  /* an object `ommatidia` after the usage */
  bool progress; /* comment lines `: ommatidia {...}` in a stream until the first token */
};

/* False with *error filled: no object, an unknown key, no boolean. */
bool ommai_own_wishes_read(const json_t *root, struct ommai_own_wishes *wishes, struct ommai_api_error *error);

/* Which progress was reported last; zeroed at the beginning. */
struct ommai_own_progress {
  enum omma_stage stage;
  int64_t sent_ns;
};

/* True when a progress should be reported: of another stage, at its end, or a tenth of a second
 * after the last one. */
bool ommai_own_progress_is_due(struct ommai_own_progress *progress, enum omma_stage stage, int64_t done, int64_t total);

/* `"images":[...],"box_unit":...` for a list that has been begun with ommai_own_add_image for each
 * image. */
void ommai_own_add_image(struct ommai_text *list, int32_t width, int32_t height, const struct omma_image_sizes *sizes);

/* An event that is a comment: `: ommatidia {...}` and an empty line. */
void ommai_own_add_media_comment(struct ommai_text *out, const struct ommai_text *list, enum omma_box_unit unit);
void ommai_own_add_progress_comment(struct ommai_text *out, enum omma_stage stage, int64_t done, int64_t total);

/* `{"timings":{...},"images":[...],"box_unit":...}`; seconds. */
void ommai_own_add_details(struct ommai_text *out, const struct ommai_access *access, double first_token, double total,
                           const struct ommai_text *list, enum omma_box_unit unit);
