/* Pixels to normalised patches, the rows that a vision tower's first matrix takes.
 *
 * Patches go by merge blocks: block row, block column, then inside the block row and column;
 * merge_size 1 is plain raster order. A patch is a vector in the order (channel, time, y, x); in a
 * still every time slice is the same image. A value is (u8 - 255 * mean) / (255 * std) in f32, as
 * the fast image processors of transformers compute it, bit for bit; bf16 is that, rounded to
 * nearest even. */
#pragma once

#include <omma/attention.h>
#include <omma/status.h>
#include <stdint.h>

#define OMMAI_PATCH_MAX_TEMPORAL 64

/* What patches look like. */
struct ommai_patch_spec {
  int32_t patch_size; /* pixels of a side */
  int32_t merge_size; /* patches of a block's side */
  int32_t temporal;   /* time slices, at most OMMAI_PATCH_MAX_TEMPORAL */
  float mean[3], std[3];
};

/* Values of one patch: 3 * temporal * patch_size^2. */
int64_t ommai_patch_length(const struct ommai_patch_spec *spec);

/* Writes patches [first_patch, first_patch + n_patches) of rgb [height][width][3] to out
 * [n_patches][out_stride], out_stride counting elements, at least ommai_patch_length. out_type:
 * OMMA_F32 or OMMA_BF16. Ranges may be written by several threads at once. Allocates nothing.
 * Errors: ARGUMENT (sides that are not multiples of patch_size * merge_size, range, stride, std 0),
 * UNSUPPORTED (type); nothing is written then. */
enum omma_status ommai_patches_from_pixels(const struct ommai_patch_spec *spec, const uint8_t *rgb, int32_t width,
                                           int32_t height, int64_t first_patch, int64_t n_patches, void *out,
                                           int64_t out_stride, enum omma_dtype out_type, struct omma_error *error);

/* The same for one temporal patch of a video: frames [temporal] are the images of the time slices,
 * all [height][width][3]. */
enum omma_status ommai_patches_from_frames(const struct ommai_patch_spec *spec, const uint8_t *const *frames, int32_t width,
                                           int32_t height, int64_t first_patch, int64_t n_patches, void *out,
                                           int64_t out_stride, enum omma_dtype out_type, struct omma_error *error);
