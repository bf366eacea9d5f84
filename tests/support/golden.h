/* The golden fixtures of tests/golden: cases of a model, their messages with images loaded, and the
 * official tensors. */
#pragma once

#include <jansson.h>
#include <omma/omma.h>

#include "weights/safetensors.h"

/* a video's frames are images */
enum { GOLDEN_MAX_MESSAGES = 8, GOLDEN_MAX_PARTS = 8, GOLDEN_MAX_IMAGES = 24 };

/* The models that fixtures exist for; ends with NULL. */
extern const char *const golden_models[];

struct golden_case {
  const char *model, *name;
  const json_t *json; /* its entry in golden.json */
  /* of the case; the official preprocessing of the images */
  struct ommai_safetensors *tensors, *image_tensors;
  struct omma_message messages[GOLDEN_MAX_MESSAGES];
  struct omma_part parts[GOLDEN_MAX_MESSAGES][GOLDEN_MAX_PARTS];
  size_t n_messages;
  struct omma_image *images[GOLDEN_MAX_IMAGES];
  const char *image_names[GOLDEN_MAX_IMAGES];
  size_t n_images;
  struct omma_video videos[GOLDEN_MAX_PARTS];
  size_t n_videos;
  bool continued;     /* the last message is the beginning of the answer */
  int64_t row_stride; /* stages keep every row_stride-th row and the last one */
};

/* Path of a model's directory, in a static buffer per call site's copy. */
void golden_path(const char *model, const char *file, char *out, size_t size);

/* The manifest of a model; the caller decrefs. */
json_t *golden_manifest(const char *model);

/* Opens case `index` of a manifest; false after the last one. Fails the test on trouble. */
bool golden_case_open(const char *model, const json_t *manifest, size_t index, struct golden_case *out);
/* The same over all cases: those with images, then those with videos. */
bool golden_any_case_open(const char *model, const json_t *manifest, size_t index, struct golden_case *out);
void golden_case_close(struct golden_case *c);

/* A tensor of the case, which must be there; values as f32 or int64, copied into a buffer that the
 * caller frees. */
const struct ommai_tensor *golden_tensor(const struct golden_case *c, const char *name);
bool golden_has(const struct golden_case *c, const char *name);
/* The case's image `i` after the official resize, U8 [H, W, 3]. */
const struct ommai_tensor *golden_pixels(const struct golden_case *c, size_t i);
float *golden_f32(const struct golden_case *c, const char *name, int64_t *n);
int64_t *golden_i64(const struct golden_case *c, const char *name, int64_t *n);

/* A stage of n_rows keeps golden_stored_rows of them; the k-th one is row golden_row of the
 * stage. */
int64_t golden_stored_rows(const struct golden_case *c, int64_t n_rows);
int64_t golden_row(const struct golden_case *c, int64_t k, int64_t n_rows);

/* Relative L2 error: of the worst row, and of the whole tensor. */
struct golden_error {
  double worst_row, whole;
  int64_t row;
};
struct golden_error golden_compare(const float *got, const float *expected, int64_t n_rows, int64_t width);

/* Fails the test, naming model, case and stage, when a row is further off than `bound`. `got` has
 * all rows of the stage, a tower's in merge-block order; the fixture keeps a sample of them. */
void golden_expect(const struct golden_case *c, const char *stage, const float *got, int64_t n_rows, int64_t width,
                   double bound);

/* Compares the stages that the fixture has, and counts them. */
struct golden_observer {
  const struct golden_case *c;
  double bound;
  int64_t n_checked;
};

/* An ommai_stage_observer of a tower; context is a struct golden_observer. */
void golden_observe_vision(void *context, const char *stage, int64_t index, const float *data, int64_t n_rows, int64_t width);

/* Stages of the fixture that an observer must have counted: `name`, if not NULL, and `numbered`.0,
 * .1, ... */
int64_t golden_count_stages(const struct golden_case *c, const char *name, const char *numbered);
