/* What config.json, preprocessor_config.json, video_preprocessor_config.json and
 * generation_config.json give, in one form for all families. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>

#include "base/json.h"
#include "families/documents.h"
#include "image/image_fit.h"
#include "image/patches.h"
#include "image/resize.h"
#include "language/decoder.h"
#include "vision/vision_tower.h"

#define OMMAI_MAX_STOP_TOKENS 17

/* Images: how they are resized and cut. */
struct ommai_image_config {
  enum ommai_image_sizing sizing;
  enum ommai_resize_rule resize_rule;
  /* of the resized area, or of a square with the longest side; min_pixels 0: never enlarged */
  int64_t min_pixels, max_pixels;
  struct ommai_patch_spec patches;
  /* the official processor gives patches row by row; false: by merge blocks, as the tower takes
   * them */
  bool raster_patches;
  /* there is no preprocessor_config.json: the family's published values stand for it */
  bool published;
};

/* Videos: how large their frames become, and how their time counts. They are resized and cut as
 * images are. */
struct ommai_video_config {
  int32_t token; /* -1: the model takes no videos */
  /* the limits hold for the sum over all frames; else for each frame, as an image's do */
  bool area_of_all_frames;
  int64_t min_pixels, max_pixels; /* of the resized area */
  /* of all frames, a limit for each besides max_pixels: this by their number; 0: none */
  int64_t shared_pixels;
  /* what a second counts for in the time position of temporal patches that stand in one run */
  double tokens_per_second;
  /* these time positions count temporal patches, however long one lasts */
  bool time_by_temporal_patch;
};

/* The values of generation_config.json (generation_config.h); 0 where it has none. */
struct ommai_generation_config {
  int32_t stop_tokens[OMMAI_MAX_STOP_TOKENS];
  size_t n_stop_tokens;
  double temperature; /* -1 where it has none: 0 is greedy */
  double top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  int64_t top_k, max_tokens;
  int64_t max_tokens_limit; /* no answer is longer, regardless of its request */
};

/* Vectors of tokens (token_vectors.h): the form of prompts. */
struct ommai_token_vector_config {
  bool alone; /* the model gives nothing else */
  char before_image[512], after_image[512], query_prefix[256];
  const char *query_suffix;
};

struct ommai_model_config {
  char model_type[64];
  struct ommai_vision_config vision;
  struct ommai_decoder_config text;
  struct ommai_image_config image;
  struct ommai_video_config video;
  struct ommai_generation_config generation;
  struct ommai_token_vector_config token_vectors; /* where text.projected_state is not 0 */
  int32_t image_token;
  /* of the tensors by config.json; bf16 where it has none */
  enum omma_dtype stored_type;
};

/* How CLIP's images are normalised, which many processors keep: as numbers, and as keys of
 * preprocessor_config.json. */
#define OMMAI_CLIP_MEAN \
  { 0.48145466f, 0.4578275f, 0.40821073f }
#define OMMAI_CLIP_STD \
  { 0.26862954f, 0.26130258f, 0.27577711f }
#define OMMAI_CLIP_KEYS                                   \
  " \"image_mean\": [0.48145466, 0.4578275, 0.40821073]," \
  " \"image_std\": [0.26862954, 0.26130258, 0.27577711]"

/* What the official processor classes take where a file lacks it. */
struct ommai_processor_defaults {
  int64_t min_pixels, max_pixels; /* of images */
  float mean[3], std[3];          /* of images */
  float video_mean[3], video_std[3];
};

/* What the processor files of a family's released checkpoints hold, as JSON, besides the sizes that
 * config.json has. */
struct ommai_default_processor {
  const char *name;  /* whose values they are, for messages */
  const char *image; /* preprocessor_config.json */
  /* video_preprocessor_config.json; NULL: there is none, the values for images hold */
  const char *video;
};

/* Limits of a config's values: large enough for every released model, small enough that sizes
 * computed from them cannot overflow 64 bits. */
#define OMMAI_CONFIG_MAX_LAYERS OMMAI_VISION_MAX_DEPTH
#define OMMAI_CONFIG_MAX_WIDTH (1 << 20)
#define OMMAI_CONFIG_MAX_HEADS 4096
#define OMMAI_CONFIG_MAX_VOCAB (1 << 24)
#define OMMAI_CONFIG_MAX_POSITIONS (1 << 24)
