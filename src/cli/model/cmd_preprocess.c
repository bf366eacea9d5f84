/* omma preprocess: images -> what the vision tower reads, as tensors. */
#include <omma/omma.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/core/json_out.h"
#include "cli/core/paths.h"
#include "cli/core/plain_text.h"
#include "cli/core/progress.h"
#include "cli/model/image_sources.h"
#include "cli/model/model_options.h"

struct values {
  struct ommai_common common;
  const char *output;
  bool json;
};

/* One image's patches, and the seconds that decoding and all after it took. */
struct patches {
  struct omma_image_sizes sizes;
  float *pixel_values; /* [n_patches, patch_dim] */
  size_t count;
  double decode_seconds, preprocess_seconds;
};

/* ---- tensors named image.<i>.<what>, written as one safetensors file ---- */

#define TENSOR_NAME_SIZE 64

struct tensor_list {
  struct omma_tensor *tensors;
  char (*names)[TENSOR_NAME_SIZE];
  size_t count, capacity;
};

static void tensor_list_release(struct tensor_list *list) {
  ommai_release(&ommai_default_allocator, list->tensors, list->capacity, sizeof *list->tensors);
  ommai_release(&ommai_default_allocator, list->names, list->capacity, sizeof *list->names);
  *list = (struct tensor_list){0};
}

/* An empty list with room for `capacity` tensors. Returns an exit code. */
static int tensor_list_create(size_t capacity, struct tensor_list *list) {
  *list = (struct tensor_list){.capacity = capacity};
  list->tensors = ommai_allocate(&ommai_default_allocator, capacity, sizeof *list->tensors);
  list->names = ommai_allocate(&ommai_default_allocator, capacity, sizeof *list->names);
  if (list->tensors && list->names) return OMMAI_EXIT_DONE;
  tensor_list_release(list);
  return ommai_failed("out of memory: a list of %zu tensors", capacity);
}

static struct omma_tensor *add(struct tensor_list *list, size_t index, const char *what) {
  struct omma_tensor *tensor = &list->tensors[list->count];
  snprintf(list->names[list->count], TENSOR_NAME_SIZE, "image.%zu.%s", index, what);
  *tensor = (struct omma_tensor){.name = list->names[list->count]};
  list->count++;
  return tensor;
}

/* Adds `image.<index>.<what>`; `data` must live until the list is saved. Within the capacity
 * only. */
static void tensor_list_add_matrix(struct tensor_list *list, size_t index, const char *what, int64_t rows, int64_t columns,
                                   const float *data) {
  struct omma_tensor *tensor = add(list, index, what);
  tensor->type = OMMA_TENSOR_F32;
  tensor->n_dims = 2;
  tensor->shape[0] = rows;
  tensor->shape[1] = columns;
  tensor->data = data;
}

static void tensor_list_add_grid(struct tensor_list *list, size_t index, const int64_t grid_thw[3]) {
  struct omma_tensor *tensor = add(list, index, "grid_thw");
  tensor->type = OMMA_TENSOR_I64;
  tensor->n_dims = 1;
  tensor->shape[0] = 3;
  tensor->data = grid_thw;
}

/* Writes the file; Ctrl-C waits for it. Returns an exit code. */
static int tensor_list_save(const struct tensor_list *list, const char *path) {
  struct omma_error error;
  ommai_interrupt_defer();
  enum omma_status status = omma_save_tensors(path, list->tensors, list->count, &error);
  bool interrupted = ommai_interrupted();
  ommai_interrupt_resume();
  if (status != OMMA_OK) return ommai_failed_call(&error);
  return interrupted ? ommai_failed("interrupted after %s was written", path) : OMMAI_EXIT_DONE;
}

/* ---- images ---- */

static void release_values(struct patches *patches) {
  ommai_release(&ommai_huge_page_allocator, patches->pixel_values, patches->count, sizeof(float));
  patches->pixel_values = NULL;
}

static int preprocess(const struct omma_model *model, const struct values *values, const char *source, int64_t patch_dim,
                      struct patches *patches) {
  struct omma_error error;
  struct omma_image *image;
  struct omma_image_options limits = ommai_common_image_options(&values->common);
  double start = ommai_clock_seconds();
  int code = ommai_load_image(source, &image);
  if (code != OMMAI_EXIT_DONE) return code;
  double decoded = ommai_clock_seconds();
  patches->decode_seconds = decoded - start;
  int64_t count;
  if (omma_model_image_sizes(model, omma_image_width(image), omma_image_height(image), &limits, &patches->sizes, &error) !=
      OMMA_OK) {
    ommai_error_prefix(&error, "%s", source);
    code = ommai_failed_call(&error);
  } else if (!ommai_mul_i64(patches->sizes.n_patches, patch_dim, &count) ||
             !(patches->pixel_values =
                   ommai_allocate_uninitialised(&ommai_huge_page_allocator, (size_t)count, sizeof(float)))) {
    code = ommai_failed("%s: out of memory: %lld patches", source, (long long)patches->sizes.n_patches);
  } else {
    patches->count = (size_t)count;
    if (omma_preprocess(model, image, &limits, patches->pixel_values, patches->count, &error) != OMMA_OK) {
      ommai_error_prefix(&error, "%s", source);
      code = ommai_failed_call(&error);
    }
  }
  patches->preprocess_seconds = ommai_clock_seconds() - decoded;
  omma_image_destroy(image);
  if (!values->output) release_values(patches);
  return code;
}

static int save(const struct values *values, const struct patches *patches, size_t n_images, int64_t patch_dim) {
  struct tensor_list list;
  OMMAI_TRY_CODE(tensor_list_create(2 * n_images, &list));
  for (size_t i = 0; i < n_images; i++) {
    tensor_list_add_matrix(&list, i, "pixel_values", patches[i].sizes.n_patches, patch_dim, patches[i].pixel_values);
    tensor_list_add_grid(&list, i, patches[i].sizes.grid_thw);
  }
  int code = tensor_list_save(&list, values->output);
  tensor_list_release(&list);
  return code;
}

static int print_json(const struct values *values, const struct ommai_strings *sources, const struct patches *patches,
                      int64_t patch_dim) {
  struct ommai_text out = ommai_json_begin();
  ommai_put_string(&out, "output", values->output);
  ommai_put_begin(&out, "images", "[");
  for (size_t i = 0; i < sources->count; i++) {
    ommai_put_begin(&out, NULL, "{");
    ommai_put_string(&out, "source", sources->items[i]);
    ommai_put_grid(&out, patches[i].sizes.grid_thw);
    OMMAI_PUT_INTEGERS(&out, {"n_patches", patches[i].sizes.n_patches}, {"patch_dim", patch_dim});
    OMMAI_PUT_REALS(&out, {"decode_ms", patches[i].decode_seconds * 1e3},
                    {"preprocess_ms", patches[i].preprocess_seconds * 1e3});
    ommai_put_end(&out, "}");
  }
  ommai_put_end(&out, "]");
  return ommai_json_end(&out);
}

static int print_table(const struct ommai_strings *sources, const struct patches *patches, int64_t patch_dim) {
  for (size_t i = 0; i < sources->count; i++) {
    const struct omma_image_sizes *sizes = &patches[i].sizes;
    printf("image.%zu  ", i);
    ommai_print_plain(stdout, sources->items[i], 0);
    printf(": grid %lldx%lldx%lld, pixel_values [%lld, %lld]\n", (long long)sizes->grid_thw[0], (long long)sizes->grid_thw[1],
           (long long)sizes->grid_thw[2], (long long)sizes->n_patches, (long long)patch_dim);
  }
  return ommai_finish_output();
}

static int preprocess_all(const struct omma_model *model, const struct values *values, const struct ommai_strings *sources,
                          struct patches *patches) {
  struct omma_model_info info;
  struct ommai_progress progress;
  int code = OMMAI_EXIT_DONE;
  omma_model_get_info(model, &info);
  ommai_progress_begin(&progress, "preprocessing");
  for (size_t i = 0; i < sources->count && code == OMMAI_EXIT_DONE; i++) {
    ommai_progress_update(&progress, (int64_t)i, (int64_t)sources->count);
    code = preprocess(model, values, sources->items[i], info.patch_dim, &patches[i]);
  }
  ommai_progress_end(&progress);
  if (code == OMMAI_EXIT_DONE && values->output) code = save(values, patches, sources->count, info.patch_dim);
  if (code != OMMAI_EXIT_DONE) return code;
  return values->json ? print_json(values, sources, patches, info.patch_dim) : print_table(sources, patches, info.patch_dim);
}

static int run_preprocess(const void *given, const struct ommai_strings *arguments) {
  const struct values *values = given;
  if (!values->output && !values->json) {
    return ommai_usage_error("preprocess: --output is missing: the file to write, such as OUT.safetensors");
  }
  struct ommai_common common = values->common;
  struct ommai_strings sources = *arguments;
  struct omma_model *model = NULL;
  int code = ommai_common_take_model_of("preprocess", OMMAI_FURTHER_FILES, &sources, &common);
  if (code == OMMAI_EXIT_DONE && !sources.count) code = ommai_usage_error("preprocess: images are missing");
  if (code == OMMAI_EXIT_DONE && values->output) code = ommai_check_output_path(values->output);
  if (code != OMMAI_EXIT_DONE) return code;
  size_t n_images = sources.count;
  struct patches *patches = ommai_allocate(&ommai_default_allocator, n_images, sizeof *patches);
  if (!patches) return ommai_failed("preprocess: out of memory: a list of %zu images", n_images);
  code = ommai_open_model(&common, true, &model);
  if (code == OMMAI_EXIT_DONE) code = preprocess_all(model, values, &sources, patches);
  omma_model_close(model);
  for (size_t i = 0; i < n_images; i++) release_values(&patches[i]);
  ommai_release(&ommai_default_allocator, patches, n_images, sizeof *patches);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_STRING("output", output, "FILE", "safetensors file to write; required without --json", .letter = 'o'),
    OMMAI_FLAG("json", json, "print sizes and times as JSON"),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Output", table);

const struct ommai_command ommai_command_preprocess = {
    .name = "preprocess",
    .summary = "images as the model's patches, as a safetensors file",
    .arguments = "[DIR] IMAGE... --output OUT.safetensors",
    .details =
        "Decodes, resizes and normalises images and cuts them into patches. Per image i the file holds "
        "image.i.pixel_values [n_patches, patch_dim] and image.i.grid_thw, with the patches in the order of the model's "
        "official "
        "processor: by merge blocks, or row by row. DIR is the model, as with --model. Needs no weights.",
    .examples = {"omma preprocess photo.jpg --max-pixels 500k --output patches.safetensors"},
    .groups = {&options, &ommai_image_options, &ommai_model_options, &ommai_machine_options},
    .values_size = sizeof(struct values),
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .run = run_preprocess,
};
