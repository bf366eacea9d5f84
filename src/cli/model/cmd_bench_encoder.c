/* omma bench encoder: images through a model's vision tower, compared with the peak of the same
 * threads in the same run, with what the parts take, the memory compared with the estimate,
 * and packed passes compared with one image after another. */
#include <omma/omma.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/plural.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/format.h"
#include "cli/core/json_out.h"
#include "cli/core/memory_use.h"
#include "cli/core/progress.h"
#include "cli/model/bench_inputs.h"
#include "cli/model/bench_times.h"
#include "cli/model/model_options.h"

#define MAX_SIZES 256
#define MAX_BATCH 4096
#define MAX_SLICE_MS 60000
#define SIZE_TEXT 32

struct values {
  struct ommai_bench_runs runs;
  const char *sizes;
  int64_t batch, slice_ms;
};

/* The ways of running the images: in passes of several, or each in a pass of its own. */
enum way { PACKED, SEPARATE, N_WAYS };

/* What one run of the command owns. An image of each size stands `batch` times in `images`. */
struct bench {
  const struct values *values;
  struct omma_image *sized_images[MAX_SIZES];
  struct omma_image_sizes sizes[MAX_SIZES];
  size_t n_sizes, n_images;
  const struct omma_image **images; /* [n_images] */
  struct omma_model *model;
  struct omma_model_info info;
  struct omma_engine *engine;
  int64_t n_patches, n_tokens, estimated_bytes;
  int64_t peak_bytes, code_bytes; /* taken at most besides weights and code; code. -1: unknown */
  double flops;
  /* before the runs, after each of the first ones, after the last */
  struct ommai_readings peaks;             /* GFLOP/s */
  double times[N_WAYS][OMMAI_MAX_RUNS];    /* sorted in the end */
  struct omma_encode_timings best[N_WAYS]; /* of the shortest run */
};

static double times_peak(const struct bench *bench) { return bench->times[PACKED][0] * bench->peaks.best * 1e9 / bench->flops; }

/* Why the comparison with the peak cannot be relied on; NULL: nothing speaks against it. int8
 * layers have a peak of their own. */
static const char *peak_doubt(const struct bench *bench) {
  if (times_peak(bench) < 1 && strcmp(bench->info.vision_weights, "int8") != 0) {
    return "every reading of the peak was disturbed: the tower was faster";
  }
  return ommai_readings_doubt(&bench->peaks);
}

static int n_ways(const struct bench *bench) { return bench->values->batch > 1 ? N_WAYS : 1; }

/* ---- images ---------------------------------------------------------------------------------- */

/* The sizes of the command line, into `sizes`. */
static int parse_sizes(struct bench *bench) {
  for (const char *text = bench->values->sizes;; text++) {
    char entry[SIZE_TEXT];
    size_t length = strcspn(text, ",");
    struct omma_image_sizes *sizes = &bench->sizes[bench->n_sizes];
    snprintf(entry, sizeof entry, "%.*s", (int)(length < sizeof entry ? length : sizeof entry), text);
    if (!ommai_parse_image_size(entry, &sizes->width, &sizes->height) || sizes->width < 1 || sizes->height < 1) {
      return ommai_usage_error("bench encoder: --image-size: '%s' is not a size: expected WIDTHxHEIGHT", entry);
    }
    bench->n_sizes++;
    text += length;
    if (!*text) return OMMAI_EXIT_DONE;
    if (bench->n_sizes == MAX_SIZES) return ommai_usage_error("bench encoder: --image-size: more than %d sizes", MAX_SIZES);
  }
}

static int make_size(struct bench *bench, size_t index) {
  struct omma_error error;
  struct omma_image_options limits = ommai_common_image_options(&bench->values->runs.common);
  struct omma_image_sizes *sizes = &bench->sizes[index];
  int32_t width = sizes->width, height = sizes->height;
  if (omma_model_image_sizes(bench->model, width, height, &limits, sizes, &error) != OMMA_OK) {
    ommai_error_prefix(&error, "%dx%d", (int)width, (int)height);
    return ommai_failed_call(&error);
  }
  return ommai_noise_image(width, height, (uint64_t)bench->values->runs.seed + index, &bench->sized_images[index]);
}

static int make_images(struct bench *bench) {
  for (size_t i = 0; i < bench->n_sizes; i++) {
    OMMAI_TRY_CODE(make_size(bench, i));
  }
  size_t batch = (size_t)bench->values->batch;
  bench->n_images = bench->n_sizes * batch;
  bench->images = ommai_allocate(&ommai_default_allocator, bench->n_images, sizeof(struct omma_image *));
  if (!bench->images) return ommai_failed("bench encoder: out of memory: a list of %zu images", bench->n_images);
  for (size_t i = 0; i < bench->n_images; i++) {
    const struct omma_image_sizes *sizes = &bench->sizes[i % bench->n_sizes];
    bench->images[i] = bench->sized_images[i % bench->n_sizes];
    bench->n_patches += sizes->n_patches;
    bench->n_tokens += sizes->n_tokens;
    bench->flops += sizes->flops;
  }
  return OMMAI_EXIT_DONE;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The workspace of the largest pass, that of the largest resize, and every image's pixels and
 * embeddings: all are kept until the end. */
static int estimate_memory(struct bench *bench) {
  struct omma_memory_estimate estimate;
  struct omma_error error;
  int64_t largest = 0, resize = 0;
  for (size_t i = 0; i < bench->n_sizes; i++) {
    resize = ommai_max_i64(resize, bench->sizes[i].resize_bytes);
    if (omma_estimate_memory(bench->model, NULL, bench->sizes[i].n_patches, &estimate, &error) != OMMA_OK)
      return ommai_failed_call(&error);
    bench->estimated_bytes += estimate.request_bytes * bench->values->batch;
    largest = ommai_max_i64(largest, bench->sizes[i].n_patches);
  }
  int64_t pass = ommai_max_i64(largest, ommai_min_i64(bench->n_patches, OMMA_DEFAULT_PATCH_BUDGET));
  if (omma_estimate_memory(bench->model, NULL, pass, &estimate, &error) != OMMA_OK) return ommai_failed_call(&error);
  /* It lies at the beginning of a workspace for larger passes, which is in huge pages. */
  bench->estimated_bytes += ommai_round_up(estimate.vision_workspace_bytes, (int64_t)OMMAI_HUGE_PAGE) + resize;
  return OMMAI_EXIT_DONE;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static int run_once(struct bench *bench, enum way way, struct omma_encode_timings *timings) {
  struct omma_error error;
  struct omma_embeddings *embeddings;
  struct omma_image_options limits = ommai_common_image_options(&bench->values->runs.common);
  struct ommai_progress progress;
  ommai_progress_begin(&progress, way == PACKED ? "encoding together" : "encoding one by one");
  enum omma_status status = omma_encode(bench->engine, bench->images, bench->n_images, &limits, way == PACKED,
                                        ommai_progress_update, &progress, &embeddings, &error);
  ommai_progress_end(&progress);
  if (status != OMMA_OK) return ommai_failed_call(&error);
  omma_embeddings_get_timings(embeddings, timings);
  omma_embeddings_destroy(embeddings);
  ommai_trim(); /* one run's results do not count as the next run's */
  return OMMAI_EXIT_DONE;
}

static int read_peak(struct bench *bench) {
  double gflops;
  int code =
      ommai_measure_peak(bench->info.isa, bench->info.n_threads, strcmp(bench->info.vision_weights, "f32") != 0, &gflops);
  if (code == OMMAI_EXIT_DONE) ommai_readings_add(&bench->peaks, gflops);
  return code;
}

/* One round: every way once. */
static int run_round(struct bench *bench, int64_t round) {
  int code = OMMAI_EXIT_DONE;
  for (int way = PACKED; way < n_ways(bench) && code == OMMAI_EXIT_DONE; way++) {
    struct omma_encode_timings timings;
    code = run_once(bench, way, &timings);
    if (code != OMMAI_EXIT_DONE || round < 0) continue;
    bench->times[way][round] = timings.total;
    if (round == 0 || timings.total < bench->best[way].total) bench->best[way] = timings;
  }
  return code;
}

/* Code is not in the estimate: what pages of libraries are used is known to them alone. None of it
 * goes before the end. */
static void read_memory(struct bench *bench, int64_t held, int64_t code_held) {
  int64_t peak = ommai_memory_peak_since(held), code = ommai_memory_of_code();
  bool known = peak >= 0 && code >= 0 && code_held >= 0;
  bench->code_bytes = known ? ommai_max_i64(code - code_held, 0) : -1;
  bench->peak_bytes = known ? ommai_max_i64(peak - bench->code_bytes, 0) : -1;
}

/* The peak is read again and again, so that neither a clock that rose meanwhile nor another program
 * flatters the tower. */
static int measure(struct bench *bench) {
  struct omma_error error;
  const struct omma_engine_options engine = {.slice_ms = bench->values->slice_ms, .max_sequences = 1};
  if (omma_engine_create(bench->model, &engine, &bench->engine, &error) != OMMA_OK) return ommai_failed_call(&error);
  int code = read_peak(bench);
  int64_t code_held = ommai_memory_of_code(), held = ommai_memory_watch();
  for (int64_t round = -bench->values->runs.warmup; round < bench->values->runs.repeat && code == OMMAI_EXIT_DONE; round++) {
    code = run_round(bench, round);
    bool last = round + 1 == bench->values->runs.repeat;
    if (code == OMMAI_EXIT_DONE && (last || bench->peaks.n + 1 < OMMAI_MAX_READINGS)) code = read_peak(bench);
  }
  read_memory(bench, held, code_held);
  for (int way = PACKED; way < N_WAYS; way++) ommai_times_sort(bench->times[way], (size_t)bench->values->runs.repeat);
  return code;
}

/* ---- output ---------------------------------------------------------------------------------- */

static void put_parts(struct ommai_text *out, const struct omma_encode_timings *timings) {
  ommai_put_begin(out, "parts", "{");
  OMMAI_PUT_REALS(out, {"preprocess", timings->preprocess * 1e3}, {"patch_embed", timings->patch_embed * 1e3},
                  {"attention", timings->attention * 1e3}, {"linear", timings->linear * 1e3}, {"rest", timings->rest * 1e3});
  ommai_put_end(out, "}");
}

static double median(const struct bench *bench, enum way way) {
  return ommai_times_median(bench->times[way], (size_t)bench->values->runs.repeat);
}

static double rate(const struct bench *bench, enum way way) { return (double)bench->n_images / bench->times[way][0]; }

/* The other way of running the same images; null for a single one. */
static void put_separate(struct ommai_text *out, const struct bench *bench) {
  if (n_ways(bench) == 1) {
    ommai_put_null(out, "separate");
    return;
  }
  ommai_put_begin(out, "separate", "{");
  OMMAI_PUT_REALS(out, {"ms_min", bench->times[SEPARATE][0] * 1e3}, {"ms_median", median(bench, SEPARATE) * 1e3},
                  {"images_per_s", rate(bench, SEPARATE)});
  put_parts(out, &bench->best[SEPARATE]);
  ommai_put_real(out, "packed_is_faster_by", rate(bench, PACKED) / rate(bench, SEPARATE));
  ommai_put_end(out, "}");
}

static int print_json(const struct bench *bench) {
  struct ommai_text out = ommai_json_begin();
  OMMAI_PUT_REALS(&out, {"ms_min", bench->times[PACKED][0] * 1e3}, {"ms_median", median(bench, PACKED) * 1e3});
  put_parts(&out, &bench->best[PACKED]);
  ommai_put_begin(&out, "slices", "{");
  ommai_put_integer(&out, "number", bench->best[PACKED].n_slices);
  ommai_put_real(&out, "ms_longest", bench->best[PACKED].longest_slice * 1e3);
  ommai_put_end(&out, "}");
  OMMAI_PUT_REALS(&out, {"flops", bench->flops}, {"peak_gflops", bench->peaks.best});
  ommai_put_reals(&out, "peaks", bench->peaks.values, bench->peaks.n);
  ommai_put_string(&out, "peak_note", peak_doubt(bench));
  ommai_put_real(&out, "times_peak", times_peak(bench));
  OMMAI_PUT_INTEGERS(&out, {"estimated_bytes", bench->estimated_bytes}, {"peak_bytes", bench->peak_bytes},
                     {"code_bytes", bench->code_bytes});
  put_separate(&out, bench);
  ommai_put_real(&out, "images_per_s", rate(bench, PACKED));
  OMMAI_PUT_INTEGERS(&out, {"n_images", (int64_t)bench->n_images}, {"n_patches", bench->n_patches},
                     {"n_tokens", bench->n_tokens}, {"threads", bench->info.n_threads});
  OMMAI_PUT_STRINGS(&out, {"isa", bench->info.isa}, {"vision_weights", bench->info.vision_weights});
  OMMAI_PUT_INTEGERS(&out, {"runs", bench->values->runs.repeat}, {"weight_bytes", bench->info.weight_bytes});
  return ommai_json_end(&out);
}

static void print_part(const char *name, double seconds, double total) {
  printf("    %-24s%10.1f ms %6.1f %%\n", name, seconds * 1e3, 100 * seconds / total);
}

static void print_parts(const struct omma_encode_timings *timings) {
  print_part("preprocess", timings->preprocess, timings->total);
  print_part("patch_embed", timings->patch_embed, timings->total);
  print_part("attention", timings->attention, timings->total);
  print_part("linear", timings->linear, timings->total);
  print_part("rest", timings->rest, timings->total);
  printf("    %-24s%10.1f ms, of %lld\n", "longest slice", timings->longest_slice * 1e3, (long long)timings->n_slices);
}

static void print_memory(const struct bench *bench) {
  char estimated[32], peak[32], code[32];
  ommai_format_bytes(bench->estimated_bytes, estimated, sizeof estimated);
  if (bench->peak_bytes < 0) {
    ommai_print_fact(stdout, "memory besides weights", "unknown, estimated %s", estimated);
    return;
  }
  ommai_print_fact(stdout, "memory besides weights", "%s, estimated %s",
                   ommai_format_bytes(bench->peak_bytes, peak, sizeof peak), estimated);
  ommai_print_fact(stdout, "code, not in the estimate", "%s", ommai_format_bytes(bench->code_bytes, code, sizeof code));
}

static int print_table(const struct bench *bench) {
  double best = bench->times[PACKED][0];
  const char *doubt = peak_doubt(bench);
  ommai_print_fact(stdout, "tower", "%s in %s on %d thread%s, %s", bench->info.model_type, bench->info.vision_weights,
                   bench->info.n_threads, ommai_plural(bench->info.n_threads), bench->info.isa);
  ommai_print_fact(stdout, "work", "%zu image%s, %lld patches, %lld token%s, %.4g GFLOP", bench->n_images,
                   ommai_plural((int64_t)bench->n_images), (long long)bench->n_patches, (long long)bench->n_tokens,
                   ommai_plural(bench->n_tokens), bench->flops * 1e-9);
  ommai_print_fact(stdout, "time", "%.1f ms at best, %.1f ms median of %lld run%s", best * 1e3, median(bench, PACKED) * 1e3,
                   (long long)bench->values->runs.repeat, ommai_plural(bench->values->runs.repeat));
  print_parts(&bench->best[PACKED]);
  ommai_print_fact(stdout, "against the peak", "%.2f times the time at %.1f GFLOP/s, reached %.1f", times_peak(bench),
                   bench->peaks.best, bench->flops / best * 1e-9);
  if (doubt) {
    ommai_print_fact(stdout, "readings of the peak", "%zu, from %.1f to %.1f GFLOP/s: %s", bench->peaks.n, bench->peaks.lowest,
                     bench->peaks.best, doubt);
  }
  if (n_ways(bench) > 1) {
    ommai_print_fact(stdout, "images a second", "%.2f packed, %.2f one by one: %.2f times", rate(bench, PACKED),
                     rate(bench, SEPARATE), rate(bench, PACKED) / rate(bench, SEPARATE));
  }
  print_memory(bench);
  return ommai_finish_output();
}

/* ---- command --------------------------------------------------------------------------------- */

static void release(struct bench *bench) {
  omma_engine_destroy(bench->engine);
  omma_model_close(bench->model);
  for (size_t i = 0; i < bench->n_sizes; i++) omma_image_destroy(bench->sized_images[i]);
  ommai_release(&ommai_default_allocator, bench->images, bench->n_images, sizeof(struct omma_image *));
  ommai_release(&ommai_default_allocator, bench, 1, sizeof *bench);
}

static int run_bench_encoder(const void *given, const struct ommai_strings *arguments) {
  const struct values *values = given;
  struct bench *bench = ommai_allocate(&ommai_default_allocator, 1, sizeof *bench);
  if (!bench) return ommai_failed("bench encoder: out of memory");
  struct ommai_common common = values->runs.common;
  int code = ommai_common_take_model("bench encoder", arguments, &common);
  /* Nothing is generated: the smallest context keeps the engine's memory for keys and values
   * small. */
  common.max_model_len = OMMA_ATTENTION_PAGE_TOKENS;
  common.no_chat = true;
  bench->values = values;
  if (code == OMMAI_EXIT_DONE) code = parse_sizes(bench);
  if (code == OMMAI_EXIT_DONE) code = ommai_open_model(&common, false, &bench->model);
  if (code == OMMAI_EXIT_DONE) {
    omma_model_get_info(bench->model, &bench->info);
    code = make_images(bench);
  }
  if (code == OMMAI_EXIT_DONE) code = estimate_memory(bench);
  if (code == OMMAI_EXIT_DONE) code = measure(bench);
  if (code == OMMAI_EXIT_DONE) code = values->runs.common.json ? print_json(bench) : print_table(bench);
  ommai_common_note_cpu(&common);
  release(bench);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_STRING("image-size", sizes, "WxH,...", "sizes of the images, before the model's own resizing",
                 .initial = "1024x1024"),
    OMMAI_INTEGER("batch", batch, "N", 1, MAX_BATCH,
                  "number of images of each size; several are also run one by one, to compare", .initial = "1"),
    OMMAI_INTEGER("slice-ms", slice_ms, "MS", 1, MAX_SLICE_MS,
                  "length in ms of a slice of the tower's work, after which other work could run; the longest slice is shown",
                  .initial = "1000"),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Work", table);

const struct ommai_command ommai_command_bench_encoder = {
    .name = "bench encoder",
    .summary = "speed and memory of a model's vision tower compared with this machine's peak",
    .arguments = "[DIR] [--image-size WxH,...] [--batch N]",
    .details =
        "Runs images of noise through the vision tower, from pixels in memory to embeddings, and compares the best time with "
        "that of the same floating-point operations at the machine's peak, which the same threads reach from registers in the "
        "same run. Prints the time of each part of the best run, and the peak memory besides the weights next to the estimate; "
        "the code of the program and its libraries is not in the estimate and is printed separately. Several images are "
        "run in packed passes and one by one, in turns.",
    .examples = {"omma bench encoder models/my-model --image-size 256x256 --batch 64"},
    .groups = {&options, &ommai_bench_run_options, &ommai_output_options, &ommai_image_options, &ommai_model_options,
               &ommai_weight_options, &ommai_machine_options},
    .values_size = sizeof(struct values),
    .max_arguments = 1,
    .run = run_bench_encoder,
};
