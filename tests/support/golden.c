#include "support/golden.h"

#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "support/test.h"

const char *const golden_models[] = {"qwen3_vl_tied",
                                     "qwen3_vl_untied",
                                     "qwen3_vl_wide",
                                     "qwen3_vl_heads",
                                     "qwen2_5_vl_untied",
                                     "qwen2_5_vl_tied",
                                     "qwen3_vl_moe",
                                     "qwen3_5_tied",
                                     "qwen3_5_untied",
                                     "qwen3_5_moe",
                                     "kimi_vl",
                                     "qwen2_vl_untied",
                                     "qwen2_vl_tied",
                                     "qwen2_5_vl_sliding",
                                     "qwen2_vl_sliding",
                                     "paddleocr_vl",
                                     "paddleocr_vl_saved",
                                     "glm_ocr",
                                     "glm_ocr_saved",
                                     "lighton_ocr",
                                     "lighton_ocr_saved",
                                     "dots_ocr",
                                     NULL};

void golden_path(const char *model, const char *file, char *out, size_t size) {
  snprintf(out, size, "%s/golden/%s%s%s", OMMA_TEST_DATA, model, file ? "/" : "", file ? file : "");
}

json_t *golden_manifest(const char *model) {
  char path[1024];
  json_error_t reason;
  golden_path(model, "golden.json", path, sizeof path);
  json_t *manifest = json_load_file(path, JSON_ALLOW_NUL, &reason);
  if (!manifest) fail_msg("%s: %s", path, reason.text);
  return manifest;
}

static const struct omma_image *load_image(struct golden_case *c, const char *name) {
  char path[1024];
  struct omma_error error;
  golden_path("images", name, path, sizeof path);
  assert_true(c->n_images < GOLDEN_MAX_IMAGES);
  assert_ok(omma_image_load(path, NULL, &c->images[c->n_images], &error), &error);
  c->image_names[c->n_images] = name;
  return c->images[c->n_images++];
}

/* The frames lie next to each other in the case's images. */
static const struct omma_video *load_video(struct golden_case *c, const json_t *part) {
  const json_t *frames = json_object_get(part, "video");
  struct omma_video *video = &c->videos[c->n_videos++];
  assert_true(c->n_videos <= GOLDEN_MAX_PARTS);
  *video = (struct omma_video){.frames = (const struct omma_image *const *)&c->images[c->n_images],
                               .n_frames = json_array_size(frames),
                               .fps = json_number_value(json_object_get(part, "fps"))};
  for (size_t i = 0; i < video->n_frames; i++) load_image(c, json_string_value(json_array_get(frames, i)));
  return video;
}

static void add_part(struct golden_case *c, size_t message, const json_t *part) {
  size_t n = c->messages[message].n_parts++;
  struct omma_part *out = &c->parts[message][n];
  assert_true(n < GOLDEN_MAX_PARTS);
  if (json_is_string(part)) {
    *out = (struct omma_part){.text = json_string_value(part), .text_size = json_string_length(part)};
  } else if (json_object_get(part, "image")) {
    *out = (struct omma_part){.image = load_image(c, json_string_value(json_object_get(part, "image")))};
  } else if (json_object_get(part, "video")) {
    *out = (struct omma_part){.video = load_video(c, part)};
  } else {
    const json_t *text = json_object_get(part, "text");
    *out = (struct omma_part){.text = json_string_value(text), .text_size = json_string_length(text)};
  }
}

static void add_message(struct golden_case *c, const json_t *message) {
  const char *role = json_string_value(json_object_get(message, "role"));
  const json_t *content = json_object_get(message, "content");
  size_t at = c->n_messages++;
  assert_true(at < GOLDEN_MAX_MESSAGES);
  c->messages[at].role = strcmp(role, "system") == 0 ? OMMA_ROLE_SYSTEM
                         : strcmp(role, "user") == 0 ? OMMA_ROLE_USER
                                                     : OMMA_ROLE_ASSISTANT;
  c->messages[at].parts = c->parts[at];
  if (json_is_string(content)) {
    add_part(c, at, content);
    return;
  }
  for (size_t i = 0; i < json_array_size(content); i++) add_part(c, at, json_array_get(content, i));
}

static struct ommai_safetensors *open_tensors(const char *model, const json_t *object, const char *key) {
  char path[1024];
  struct omma_error error;
  struct ommai_safetensors *tensors;
  golden_path(model, json_string_value(json_object_get(object, key)), path, sizeof path);
  assert_ok(ommai_safetensors_open(path, &ommai_default_allocator, &tensors, &error), &error);
  return tensors;
}

static bool open_entry(const char *model, const json_t *manifest, const char *list, size_t index, struct golden_case *c) {
  const json_t *cases = json_object_get(manifest, list);
  if (index >= json_array_size(cases)) return false;
  memset(c, 0, sizeof *c);
  c->model = model;
  c->json = json_array_get(cases, index);
  c->name = json_string_value(json_object_get(c->json, "name"));
  c->row_stride = json_integer_value(json_object_get(manifest, "row_stride"));
  assert_true(c->row_stride > 0);
  c->continued = json_is_true(json_object_get(c->json, "continue_final_message"));
  c->tensors = open_tensors(model, c->json, "tensors_file");
  c->image_tensors = open_tensors(model, manifest, "image_tensors_file");
  return true;
}

static bool open_case(const char *model, const json_t *manifest, const char *list, size_t index, struct golden_case *c) {
  if (!open_entry(model, manifest, list, index, c)) return false;
  const json_t *messages = json_object_get(c->json, "messages");
  for (size_t i = 0; i < json_array_size(messages); i++) add_message(c, json_array_get(messages, i));
  return true;
}

bool golden_case_open(const char *model, const json_t *manifest, size_t index, struct golden_case *c) {
  return open_case(model, manifest, "cases", index, c);
}

bool golden_any_case_open(const char *model, const json_t *manifest, size_t index, struct golden_case *c) {
  size_t n = json_array_size(json_object_get(manifest, "cases"));
  return index < n ? golden_case_open(model, manifest, index, c) : open_case(model, manifest, "video_cases", index - n, c);
}

void golden_case_close(struct golden_case *c) {
  for (size_t i = 0; i < c->n_images; i++) omma_image_destroy(c->images[i]);
  ommai_safetensors_close(c->tensors);
  ommai_safetensors_close(c->image_tensors);
}

bool golden_has(const struct golden_case *c, const char *name) { return ommai_safetensors_find(c->tensors, name) != NULL; }

const struct ommai_tensor *golden_tensor(const struct golden_case *c, const char *name) {
  const struct ommai_tensor *tensor = ommai_safetensors_find(c->tensors, name);
  if (!tensor) fail_msg("%s, %s: no tensor %s", c->model, c->name, name);
  return tensor;
}

const struct ommai_tensor *golden_pixels(const struct golden_case *c, size_t i) {
  char name[256];
  snprintf(name, sizeof name, "image.%s.pixels_u8", c->image_names[i]);
  const struct ommai_tensor *pixels = ommai_safetensors_find(c->image_tensors, name);
  if (!pixels) fail_msg("%s, %s: no tensor %s", c->model, c->name, name);
  return pixels;
}

float *golden_f32(const struct golden_case *c, const char *name, int64_t *n) {
  const struct ommai_tensor *tensor = golden_tensor(c, name);
  float *values = malloc((size_t)tensor->n_elements * sizeof *values);
  assert_true(ommai_tensor_to_f32(tensor, 0, tensor->n_elements, values));
  if (n) *n = tensor->n_elements;
  return values;
}

int64_t *golden_i64(const struct golden_case *c, const char *name, int64_t *n) {
  const struct ommai_tensor *tensor = golden_tensor(c, name);
  assert_int_equal(tensor->type, OMMAI_TENSOR_I64);
  int64_t *values = malloc((size_t)tensor->size_bytes);
  memcpy(values, tensor->data, (size_t)tensor->size_bytes);
  if (n) *n = tensor->n_elements;
  return values;
}

struct golden_error golden_compare(const float *got, const float *expected, int64_t n_rows, int64_t width) {
  struct golden_error error = {0};
  double all_difference = 0, all_norm = 0;
  for (int64_t row = 0; row < n_rows; row++) {
    double difference = 0, norm = 0;
    for (int64_t i = row * width; i < (row + 1) * width; i++) {
      double d = (double)got[i] - expected[i];
      difference += d * d;
      norm += (double)expected[i] * expected[i];
    }
    all_difference += difference;
    all_norm += norm;
    double relative = sqrt(difference) / (sqrt(norm) + 1e-30);
    if (!(relative <= error.worst_row)) {
      error.worst_row = relative;
      error.row = row;
    }
  }
  error.whole = sqrt(all_difference) / (sqrt(all_norm) + 1e-30);
  return error;
}

int64_t golden_stored_rows(const struct golden_case *c, int64_t n_rows) {
  return n_rows > 0 ? (n_rows - 1 + c->row_stride - 1) / c->row_stride + 1 : 0;
}

int64_t golden_row(const struct golden_case *c, int64_t k, int64_t n_rows) {
  return k * c->row_stride < n_rows ? k * c->row_stride : n_rows - 1;
}

void golden_expect(const struct golden_case *c, const char *stage, const float *got, int64_t n_rows, int64_t width,
                   double bound) {
  int64_t n, n_stored = golden_stored_rows(c, n_rows);
  float *expected = golden_f32(c, stage, &n), *sample = malloc((size_t)(n_stored * width + 1) * sizeof *sample);
  if (n != n_stored * width) {
    fail_msg("%s, %s: %s has %lld rows of %lld, of which %lld values should be kept; the fixture keeps %lld", c->model, c->name,
             stage, (long long)n_rows, (long long)width, (long long)(n_stored * width), (long long)n);
  }
  for (int64_t k = 0; k < n_stored; k++) {
    memcpy(sample + k * width, got + golden_row(c, k, n_rows) * width, (size_t)width * sizeof *sample);
  }
  struct golden_error error = golden_compare(sample, expected, n_stored, width);
  free(sample);
  free(expected);
  if (!(error.worst_row <= bound)) {
    fail_msg("%s, %s: %s is the first stage that differs: row %lld is off by %g, allowed %g", c->model, c->name, stage,
             (long long)golden_row(c, error.row, n_rows), error.worst_row, bound);
  }
}

/* A tower with windows takes the blocks in the order of vision.window_index: brings its rows back.
 * The caller frees. */
static float *in_block_order(const struct golden_case *c, const float *data, int64_t n_rows, int64_t width) {
  int64_t n_blocks, *order = golden_i64(c, "vision.window_index", &n_blocks), values = n_rows / n_blocks * width;
  float *rows = malloc((size_t)(n_rows * width) * sizeof *rows);
  for (int64_t k = 0; k < n_blocks; k++) {
    memcpy(rows + order[k] * values, data + k * values, (size_t)values * sizeof *rows);
  }
  free(order);
  return rows;
}

void golden_observe_vision(void *context, const char *stage, int64_t index, const float *data, int64_t n_rows, int64_t width) {
  struct golden_observer *observer = context;
  char name[64];
  if (strcmp(stage, "block") == 0) {
    snprintf(name, sizeof name, "vision.block.%lld", (long long)index);
  } else {
    snprintf(name, sizeof name, "vision.%s", stage);
  }
  if (!golden_has(observer->c, name)) return;
  float *rows = golden_has(observer->c, "vision.window_index") ? in_block_order(observer->c, data, n_rows, width) : NULL;
  golden_expect(observer->c, name, rows ? rows : data, n_rows, width, observer->bound);
  free(rows);
  observer->n_checked++;
}

int64_t golden_count_stages(const struct golden_case *c, const char *name, const char *numbered) {
  int64_t n = name ? golden_has(c, name) : 0;
  char stage[64];
  for (int64_t i = 0; snprintf(stage, sizeof stage, "%s.%lld", numbered, (long long)i) && golden_has(c, stage); i++) n++;
  return n;
}
