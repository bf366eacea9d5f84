/* Images on their way from pixels to the tower. */
#ifndef OMMAI_ENGINE_PREPARED_IMAGE_H
#define OMMAI_ENGINE_PREPARED_IMAGE_H

#include <omma/omma.h>

#include "engine/encoder_cache.h"
#include "engine/image_store.h"
#include "engine/model.h"
#include "image/image.h"

/* Pixels with several owners. */
struct ommai_shared_pixels;

/* An image or video after the resize: 8-bit RGB [n_frames, resized_height, resized_width, 3] and
 * its plan. */
struct ommai_prepared_image {
  struct omma_image_plan plan;
  int64_t n_frames; /* 1 for an image */
  uint8_t *pixels;
  struct ommai_shared_pixels *shared; /* what `pixels` lies in */
  uint8_t digest[32];                 /* of the pixels */
};

struct omma_image {
  int32_t width, height;
  struct ommai_image *decoded; /* NULL: known by its bytes */
  bool has_digest;             /* not of pixels that the caller gave */
  uint8_t digest[32];          /* of the file's bytes */
  /* Where it is not decoded: what it becomes for this model at this size. */
  struct ommai_prepared_image known;
  const struct omma_model *model;
  struct ommai_fitted_size size;
};

/* Plans and resizes, on the model's image threads where they are free; an image from a file is kept
 * for omma_image_recall, one that came from there is as it was kept. Thread-safe. The caller frees
 * the image. */
enum omma_status ommai_prepare_image(const struct omma_model *model, const struct omma_image *image,
                                     const struct omma_image_options *options, struct ommai_prepared_image *prepared,
                                     struct omma_error *error);
/* Whether the model takes the video: its number of frames, their sizes, its rate. Errors:
 * UNSUPPORTED, ARGUMENT, LIMIT. */
enum omma_status ommai_check_video(const struct omma_model *model, const struct omma_video *video, struct omma_error *error);

/* As for images, for a video that was checked. */
enum omma_status ommai_plan_video(const struct omma_model *model, const struct omma_video *video,
                                  const struct omma_image_options *options, struct omma_image_plan *plan,
                                  struct omma_error *error);
enum omma_status ommai_prepare_video(const struct omma_model *model, const struct omma_video *video,
                                     const struct omma_image_options *options, struct ommai_prepared_image *prepared,
                                     struct omma_error *error);

/* Elements of an image's output of the tower: [1 + n_deepstack, n_tokens, out_hidden_size]. */
int64_t ommai_encode_output_size(const struct omma_model *model, int64_t n_tokens);

/* Another owner of the same pixels. Thread-safe while the image has an owner. */
struct ommai_prepared_image ommai_prepared_image_share(const struct ommai_prepared_image *prepared);

/* Of its pixels. */
size_t ommai_prepared_image_bytes(const struct ommai_prepared_image *prepared);

/* What stands for the image in the encoder's cache: a hash of its grid, its number of frames, its
 * name (may be NULL), and of its pixels unless the name suffices. */
struct ommai_image_key ommai_prepared_image_key(const struct ommai_prepared_image *prepared, const char *name,
                                                bool name_suffices);

/* One owner less; the last frees the pixels. A zeroed image is allowed. */
void ommai_prepared_image_free(struct ommai_prepared_image *prepared);

#endif
