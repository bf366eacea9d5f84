#include "engine/prepared_image.h"

#include <sodium.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "base/team.h"
#include "image/image_fit.h"
#include "vision/vision_layout.h"

static struct ommai_image_limits effective_limits(const struct omma_image_limits *limits) {
  struct ommai_image_limits effective = ommai_image_default_limits;
  if (limits && limits->max_bytes) effective.max_bytes = limits->max_bytes;
  if (limits && limits->max_side) effective.max_side = limits->max_side;
  if (limits && limits->max_pixels) effective.max_pixels = limits->max_pixels;
  if (limits && limits->max_cpu_ms) effective.max_cpu_ms = limits->max_cpu_ms;
  return effective;
}

enum omma_status omma_image_probe(const void *bytes, size_t size, const struct omma_image_limits *limits,
                                  struct omma_image_header *header, struct omma_error *error) {
  struct ommai_image_limits effective = effective_limits(limits);
  struct ommai_image_header found;
  OMMAI_TRY(ommai_image_probe(bytes, size, &effective, &found, error));
  *header = (struct omma_image_header){found.width, found.height, found.decode_bytes};
  return OMMA_OK;
}

static void digest_of(const void *bytes, size_t size, uint8_t *digest) { crypto_generichash(digest, 32, bytes, size, NULL, 0); }

enum omma_status omma_image_decode(const void *bytes, size_t size, const struct omma_image_limits *limits,
                                   struct omma_image **out, struct omma_error *error) {
  struct ommai_image_limits effective = effective_limits(limits);
  struct omma_image *image = ommai_allocate(&ommai_default_allocator, 1, sizeof *image);
  if (!image) return ommai_fail_memory(error, "image", sizeof *image);
  enum omma_status status = ommai_image_decode(bytes, size, &effective, &ommai_huge_page_allocator, &image->decoded, error);
  if (status != OMMA_OK) {
    omma_image_destroy(image);
    return status;
  }
  image->width = image->decoded->width;
  image->height = image->decoded->height;
  image->has_digest = true;
  digest_of(bytes, size, image->digest);
  *out = image;
  return OMMA_OK;
}

enum omma_status omma_image_load(const char *path, const struct omma_image_limits *limits, struct omma_image **image,
                                 struct omma_error *error) {
  struct ommai_image_limits effective = effective_limits(limits);
  char *bytes;
  size_t size;
  OMMAI_TRY(ommai_file_read(path, (size_t)effective.max_bytes, &ommai_default_allocator, &bytes, &size, error));
  enum omma_status status = omma_image_decode(bytes, size, limits, image, error);
  if (status != OMMA_OK) ommai_error_prefix(error, "%s", path);
  ommai_release(&ommai_default_allocator, bytes, size + 1, 1);
  return status;
}

enum omma_status omma_image_from_rgb(int32_t width, int32_t height, const uint8_t *rgb, struct omma_image **out,
                                     struct omma_error *error) {
  if (width < 1 || height < 1 || width > OMMAI_IMAGE_MAX_SIDE || height > OMMAI_IMAGE_MAX_SIDE ||
      (int64_t)width * height > OMMAI_IMAGE_MAX_PIXELS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "image",
                            "image: expected sides of 1 to %lld and at most %lld pixels, found %d x %d",
                            (long long)OMMAI_IMAGE_MAX_SIDE, (long long)OMMAI_IMAGE_MAX_PIXELS, width, height);
  }
  const struct omma_allocator *allocator = &ommai_default_allocator, *large = &ommai_huge_page_allocator;
  size_t size = (size_t)width * (size_t)height * 3;
  struct omma_image *image = ommai_allocate(allocator, 1, sizeof *image);
  struct ommai_image *decoded = ommai_allocate(large, 1, sizeof *decoded);
  uint8_t *pixels = ommai_allocate_uninitialised(large, size, 1);
  if (!image || !decoded || !pixels) {
    ommai_release(allocator, image, 1, sizeof *image);
    ommai_release(large, decoded, 1, sizeof *decoded);
    ommai_release(large, pixels, size, 1);
    return ommai_fail_memory(error, "image", size);
  }
  memcpy(pixels, rgb, size);
  *decoded = (struct ommai_image){.width = width, .height = height, .pixels = pixels, .allocator = *large};
  image->decoded = decoded;
  image->width = width;
  image->height = height;
  *out = image;
  return OMMA_OK;
}

int32_t omma_image_width(const struct omma_image *image) { return image->width; }
int32_t omma_image_height(const struct omma_image *image) { return image->height; }
const uint8_t *omma_image_pixels(const struct omma_image *image) { return image->decoded ? image->decoded->pixels : NULL; }

void omma_image_destroy(struct omma_image *image) {
  if (!image) return;
  ommai_image_destroy(image->decoded);
  ommai_prepared_image_free(&image->known);
  ommai_release(&ommai_default_allocator, image, 1, sizeof *image);
}

static enum omma_status check_limit(const char *limit, int64_t least, int64_t found, struct omma_error *error) {
  if (found >= least && found <= OMMAI_IMAGE_MAX_PIXELS) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, limit, "%s: expected %lld to %lld pixels, found %lld", limit,
                          (long long)least, (long long)OMMAI_IMAGE_MAX_PIXELS, (long long)found);
}

static enum omma_status area_limits(const struct omma_image_options *options, int64_t min_pixels, int64_t max_pixels,
                                    bool enlarges, int64_t *low, int64_t *high, struct omma_error *error) {
  *low = options && options->min_pixels ? options->min_pixels : min_pixels;
  *high = options && options->max_pixels ? options->max_pixels : max_pixels;
  if (!enlarges && *low > 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "min_pixels", "min_pixels: this model never enlarges images");
  }
  /* One limit alone moves the other along; the one that was given is the one to complain of. */
  bool high_alone = options && options->max_pixels && !options->min_pixels;
  if (options && options->min_pixels && !options->max_pixels && *high < *low) *high = *low;
  if (high_alone && *low > *high) *low = *high;
  if (high_alone) OMMAI_TRY(check_limit("max_pixels", 1, *high, error));
  OMMAI_TRY(check_limit("min_pixels", enlarges, *low, error));
  OMMAI_TRY(check_limit("max_pixels", 1, *high, error));
  if (*low <= *high) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "min_pixels",
                          "min_pixels: expected at most max_pixels, which is %lld, found %lld", (long long)*high,
                          (long long)*low);
}

static struct ommai_fit_limits fit_limits(const struct omma_model *model) {
  const struct ommai_patch_spec *patches = &model->config.image.patches;
  return (struct ommai_fit_limits){.sizing = model->config.image.sizing,
                                   .patch_size = patches->patch_size,
                                   .merge_size = patches->merge_size,
                                   .temporal_patch_size = patches->temporal};
}

/* The size of the image's content and of the canvas that is cut into patches. */
static enum omma_status choose_size(const struct omma_model *model, int32_t width, int32_t height,
                                    const struct omma_image_options *options, struct ommai_fitted_size *size,
                                    struct omma_error *error) {
  const struct ommai_image_config *image = &model->config.image;
  struct ommai_fit_limits limits = fit_limits(model);
  OMMAI_TRY(area_limits(options, image->min_pixels, image->max_pixels, image->sizing == OMMAI_SIZING_AREA, &limits.min_pixels,
                        &limits.max_pixels, error));
  return ommai_image_fit(&limits, width, height, size, error);
}

/* The same for the frames of a video. */
static enum omma_status choose_frame_size(const struct omma_model *model, int32_t width, int32_t height, int64_t n_frames,
                                          const struct omma_image_options *options, struct ommai_fitted_size *size,
                                          struct omma_error *error) {
  const struct ommai_video_config *video = &model->config.video;
  struct ommai_fit_limits limits = fit_limits(model);
  OMMAI_TRY(area_limits(options, video->min_pixels, video->max_pixels, true, &limits.min_pixels, &limits.max_pixels, error));
  return ommai_frame_fit(&limits, width, height, video->area_of_all_frames ? n_frames : 0, size, error);
}

static enum omma_status check_size(int32_t width, int32_t height, struct omma_error *error) {
  if (width < 1 || height < 1) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "image", "image: expected sides of at least 1 pixel, found %d x %d",
                            width, height);
  }
  if (width > OMMAI_IMAGE_MAX_SIDE || height > OMMAI_IMAGE_MAX_SIDE || (int64_t)width * height > OMMAI_IMAGE_MAX_PIXELS) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image",
                            "image is too large: %d x %d pixels, at most %lld a side and %lld in all", width, height,
                            (long long)OMMAI_IMAGE_MAX_SIDE, (long long)OMMAI_IMAGE_MAX_PIXELS);
  }
  return OMMA_OK;
}

static enum omma_status make_plan(const struct omma_model *model, int32_t width, int32_t height, int64_t n_temporal_patches,
                                  const struct ommai_fitted_size *size, struct omma_image_plan *plan,
                                  struct omma_error *error) {
  const struct ommai_vision_config *vision = &model->config.vision;
  size_t resize_bytes;
  OMMAI_TRY(
      ommai_resize_workspace(model->config.image.resize_rule, width, height, size->width, size->height, &resize_bytes, error));
  int64_t rows = size->padded_height / vision->patch_size, columns = size->padded_width / vision->patch_size;
  int64_t n_patches = n_temporal_patches * rows * columns;
  *plan = (struct omma_image_plan){.width = width,
                                   .height = height,
                                   .resized_width = size->padded_width,
                                   .resized_height = size->padded_height,
                                   .grid_thw = {n_temporal_patches, rows, columns},
                                   .n_patches = n_patches,
                                   .n_tokens = n_patches / ommai_vision_joined_patches(vision),
                                   .n_segments = n_temporal_patches,
                                   .n_windows = n_temporal_patches * ommai_vision_grid_windows(vision, rows, columns),
                                   .flops = (double)n_temporal_patches * ommai_vision_flops(vision, rows, columns),
                                   .resize_bytes = (int64_t)resize_bytes};
  return OMMA_OK;
}

enum omma_status omma_model_plan_image(const struct omma_model *model, int32_t width, int32_t height,
                                       const struct omma_image_options *options, struct omma_image_plan *plan,
                                       struct omma_error *error) {
  struct ommai_fitted_size size;
  OMMAI_TRY(check_size(width, height, error));
  OMMAI_TRY(choose_size(model, width, height, options, &size, error));
  return make_plan(model, width, height, 1, &size, plan, error);
}

static enum omma_status check_frames(const struct omma_model *model, size_t n_frames, struct omma_error *error) {
  if (model->chat.variant->template->video == OMMAI_VIDEO_NONE) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "video", "%s models take no videos", model->config.model_type);
  }
  if (model->config.video.token < 0) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "video",
                            "this checkpoint takes no videos: its config.json has no video_token_id");
  }
  if (n_frames == 0) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "video", "a video has frames, found none");
  if (n_frames <= OMMA_MAX_VIDEO_FRAMES) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_LIMIT, "video", "at most %d frames make a video, found %zu", OMMA_MAX_VIDEO_FRAMES,
                          n_frames);
}

enum omma_status omma_model_plan_video(const struct omma_model *model, int32_t width, int32_t height, size_t n_frames,
                                       const struct omma_image_options *options, struct omma_image_plan *plan,
                                       struct omma_error *error) {
  struct ommai_fitted_size size;
  OMMAI_TRY(check_frames(model, n_frames, error));
  OMMAI_TRY(check_size(width, height, error));
  OMMAI_TRY(choose_frame_size(model, width, height, (int64_t)n_frames, options, &size, error));
  int64_t n_temporal_patches = ommai_div_up((int64_t)n_frames, model->config.vision.temporal_patch_size);
  return make_plan(model, width, height, n_temporal_patches, &size, plan, error);
}

enum omma_status ommai_check_video(const struct omma_model *model, const struct omma_video *video, struct omma_error *error) {
  OMMAI_TRY(check_frames(model, video->n_frames, error));
  if (video->fps != 0 && !(video->fps >= OMMA_MIN_VIDEO_FPS && video->fps <= OMMA_MAX_VIDEO_FPS)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "fps", "fps: expected %g to %g, found %g", OMMA_MIN_VIDEO_FPS,
                            OMMA_MAX_VIDEO_FPS, video->fps);
  }
  int32_t width = omma_image_width(video->frames[0]), height = omma_image_height(video->frames[0]);
  for (size_t i = 0; i < video->n_frames; i++) {
    if (!video->frames[i]->decoded) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "video", "frame %zu: it was recalled and has no pixels: decode it",
                              i);
    }
    int32_t w = omma_image_width(video->frames[i]), h = omma_image_height(video->frames[i]);
    if (w == width && h == height) continue;
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "video", "frame %zu: expected %d x %d pixels as frame 0, found %d x %d",
                            i, width, height, w, h);
  }
  return OMMA_OK;
}

enum omma_status ommai_plan_video(const struct omma_model *model, const struct omma_video *video,
                                  const struct omma_image_options *options, struct omma_image_plan *plan,
                                  struct omma_error *error) {
  const struct omma_image *first = video->frames[0];
  return omma_model_plan_video(model, omma_image_width(first), omma_image_height(first), video->n_frames, options, plan, error);
}

static enum omma_status resize(const struct omma_model *model, const struct ommai_image *source,
                               const struct ommai_fitted_size *fitted, uint8_t *pixels, struct omma_error *error) {
  const struct omma_allocator *allocator = &model->large_allocator;
  enum ommai_resize_rule rule = model->config.image.resize_rule;
  size_t workspace_size;
  OMMAI_TRY(ommai_resize_workspace(rule, source->width, source->height, fitted->width, fitted->height, &workspace_size, error));
  void *workspace = ommai_allocate_uninitialised(allocator, workspace_size, 1);
  if (!workspace) return ommai_fail_memory(error, "resize", workspace_size);
  const struct omma_team *team = ommai_image_team_borrow(model->image_team);
  enum omma_status status = ommai_resize_bicubic_at(model->level, rule, source->pixels, source->width, source->height, pixels,
                                                    fitted->width, fitted->height, workspace, workspace_size, team, error);
  ommai_image_team_return(model->image_team, team);
  ommai_release(allocator, workspace, workspace_size, 1);
  if (status == OMMA_OK) ommai_pad_in_place(fitted, pixels);
  return status;
}

/* The owners' count lies in front of the pixels. */
struct ommai_shared_pixels {
  atomic_int n_owners;
  size_t size; /* of all */
  struct omma_allocator allocator;
  struct ommai_pixel_budget *budget; /* that `size` was taken from */
  alignas(OMMAI_ALIGNMENT) uint8_t pixels[];
};

static size_t frame_bytes(const struct omma_image_plan *plan) {
  return (size_t)plan->resized_width * (size_t)plan->resized_height * 3;
}

size_t ommai_prepared_image_bytes(const struct ommai_prepared_image *prepared) {
  return (size_t)prepared->n_frames * frame_bytes(&prepared->plan);
}

/* Kept images give way to what is wanted now. */
static enum omma_status take_budget(const struct omma_model *model, size_t size, struct omma_error *error) {
  enum omma_status status;
  do {
    status = ommai_pixel_budget_take(model->pixel_budget, size, error);
  } while (status == OMMA_ERROR_MEMORY && ommai_image_store_drop_oldest(model->image_store));
  return status;
}

/* Cannot overflow: a plan's areas and frames are bounded. */
static enum omma_status take_pixels(const struct omma_model *model, struct ommai_prepared_image *prepared,
                                    struct omma_error *error) {
  size_t size = sizeof(struct ommai_shared_pixels) + ommai_prepared_image_bytes(prepared);
  OMMAI_TRY(take_budget(model, size, error));
  prepared->shared = ommai_allocate_uninitialised(&model->large_allocator, size, 1);
  if (!prepared->shared) {
    ommai_pixel_budget_give_back(model->pixel_budget, size);
    return ommai_fail_memory(error, "resized image", size);
  }
  atomic_init(&prepared->shared->n_owners, 1);
  prepared->shared->size = size;
  prepared->shared->allocator = model->large_allocator;
  prepared->shared->budget = model->pixel_budget;
  prepared->pixels = prepared->shared->pixels;
  return OMMA_OK;
}

int64_t ommai_encode_output_size(const struct omma_model *model, int64_t n_tokens) {
  return (1 + model->config.vision.n_deepstack) * n_tokens * model->config.vision.out_hidden_size;
}

struct ommai_prepared_image ommai_prepared_image_share(const struct ommai_prepared_image *prepared) {
  atomic_fetch_add(&prepared->shared->n_owners, 1);
  return *prepared;
}

struct ommai_image_key ommai_prepared_image_key(const struct ommai_prepared_image *prepared, const char *name,
                                                bool name_suffices) {
  struct ommai_image_key key;
  crypto_generichash_state state;
  bool by_name = name && name_suffices;
  unsigned char kind = by_name ? 2 : name ? 1 : 0;
  uint64_t name_size = name ? strlen(name) : 0; /* so that no name goes on into the pixels */
  crypto_generichash_init(&state, NULL, 0, sizeof key.bytes);
  crypto_generichash_update(&state, &kind, sizeof kind);
  crypto_generichash_update(&state, (const unsigned char *)prepared->plan.grid_thw, sizeof prepared->plan.grid_thw);
  crypto_generichash_update(&state, (const unsigned char *)&prepared->n_frames, sizeof prepared->n_frames);
  crypto_generichash_update(&state, (const unsigned char *)&name_size, sizeof name_size);
  if (name) crypto_generichash_update(&state, (const unsigned char *)name, name_size);
  if (!by_name) crypto_generichash_update(&state, prepared->digest, sizeof prepared->digest);
  crypto_generichash_final(&state, key.bytes, sizeof key.bytes);
  return key;
}

/* Resizes frames of the plan's size to `fitted`. */
static enum omma_status prepare(const struct omma_model *model, const struct omma_image *const *frames, int64_t n_frames,
                                const struct omma_image_plan *plan, const struct ommai_fitted_size *fitted,
                                struct ommai_prepared_image *out, struct omma_error *error) {
  struct ommai_prepared_image prepared = {.plan = *plan, .n_frames = n_frames};
  OMMAI_TRY(take_pixels(model, &prepared, error));
  enum omma_status status = OMMA_OK;
  for (int64_t i = 0; i < n_frames && status == OMMA_OK; i++) {
    status = resize(model, frames[i]->decoded, fitted, prepared.pixels + (size_t)i * frame_bytes(plan), error);
  }
  if (status != OMMA_OK) {
    ommai_prepared_image_free(&prepared);
    return status;
  }
  digest_of(prepared.pixels, ommai_prepared_image_bytes(&prepared), prepared.digest);
  *out = prepared;
  return OMMA_OK;
}

static struct ommai_image_name name_of(const uint8_t *digest, const struct ommai_fitted_size *size) {
  struct ommai_image_name name = {.size = *size};
  memcpy(name.digest, digest, sizeof name.digest);
  return name;
}

enum omma_status omma_image_recall(const struct omma_model *model, const void *bytes, size_t size,
                                   const struct omma_image_limits *limits, const struct omma_image_options *options,
                                   struct omma_image **out, struct omma_error *error) {
  struct omma_image_header header;
  struct omma_image_plan plan;
  struct ommai_fitted_size fitted;
  uint8_t digest[32];
  *out = NULL;
  OMMAI_TRY(omma_image_probe(bytes, size, limits, &header, error));
  OMMAI_TRY(omma_model_plan_image(model, header.width, header.height, options, &plan, error));
  OMMAI_TRY(choose_size(model, header.width, header.height, options, &fitted, error));
  digest_of(bytes, size, digest);
  struct ommai_image_name name = name_of(digest, &fitted);
  struct ommai_prepared_image known;
  if (!ommai_image_store_find(model->image_store, &name, &known)) return OMMA_OK;
  struct omma_image *image = ommai_allocate(&ommai_default_allocator, 1, sizeof *image);
  if (!image) {
    ommai_prepared_image_free(&known);
    return ommai_fail_memory(error, "image", sizeof *image);
  }
  *image = (struct omma_image){.width = header.width, .height = header.height, .known = known, .model = model, .size = fitted};
  *out = image;
  return OMMA_OK;
}

/* An image without pixels is what it was recalled as. */
static enum omma_status share_known(const struct omma_model *model, const struct omma_image *image,
                                    const struct ommai_fitted_size *size, struct ommai_prepared_image *prepared,
                                    struct omma_error *error) {
  if (image->model != model || !ommai_fitted_size_equals(&image->size, size)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "image",
                            "image: it was recalled for another model or other options; decode it for these");
  }
  *prepared = ommai_prepared_image_share(&image->known);
  return OMMA_OK;
}

enum omma_status ommai_prepare_image(const struct omma_model *model, const struct omma_image *image,
                                     const struct omma_image_options *options, struct ommai_prepared_image *prepared,
                                     struct omma_error *error) {
  struct omma_image_plan plan;
  struct ommai_fitted_size fitted;
  int32_t width = image->width, height = image->height;
  OMMAI_TRY(omma_model_plan_image(model, width, height, options, &plan, error));
  OMMAI_TRY(choose_size(model, width, height, options, &fitted, error));
  if (!image->decoded) return share_known(model, image, &fitted, prepared, error);
  OMMAI_TRY(prepare(model, &image, 1, &plan, &fitted, prepared, error));
  if (image->has_digest) {
    struct ommai_image_name name = name_of(image->digest, &fitted);
    ommai_image_store_keep(model->image_store, &name, prepared);
  }
  return OMMA_OK;
}

enum omma_status ommai_prepare_video(const struct omma_model *model, const struct omma_video *video,
                                     const struct omma_image_options *options, struct ommai_prepared_image *prepared,
                                     struct omma_error *error) {
  struct omma_image_plan plan;
  OMMAI_TRY(ommai_plan_video(model, video, options, &plan, error));
  const struct ommai_fitted_size fitted = {plan.resized_width, plan.resized_height, plan.resized_width, plan.resized_height};
  return prepare(model, video->frames, (int64_t)video->n_frames, &plan, &fitted, prepared, error);
}

void ommai_prepared_image_free(struct ommai_prepared_image *prepared) {
  struct ommai_shared_pixels *shared = prepared->shared;
  prepared->shared = NULL;
  prepared->pixels = NULL;
  if (!shared || atomic_fetch_sub(&shared->n_owners, 1) != 1) return;
  struct omma_allocator allocator = shared->allocator;
  ommai_pixel_budget_give_back(shared->budget, shared->size);
  ommai_release(&allocator, shared, shared->size, 1);
}

/* Patches of a prepared image in f32, cut by a team: a task is a run of patches. */
enum { PATCHES_PER_TASK = 256 };

struct cutting {
  struct ommai_patch_spec spec;
  const struct ommai_prepared_image *prepared;
  float *values;
};

static void cut_task(void *context, int64_t task, int worker) {
  (void)worker;
  const struct cutting *cutting = context;
  const struct omma_image_plan *plan = &cutting->prepared->plan;
  int64_t length = ommai_patch_length(&cutting->spec), first = task * PATCHES_PER_TASK;
  int64_t count = ommai_min_i64(PATCHES_PER_TASK, plan->n_patches - first);
  /* Cannot fail: the size is a plan's and the range lies inside it. */
  (void)ommai_patches_from_pixels(&cutting->spec, cutting->prepared->pixels, plan->resized_width, plan->resized_height, first,
                                  count, cutting->values + first * length, length, OMMA_F32, NULL);
}

enum omma_status omma_preprocess(const struct omma_model *model, const struct omma_image *image,
                                 const struct omma_image_options *options, float *pixel_values, size_t capacity,
                                 struct omma_error *error) {
  struct ommai_prepared_image prepared = {0};
  OMMAI_TRY(ommai_model_require_processor(model, error));
  OMMAI_TRY(ommai_prepare_image(model, image, options, &prepared, error));
  int64_t n_values = prepared.plan.n_patches * ommai_vision_patch_dim(&model->config.vision);
  enum omma_status status = OMMA_OK;
  if ((size_t)n_values > capacity) {
    status = ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "capacity", "pixel_values: expected room for %lld values, found %zu",
                              (long long)n_values, capacity);
  } else {
    struct cutting cutting = {.spec = model->config.image.patches, .prepared = &prepared, .values = pixel_values};
    if (model->config.image.raster_patches) cutting.spec.merge_size = 1;
    const struct omma_team *team = ommai_image_team_borrow(model->image_team);
    ommai_team_run(team, ommai_div_up(prepared.plan.n_patches, PATCHES_PER_TASK), cut_task, &cutting);
    ommai_image_team_return(model->image_team, team);
  }
  ommai_prepared_image_free(&prepared);
  return status;
}
