/* omma plan: what images become and what they cost, before anything is run. */
#include <errno.h>
#include <math.h>
#include <omma/omma.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "base/plural.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/format.h"
#include "cli/core/json_out.h"
#include "cli/core/paths.h"
#include "cli/core/plain_text.h"
#include "cli/model/bench_times.h"
#include "cli/model/image_sources.h"
#include "cli/model/model_options.h"
#include "cli/model/room.h"
#include "cli/model/weight_choices.h"

/* Part of the measured peak that the estimate of the time assumes. */
#define ASSUMED_EFFICIENCY 0.8
/* Readings of the peak and of the memory: enough to see that a machine is not steady. */
#define READINGS 3
/* The time of an int8 tower in that of a bf16 one, at the usual sizes of images:
 * docs/performance.md. */
#define INT8_TIME 0.7
/* What is estimated where only a model is given. */
#define USUAL_SIZE "1024x1024"
#define CONFIG "config.json"
#define MIN_NAME_WIDTH 8
#define MAX_NAME_WIDTH 40

struct values {
  struct ommai_common common;
  int64_t frames; /* of a video of that size; 0: images */
  int64_t max_num_seqs;
  const char *data_parallel;
};

/* Everything that is printed. */
struct estimate {
  struct ommai_strings sources;
  struct omma_image_sizes *images;
  struct omma_memory_estimate memory;
  struct omma_model_info model;
  struct ommai_weight_choices choices;
  struct omma_image_sizes total; /* its sums: no size, no grid */
  const char *peak_type;         /* that of int8 towers is what their attention computes in */
  struct ommai_readings peaks, reads; /* GFLOP/s and GB/s */
  double efficiency;
};

static double expected_seconds(const struct estimate *estimate, double flops) {
  return flops / (estimate->efficiency * estimate->peaks.best * 1e9);
}

static int find_size(const char *source, int32_t *width, int32_t *height) {
  if (ommai_parse_image_size(source, width, height)) {
    if (*width > 0 && *height > 0) return OMMAI_EXIT_DONE;
    return ommai_usage_error("plan: %s: an image has a width and a height of 1 or more", source);
  }
  /* Addresses have a colon. */
  if (!ommai_is_image_source(source) && !strchr(source, ':') && access(source, F_OK) != 0 && errno == ENOENT) {
    /* A name of a file that is missing, or a size that is none. */
    int (*report)(const char *format, ...) = strpbrk(source, "./") ? ommai_failed : ommai_usage_error;
    return report("image: %s: neither an image file (%s) nor a size WIDTHxHEIGHT nor a directory with a model", source,
                  strerror(ENOENT));
  }
  struct omma_image *image;
  OMMAI_TRY_CODE(ommai_load_image(source, &image));
  *width = omma_image_width(image);
  *height = omma_image_height(image);
  omma_image_destroy(image);
  return OMMAI_EXIT_DONE;
}

static enum omma_status find_sizes(const struct omma_model *model, int64_t n_frames, int32_t width, int32_t height,
                                   const struct omma_image_options *limits, struct omma_image_sizes *sizes,
                                   struct omma_error *error) {
  if (n_frames == 0) return omma_model_image_sizes(model, width, height, limits, sizes, error);
  return omma_model_video_sizes(model, width, height, (size_t)n_frames, limits, sizes, error);
}

static int size_images(const struct omma_model *model, const struct values *values, struct estimate *estimate) {
  struct omma_image_options limits = ommai_common_image_options(&values->common);
  struct omma_error error;
  for (size_t i = 0; i < estimate->sources.count; i++) {
    struct omma_image_sizes *sizes = &estimate->images[i];
    int32_t width, height;
    OMMAI_TRY_CODE(find_size(estimate->sources.items[i], &width, &height));
    if (find_sizes(model, values->frames, width, height, &limits, sizes, &error) != OMMA_OK) {
      ommai_error_prefix(&error, "%s", estimate->sources.items[i]);
      return ommai_failed_call(&error);
    }
    estimate->total.n_patches += sizes->n_patches;
    estimate->total.n_tokens += sizes->n_tokens;
    estimate->total.n_segments += sizes->n_segments;
    estimate->total.n_windows += sizes->n_windows;
    estimate->total.flops += sizes->flops;
  }
  return OMMAI_EXIT_DONE;
}

/* One reading each time: an estimate is not a benchmark's figure, and what differs is said. */
static int read_peak(const struct values *values, struct estimate *estimate) {
  struct omma_machine machine;
  struct omma_error error;
  if (omma_measure_machine(ommai_common_isa(&values->common), estimate->model.n_threads, &machine, &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  bool bf16 = strcmp(estimate->model.vision_weights, "f32") != 0 && machine.bf16_gflops > 0;
  estimate->peak_type = bf16 ? "bf16" : "f32";
  ommai_readings_add(&estimate->peaks, ommai_machine_gflops(&machine, bf16));
  return OMMAI_EXIT_DONE;
}

static int read_memory(struct estimate *estimate) {
  struct omma_error error;
  double gbps;
  if (omma_measure_read(estimate->model.n_threads, &gbps, &error) != OMMA_OK) return ommai_failed_call(&error);
  ommai_readings_add(&estimate->reads, gbps);
  return OMMAI_EXIT_DONE;
}

static int estimate_cost(const struct omma_model *model, const struct values *values, struct estimate *estimate) {
  struct omma_engine_options options = {.kv_cache_bytes = values->common.kv_cache_bytes, .max_sequences = values->max_num_seqs};
  struct omma_error error;
  int64_t largest = 0;
  for (size_t i = 0; i < estimate->sources.count; i++) {
    if (estimate->images[i].n_patches > largest) largest = estimate->images[i].n_patches;
  }
  omma_model_get_info(model, &estimate->model);
  if (omma_estimate_memory(model, &options, largest, &estimate->memory, &error) != OMMA_OK) return ommai_failed_call(&error);
  bool int8 = strcmp(estimate->model.vision_weights, "int8") == 0;
  estimate->efficiency = int8 ? ASSUMED_EFFICIENCY / INT8_TIME : ASSUMED_EFFICIENCY;
  int code = OMMAI_EXIT_DONE;
  for (int i = 0; i < READINGS && code == OMMAI_EXIT_DONE; i++) {
    code = read_peak(values, estimate);
    if (code == OMMAI_EXIT_DONE) code = read_memory(estimate);
  }
  if (code != OMMAI_EXIT_DONE) return code;
  return ommai_weight_choices_make(&values->common, &options, estimate->reads.best, largest, &estimate->choices);
}

/* What an image and all of them together have. */
static void put_work(struct ommai_text *out, const struct estimate *estimate, const struct omma_image_sizes *sizes) {
  OMMAI_PUT_INTEGERS(out, {"n_patches", sizes->n_patches}, {"n_tokens", sizes->n_tokens}, {"n_segments", sizes->n_segments},
                     {"n_windows", sizes->n_windows});
  OMMAI_PUT_REALS(out, {"flops", sizes->flops}, {"expected_seconds", expected_seconds(estimate, sizes->flops)});
}

static void put_image(struct ommai_text *out, const struct estimate *estimate, size_t index) {
  const struct omma_image_sizes *sizes = &estimate->images[index];
  ommai_put_begin(out, NULL, "{");
  ommai_put_string(out, "source", estimate->sources.items[index]);
  OMMAI_PUT_INTEGERS(out, {"width", sizes->width}, {"height", sizes->height}, {"resized_width", sizes->resized_width},
                     {"resized_height", sizes->resized_height}, {"resize_bytes", sizes->resize_bytes});
  ommai_put_grid(out, sizes->grid_thw);
  put_work(out, estimate, sizes);
  ommai_put_end(out, "}");
}

/* Of an engine; the weights are there once for all on a memory node. */
static int64_t engine_bytes(const struct estimate *estimate) {
  return (estimate->memory.total_bytes - estimate->memory.weight_bytes) / estimate->model.n_engines;
}

static void put_engines(struct ommai_text *out, const struct estimate *estimate) {
  ommai_put_begin(out, "engines", "{");
  OMMAI_PUT_INTEGERS(out, {"n_engines", estimate->model.n_engines}, {"n_threads", estimate->model.n_threads},
                     {"n_weight_copies", estimate->model.n_copies}, {"engine_bytes", engine_bytes(estimate)});
  ommai_put_end(out, "}");
}

static void print_engines(const struct estimate *estimate) {
  const struct omma_model_info *model = &estimate->model;
  char each[32];
  if (model->n_engines == 1) return;
  ommai_print_fact(stdout, "engines", "%d, of %d thread%s and %s each, over %d cop%s of the weights", model->n_engines,
                   model->n_threads, ommai_plural(model->n_threads),
                   ommai_format_bytes(engine_bytes(estimate), each, sizeof each), model->n_copies,
                   model->n_copies == 1 ? "y" : "ies");
}

static int print_json(const struct estimate *estimate) {
  struct ommai_text out = ommai_json_begin();
  ommai_put_begin(&out, "images", "[");
  for (size_t i = 0; i < estimate->sources.count; i++) put_image(&out, estimate, i);
  ommai_put_end(&out, "]");
  ommai_put_begin(&out, "total", "{");
  put_work(&out, estimate, &estimate->total);
  ommai_put_end(&out, "}");
  ommai_put_model(&out, &estimate->model);
  ommai_put_end(&out, "}");
  ommai_put_memory_estimate(&out, &estimate->memory);
  put_engines(&out, estimate);
  ommai_put_real(&out, "peak_gflops", estimate->peaks.best);
  ommai_put_reals(&out, "peaks", estimate->peaks.values, estimate->peaks.n);
  ommai_put_string(&out, "peak_note", ommai_readings_doubt(&estimate->peaks));
  ommai_put_real(&out, "assumed_efficiency", estimate->efficiency);
  ommai_put_weight_choices(&out, &estimate->choices);
  ommai_put_real(&out, "read_gbps", estimate->reads.best);
  ommai_put_reals(&out, "reads", estimate->reads.values, estimate->reads.n);
  ommai_put_string(&out, "read_note", ommai_readings_doubt(&estimate->reads));
  ommai_put_integer(&out, "choices_context", estimate->choices.context);
  return ommai_json_end(&out);
}

/* Width of the column of names. */
static int name_width(const struct ommai_strings *sources) {
  size_t width = MIN_NAME_WIDTH;
  for (size_t i = 0; i < sources->count; i++) {
    size_t length = strlen(sources->items[i]);
    if (length > width) width = length;
  }
  return width > MAX_NAME_WIDTH ? MAX_NAME_WIDTH : (int)width;
}

/* A long name shows its end, where files differ. */
static void print_name(const char *name, int width) {
  size_t length = strlen(name);
  bool cut = length > (size_t)width;
  if (cut) fputs("...", stdout);
  ommai_print_plain(stdout, cut ? name + length - (size_t)(width - 3) : name, cut ? width - 3 : width);
}

static void print_row(const struct estimate *estimate, const char *size, const char *resized, const char *grid,
                      const struct omma_image_sizes *sizes) {
  char time[32];
  printf(" %9s %9s %9s %7lld %6lld %8lld %7lld %7.1f %7s\n", size, resized, grid, (long long)sizes->n_patches,
         (long long)sizes->n_tokens, (long long)sizes->n_segments, (long long)sizes->n_windows, sizes->flops * 1e-9,
         ommai_format_seconds(expected_seconds(estimate, sizes->flops), time, sizeof time));
}

static void print_image(const struct estimate *estimate, const struct omma_image_sizes *sizes) {
  char size[32], resized[32], grid[64];
  snprintf(size, sizeof size, "%dx%d", (int)sizes->width, (int)sizes->height);
  snprintf(resized, sizeof resized, "%dx%d", (int)sizes->resized_width, (int)sizes->resized_height);
  snprintf(grid, sizeof grid, "%lldx%lldx%lld", (long long)sizes->grid_thw[0], (long long)sizes->grid_thw[1],
           (long long)sizes->grid_thw[2]);
  print_row(estimate, size, resized, grid, sizes);
}

static int print_table(const struct estimate *estimate) {
  const char *doubt = ommai_readings_doubt(&estimate->peaks);
  int width = name_width(&estimate->sources);
  print_name("image", width);
  printf(" %9s %9s %9s %7s %6s %8s %7s %7s %7s\n", "size", "resized", "grid", "patches", "tokens", "segments", "windows",
         "GFLOP", "time");
  for (size_t i = 0; i < estimate->sources.count; i++) {
    print_name(estimate->sources.items[i], width);
    print_image(estimate, &estimate->images[i]);
  }
  if (estimate->sources.count > 1) {
    print_name("total", width);
    print_row(estimate, "", "", "", &estimate->total);
  }
  printf(
      "\nSizes are width x height, the grid is time x rows x columns of patches. Attention stays inside\n"
      "segments, in windowed layers inside windows. The time is an estimate: the tower's at %.0f %% of the\n"
      "%.0f GFLOP/s that were just measured on %d thread%s (%s).\n",
      estimate->efficiency * 100, estimate->peaks.best, estimate->model.n_threads, ommai_plural(estimate->model.n_threads),
      estimate->peak_type);
  if (doubt) {
    printf("Measurements ranged from %.0f to %.0f GFLOP/s: %s, so the time is a\nrough estimate.\n", estimate->peaks.lowest,
           estimate->peaks.best, doubt);
  }
  putchar('\n');
  ommai_print_model(stdout, &estimate->model);
  ommai_print_memory_estimate(stdout, &estimate->memory);
  print_engines(estimate);
  ommai_print_free_memory(stdout);
  ommai_weight_choices_print(&estimate->choices);
  doubt = ommai_readings_doubt(&estimate->reads);
  if (doubt) {
    printf("  Measurements ranged from %.1f to %.1f GB/s: %s, so these are\n  rough estimates.\n", estimate->reads.lowest,
           estimate->reads.best, doubt);
  }
  return ommai_finish_output();
}

/* Images that no engine with this memory would take. */
static void warn_of_images(const struct omma_model *model, const struct estimate *estimate) {
  char advice[200];
  for (size_t i = 0; i < estimate->sources.count; i++) {
    int64_t n_tokens = estimate->images[i].n_tokens;
    if (n_tokens < estimate->memory.max_model_len) continue;
    ommai_room_advise(model, &estimate->memory, n_tokens, 1, n_tokens, advice, sizeof advice);
    ommai_warn("plan: %s: its %lld tokens do not fit, prompt and answer may have %lld: %s", estimate->sources.items[i],
               (long long)n_tokens, (long long)estimate->memory.max_model_len, advice);
  }
}

static int estimate_and_print(const struct values *values, struct estimate *estimate) {
  struct omma_model *model = NULL;
  size_t count = estimate->sources.count;
  estimate->images = ommai_allocate(&ommai_default_allocator, count, sizeof *estimate->images);
  if (!estimate->images) return ommai_failed("plan: out of memory: a list of %zu images", count);
  int code = ommai_open_model(&values->common, true, &model);
  if (code == OMMAI_EXIT_DONE) code = size_images(model, values, estimate);
  if (code == OMMAI_EXIT_DONE) code = estimate_cost(model, values, estimate);
  if (code == OMMAI_EXIT_DONE) code = values->common.json ? print_json(estimate) : print_table(estimate);
  if (code == OMMAI_EXIT_DONE) {
    ommai_room_warn_of_weights(model);
    ommai_room_warn_of_total(model, &estimate->memory, OMMAI_ROOM_OPTIONS_OF_PLANNING);
    ommai_room_warn_of_context(model, &estimate->memory);
    warn_of_images(model, estimate);
  }
  omma_model_close(model);
  ommai_release(&ommai_default_allocator, estimate->images, count, sizeof *estimate->images);
  return code;
}

/* The directory of a model that may be given as its config.json. */
static const char *model_directory(const char *model, char *out, size_t size) {
  const char *name = ommai_path_name(model);
  if (strcmp(name, CONFIG) != 0 || !ommai_file_exists(model)) return model;
  snprintf(out, size, "%.*s", (int)(name - model), model);
  return *out ? out : ".";
}

static int run_plan(const void *given, const struct ommai_strings *arguments) {
  struct values values = *(const struct values *)given;
  const char *usual = USUAL_SIZE;
  char directory[OMMAI_MAX_PATH];
  struct estimate estimate = {.sources = *arguments};
  OMMAI_TRY_CODE(ommai_common_take_model_of("plan", OMMAI_FURTHER_FILES, &estimate.sources, &values.common));
  OMMAI_TRY_CODE(ommai_common_read_engines("plan", values.data_parallel, &values.common.n_engines));
  if (values.common.model) values.common.model = model_directory(values.common.model, directory, sizeof directory);
  if (!estimate.sources.count) estimate.sources = (struct ommai_strings){&usual, 1, 1};
  return estimate_and_print(&values, &estimate);
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_INTEGER("frames", frames, "N", 1, OMMA_MAX_VIDEO_FRAMES,
                  "plan videos of this many frames instead of images, each frame as large as the image",
                  .otherwise = "no video"),
    OMMAI_INTEGER("max-num-seqs", max_num_seqs, "N", 1, 1024, "number of requests at the same time, each with one such image",
                  .otherwise = "as omma serve", .elsewhere = "-np --parallel", .errors = "max_sequences"),
    OMMAI_STRING("data-parallel-size", data_parallel, "N",
                 "plan that many engines in one process (1 to 64), or one for each NUMA node (auto), as omma serve has them; "
                 "the memory is that of all, --threads and the options of memory are those of each",
                 .letters = "dp", .initial = "1"),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Plan", table);

const struct ommai_command ommai_command_plan = {
    .name = "plan",
    .summary = "tokens, memory and time to expect of images and videos, before anything is run",
    .arguments = "[DIR] [IMAGE-or-WxH...]",
    .details =
        "Prints, before anything is run, what images become: size after resize, grid of patches, tokens, segments and windows "
        "of attention, the model's shape and memory, floating-point operations of the vision tower and an estimate of its time "
        "from a short measurement of this machine. Then, for f32, bf16, int8 and int4 each, the memory, the time to load and "
        "the tokens per second to expect. An image is a file, a data: URL, - for standard input, or just a size; without "
        "any " USUAL_SIZE " is planned. DIR is the model, as with --model; its " CONFIG
        " is enough: where preprocessor_config.json is missing, the "
        "values published with the family's checkpoints are taken, and the output states it.",
    .examples = {"omma plan models/my-model photo.jpg 1920x1080 --max-pixels 1M",
                 "omma plan models/my-model 1280x720 --frames 32 --max-num-seqs 4"},
    .groups = {&options, &ommai_output_options, &ommai_image_options, &ommai_model_options, &ommai_weight_options,
               &ommai_engine_options, &ommai_machine_options},
    .values_size = sizeof(struct values),
    .max_arguments = SIZE_MAX,
    .run = run_plan,
};
