#include "image/patches.h"

#include <string.h>

#include "base/error.h"
#include "base/half.h"

/* The 256 values of each channel. */
struct tables {
  float f32[3][256];
  ommai_bf16 bf16[3][256];
};

int64_t ommai_patch_length(const struct ommai_patch_spec *spec) {
  return (int64_t)3 * spec->temporal * spec->patch_size * spec->patch_size;
}

static enum omma_status check_spec(const struct ommai_patch_spec *spec, int32_t width, int32_t height,
                                   struct omma_error *error) {
  if (spec->patch_size < 1 || spec->patch_size > 4096 || spec->merge_size < 1 || spec->merge_size > 4096 ||
      spec->temporal < 1 || spec->temporal > OMMAI_PATCH_MAX_TEMPORAL) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT, "patches: patch_size %d, merge_size %d, temporal %d cannot be",
                      spec->patch_size, spec->merge_size, spec->temporal);
  }
  for (int c = 0; c < 3; c++) {
    if (spec->std[c] == 0.0f) return ommai_fail(error, OMMA_ERROR_ARGUMENT, "patches: std[%d] is 0", c);
  }
  int32_t side = spec->patch_size * spec->merge_size;
  if (width < 1 || height < 1 || width % side != 0 || height % side != 0) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT, "patches: %d x %d pixels are not multiples of %d", width, height, side);
  }
  return OMMA_OK;
}

static enum omma_status check_range(const struct ommai_patch_spec *spec, int64_t n_all, int64_t first, int64_t n,
                                    int64_t stride, enum omma_dtype type, struct omma_error *error) {
  if (first < 0 || n < 0 || first > n_all || n > n_all - first) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT, "patches: %lld from %lld on, but the image has %lld", (long long)n,
                      (long long)first, (long long)n_all);
  }
  if (stride < ommai_patch_length(spec)) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT, "patches: a stride of %lld is less than a patch's %lld values",
                      (long long)stride, (long long)ommai_patch_length(spec));
  }
  if (type != OMMA_F32 && type != OMMA_BF16) {
    return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "patches: output type %d, expected f32 or bf16", (int)type);
  }
  return OMMA_OK;
}

/* The official code scales mean and std by 255 in f32 first; any other order changes last bits. */
static void fill_tables(const struct ommai_patch_spec *spec, struct tables *tables) {
  for (int c = 0; c < 3; c++) {
    float mean = spec->mean[c] * 255.0f, std = spec->std[c] * 255.0f;
    for (int u = 0; u < 256; u++) {
      tables->f32[c][u] = ((float)u - mean) / std;
      tables->bf16[c][u] = ommai_bf16_from_f32(tables->f32[c][u]);
    }
  }
}

/* Writes one channel of the patch whose first pixel is `rgb` (already at that channel); `row` is
 * the image's row in bytes. */
static void channel_f32(const uint8_t *rgb, int64_t row, int32_t size, const float table[256], float *out) {
  for (int32_t y = 0; y < size; y++) {
    for (int32_t x = 0; x < size; x++) out[y * size + x] = table[rgb[y * row + 3 * x]];
  }
}

static void channel_bf16(const uint8_t *rgb, int64_t row, int32_t size, const ommai_bf16 table[256], ommai_bf16 *out) {
  for (int32_t y = 0; y < size; y++) {
    for (int32_t x = 0; x < size; x++) out[y * size + x] = table[rgb[y * row + 3 * x]];
  }
}

/* Writes the patch whose first pixel is `at` bytes into each frame. */
static void write_patch(const struct ommai_patch_spec *spec, const struct tables *tables, const uint8_t *const *frames,
                        int64_t at, int64_t row, char *out, enum omma_dtype type) {
  size_t slice = (size_t)spec->patch_size * (size_t)spec->patch_size * (type == OMMA_F32 ? sizeof(float) : sizeof(ommai_bf16));
  for (int c = 0; c < 3; c++) {
    for (int32_t t = 0; t < spec->temporal; t++, out += slice) {
      if (t > 0 && frames[t] == frames[t - 1]) {
        memcpy(out, out - slice, slice);
      } else if (type == OMMA_F32) {
        channel_f32(frames[t] + at + c, row, spec->patch_size, tables->f32[c], (float *)out);
      } else {
        channel_bf16(frames[t] + at + c, row, spec->patch_size, tables->bf16[c], (ommai_bf16 *)out);
      }
    }
  }
}

enum omma_status ommai_patches_from_frames(const struct ommai_patch_spec *spec, const uint8_t *const *frames, int32_t width,
                                           int32_t height, int64_t first_patch, int64_t n_patches, void *out,
                                           int64_t out_stride, enum omma_dtype out_type, struct omma_error *error) {
  OMMAI_TRY(check_spec(spec, width, height, error));
  int64_t m = spec->merge_size, size = spec->patch_size, row = (int64_t)width * 3;
  int64_t blocks_across = width / (m * size);
  OMMAI_TRY(check_range(spec, width / size * (height / size), first_patch, n_patches, out_stride, out_type, error));
  struct tables tables;
  fill_tables(spec, &tables);
  char *to = out;
  size_t step = (size_t)out_stride * (out_type == OMMA_F32 ? sizeof(float) : sizeof(ommai_bf16));
  for (int64_t patch = first_patch; patch < first_patch + n_patches; patch++, to += step) {
    int64_t block = patch / (m * m), inside = patch % (m * m);
    int64_t y = (block / blocks_across * m + inside / m) * size;
    int64_t x = (block % blocks_across * m + inside % m) * size;
    write_patch(spec, &tables, frames, y * row + x * 3, row, to, out_type);
  }
  return OMMA_OK;
}

enum omma_status ommai_patches_from_pixels(const struct ommai_patch_spec *spec, const uint8_t *rgb, int32_t width,
                                           int32_t height, int64_t first_patch, int64_t n_patches, void *out,
                                           int64_t out_stride, enum omma_dtype out_type, struct omma_error *error) {
  const uint8_t *frames[OMMAI_PATCH_MAX_TEMPORAL];
  for (int t = 0; t < OMMAI_PATCH_MAX_TEMPORAL; t++) frames[t] = rgb;
  return ommai_patches_from_frames(spec, frames, width, height, first_patch, n_patches, out, out_stride, out_type, error);
}
