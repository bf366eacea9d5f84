#include "server/api/own_fields.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "server/core/request_json.h"
#include "server/http/access.h"

#define PROGRESS_NS INT64_C(100000000)

bool ommai_own_wishes_read(const json_t *root, struct ommai_own_wishes *wishes, struct ommai_api_error *error) {
  static const char *const known[] = {"details", "progress", NULL};
  const json_t *object;
  if (!ommai_field_object(root, "ommatidia", known, &object, error)) return false;
  return ommai_field_boolean(object, "details", &wishes->details, error) &&
         ommai_field_boolean(object, "progress", &wishes->progress, error);
}

bool ommai_own_progress_is_due(struct ommai_own_progress *progress, enum omma_stage stage, int64_t done, int64_t total) {
  int64_t now = ommai_clock_ns();
  if (stage == progress->stage && done < total && now - progress->sent_ns < PROGRESS_NS) return false;
  progress->stage = stage;
  progress->sent_ns = now;
  return true;
}

void ommai_own_add_image(struct ommai_text *list, int32_t width, int32_t height, const struct omma_image_sizes *sizes) {
  ommai_put_begin(list, NULL, "{");
  OMMAI_PUT_INTEGERS(list, {"width", width}, {"height", height}, {"resized_width", sizes->resized_width},
                     {"resized_height", sizes->resized_height}, {"tokens", sizes->n_tokens});
  ommai_put_end(list, "}");
}

static const char *unit_name(enum omma_box_unit unit) {
  switch (unit) {
    case OMMA_BOX_UNIT_THOUSANDTHS: return "thousandths";
    case OMMA_BOX_UNIT_RESIZED_PIXELS: return "resized_pixels";
    default: return NULL;
  }
}

static void add_media(struct ommai_text *out, const struct ommai_text *list, enum omma_box_unit unit) {
  ommai_put_list(out, "images", list);
  ommai_put_string(out, "box_unit", unit_name(unit));
}

static void begin_comment(struct ommai_text *out) {
  ommai_text_add(out, ": ommatidia ");
  ommai_put_begin(out, NULL, "{");
}

void ommai_own_add_media_comment(struct ommai_text *out, const struct ommai_text *list, enum omma_box_unit unit) {
  begin_comment(out);
  add_media(out, list, unit);
  ommai_put_end(out, "}\n\n");
}

void ommai_own_add_progress_comment(struct ommai_text *out, enum omma_stage stage, int64_t done, int64_t total) {
  begin_comment(out);
  ommai_put_string(out, "stage", ommai_stage_name(stage));
  OMMAI_PUT_INTEGERS(out, {"done", done}, {"total", total});
  ommai_put_end(out, "}\n\n");
}

void ommai_own_add_details(struct ommai_text *out, const struct ommai_access *access, double first_token, double total,
                           const struct ommai_text *list, enum omma_box_unit unit) {
  const struct omma_timings *timings = &access->timings;
  const struct {
    const char *name;
    double seconds;
  } parts[] = {{"queue", timings->queue},           {"decode_image", access->decode_image},
               {"preprocess", timings->preprocess}, {"encode", timings->encode},
               {"prefill", timings->prefill},       {"decode", timings->decode},
               {"first_token", first_token},        {"total", total}};
  ommai_put_begin(out, NULL, "{");
  ommai_put_begin(out, "timings", "{");
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) ommai_put_fixed(out, parts[i].name, parts[i].seconds, 6);
  ommai_put_end(out, "}");
  add_media(out, list, unit);
  ommai_put_end(out, "}");
}
