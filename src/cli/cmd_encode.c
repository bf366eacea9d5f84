/* omma encode: images -> the vision tower's output as tensors. */
#include <stdio.h>

#include "base/allocator.h"
#include "cli/commands.h"
#include "cli/diagnostics.h"
#include "cli/image_sources.h"
#include "cli/json_out.h"
#include "cli/model_options.h"
#include "cli/plain_text.h"
#include "cli/progress.h"
#include "cli/tensor_list.h"

struct values {
  struct ommai_common common;
  const char *output;
  int pack;
  bool json;
};

enum { PACK_TOGETHER, PACK_SEPARATE };
static const char *const pack_names[] = {"together", "separate", NULL};

/* The images' results, in the order of the arguments. */
struct results {
  const struct ommai_strings *sources;
  struct omma_embeddings *embeddings;
  struct omma_image_embeddings *images;
};

static int print_json(const struct values *values, const struct results *results) {
  json_t *list = json_array();
  for (size_t i = 0; i < results->sources->count; i++) {
    const struct omma_image_embeddings *image = &results->images[i];
    ommai_json_append(&list, json_pack("{s:o, s:[I,I,I], s:I, s:I, s:I}", "source", ommai_json_text(results->sources->items[i]),
                                       "grid_thw", (json_int_t)image->grid_thw[0], (json_int_t)image->grid_thw[1],
                                       (json_int_t)image->grid_thw[2], "n_tokens", (json_int_t)image->n_tokens, "width",
                                       (json_int_t)image->width, "n_deepstack", (json_int_t)image->n_deepstack));
  }
  return ommai_json_print(json_pack("{s:o, s:o}", "output", ommai_json_text(values->output), "images", list));
}

static int print_table(const struct results *results) {
  for (size_t i = 0; i < results->sources->count; i++) {
    const struct omma_image_embeddings *image = &results->images[i];
    printf("image.%zu  ", i);
    ommai_print_plain(stdout, results->sources->items[i], 0);
    printf(": grid %lldx%lldx%lld, embeddings [%lld, %lld], %lld deepstack tensors\n", (long long)image->grid_thw[0],
           (long long)image->grid_thw[1], (long long)image->grid_thw[2], (long long)image->n_tokens, (long long)image->width,
           (long long)image->n_deepstack);
  }
  return ommai_finish_output();
}

static int save(const struct values *values, const struct results *results) {
  struct ommai_tensor_list list;
  size_t n_images = results->sources->count, per_image = 2 + (size_t)results->images[0].n_deepstack;
  int code = ommai_tensor_list_create(n_images * per_image, &list);
  if (code != OMMAI_EXIT_DONE) return code;
  for (size_t i = 0; i < n_images; i++) {
    const struct omma_image_embeddings *image = &results->images[i];
    ommai_tensor_list_add_matrix(&list, i, "embeddings", image->n_tokens, image->width, image->merged);
    for (int64_t j = 0; j < image->n_deepstack; j++) {
      char name[32];
      snprintf(name, sizeof name, "deepstack.%lld", (long long)j);
      ommai_tensor_list_add_matrix(&list, i, name, image->n_tokens, image->width, image->deepstack[j]);
    }
    ommai_tensor_list_add_grid(&list, i, image->grid_thw);
  }
  code = ommai_tensor_list_save(&list, values->output);
  ommai_tensor_list_release(&list);
  return code;
}

static int encode(struct omma_model *model, const struct values *values, struct omma_image *const *images,
                  struct results *results) {
  struct omma_error error;
  struct omma_engine *engine = NULL;
  struct ommai_progress progress;
  size_t n_images = results->sources->count;
  struct omma_image_options limits = ommai_common_image_options(&values->common);
  const struct omma_engine_options one = {.max_sequences = 1};
  if (omma_engine_create(model, &one, &engine, &error) != OMMA_OK) return ommai_failed_call(&error);
  ommai_progress_begin(&progress, "encoding");
  enum omma_status status =
      omma_encode(engine, (const struct omma_image *const *)images, n_images, &limits, values->pack == PACK_TOGETHER,
                  ommai_progress_update, &progress, &results->embeddings, &error);
  ommai_progress_end(&progress);
  omma_engine_destroy(engine);
  if (status != OMMA_OK) return ommai_failed_call(&error);
  results->images = ommai_allocate(&ommai_default_allocator, n_images, sizeof *results->images);
  if (!results->images) return ommai_failed("out of memory: a list of %zu results", n_images);
  for (size_t i = 0; i < n_images; i++) omma_embeddings_get(results->embeddings, i, &results->images[i]);
  return OMMAI_EXIT_DONE;
}

static int run_encode(const void *given, const struct ommai_strings *arguments) {
  const struct values *values = given;
  if (!values->output) return ommai_usage_error("encode: --output is missing: the file to write, such as OUT.safetensors");
  struct ommai_common common = values->common;
  struct omma_model *model = NULL;
  struct omma_image **images = NULL;
  struct results results = {.sources = arguments};
  /* Nothing is generated: the smallest context keeps the engine's memory for keys and values
   * small. */
  common.max_model_len = OMMA_ATTENTION_PAGE_TOKENS;
  common.no_chat = true;
  int code = ommai_load_images(arguments->items, arguments->count, &images);
  if (code == OMMAI_EXIT_DONE) code = ommai_open_model(&common, false, &model);
  if (code == OMMAI_EXIT_DONE) code = encode(model, values, images, &results);
  if (code == OMMAI_EXIT_DONE) code = save(values, &results);
  if (code == OMMAI_EXIT_DONE) code = values->json ? print_json(values, &results) : print_table(&results);
  ommai_release(&ommai_default_allocator, results.images, arguments->count, sizeof *results.images);
  omma_embeddings_destroy(results.embeddings);
  omma_model_close(model);
  ommai_release_images(images, arguments->count);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_STRING("output", output, "FILE", "safetensors file to write; required", .letter = 'o'),
    OMMAI_CHOICE("pack", pack, "HOW", pack_names,
                 "run all images as one packed batch, or one by one; the results are equal bit for bit", .initial = "together"),
    OMMAI_FLAG("json", json, "print what was written as JSON"),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Output", table);

const struct ommai_command ommai_command_encode = {
    .name = "encode",
    .summary = "embeddings of images, as a safetensors file",
    .arguments = "IMAGE... --output OUT.safetensors",
    .details =
        "Runs images through the vision tower. Per image i the file holds image.i.embeddings [n_tokens, width], "
        "image.i.deepstack.j of the same shape where the model has such outputs, and image.i.grid_thw.",
    .examples = {"omma encode photo.jpg scan.png --output embeddings.safetensors"},
    .groups = {&options, &ommai_image_options, &ommai_model_options, &ommai_weight_options, &ommai_machine_options},
    .values_size = sizeof(struct values),
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .run = run_encode,
};
