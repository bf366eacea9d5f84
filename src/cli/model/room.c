#include "cli/model/room.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/memory_room.h"
#include "cli/core/diagnostics.h"
#include "cli/core/format.h"

#define MIB ((int64_t)1 << 20)
#define ANSWER_TOKENS 512   /* that are left for the answer where a size is proposed */
#define MIN_IMAGE_TOKENS 16 /* below, no area is proposed */

void ommai_room_warn_of_weights(const struct omma_model *model) {
  struct omma_model_info info;
  char weights[32], free_bytes[32];
  int64_t room = ommai_memory_room("");
  omma_model_get_info(model, &info);
  if (room < 0 || info.weight_bytes <= room) return;
  ommai_warn("the weights take %s, and %s of memory are free: the machine may swap, or end the program",
             ommai_format_bytes(info.weight_bytes, weights, sizeof weights),
             ommai_format_bytes(room, free_bytes, sizeof free_bytes));
}

void ommai_room_warn_of_total(const struct omma_model *model, const struct omma_memory_estimate *estimate,
                              const char *options) {
  struct omma_model_info info;
  char total[32], free_bytes[32];
  int64_t room = ommai_memory_room("");
  omma_model_get_info(model, &info);
  if (room < 0 || estimate->total_bytes <= room || info.weight_bytes > room) return;
  ommai_warn(
      "an estimated %s are needed in all, and %s of memory are free: the machine may swap, or end the program; %s make it "
      "smaller",
      ommai_format_bytes(estimate->total_bytes, total, sizeof total), ommai_format_bytes(room, free_bytes, sizeof free_bytes),
      options);
}

static enum omma_status check_limit(const char *what, int64_t bytes, const char *advice, struct omma_error *error) {
  char needed[32], left[32];
  int64_t limit = ommai_memory_limit("");
  if (limit < 0 || bytes <= limit) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_MEMORY, "%s %s, and the memory limit of this process's control group leaves %s: %s", what,
                    ommai_format_bytes(bytes, needed, sizeof needed), ommai_format_bytes(limit, left, sizeof left), advice);
}

enum omma_status ommai_room_check_weights(const struct omma_model *model, struct omma_error *error) {
  struct omma_model_info info;
  omma_model_get_info(model, &info);
  OMMAI_TRY(
      check_limit("the weights take", info.weight_bytes, "--quantization makes those of the language model smaller", error));
  ommai_room_warn_of_weights(model);
  return OMMA_OK;
}

enum omma_status ommai_room_check_total(const struct omma_model *model, const struct omma_memory_estimate *estimate,
                                        const char *options, struct omma_error *error) {
  char advice[192];
  snprintf(advice, sizeof advice, "%s make it smaller", options);
  OMMAI_TRY(check_limit("the estimate in all is", estimate->total_bytes, advice, error));
  ommai_room_warn_of_total(model, estimate, options);
  return OMMA_OK;
}

int ommai_room_failed(const struct omma_error *error, const char *options) {
  if (error->status != OMMA_ERROR_MEMORY) return ommai_failed_call(error);
  if (!options) return ommai_failed("%s (omma plan prints what is needed and free)", error->message);
  return ommai_failed("%s (smaller %s may help; omma plan prints what is needed and free)", error->message, options);
}

bool ommai_room_warn_of_context(const struct omma_model *model, const struct omma_memory_estimate *estimate) {
  struct omma_model_info info;
  char bytes[32];
  omma_model_get_info(model, &info);
  if (estimate->max_model_len == info.max_model_len) return false;
  ommai_warn(
      "prompt and answer may have %lld tokens together, not the context limit's %lld: the memory for keys and values "
      "is %s (--kv-cache-bytes changes that; --max-model-len %lld is the same without this warning)",
      (long long)estimate->max_model_len, (long long)info.max_model_len,
      ommai_format_bytes(estimate->kv_cache_bytes, bytes, sizeof bytes), (long long)estimate->max_model_len);
  return true;
}

void ommai_room_note(const struct omma_model *model, const struct omma_memory_estimate *estimate) {
  char bytes[32];
  if (ommai_room_warn_of_context(model, estimate)) return;
  ommai_note("prompt and answer may have %lld tokens together; up to %s for keys and values",
             (long long)estimate->max_model_len, ommai_format_bytes(estimate->kv_cache_bytes, bytes, sizeof bytes));
}

/* The area of each of n_images that together become at most n_tokens; 0 where that is too little to
 * propose. */
static int64_t area_for(const struct omma_model_info *info, int64_t n_tokens, int64_t n_images) {
  int64_t side = info->patch_size * info->merge_size, each = n_tokens / n_images;
  return each < MIN_IMAGE_TOKENS ? 0 : each * side * side;
}

/* The memory whose pages hold n_tokens, in whole MiB. */
static int64_t mebibytes_for(const struct omma_memory_estimate *estimate, int64_t n_tokens) {
  return ommai_div_up(ommai_div_up(n_tokens, OMMA_ATTENTION_PAGE_TOKENS) * estimate->kv_page_bytes, MIB);
}

void ommai_room_advise(const struct omma_model *model, const struct omma_memory_estimate *estimate, int64_t n_tokens,
                       int64_t n_images, int64_t n_image_tokens, char *out, size_t size) {
  struct omma_model_info info;
  char smaller[96] = "shorten the prompt", bytes[32];
  omma_model_get_info(model, &info);
  int64_t left = estimate->max_model_len - (n_tokens - n_image_tokens) - ANSWER_TOKENS;
  int64_t area = n_images ? area_for(&info, left, n_images) : 0;
  if (area) {
    snprintf(smaller, sizeof smaller, "use --max-pixels %lld or less", (long long)area);
  } else if (n_images) {
    snprintf(smaller, sizeof smaller, "lower --max-pixels, or send fewer images");
  }
  int64_t room = ommai_memory_room(""),
          wanted = mebibytes_for(estimate, ommai_min_i64(n_tokens + ANSWER_TOKENS, info.max_model_len));
  if (n_tokens >= info.max_model_len) {
    snprintf(out, size, "%s", smaller);
  } else if (room < 0 || wanted <= room / MIB) {
    snprintf(out, size, "%s, or --kv-cache-bytes %lldM", smaller, (long long)wanted);
  } else {
    snprintf(out, size, "%s, or free memory: --kv-cache-bytes %lldM would hold it, %s are free", smaller, (long long)wanted,
             ommai_format_bytes(room, bytes, sizeof bytes));
  }
}

void ommai_room_warn_of_largest(const struct omma_model *model, const struct omma_memory_estimate *estimate,
                                const struct omma_image_options *sizes) {
  struct omma_model_info info;
  char advice[200];
  omma_model_get_info(model, &info);
  int64_t side = info.patch_size * info.merge_size, area = sizes->max_pixels ? sizes->max_pixels : info.max_pixels;
  int64_t n_tokens = area / (side * side);
  if (n_tokens < estimate->max_model_len) return;
  ommai_room_advise(model, estimate, n_tokens, 1, n_tokens, advice, sizeof advice);
  ommai_warn("images of up to %lld pixels become up to %lld tokens, and prompt and answer may have %lld: %s", (long long)area,
             (long long)n_tokens, (long long)estimate->max_model_len, advice);
}

/* Images and videos of messages, and the tokens that they become. */
static enum omma_status count_images(const struct omma_model *model, const struct omma_message *messages, size_t n_messages,
                                     int64_t *n_images, int64_t *n_tokens, struct omma_error *error) {
  *n_images = *n_tokens = 0;
  for (size_t i = 0; i < n_messages; i++) {
    for (size_t j = 0; j < messages[i].n_parts; j++) {
      const struct omma_part *part = &messages[i].parts[j];
      const struct omma_image *image = part->video ? part->video->frames[0] : part->image;
      struct omma_image_sizes sizes = {0};
      if (!image) continue;
      int32_t width = omma_image_width(image), height = omma_image_height(image);
      OMMAI_TRY(part->video
                    ? omma_model_video_sizes(model, width, height, part->video->n_frames, &part->image_options, &sizes, error)
                    : omma_model_image_sizes(model, width, height, &part->image_options, &sizes, error));
      ++*n_images;
      *n_tokens += sizes.n_tokens;
    }
  }
  return OMMA_OK;
}

enum omma_status ommai_room_check_prompt(const struct omma_model *model, const struct omma_memory_estimate *estimate,
                                         const struct omma_message *messages, size_t n_messages, struct omma_error *error) {
  struct omma_error cause;
  char advice[200];
  int64_t n_tokens = 0, n_images, n_image_tokens;
  enum omma_status status = omma_count_prompt_tokens(model, messages, n_messages, NULL, &n_tokens, &cause);
  bool too_long = status == OMMA_ERROR_LIMIT && !strcmp(cause.field, "input_tokens");
  if (status != OMMA_OK && !too_long) {
    *error = cause;
    return status;
  }
  if (status == OMMA_OK && n_tokens < estimate->max_model_len) return OMMA_OK;
  OMMAI_TRY(count_images(model, messages, n_messages, &n_images, &n_image_tokens, error));
  if (too_long && !n_images) { /* says what to do itself */
    *error = cause;
    return status;
  }
  if (too_long) {
    struct omma_model_info info;
    omma_model_get_info(model, &info);
    ommai_room_advise(model, estimate, ommai_max_i64(info.max_model_len, n_image_tokens), n_images, n_image_tokens, advice,
                      sizeof advice);
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "input_tokens", "%s: %s", cause.message, advice);
  }
  ommai_room_advise(model, estimate, n_tokens, n_images, n_image_tokens, advice, sizeof advice);
  return ommai_fail_field(error, OMMA_ERROR_LIMIT, "input_tokens",
                          "the prompt has %lld tokens, %lld of them of images, and the memory for keys and values holds "
                          "%lld: %s",
                          (long long)n_tokens, (long long)n_image_tokens, (long long)estimate->max_model_len, advice);
}
