#include "families/image_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum { MAX_WHERE = OMMAI_DOCUMENT_PATH_SIZE + sizeof ": image_processor" };

static enum omma_status read_triple(const json_t *object, const char *where, const char *key, const float fallback[3],
                                    float out[3], struct omma_error *error) {
  json_t *array;
  memcpy(out, fallback, 3 * sizeof *out);
  OMMAI_TRY(ommai_json_array(object, where, key, false, &array, error));
  if (!array) return OMMA_OK;
  if (json_array_size(array) != 3) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%s: key \"%s\": expected 3 numbers, found %zu", where, key,
                            json_array_size(array));
  }
  for (size_t i = 0; i < 3; i++) {
    const json_t *value = json_array_get(array, i);
    double number = json_number_value(value);
    if (!json_is_number(value) || !(fabs(number) <= 1000)) {
      return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%s: key \"%s\": entry %zu is not a sensible number", where, key,
                              i);
    }
    out[i] = (float)number;
  }
  return OMMA_OK;
}

/* *min_pixels and *max_pixels are the defaults where there is no `size`. */
static enum omma_status read_limits(const json_t *object, const char *where, int64_t *min_pixels, int64_t *max_pixels,
                                    struct omma_error *error) {
  enum { MAX_AREA = 1 << 30 };
  json_t *size;
  OMMAI_TRY(ommai_json_object(object, where, "size", false, &size, error));
  if (size) {
    OMMAI_TRY(ommai_json_integer(size, where, "shortest_edge", false, 1, MAX_AREA, min_pixels, error));
    OMMAI_TRY(ommai_json_integer(size, where, "longest_edge", false, 1, MAX_AREA, max_pixels, error));
  }
  OMMAI_TRY(ommai_json_integer(object, where, "min_pixels", false, 1, MAX_AREA, min_pixels, error));
  OMMAI_TRY(ommai_json_integer(object, where, "max_pixels", false, 1, MAX_AREA, max_pixels, error));
  if (*min_pixels < 1 || *max_pixels < *min_pixels) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "size",
                            "%s: expected area limits 1 <= shortest_edge <= longest_edge, found %lld and %lld", where,
                            (long long)*min_pixels, (long long)*max_pixels);
  }
  return OMMA_OK;
}

/* The limit of sides of OMMAI_SIZING_EDGE, whose square max_pixels is. */
static enum omma_status read_edge(const json_t *object, const char *where, const struct ommai_processor_defaults *defaults,
                                  struct ommai_image_config *image, struct omma_error *error) {
  enum { MAX_EDGE = 1 << 15 };
  json_t *size;
  int64_t edge = 0;
  image->min_pixels = 0;
  image->max_pixels = defaults->max_pixels;
  OMMAI_TRY(ommai_json_object(object, where, "size", false, &size, error));
  if (!size) return OMMA_OK;
  OMMAI_TRY(ommai_json_integer(size, where, "longest_edge", true, 1, MAX_EDGE, &edge, error));
  image->max_pixels = edge * edge;
  return OMMA_OK;
}

/* The limit of patches and the padding of OMMAI_SIZING_PATCHES. */
static enum omma_status read_patch_limit(const json_t *object, const char *where, const struct ommai_vision_config *vision,
                                         struct ommai_image_config *image, struct omma_error *error) {
  enum { MAX_PATCHES = 1 << 20 };
  int64_t limit = 4096, merge[2] = {vision->merge_size, vision->merge_size};
  size_t count = 2;
  bool pad = false;
  OMMAI_TRY(ommai_json_integer(object, where, "in_token_limit", false, 1, MAX_PATCHES, &limit, error));
  OMMAI_TRY(ommai_json_integers(object, where, "merge_kernel_size", false, 1, 1024, merge, 2, &count, error));
  OMMAI_TRY(ommai_json_boolean(object, where, "pad_input", false, &pad, error));
  if (!pad) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "pad_input", "%s: key \"pad_input\": expected true", where);
  }
  if (count != 2 || merge[0] != vision->merge_size || merge[1] != vision->merge_size) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "merge_kernel_size",
                            "%s: key \"merge_kernel_size\": expected [%lld, %lld] as in config.json", where,
                            (long long)vision->merge_size, (long long)vision->merge_size);
  }
  image->min_pixels = 0;
  image->max_pixels = limit * vision->patch_size * vision->patch_size;
  return OMMA_OK;
}

/* The switches whose other position this program does not have. */
static enum omma_status refuse_unusual(const json_t *object, const char *where, struct omma_error *error) {
  static const char *const switches[] = {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"};
  for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
    bool on = true;
    OMMAI_TRY(ommai_json_boolean(object, where, switches[i], false, &on, error));
    if (!on) {
      return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, switches[i], "%s: key \"%s\": false is not supported", where,
                              switches[i]);
    }
  }
  double factor = 1.0 / 255.0;
  OMMAI_TRY(ommai_json_number(object, where, "rescale_factor", false, &factor, error));
  if (fabs(factor * 255.0 - 1.0) > 1e-6) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "rescale_factor",
                            "%s: key \"rescale_factor\": expected 1/255, found %g", where, factor);
  }
  int64_t resample = 3; /* bicubic */
  OMMAI_TRY(ommai_json_integer(object, where, "resample", false, 0, 5, &resample, error));
  if (resample != 3) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "resample", "%s: key \"resample\": expected 3 (bicubic), found %lld",
                            where, (long long)resample);
  }
  return OMMA_OK;
}

static enum omma_status expect(const json_t *object, const char *where, const char *key, int64_t tower,
                               struct omma_error *error) {
  int64_t value = tower;
  OMMAI_TRY(ommai_json_integer(object, where, key, false, 1, 1024, &value, error));
  if (value != tower) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%s: key \"%s\": expected %lld as in config.json, found %lld", where,
                            key, (long long)tower, (long long)value);
  }
  return OMMA_OK;
}

/* patch_size as a number, or as an object with height and width. Where sides are limited it may be
 * that of a whole merge block: the official processor cuts sides to multiples of it. */
static enum omma_status expect_patch_size(const json_t *object, const char *where, const struct ommai_vision_config *vision,
                                          bool or_block, struct omma_error *error) {
  const json_t *given = json_object_get(object, "patch_size"), *sides = json_is_object(given) ? given : NULL;
  static const char *const keys[] = {"height", "width"};
  int64_t block = vision->patch_size * vision->merge_size;
  for (size_t i = 0; i < (sides ? 2 : 1); i++) {
    const char *key = sides ? keys[i] : "patch_size";
    const json_t *value = sides ? json_object_get(sides, key) : given;
    if (or_block && json_is_integer(value) && json_integer_value(value) == block) continue;
    OMMAI_TRY(expect(sides ? sides : object, where, key, vision->patch_size, error));
  }
  return OMMA_OK;
}

/* What images and videos have alike: how patches are cut and normalised. */
static enum omma_status parse_patches(const json_t *object, const char *where, const struct ommai_vision_config *vision,
                                      const float mean[3], const float std[3], bool block_size,
                                      struct ommai_patch_spec *patches, struct omma_error *error) {
  OMMAI_TRY(expect_patch_size(object, where, vision, block_size, error));
  OMMAI_TRY(expect(object, where, "temporal_patch_size", vision->temporal_patch_size, error));
  OMMAI_TRY(expect(object, where, "merge_size", vision->merge_size, error));
  OMMAI_TRY(refuse_unusual(object, where, error));
  patches->patch_size = (int32_t)vision->patch_size;
  patches->merge_size = (int32_t)vision->merge_size;
  patches->temporal = (int32_t)vision->temporal_patch_size;
  OMMAI_TRY(read_triple(object, where, "image_mean", mean, patches->mean, error));
  OMMAI_TRY(read_triple(object, where, "image_std", std, patches->std, error));
  for (int c = 0; c < 3; c++) {
    if (!(patches->std[c] > 0)) {
      return ommai_fail_field(error, OMMA_ERROR_FORMAT, "image_std", "%s: key \"image_std\": expected positive numbers", where);
    }
  }
  return OMMA_OK;
}

static enum omma_status parse_image(const json_t *object, const char *where, const struct ommai_vision_config *vision,
                                    const struct ommai_processor_defaults *defaults, struct ommai_image_config *image,
                                    struct omma_error *error) {
  bool edge = image->sizing == OMMAI_SIZING_EDGE;
  OMMAI_TRY(parse_patches(object, where, vision, defaults->mean, defaults->std, edge, &image->patches, error));
  if (edge) return read_edge(object, where, defaults, image, error);
  if (image->sizing == OMMAI_SIZING_PATCHES) return read_patch_limit(object, where, vision, image, error);
  const json_t *size = json_object_get(object, "size");
  bool has_size = size && !json_is_null(size);
  image->min_pixels = has_size ? 0 : defaults->min_pixels;
  image->max_pixels = has_size ? 0 : defaults->max_pixels;
  return read_limits(object, where, &image->min_pixels, &image->max_pixels, error);
}

static enum omma_status parse_video(const json_t *object, const char *where, const struct ommai_processor_defaults *defaults,
                                    struct ommai_model_config *config, struct omma_error *error) {
  struct ommai_patch_spec patches;
  struct ommai_video_config *video = &config->video;
  int64_t token_area = ommai_vision_joined_patches(&config->vision) * config->vision.patch_size * config->vision.patch_size;
  OMMAI_TRY(parse_patches(object, where, &config->vision, defaults->video_mean, defaults->video_std, false, &patches, error));
  for (int c = 0; c < 3; c++) {
    if (patches.mean[c] != config->image.patches.mean[c] || patches.std[c] != config->image.patches.std[c]) {
      return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "image_mean",
                              "%s: image_mean and image_std: expected those of images, other ones are not supported", where);
    }
  }
  /* The official defaults. */
  video->min_pixels = 128 * token_area;
  video->max_pixels = 768 * token_area;
  return read_limits(object, where, &video->min_pixels, &video->max_pixels, error);
}

/* The object that sets how images or videos are prepared. `root` is the document, to be decrefed;
 * NULL where there is none. */
struct processor {
  json_t *root, *object;
  char where[MAX_WHERE];
};

/* The part `key` of processor_config.json, as newer writers store it; it goes before the files of
 * older ones. */
static enum omma_status load_part(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                  const char *key, bool required, struct processor *out, struct omma_error *error) {
  char path[OMMAI_DOCUMENT_PATH_SIZE];
  *out = (struct processor){0};
  OMMAI_TRY(ommai_document_find(documents, "processor_config.json", allocator, path, &out->root, error));
  if (!out->root) return OMMA_OK;
  snprintf(out->where, sizeof out->where, "%s: %s", path, key);
  enum omma_status status = ommai_json_object(out->root, path, key, required, &out->object, error);
  if (status == OMMA_OK && out->object) return OMMA_OK;
  json_decref(out->root);
  *out = (struct processor){0};
  return status;
}

/* A file of its own. */
static enum omma_status load_file(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                  const char *file, struct processor *out, struct omma_error *error) {
  char path[OMMAI_DOCUMENT_PATH_SIZE];
  *out = (struct processor){0};
  OMMAI_TRY(ommai_document_find(documents, file, allocator, path, &out->root, error));
  snprintf(out->where, sizeof out->where, "%s", path);
  out->object = out->root;
  return OMMA_OK;
}

/* A published file in place of one that is missing. */
static enum omma_status load_published(const char *name, const char *text, struct processor *out, struct omma_error *error) {
  snprintf(out->where, sizeof out->where, "%s", name);
  OMMAI_TRY(ommai_json_load(out->where, text, strlen(text), &out->root, error));
  out->object = out->root;
  return OMMA_OK;
}

#define IMAGE_FILE "preprocessor_config.json"
#define IMAGE_KEY "image_processor"

enum omma_status ommai_image_config_read(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                         const struct ommai_default_processor *published,
                                         const struct ommai_processor_defaults *defaults,
                                         const struct ommai_vision_config *vision, struct ommai_image_config *image,
                                         struct omma_error *error) {
  struct processor processor;
  OMMAI_TRY(load_part(documents, allocator, IMAGE_KEY, false, &processor, error));
  if (!processor.root) OMMAI_TRY(load_file(documents, allocator, IMAGE_FILE, &processor, error));
  /* Without a file of its own the part is missed where its file is there. */
  if (!processor.root && !published) OMMAI_TRY(load_part(documents, allocator, IMAGE_KEY, true, &processor, error));
  image->published = !processor.root;
  if (!processor.root && !published) {
    return ommai_fail(error, OMMA_ERROR_IO, "%s/" IMAGE_FILE ": no such file; it belongs to the checkpoint",
                      documents->directory);
  }
  if (!processor.root) OMMAI_TRY(load_published(published->name, published->image, &processor, error));
  enum omma_status status = parse_image(processor.object, processor.where, vision, defaults, image, error);
  json_decref(processor.root);
  return status;
}

enum omma_status ommai_video_config_read(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                         const struct ommai_default_processor *published,
                                         const struct ommai_processor_defaults *defaults, struct ommai_model_config *config,
                                         struct omma_error *error) {
  struct processor processor;
  OMMAI_TRY(load_part(documents, allocator, "video_processor", false, &processor, error));
  if (!processor.root) OMMAI_TRY(load_file(documents, allocator, "video_preprocessor_config.json", &processor, error));
  if (!processor.root) OMMAI_TRY(load_file(documents, allocator, IMAGE_FILE, &processor, error));
  if (!processor.root && config->image.published) {
    const char *text = published->video ? published->video : published->image;
    OMMAI_TRY(load_published(published->name, text, &processor, error));
  } else if (!processor.root) {
    OMMAI_TRY(load_part(documents, allocator, IMAGE_KEY, true, &processor, error));
  }
  enum omma_status status = parse_video(processor.object, processor.where, defaults, config, error);
  json_decref(processor.root);
  return status;
}
