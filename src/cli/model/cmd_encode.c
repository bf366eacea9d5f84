/* omma encode: images -> the vision tower's output as tensors. */
#include <stdio.h>

#include "base/allocator.h"
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
  int pack;
  bool fail_fast;
  bool json;
};

enum { PACK_TOGETHER, PACK_SEPARATE };
static const char *const pack_names[] = {"together", "separate", NULL};

/* Images are decoded, encoded and written in groups: up to these bytes of pixels and as many
 * patches as the engine runs at once, and at least one image. */
#define GROUP_PIXEL_BYTES ((int64_t)64 << 20)
#define GROUP_IMAGES 64

/* What is printed of an image in the end. */
struct written {
  bool done;
  int64_t grid_thw[3];
  int64_t n_tokens, width, n_deepstack;
};

struct run {
  const struct values *values;
  const struct ommai_strings *sources;
  const struct omma_model *model;
  struct omma_engine *engine;
  struct omma_tensor_file *file;
  struct omma_image_options limits;
  struct written *written; /* an image each */
  size_t n_failed;
  struct ommai_progress progress;
  struct omma_image *images[GROUP_IMAGES];
  size_t indices[GROUP_IMAGES]; /* of the group's images in `sources` */
  size_t n_group;
  int64_t pixel_bytes, patches; /* of the group */
};

static int print_json(const struct run *run) {
  struct ommai_text out = ommai_json_begin();
  ommai_put_string(&out, "output", run->values->output);
  ommai_put_integer(&out, "failed", (int64_t)run->n_failed);
  ommai_put_begin(&out, "images", "[");
  for (size_t i = 0; i < run->sources->count; i++) {
    const struct written *image = &run->written[i];
    if (!image->done) continue;
    ommai_put_begin(&out, NULL, "{");
    ommai_put_integer(&out, "index", (int64_t)i);
    ommai_put_string(&out, "source", run->sources->items[i]);
    ommai_put_grid(&out, image->grid_thw);
    OMMAI_PUT_INTEGERS(&out, {"n_tokens", image->n_tokens}, {"width", image->width}, {"n_deepstack", image->n_deepstack});
    ommai_put_end(&out, "}");
  }
  ommai_put_end(&out, "]");
  return ommai_json_end(&out);
}

static int print_table(const struct run *run) {
  for (size_t i = 0; i < run->sources->count; i++) {
    const struct written *image = &run->written[i];
    if (!image->done) continue;
    printf("image.%zu  ", i);
    ommai_print_plain(stdout, run->sources->items[i], 0);
    printf(": grid %lldx%lldx%lld, embeddings [%lld, %lld], %lld deepstack tensors\n", (long long)image->grid_thw[0],
           (long long)image->grid_thw[1], (long long)image->grid_thw[2], (long long)image->n_tokens, (long long)image->width,
           (long long)image->n_deepstack);
  }
  return ommai_finish_output();
}

static enum omma_status add_matrix(struct run *run, size_t index, const char *what, const struct omma_image_embeddings *image,
                                   const float *rows, struct omma_error *error) {
  char name[OMMA_MAX_TENSOR_NAME + 1];
  snprintf(name, sizeof name, "image.%zu.%s", index, what);
  const struct omma_tensor tensor = {
      .name = name, .type = OMMA_TENSOR_F32, .n_dims = 2, .shape = {image->n_tokens, image->width}, .data = rows};
  return omma_tensor_file_add(run->file, &tensor, error);
}

/* The grid, whose values are wider, comes first, so that all are aligned. */
static enum omma_status write_image(struct run *run, size_t index, const struct omma_image_embeddings *image,
                                    struct omma_error *error) {
  char name[OMMA_MAX_TENSOR_NAME + 1];
  snprintf(name, sizeof name, "image.%zu.grid_thw", index);
  const struct omma_tensor grid = {.name = name, .type = OMMA_TENSOR_I64, .n_dims = 1, .shape = {3}, .data = image->grid_thw};
  enum omma_status status = omma_tensor_file_add(run->file, &grid, error);
  if (status == OMMA_OK) status = add_matrix(run, index, "embeddings", image, image->merged, error);
  for (int64_t j = 0; j < image->n_deepstack && status == OMMA_OK; j++) {
    char what[32];
    snprintf(what, sizeof what, "deepstack.%lld", (long long)j);
    status = add_matrix(run, index, what, image, image->deepstack[j], error);
  }
  return status;
}

/* Encodes `n` images of the group and writes them. A failed write ends everything (*lost). */
static enum omma_status encode_images(struct run *run, size_t first, size_t n, bool *lost, struct omma_error *error) {
  struct omma_embeddings *embeddings;
  enum omma_status status = omma_encode(run->engine, (const struct omma_image *const *)&run->images[first], n, &run->limits,
                                        run->values->pack == PACK_TOGETHER, NULL, NULL, &embeddings, error);
  if (status != OMMA_OK) return status;
  for (size_t i = 0; i < n && status == OMMA_OK; i++) {
    size_t index = run->indices[first + i];
    struct omma_image_embeddings image;
    omma_embeddings_get(embeddings, i, &image);
    status = write_image(run, index, &image, error);
    *lost = status != OMMA_OK;
    run->written[index] = (struct written){.done = status == OMMA_OK,
                                           .grid_thw = {image.grid_thw[0], image.grid_thw[1], image.grid_thw[2]},
                                           .n_tokens = image.n_tokens,
                                           .width = image.width,
                                           .n_deepstack = image.n_deepstack};
  }
  omma_embeddings_destroy(embeddings);
  return status;
}

/* One that fails in a group of several is found by encoding each alone. */
static int finish_group(struct run *run) {
  struct omma_error error;
  bool lost = false;
  size_t n = run->n_group;
  int code = OMMAI_EXIT_DONE;
  enum omma_status status = n == 0 ? OMMA_OK : encode_images(run, 0, n, &lost, &error);
  for (size_t i = 0; i < n && status != OMMA_OK && !lost; i++) {
    if (encode_images(run, i, 1, &lost, &error) == OMMA_OK) continue;
    if (lost) break;
    run->n_failed++;
    code = ommai_failed("%s: %s", run->sources->items[run->indices[i]], error.message);
    if (run->values->fail_fast) break;
  }
  if (lost) code = ommai_failed_call(&error);
  for (size_t i = 0; i < n; i++) omma_image_destroy(run->images[i]);
  run->n_group = 0;
  run->pixel_bytes = run->patches = 0;
  return lost || run->values->fail_fast ? code : OMMAI_EXIT_DONE;
}

/* An image, and its sizes, which show what the model refuses. */
static int load_image(const struct run *run, size_t index, struct omma_image **image, struct omma_image_sizes *sizes) {
  struct omma_error error;
  const char *source = run->sources->items[index];
  OMMAI_TRY_CODE(ommai_load_image(source, image));
  int32_t width = omma_image_width(*image), height = omma_image_height(*image);
  if (omma_model_image_sizes(run->model, width, height, &run->limits, sizes, &error) == OMMA_OK) return OMMAI_EXIT_DONE;
  omma_image_destroy(*image);
  return ommai_failed("%s: %s", source, error.message);
}

/* Puts an image into the group, which is encoded first when there is no room for it. */
static int take_image(struct run *run, size_t index, struct omma_image *image, const struct omma_image_sizes *sizes) {
  int64_t bytes = (int64_t)sizes->width * sizes->height * 3;
  bool full = run->n_group == GROUP_IMAGES || run->pixel_bytes + bytes > GROUP_PIXEL_BYTES ||
              run->patches + sizes->n_patches > OMMA_DEFAULT_PATCH_BUDGET;
  int code = full ? finish_group(run) : OMMAI_EXIT_DONE;
  run->images[run->n_group] = image;
  run->indices[run->n_group++] = index;
  run->pixel_bytes += bytes;
  run->patches += sizes->n_patches;
  return code;
}

/* A file that cannot be used is named, and the others are written all the same. */
static int encode_all(struct run *run) {
  size_t n = run->sources->count;
  int code = OMMAI_EXIT_DONE;
  ommai_progress_begin_long(&run->progress, "encoding");
  for (size_t i = 0; i < n && code == OMMAI_EXIT_DONE && !ommai_interrupted(); i++) {
    struct omma_image *image;
    struct omma_image_sizes sizes;
    snprintf(run->progress.details, sizeof run->progress.details, "image %zu of %zu", i + 1, n);
    ommai_progress_update(&run->progress, (int64_t)i, (int64_t)n);
    int loaded = load_image(run, i, &image, &sizes);
    if (loaded == OMMAI_EXIT_DONE) {
      code = take_image(run, i, image, &sizes);
    } else {
      run->n_failed++;
      if (run->values->fail_fast) code = loaded;
    }
  }
  if (code == OMMAI_EXIT_DONE && !ommai_interrupted()) code = finish_group(run);
  for (size_t i = 0; i < run->n_group; i++) omma_image_destroy(run->images[i]);
  ommai_progress_end(&run->progress);
  return code;
}

/* Puts the file in place, unless nothing is in it. */
static int finish_file(struct run *run) {
  struct omma_error error;
  size_t n = run->sources->count;
  if (run->n_failed == n) return OMMAI_EXIT_FAILED;
  if (omma_tensor_file_finish(run->file, &error) != OMMA_OK) return ommai_failed_call(&error);
  int code = run->values->json ? print_json(run) : print_table(run);
  if (code != OMMAI_EXIT_DONE || run->n_failed == 0) return code;
  return ommai_failed("encode: %zu of %zu images are in %s; the others failed", n - run->n_failed, n, run->values->output);
}

static int open_run(struct run *run, struct omma_model *model) {
  struct omma_error error;
  struct omma_model_info info;
  /* Nothing is kept for images that come again. */
  const struct omma_engine_options one = {.max_sequences = 1, .encoder_cache_bytes = -1};
  size_t n = run->sources->count;
  omma_model_get_info(model, &info);
  run->model = model;
  run->written = ommai_allocate(&ommai_default_allocator, n, sizeof *run->written);
  if (!run->written) return ommai_failed("out of memory: a list of %zu results", n);
  if (omma_engine_create(model, &one, &run->engine, &error) != OMMA_OK) return ommai_failed_call(&error);
  if (omma_tensor_file_create(run->values->output, n * (2 + (size_t)info.n_deepstack), &run->file, &error) == OMMA_OK) {
    return OMMAI_EXIT_DONE;
  }
  return ommai_failed_call(&error);
}

static int run_encode(const void *given, const struct ommai_strings *arguments) {
  const struct values *values = given;
  if (!values->output) return ommai_usage_error("encode: --output is missing: the file to write, such as OUT.safetensors");
  struct ommai_common common = values->common;
  struct ommai_strings sources = *arguments;
  struct omma_model *model = NULL;
  struct run run = {.values = values, .sources = &sources, .limits = ommai_common_image_options(&values->common)};
  /* Nothing is generated: the smallest context keeps the engine's memory for keys and values
   * small. */
  common.max_model_len = OMMA_ATTENTION_PAGE_TOKENS;
  common.no_chat = true;
  int code = ommai_common_take_model_of("encode", OMMAI_FURTHER_FILES, &sources, &common);
  if (code == OMMAI_EXIT_DONE && !sources.count) code = ommai_usage_error("encode: images are missing");
  if (code == OMMAI_EXIT_DONE) code = ommai_check_output_path(values->output);
  if (code == OMMAI_EXIT_DONE) code = ommai_open_model(&common, false, &model);
  if (code == OMMAI_EXIT_DONE) ommai_common_note_demo("encode", &common);
  if (code == OMMAI_EXIT_DONE) code = open_run(&run, model);
  ommai_interrupt_defer();
  if (code == OMMAI_EXIT_DONE) code = encode_all(&run);
  if (code == OMMAI_EXIT_DONE && !ommai_interrupted()) code = finish_file(&run);
  if (ommai_interrupted()) code = ommai_interrupt_status();
  ommai_interrupt_resume();
  omma_tensor_file_destroy(run.file);
  omma_engine_destroy(run.engine);
  omma_model_close(model);
  ommai_release(&ommai_default_allocator, run.written, sources.count, sizeof *run.written);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_STRING("output", output, "FILE", "safetensors file to write; required", .letter = 'o'),
    OMMAI_CHOICE("pack", pack, "HOW", pack_names,
                 "run images as packed batches, or one by one; the results are equal bit for bit", .initial = "together"),
    OMMAI_FLAG("fail-fast", fail_fast,
               "end at the first image that fails, and write nothing; otherwise it is named, the others "
               "are written, and the exit code is 1"),
    OMMAI_FLAG("json", json, "print what was written as JSON"),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Output", table);

const struct ommai_command ommai_command_encode = {
    .name = "encode",
    .summary = "embeddings of images, as a safetensors file",
    .arguments = "[DIR] IMAGE... --output OUT.safetensors",
    .details =
        "Runs images through the vision tower. Per image i the file holds image.i.embeddings [n_tokens, width], "
        "image.i.deepstack.j of the same shape where the model has such outputs, and image.i.grid_thw. Images are read, "
        "encoded "
        "and written in groups of at most 64 MiB of pixels, so memory does not grow with their number. DIR is the model, as "
        "with --model.",
    .examples = {"omma encode photo.jpg scan.png --output embeddings.safetensors"},
    .groups = {&options, &ommai_image_options, &ommai_model_options, &ommai_weight_options, &ommai_machine_options},
    .values_size = sizeof(struct values),
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .run = run_encode,
};
